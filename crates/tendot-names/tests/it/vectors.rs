//! Conformance vectors, with an exact list of expected failures.
//!
//! A case of `conformance/vectors/names*.jsonl` that begins to pass must be removed from `expected_failures.txt`.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::path::Path;

use serde_json::Value;
use tendot_names::{Doi, DoiOrShortDoi, Extractor, OutputForm, Parser, SyntaxRules, repair};

#[test]
fn vectors() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance");
    let cases = ["names.jsonl", "names-more.jsonl"]
        .map(|file| std::fs::read_to_string(folder.join("vectors").join(file)).unwrap())
        .concat();
    let expected = std::fs::read_to_string(folder.join("expected_failures.txt")).unwrap();
    let expected: BTreeSet<&str> =
        expected.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();

    let mut failed = BTreeSet::new();
    let mut report = String::new();
    let mut count = 0;
    for line in cases.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let differences = check(&case);
        count += 1;
        if !differences.is_empty() {
            let name = case["case"].as_str().unwrap();
            failed.insert(name.to_owned());
            report.push_str(&format!("{name} {}: {}\n", case["input"], differences.join("; ")));
        }
    }
    assert!(count >= 340, "only {count} cases were read");
    let failed: BTreeSet<&str> = failed.iter().map(String::as_str).collect();
    assert_eq!(failed, expected, "failing cases differ from expected_failures.txt\n{report}");
}

/// Differences between a case and its expectation.
fn check(case: &Value) -> Vec<String> {
    let expect = &case["expect"];
    let input = case["input"].as_str().unwrap_or_default();
    let mut differences = Vec::new();
    let mut compare = |what: &str, expected: &Value, actual: Value| {
        if *expected != actual {
            differences.push(format!("{what}: expected {expected}, got {actual}"));
        }
    };
    match case["class"].as_str().unwrap() {
        "name-valid" | "name-invalid" => {
            for rules in SyntaxRules::ALL {
                let actual = match Doi::with_rules(input, rules) {
                    Ok(_) => "ok".to_owned(),
                    Err(error) => format!("{:?}", error.kind()),
                };
                compare(rules.as_str(), &expect[rules.as_str()], actual.into());
            }
            if let Some(prefix) = expect.get("prefix") {
                let doi = Doi::with_rules(input, SyntaxRules::Minimal2002).unwrap();
                compare("prefix", prefix, doi.prefix().into());
                compare("suffix", &expect["suffix"], doi.suffix().into());
            }
        }
        "bytes-invalid" => {
            let bytes = decode_hex(case["input_hex"].as_str().unwrap());
            let error = Doi::from_bytes(&bytes).unwrap_err();
            compare("from_bytes", &expect["from_bytes"], format!("{:?}", error.kind()).into());
        }
        "form" => {
            for (mode, parser) in [("strict", Parser::strict()), ("lenient", Parser::lenient())] {
                compare(mode, &expect[mode], parse_to_json(parser, input));
            }
        }
        "encode" => check_encode(input, expect, &mut compare),
        "canonical2003" => {
            let parsed = Parser::strict().rules(SyntaxRules::Minimal2002).parse(input).unwrap();
            let formatted = parsed.doi().unwrap().format(OutputForm::Uri2003).unwrap();
            compare("canonical2003", &expect["canonical2003"], to_json_string(formatted));
        }
        "equivalence" => {
            let identifiers: Vec<DoiOrShortDoi<'_>> = case["input"]
                .as_array()
                .unwrap()
                .iter()
                .map(|input| Parser::lenient().parse(input.as_str().unwrap()).unwrap().into_identifier())
                .collect();
            compare("equal", &expect["equal"], (identifiers[0] == identifiers[1]).into());
        }
        "extract" => {
            for (mode, extractor) in [
                ("text-default", Extractor::new()),
                ("join-lines", Extractor::new().join_lines(true)),
                ("keep-tails", Extractor::new().keep_publisher_tails(true)),
            ] {
                if let Some(expected) = expect.get(mode) {
                    let found: Vec<String> =
                        extractor.find_iter(input.as_bytes()).map(|found| found.doi.to_string()).collect();
                    compare(mode, expected, found.into());
                }
            }
        }
        "repair" => {
            let repaired = repair(input).map(|repaired| repaired.identifier.as_str().to_owned());
            compare("repair", &expect["repair"], repaired.into());
        }
        class => panic!("unknown class {class}"),
    }
    differences
}

/// Compares the output forms of a DOI, and parses them again.
fn check_encode(input: &str, expect: &Value, compare: &mut impl FnMut(&str, &Value, Value)) {
    let doi = Doi::new(input).unwrap();
    for (key, form) in [
        ("doi_uri", OutputForm::Uri),
        ("urn", OutputForm::Urn),
        ("url_mandatory", OutputForm::UrlMinimal),
        ("url_recommended", OutputForm::Url),
        ("canonical2003", OutputForm::Uri2003),
    ] {
        compare(key, &expect[key], to_json_string(doi.format(form).unwrap()));
    }
    for form in [
        OutputForm::Uri,
        OutputForm::Uri202411,
        OutputForm::Urn,
        OutputForm::Url,
        OutputForm::UrlMinimal,
        OutputForm::UrlFull,
        OutputForm::Info,
    ] {
        let formatted = doi.format(form).unwrap().to_string();
        let back = parse_to_json(Parser::strict(), &formatted);
        compare(form.as_str(), &back["name"], input.into());
    }
}

fn parse_to_json(parser: Parser, input: &str) -> Value {
    match parser.parse(input) {
        Ok(parsed) => {
            let kind = if parsed.doi().is_some() { "doi" } else { "short" };
            let (name, form) = (parsed.identifier().as_str(), parsed.input_form().as_str());
            serde_json::json!({"kind": kind, "name": name, "form": form})
        }
        Err(error) => serde_json::json!({"error": format!("{:?}", error.kind())}),
    }
}

fn to_json_string(text: impl Display) -> Value {
    text.to_string().into()
}

fn decode_hex(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|index| u8::from_str_radix(&hex[index..index + 2], 16).unwrap()).collect()
}
