//! Records and prefixes: every verb, natively and over REST, with keys, secrets and tokens.

use std::process::Command;

use super::{ADMIN, HandleServer, KEY, SECRET_ADMIN, connections, handle_net};
use crate::support::{StoreKind, TENDOT, tests_per_store};

tests_per_store!(create_show_update_delete_list, home_and_unhome, json_values, errors);

fn create_show_update_delete_list(store: StoreKind) {
    let server = HandleServer::start(store);
    for (number, connection) in connections(&server).iter().enumerate() {
        let connection: Vec<&str> = connection.iter().map(String::as_str).collect();
        let name = format!("10.5555/CLI-{number}");
        let values = [
            "1,ttl=3600:URL:https://example.org/a:b",
            "2,permissions=1100:EMAIL:x@example.org",
            "100:HS_ADMIN:300:111111111111:0.NA/10.5555",
            "101:HS_ADMIN:301:10.5555/ADMIN",
        ];
        let create = [&["create", &name], &values[..]].concat();
        server.run_ok(&create, &connection);
        server.run_error(&create, &connection, 1, &format!("handle already exists: `{name}`"));
        server.run_ok(&[&create[..], &["--overwrite"]].concat(), &connection);

        let found = server.values(&name, &connection);
        assert_eq!(found.iter().map(|(index, _)| *index).collect::<Vec<_>>(), [1, 2, 100, 101]);
        assert_eq!((&*found[0].1, &*found[1].1), ("https://example.org/a:b", "x@example.org"));
        let text = server.run_ok(&["show", &name, "--type", "URL"], &connection);
        assert!(
            text.starts_with(&format!("{name}\n    1 URL https://example.org/a:b  (TTL 3600 s, ")),
            "{text}"
        );
        // Without credentials, the same server shows public values only.
        let public = server.values(&name, &connection[..2]);
        assert_eq!(public.iter().map(|(index, _)| *index).collect::<Vec<_>>(), [1, 100, 101]);

        let update = ["update", &name, "1:URL:https://example.org/new", "3:DESC:text", "--remove", "2"];
        server.run_ok(&update, &connection);
        let found = server.values(&name, &connection);
        assert_eq!(found.iter().map(|(index, _)| *index).collect::<Vec<_>>(), [1, 3, 100, 101]);
        assert_eq!(found[0].1, "https://example.org/new");
        server.run_error(&["show", &name, "--index", "2"], &connection, 1, "no such value");

        let listed = server.run_ok(&["list", "10.5555"], &connection);
        assert!(listed.lines().any(|line| line.eq_ignore_ascii_case(&name)), "{listed}");
        assert_eq!(server.run_ok(&["list", "10.5555", "--limit", "2"], &connection).lines().count(), 2);
        let deleted = server.run_ok(&["delete", &name, "--json"], &connection);
        assert_eq!(deleted, format!("{{\"responseCode\":1,\"handle\":\"{name}\"}}\n"));
        for arguments in [&["delete", &name][..], &["show", &name], &["update", &name, "1:URL:a:b"]] {
            server.run_error(arguments, &connection, 1, &format!("handle not found: `{name}`"));
        }
    }
}

fn home_and_unhome(store: StoreKind) {
    let server = HandleServer::start(store);
    for connection in connections(&server) {
        let connection: Vec<&str> = connection.iter().map(String::as_str).collect();
        if connection.contains(&"--secret-file") {
            server.run_error(&["home", "10.6666"], &connection, 2, "not authorized for `10.6666`");
            continue;
        }
        let is_listed = |prefix: &str| {
            let listed = server.run_ok(&["list"], &connection);
            listed.lines().any(|line| line == format!("0.NA/{prefix}"))
        };
        server.run_ok(&["home", "10.6666", "0.NA/10.6667"], &connection);
        assert!(is_listed("10.6666") && is_listed("10.6667") && is_listed("10.5555"));
        server.run_ok(&["create", "10.6666/1", "1:URL:https://example.org/"], &connection);
        server.run_ok(&["delete", "10.6666/1"], &connection);
        server.run_ok(&["unhome", "10.6666", "10.6667"], &connection);
        assert!(!is_listed("10.6666") && !is_listed("10.6667"));
    }
}

/// What `show --json` prints is what `--values` reads; a key value is read from a file, also in PEM for `--key`.
fn json_values(store: StoreKind) {
    let server = HandleServer::start(store);
    let mut openssl = Command::new("openssl");
    openssl.args(["genrsa", "-out", "key.pem", "2048"]).current_dir(server.dir.path());
    assert!(openssl.output().unwrap().status.success());
    for connection in connections(&server) {
        let connection: Vec<&str> = connection.iter().map(String::as_str).collect();
        // The identity with the secret key may not read the private values of this record.
        if connection.contains(&"--secret-file") {
            continue;
        }
        let json = server.run_ok(&["show", "10.5555/MULTI", "--json"], &connection);
        let file = server.dir.write("values.json", json);
        server.run_ok(&["create", "10.5555/COPY", "--values", &file], &connection);
        assert_eq!(server.values("10.5555/COPY", &connection), server.values("10.5555/MULTI", &connection));
        let key = format!("300:HS_PUBKEY:@{}", handle_net("admpub.bin"));
        server.run_ok(&["update", "10.5555/COPY", &key], &connection);
        let shown = server.run_ok(&["show", "10.5555/COPY", "--type", "HS_PUBKEY"], &connection);
        assert!(shown.contains("\"kty\":\"RSA\""), "{shown}");
        server.run_error(
            &["update", "10.5555/COPY", "300:HS_PUBKEY:@key.pem"],
            &connection,
            2,
            "not a public key",
        );
        server.run_ok(&["delete", "10.5555/COPY"], &connection);
    }
    // A PEM key is read, but is not that of the identity.
    for address in [server.native(), server.server.url()] {
        let connection = ["--server", &address, "--auth", ADMIN, "--key", "key.pem"];
        server.run_error(&["list", "10.5555"], &connection, 2, "authentication failed");
    }
}

fn errors(store: StoreKind) {
    let server = HandleServer::start(store);
    let (native, http) = (server.native(), server.server.url());
    let value = "1:URL:https://example.org/";
    for address in [&native, &http] {
        let anonymous = ["--server", address];
        server.run_error(&["create", "10.5555/X", value], &anonymous, 2, "authentication required");
        server.run_error(&["create", "10.5555/X"], &anonymous, 2, "error: no values");
        server.run_error(&["create", "10.5555/X", "URL"], &anonymous, 2, "invalid value `URL`: missing `:`");
        server.run_error(&["create", "10.5555/X", value, value], &anonymous, 2, "duplicate value index 1");
        server.run_error(&["update", "10.5555/ONE"], &anonymous, 2, "nothing to update");
        server.run_error(&["list"], &["--server", address, "--auth", "x"], 2, "invalid identity `x`");
        server.run_error(&["list", "--auth", ADMIN, "--key", "none"], &anonymous, 2, "cannot read `none`");
        let other = ["--server", address.as_str(), "--auth", ADMIN, "--key", KEY];
        server.run_error(&["create", "10.7777/X", value], &other, 2, "not responsible for `10.7777/X`");
    }
    server.dir.write("wrong.txt", "wrong");
    for address in [&native, &http] {
        let wrong =
            ["--server", address.as_str(), "--auth", "301:10.5555/ADMIN", "--secret-file", "wrong.txt"];
        server.run_error(&["list", "10.5555"], &wrong, 2, "authentication failed");
    }
    let token = ["--server", &native, "--token", "x"];
    server.run_error(&["list", "10.5555"], &token, 2, "API tokens are for HTTP");
    server.run_error(
        &["list"],
        &["--server", "hdl://127.0.0.1:1", "--auth", ADMIN, "--key", KEY],
        2,
        "cannot connect to 127.0.0.1:1",
    );
    server.run_error(&["show", "10.5555/ONE"], &["--server", "127.0.0.1"], 2, "error: invalid server URL");
    server.run_error(&["list"], &["--server", "http://192.0.2.1", "--token", "x"], 2, "over plain HTTP");
}

/// Without a file, the secret key is typed at the terminal, where it is not shown. Python opens the terminal.
#[test]
fn secret_at_the_prompt() {
    let server = HandleServer::start(StoreKind::Embedded);
    let script = r#"
import os, pty, sys, termios
pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.argv[2], sys.argv[2:])
shown = b""
while not shown.endswith(b": "):
    shown += os.read(terminal, 1000)
while termios.tcgetattr(terminal)[3] & termios.ECHO:
    pass
os.write(terminal, sys.argv[1].encode() + b"\r")
try:
    while True:
        output = os.read(terminal, 1000)
        if not output:
            break
        shown += output
except OSError:
    pass
_, status = os.waitpid(pid, 0)
print(os.waitstatus_to_exitcode(status), shown.decode())
"#;
    let native = server.native();
    // Backspace deletes the last key.
    for (number, (typed, code)) in (1..).zip([("opensesame", 0), ("opensesamx\u{7f}e", 0), ("opensesamx", 2)])
    {
        let name = format!("10.5555/TYPED-{number}");
        let mut python = Command::new("python3");
        python.args(["-c", script, typed, TENDOT, "handle", "create", &name, "1:URL:https://example.org/"]);
        let output = python.args(["--server", &native, "--auth", SECRET_ADMIN]).output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(printed.starts_with(&format!("{code} Secret key of {SECRET_ADMIN}: ")), "{output:?}");
        assert!(!printed.contains("opensesam"), "{printed}");
    }
}
