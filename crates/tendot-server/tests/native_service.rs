//! The native protocol as a service: lists, TLS, templates, slow clients, the end.

mod native;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use native::*;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme, StreamOwned};
use serde_json::Value as Json;
use tendot_proto::auth::Credentials;
use tendot_proto::crypto::AwsLc;
use tendot_proto::endpoint::Transport;
use tendot_proto::record::KeyKind;
use tendot_proto::wire::List;
use tendot_proto::{Body, Handle, Message, OpFlags, Opcode, Outcome, Request, Response, Value, Version};
use tendot_server::native::Limits;
use tendot_store::Edit;

const ADMIN: &str = "300:0.NA/10.5555";

fn named(opcode: Opcode, handle: &str) -> Message<'_> {
    Message::request(opcode, Request::Named { handle: Handle::from(handle) }, 7, now())
}

/// The names of all messages of a list, after a proof.
fn list(service: &Service, transport: Transport, request: &Message<'_>) -> Vec<Vec<String>> {
    let key = private_key("admpriv.bin").signing_key(&AwsLc).unwrap();
    let request = request.to_bytes().unwrap();
    let challenge = service.ask(transport, &request).remove(0);
    let proof = answer_to(&request, &challenge, ADMIN, Credentials::PrivateKey(&*key), 8);
    let answers = service.ask(transport, &proof);
    let last = answers.len() - 1;
    let names = |(number, answer): (usize, &Vec<u8>)| {
        let message = Message::from_bytes(answer).unwrap();
        assert_eq!(
            message.header.flags.has(OpFlags::CONTINUOUS),
            number < last,
            "more is announced but at the end"
        );
        assert_eq!(message.envelope.request_id, 8);
        let Body::Response(Response { outcome: Outcome::Handles(names), .. }) = message.body else {
            panic!("{message:?}")
        };
        names.iter().map(|name| String::from_utf8(name.to_vec()).unwrap()).collect()
    };
    answers.iter().enumerate().map(names).collect()
}

#[test]
fn lists_of_several_messages() {
    let service = start(Setting::default());
    service.commit(Edit::Home { prefix: "10.77".into() });
    for number in 0..1_234 {
        service.put(&format!("10.77/{number:04}"), vec![url(1, "https://example.org/")]);
    }
    for number in 0..1_000 {
        service.commit(Edit::Tombstone {
            name: format!("10.77/{number:04}").into(),
            expect: tendot_store::Expect::Any,
        });
    }
    let request = named(Opcode::LIST_HANDLES, "0.NA/10.77");
    let pages = list(&service, Transport::Tcp, &request);
    assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), [50, 50, 50, 50, 34]);
    assert_eq!(pages[0][0], "10.77/1000");
    assert_eq!(list(&service, Transport::Http, &request), pages);
    assert_eq!(list(&service, Transport::Tcp, &named(Opcode::LIST_HANDLES, "10.77")), pages);
    let homed = Message::request(Opcode::LIST_HOMED_PREFIXES, Request::Plain { handle: None }, 7, now());
    assert_eq!(
        list(&service, Transport::Tcp, &homed),
        [["0.NA/0.NA", "0.NA/10.5555", "0.NA/10.5556", "0.NA/10.5557", "0.NA/10.77"]]
    );
    service.put("0.NA/10.5555.1", vec![]);
    service.put("0.NA/10.5555.1.2", vec![]);
    let derived = [["0.NA/10.5555.1", "0.NA/10.5555.1.2"]];
    assert_eq!(
        list(&service, Transport::Tcp, &named(Opcode::LIST_DERIVED_PREFIXES, "0.NA/10.5555")),
        derived
    );
    assert_eq!(list(&service, Transport::Tcp, &named(Opcode::LIST_HANDLES, "0.NA/0.NA/10.5555")), derived);
}

/// A long question is put together, whoever made the socket.
#[test]
fn questions_of_several_datagrams() {
    for is_handed in [false, true] {
        let service = start(Setting { is_handed, ..Setting::default() });
        let name = format!("10.5555/{}", "x".repeat(2_000));
        for _ in 0..50 {
            let answer = service.ask_udp(&resolution(&name).to_bytes().unwrap(), Duration::from_secs(2));
            assert_eq!(answer.map(|answer| code(&answer)), Some(100), "{is_handed}");
        }
    }
}

#[test]
fn names_made_by_templates() {
    let service = start(Setting::default());
    let namespace = r#"<namespace><template delimiter="@"><foreach><if value="type" test="equals" expression="URL"><value data="${data}/${extension}"/></if></foreach></template></namespace>"#;
    let mut values = service.values("0.NA/10.5556").unwrap();
    values.push(Value::new(9, "HS_NAMESPACE", namespace));
    service.put("0.NA/10.5556", values);
    service.put("10.5556/BASE", vec![url(1, "https://example.org/base")]);
    for transport in [Transport::Udp, Transport::Tcp, Transport::Http] {
        let answer = service.ask(transport, &resolution("10.5556/BASE@p7").to_bytes().unwrap()).remove(0);
        let text = String::from_utf8_lossy(&answer).into_owned();
        assert!(code(&answer) == 1 && text.contains("https://example.org/base/p7"), "{}", words(&answer));
    }
    assert_eq!(service.code(Transport::Udp, &resolution("10.5556/NONE@p7")), 100);
}

/// Who keeps a derived prefix is told to who would write its record here, if they understand it.
#[test]
fn writes_are_referred() {
    let service = start(Setting::default());
    let values = [url(1, "https://example.org/")];
    let create = |name: &'static str, flags: OpFlags, minor: u8| {
        let request = Request::Values { handle: Handle::from(name), values: List::from(&values[..]) };
        let mut message = Message::request(Opcode::CREATE_HANDLE, request, 7, now());
        message.header.flags = message.header.flags.with(flags);
        message.envelope.suggestion = Version::new(2, minor);
        service.code(Transport::Tcp, &message)
    };
    assert_eq!(create("0.NA/10.5556.7", OpFlags(0), 11), 303);
    assert_eq!(create("0.NA/10.5556.7.8", OpFlags(0), 10), 303);
    assert_eq!(create("0.NA/10.5556.7", OpFlags::DO_NOT_REFER, 11), 402);
    assert_eq!(create("0.NA/10.5556.7", OpFlags(0), 9), 402);
    assert_eq!(create("0.NA/10.5555.7", OpFlags(0), 11), 402, "nobody else keeps it");
    assert_eq!(service.code(Transport::Tcp, &named(Opcode::HOME_PREFIX, "0.NA/10.5556.7")), 402);
}

/// Believes who has the key that stands in the record of the site.
#[derive(Debug)]
struct Pinned(Vec<u8>);

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let has_key = certificate.windows(self.0.len()).any(|bytes| bytes == self.0);
        assert!(has_key, "the certificate has the key of the site");
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

fn encrypted(service: &Service) -> StreamOwned<ClientConnection, TcpStream> {
    let key = private_key("privkey.bin").public_key().unwrap();
    let KeyKind::Rsa { modulus, .. } = key.kind() else { panic!() };
    let config = ClientConfig::builder_with_provider(aws_lc_rs::default_provider().into())
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Pinned(modulus.to_vec())))
        .with_no_client_auth();
    let connection = ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
    StreamOwned::new(connection, service.connect())
}

#[test]
fn tls_where_the_peer_asks_for_it() {
    let service = start(Setting::default());
    let mut stream = encrypted(&service);
    let mut kept = resolution("10.5555/ONE");
    kept.header.flags = kept.header.flags.with(OpFlags::KEEP_CONNECTION);
    for question in [kept, kept, resolution("10.5555/BIG")] {
        stream.write_all(&question.to_bytes().unwrap()).unwrap();
        let mut head = [0; 20];
        stream.read_exact(&mut head).unwrap();
        let length = u32::from_be_bytes([head[16], head[17], head[18], head[19]]);
        let mut message = head.to_vec();
        message.resize(20 + length as usize, 0);
        stream.read_exact(&mut message[20..]).unwrap();
        assert_eq!(code(&message), 1);
    }
    assert_eq!(stream.read(&mut [0]).unwrap(), 0, "it ends as it should");
    // A handshake that is none.
    assert!(service.say(&[0x16; 200]).len() < 200);
    assert_eq!(service.code(Transport::Tcp, &resolution("10.5555/ONE")), 1);
}

#[test]
fn slow_clients_are_nobody_elses_trouble() {
    let service = start(Setting::default());
    let message = resolution("10.5555/ONE").to_bytes().unwrap();
    let mut slow: Vec<_> = (0..500).map(|_| service.connect()).collect();
    for (number, stream) in slow.iter_mut().enumerate() {
        stream.write_all(&message[..number % message.len()]).unwrap();
    }
    for transport in [Transport::Tcp, Transport::Udp, Transport::Http] {
        let begun = Instant::now();
        for _ in 0..20 {
            assert_eq!(service.code_of(transport, &message), 1);
        }
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    }
    assert!(service.metric("tendot_native_connections") >= 500);
    // They are answered when they go on.
    for (number, stream) in slow.iter_mut().enumerate() {
        stream.write_all(&message[number % message.len()..]).unwrap();
        assert_eq!(code(&next(stream).unwrap()), 1);
    }
}

#[test]
fn what_is_kept_open_for_nothing_is_closed() {
    let limits = Limits { idle_time: Duration::from_millis(300), ..Limits::default() };
    let service = start(Setting { limits, ..Setting::default() });
    let mut kept = resolution("10.5555/ONE");
    kept.header.flags = kept.header.flags.with(OpFlags::KEEP_CONNECTION);
    let mut stream = service.connect();
    for _ in 0..3 {
        stream.write_all(&kept.to_bytes().unwrap()).unwrap();
        assert_eq!(code(&next(&mut stream).unwrap()), 1);
        std::thread::sleep(Duration::from_millis(100));
    }
    let begun = Instant::now();
    assert!(rest(&mut stream).is_empty());
    assert!(begun.elapsed() < Duration::from_secs(3));
}

/// What was asked before the end is answered, and nobody who asks nothing holds it up.
#[test]
fn the_end() {
    let mut service = start(Setting::default());
    let message = resolution("10.5555/ONE").to_bytes().unwrap();
    let idle: Vec<_> = (0..10).map(|_| service.connect()).collect();
    let mut begun = service.connect();
    begun.write_all(&message[..30]).unwrap();
    let socket = service.udp();
    for _ in 0..20 {
        socket.send(&message).unwrap();
    }
    std::thread::sleep(Duration::from_millis(50));
    service.end.send(true).unwrap();
    begun.write_all(&message[30..]).unwrap();
    assert_eq!(code(&next(&mut begun).unwrap()), 1);
    drop(begun);
    let served = service.served.take().unwrap();
    let ended = Instant::now();
    service.runtime.block_on(served).unwrap();
    assert!(ended.elapsed() < Duration::from_secs(3), "{:?}", ended.elapsed());
    for number in 0..20 {
        assert!(receive(&socket, Duration::from_secs(2)).is_some(), "{number}");
    }
    assert!(TcpStream::connect(service.native).is_err());
    drop(idle);
}

#[test]
fn numbers() {
    let service = start(Setting::default());
    let (good, none) = (resolution("10.5555/ONE"), resolution("10.5555/NONE"));
    for _ in 0..3 {
        service.code(Transport::Udp, &good);
    }
    service.code(Transport::Tcp, &none);
    service.code(Transport::Http, &named(Opcode::DELETE_HANDLE, "10.5555/ONE"));
    let count = |transport: &str, operation: &str, code: u32| {
        service.metric(&format!(
            "tendot_native_requests_total{{transport=\"{transport}\",operation=\"{operation}\",code=\"{code}\"}}"
        ))
    };
    assert_eq!((count("udp", "resolve", 1), count("tcp", "resolve", 100)), (3, 1));
    assert_eq!(count("http", "delete", 402), 1);
    assert_eq!(service.metric("tendot_native_request_duration_seconds_count{transport=\"udp\"}"), 3);
    assert_eq!(service.metric("tendot_native_connections_accepted_total"), 1);
}

/// The record of the site is the same over HTTP as in the recording, and as the native protocol has it.
#[test]
fn the_site_over_http() {
    let service = start(Setting::default());
    let recorded = std::fs::read_to_string(vectors().join("http.jsonl")).unwrap();
    let mut compared = 0;
    for line in recorded.lines() {
        let recorded: Json = serde_json::from_str(line).unwrap();
        let name = recorded["name"].as_str().unwrap();
        if !name.starts_with("site") {
            continue;
        }
        compared += 1;
        let answer = service.get(recorded["request"]["target"].as_str().unwrap());
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap();
        assert_eq!(status, recorded["status"].to_string(), "{name}");
        assert_eq!(body, recorded["body"].as_str().unwrap(), "{name}");
    }
    assert_eq!(compared, 2);
}
