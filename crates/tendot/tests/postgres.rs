//! `tendot serve --store postgres://…`: the tests of the registry and the tutorial once more, and what is wrong with a database.

#[path = "registry.rs"]
mod registry;
#[path = "tutorial.rs"]
mod tutorial;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value as Json;
use tendot_testing::block_on;
use tendot_testing::postgres::{PostgresServer, create_database_url, shared_server};

fn serve(store: &str) -> Command {
    let directory = tempfile::tempdir().unwrap().keep();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tendot"));
    command
        .current_dir(&directory)
        .args(["serve", "--native", "off", "--http", "127.0.0.1:0", "--store", store])
        .env_remove("CLICOLOR_FORCE");
    command
}

fn operator_token(serve: &Command) -> String {
    let file = serve.get_current_dir().unwrap().join("tendot-data/operator.token");
    std::fs::read_to_string(file).unwrap().trim().to_owned()
}

/// A service that runs, and is killed when it is no longer needed.
struct Service {
    process: Child,
    address: SocketAddr,
}

impl Service {
    fn start(command: &mut Command) -> Self {
        let mut process = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(process.stderr.take().unwrap()).lines().map_while(Result::ok);
        let ready = said.find(|line| line.starts_with("ready: ")).expect("it is ready");
        thread::spawn(move || said.for_each(drop));
        let address = ready.trim_start_matches("ready: http://").trim_end_matches('/').parse().unwrap();
        Self { process, address }
    }

    fn ask(&self, method: &str, path: &str, token: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(self.address).unwrap();
        let length = body.len();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\
             Content-Length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[track_caller]
    fn make(&self, token: &str, path: &str, body: &str) -> Json {
        let answer = self.ask("POST", &format!("/api/v1/{path}"), token, body);
        assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
        serde_json::from_str(answer.split("\r\n\r\n").nth(1).unwrap()).unwrap()
    }

    /// Gives 10.70000 to a registrant.
    fn give_prefix(&self, token: &str) {
        self.make(token, "agencies", r#"{"code": "LIB", "name": "Library"}"#);
        let registrant = self.make(token, "registrants", r#"{"agency": "LIB", "name": "Press"}"#);
        self.make(token, "prefixes", &format!(r#"{{"registrant": {}}}"#, registrant["id"]));
    }

    fn end(&self) {
        let process = self.process.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &process]).status().unwrap().success());
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// One sentence and a hint, and nothing is left behind in the database.
#[track_caller]
fn check(store: &str, sentence: &str, hint: &str) {
    let started = Instant::now();
    let output = serve(store).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let lines: Vec<_> = said.lines().filter(|line| !line.is_empty()).collect();
    assert!(
        matches!(&lines[..], [error, told] if error.starts_with("error: ") && told.starts_with("hint: ")),
        "{said}"
    );
    assert!(lines[0].contains(sentence), "{said}");
    assert!(lines[1].contains(hint), "{said}");
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{said}");
    assert!(!said.contains("not-to-be-told"), "{said}");
    assert!(started.elapsed() < Duration::from_secs(15), "{:?}", started.elapsed());
}

/// Tables of ours in a database.
fn tables(database: &str) -> String {
    block_on(
        shared_server().query_text(database, "select count(*) from pg_class where relname like 'tendot%'"),
    )
}

#[test]
fn what_is_wrong_with_a_database() {
    let server = shared_server();
    let [poor, empty, newer, full] = [(); 4].map(|()| server.create_database());
    let run = |database: &str, sql: &str| block_on(server.execute(database, sql));
    let at = |user: &str, database: &str| format!("postgres://{user}@127.0.0.1:{}/{database}", server.port);
    check(
        "postgres://u:not-to-be-told@host:port/d",
        "can't be read",
        "postgres://user:password@host:5432/database",
    );
    check("postgres://u:p@not-to-be-told@host/d", "written as %40", "postgres://user:password@host");
    check(
        "postgres://u:not-to-be-told@host/d?colour=red",
        "`colour`",
        "postgres://user:password@host:5432/database",
    );

    run("postgres", "create role locked login password 'right'; create role poor login");
    check(&at("locked:not-to-be-told", &poor), "refuses the user or the password", "pg_hba.conf");
    check(&at("locked", &poor), "refuses the user or the password", "pg_hba.conf");
    check(&at("nobody:not-to-be-told", &poor), "refuses the user or the password", "pg_hba.conf");
    check(&at("postgres:not-to-be-told", "no_such"), "no such database", "createdb");

    check(&at("poor", &poor), "has not the rights", "create tables");
    assert_eq!(tables(&poor), "0");
    // Who may read, and no more.
    Service::start(&mut serve(&server.url(&full))).end();
    run(&full, "grant select on all tables in schema public to poor");
    check(&at("poor", &full), "has not the rights", "to change them");
    run(&full, "grant update on all tables in schema public to poor");
    check(&at("poor", &full), "insert on tendot_records is missing", "to change them");

    run("postgres", &format!("alter database {empty} set default_transaction_read_only = on"));
    check(&at("postgres:not-to-be-told", &empty), "can only be read", "primary");
    assert_eq!(tables(&empty), "0");
    run("postgres", &format!("alter database {full} set default_transaction_read_only = on"));
    check(&server.url(&full), "can only be read", "primary");

    Service::start(&mut serve(&server.url(&newer))).end();
    run(&newer, "update tendot_schema set version = 99, compatible = 98");
    let before = tables(&newer);
    check(&server.url(&newer), "have the number 99 and need a program that knows 98", "newer version");
    assert_eq!(tables(&newer), before);
}

/// A database that is not there is not waited for: who starts this may do it again.
#[test]
fn no_database() {
    let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let store = format!("postgres://user:not-to-be-told@127.0.0.1:{unused}/d");
    check(&store, "no database server was reached", "it is not waited for");
    // Somebody is there, and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let store = format!("postgres://user:not-to-be-told@{}/d", silent.local_addr().unwrap());
    check(&store, "no database server was reached", "it is not waited for");
}

/// Two processes: a crowd deposits the same names at both, each is there once, and both lead to the same place.
#[test]
fn two_processes() {
    const CLIENTS: usize = 32;
    const NAMES: usize = 4;
    let store = create_database_url();
    let mut command = serve(&store);
    // The operator's token is in the directory, which both have.
    let services = [Service::start(&mut command), Service::start(&mut command)];
    let token = &*operator_token(&command);
    services[0].give_prefix(token);
    let start = Barrier::new(CLIENTS);
    let made: Vec<usize> = thread::scope(|scope| {
        let deposits = (0..CLIENTS).map(|client| {
            let (services, start) = (&services, &start);
            scope.spawn(move || {
                start.wait();
                let deposit = |number: usize| {
                    let body = format!(
                        r#"{{"name": "10.70000/{}", "url": "https://example.org/{client}"}}"#,
                        (client + number) % NAMES
                    );
                    let answer = services[client % 2].ask("POST", "/api/v1/dois", token, &body);
                    let is_made = answer.starts_with("HTTP/1.1 201 ");
                    assert!(is_made || answer.contains("already-registered"), "{answer}");
                    usize::from(is_made)
                };
                (0..NAMES).map(deposit).sum()
            })
        });
        let deposits: Vec<_> = deposits.collect();
        deposits.into_iter().map(|deposit| deposit.join().unwrap()).collect()
    });
    assert_eq!(made.iter().sum::<usize>(), NAMES, "{made:?}");
    for number in 0..NAMES {
        let [here, there] = services.each_ref().map(|service| {
            let answer = service.ask("GET", &format!("/10.70000/{number}"), "", "");
            answer.lines().find_map(|line| line.strip_prefix("location: ").map(str::to_owned)).unwrap()
        });
        assert_eq!(here, there);
    }
}

/// The end does not wait for a database that does not answer, though something was counted that is to be written there.
#[test]
fn the_end_with_a_silent_database() {
    let server = PostgresServer::start("");
    let store = block_on(async { server.url(&server.create_database()) });
    let mut command = serve(&store);
    let mut service = Service::start(&mut command);
    let token = operator_token(&command);
    service.give_prefix(&token);
    service.make(&token, "dois", r#"{"name": "10.70000/x", "url": "https://example.org/"}"#);
    assert!(service.ask("GET", "/10.70000/x", "", "").starts_with("HTTP/1.1 302"));
    assert!(!server.signal("STOP").is_empty());
    let asked = Instant::now();
    service.end();
    let mut status = None;
    while status.is_none() && asked.elapsed() < Duration::from_secs(30) {
        thread::sleep(Duration::from_millis(20));
        status = service.process.try_wait().unwrap();
    }
    // It has to be able to end, too.
    server.signal("CONT");
    assert_eq!(status.and_then(|status| status.code()), Some(0), "after {:?}", asked.elapsed());
}
