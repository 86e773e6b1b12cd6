//! Native protocol service: lists, TLS, templates, referrals, slow and idle clients, draining, metrics.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme, StreamOwned};
use serde_json::Value as Json;
use tendot_proto::auth::ClientKey;
use tendot_proto::crypto::AwsLcProvider;
use tendot_proto::endpoint::Transport;
use tendot_proto::record::KeyComponents;
use tendot_proto::{
    HandleValue, Message, MessageBody, OpFlags, Opcode, ProtocolVersion, Request, Response, ResponseData,
};
use tendot_server::native::NativeLimits;
use tendot_store::{Edit, Precondition};
use tendot_testing::handle_keys::{handle_net_file, private_key};
use tendot_testing::{WAIT_TIMEOUT, wait_until};

use crate::support::edits::{home_edit, put_edit};
use crate::support::native_server::*;
use crate::support::stores::{StoreKind, over_stores};

over_stores!(
    lists_of_several_messages,
    requests_of_several_datagrams,
    template_names,
    writes_are_referred,
    tls,
    slow_clients_do_not_block_others,
    idle_connections_close,
    drain,
    idle_clients_during_drain,
    metrics,
    site_over_http,
);

/// A timeout that never expires during a test.
const HOUR: Duration = Duration::from_secs(3_600);

/// The names in each message of a list, requested by the server administrator.
fn list(server: &NativeTestServer, transport: Transport, request: &Message<'_>) -> Vec<Vec<String>> {
    let key = private_key("admpriv.bin").signing_key(&AwsLcProvider).unwrap();
    let request = request.to_bytes().unwrap();
    let challenge = server.exchange(transport, &request).remove(0);
    let proof = challenge_response(&request, &challenge, SERVER_ADMIN, ClientKey::PrivateKey(&*key), 8);
    let responses = server.exchange(transport, &proof);
    let last = responses.len() - 1;
    let names = |(number, response): (usize, &Vec<u8>)| {
        let message = Message::from_bytes(response).unwrap();
        assert_eq!(
            message.header.flags.contains(OpFlags::CONTINUOUS),
            number < last,
            "all messages but the last have the flag"
        );
        assert_eq!(message.envelope.request_id, 8);
        let MessageBody::Response(Response { data: ResponseData::Handles(names), .. }) = message.body else {
            panic!("{message:?}")
        };
        names.iter().map(|name| String::from_utf8(name.to_vec()).unwrap()).collect()
    };
    responses.iter().enumerate().map(names).collect()
}

fn lists_of_several_messages(store: StoreKind) {
    let server = NativeTestServer::start_over(store.open(), NativeServerOptions::default());
    server.commit(home_edit("10.77"));
    let name = |number: u32| format!("10.77/{number:04}");
    server.commit_all(
        (0..1_234)
            .map(|number| put_edit(&name(number), vec![url_value(1, "https://example.org/")]))
            .collect(),
    );
    let tombstone =
        |number| Edit::Tombstone { name: name(number).into(), precondition: Precondition::NotTombstone };
    server.commit_all((0..1_000).map(tombstone).collect());
    let request = handle_request(Opcode::LIST_HANDLES, "0.NA/10.77");
    let pages = list(&server, Transport::Tcp, &request);
    assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), [50, 50, 50, 50, 34]);
    assert_eq!(pages[0][0], "10.77/1000");
    assert_eq!(list(&server, Transport::Http, &request), pages);
    assert_eq!(list(&server, Transport::Tcp, &handle_request(Opcode::LIST_HANDLES, "10.77")), pages);
    let homed = Message::request(Opcode::LIST_HOMED_PREFIXES, Request::NoOperand { handle: None }, 7, now());
    assert_eq!(
        list(&server, Transport::Tcp, &homed),
        [["0.NA/0.NA", "0.NA/10.5555", "0.NA/10.5556", "0.NA/10.5557", "0.NA/10.77"]]
    );
    server.put("0.NA/10.5555.1", vec![]);
    server.put("0.NA/10.5555.1.2", vec![]);
    let derived = [["0.NA/10.5555.1", "0.NA/10.5555.1.2"]];
    assert_eq!(
        list(&server, Transport::Tcp, &handle_request(Opcode::LIST_DERIVED_PREFIXES, "0.NA/10.5555")),
        derived
    );
    assert_eq!(
        list(&server, Transport::Tcp, &handle_request(Opcode::LIST_HANDLES, "0.NA/0.NA/10.5555")),
        derived
    );
}

/// Requests of several datagrams are reassembled, also with an inherited socket.
fn requests_of_several_datagrams(store: StoreKind) {
    for has_inherited_sockets in [false, true] {
        let options = NativeServerOptions { has_inherited_sockets, ..NativeServerOptions::default() };
        let server = NativeTestServer::start_over(store.open(), options);
        let name = format!("10.5555/{}", "x".repeat(2_000));
        for _ in 0..50 {
            let response = server.exchange_udp(&resolution(&name).to_bytes().unwrap());
            assert_eq!(
                response.map(|response| response_code(&response)),
                Some(100),
                "{has_inherited_sockets}"
            );
        }
    }
}

fn template_names(store: StoreKind) {
    let server = NativeTestServer::start_over(store.open(), NativeServerOptions::default());
    let namespace = r#"<namespace><template delimiter="@"><foreach><if value="type" test="equals" expression="URL"><value data="${data}/${extension}"/></if></foreach></template></namespace>"#;
    let mut values = server.values("0.NA/10.5556").unwrap();
    values.push(HandleValue::new(9, "HS_NAMESPACE", namespace));
    server.put("0.NA/10.5556", values);
    server.put("10.5556/BASE", vec![url_value(1, "https://example.org/base")]);
    for transport in [Transport::Udp, Transport::Tcp, Transport::Http] {
        let response =
            server.exchange(transport, &resolution("10.5556/BASE@p7").to_bytes().unwrap()).remove(0);
        assert_eq!(response_code(&response), 1, "{}", error_message(&response));
        assert!(String::from_utf8_lossy(&response).contains("https://example.org/base/p7"));
    }
    assert_eq!(server.code(Transport::Udp, &resolution("10.5556/NONE@p7")), 100);
}

/// Writes to a derived prefix of another site are referred to it, if the client's version knows referrals.
fn writes_are_referred(store: StoreKind) {
    let server = NativeTestServer::start_over(store.open(), NativeServerOptions::default());
    let values = [url_value(1, "https://example.org/")];
    let create = |name: &'static str, flags: OpFlags, minor: u8| {
        let mut message = create_request(name, &values);
        message.header.flags |= flags;
        message.envelope.suggested_version = ProtocolVersion::new(2, minor);
        server.code(Transport::Tcp, &message)
    };
    assert_eq!(create("0.NA/10.5556.7", OpFlags(0), 11), 303);
    assert_eq!(create("0.NA/10.5556.7.8", OpFlags(0), 10), 303);
    assert_eq!(create("0.NA/10.5556.7", OpFlags::DO_NOT_REFER, 11), 402);
    assert_eq!(create("0.NA/10.5556.7", OpFlags(0), 9), 402);
    assert_eq!(create("0.NA/10.5555.7", OpFlags(0), 11), 402, "this site is responsible");
    assert_eq!(server.code(Transport::Tcp, &handle_request(Opcode::HOME_PREFIX, "0.NA/10.5556.7")), 402);
}

/// Accepts a certificate if it contains this RSA modulus, the key in the site record.
#[derive(Debug)]
struct PinnedKey(Vec<u8>);

impl ServerCertVerifier for PinnedKey {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let has_key = certificate.windows(self.0.len()).any(|bytes| bytes == self.0);
        assert!(has_key, "the certificate has the key of the site record");
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let supported = aws_lc_rs::default_provider().signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, &supported)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let supported = aws_lc_rs::default_provider().signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, &supported)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        aws_lc_rs::default_provider().signature_verification_algorithms.supported_schemes()
    }
}

fn connect_tls(server: &NativeTestServer) -> StreamOwned<ClientConnection, TcpStream> {
    let key = private_key("privkey.bin").public_key().unwrap();
    let KeyComponents::Rsa { modulus, .. } = key.components() else { panic!() };
    let config = ClientConfig::builder_with_provider(aws_lc_rs::default_provider().into())
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(PinnedKey(modulus.to_vec())))
        .with_no_client_auth();
    let connection = ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
    StreamOwned::new(connection, server.connect())
}

fn tls(store: StoreKind) {
    let server = NativeTestServer::start_over(store.open(), NativeServerOptions::default());
    let mut stream = connect_tls(&server);
    for request in [keep_alive_request(), keep_alive_request(), resolution("10.5555/BIG")] {
        stream.write_all(&request.to_bytes().unwrap()).unwrap();
        assert_eq!(response_code(&read_message(&mut stream).unwrap()), 1);
    }
    assert_eq!(stream.read(&mut [0]).unwrap(), 0, "close_notify comes before the end");
    // An invalid handshake.
    assert!(server.send_raw(&[0x16; 200]).len() < 200);
    assert_eq!(server.code(Transport::Tcp, &resolution("10.5555/ONE")), 1);
}

fn keep_alive_request() -> Message<'static> {
    keep_alive_resolution("10.5555/ONE")
}

/// 500 clients that have sent part of a request.
fn slow_clients_do_not_block_others(store: StoreKind) {
    let limits = NativeLimits { message_timeout: HOUR, ..NativeLimits::default() };
    let options = NativeServerOptions { limits, ..NativeServerOptions::default() };
    let server = NativeTestServer::start_over(store.open(), options);
    let message = resolution("10.5555/ONE").to_bytes().unwrap();
    let mut slow: Vec<_> = (0..500).map(|_| server.connect()).collect();
    for (number, stream) in slow.iter_mut().enumerate() {
        stream.write_all(&message[..number % message.len()]).unwrap();
    }
    for transport in [Transport::Tcp, Transport::Udp, Transport::Http] {
        for _ in 0..20 {
            assert_eq!(server.code_for_bytes(transport, &message), 1);
        }
    }
    assert!(server.metric("tendot_native_connections") >= 500);
    // Each gets a response when its request is complete.
    for (number, stream) in slow.iter_mut().enumerate() {
        stream.write_all(&message[number % message.len()..]).unwrap();
        assert_eq!(response_code(&read_message(stream).unwrap()), 1);
    }
}

/// A connection is closed when there was no request for `idle_timeout`, counted from the last one.
fn idle_connections_close(store: StoreKind) {
    let idle_timeout = Duration::from_millis(400);
    let limits = NativeLimits { message_timeout: HOUR, idle_timeout, ..NativeLimits::default() };
    let options = NativeServerOptions { limits, ..NativeServerOptions::default() };
    let server = NativeTestServer::start_over(store.open(), options);
    let request = keep_alive_request().to_bytes().unwrap();
    let mut stream = server.connect();
    let mut last_request = Instant::now();
    for number in 0..3 {
        let is_open = stream.write_all(&request).is_ok() && read_message(&mut stream).is_some();
        // On a busy machine the pause may be longer than the idle time.
        assert!(is_open || last_request.elapsed() >= idle_timeout, "{number}");
        if !is_open {
            return;
        }
        last_request = Instant::now();
        // Three pauses are longer than the idle time, one is shorter.
        std::thread::sleep(idle_timeout / 2);
    }
    assert!(read_until_closed(&mut stream).is_empty());
    // One minute is the default: the configured timeout is in effect.
    let elapsed = last_request.elapsed();
    assert!(elapsed >= idle_timeout / 2 && elapsed < NativeLimits::default().idle_timeout, "{elapsed:?}");
}

/// Requests received before the shutdown get a response, and idle clients do not delay the shutdown.
fn drain(store: StoreKind) {
    // The shutdown waits for all requests in progress.
    let limits = NativeLimits { drain_timeout: HOUR, ..NativeLimits::default() };
    let options = NativeServerOptions { limits, ..NativeServerOptions::default() };
    let mut server = NativeTestServer::start_over(store.open(), options);
    let message = resolution("10.5555/ONE").to_bytes().unwrap();
    let idle: Vec<_> = (0..10).map(|_| server.connect()).collect();
    let mut in_progress = server.connect();
    in_progress.write_all(&message[..30]).unwrap();
    let socket = server.udp_socket();
    for _ in 0..20 {
        socket.send(&message).unwrap();
    }
    wait_until("all connections are accepted", || server.metric("tendot_native_connections") == 11);
    server.shutdown.send(true).unwrap();
    in_progress.write_all(&message[30..]).unwrap();
    assert_eq!(response_code(&read_message(&mut in_progress).unwrap()), 1);
    drop(in_progress);
    let listener = server.listener.take().unwrap();
    let drained = async { tokio::time::timeout(WAIT_TIMEOUT, listener).await };
    tendot_testing::block_on(drained).expect("idle clients do not delay the shutdown").unwrap();
    for number in 0..20 {
        assert!(receive_udp(&socket, WAIT_TIMEOUT).is_some(), "{number}");
    }
    assert!(TcpStream::connect(server.native).is_err());
    drop(idle);
}

/// A request on an idle connection gets a response after the shutdown has begun; then the connection is closed.
fn idle_clients_during_drain(store: StoreKind) {
    // On a busy machine the shutdown may come before the server waits for the second request, or that one too late.
    assert!((0..5).any(|_| is_served_during_drain(store)));
}

/// Whether a request that is sent after the shutdown has begun gets a response.
fn is_served_during_drain(store: StoreKind) -> bool {
    let server = NativeTestServer::start_over(store.open(), NativeServerOptions::default());
    let request = keep_alive_request().to_bytes().unwrap();
    let mut stream = server.connect();
    stream.write_all(&request).unwrap();
    assert_eq!(response_code(&read_message(&mut stream).unwrap()), 1);
    server.shutdown.send(true).unwrap();
    wait_until("no further connection is accepted", || TcpStream::connect(server.native).is_err());
    let is_sent = stream.write_all(&request).is_ok();
    let response = read_message(&mut stream);
    assert!(response.iter().all(|response| response_code(response) == 1));
    assert!(read_until_closed(&mut stream).is_empty());
    is_sent && response.is_some()
}

fn metrics(store: StoreKind) {
    let server = NativeTestServer::start_over(store.open(), NativeServerOptions::default());
    let (found, not_found) = (resolution("10.5555/ONE"), resolution("10.5555/NONE"));
    for _ in 0..3 {
        server.code(Transport::Udp, &found);
    }
    server.code(Transport::Tcp, &not_found);
    server.code(Transport::Http, &handle_request(Opcode::DELETE_HANDLE, "10.5555/ONE"));
    assert_eq!(server.request_count("udp", "resolve", 1), 3);
    assert_eq!(server.request_count("tcp", "resolve", 100), 1);
    assert_eq!(server.request_count("http", "delete", 402), 1);
    assert_eq!(server.metric("tendot_native_request_duration_seconds_count{transport=\"udp\"}"), 3);
    assert_eq!(server.metric("tendot_native_connections_accepted_total"), 1);
}

/// The site record over HTTP is that of the recording.
fn site_over_http(store: StoreKind) {
    let server = NativeTestServer::start_over(store.open(), NativeServerOptions::default());
    let recorded = String::from_utf8(handle_net_file("http.jsonl")).unwrap();
    let recorded = recorded.lines().map(|line| serde_json::from_str::<Json>(line).unwrap());
    let recorded: Vec<Json> =
        recorded.filter(|exchange| exchange["name"].as_str().unwrap().starts_with("site")).collect();
    assert_eq!(recorded.len(), 2);
    for exchange in recorded {
        let response = server.get(exchange["request"]["target"].as_str().unwrap());
        assert_eq!(response.status.to_string(), exchange["status"].to_string(), "{exchange}");
        assert_eq!(response.text(), exchange["body"].as_str().unwrap(), "{exchange}");
    }
}
