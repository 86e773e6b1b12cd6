//! Stores that are moved, with the real program: beside servers that take deposits, and killed at any moment.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use serde_json::Value as Json;
use tendot_store::{Embedded, Entry, Key, Logged, Note, Order, Past, Postgres, PostgresSettings, Store};
use tokio::runtime::Runtime;

fn block_on<F: Future>(future: F) -> F::Output {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| Runtime::new().unwrap()).block_on(future)
}

/// A place for one test.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A new directory as a store.
    fn store(&self, name: &str) -> String {
        format!("embedded:{}", self.path(name).display())
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tendot"));
        command.args(arguments).current_dir(self.0.path()).env_remove("CLICOLOR_FORCE").stdin(Stdio::null());
        command
    }

    /// Its output, if it ends so.
    #[track_caller]
    fn run(&self, code: i32, arguments: &[&str]) -> (String, String) {
        let output = self.command(arguments).output().unwrap();
        let (stdout, stderr) = texts(&output);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {stdout}{stderr}");
        (stdout, stderr)
    }

    #[track_caller]
    fn migrate(&self, from: &str, to: &str) -> Json {
        let (stdout, _) = self.run(0, &["migrate", "--from", from, "--to", to, "--json"]);
        serde_json::from_str(&stdout).unwrap()
    }

    /// A store with this many records, half of which were changed once.
    fn fill(&self, name: &str, records: u32) {
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
            std::fs::write(self.path("records.jsonl"), lines).unwrap();
            self.run(0, &["import", "--data", name, "records.jsonl"]);
        }
    }
}

fn texts(output: &Output) -> (String, String) {
    (String::from_utf8(output.stdout.clone()).unwrap(), String::from_utf8(output.stderr.clone()).unwrap())
}

/// An empty database: its name and address.
fn database() -> (String, String) {
    let server = tendot_testing::postgres::shared_server();
    let name = server.create_database();
    (name.clone(), server.url(&name))
}

/// All that a store keeps.
#[derive(Debug, PartialEq)]
struct Content {
    records: Vec<Entry>,
    log: Vec<Logged>,
    histories: Vec<Vec<Past>>,
    homed: Vec<Box<str>>,
    notes: Vec<Note>,
}

fn content(store: &str) -> Content {
    block_on(async {
        match store.strip_prefix("embedded:") {
            Some(directory) => read(&Embedded::open_read_only(Path::new(directory)).unwrap()).await,
            None => read(&Postgres::open(store, &PostgresSettings::default()).await.unwrap()).await,
        }
    })
}

async fn read(store: &impl Store) -> Content {
    let mut records = Vec::new();
    let seen = |entry: &Entry| {
        records.push(entry.clone());
        true
    };
    store.visit(None, None, seen).await.unwrap();
    let log = store.changes(0, 1 << 30).await.unwrap();
    let mut histories = Vec::new();
    for entry in records.iter().filter(|entry| entry.name.ends_with('7')) {
        let key = Key::new(&entry.name).unwrap();
        histories.push(store.history(&key, Order::OldestFirst { after: 0 }, 1_000).await.unwrap().items);
    }
    let homed = store.homed(None, 1_000).await.unwrap();
    let notes = store.notes(b"", None, 10_000).await.unwrap();
    Content { records, log, histories, homed, notes }
}

#[track_caller]
fn same(one: &str, other: &str) {
    assert!(content(one) == content(other), "{one} and {other} have not the same");
}

/// A service that runs, and is killed when it is no longer needed.
struct Service {
    process: Child,
    address: SocketAddr,
    token: String,
}

impl Service {
    fn start(place: &Place, store: &str) -> Self {
        let mut process = place
            .command(&["serve", "--native", "off", "--http", "127.0.0.1:0", "--store", store])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(process.stderr.take().unwrap()).lines();
        let ready = said.map(Result::unwrap).find(|line| line.starts_with("ready")).expect("it is ready");
        let address = ready.trim_start_matches("ready: http://").trim_end_matches('/').parse().unwrap();
        let directory = store.strip_prefix("embedded:").unwrap_or("tendot-data");
        let token = std::fs::read_to_string(place.0.path().join(directory).join("operator.token")).unwrap();
        Self { process, address, token: token.trim().to_owned() }
    }

    /// An answer's status, head and body.
    fn ask(&self, method: &str, target: &str, fields: &str, body: &str) -> (u16, String, String) {
        let mut stream = TcpStream::connect(self.address).unwrap();
        // Who reads records is anybody, as caches are.
        let is_anybody = method == "GET" && !target.starts_with("/api/v1");
        let (length, token) = (body.len(), &self.token);
        let who = if is_anybody { String::new() } else { format!("Authorization: Bearer {token}\r\n") };
        write!(
            stream,
            "{method} {target} HTTP/1.1\r\nHost: localhost\r\n{who}Connection: close\r\n\
             {fields}Content-Length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), head.to_ascii_lowercase(), body.to_owned())
    }

    fn put(&self, name: &str, data: &str) -> u16 {
        let body = format!(r#"[{{"index":1,"type":"URL","data":"https://example.org/{data}"}}]"#);
        self.ask("PUT", &format!("/api/handles/{name}"), "", &body).0
    }

    /// Ends it as an operator does.
    fn stop(mut self) {
        let id = self.process.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        self.process.wait().unwrap();
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Moves a store while its server takes deposits, and once more when it has stopped. Who asked the old server notices
/// nothing when they ask the new one.
#[track_caller]
fn move_beside(place: &Place, from: &str, to: &str, round: u32) {
    let service = Service::start(place, from);
    assert_eq!(service.put(&format!("10.5/kept{round}"), "kept"), 201);
    let is_over = AtomicBool::new(false);
    let deposits = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for client in 0..2 {
            let (service, is_over, deposits) = (&service, &is_over, &deposits);
            scope.spawn(move || {
                for number in 0.. {
                    if is_over.load(Ordering::SeqCst) {
                        break;
                    }
                    // New names, and one that is changed again and again.
                    let status = service.put(&format!("10.5/new{round}-{client}-{number}"), "new");
                    assert_eq!(status, 201);
                    assert!(service.put(&format!("10.5/a{client}7"), &number.to_string()) < 300);
                    assert!(
                        service
                            .ask(
                                "DELETE",
                                &format!("/api/handles/10.5/new{round}-{client}-{}", number / 2),
                                "",
                                ""
                            )
                            .0
                            < 500
                    );
                    deposits.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        let moved = place.migrate(from, to);
        assert_eq!((&moved["different"], &moved["resumed"]), (&Json::from(0), &Json::Null));
        while deposits.load(Ordering::SeqCst) < 30 {
            std::thread::sleep(Duration::from_millis(10));
        }
        let moved = place.migrate(from, to);
        assert_eq!((&moved["different"], &moved["resumed"]), (&Json::from(0), &"finished".into()));
        assert!(moved["records"].as_u64().unwrap() < 2_000, "only what is new: {moved}");
        is_over.store(true, Ordering::SeqCst);
    });
    let name = format!("/api/handles/10.5/kept{round}");
    let (_, head, record) = service.ask("GET", &name, "", "");
    let tag = head.lines().find_map(|line| line.strip_prefix("etag: ")).unwrap().to_owned();
    let (_, _, changes) = service.ask("GET", "/api/v1/changes?after=11&limit=50", "", "");
    service.stop();
    let moved = place.migrate(from, to);
    assert_eq!((&moved["different"], &moved["notes_changing"]), (&Json::from(0), &Json::from(0)));
    same(from, to);

    let service = Service::start(place, to);
    assert_eq!(service.ask("GET", &name, "", "").2, record);
    assert_eq!(service.ask("GET", &name, &format!("If-None-Match: {tag}\r\n"), "").0, 304);
    assert!(changes.contains("10.5/new"), "{changes}");
    assert_eq!(service.ask("GET", "/api/v1/changes?after=11&limit=50", "", "").2, changes);
    service.stop();
}

#[test]
fn beside_running_servers() {
    let place = Place::new();
    place.fill("a", 3_000);
    let (there, further) = (database().1, database().1);
    move_beside(&place, &place.store("a"), &there, 1);
    move_beside(&place, &there, &further, 2);
    move_beside(&place, &further, &place.store("b"), 3);
    for store in [&there, &place.store("b")] {
        let (_, said) = place.run(0, &["verify", "--store", store]);
        assert!(said.contains("all right"), "{said}");
    }
}

/// It is killed at any moment, and goes on.
#[test]
fn killed_at_any_moment() {
    let place = Place::new();
    place.fill("a", 12_000);
    let (_, there) = database();
    let (first, back) = (place.store("a"), place.store("b"));
    for (from, to) in [(&first, &there), (&there, &back)] {
        let (mut kills, mut resumed, mut refused) = (0_u64, 0, 0);
        loop {
            let mut process = place
                .command(&["migrate", "--from", from, "--to", to])
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            // Each time a little later, so that it is killed everywhere and yet comes to its end.
            std::thread::sleep(Duration::from_millis(20 + kills * 13));
            let is_killed = process.try_wait().unwrap().is_none();
            process.kill().unwrap();
            let output = process.wait_with_output().unwrap();
            let said = texts(&output).1;
            resumed += u32::from(said.contains("an earlier run was stopped; this one goes on"));
            if !is_killed {
                assert_eq!(output.status.code(), Some(0), "{said}");
                break;
            }
            kills += 1;
            // Nobody uses what is not whole.
            if kills % 3 == 1 {
                let output = place.command(&["verify", "--store", to]).output().unwrap();
                let is_refused = texts(&output).1.contains("is the unfinished copy of another");
                refused += u32::from(is_refused && output.status.code() == Some(2));
            }
        }
        assert!(
            kills > 3 && resumed > 2 && refused > 0,
            "{kills} kills, {resumed} resumed, {refused} refused"
        );
        same(from, to);
        place.run(0, &["verify", "--store", to]);
    }
}

/// What is changed in a target, by whatever hand, is found.
#[test]
fn tampering() {
    let place = Place::new();
    place.fill("a", 500);
    let ((name, address), server) = (database(), tendot_testing::postgres::shared_server());
    let from = place.store("a");
    place.migrate(&from, &address);
    block_on(server.execute(&name, "update tendot_records set revision = 1 where name = '10.5/a8'"));
    let arguments = ["migrate", "--from", &from, "--to", &address, "--compare-all"];
    let (said, talk) = place.run(1, &arguments);
    assert!(said == "differs: the record `10.5/A8`\n" && talk.contains("not whole"), "{said}{talk}");
    let (said, _) = place.run(1, &[&arguments[..], &["--json"]].concat());
    assert_eq!(serde_json::from_str::<Json>(&said).unwrap()["differences"][0], "the record `10.5/A8`");
    let (_, talk) = place.run(2, &["serve", "--store", &address]);
    assert!(talk.contains("is the unfinished copy of another") && talk.contains("tendot migrate"), "{talk}");
    block_on(server.execute(&name, "update tendot_records set revision = 2 where name = '10.5/a8'"));
    place.run(0, &arguments);

    let (_, talk) = place.run(0, &["verify", "--store", &address]);
    assert!(talk.contains("500 records, all right"), "{talk}");
    block_on(
        server.execute(&name, "update tendot_records set body = substr(body, 3) where name = '10.5/a9'"),
    );
    let (said, _) = place.run(1, &["verify", "--store", &address]);
    assert!(said.starts_with("record `10.5/A9`") && said.lines().count() == 1, "{said}");
    let (said, _) = place.run(1, &["verify", "--json", "--store", &address]);
    assert!(said.contains(r#""damaged":1}"#), "{said}");
}

/// Backups of either kind of store become either kind.
#[test]
fn backups() {
    let place = Place::new();
    place.fill("a", 800);
    let (first, second) = (database().1, database().1);
    place.migrate(&place.store("a"), &first);
    place.run(0, &["backup", "copy.backup", "--store", &first]);
    let left: Vec<_> =
        std::fs::read_dir(place.0.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().contains("moving")), "{left:?}");
    place.run(0, &["restore", "copy.backup", "--data", "b"]);
    let (_, talk) = place.run(0, &["restore", "copy.backup", "--store", &second]);
    assert!(talk.contains("is that of `copy.backup`"), "{talk}");
    for store in [&first, &second, &place.store("b")] {
        same(&place.store("a"), store);
    }
    let (_, talk) = place.run(2, &["restore", "copy.backup", "--store", &second, "--force"]);
    assert!(talk.contains("another database"), "{talk}");
    block_on(async {
        let store = Postgres::open(&second, &PostgresSettings::default()).await.unwrap();
        let home = tendot_store::Edit::Home { prefix: "10.6".into() };
        let change = tendot_store::Change { by: "test".into(), at: 1, edits: vec![home] };
        store.commit(change).await.unwrap();
    });
    let (_, talk) = place.run(2, &["restore", "copy.backup", "--store", &second]);
    assert!(talk.contains("written by somebody else") && talk.contains("nothing was written"), "{talk}");
}

/// What is refused is left as it is, and passwords are not shown.
#[test]
fn refusals() {
    let place = Place::new();
    place.fill("a", 10);
    place.fill("other", 11);
    let (a, other) = (place.store("a"), place.store("other"));
    let before = content(&other);
    let check = |from: &str, to: &str, told: &str| {
        let (said, talk) = place.run(2, &["migrate", "--from", from, "--to", to]);
        assert!(said.is_empty() && talk.contains(told) && !talk.contains("geheim"), "{from} {to}: {talk}");
    };
    check(&a, &other, "there is something in the target already");
    check(&a, &a, "the target is the source");
    check(&a, "embedded:./a", "the target is the source");
    check(&a, "mysql:x", "`--to mysql:x` is no store");
    check("embedded:", &other, "is no store");
    check(&place.store("none"), &place.store("new"), "there is no store in");
    check("postgres://u:geheim@127.0.0.1:1/x", &place.store("new"), "no database server was reached");
    check(&a, "postgres://u:geheim@127.0.0.1:1/x", "no database server was reached");
    check(&database().1, &place.store("new"), "the tables in");
    assert!(!place.path("new").exists(), "nothing is made for nothing");
    assert!(content(&other) == before);
    place.migrate(&a, &place.store("new"));
    check(&other, &place.store("new"), "the copy of another store");
    // Somebody writes the target.
    let service = Service::start(&place, &place.store("new"));
    check(&a, &place.store("new"), "is in use by process");
    assert_eq!(service.put("10.5/x", "x"), 201);
    service.stop();
    check(&a, &place.store("new"), "written by somebody else");
}
