//! `tendot resolve` from outside, at servers on loopback.

#[path = "../../tendot-client/tests/peer/mod.rs"]
mod peer;

use std::process::Command;
use std::time::{Duration, Instant};

use peer::Peer;
use peer::service::Service;
use serde_json::Value as Json;
use tendot_proto::bootstrap::write_root_info;
use tendot_proto::{ResponseCode, Value};

const LINK: &str = "https://example.org/182";

fn service() -> Service {
    let values = vec![Value::new(1, "URL", LINK), Value::new(2, "DESC", "a\u{202e}b")];
    Service::new().with("10.1000/182", values)
}

/// Peers have to be served meanwhile.
fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

fn resolve(arguments: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_tendot")).arg("resolve").args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn one_server() {
    let runtime = runtime();
    let peer = runtime.block_on(Peer::start(service()));
    let server = format!("hdl://{}", peer.address);
    let (code, said, told) = resolve(&["--server", &server, "https://doi.org/10.1000%2F182"]);
    let said: Vec<&str> = said.lines().collect();
    assert_eq!((code, told.as_str(), said[0]), (0, "", "10.1000/182"));
    assert!(said[1].starts_with(&format!("  from {} over UDP, ", peer.address)), "{}", said[1]);
    assert_eq!(said[2..], ["    1 URL https://example.org/182", "    2 DESC a\\u{202e}b"]);

    let (code, said, _) = resolve(&["--server", &server, "--json", "--tcp", "--index", "2", "10.1000/182"]);
    let said: Json = serde_json::from_str(&said).unwrap();
    assert_eq!((code, &said["responseCode"], &said["transport"]), (0, &1.into(), &"tcp".into()));
    assert_eq!((&said["handle"], &said["values"][0]["index"]), (&"10.1000/182".into(), &2.into()));
    assert_eq!(
        (&said["from"], said["values"].as_array().unwrap().len()),
        (&peer.address.to_string().into(), 1)
    );

    let key = concat!(env!("CARGO_MANIFEST_DIR"), "/../../conformance/vectors/handle-net/pubkey.bin");
    let other = concat!(env!("CARGO_MANIFEST_DIR"), "/../../conformance/vectors/handle-net/admpub.bin");
    let certified = |key: &str| {
        resolve(&["--server", &server, "--certified", "--server-key", key, "--type", "URL", "10.1000/182"])
    };
    assert_eq!(certified(key).0, 0);
    let (code, said, told) = certified(other);
    assert_eq!((code, said.as_str()), (2, ""));
    assert!(told.contains("over TCP: the signature of the answer"), "{told}");
}

#[test]
fn what_is_not_there() {
    let runtime = runtime();
    let peer = runtime.block_on(Peer::start(service()));
    let server = format!("hdl://{}", peer.address);
    let (code, said, told) = resolve(&["--server", &server, "10.1000/nope"]);
    assert_eq!((code, said.as_str()), (1, ""));
    assert!(told.starts_with("error: no record for `10.1000/nope` (handle not found, code 100)\n"), "{told}");
    assert!(told.contains("hint: "), "{told}");
    let (code, said, _) = resolve(&["--server", &server, "--json", "10.1000/nope"]);
    let said: Json = serde_json::from_str(&said).unwrap();
    assert_eq!((code, &said["responseCode"], &said["values"]), (1, &100.into(), &Json::Array(Vec::new())));
    let (code, _, told) = resolve(&["--server", &server, "--type", "EMAIL", "10.1000/182"]);
    assert_eq!(code, 1);
    assert!(told.contains("has no such value"), "{told}");
    peer.service().code = Some(ResponseCode::SERVER_NOT_RESPONSIBLE);
    let (code, _, told) = resolve(&["--server", &server, "10.1000/182"]);
    assert_eq!(code, 2);
    assert!(told.contains("are not kept there (code 301)") && told.contains("hint: "), "{told}");
}

#[test]
fn from_a_root() {
    let runtime = runtime();
    let keeper = runtime.block_on(Peer::start(service()));
    let prefix = vec![peer::site_value(1, &keeper.site())];
    let root = runtime.block_on(Peer::start(Service::new().with("0.NA/10.1000", prefix)));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("root_info");
    std::fs::write(&file, write_root_info(&[peer::site_value(1, &root.site())])).unwrap();
    let file = file.to_str().unwrap();
    for extra in [&[][..], &["--certified"], &["--auth"], &["--udp"], &["--tcp"]] {
        let (code, said, told) = resolve(&[&["--root", file, "10.1000/182"], extra].concat());
        assert!(code == 0 && said.contains(LINK), "{extra:?}: {told}");
        assert!(said.contains(&keeper.address.to_string()), "{said}");
    }
    let (code, _, told) = resolve(&["--root", file, "10.2000/182"]);
    assert_eq!(code, 1);
    assert!(told.contains("nobody keeps names of its prefix"), "{told}");
    std::fs::write(file, "rubbish").unwrap();
    let (code, _, told) = resolve(&["--root", file, "10.1000/182"]);
    assert_eq!(code, 2);
    assert!(told.contains("neither a JSON object"), "{told}");
}

#[test]
fn over_http() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().to_str().unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let address = format!("127.0.0.1:{port}");
    let mut arguments = vec!["serve", "--demo", "--data", store, "--http", &address];
    let help = Command::new(env!("CARGO_BIN_EXE_tendot")).args(["serve", "--help"]).output().unwrap();
    if String::from_utf8_lossy(&help.stdout).contains("--native") {
        // Its port may be somebody else's.
        arguments.extend(["--native", "off"]);
    }
    let mut service = Command::new(env!("CARGO_BIN_EXE_tendot"))
        .args(arguments)
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let server = format!("http://{address}");
    let started = Instant::now();
    while std::net::TcpStream::connect(&address).is_err() && started.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(50));
    }
    let found = resolve(&["--server", &server, "--type", "URL", "10.5555/demo"]);
    let nothing = resolve(&["--server", &server, "--json", "10.5555/none"]);
    let certified = resolve(&["--server", &server, "--certified", "10.5555/demo"]);
    service.kill().unwrap();
    service.wait().unwrap();
    assert!(found.0 == 0 && found.1.contains("over HTTP") && found.1.contains("    1 URL "), "{found:?}");
    assert!(!found.1.contains("DESC"), "{found:?}");
    assert!(nothing.0 == 1 && nothing.1.contains("\"responseCode\":100"), "{nothing:?}");
    assert!(certified.0 == 2 && certified.2.contains("hint: "), "{certified:?}");
}

#[test]
fn what_cannot_be_asked() {
    let dead = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let check = |arguments: &[&str], expected: &str| {
        let (code, said, told) = resolve(arguments);
        assert_eq!((code, said.as_str()), (2, ""), "{arguments:?}");
        assert!(told.starts_with("error: ") && told.contains(expected), "{arguments:?}: {told}");
    };
    check(&["--server", &format!("hdl://{dead}"), "10.1000/182"], "over TCP: cannot be reached");
    check(&["--server", &format!("http://{dead}"), "10.1000/182"], "could not be asked");
    check(&["--server", "gopher://x", "10.1000/182"], "no address of a resolver");
    check(&["--server", "hdl://127.0.0.1", "--certified", "10.1000/182"], "hint: `--server-key");
    check(&["--root", "/nonexistent", "10.1000/182"], "/nonexistent: ");
    check(&["--server", "hdl://127.0.0.1", ""], "is no name");
}
