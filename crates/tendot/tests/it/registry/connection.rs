//! Registry commands: selection of server and token, CA certificates, and escaping of responses.

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
    let create = ["agency", "create", "X", "Y"];
    let without = registry.command(&create).env_remove("TENDOT_TOKEN").output().unwrap();
    check_error(
        &without,
        2,
        "the operator token is in `operator.token` in the server's data directory",
        &create,
    );
    // The token in the data directory is not used by default.
    assert!(registry.dir.file("tendot-data/operator.token").exists());
    registry.run_error(
        &[&create[..], &["--token", "wrong"]].concat(),
        2,
        "hint: the token is unknown, revoked or expired",
    );
    registry.run_error(&[&create[..], &["--token", "a\nb"]].concat(), 2, "error: invalid token");
    // A file can be given instead, by a flag or by a variable.
    let tokenless = |arguments: &[&str]| {
        let mut command = registry.command(arguments);
        command.env_remove("TENDOT_TOKEN");
        command
    };
    let from_file = ["agency", "create", "FILE", "Y", "--token-file", "tendot-data/operator.token"];
    assert!(tokenless(&from_file).output().unwrap().status.success());
    let from_env = tokenless(&["agency", "create", "ENV", "Y"])
        .env("TENDOT_TOKEN_FILE", "tendot-data/operator.token")
        .output()
        .unwrap();
    assert!(from_env.status.success());
    let missing = tokenless(&["agency", "list", "--token-file", "none"]).output().unwrap();
    check_error(&missing, 2, "error: cannot read `none`", &["--token-file", "none"]);
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
        "hint: is the server running? start it with `tendot serve`",
    );
    registry.run_error(
        &["agency", "list", "--server", "localhost"],
        2,
        "error: invalid server URL `localhost`",
    );
    registry.run_error(&["agency", "list", "--server", "http://example.org"], 2, "over plain HTTP");
    registry.run_error(&["agency", "show", "NONE"], 1, "error: agency not found: `NONE` (not-found)\n");
    registry.run_error(
        &["agency", "create", "LIB", "again"],
        1,
        "error: agency `LIB` already exists (agency-exists at /code)\n",
    );
    registry.run_error(&["agency", "show", ""], 2, "error: ");
    let none = registry.run(&["doi", "list"]);
    assert_eq!(
        (String::from_utf8_lossy(&none.stderr).as_ref(), none.status.code()),
        ("no results\n", Some(0))
    );
}

fn over_tls(store: StoreKind) {
    let dir = TestDir::new();
    dir.write_certificate(&["127.0.0.1"]);
    let server = TestServer::builder(&dir).http("off").with_https().envs(store.env()).start();
    let registry = TestRegistry::of(dir, server);
    assert_eq!(
        registry.run_ok(&["agency", "create", "LIB", "The library", "--ca-file", "certificate.pem"]),
        "LIB"
    );
    let press = registry.run_ok(&[
        "registrant",
        "create",
        "--agency",
        "LIB",
        "Press",
        "--ca-file",
        "certificate.pem",
    ]);
    registry.run_ok(&["prefix", "create", "--registrant", &press, "--test", "--ca-file", "certificate.pem"]);
    registry.dir.write("names.csv", generate_batch(500, "csv"));
    let imported = registry.run(&["doi", "import", "names.csv", "--ca-file", "certificate.pem"]);
    let stderr = String::from_utf8_lossy(&imported.stderr);
    assert!(stderr.contains("475 created, 0 updated, 0 unchanged, 25 refused; "), "{stderr}");
    // The certificate is not trusted without `--ca-file`.
    registry.run_error(&["agency", "list"], 2, "cannot connect to ");
    registry.run_error(&["agency", "list", "--ca-file", "names.csv"], 2, "error: invalid CA certificates");
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
