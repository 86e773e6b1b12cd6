//! The native protocol of the server: transports, addresses, its key and site record.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};

use serde_json::json;
use tendot_proto::auth::{Challenge, SecretKeyMac, SecretKeyResponse};
use tendot_proto::crypto::SystemRandom;
use tendot_proto::message::DigestAlgorithm;
use tendot_proto::record::Site;
use tendot_proto::{Handle, Message, MessageBody, Opcode, Request, RequestDigest, Response, ResponseData};
use tendot_testing::handle_messages::{self, now, response_code};
use tendot_testing::{WAIT_TIMEOUT, auth_context, wait_until, workspace_root};

use crate::support::{TestDir, TestServer, text_output};

/// Sends a message on a new connection; returns the response.
pub(super) fn exchange(address: SocketAddr, message: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(WAIT_TIMEOUT))?;
    stream.write_all(message)?;
    let mut response = Vec::new();
    stream.read_to_end(&mut response)?;
    if response.is_empty() { Err(std::io::ErrorKind::UnexpectedEof.into()) } else { Ok(response) }
}

/// Sends a message as a datagram; returns the first datagram of the response and its source.
pub(super) fn exchange_datagram(address: SocketAddr, message: &[u8]) -> (Vec<u8>, SocketAddr) {
    let socket = UdpSocket::bind(if address.is_ipv4() { "127.0.0.1:0" } else { "[::1]:0" }).unwrap();
    socket.set_read_timeout(Some(WAIT_TIMEOUT)).unwrap();
    socket.send_to(message, address).unwrap();
    let mut buffer = [0; 600];
    let (length, from) = socket.recv_from(&mut buffer).unwrap();
    (buffer[..length].to_vec(), from)
}

/// A request for all values of a name.
pub(super) fn resolution(name: &str) -> Vec<u8> {
    handle_messages::resolution(name).to_bytes().unwrap()
}

fn resolve(server: &TestServer, name: &str) -> u32 {
    response_code(&exchange(server.native_address(), &resolution(name)).unwrap())
}

#[test]
fn names_are_resolved_over_both_transports() {
    let dir = TestDir::new();
    let server = TestServer::builder(&dir).demo().with_native().start();
    assert_eq!((resolve(&server, "10.5555/DEMO"), resolve(&server, "10.5555/NONE")), (1, 100));
    let address = server.native_address();
    let (response, from) = exchange_datagram(address, &resolution("10.5555/DEMO"));
    assert_eq!((response_code(&response), from), (1, address));
    let metrics = server.get("/metrics");
    assert!(metrics.text().contains("tendot_native_requests_total{transport=\"udp\""));
    assert_eq!(server.terminate(), Some(0));
}

/// A server on a wildcard address responds from the address that the request was sent to; clients ignore other sources.
#[test]
fn response_source_is_request_destination() {
    for (listen, destinations) in
        [("0.0.0.0:0", &["127.0.0.1", "127.0.0.2"][..]), ("[::]:0", &["127.0.0.1", "127.0.0.2", "::1"])]
    {
        let dir = TestDir::new();
        let server = TestServer::builder(&dir).demo().http("off").native(listen).start();
        for destination in destinations {
            let destination: IpAddr = destination.parse().unwrap();
            let address = SocketAddr::new(destination, server.native_address().port());
            for _ in 0..4 {
                let (response, from) = exchange_datagram(address, &resolution("10.5555/DEMO"));
                assert_eq!((response_code(&response), from), (1, address), "{listen}");
            }
        }
    }
}

#[test]
fn http_or_native_can_be_disabled() {
    let dir = TestDir::new();
    let server = TestServer::builder(&dir).demo().http("off").with_native().start();
    assert_eq!(server.urls().len(), 1);
    assert_eq!(resolve(&server, "10.5555/DEMO"), 1);
    assert_eq!(server.terminate(), Some(0));
    let server = TestServer::builder(&dir).start();
    assert_eq!(server.urls().len(), 1);
    assert_eq!(server.get("/api/site").status, 404);
}

#[test]
fn key_and_site_record_are_created_once() {
    let dir = TestDir::new();
    let (code, _, stderr) = dir.run(&["site", "show"]);
    assert!(code == Some(1) && stderr.contains("it is created by the first `tendot serve`"), "{stderr}");
    let builder = TestServer::builder(&dir).demo().with_native();
    let server = builder.start();
    for file in ["privkey.bin", "pubkey.bin", "siteinfo.json"] {
        assert_eq!(dir.mode(&format!("tendot-data/{file}")), 0o600, "{file}");
    }
    let (code, stdout, _) = dir.run(&["site", "show", "--json"]);
    let first = Site::from_json(stdout.as_bytes()).unwrap();
    assert_eq!((code, first.serial, stdout.lines().count()), (Some(0), 1, 1));
    let ports: Vec<u32> = first.servers[0].interfaces.iter().map(|interface| interface.port).collect();
    let (native, http) = (server.native_address(), server.address());
    assert_eq!(ports, [native, native, http].map(|address| u32::from(address.port())));
    assert!(server.get("/api/site").text().contains(stdout.trim()), "{stdout}");
    assert_eq!(server.terminate(), Some(0));

    // The same addresses give the same record; another description increments the serial number and does not change the key.
    let same = TestServer::builder(&dir).http(&http.to_string()).native(&native.to_string());
    assert_eq!(same.start().terminate(), Some(0));
    let site = || Site::from_json(dir.run(&["site", "show"]).1.as_bytes()).unwrap();
    assert_eq!(site(), first);
    let other = same.set("native.description=test").set("native.public_address=192.0.2.7");
    assert_eq!(other.start().terminate(), Some(0));
    let second = site();
    assert_eq!((second.serial, second.description()), (2, Some("test")));
    assert_eq!(second.servers[0].ip().to_string(), "192.0.2.7");
    assert_eq!(second.servers[0].public_key, first.servers[0].public_key);

    // A key that others can read is refused, and so is an invalid one.
    dir.set_mode("tendot-data/privkey.bin", 0o644);
    let (code, _, stderr) = text_output(&mut builder.command());
    assert!(code == Some(2) && stderr.contains("hint: run `chmod 600"), "{stderr}");
    dir.set_mode("tendot-data/privkey.bin", 0o600);
    dir.write("tendot-data/privkey.bin", "no key");
    let (code, _, stderr) = text_output(&mut builder.command());
    assert!(code == Some(2) && stderr.contains("cannot use `tendot-data/privkey.bin`"), "{stderr}");
}

/// `tendot site export` writes the site bundle for a prefix registry.
#[test]
fn site_bundle() {
    let dir = TestDir::new();
    let builder = TestServer::builder(&dir).http("off").native("0.0.0.0:0");
    assert_eq!(builder.start().terminate(), Some(0));
    let (code, _, stderr) = dir.run(&["site", "export"]);
    assert!(code == Some(2) && stderr.contains("hint: set `native.public_address`"), "{stderr}");
    assert_eq!(builder.set("native.public_address=192.0.2.7").start().terminate(), Some(0));
    let (code, stdout, stderr) =
        dir.run(&["site", "export", "b.zip", "--json", "--contact", "Ada \"L\"", "--email", "a@b.c"]);
    assert!(code == Some(0) && stderr.contains("keep `tendot-data/admpriv.bin` safe"), "{stderr}");
    let contents =
        r#"{"file":"b.zip","contents":["siteinfo.json","siteinfo.bin","admpub.bin","contactdata.dct"]}"#;
    assert_eq!(stdout.trim(), contents);
    let read = |file: &str| std::fs::read(dir.file(file)).unwrap();
    let bundle = read("b.zip");
    let has = |bytes: &[u8]| bundle.windows(bytes.len()).any(|window| window == bytes);
    assert!(bundle.starts_with(b"PK\x03\x04") && has(b"\"name\" = \"Ada \\\"L\\\"\""));
    assert!(has(&read("tendot-data/admpub.bin")));
    let private = read("tendot-data/admpriv.bin");
    assert!(!has(&private[private.len() - 100..]));
    // The second archive has the same key.
    let (code, _, stderr) = dir.run(&["site", "export", "c.zip"]);
    assert!(code == Some(0) && !stderr.contains("admpriv"), "{stderr}");
    assert_eq!(read("b.zip")[..1_500], read("c.zip")[..1_500]);
}

#[test]
fn port_in_use() {
    let dir = TestDir::new();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let start = |dir: &TestDir, address: &str| {
        text_output(&mut TestServer::builder(dir).http("off").native(address).command())
    };
    for port in [tcp.local_addr().unwrap().port(), udp.local_addr().unwrap().port()] {
        let address = format!("127.0.0.1:{port}");
        let (code, _, stderr) = start(&dir, &address);
        assert_eq!(code, Some(2));
        assert!(stderr.contains(&format!("cannot listen on {address}")), "{stderr}");
        let hint = "hint: another server may be running; choose another address with `--native ADDR`";
        assert!(stderr.contains(hint), "{stderr}");
    }
    let address = tcp.local_addr().unwrap().to_string();
    let (code, _, stderr) =
        text_output(&mut TestServer::builder(&dir).http(&address).native("off").command());
    assert_eq!(code, Some(2));
    let hint = "hint: another server may be running; choose another address with `--http ADDR`";
    assert!(stderr.contains(&format!("cannot listen on {address}")) && stderr.contains(hint), "{stderr}");
    let server = TestServer::builder(&dir).http("off").with_native().start();
    let (code, ..) = start(&TestDir::new(), &server.native_address().to_string());
    assert_eq!(code, Some(2), "two servers do not share a port");
}

/// Idle connections are closed after a second: the server exits long before their timeout.
#[test]
fn shutdown_closes_idle_connections() {
    let dir = TestDir::new();
    let builder = TestServer::builder(&dir).demo().with_native();
    let server =
        builder.set("native.limits.idle_timeout=10min").set("native.limits.message_timeout=10min").start();
    let idle: Vec<_> = (0..20).map(|_| TcpStream::connect(server.native_address()).unwrap()).collect();
    wait_until("all connections are accepted", || server.metric("tendot_native_connections") >= 20.0);
    assert_eq!(server.terminate(), Some(0));
    drop(idle);
}

/// Sends a proof of the secret of `301:10.5555/LOGIN` as Handle.Net's clients do at login (opcode 201); true if it is accepted.
fn is_login_accepted(server: &TestServer, mac: SecretKeyMac) -> bool {
    let challenge = Challenge { nonce: &[7; 16], digest: &[9; 32] };
    let proof =
        SecretKeyResponse::create(mac, b"opensesame", challenge, &mut SystemRandom, auth_context!()).unwrap();
    let request = Request::VerifyChallenge {
        key_handle: Handle::from("10.5555/LOGIN"),
        key_index: 301,
        nonce: challenge.nonce,
        digest: RequestDigest { algorithm: DigestAlgorithm::Sha256, bytes: challenge.digest },
        response: &proof,
    };
    let request = Message::request(Opcode::VERIFY_CHALLENGE, request, 7, now()).to_bytes().unwrap();
    let response = exchange(server.native_address(), &request).unwrap();
    match Message::from_bytes(&response).unwrap().body {
        MessageBody::Response(Response { data: ResponseData::ChallengeVerified(result), .. }) => result == 1,
        other => panic!("{other:?}"),
    }
}

/// A login with SHA-1 is refused by default, and the log says which setting allows it, as documented.
#[test]
fn sha1_logins_are_refused_with_a_warning() {
    let page = workspace_root().join("docs/reference/handle-net-compatibility.md");
    let page = std::fs::read_to_string(page).unwrap();
    let documented = page.lines().find_map(|line| line.strip_prefix("WARN ")).unwrap();
    assert!(documented.contains("native.allow_sha1 = true"), "{documented}");
    let dir = TestDir::new();
    let server = TestServer::builder(&dir).demo().with_native().start();
    let secret = json!({"values": [{"index": 301, "type": "HS_SECKEY", "data": "opensesame"}]});
    let created = server.request("PUT", "/api/handles/10.5555/LOGIN").json(&secret).send(server.address());
    assert_eq!(created.status, 201, "{}", created.text());
    assert!(is_login_accepted(&server, SecretKeyMac::HmacSha256));
    assert!(!is_login_accepted(&server, SecretKeyMac::Sha1));
    server.wait_for_log(documented);
    // Not for each attempt.
    assert!(!is_login_accepted(&server, SecretKeyMac::Sha1));
    server.signal("TERM");
    assert_eq!(server.wait(), Some(0));
    assert!(!server.log_to_end().iter().any(|line| line.contains("SHA-1")));

    let server = TestServer::builder(&dir).with_native().set("native.allow_sha1=true").start();
    assert!(is_login_accepted(&server, SecretKeyMac::Sha1));
    server.signal("TERM");
    assert_eq!(server.wait(), Some(0));
    assert!(!server.log_to_end().iter().any(|line| line.contains("SHA-1")));
}
