//! The examples of this crate and their output.

#![allow(dead_code, reason = "`cargo run` calls `main`")]

#[path = "../../examples/compare.rs"]
mod compare;
#[path = "../../examples/extract_file.rs"]
mod extract_file;
#[path = "../../examples/format.rs"]
mod format;
#[path = "../../examples/parse.rs"]
mod parse;
#[path = "../../examples/repair_column.rs"]
mod repair_column;

#[test]
fn parse() {
    let check = |input, expected| assert_eq!(parse::describe(input).unwrap(), expected);
    check(
        "DOI: https://dx.doi.org/10.1000%2F182",
        "10.1000/182 (DOI, proxy-url; whitespace-trimmed, label-removed)",
    );
    check("10/gf4gqc", "10/gf4gqc (shortDOI, name)");
    assert_eq!(parse::describe("10.10O0/1").unwrap_err().offset(), 5);
}

#[test]
fn format() {
    let lines = format::format_all("doi:10.1000/456%23789").unwrap();
    assert_eq!(lines.lines().count(), 12, "all forms but `urn:eidr:`");
    assert!(lines.starts_with("name         10.1000/456#789\ncanonical    10.1000/456#789\n"), "{lines}");
    assert!(lines.contains("url          https://doi.org/10.1000/456%23789\n"), "{lines}");
    assert_eq!(
        format::format_all("10.1000").unwrap_err().to_string(),
        "missing `/` between prefix and suffix (at byte 7)"
    );
}

#[test]
fn compare() {
    let unique = compare::unique(["10.1000/ABC", "https://doi.org/10.1000/abc", "10.1000/182"]).unwrap();
    assert_eq!(unique.iter().map(|doi| doi.as_str()).collect::<Vec<_>>(), ["10.1000/182", "10.1000/ABC"]);
    assert!(compare::unique(["10/gf4gqc"]).is_err());
}

#[test]
fn extract_file() {
    // Larger than a chunk, and one DOI crosses the boundary.
    let padding = "x ".repeat((1 << 15) - 23);
    let text = format!("(10.1130/2013.2502(04)). {padding}https://doi.org/10.1002/asi.20001/full\n");
    let text = [text.as_bytes(), b"\xFF"].concat();
    let mut output = Vec::new();
    extract_file::extract(&text[..], &mut output).unwrap();
    let second = 25 + padding.len() + "https://doi.org/".len();
    let expected = format!("1\t10.1130/2013.2502(04)\n{second}\t10.1002/asi.20001/full\n");
    assert_eq!(String::from_utf8(output).unwrap(), expected);
}

#[test]
fn repair_column() {
    let rows = "1\t10.1000/182\n2\tdoi:10.1126/science.1255642.pmid:26068859\n3\tnone\n4\n";
    let mut output = Vec::new();
    let counts = repair_column::repair_column(rows.as_bytes(), 2, &mut output).unwrap();
    assert_eq!(counts, repair_column::RepairCounts { repaired: 1, without_doi: 2 });
    let expected = "1\t10.1000/182\n2\t10.1126/science.1255642\n3\tnone\n4\n";
    assert_eq!(String::from_utf8(output).unwrap(), expected);
}
