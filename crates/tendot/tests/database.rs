//! Commands over a database, with a real server of PostgreSQL.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde_json::Value as Json;
use tendot_store::{Before, EditKind, Key, Order, Postgres, PostgresSettings, Store as _};
use tendot_testing::postgres::{PostgresServer, shared_server};
use tokio::runtime::Runtime;

fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| Runtime::new().unwrap())
}

/// A database for one test, and a place for files.
struct Place {
    server: &'static PostgresServer,
    database: String,
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let server = shared_server();
        let database = server.create_database();
        Self { server, database, folder: tempfile::tempdir().unwrap() }
    }

    fn address(&self) -> String {
        self.server.url(&self.database)
    }

    fn write(&self, name: &str, content: &str) -> String {
        let path = self.folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.to_str().unwrap().into()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = tendot(self.folder.path());
        command.args(arguments).args(["--store", &self.address()]);
        command
    }

    #[track_caller]
    fn run(&self, arguments: &[&str], code: i32) -> Output {
        let output = self.command(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", stderr(&output));
        output
    }

    #[track_caller]
    fn import(&self, file: &str, code: i32) -> [u64; 4] {
        let summary: Json =
            serde_json::from_slice(&self.run(&["import", "--json", file], code).stdout).unwrap();
        ["created", "changed", "unchanged", "refused"].map(|member| summary[member].as_u64().unwrap())
    }

    fn store(&self) -> Postgres {
        runtime().block_on(Postgres::open(&self.address(), &PostgresSettings::default())).unwrap()
    }

    fn execute(&self, sql: &str) {
        runtime().block_on(self.server.execute(&self.database, sql));
    }

    fn ask(&self, sql: &str) -> String {
        runtime().block_on(self.server.query_text(&self.database, sql))
    }

    /// Starts an import while the test lets nobody write records. Gives it when it has all but written them, and how to let
    /// go.
    fn wait_within(&self, file: &str) -> (Child, impl FnOnce() + use<>) {
        let holder = runtime().block_on(self.server.connect(&self.database));
        let lock = "begin; lock table tendot_records in exclusive mode";
        runtime().block_on(holder.batch_execute(lock)).unwrap();
        let import = self.command(&["import", file]).stderr(Stdio::piped()).spawn().unwrap();
        let waiting = "select count(*) from pg_stat_activity \
             where datname = current_database() and wait_event_type = 'Lock' and state = 'active'";
        let end = Instant::now() + Duration::from_secs(20);
        while self.ask(waiting) == "0" {
            assert!(Instant::now() < end, "the import does not write");
            std::thread::sleep(Duration::from_millis(20));
        }
        (import, move || runtime().block_on(holder.batch_execute("rollback")).unwrap())
    }
}

fn tendot(directory: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tendot"));
    command.current_dir(directory).env_remove("CLICOLOR_FORCE").stdin(Stdio::null());
    command
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn lines(count: usize, data: &str) -> String {
    let line = |number| {
        format!(
            "{{\"handle\":\"10.{}/{number:06}\",\"values\":[{{\"index\":1,\"type\":\"URL\",\
             \"data\":\"https://example.org/{data}/{number}\"}}]}}\n",
            1_000 + number % 3
        )
    };
    (0..count).map(line).collect()
}

/// What goes in comes out again, and is what an embedded store would give.
#[test]
fn in_and_out() {
    let place = Place::new();
    let file = place.write("records.jsonl", &lines(2_500, "a"));
    // Nothing is made by who only reads, or only tries.
    for arguments in [&["export"][..], &["doctor", "10.1000/000000"]] {
        let told = stderr(&place.run(arguments, 2));
        assert!(told.contains("have the number 0"), "{told}");
    }
    place.run(&["import", "--dry-run", &file], 0);
    assert_eq!(place.ask("select count(*) from pg_tables where tablename like 'tendot%'"), "0");

    assert_eq!(place.import(&file, 0), [2_500, 0, 0, 0]);
    assert_eq!(place.import(&file, 0), [0, 0, 2_500, 0]);
    let exported = place.run(&["export"], 0).stdout;
    let mut embedded = tendot(place.folder.path());
    assert!(embedded.args(["import", &file, "--data", "beside"]).status().unwrap().success());
    let mut embedded = tendot(place.folder.path());
    let expected = embedded.args(["export", "--data", "beside"]).output().unwrap().stdout;
    assert!(!expected.is_empty() && exported == expected);

    let table = place.folder.path().join("out.csv");
    place.run(&["export", "--format", "csv", table.to_str().unwrap()], 0);
    assert_eq!(std::fs::read_to_string(table).unwrap().lines().count(), 2_500);

    let half = place.write("half.jsonl", &format!("{}{}", lines(100, "b"), "no record\n"));
    assert_eq!(place.import(&half, 1), [0, 100, 0, 1]);
    let store = place.store();
    let history = Order::OldestFirst { after: 0 };
    let key = Key::new("10.1000/000000").unwrap();
    let past = runtime().block_on(store.history(&key, history, 9)).unwrap().items;
    assert_eq!(past.iter().map(|past| past.line.kind).collect::<Vec<_>>(), [EditKind::Import; 2]);
    assert!(past[0].before == Before::Nothing && matches!(past[1].before, Before::Record(_)));

    let doctor = place.run(&["doctor", "10.1000/000000"], 0);
    assert!(String::from_utf8_lossy(&doctor.stdout).contains("https://example.org/b/0"));
    place.run(&["doctor", "10.1000/nothing"], 1);
    let config = place.write("tendot.toml", &format!("store = \"{}\"", place.address()));
    let doctor = tendot(place.folder.path()).args(["doctor", "10.1000/000000", "--config", &config]).status();
    assert!(doctor.unwrap().success());
}

#[test]
fn what_goes_wrong_is_told() {
    let place = Place::new();
    let file = place.write("records.jsonl", &lines(3, "a"));
    let check = |store: &str, expected: &str| {
        for arguments in [&["import", &file][..], &["export"], &["doctor", "10.1/a"]] {
            let output =
                tendot(place.folder.path()).args(arguments).args(["--store", store]).output().unwrap();
            let told = stderr(&output);
            assert_eq!(output.status.code(), Some(2), "{arguments:?} {told}");
            assert!(told.contains(expected) && !told.contains("secret"), "{arguments:?} {told}");
        }
    };
    check(
        "postgres://postgres:secret@127.0.0.1:1/nothing",
        "no database server was reached at 127.0.0.1:1/nothing",
    );
    check(&place.server.url("nothing"), "the server has no such database");
    check("postgres://postgres:secret@/x", "it names no host");
    check("postgres://postgres:secret@host:port/x", "the address of the database can't be read");
    check("pg://postgres:secret@host/x", "`--store pg://postgres:***@host/x` is no store that lasts");

    let shown = tendot(place.folder.path())
        .args(["config", "show", "--set", "store=postgres://user:secret@host/db"])
        .output()
        .unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(
        shown.contains("store = \"postgres://user:***@host/db\"") && !shown.contains("secret"),
        "{shown}"
    );
    let shown = tendot(place.folder.path())
        .args(["config", "show", "--json", "--set", "store=postgres://user:secret@host/db"])
        .output()
        .unwrap();
    assert!(!String::from_utf8(shown.stdout).unwrap().contains("secret"));
}

/// An import that is ended by force in its transaction has done nothing, and keeps nobody out; the same again does it all.
#[test]
fn killed() {
    let place = Place::new();
    let file = place.write("records.jsonl", &lines(5_000, "a"));
    drop(place.store());
    let (mut import, let_go) = place.wait_within(&file);
    import.kill().unwrap();
    import.wait().unwrap();
    let_go();
    assert_eq!(place.ask("select count(*) from tendot_records"), "0");
    assert_eq!(place.import(&file, 0), [5_000, 0, 0, 0]);
    assert_eq!(place.ask("select count(*) from tendot_log where kind = 7 and records = 5000"), "1");
}

/// A connection that is cut in the middle: it is told, and nothing is there.
#[test]
fn cut_off() {
    let place = Place::new();
    let file = place.write("records.jsonl", &lines(500, "a"));
    drop(place.store());
    let (import, let_go) = place.wait_within(&file);
    place.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity \
         where datname = current_database() and wait_event_type = 'Lock'",
    );
    let output = import.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("error: importing records: "), "{}", stderr(&output));
    let_go();
    assert_eq!(place.import(&file, 0), [500, 0, 0, 0]);
}

/// A running service deposits while an import is under way: whatever was acknowledged is there, or was there before.
#[test]
fn beside_a_service() {
    let place = Place::new();
    let count = 20_000;
    let file = place.write("records.jsonl", &lines(count, "imported"));
    let mut serve = tendot(place.folder.path());
    serve.args(["serve", "--native", "off", "--http", "127.0.0.1:0", "--set", "rate.enabled=false"]);
    let mut service = serve.args(["--store", &place.address()]).stderr(Stdio::piped()).spawn().unwrap();
    let said = BufReader::new(service.stderr.take().unwrap()).lines();
    let ready = said.map(Result::unwrap).find(|line| line.starts_with("ready")).expect("it is ready");
    let address: SocketAddr =
        ready.trim_start_matches("ready: http://").trim_end_matches('/').parse().unwrap();
    let token = std::fs::read_to_string(place.folder.path().join("tendot-data/operator.token")).unwrap();
    for prefix in ["10.1000", "10.1001", "10.1002"] {
        place.execute(&format!("insert into tendot_homed values ('{prefix}')"));
    }

    let mut import = place.command(&["import", &file]).stdout(Stdio::null()).spawn().unwrap();
    let mut deposited = Vec::new();
    let mut stream = TcpStream::connect(address).unwrap();
    while import.try_wait().unwrap().is_none() {
        let number = deposited.len() * 7_919 % count;
        let name = format!("10.{}/{number:06}", 1_000 + number % 3);
        let data = format!("https://example.org/deposited/{}", deposited.len());
        let body = format!(r#"[{{"index":1,"type":"URL","data":"{data}"}}]"#);
        let status = put(&mut stream, token.trim(), &name, &body);
        assert!(status == 200 || status == 201, "{name}: {status}");
        deposited.push((name, data));
    }
    assert!(import.wait().unwrap().success());
    service.kill().unwrap();
    service.wait().unwrap();

    assert!(deposited.len() > 5, "{} deposits", deposited.len());
    let store = place.store();
    for (name, data) in &deposited {
        let key = Key::new(name).unwrap();
        let entry = runtime().block_on(store.get(&key)).unwrap().unwrap();
        let past =
            runtime().block_on(store.history(&key, Order::OldestFirst { after: 0 }, 99)).unwrap().items;
        let has =
            |entry: &tendot_store::Entry| entry.values.iter().any(|value| *value.data == *data.as_bytes());
        let was = past.iter().any(|past| matches!(&past.before, Before::Record(before) if has(before)));
        assert!(has(&entry) || was, "{name}: {data} is lost");
        assert!(past.iter().any(|past| past.line.kind == EditKind::Import), "{name} was not imported");
        // The last who wrote holds.
        let last = past.last().unwrap();
        assert_eq!(last.line.revision, entry.revision);
        assert_eq!(has(&entry), last.line.kind != EditKind::Import, "{name}");
    }
    assert_eq!(place.ask("select count(*) from tendot_records"), count.to_string());
}

fn put(stream: &mut TcpStream, token: &str, name: &str, body: &str) -> u16 {
    let length = body.len();
    write!(
        stream,
        "PUT /api/handles/{name} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(reader.read_line(&mut head).unwrap() > 0, "the service has closed");
    }
    let lower = head.to_ascii_lowercase();
    let length = lower.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap_or("0");
    let mut body = vec![0; length.trim().parse().unwrap()];
    reader.read_exact(&mut body).unwrap();
    head.split(' ').nth(1).unwrap().parse().unwrap()
}
