//! How the commands of the registry choose server and token, trust certificates, and print what a server sends.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::thread;

use serde_json::json;

use super::batch_import::generate_batch;
use super::{TestRegistry, check_error};
use crate::support::{StoreKind, TestDir, TestServer, tendot, tests_per_store};

tests_per_store!(server_and_token_selection, over_tls);

fn server_and_token_selection(store: StoreKind) {
    let registry = TestRegistry::start(store);
    let add = ["agency", "add", "X", "Y"];
    let without = registry.command(&add).env_remove("TENDOT_TOKEN").output().unwrap();
    check_error(
        &without,
        2,
        "the operator's token is in the file `operator.token` of the service's data directory",
        &add,
    );
    // The token is not taken from the data directory, even if it is there.
    assert!(registry.dir.file("tendot-data/operator.token").exists());
    registry.run_error(
        &[&add[..], &["--token", "wrong"]].concat(),
        2,
        "hint: `--token` or TENDOT_TOKEN has one",
    );
    registry.run_error(&[&add[..], &["--token", "a\nb"]].concat(), 2, "error: invalid token");
    let public = registry.command(&["agency", "list"]).env_remove("TENDOT_TOKEN").output().unwrap();
    assert!(public.status.success());
    // The flag takes precedence over the variable.
    assert!(
        registry
            .command(&["agency", "list", "--server", &registry.url])
            .env("TENDOT_SERVER", "x")
            .output()
            .unwrap()
            .status
            .success()
    );
    registry.run_error(
        &["agency", "list", "--server", "http://127.0.0.1:1"],
        2,
        "hint: is it running? `tendot serve` starts a service",
    );
    registry.run_error(
        &["agency", "list", "--server", "localhost"],
        2,
        "error: invalid server URL `localhost`",
    );
    registry.run_error(&["agency", "list", "--server", "http://example.org"], 2, "over plain HTTP");
    registry.run_error(&["agency", "show", "NONE"], 1, "error: agency not found: `NONE` (not-found)\n");
    registry.run_error(
        &["agency", "add", "LIB", "again"],
        1,
        "error: agency `LIB` already exists (agency-exists at /code)\n",
    );
    registry.run_error(&["agency", "show", ""], 2, "error: ");
    let none = registry.run(&["doi", "list"]);
    assert_eq!(
        (String::from_utf8_lossy(&none.stderr).as_ref(), none.status.code()),
        ("there are none\n", Some(0))
    );
}

fn over_tls(store: StoreKind) {
    let dir = TestDir::new();
    dir.write_certificate(&["127.0.0.1"]);
    let server = TestServer::builder(&dir).http("off").with_https().envs(store.env()).start();
    let registry = TestRegistry::of(dir, server);
    assert_eq!(
        registry.run_ok(&["agency", "add", "LIB", "The library", "--trust", "certificate.pem"]),
        "LIB"
    );
    let press =
        registry.run_ok(&["registrant", "add", "--agency", "LIB", "Press", "--trust", "certificate.pem"]);
    registry.run_ok(&["prefix", "add", "--registrant", &press, "--trust", "certificate.pem"]);
    registry.dir.write("names.csv", generate_batch(500, "csv"));
    let imported = registry.run(&["doi", "import", "names.csv", "--trust", "certificate.pem"]);
    let stderr = String::from_utf8_lossy(&imported.stderr);
    assert!(stderr.contains("475 created, 0 updated, 0 unchanged, 25 refused; "), "{stderr}");
    // The certificate is not trusted without `--trust`.
    registry.run_error(&["agency", "list"], 2, "cannot connect to ");
    registry.run_error(&["agency", "list", "--trust", "names.csv"], 2, "error: invalid CA certificates");
}

/// Text of a server does not control the terminal (security row D7).
#[test]
fn escapes_server_responses() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut line = String::new();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            reader.read_line(&mut line).unwrap();
            let evil = "\u{1b}]0;owned\u{7}\u{202e}\u{9b}2J";
            let object =
                json!({"code": evil, "name": evil, "warnings": [evil], "state": [evil, {evil: evil}]});
            let (status, body) = match &line {
                line if line.contains("/agencies?") => ("200 OK", json!({"items": [object]})),
                line if line.contains("/agencies/") => ("200 OK", object),
                _ => (
                    "422 X",
                    json!({"status": 422, "code": evil, "detail": evil, "hint": evil, "pointer": evil, "since": evil,
                    "faults": [{}, {"pointer": evil, "message": evil}]}),
                ),
            };
            let body = body.to_string();
            while reader.read_line(&mut line).is_ok_and(|read| read > 2) {}
            write!(
                stream,
                "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            )
            .unwrap();
        }
    });
    for arguments in [["agency", "list"].as_slice(), &["agency", "show", "X"], &["doi", "show", "10.1/x"]] {
        let output = tendot().args(arguments).args(["--server", &address]).output().unwrap();
        let all = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(all.contains("\\u{1b}]0;owned\\u{7}\\u{202e}\\u{9b}2J"), "{all}");
        assert!(!all.chars().any(|c| (c.is_control() && c != '\n') || c == '\u{202e}'), "{all:?}");
    }
}
