//! Import and export with PostgreSQL: same result as the embedded store, atomic, and possible while a server is running.

use std::process::{Child, Output, Stdio};

use serde_json::Value as Json;
use tendot_store::{
    EditKind, HistoryOrder, NameKey, PostgresSettings, PostgresStore, PriorState, Store as _,
};
use tendot_testing::postgres::shared_server;
use tendot_testing::{block_on, repetitions, wait_until};

use crate::support::{TestDatabase, TestDir, TestServer, stderr};

/// A database for one test, and a directory for files.
struct ImportTest {
    database: TestDatabase,
    dir: TestDir,
}

impl ImportTest {
    fn new() -> Self {
        Self { database: TestDatabase::new(), dir: TestDir::new() }
    }

    fn run_any(&self, arguments: &[&str]) -> Output {
        self.dir.tendot(arguments).args(["--store", &self.database.url()]).output().unwrap()
    }

    #[track_caller]
    fn run(&self, arguments: &[&str], code: i32) -> Output {
        let output = self.run_any(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", stderr(&output));
        output
    }

    #[track_caller]
    fn import(&self, file: &str, code: i32) -> [u64; 4] {
        let summary: Json =
            serde_json::from_slice(&self.run(&["import", "--json", file], code).stdout).unwrap();
        ["created", "changed", "unchanged", "refused"].map(|member| summary[member].as_u64().unwrap())
    }

    fn open_store(&self) -> PostgresStore {
        block_on(PostgresStore::open(&self.database.url(), &PostgresSettings::default())).unwrap()
    }

    /// Starts an import that has to wait for a lock when it writes its records. Returns it when it waits, with a function
    /// that releases the lock.
    fn import_until_locked(&self, file: &str) -> (Child, impl FnOnce() + use<>) {
        let holder = block_on(shared_server().connect(self.database.name()));
        block_on(holder.batch_execute("begin; lock table tendot_records in exclusive mode")).unwrap();
        let mut command = self.dir.tendot(&["import", file, "--store", &self.database.url()]);
        let import = command.stderr(Stdio::piped()).spawn().unwrap();
        let waiting = "select count(*) from pg_stat_activity \
             where datname = current_database() and wait_event_type = 'Lock' and state = 'active'";
        wait_until("the import waits for the lock", || self.database.query(waiting) != "0");
        (import, move || block_on(holder.batch_execute("rollback")).unwrap())
    }
}

fn generate_lines(count: usize, data: &str) -> String {
    let line = |number| {
        format!(
            "{{\"handle\":\"10.{}/{number:06}\",\"values\":[{{\"index\":1,\"type\":\"URL\",\
             \"data\":\"https://example.org/{data}/{number}\"}}]}}\n",
            1_000 + number % 3
        )
    };
    (0..count).map(line).collect()
}

/// Exported records are those of an embedded store after the same import.
#[test]
fn import_export_round_trip() {
    let test = ImportTest::new();
    let file = test.dir.write("records.jsonl", generate_lines(2_500, "a"));
    // Commands that only read, and dry runs, create no tables.
    for arguments in [&["export"][..], &["explain", "10.1000/000000"]] {
        let messages = stderr(&test.run(arguments, 2));
        assert!(messages.contains("schema version 0 in"), "{messages}");
    }
    test.run(&["import", "--dry-run", &file], 0);
    assert_eq!(test.database.query("select count(*) from pg_tables where tablename like 'tendot%'"), "0");

    assert_eq!(test.import(&file, 0), [2_500, 0, 0, 0]);
    assert_eq!(test.import(&file, 0), [0, 0, 2_500, 0]);
    let exported = test.run(&["export"], 0).stdout;
    test.dir.run_ok(&["import", &file, "--data", "embedded"]);
    let expected = test.dir.run_ok(&["export", "--data", "embedded"]);
    assert!(!expected.is_empty() && exported == expected.as_bytes());

    let table = test.dir.file("out.csv");
    test.run(&["export", "--format", "csv", table.to_str().unwrap()], 0);
    assert_eq!(std::fs::read_to_string(table).unwrap().lines().count(), 2_500);

    let half = test.dir.write("half.jsonl", format!("{}{}", generate_lines(100, "b"), "no record\n"));
    assert_eq!(test.import(&half, 1), [0, 100, 0, 1]);
    let store = test.open_store();
    let history = HistoryOrder::OldestFirst { after: 0 };
    let key = NameKey::new("10.1000/000000").unwrap();
    let past = block_on(store.history(&key, history, 9)).unwrap().entries;
    assert_eq!(past.iter().map(|past| past.log_entry.kind).collect::<Vec<_>>(), [EditKind::Import; 2]);
    assert!(past[0].prior == PriorState::Absent && matches!(past[1].prior, PriorState::Record(_)));

    let trace = test.run(&["explain", "10.1000/000000"], 0);
    assert!(String::from_utf8_lossy(&trace.stdout).contains("https://example.org/b/0"));
    test.run(&["explain", "10.1000/nothing"], 1);
    let config = test.dir.write("tendot.toml", format!("store = \"{}\"", test.database.url()));
    test.dir.run_ok(&["explain", "10.1000/000000", "--config", &config]);
}

#[test]
fn connection_errors() {
    let test = ImportTest::new();
    let file = test.dir.write("records.jsonl", generate_lines(3, "a"));
    let check = |store: &str, expected: &str| {
        for arguments in [&["import", &file][..], &["export"], &["explain", "10.1/a"]] {
            let (code, _, messages) = test.dir.run(&[arguments, &["--store", store]].concat());
            assert_eq!(code, Some(2), "{arguments:?} {messages}");
            assert!(messages.contains(expected) && !messages.contains("secret"), "{arguments:?} {messages}");
        }
    };
    check("postgres://postgres:secret@127.0.0.1:1/nothing", "cannot reach the database 127.0.0.1:1/nothing");
    check(&shared_server().url("nothing"), "does not exist");
    check("postgres://postgres:secret@/x", "no host given");
    check("postgres://postgres:secret@host:port/x", "invalid connection string");
    check("pg://postgres:secret@host/x", "--store: invalid value `pg://postgres:***@host/x` for `store`");

    let arguments = ["config", "show", "--set", "store=postgres://user:secret@host/db"];
    let settings = test.dir.run_ok(&arguments);
    assert!(
        settings.contains("store = \"postgres://user:***@host/db\"") && !settings.contains("secret"),
        "{settings}"
    );
    assert!(!test.dir.run_ok(&[&arguments[..], &["--json"]].concat()).contains("secret"));
}

/// An import that is killed in its transaction has written nothing and holds no lock; the next one writes everything.
#[test]
fn killed_import_writes_nothing() {
    let test = ImportTest::new();
    let file = test.dir.write("records.jsonl", generate_lines(5_000, "a"));
    drop(test.open_store());
    let (mut import, release) = test.import_until_locked(&file);
    import.kill().unwrap();
    import.wait().unwrap();
    release();
    assert_eq!(test.database.query("select count(*) from tendot_records"), "0");
    assert_eq!(test.import(&file, 0), [5_000, 0, 0, 0]);
    assert_eq!(
        test.database.query("select count(*) from tendot_log where kind = 7 and record_count = 5000"),
        "1"
    );
}

/// A connection that is lost in the middle is reported, and nothing is written.
#[test]
fn lost_connection_is_reported() {
    let test = ImportTest::new();
    let file = test.dir.write("records.jsonl", generate_lines(500, "a"));
    drop(test.open_store());
    let (import, release) = test.import_until_locked(&file);
    test.database.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity \
         where datname = current_database() and wait_event_type = 'Lock'",
    );
    let output = import.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("error: importing records failed: "), "{}", stderr(&output));
    release();
    assert_eq!(test.import(&file, 0), [500, 0, 0, 0]);
}

/// Writes of a running server during an import: acknowledged values are in the record or in its history.
#[test]
fn import_with_running_server() {
    let test = ImportTest::new();
    let count = repetitions("TENDOT_TEST_RECORDS", 8_000, 20_000) as usize;
    let file = test.dir.write("records.jsonl", generate_lines(count, "imported"));
    let builder = TestServer::builder(&test.dir).set("http.rate_limit.enabled=false");
    let server = builder.store(&test.database.url()).start();
    for prefix in ["10.1000", "10.1001", "10.1002"] {
        test.database.execute(&format!("insert into tendot_homed values ('{prefix}')"));
    }

    let mut command = test.dir.tendot(&["import", &file, "--store", &test.database.url()]);
    let mut import = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut written = Vec::new();
    let mut connection = server.connect();
    while import.try_wait().unwrap().is_none() {
        let number = written.len() * 7_919 % count;
        let name = format!("10.{}/{number:06}", 1_000 + number % 3);
        let url = format!("https://example.org/written/{}", written.len());
        let response = connection.exchange(&server.put_handle(&name, &url)).unwrap();
        assert!(matches!(response.status, 200 | 201), "{name}: {}", response.head);
        written.push((name, url));
    }
    assert!(import.wait().unwrap().success());
    drop(server);

    assert!(written.len() > 5, "{} writes", written.len());
    let store = test.open_store();
    for (name, data) in &written {
        let key = NameKey::new(name).unwrap();
        let entry = block_on(store.get(&key)).unwrap().unwrap();
        let past = block_on(store.history(&key, HistoryOrder::OldestFirst { after: 0 }, 99)).unwrap().entries;
        let has = |entry: &tendot_store::StoredRecord| {
            entry.values.iter().any(|value| *value.data == *data.as_bytes())
        };
        let was = past.iter().any(|past| matches!(&past.prior, PriorState::Record(before) if has(before)));
        assert!(has(&entry) || was, "{name}: {data} is lost");
        assert!(past.iter().any(|past| past.log_entry.kind == EditKind::Import), "{name} was not imported");
        // The last write counts.
        let last = past.last().unwrap();
        assert_eq!(last.log_entry.revision, entry.revision);
        assert_eq!(has(&entry), last.log_entry.kind != EditKind::Import, "{name}");
    }
    assert_eq!(test.database.query("select count(*) from tendot_records"), count.to_string());
}
