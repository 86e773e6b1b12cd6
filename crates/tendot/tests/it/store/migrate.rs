//! `tendot migrate` copies stores while servers write to them, resumes after a kill, and detects differences.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use serde_json::Value as Json;
use tendot_store::{
    AuxEntry, EmbeddedStore, HistoryEntry, HistoryOrder, LogEntry, NameKey, PostgresSettings, PostgresStore,
    Store, StoredRecord,
};
use tendot_testing::http::HttpRequest;
use tendot_testing::{block_on, repetitions, wait_until};

use crate::support::{TestDatabase, TestDir, TestServer, stderr};

/// The address of an embedded store in this directory.
fn embedded(dir: &TestDir, name: &str) -> String {
    format!("embedded:{}", dir.file(name).display())
}

#[track_caller]
fn migrate(dir: &TestDir, from: &str, to: &str) -> Json {
    serde_json::from_str(&dir.run_ok(&["migrate", "--from", from, "--to", to, "--json"])).unwrap()
}

/// A store with this many records, half of which were changed once.
fn fill(dir: &TestDir, name: &str, records: u32) {
    for (round, step) in [1, 2].into_iter().enumerate() {
        let mut lines = String::new();
        for number in (0..records).step_by(step) {
            let data = format!("https://example.org/{round}/{number}");
            writeln!(
                lines,
                r#"{{"handle":"10.5/a{number}","values":[{{"index":1,"type":"URL","data":"{data}"}}]}}"#
            )
            .unwrap();
        }
        dir.write("records.jsonl", lines);
        dir.run_to(0, &["import", "--data", name, "records.jsonl"]);
    }
}
/// Everything a store holds, for comparison.
#[derive(Debug, PartialEq)]
struct StoreContent {
    records: Vec<StoredRecord>,
    log: Vec<LogEntry>,
    histories: Vec<Vec<HistoryEntry>>,
    homed: Vec<Box<str>>,
    notes: Vec<AuxEntry>,
}

fn content(store: &str) -> StoreContent {
    block_on(async {
        match store.strip_prefix("embedded:") {
            Some(directory) => read(&EmbeddedStore::open_read_only(Path::new(directory)).unwrap()).await,
            None => read(&PostgresStore::open(store, &PostgresSettings::default()).await.unwrap()).await,
        }
    })
}

async fn read(store: &impl Store) -> StoreContent {
    let mut records = Vec::new();
    let collect = |entry: &StoredRecord| {
        records.push(entry.clone());
        true
    };
    store.scan_records(None, None, collect).await.unwrap();
    let log = store.read_log(0, 1 << 30).await.unwrap();
    let mut histories = Vec::new();
    for entry in records.iter().filter(|entry| entry.name.ends_with('7')) {
        let key = NameKey::new(&entry.name).unwrap();
        histories
            .push(store.history(&key, HistoryOrder::OldestFirst { after: 0 }, 1_000).await.unwrap().entries);
    }
    let homed = store.list_homed(None, 1_000).await.unwrap();
    let notes = store.list_aux(b"", None, 10_000).await.unwrap();
    StoreContent { records, log, histories, homed, notes }
}

#[track_caller]
fn assert_same_content(one: &str, other: &str) {
    assert!(content(one) == content(other), "{one} and {other} differ");
}

/// A server of this store, at `tendot-data` or in the directory of the store itself.
fn start_server(dir: &TestDir, store: &str) -> TestServer {
    let builder = TestServer::builder(dir).store(store);
    match store.strip_prefix("embedded:") {
        Some(path) => builder.data(path).start(),
        None => builder.start(),
    }
}

fn put(server: &TestServer, name: &str, data: &str) -> u16 {
    let request = server.put_handle(name, &format!("https://example.org/{data}"));
    request.send(server.address()).status
}

/// Migrates a store while its server accepts writes, and once more after it has stopped. Clients of the new server see the
/// records, ETags and changes of the old one.
#[track_caller]
fn migrate_during_writes(dir: &TestDir, from: &str, to: &str, round: u32) {
    let server = start_server(dir, from);
    assert_eq!(put(&server, &format!("10.5/stable{round}"), "stable"), 201);
    let is_finished = AtomicBool::new(false);
    let writes = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for client in 0..2 {
            let (server, is_finished, writes) = (&server, &is_finished, &writes);
            scope.spawn(move || {
                for number in 0..10_000 {
                    if is_finished.load(Ordering::SeqCst) {
                        break;
                    }
                    // New names, and one that is updated 100 times.
                    assert_eq!(put(server, &format!("10.5/new{round}-{client}-{number}"), "new"), 201);
                    // Its history is copied again with each change: a long one would take longer than the next changes.
                    let updated = format!("10.5/a{client}7{}", number / 100);
                    assert!(put(server, &updated, &number.to_string()) < 300);
                    let old = format!("/api/handles/10.5/new{round}-{client}-{}", number / 2);
                    assert!(server.request("DELETE", &old).send(server.address()).status < 500);
                    writes.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        let report = migrate(dir, from, to);
        assert_eq!((&report["different"], &report["resumed"]), (&Json::from(0), &Json::Null));
        wait_until("more writes are acknowledged", || writes.load(Ordering::SeqCst) >= 30);
        let report = migrate(dir, from, to);
        assert_eq!((&report["different"], &report["resumed"]), (&Json::from(0), &"finished".into()));
        assert!(report["records"].as_u64().unwrap() < 2_000, "only new records are copied: {report}");
        is_finished.store(true, Ordering::SeqCst);
    });
    // Public records are read without a token, as caches do.
    let name = format!("/api/handles/10.5/stable{round}");
    let record = server.get(&name);
    let etag = format!("If-None-Match: {}", record.header("etag").unwrap());
    let changes = |server: &TestServer| {
        let request = server.request("GET", "/api/v1/changes?after=11&limit=50");
        request.send(server.address()).text().into_owned()
    };
    let old_changes = changes(&server);
    server.terminate();
    let report = migrate(dir, from, to);
    assert_eq!((&report["different"], &report["aux_entries_changing"]), (&Json::from(0), &Json::from(0)));
    assert_same_content(from, to);

    let server = start_server(dir, to);
    assert_eq!(server.get(&name).text(), record.text());
    assert_eq!(HttpRequest::get(&name).header(&etag).send(server.address()).status, 304);
    assert!(old_changes.contains("10.5/new"), "{old_changes}");
    assert_eq!(changes(&server), old_changes);
    server.terminate();
}

#[test]
fn migrate_with_running_server() {
    let dir = TestDir::new();
    fill(&dir, "a", 3_000);
    let [first, second] = [(), ()].map(|()| TestDatabase::new().url());
    migrate_during_writes(&dir, &embedded(&dir, "a"), &first, 1);
    migrate_during_writes(&dir, &first, &second, 2);
    migrate_during_writes(&dir, &second, &embedded(&dir, "b"), 3);
    for store in [&first, &embedded(&dir, "b")] {
        let (_, stdout) = dir.run_to(0, &["verify", "--store", store]);
        assert!(stdout.contains("no corruption"), "{stdout}");
    }
}

/// A migration that is killed again and again resumes.
#[test]
fn resumes_after_kill() {
    let dir = TestDir::new();
    fill(&dir, "a", repetitions("TENDOT_TEST_MIGRATE_RECORDS", 4_000, 12_000) as u32);
    let database = TestDatabase::new().url();
    let (first, back) = (embedded(&dir, "a"), embedded(&dir, "b"));
    for (from, to) in [(&first, &database), (&database, &back)] {
        let (mut kills, mut resumed, mut refused) = (0, 0, 0);
        let mut delay = Duration::from_millis(20);
        loop {
            let mut process = dir
                .tendot(&["migrate", "--from", from, "--to", to])
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            // The delay grows by a quarter in each round, so that every step is interrupted and the last run finishes.
            std::thread::sleep(delay);
            delay = delay.mul_f64(1.25);
            let is_killed = process.try_wait().unwrap().is_none();
            process.kill().unwrap();
            let output = process.wait_with_output().unwrap();
            let messages = stderr(&output);
            resumed += u32::from(messages.contains("resuming an interrupted migration"));
            if !is_killed {
                assert_eq!(output.status.code(), Some(0), "{messages}");
                break;
            }
            kills += 1;
            // An unfinished copy is not opened by other commands.
            if kills % 3 == 1 {
                let (code, _, messages) = dir.run(&["verify", "--store", to]);
                let is_refused = messages.contains("is an incomplete migration target");
                refused += u32::from(is_refused && code == Some(2));
            }
        }
        assert!(
            kills > 3 && resumed > 2 && refused > 0,
            "{kills} kills, {resumed} resumed, {refused} refused"
        );
        assert_same_content(from, to);
        dir.run_to(0, &["verify", "--store", to]);
    }
}

/// Rows of the target that another program changed are reported.
#[test]
fn detects_changed_target() {
    let dir = TestDir::new();
    fill(&dir, "a", 500);
    let database = TestDatabase::new();
    let address = database.url();
    let from = embedded(&dir, "a");
    migrate(&dir, &from, &address);
    database.execute("update tendot_records set revision = 1 where name = '10.5/a8'");
    let arguments = ["migrate", "--from", &from, "--to", &address, "--compare-all"];
    let (stdout, messages) = dir.run_to(1, &arguments);
    assert!(
        stdout == "differs: record `10.5/A8`\n" && messages.contains("unexplained differences"),
        "{stdout}{messages}"
    );
    let (stdout, _) = dir.run_to(1, &[&arguments[..], &["--json"]].concat());
    assert_eq!(serde_json::from_str::<Json>(&stdout).unwrap()["differences"][0], "record `10.5/A8`");
    let (_, messages) = dir.run_to(2, &["serve", "--store", &address]);
    assert!(
        messages.contains("is an incomplete migration target") && messages.contains("tendot migrate"),
        "{messages}"
    );
    database.execute("update tendot_records set revision = 2 where name = '10.5/a8'");
    dir.run_to(0, &arguments);

    let (_, messages) = dir.run_to(0, &["verify", "--store", &address]);
    assert!(messages.contains("500 records verified, no corruption"), "{messages}");
    database.execute("update tendot_records set body = substr(body, 3) where name = '10.5/a9'");
    let (stdout, _) = dir.run_to(1, &["verify", "--store", &address]);
    assert!(stdout.starts_with("record `10.5/A9`") && stdout.lines().count() == 1, "{stdout}");
    let (stdout, _) = dir.run_to(1, &["verify", "--json", "--store", &address]);
    assert!(stdout.contains(r#""damaged":1}"#), "{stdout}");
}

/// A backup of one kind of store is restored as either kind.
#[test]
fn backups() {
    let dir = TestDir::new();
    fill(&dir, "a", 800);
    let [first, second] = [(), ()].map(|()| TestDatabase::new().url());
    migrate(&dir, &embedded(&dir, "a"), &first);
    dir.run_to(0, &["backup", "copy.backup", "--store", &first]);
    let left: Vec<_> =
        std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().contains("moving")), "{left:?}");
    dir.run_to(0, &["restore", "copy.backup", "--data", "b"]);
    let (_, messages) = dir.run_to(0, &["restore", "copy.backup", "--store", &second]);
    assert!(messages.contains("restored `copy.backup` to the database"), "{messages}");
    for store in [&first, &second, &embedded(&dir, "b")] {
        assert_same_content(&embedded(&dir, "a"), store);
    }
    let (_, messages) = dir.run_to(2, &["restore", "copy.backup", "--store", &second, "--force"]);
    assert!(messages.contains("another database"), "{messages}");
    block_on(async {
        let store = PostgresStore::open(&second, &PostgresSettings::default()).await.unwrap();
        let home = tendot_store::Edit::Home { prefix: "10.6".into() };
        let change = tendot_store::ChangeSet { author: "test".into(), timestamp_ms: 1, edits: vec![home] };
        store.commit(change).await.unwrap();
    });
    let (_, messages) = dir.run_to(2, &["restore", "copy.backup", "--store", &second]);
    assert!(
        messages.contains("modified after the last migration") && messages.contains("nothing was written"),
        "{messages}"
    );
}

/// A refused target is left as it is, and messages contain no passwords.
#[test]
fn refuses_invalid_targets() {
    let dir = TestDir::new();
    fill(&dir, "a", 10);
    fill(&dir, "other", 11);
    let (a, other) = (embedded(&dir, "a"), embedded(&dir, "other"));
    let before = content(&other);
    let check = |from: &str, to: &str, expected: &str| {
        let (stdout, messages) = dir.run_to(2, &["migrate", "--from", from, "--to", to]);
        assert!(
            stdout.is_empty() && messages.contains(expected) && !messages.contains("geheim"),
            "{from} {to}: {messages}"
        );
    };
    check(&a, &other, "target store is not empty");
    check(&a, &a, "source and target are the same store");
    check(&a, "embedded:./a", "source and target are the same store");
    check(&a, "mysql:x", "`--to mysql:x` is not a persistent store");
    check("embedded:", &other, "is not a persistent store");
    check(&embedded(&dir, "none"), &embedded(&dir, "new"), "no store in");
    check("postgres://u:geheim@127.0.0.1:1/x", &embedded(&dir, "new"), "cannot reach the database");
    check(&a, "postgres://u:geheim@127.0.0.1:1/x", "cannot reach the database");
    check(&TestDatabase::new().url(), &embedded(&dir, "new"), "schema version 0 in");
    assert!(!dir.file("new").exists(), "no target is created");
    assert!(content(&other) == before);
    migrate(&dir, &a, &embedded(&dir, "new"));
    check(&other, &embedded(&dir, "new"), "migrated from another source");
    // A server writes to the target.
    let server = start_server(&dir, &embedded(&dir, "new"));
    check(&a, &embedded(&dir, "new"), "is in use by process");
    assert_eq!(put(&server, "10.5/x", "x"), 201);
    server.terminate();
    check(&a, &embedded(&dir, "new"), "modified after the last migration");
}

/// The source is the store of `--from`, or that of the configuration.
#[test]
fn source_is_selected_once() {
    let dir = TestDir::new();
    dir.write("t.toml", "store = \"embedded:a\"\n");
    for configuration in [&["--config", "t.toml"][..], &["--set", "store=embedded:a"]] {
        let arguments = ["migrate", "--from", "embedded:a", "--to", "embedded:new"];
        let (_, messages) = dir.run_to(2, &[&arguments[..], configuration].concat());
        assert!(messages.contains("cannot be used with") && messages.contains("--from"), "{messages}");
    }
    let (_, messages) = dir.run_to(2, &["migrate", "--to", "embedded:new"]);
    assert!(
        messages.contains("no store in") && messages.contains("use `--from STORE` or `--config FILE`"),
        "{messages}"
    );
    let (_, messages) = dir.run_to(2, &["migrate", "--from", "embedded:a", "--to", "embedded:new"]);
    assert!(messages.contains("expected `embedded:DIR`, where DIR contains a store"), "{messages}");
    assert!(!dir.file("new").exists(), "no target is created");
}
