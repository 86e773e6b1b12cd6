//! Batch files: every operation, results per entry, and resumption.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use serde_json::Value as Json;

use super::{ADMIN, HandleServer, KEY};
use crate::support::{StoreKind, tests_per_store};

tests_per_store!(
    all_operations,
    entries_without_values,
    equal_entries,
    resumes_by_journal,
    resumes_after_a_kill
);

/// A batch with all operations; `{n}` is a number, so that it can run twice.
const BATCH: &str = "AUTHENTICATE PUBKEY:300:0.NA/10.5555\n{key}\n\n\
    SESSIONSETUP\nUSESESSION:1\n\n\
    CREATE 10.5555/B{n}\n1 URL 3600 1110 UTF8 https://example.org/a b\n\
    2 EMAIL 86400 1100 UTF8 x@example.org\n100 HS_ADMIN 86400 1110 ADMIN 300:111111111111:0.NA/10.5555\n\n\
    ADD 10.5555/B{n}\n3 DESC 86400 1110 UTF8 three\n4 DESC 86400 1110 FILE four.txt\n\n\
    MODIFY 10.5555/B{n}\n1 URL 86400 1110 UTF8 https://example.org/new\n\n\
    REMOVE 2,3:10.5555/B{n}\n\
    DELETE 10.5555/MISSING{n}\n\
    CREATE 10.5555/B{n}\n1 URL 86400 1110 UTF8 https://example.org/\n\n\
    NONSENSE\n\n\
    HOME 127.0.0.1:2641:TCP\n0.NA/10.6{n}\n0.NA/10.7{n}\n\n\
    UNHOME 127.0.0.1:2641:TCP\n0.NA/10.6{n}\n\n\
    AUTHENTICATE SECKEY:301:10.5555/ADMIN\nopensesame\n\
    MODIFY 10.5555/B{n}\n9 URL 86400 1110 UTF8 https://example.org/\n";

fn batch_text(number: usize) -> String {
    BATCH.replace("{key}", KEY).replace("{n}", &number.to_string())
}

fn all_operations(store: StoreKind) {
    let server = HandleServer::start(store);
    server.dir.write("four.txt", "four");
    for (number, address) in [(1, server.native()), (2, server.server.url())] {
        let file = server.dir.write("batch.txt", batch_text(number));
        let connection = ["--server", &address];
        let checked = server.run(&["batch", &file, "--dry-run"], &connection);
        assert_eq!((checked.0, checked.1.lines().count()), (1, 14), "{}", checked.1);
        let (code, stdout, stderr) = server.run(&["batch", &file, "--json"], &connection);
        assert_eq!(code, 1, "{stdout}{stderr}");
        assert!(stderr.contains("note: line 4: SESSIONSETUP skipped"), "{stderr}");
        assert!(stderr.contains("7 done, 4 failed\n"), "{stderr}");
        let results: Vec<Json> = stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let text = |result: &Json| {
            let field = |name: &str| result[name].as_str().unwrap_or("-").to_owned();
            format!(
                "{} {} {} {}",
                result["line"],
                field("operation"),
                field("status"),
                result["responseCode"]
            )
        };
        let results: Vec<String> = results.iter().map(text).collect();
        let expected = [
            "7 CREATE done null",
            "12 ADD done null",
            "16 MODIFY done null",
            "19 REMOVE done null",
            "20 DELETE failed 100",
            "21 CREATE failed 101",
            "24 - failed null",
            "27 HOME done null",
            "28 HOME done null",
            "31 UNHOME done null",
            "35 MODIFY failed 200",
        ];
        // The last entry's identity may not administer this record.
        let last = results.last().unwrap();
        assert!(last == expected[10] || last == "35 MODIFY failed 400", "{last}");
        assert_eq!(results[..10], expected[..10]);
        let token = ["--server", &server.server.url(), "--token-file", "tendot-data/operator.token"];
        let values = server.values(&format!("10.5555/B{number}"), &token);
        assert_eq!(values[..2], [(1, "https://example.org/new".into()), (4, "four".into())]);
        assert_eq!(values[2].0, 100);
        let homed = server.run_ok(&["list"], &token);
        assert!(
            homed.contains(&format!("0.NA/10.7{number}\n"))
                && !homed.contains(&format!("0.NA/10.6{number}\n"))
        );
        std::fs::remove_file(server.dir.file("batch.txt.journal")).unwrap();
    }
}

/// A change of no values is refused: over REST it would be one of the whole record.
fn entries_without_values(store: StoreKind) {
    let server = HandleServer::start(store);
    for address in [server.native(), server.server.url()] {
        let connection = ["--server", &address, "--auth", ADMIN, "--key", KEY];
        let before = server.values("10.5555/ONE", &connection);
        let file = server.dir.write("batch.txt", "MODIFY 10.5555/ONE\n\nADD 10.5555/ONE\n");
        let (code, stdout, _) = server.run(&["batch", &file, "--no-journal"], &connection);
        assert_eq!((code, &*stdout), (1, "line 1: failed: no values\nline 3: failed: no values\n"));
        assert_eq!(server.values("10.5555/ONE", &connection), before);
    }
}

/// Of two equal entries, the one that failed is executed again, not the one that is done.
fn equal_entries(store: StoreKind) {
    let server = HandleServer::start(store);
    for (number, address) in [(1, server.native()), (2, server.server.url())] {
        let connection = ["--server", &address, "--auth", ADMIN, "--key", KEY];
        let delete = format!("DELETE 10.5555/EQUAL{number}\n");
        let create = format!("CREATE 10.5555/EQUAL{number}\n1 URL 86400 1110 UTF8 https://example.org/\n\n");
        let file = server.dir.write("batch.txt", format!("{delete}{create}{delete}"));
        let statuses = || {
            let stdout = server.run(&["batch", &file], &connection).1;
            let status = |line: &str| line.split(": ").nth(2).unwrap().to_owned();
            stdout.lines().map(status).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(statuses(), "failed done done");
        assert_eq!(statuses(), "failed skipped skipped");
        std::fs::remove_file(server.dir.file("batch.txt.journal")).unwrap();
    }
    // An identity that can't be read ends the batch: the next entries are not sent with the one before.
    let batch = "AUTHENTICATE SECKEY 301:10.5555/ADMIN\nopensesame\nDELETE 10.5555/ONE\n";
    let file = server.dir.write("batch.txt", batch);
    let connection = ["--server", &server.native(), "--auth", ADMIN, "--key", KEY];
    let message = "batch stopped at line 1: cannot authenticate: expected SECKEY:index:handle";
    server.run_error(&["batch", &file, "--no-journal"], &connection, 2, message);
    assert!(!server.values("10.5555/ONE", &connection).is_empty());
}

fn resumes_by_journal(store: StoreKind) {
    let server = HandleServer::start(store);
    for (number, address) in [(1, server.native()), (2, server.server.url())] {
        let connection = ["--server", &address, "--auth", ADMIN, "--key", KEY];
        let value = "1 URL 86400 1110 UTF8 https://example.org/\n\n";
        let batch = format!(
            "CREATE 10.5555/A{number}\n{value}DELETE 10.5555/LATER{number}\nCREATE 10.5555/C{number}\n{value}"
        );
        let file = server.dir.write("batch.txt", &batch);
        let (code, stdout, stderr) = server.run(&["batch", &file], &connection);
        assert_eq!(code, 1, "{stderr}");
        assert_eq!(
            stdout,
            format!(
                "line 1: CREATE 10.5555/A{number}: done\n\
                 line 4: DELETE 10.5555/LATER{number}: failed: handle not found: `10.5555/LATER{number}` (response code 100)\n\
                 line 5: CREATE 10.5555/C{number}: done\n"
            )
        );
        // The first result is lost, as if the process had been killed before it was received; lines were inserted.
        let journal = server.dir.read("batch.txt.journal");
        let mut lines: Vec<&str> = journal.lines().collect();
        assert!(lines[2].contains("\"done\""), "{journal}");
        lines.remove(2);
        server.dir.write("batch.txt.journal", lines.join("\n"));
        server.dir.write("batch.txt", format!("\n\n{batch}"));
        server.run_ok(&["create", &format!("10.5555/LATER{number}"), "1:URL:a:b"], &connection);
        // The journal belongs to the server.
        server.run_error(
            &["batch", &file, "--server", "hdl://127.0.0.1:1"],
            &connection[2..],
            2,
            "is not a journal for hdl://127.0.0.1:1",
        );
        let (code, stdout, stderr) = server.run(&["batch", &file], &connection);
        assert_eq!((code, &*stderr), (0, "2 done, 0 failed, 1 skipped (done before)\n"), "{stdout}");
        assert_eq!(
            stdout,
            format!(
                "line 3: CREATE 10.5555/A{number}: done\nline 6: DELETE 10.5555/LATER{number}: done\n\
                 line 7: CREATE 10.5555/C{number}: skipped\n"
            )
        );
        assert!(!server.dir.file("batch.txt.journal").exists());
        // Without a journal, everything is executed again.
        let (code, _, stderr) = server.run(&["batch", &file, "--no-journal"], &connection);
        assert_eq!((code, &*stderr), (1, "0 done, 3 failed\n"));
    }
    // A failed authentication and a lost connection end the batch.
    let file = server
        .dir
        .write("stop.txt", "AUTHENTICATE PUBKEY:300:0.NA/10.5555\n/no/such/key\nDELETE 10.5555/ONE\n");
    server.run_error(
        &["batch", &file],
        &["--server", &server.native()],
        2,
        "batch stopped at line 1: cannot authenticate: cannot read `/no/such/key`",
    );
    let file = server.dir.write("stop.txt", "DELETE 10.5555/ONE\n");
    let connection = ["--server", "hdl://127.0.0.1:1", "--auth", ADMIN, "--key", KEY, "--no-journal"];
    server.run_error(
        &["batch", &file],
        &connection,
        2,
        "batch stopped at line 1: cannot connect to 127.0.0.1:1",
    );
    server.run_error(
        &["batch", &file],
        &["--server", &server.native(), "--no-journal"],
        2,
        "batch stopped at line 1: authentication required",
    );
}

/// A batch that is killed again and again creates each record once.
fn resumes_after_a_kill(store: StoreKind) {
    const ENTRIES: usize = 120;
    let server = HandleServer::start(store);
    let address = server.native();
    let batch: String = (0..ENTRIES)
        .map(|number| {
            format!("CREATE 10.5555/KILL-{number}\n1 URL 86400 1110 UTF8 https://example.org/{number}\n\n")
        })
        .collect();
    let file = server.dir.write("batch.txt", batch);
    let arguments = ["handle", "batch", &file, "--server", &address, "--auth", ADMIN, "--key", KEY];
    for kills in 0..3 {
        let mut child =
            server.dir.tendot(&arguments).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        for _ in 0..20 * (kills + 1) {
            let line = lines.next().unwrap().unwrap();
            assert!(line.ends_with(": done") || line.ends_with(": skipped"), "{line}");
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let (code, stdout, stderr) = server.run(&arguments[1..], &[]);
    assert_eq!((code, stdout.lines().count()), (0, ENTRIES), "{stderr}");
    assert!(stderr.contains(", 0 failed, "), "{stderr}");
    let listed = server.run_ok(&["list", "10.5555"], &arguments[3..]);
    assert_eq!(listed.lines().filter(|line| line.starts_with("10.5555/KILL-")).count(), ENTRIES);
}
