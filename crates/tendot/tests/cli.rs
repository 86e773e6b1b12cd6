//! The command as its users see it: what it prints, where, and with which exit code.

use std::ffi::OsStr;
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::process::{Command, Output, Stdio};

fn tendot() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tendot"));
    command.env_remove("CLICOLOR_FORCE").stdin(Stdio::null());
    command
}

fn run(arguments: &[&str], input: &[u8]) -> Output {
    let mut command = tendot();
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let writer = std::thread::spawn(move || {
        // The command may stop reading early.
        let _ = stdin.write_all(&input);
    });
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    output
}

#[track_caller]
fn check(arguments: &[&str], input: &str, code: i32, stdout: &str, stderr: &str) {
    let output = run(arguments, input.as_bytes());
    assert_eq!(String::from_utf8_lossy(&output.stdout), stdout, "{arguments:?}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), stderr, "{arguments:?}");
    assert_eq!(output.status.code(), Some(code), "{arguments:?}");
}

#[test]
fn name_says_all() {
    check(
        &["name", " DOI: https://dx.doi.org/10.1000%2F456%23789"],
        "",
        0,
        "\
10.1000/456#789
  kind        DOI name
  written as  proxy-url
  prefix      10.1000
  suffix      456#789
  canonical   10.1000/456#789
  url         https://doi.org/10.1000/456%23789
  uri         doi:10.1000/456%23789
  uri-2024-11 doi:10.1000/456%23789
  uri-2003    doi:10.1000/456%23789
  urn         urn:doi:10.1000/456%23789
  info        info:doi/10.1000/456%23789
  obeys       current, z3984, minimal2002
  changed     trimmed, label-dropped
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
        "error: `foo` is no DOI name: a DOI name has a slash between prefix and suffix, and there is none (at byte 3)\n\
         error: `` is no DOI name: there is no name here (at byte 0)\n",
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
    let refusal = "error: `10.1000/182` is without a form `eidr`\n";
    check(&["name", "--as", "eidr", "10.1000/182"], "", 1, "\n", refusal);
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
            r#""message":"a suffix that begins with one character and a slash is reserved by Z39.84","at":9}}"#,
            "\n"
        ),
        "error: `10.2505/4/x` is no DOI name: a suffix that begins with one character and a slash is reserved by \
         Z39.84 (at byte 9)\n",
    );
}

#[test]
fn name_tells_what_a_repair_cut() {
    let output = run(&["name", "--repair", "--json", "10.1126/science.1255642.pmid:26068859"], b"");
    let object: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(object["name"], "10.1126/science.1255642");
    assert_eq!(object["notes"], serde_json::json!(["repaired"]));
    assert_eq!(object["cut"], serde_json::json!({"before": "", "after": ".pmid:26068859"}));
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn bytes_that_are_no_text_survive() {
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
fn terminals_are_not_steered_from_outside() {
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
        "`10.1000/a` and `10.1000/b` are different names\n",
    );
    let object = "{\"same\":true,\"a\":\"10.1000/a\",\"b\":\"10.1000/A\"}\n";
    check(&["same", "--json", "10.1000/a", "doi:10.1000/A"], "", 0, object, "");
    check(
        &["same", "10.1000/a", "https://example.org/10.1000/a"],
        "",
        2,
        "",
        "error: `https://example.org/10.1000/a` is no DOI name: this address is not one of the written forms of a DOI \
         name (at byte 8)\n\nhint: `tendot extract` finds names inside other addresses\n",
    );
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
fn extract_from_files_and_folders() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    fs::create_dir(folder.path().join("inner")).unwrap();
    write("b.txt", "10.1000/2");
    write("a.txt", "10.1000/1");
    write("inner/c.txt", "10.1000/3");
    write(".hidden", "10.1000/4");
    let path = folder.path().to_str().unwrap();
    check(&["extract", path], "", 0, "10.1000/1\n10.1000/2\n10.1000/3\n", "");
    // What can't be read is named, the rest goes on.
    let missing = folder.path().join("missing");
    let missing = missing.to_str().unwrap();
    check(
        &["extract", missing, path],
        "",
        2,
        "10.1000/1\n10.1000/2\n10.1000/3\n",
        &format!("error: `{missing}` can't be read: No such file or directory (os error 2)\n"),
    );
    // Standard input in its turn.
    let first = folder.path().join("a.txt");
    let last = folder.path().join("b.txt");
    let arguments = ["extract", first.to_str().unwrap(), "-", last.to_str().unwrap()];
    check(&arguments, "10.1000/9", 0, "10.1000/1\n10.1000/9\n10.1000/2\n", "");
}

#[test]
fn extract_from_tables() {
    let folder = tempfile::tempdir().unwrap();
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
    ] {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        check(&["extract", path.to_str().unwrap()], "", 0, expected, "");
    }
}

#[test]
fn a_large_file_is_searched_in_parts_with_the_same_result() {
    let mut text = String::new();
    let mut expected = String::new();
    for number in 0..400_000 {
        text.push_str(&format!("line {number} has a name (doi:10.1000/{number}) and some words more\n"));
        expected.push_str(&format!("10.1000/{number}\n"));
    }
    assert!(text.len() > 20 << 20);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("large.txt");
    fs::write(&path, &text).unwrap();
    let path = path.to_str().unwrap();
    for threads in ["1", "2", "7"] {
        let output = run(&["extract", "--threads", threads, path], b"");
        assert!(output.stdout == expected.as_bytes(), "with {threads} threads");
    }
    let output = run(&["extract", "--json", "--threads", "3", path], b"");
    for (number, line) in String::from_utf8(output.stdout).unwrap().lines().enumerate() {
        let object: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(object["line"], number + 1);
        let (start, end) =
            (object["start"].as_u64().unwrap() as usize, object["end"].as_u64().unwrap() as usize);
        assert_eq!(object["text"], text[start..end]);
    }
}

#[test]
fn a_broken_pipe_is_a_clean_end() {
    let mut command = tendot();
    command.args(["extract", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || {
        // Ends with an error once nobody reads any more.
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
fn answers_come_before_the_input_ends() {
    for arguments in [&["name", "--as", "url"][..], &["extract"]] {
        let mut child =
            tendot().args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(b"10.1000/182\n").unwrap();
        let mut answer = [0; 11];
        child.stdout.as_mut().unwrap().read_exact(&mut answer).unwrap();
        drop(stdin);
        assert!(child.wait().unwrap().success());
    }
}

/// The most memory that the process used, in kibibytes.
fn peak_memory(child: &std::process::Child) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn memory_does_not_grow_with_the_input() {
    let dense = "10.1000/182 and text ".repeat(5000);
    let endless_line = "10.1111111111".repeat(5000);
    let brackets = format!("10.1000/{}", "((((".repeat(20_000));
    for (arguments, piece) in [
        (&["extract"][..], dense.as_str()),
        (&["extract", "--json"], dense.as_str()),
        (&["extract", "--join-lines"], endless_line.as_str()),
        (&["extract"], endless_line.as_str()),
        (&["extract"], brackets.as_str()),
        (&["name", "--as", "url"], endless_line.as_str()),
    ] {
        let mut command = tendot();
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        for _ in 0..40 {
            stdin.write_all(piece.as_bytes()).unwrap();
        }
        let early = peak_memory(&child);
        for _ in 0..600 {
            stdin.write_all(piece.as_bytes()).unwrap();
        }
        let late = peak_memory(&child);
        assert!(late < early + 2048, "{arguments:?}: {early} KiB, then {late} KiB");
        assert!(late < 32 * 1024, "{arguments:?}: {late} KiB");
        drop(stdin);
        child.wait().unwrap();
    }
}

#[test]
fn memory_does_not_grow_with_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("names.txt");
    fs::write(&path, "10.1000/182\n".repeat(3_000_000)).unwrap();
    for arguments in
        [&["extract", "--threads=2"][..], &["extract", "--json"], &["extract", "--join-lines", "--json"]]
    {
        let mut child = tendot().args(arguments).arg(&path).stdout(Stdio::null()).spawn().unwrap();
        let mut peak = 0;
        while child.try_wait().unwrap().is_none() {
            let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
            let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("0");
            peak = peak.max(line.split_whitespace().next().unwrap().parse::<u64>().unwrap());
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        assert!(0 < peak && peak < 48 * 1024, "{arguments:?}: {peak} KiB");
    }
}

#[test]
fn usage_errors_are_2() {
    for arguments in [
        &["nonsense"][..],
        &["name", "--as", "nonsense", "x"],
        &["same", "10.1000/1"],
        &["extract", "--threads", "0"],
    ] {
        let output = run(arguments, b"");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(String::from_utf8_lossy(&output.stderr).starts_with("error:"), "{arguments:?}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn help_completions_and_manual() {
    let registry = ["agency", "registrant", "prefix", "doi", "token"];
    for command in ["name", "same", "extract", "completions", "man"].into_iter().chain(registry) {
        let output = run(&[command, "--help"], b"");
        assert!(String::from_utf8_lossy(&output.stdout).contains("Examples:"), "{command}");
    }
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let output = run(&["completions", shell], b"");
        let script = String::from_utf8_lossy(&output.stdout);
        assert!(["extract", "registrant", "transfers"].iter().all(|word| script.contains(word)), "{shell}");
    }
    let folder = tempfile::tempdir().unwrap();
    check(&["man", "--dir", folder.path().to_str().unwrap()], "", 0, "", "");
    let page = fs::read_to_string(folder.path().join("tendot-extract.1")).unwrap();
    assert!(page.contains(".TH tendot-extract 1"), "{page}");
    assert!(page.contains("join\\-lines"), "{page}");
    assert!(folder.path().join("tendot.1").exists());
    let page = fs::read_to_string(folder.path().join("tendot-doi-import.1")).unwrap();
    assert!(page.contains("dry\\-run") && page.contains("TENDOT_TOKEN"), "{page}");
    assert!(String::from_utf8_lossy(&run(&["man"], b"").stdout).contains(".TH tendot 1"));
}
