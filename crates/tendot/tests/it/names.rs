//! `tendot name`, `same` and `extract`: output, exit codes and memory use.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::process::{Output, Stdio};

use tendot_testing::{peak_memory, repetitions, status_bytes};

use crate::support::{TestDir, output_with_input, tendot};

fn run(arguments: &[&str], input: &[u8]) -> Output {
    output_with_input(tendot().args(arguments), input)
}

#[track_caller]
pub(crate) fn check(arguments: &[&str], input: &str, code: i32, stdout: &str, stderr: &str) {
    let output = run(arguments, input.as_bytes());
    assert_eq!(String::from_utf8_lossy(&output.stdout), stdout, "{arguments:?}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), stderr, "{arguments:?}");
    assert_eq!(output.status.code(), Some(code), "{arguments:?}");
}

#[test]
fn name_prints_details() {
    check(
        &["name", " DOI: https://dx.doi.org/10.1000%2F456%23789"],
        "",
        0,
        "\
10.1000/456#789
  type            DOI name
  input form      proxy-url
  prefix          10.1000
  suffix          456#789
  canonical       10.1000/456#789
  url             https://doi.org/10.1000/456%23789
  uri             doi:10.1000/456%23789
  uri-2024-11     doi:10.1000/456%23789
  uri-2003        doi:10.1000/456%23789
  urn             urn:doi:10.1000/456%23789
  info            info:doi/10.1000/456%23789
  valid under     current, z3984, minimal2002
  adjusted        whitespace-trimmed, label-removed
",
        "",
    );
}

#[test]
fn name_reads_lines() {
    check(
        &["name", "--as", "canonical"],
        "doi:10.1000/abc\r\nfoo\n\nhttps://doi.org/10.1000/d%C3%A9f",
        1,
        "10.1000/ABC\n\n\n10.1000/DéF\n",
        "error: invalid DOI name `foo`: missing `/` between prefix and suffix (at byte 3)\n\
         error: invalid DOI name ``: empty input (at byte 0)\n",
    );
}

#[test]
fn name_in_every_form() {
    let name = "10.5240/7791-8534(x)/é<1>";
    for (form, expected) in [
        ("name", "10.5240/7791-8534(x)/é<1>"),
        ("canonical", "10.5240/7791-8534(X)/é<1>"),
        ("uri", "doi:10.5240/7791-8534%28x%29/%C3%A9%3C1%3E"),
        ("uri-2024-11", "doi:10.5240/7791-8534(x)%2F%C3%A9%3C1%3E"),
        ("uri-2003", "doi:10.5240/7791-8534(X)/%C3%A9%3C1%3E"),
        ("urn", "urn:doi:10.5240/7791-8534%28x%29/%C3%A9%3C1%3E"),
        ("url", "https://doi.org/10.5240/7791-8534(x)/%C3%A9%3C1%3E"),
        ("url-minimal", "https://doi.org/10.5240/7791-8534(x)/%C3%A9<1>"),
        ("url-full", "https://doi.org/10.5240/7791-8534%28x%29/%C3%A9%3C1%3E"),
        ("info", "info:doi/10.5240/7791-8534%28x%29/%C3%A9%3C1%3E"),
        ("display", "doi:10.5240/7791-8534(x)/é<1>"),
        ("eidr", "urn:eidr:10.5240:7791-8534%28x%29%2F%C3%A9%3C1%3E"),
        (
            "html",
            "<a href=\"https://doi.org/10.5240/7791-8534(x)/%C3%A9%3C1%3E\">doi:10.5240/7791-8534(x)/é&lt;1&gt;</a>",
        ),
    ] {
        check(&["name", "--as", form, name], "", 0, &format!("{expected}\n"), "");
    }
    let error = "error: `10.1000/182` has no `eidr` form\n";
    check(&["name", "--as", "eidr", "10.1000/182"], "", 1, "\n", error);
}

#[test]
fn name_as_json() {
    check(
        &["name", "--json", "10.2505/4/x", "10/ABC"],
        "",
        0,
        concat!(
            r#"{"input":"10.2505/4/x","ok":true,"kind":"doi","form":"name","name":"10.2505/4/x","prefix":"10.2505","#,
            r#""suffix":"4/x","canonical":"10.2505/4/X","uri":"doi:10.2505/4/x","urn":"urn:doi:10.2505/4/x","#,
            r#""url":"https://doi.org/10.2505/4/x","uri_2003":"doi:10.2505/4/X","#,
            r#""url_minimal":"https://doi.org/10.2505/4/x","url_full":"https://doi.org/10.2505/4/x","#,
            r#""rules":{"current":true,"z3984":false,"minimal2002":true},"notes":[]}"#,
            "\n",
            r#"{"input":"10/ABC","ok":true,"kind":"short","form":"name","name":"10/ABC","prefix":"10","suffix":"ABC","#,
            r#""canonical":"10/ABC","uri":"doi:10/ABC","urn":"urn:doi:10/ABC","url":"https://doi.org/10/ABC","#,
            r#""uri_2003":"doi:10/ABC","url_minimal":"https://doi.org/10/ABC","url_full":"https://doi.org/10/ABC","#,
            r#""rules":{"current":false,"z3984":false,"minimal2002":true},"notes":[]}"#,
            "\n"
        ),
        "",
    );
    check(
        &["name", "--json", "--rules", "z3984", "10.2505/4/x"],
        "",
        1,
        concat!(
            r#"{"input":"10.2505/4/x","ok":false,"error":{"code":"reserved-suffix","#,
            r#""message":"reserved suffix: starts with one character and `/` (Z39.84 section 4.3)","at":9}}"#,
            "\n"
        ),
        "error: invalid DOI name `10.2505/4/x`: reserved suffix: starts with one character and `/` (Z39.84 \
         section 4.3) (at byte 9)\n",
    );
}

#[test]
fn repair_reports_removed_text() {
    let output = run(&["name", "--repair", "--json", "10.1126/science.1255642.pmid:26068859"], b"");
    let object: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(object["name"], "10.1126/science.1255642");
    assert_eq!(object["notes"], serde_json::json!(["repaired"]));
    assert_eq!(object["removed"], serde_json::json!({"before": "", "after": ".pmid:26068859"}));
    assert_eq!(output.status.code(), Some(0));
}

/// What `--repair` removes is reported completely, as text of the field.
#[test]
fn repair_reports_all_removed_text() {
    for (field, name, before, after) in [
        ("10.1000/abc.#", "10.1000/abc", "", ".#"),
        ("10.1000/abc.(2019)", "10.1000/abc", "", ".(2019)"),
        ("see <br/>10.1000/abc..(2019)<br>", "10.1000/abc", "see <br/>", "..(2019)<br>"),
        ("https://doi.org/10.1000/abc/full", "10.1000/abc", "https://doi.org/", "/full"),
    ] {
        let output = run(&["name", "--repair", "--json", field], b"");
        let object: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(object["name"], name, "{field}");
        assert_eq!(object["removed"], serde_json::json!({"before": before, "after": after}), "{field}");
        assert_eq!(output.status.code(), Some(0));
    }
}

/// `extract` and `name` agree about the forms that the standards define.
#[test]
fn extract_agrees_with_name_in_standard_forms() {
    let suffixes = ["182/full", "182.pdf", "a%23b", "%23", "a%2C10.1000/b", "APEX.10.065502/meta", "a?b=c"];
    for form in ["https://doi.org/", "http://dx.doi.org/", "doi:", "urn:doi:", "info:doi/", "hdl:"] {
        for suffix in suffixes {
            let input = format!("{form}10.1000/{suffix}");
            let name = run(&["name", "--as", "name", &input], b"");
            let extracted = run(&["extract"], format!("see {input} there").as_bytes());
            assert_eq!(
                String::from_utf8(extracted.stdout).unwrap(),
                String::from_utf8(name.stdout).unwrap(),
                "{input}"
            );
        }
    }
}

#[test]
fn accepts_non_utf8_input() {
    let output =
        tendot().args(["name", "--json"]).arg(OsStr::from_bytes(b"10.1000/\xC0\xAF")).output().unwrap();
    let object: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(object["error"]["code"], "invalid-utf8");
    assert_eq!(object["error"]["at"], 8);
    assert_eq!(output.status.code(), Some(1));

    let output = run(&["extract"], b"\xFF\xFE10.1000/182\xC0 \xE6\x97 10.1000/183\xE6\x97");
    assert_eq!(output.stdout, b"10.1000/182\n10.1000/183\n");
}

#[test]
fn escapes_terminal_control_sequences() {
    let output = run(&["name", "10.1000/\x1B]0;owned\x07"], b"");
    assert!(!output.stderr.contains(&0x1B));
    assert!(String::from_utf8_lossy(&output.stderr).contains("\\u{1b}]0;owned\\u{7}"));
}

#[test]
fn same() {
    check(&["same", "10.123/ABC", "https://doi.org/10.123/AbC"], "", 0, "", "");
    check(
        &["same", "10.1000/a", "10.1000/b"],
        "",
        1,
        "",
        "`10.1000/a` and `10.1000/b` are different DOI names\n",
    );
    // Handles of other prefixes, in every form (statements 62 to 66, 89 and 103).
    check(&["same", "doi:alpha-beta/msws", "ALPHA-beta/MSWS"], "", 0, "", "");
    check(&["same", "urn:doi:20.500.12345/x", "hdl:20.500.12345/X"], "", 0, "", "");
    check(&["same", "DOI:dk/P%C3%A6dagogi%2037(2),%20562", "dk/P\u{e6}dagogi 37(2), 562"], "", 0, "", "");
    check(
        &["same", "doi:dk/caf%E9", "dk/caf"],
        "",
        2,
        "",
        "error: invalid DOI name `doi:dk/caf%E9`: invalid UTF-8 (at byte 10)\n",
    );
    let object = "{\"same\":true,\"a\":\"10.1000/a\",\"b\":\"10.1000/A\"}\n";
    check(&["same", "--json", "10.1000/a", "doi:10.1000/A"], "", 0, object, "");
    check(
        &["same", "10.1000/a", "https://example.org/10.1000/a"],
        "",
        2,
        "",
        "error: invalid DOI name `https://example.org/10.1000/a`: unsupported URL or URN: not a known form of a \
         DOI (at byte 8)\n\nhint: use `tendot extract` to find names inside other URLs\n",
    );
}

/// The URI form tells names apart that look alike.
#[test]
fn statement_022_look_alikes_have_their_uri_beside_them() {
    check(
        &["same", "10.1000/c-d", "10.1000/c\u{2013}d"],
        "",
        1,
        "",
        "`10.1000/c-d` (doi:10.1000/c-d) and `10.1000/c\u{2013}d` (doi:10.1000/c%E2%80%93d) are different names that look \
         alike\n",
    );
    let object = "{\"same\":false,\"a\":\"10.1000/c-d\",\"b\":\"10.1000/c\u{2212}d\",\"a_uri\":\"doi:10.1000/c-d\",\
                  \"b_uri\":\"doi:10.1000/c%E2%88%92d\"}\n";
    let output = run(&["same", "--json", "10.1000/c-d", "10.1000/c\u{2212}d"], b"");
    assert_eq!(String::from_utf8_lossy(&output.stdout), object);
}

#[test]
fn extract_from_standard_input() {
    let text =
        "See (10.1000/182) and\nhttps://onlinelibrary.example/doi/10.1002/asi.20001/full, 10.1000/182.";
    check(&["extract"], text, 0, "10.1000/182\n10.1002/asi.20001\n10.1000/182\n", "");
    check(&["extract", "-"], text, 0, "10.1000/182\n10.1002/asi.20001\n10.1000/182\n", "");
    check(&["extract", "--unique"], text, 0, "10.1000/182\n10.1002/asi.20001\n", "");
    check(&["extract", "--count"], text, 0, "3\n", "");
    check(&["extract", "--count", "--unique", "--json"], text, 0, "{\"count\":2}\n", "");
    check(&["extract", "--keep-tails", "--unique"], text, 0, "10.1000/182\n10.1002/asi.20001/full\n", "");
    check(
        &["extract", "--json"],
        text,
        0,
        concat!(
            r#"{"name":"10.1000/182","path":"-","line":1,"start":5,"end":16,"text":"10.1000/182","flags":[]}"#,
            "\n",
            r#"{"name":"10.1002/asi.20001","path":"-","line":2,"start":56,"end":73,"text":"10.1002/asi.20001","#,
            r#""flags":["in-url","tail-cut"]}"#,
            "\n",
            r#"{"name":"10.1000/182","path":"-","line":2,"start":80,"end":91,"text":"10.1000/182","flags":[]}"#,
            "\n"
        ),
        "",
    );
    check(&["extract"], "nothing here", 1, "", "no DOI name found\n");
    check(&["extract", "--count"], "", 1, "0\n", "no DOI name found\n");
    check(
        &["extract", "--join-lines"],
        "10.1182/blood-2010-10-\n311704.",
        0,
        "10.1182/blood-2010-10-311704\n",
        "",
    );
}

#[test]
fn extract_from_files_and_directories() {
    let dir = TestDir::new();
    let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
    fs::create_dir(dir.path().join("inner")).unwrap();
    write("b.txt", "10.1000/2");
    write("a.txt", "10.1000/1");
    write("inner/c.txt", "10.1000/3");
    write(".hidden", "10.1000/4");
    let path = dir.path().to_str().unwrap();
    check(&["extract", path], "", 0, "10.1000/1\n10.1000/2\n10.1000/3\n", "");
    // An unreadable path is reported, the others are searched.
    let missing = dir.path().join("missing");
    let missing = missing.to_str().unwrap();
    check(
        &["extract", missing, path],
        "",
        2,
        "10.1000/1\n10.1000/2\n10.1000/3\n",
        &format!("error: cannot read `{missing}`: No such file or directory (os error 2)\n"),
    );
    // Standard input between two files.
    let first = dir.path().join("a.txt");
    let last = dir.path().join("b.txt");
    let arguments = ["extract", first.to_str().unwrap(), "-", last.to_str().unwrap()];
    check(&arguments, "10.1000/9", 0, "10.1000/1\n10.1000/9\n10.1000/2\n", "");
}

#[test]
fn extract_from_tables() {
    let dir = TestDir::new();
    for (name, text, expected) in [
        (
            "comma.csv",
            "id,doi,year\n1,10.1000/182,2010\n2,\"10.1000/a,b\",2011\n",
            "10.1000/182\n10.1000/a,b\n",
        ),
        ("semicolon.csv", "id;doi;year\n1;10.1000/182;2010\n", "10.1000/182\n"),
        ("tab.tsv", "id\tdoi\tyear\n1\t10.1000/a,b\t2010\n", "10.1000/a,b\n"),
        ("column.csv", "10.1000/182\n10.1000/183\n", "10.1000/182\n10.1000/183\n"),
        ("text.txt", "10.1000/182,2010\n", "10.1000/182,2010\n"),
        // The delimiter is that of all records, not the most frequent one of the first.
        (
            "headerless.csv",
            "10.1000/abc,Smith; Doe; Roe\n10.1000/def,Miller\n10.1000/ghi,Li; Kim\n",
            "10.1000/abc\n10.1000/def\n10.1000/ghi\n",
        ),
        ("one-record.csv", "10.1000/abc,Smith; Doe; Roe\n", "10.1000/abc\n"),
        ("decimal-comma.csv", "doi;price\n10.1000/a,b;1,50\n10.1000/c;2,50\n", "10.1000/a,b\n10.1000/c\n"),
    ] {
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        check(&["extract", path.to_str().unwrap()], "", 0, expected, "");
    }
}

/// Files are searched in chunks of 8 MiB, so that this one has two, or more in a full run.
#[test]
fn large_file_in_chunks_gives_same_result() {
    let (mut text, mut expected) = (String::new(), String::new());
    for number in 0..repetitions("TENDOT_TEST_EXTRACT_LINES", 80_000, 250_000) {
        let words = "some words more, ".repeat(5);
        writeln!(text, "line {number} has a name (doi:10.1000/{number}) and {words}").unwrap();
        writeln!(expected, "10.1000/{number}").unwrap();
    }
    assert!(text.len() > 9 << 20);
    let dir = TestDir::new();
    let path = dir.write("large.txt", &text);
    std::thread::scope(|scope| {
        for threads in ["1", "2", "7"] {
            let (path, expected) = (&path, &expected);
            scope.spawn(move || {
                let output = run(&["extract", "--threads", threads, path], b"");
                assert!(output.stdout == expected.as_bytes(), "with {threads} threads");
            });
        }
    });
    let output = run(&["extract", "--json", "--threads", "3", &path], b"");
    for (number, line) in String::from_utf8(output.stdout).unwrap().lines().enumerate() {
        let (head, tail) = line.split_once(",\"text\":").unwrap();
        assert!(tail.starts_with(&format!("\"10.1000/{number}\"")), "{line}");
        assert!(head.contains(&format!("\"line\":{},", number + 1)), "{line}");
        // Parsing each line as JSON would take most of the time of this test.
        if number % 50 == 0 {
            let object: serde_json::Value = serde_json::from_str(line).unwrap();
            let [start, end] = ["start", "end"].map(|member| object[member].as_u64().unwrap() as usize);
            assert_eq!(object["text"], text[start..end]);
        }
    }
}

#[test]
fn broken_pipe_exits_0() {
    let mut command = tendot();
    command.args(["extract", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || {
        // Fails as soon as the command has ended.
        while stdin.write_all("10.1000/182 ".repeat(10_000).as_bytes()).is_ok() {}
    });
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut [0; 24]).unwrap();
    drop(stdout);
    writer.join().unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn output_is_flushed_before_eof() {
    for arguments in [&["name", "--as", "url"][..], &["extract"]] {
        let mut child =
            tendot().args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(b"10.1000/182\n").unwrap();
        let mut first_line = [0; 11];
        child.stdout.as_mut().unwrap().read_exact(&mut first_line).unwrap();
        drop(stdin);
        assert!(child.wait().unwrap().success());
    }
}

/// Names have no maximum length: memory grows with the longest, and work is linear.
#[test]
fn statement_093_suffix_of_any_length() {
    let name = format!("10.1000/{}", "long-(suffix)/".repeat(300_000));
    assert!(name.len() > 4 << 20);
    let output = run(&["name", "--as", "name"], format!("{name}\ndoi:{name}x\n").as_bytes());
    assert!(output.stdout == format!("{name}\n{name}x\n").as_bytes(), "{:?}", output.status);
    assert_eq!(output.status.code(), Some(0));
    let text = format!("see 10.1000/1, {name}end and 10.1000/2\n");
    let output = run(&["extract"], text.as_bytes());
    assert!(output.stdout == format!("10.1000/1\n{name}end\n10.1000/2\n").as_bytes(), "{:?}", output.status);
    // Twice the text takes about twice the time; quadratic work would take hours.
    let longer = format!("10.1000/{}", "10.1000/((((".repeat(1_500_000));
    assert_eq!(run(&["extract", "--count"], longer.as_bytes()).status.code(), Some(0));
}

/// Memory does not grow after the first 4 MiB of input, for any line length, if the names are short.
#[test]
fn memory_is_bounded_for_stdin() {
    let dense = "10.1000/182 and text ".repeat(5000);
    let endless_line = "10.1111111111".repeat(5000);
    let brackets = format!("10.1000/{} ", "((((".repeat(20_000));
    let lines = format!("{endless_line}\n");
    // A quarter of the text exceeds the allowed growth, also in the ordinary run.
    let writes = repetitions("TENDOT_TEST_MEMORY_WRITES", 140, 640);
    let check = |arguments: &[&str], text: &str| {
        let mut command = tendot();
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let mut early = 0;
        for write in 0..writes {
            stdin.write_all(text.as_bytes()).unwrap();
            if write == 40 {
                early = peak_memory(child.id());
            }
        }
        let late = peak_memory(child.id());
        assert!(late < early + (2 << 20), "{arguments:?}: {early} bytes, then {late}");
        assert!(late < 32 << 20, "{arguments:?}: {late} bytes");
        drop(stdin);
        child.wait().unwrap();
    };
    std::thread::scope(|scope| {
        for (arguments, text) in [
            (&["extract"][..], &dense),
            (&["extract", "--json"], &dense),
            (&["extract", "--join-lines"], &endless_line),
            (&["extract"], &endless_line),
            (&["extract"], &brackets),
            (&["name", "--as", "url"], &lines),
        ] {
            scope.spawn(move || check(arguments, text));
        }
    });
}

/// Results are written while a file is searched, not collected: a file with ten times the names needs no more memory.
#[test]
fn memory_is_bounded_for_files() {
    let dir = TestDir::new();
    let peak = |arguments: &[&str], lines: usize| {
        let path = dir.write(&format!("names-{lines}.txt"), "10.1000/182\n".repeat(lines));
        let mut child = tendot().args(arguments).arg(&path).stdout(Stdio::piped()).spawn().unwrap();
        let mut stdout = child.stdout.take().unwrap();
        let (mut buffer, mut peak) = (vec![0; 64 << 10], 0);
        while let 1.. = stdout.read(&mut buffer).unwrap() {
            // None at the very end, when the process has exited.
            peak = peak.max(status_bytes(child.id(), "VmHWM:").unwrap_or_default());
        }
        assert!(child.wait().unwrap().success());
        peak
    };
    let check = |arguments: &[&str], lines: usize| {
        let (small, large) = (peak(arguments, lines / 10), peak(arguments, lines));
        // The names alone have 12 bytes each.
        assert!(large < small + (2 << 20), "{arguments:?}: {small} bytes, then {large}");
        assert!(large < 48 << 20, "{arguments:?}: {large} bytes");
    };
    let lines = |ordinary: u64| repetitions("TENDOT_TEST_MEMORY_LINES", ordinary, 3_000_000) as usize;
    std::thread::scope(|scope| {
        // Two chunks of 8 MiB, searched at the same time.
        scope.spawn(|| check(&["extract", "--threads=2"], lines(750_000)));
        scope.spawn(|| check(&["extract", "--json"], lines(240_000)));
        scope.spawn(|| check(&["extract", "--join-lines", "--json"], lines(250_000)));
    });
}
