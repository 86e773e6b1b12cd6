//! `tendot doi import` uploads batches, reports the result of each line, and resumes after a lost connection.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread;

use serde_json::{Value as Json, json};
use tendot_testing::{WAIT_TIMEOUT, repetitions};

use super::{TestRegistry, check_error};
use crate::support::{StoreKind, tests_per_store};

tests_per_store!(
    batch_import_reports_refused_lines,
    batch_import_sources,
    batch_import_resumes,
    batch_import_gives_up,
    batch_import_reads_written_forms,
);

/// Lines of a response that the proxy passes on before it cuts the connection.
const ANSWERED_LINES: usize = 200;

/// Lines of which one in twenty is refused, and one has a prefix instead of a name.
pub(super) fn generate_batch(lines: usize, format: &str) -> String {
    let mut text = if format == "csv" { "name,prefix,url\n".to_owned() } else { String::new() };
    for number in 1..=lines {
        let (name, prefix, url) = match number {
            _ if number % 20 == 7 => (format!("10.70000/n{number}"), "", "//x".to_owned()),
            _ if number % 20 == 10 => (String::new(), "10.70000", format!("https://example.org/{number}")),
            _ => (format!("10.70000/n{number}"), "", format!("https://example.org/{number}")),
        };
        if format == "csv" {
            text += &format!("{name},{prefix},{url}\n");
        } else if prefix.is_empty() {
            text += &format!("{}\n", json!({"name": name, "url": url}));
        } else {
            text += &format!("{}\n", json!({"prefix": prefix, "url": url}));
        }
    }
    text
}

/// The report has the expected result of each line, in order.
#[track_caller]
fn check_report(report: &str, lines: usize) {
    let results: Vec<Json> = report.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(results.len(), lines);
    for (number, result) in (1..=lines).zip(&results) {
        assert_eq!(result["line"], number, "{result}");
        let expected = if number % 20 == 7 { "refused" } else { "created" };
        assert_eq!(result["status"], expected, "{result}");
        assert_eq!(result["error"]["code"], if number % 20 == 7 { json!("invalid-url") } else { Json::Null });
    }
}

fn batch_import_reports_refused_lines(store: StoreKind) {
    let registry = TestRegistry::start(store);
    // More than a hundred lines are refused, so that some of them are only counted.
    let lines = repetitions("TENDOT_TEST_BATCH_LINES", 2_400, 20_000) as usize;
    let (created, refused) = (lines / 20 * 19, lines / 20);
    registry.dir.write("names.ndjson", generate_batch(lines, "ndjson"));
    let arguments = ["doi", "import", "names.ndjson", "--report", "report.ndjson"];
    let dry = registry.run(&[&arguments[..], &["--dry-run", "--json"]].concat());
    let summary: Json = serde_json::from_slice(&dry.stdout).unwrap();
    assert_eq!(
        (&summary["created"], &summary["refused"], &summary["dry_run"]),
        (&json!(created), &json!(refused), &json!(true))
    );
    assert_eq!(dry.status.code(), Some(1));
    assert!(registry.json(&["doi", "list"]).is_empty());

    let first = registry.run(&arguments);
    let stderr = String::from_utf8_lossy(&first.stderr);
    let line = "refused: `names.ndjson`, line 7: `10.70000/n7`: invalid URL: relative URL; add a scheme such as `https:` (invalid-url)\n";
    assert!(stderr.starts_with(line), "{stderr}");
    let counts = format!(
        "… and {} more refused lines\n{created} created, 0 updated, 0 unchanged, {refused} refused; ",
        refused - 100
    );
    assert!(stderr.contains(&counts), "{stderr}");
    assert!(!stderr.contains('\r') && !stderr.contains('\u{1b}'), "a progress bar in a pipe: {stderr}");
    assert_eq!(first.status.code(), Some(1));
    check_report(&registry.dir.read("report.ndjson"), lines);
    assert_eq!(registry.json(&["doi", "list"]).len(), created);

    // curl waits for `100 Continue` before it sends the body.
    let address = format!("{}/api/v1/dois/batch?dry-run=true", registry.url);
    let token = format!("Authorization: Bearer {}", registry.token.trim());
    let mut curl = Command::new("curl");
    curl.current_dir(registry.dir.path()).args(["-sSf", "-H", &token, "-H", "Expect: 100-continue"]);
    let answered = curl.args(["--data-binary", "@names.ndjson", &address]).output().unwrap();
    assert!(answered.status.success(), "{answered:?}");
    assert_eq!(answered.stdout.iter().filter(|byte| **byte == b'\n').count(), lines);

    // The same file is not imported again, unless the idempotency key differs.
    let again = registry.run(&arguments);
    let stderr = String::from_utf8_lossy(&again.stderr);
    assert!(stderr.starts_with("warning: `names.ndjson` was imported before"), "{stderr}");
    check_report(&registry.dir.read("report.ndjson"), lines);
    assert_eq!(registry.json(&["doi", "list"]).len(), created);
    let other = registry.run(&["doi", "import", "names.ndjson", "--idempotency-key", "another", "--json"]);
    let summary: Json = serde_json::from_slice(&other.stdout).unwrap();
    assert_eq!(
        (&summary["unchanged"], &summary["created"]),
        (&json!(lines / 20 * 18), &json!(refused)),
        "names without a suffix are generated again"
    );
    let reused = registry.run(&["doi", "import", "report.ndjson", "--idempotency-key", "another"]);
    check_error(&reused, 1, "(key-reused)", &["--idempotency-key another"]);
}

fn batch_import_sources(store: StoreKind) {
    let registry = TestRegistry::start(store);
    registry.dir.write("one.csv", "name,url\n10.70000/a,https://example.org/a\n\"10.70000/b,c\",//x\n");
    registry.dir.write("two.txt", "{\"name\":\"10.70000/d\",\"url\":\"https://example.org/d\"}\n");
    let both = registry.run(&["doi", "import", "one.csv", "two.txt", "--report", "report.csv"]);
    assert_eq!(both.status.code(), Some(1));
    let hint = "\"use an absolute URL such as `https://example.org/`, without credentials or line breaks\"";
    let expected = format!(
        "file,line,name,status,code,detail,pointer,hint,form,warnings\none.csv,2,10.70000/a,created,,,,,,\n\
         one.csv,3,\"10.70000/b,c\",refused,invalid-url,invalid URL: relative URL; add a scheme such as `https:`,/url,{hint},,\n\
         two.txt,1,10.70000/d,created,,,,,,\n"
    );
    assert_eq!(registry.dir.read("report.csv"), expected);
    let both =
        registry.run(&["doi", "import", "one.csv", "two.txt", "--idempotency-key", "k", "--report", "-"]);
    let first = String::from_utf8(both.stdout).unwrap();
    assert!(
        first.starts_with(
            "{\"file\":\"one.csv\",\"line\":2,\"name\":\"10.70000/a\",\"status\":\"unchanged\"}\n"
        ),
        "{first}"
    );

    let mut standard = registry.command(&["doi", "import", "-", "--format", "csv"]);
    let mut child = standard.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"doi,url\n10.70000/e,https://example.org/e\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("1 created, "), "{output:?}");
    assert!(output.status.success());

    registry.dir.write("empty.csv", "");
    registry.run_error(
        &["doi", "import", "empty.csv"],
        2,
        "Unknown column `` in the header row; columns are name",
    );
    registry.dir.write("refs.bib", "@article{soc, doi = {10.70000/a}}\n");
    let unknown = ["doi", "import", "refs.bib"];
    registry.run_error(&unknown, 2, "unknown format of `refs.bib`");
    registry.run_error(
        &unknown,
        2,
        "hint: set `--format`, or name the file .jsonl or .csv; `tendot extract`",
    );
    registry.run_error(&["doi", "import", "none.csv"], 2, "cannot read `none.csv`");
    registry.run_error(&["doi", "import", "."], 2, "cannot read `.`");
    registry.run_error(
        &["doi", "import", "one.csv", "--report", "./one.csv"],
        2,
        "the report would overwrite the input `one.csv`",
    );
    registry.run_error(
        &["doi", "import", "one.csv", "--report", "none/report"],
        2,
        "cannot write `none/report`",
    );
    registry.run_error(&["doi", "import", "one.csv", "--token", "wrong"], 2, "(unauthenticated)");
    registry.run_error(
        &["doi", "import", "one.csv", "--server", "http://127.0.0.1:1"],
        2,
        "cannot connect to ",
    );
}

/// Starts a proxy that cuts connections after a number of bytes from the client, when part of them has been answered. There is
/// one limit per cut; the last one applies to all further cuts.
fn start_cutting_proxy(server: SocketAddr, limits: Vec<u64>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let cuts = Arc::new(AtomicUsize::new(0));
    thread::spawn(move || {
        for client in listener.incoming() {
            let mut client = client.unwrap();
            let mut upstream = TcpStream::connect(server).unwrap();
            let limit = limits.get(cuts.load(Ordering::SeqCst)).or(limits.last()).copied().unwrap();
            let (mut back, mut responses) = (client.try_clone().unwrap(), upstream.try_clone().unwrap());
            let (progress, answered) = channel();
            thread::spawn(move || {
                let mut buffer = [0; 8 << 10];
                while let Ok(read @ 1..) = responses.read(&mut buffer) {
                    if back.write_all(&buffer[..read]).is_err() {
                        break;
                    }
                    let _ = progress.send(buffer[..read].iter().filter(|byte| **byte == b'\n').count());
                }
                let _ = back.shutdown(Shutdown::Both);
            });
            let cuts = Arc::clone(&cuts);
            thread::spawn(move || {
                let passed = std::io::copy(&mut (&mut client).take(limit), &mut upstream);
                if passed.is_ok_and(|passed| passed == limit) {
                    cuts.fetch_add(1, Ordering::SeqCst);
                    let mut lines = 0;
                    while lines < ANSWERED_LINES {
                        let Ok(more) = answered.recv_timeout(WAIT_TIMEOUT) else { break };
                        lines += more;
                    }
                }
                let _ = (upstream.shutdown(Shutdown::Both), client.shutdown(Shutdown::Both));
            });
        }
    });
    url
}

fn batch_import_resumes(store: StoreKind) {
    let registry = TestRegistry::start(store);
    let lines = repetitions("TENDOT_TEST_BATCH_LINES", 6_000, 20_000) as usize;
    let content = generate_batch(lines, "ndjson");
    let parts = [content.len() as u64 / 3, content.len() as u64 / 3 * 2];
    registry.dir.write("names.ndjson", &content);
    let proxy = start_cutting_proxy(registry.server.address(), vec![parts[0], parts[1], u64::MAX]);
    let arguments = ["doi", "import", "names.ndjson", "--report", "report.ndjson", "--retries", "30"];
    let output = registry.run(&[&arguments[..], &["--server", &proxy]].concat());
    let stderr = String::from_utf8_lossy(&output.stderr);
    // The server may also close the connection while it still processes the lines of the first upload.
    assert!(stderr.matches(" lost: ").count() >= 2, "{stderr}");
    assert!(
        stderr.contains(&format!(
            "{} created, 0 updated, 0 unchanged, {} refused; ",
            lines / 20 * 19,
            lines / 20
        )),
        "{stderr}"
    );
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    check_report(&registry.dir.read("report.ndjson"), lines);
    // No name was created twice, and none was changed again.
    assert_eq!(registry.json(&["doi", "list"]).len(), lines / 20 * 19);
    for number in [1, lines / 2, lines] {
        let name = format!("10.70000/n{number}");
        assert_eq!(registry.json(&["doi", "history", &name]).len(), 1, "{name}");
    }
}

/// An import whose connection is cut again and again gives up; the next one resumes.
fn batch_import_gives_up(store: StoreKind) {
    let registry = TestRegistry::start(store);
    let content = generate_batch(4_000, "ndjson");
    registry.dir.write("names.ndjson", &content);
    let proxy = start_cutting_proxy(registry.server.address(), vec![content.len() as u64 / 2]);
    let output = registry.run(&[
        "doi",
        "import",
        "names.ndjson",
        "--report",
        "report.ndjson",
        "--server",
        &proxy,
        "--retries",
        "2",
    ]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(
        stderr.contains("(2 of 2)") && stderr.contains("hint: run the same command again to resume"),
        "{stderr}"
    );
    let received = registry.dir.read("report.ndjson").lines().count();
    assert!(received > 100 && received < 2_100, "{received}");
    let output = registry.run(&["doi", "import", "names.ndjson", "--report", "report.ndjson"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    check_report(&registry.dir.read("report.ndjson"), 4_000);
    assert_eq!(registry.json(&["doi", "list"]).len(), 3_800);
}

/// Names in a written form are decoded, and the command says how each was read. A bare name that looks encoded is literal.
fn batch_import_reads_written_forms(store: StoreKind) {
    let registry = TestRegistry::start(store);
    let rows = "name,url\n\
                https://doi.org/10.70000/aa%23b,https://example.org/1\n\
                urn:doi:10.70000/cc%23d,https://example.org/2\n\
                10.70000/ee%23f,https://example.org/3\n";
    registry.dir.write("names.csv", rows);
    let output = registry.run(&["doi", "import", "names.csv", "--report", "report.csv"]);
    let messages = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{messages}");
    for expected in [
        "note: `names.csv`, line 2: `10.70000/aa#b`: decoded (form: proxy-url)\n",
        "note: `names.csv`, line 3: `10.70000/cc#d`: decoded (form: urn)\n",
        "warning: `names.csv`, line 4: `10.70000/ee%23f`: name looks percent-encoded and is stored as it stands; ",
    ] {
        assert!(messages.contains(expected), "{expected}\n{messages}");
    }
    let report = std::fs::read_to_string(registry.dir.file("report.csv")).unwrap();
    assert!(report.contains(",10.70000/aa#b,created,,,,,proxy-url,"), "{report}");
    let names: Vec<Json> = registry.json(&["doi", "list", "--prefix", "10.70000"]);
    let names: Vec<&str> = names.iter().map(|doi| doi["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["10.70000/aa#b", "10.70000/cc#d", "10.70000/ee%23f"]);
}
