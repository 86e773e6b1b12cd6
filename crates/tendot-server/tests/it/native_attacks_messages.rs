//! Attacks N1–N17 on the native protocol: malformed, oversized, slow and pipelined messages get the right error or no response,
//! and change nothing.

use std::io::{ErrorKind, Write as _};
use std::time::{Duration, Instant};

use tendot_proto::endpoint::Transport;
use tendot_proto::wire::WireList;
use tendot_proto::{
    Envelope, EnvelopeFlags, Handle, HandleValue, Message, MessageBody, OpFlags, Opcode, ProtocolVersion,
    Request, Response, tunnel,
};
use tendot_server::native::NativeLimits;
use tendot_testing::{WAIT_TIMEOUT, wait_until};

use crate::support::native_server::*;

const TCP: Transport = Transport::Tcp;
const UDP: Transport = Transport::Udp;

const HOUR: Duration = Duration::from_secs(3_600);

/// A resolution request with some bytes replaced.
fn patched(at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut message = resolution("10.5555/ONE").to_bytes().unwrap();
    message[at..at + bytes.len()].copy_from_slice(bytes);
    message
}

/// A resolution request with the keep-alive flag.
fn keep_alive_request(handle: &str) -> Vec<u8> {
    keep_alive_resolution(handle).to_bytes().unwrap()
}

#[test]
fn attack_n1_announced_lengths() {
    let server = NativeTestServer::start(NativeServerOptions::default());
    for length in [0xffff_ffff_u32, 0x8000_0000, (256 << 10) + 1] {
        let message = patched(16, &length.to_be_bytes());
        let responses = split_messages(&server.send_raw(&message));
        assert_eq!((responses.len(), response_code(&responses[0])), (1, 4), "{length:x}");
        assert!(
            error_message(&responses[0]).contains(&length.to_string()),
            "{}",
            error_message(&responses[0])
        );
        // Only the envelope, nothing of the header.
        assert_eq!(response_code(&split_messages(&server.send_raw(&message[..20]))[0]), 4);
        server.assert_no_udp_reply(&server.udp_socket(), &[&message]);
    }
    assert_eq!(server.code(UDP, &resolution("10.5555/ONE")), 1);
}

#[test]
fn attack_n2_stalled_messages() {
    let message_timeout = Duration::from_millis(300);
    // Only this timeout can close the connections while the test waits.
    let limits =
        NativeLimits { message_timeout, idle_timeout: HOUR, write_timeout: HOUR, ..NativeLimits::default() };
    let server = NativeTestServer::start(NativeServerOptions { limits, ..NativeServerOptions::default() });
    let message = resolution("10.5555/ONE").to_bytes().unwrap();
    let stalled = [0, 1, 19, 20, 44, message.len() - 1].map(|length| {
        let (started, mut stream) = (Instant::now(), server.connect());
        stream.write_all(&message[..length]).unwrap();
        (length, stream, started)
    });
    for (length, mut stream, started) in stalled {
        assert!(read_until_closed(&mut stream).is_empty(), "{length}");
        // Ten seconds is the default: the configured timeout is in effect.
        let elapsed = started.elapsed();
        assert!(
            elapsed >= message_timeout && elapsed < NativeLimits::default().message_timeout,
            "{length}: {elapsed:?}"
        );
    }
}

#[test]
fn slow_messages_get_a_response() {
    let server = NativeTestServer::start(NativeServerOptions::default());
    let message = resolution("10.5555/ONE").to_bytes().unwrap();
    let mut stream = server.connect();
    for chunk in message.chunks(10) {
        stream.write_all(chunk).unwrap();
        // The chunks have to arrive one by one.
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(response_code(&read_message(&mut stream).unwrap()), 1);
}

#[test]
fn attack_n3_trailing_bytes() {
    let server = NativeTestServer::start(NativeServerOptions::default());
    let pipelined =
        [keep_alive_request("10.5555/ONE"), resolution("10.5555/NONE").to_bytes().unwrap()].concat();
    let codes: Vec<u32> =
        split_messages(&server.send_raw(&pipelined)).iter().map(|response| response_code(response)).collect();
    assert_eq!(codes, [1, 100]);
    assert_eq!(server.code_for_bytes(UDP, &pipelined), 4);
    assert_eq!(server.code_for_bytes(Transport::Http, &pipelined), 4);
}

#[test]
fn attack_n4_counts() {
    let server = NativeTestServer::start(NativeServerOptions::default());
    let message = resolution("10.5555/ONE").to_bytes().unwrap();
    // The length of the name, the number of indexes, and that of types.
    for at in [44, 59, 63] {
        for count in [0x7fff_ffff_u32, 0xffff_ffff, 0x4000_0000, 100] {
            let message = patched(at, &count.to_be_bytes());
            assert_eq!(server.code_for_bytes(TCP, &message), 4, "{at} {count:x}");
            assert_eq!(server.code_for_bytes(UDP, &message), 4, "{at} {count:x}");
        }
    }
    assert_eq!(server.code_for_bytes(TCP, &message), 1);
}

#[test]
fn attack_n5_short_messages() {
    let server = NativeTestServer::start(NativeServerOptions::default());
    let full_message = resolution("10.5555/ONE").to_bytes().unwrap();
    for length in 0..24_u32 {
        let mut message = full_message[..20 + length as usize].to_vec();
        message[16..20].copy_from_slice(&length.to_be_bytes());
        for transport in [UDP, TCP, Transport::Http] {
            assert_eq!(server.code_for_bytes(transport, &message), 4, "{length}");
        }
    }
    for length in 0..20 {
        server.assert_no_udp_reply(&server.udp_socket(), &[&full_message[..length]]);
    }
}

#[test]
fn attack_n6_all_operations_and_flags() {
    let server = NativeTestServer::start(NativeServerOptions::default());
    // On several connections, all requests sent before the first response is read.
    let unknown: usize = std::thread::scope(|scope| {
        let parts = [0, 1, 2, 3].map(|part| {
            let opcodes = part * 0x4000..(part + 1) * 0x4000_u32;
            let mut stream = server.connect();
            let (mut writer, sent) = (stream.try_clone().unwrap(), opcodes.clone());
            scope.spawn(move || {
                let mut message = keep_alive_request("10.5555/ONE");
                for opcode in sent {
                    message[8..12].copy_from_slice(&(opcode + 1).to_be_bytes());
                    message[20..24].copy_from_slice(&opcode.to_be_bytes());
                    writer.write_all(&message).unwrap();
                }
            });
            scope.spawn(move || {
                let is_unknown = |opcode: &u32| {
                    let response = read_message(&mut stream).unwrap();
                    assert_eq!(response[8..12], (opcode + 1).to_be_bytes(), "{opcode}");
                    response_code(&response) == 5 && error_message(&response).contains("unknown opcode")
                };
                opcodes.filter(is_unknown).count()
            })
        });
        parts.into_iter().map(|part| part.join().unwrap()).sum()
    });
    assert_eq!(unknown, 0x1_0000 - 21, "all but the known ones");
    for bit in 0..32 {
        let flags = OpFlags::DEFAULT.0 ^ 1 << bit;
        let code = server.code_for_bytes(UDP, &patched(28, &flags.to_be_bytes()));
        assert_eq!(code, 1, "{flags:x}");
    }
    let before = server.change_count();
    assert_eq!(
        server.code_for_bytes(TCP, &patched(24, &5_u32.to_be_bytes())),
        0,
        "a response gets no response"
    );
    assert_eq!(server.change_count(), before);
}

#[test]
fn attack_n7_n8_names() {
    let server = NativeTestServer::start(NativeServerOptions::default());
    let long_name = format!("10.5555/{}", "x".repeat(2_041));
    let values = [url_value(1, "https://example.org/")];
    let before = server.change_count();
    let check = |handle: &[u8], resolved: u32, created: u32| {
        let handle = Handle::new(handle);
        let request = Message::resolution(handle, 7, now());
        assert_eq!(server.code(UDP, &request), resolved, "{handle}");
        assert_eq!(server.code(TCP, &request), resolved, "{handle}");
        let request = Request::WriteValues { handle, values: WireList::from(&values[..]) };
        let request = Message::request(Opcode::CREATE_HANDLE, request, 7, now());
        assert_eq!(server.code(TCP, &request), created, "{handle}");
    };
    check(long_name.as_bytes(), 102, 102);
    check(&vec![b'1'; 200_000][..], 102, 102);
    check(b"", 100, 102);
    check(b"/", 301, 102);
    check(b"10.5555", 1, 102);
    check(&[b'/'; 255], 301, 102);
    check(b"10.5555/\x80", 102, 102);
    check(b"10.5555/\xc0\xaf", 102, 102);
    check(b"10.5555/\xed\xa0\x80", 102, 102);
    check(b"10.5555/ok", 100, 402);
    assert_eq!(server.change_count(), before);
}

#[test]
fn attack_n9_n10_values() {
    let server = NativeTestServer::start(NativeServerOptions::default());
    let before = server.change_count();
    let too_many: Vec<_> = (1..=2_049).map(|index| HandleValue::new(index, "X", "")).collect();
    assert_eq!(server.code(TCP, &create_request("10.5555/N9", &too_many)), 202);
    assert_eq!(server.code(TCP, &create_request("10.5555/N9", &too_many[1..])), 402);
    let same_index = [url_value(1, "https://example.org/"), url_value(1, "https://example.org/2")];
    assert_eq!(server.code(TCP, &create_request("10.5555/N10", &same_index)), 201);
    for index in [0, 0x8000_0000, u32::MAX] {
        let values = [HandleValue { index, ..url_value(1, "https://example.org/") }];
        assert_eq!(server.code(TCP, &create_request("10.5555/N10", &values)), 202, "{index}");
    }
    // A value that is longer than a message.
    let mut message = create_request("10.5555/N9", &[]).to_bytes().unwrap();
    message.resize(20 + (1 << 20), 0);
    message[16..20].copy_from_slice(&(1_u32 << 20).to_be_bytes());
    assert_eq!(response_code(&split_messages(&server.send_raw(&message))[0]), 4);
    assert_eq!(server.post(&message, tunnel::CONTENT_TYPE).status, 413);
    assert_eq!(server.change_count(), before);
}

#[test]
fn attack_n11_versions() {
    let server = NativeTestServer::start(NativeServerOptions::default());
    for (major, minor, expected_version) in [
        (0, 0, (2, 0)),
        (2, 0, (2, 0)),
        (2, 1, (2, 1)),
        (2, 6, (2, 4)),
        (2, 11, (2, 11)),
        (3, 0, (2, 11)),
        (5, 0, (2, 0)),
        (9, 9, (2, 11)),
        (255, 255, (2, 11)),
    ] {
        // The upper bits of the suggested version are flags.
        let message = patched(0, &[major, minor, 0, 0]);
        let response = server.exchange_udp(&message).unwrap();
        let version = Message::from_bytes(&response).unwrap().envelope.version;
        assert_eq!(
            (response_code(&response), version),
            (1, ProtocolVersion::new(expected_version.0, expected_version.1)),
            "{major}.{minor}"
        );
    }
    // No downgrade of challenges to MD5 or SHA-1.
    let values = [url_value(1, "https://example.org/")];
    for (minor, expected) in [(0, 4), (1, 404), (6, 404), (7, 402), (11, 402)] {
        let mut message = create_request("10.5555/N11", &values);
        message.envelope.version = ProtocolVersion::new(2, minor);
        message.envelope.suggested_version = message.envelope.version;
        assert_eq!(server.code(TCP, &message), expected, "2.{minor}");
    }
}

#[test]
fn attack_n12_n13_dates_and_recursion() {
    let server = NativeTestServer::start(NativeServerOptions::default());
    for expiration in [0_u32, 1, 1_000_000_000, 0x7fff_ffff, 0x8000_0000, u32::MAX] {
        assert_eq!(server.code_for_bytes(UDP, &patched(36, &expiration.to_be_bytes())), 1, "{expiration}");
    }
    for count in [0, 10, 11, 255] {
        assert_eq!(
            server.code_for_bytes(UDP, &patched(34, &[count])),
            1,
            "requests are not forwarded: {count}"
        );
    }
}

#[test]
fn attack_n14_unread_responses() {
    // Only the write timeout can close the connection while the test waits.
    let limits = NativeLimits {
        message_timeout: HOUR,
        idle_timeout: HOUR,
        write_timeout: Duration::from_millis(300),
        ..NativeLimits::default()
    };
    let server = NativeTestServer::start(NativeServerOptions { limits, ..NativeServerOptions::default() });
    server.put("10.5555/WIDE", vec![HandleValue::new(1, "DESC", "x".repeat(3_000))]);
    let mut stream = server.connect();
    let message = keep_alive_request("10.5555/WIDE");
    stream.set_write_timeout(Some(WAIT_TIMEOUT)).unwrap();
    let error = (0..100_000).find_map(|_| stream.write_all(&message).err());
    let kind = error.map(|error| error.kind());
    assert!(matches!(kind, Some(ErrorKind::ConnectionReset | ErrorKind::BrokenPipe)), "{kind:?}");
    let response_count = server.request_count("tcp", "resolve", 1);
    assert!(response_count < 10_000, "{response_count} unread responses");
}

/// Ten thousand requests on one connection, all sent before the first response is read.
#[test]
fn pipelined_requests() {
    let server = NativeTestServer::start(NativeServerOptions::default());
    let mut stream = server.connect();
    let mut writer = stream.try_clone().unwrap();
    let sender = std::thread::spawn(move || {
        for number in 0..10_000_u32 {
            let mut message =
                keep_alive_request(if number % 2 == 0 { "10.5555/ONE" } else { "10.5555/NONE" });
            message[8..12].copy_from_slice(&number.to_be_bytes());
            writer.write_all(&message).unwrap();
        }
    });
    for number in 0..10_000_u32 {
        let response = read_message(&mut stream).unwrap();
        assert_eq!(response[8..12], number.to_be_bytes());
        assert_eq!(response_code(&response), if number % 2 == 0 { 1 } else { 100 });
    }
    sender.join().unwrap();
    // Without the keep-alive flag only the first request gets a response.
    let without_keep_alive = resolution("10.5555/ONE").to_bytes().unwrap();
    assert_eq!(split_messages(&server.send_raw(&without_keep_alive.repeat(3))).len(), 1);
}

#[test]
fn attack_n15_idle_connections() {
    // No timeout closes the idle connections while the test waits: they are closed when new connections exceed the limit.
    let limits = NativeLimits {
        max_connections: 20,
        message_timeout: HOUR,
        idle_timeout: HOUR,
        ..NativeLimits::default()
    };
    let server = NativeTestServer::start(NativeServerOptions { limits, ..NativeServerOptions::default() });
    let idle: Vec<_> = (0..50).map(|_| server.connect()).collect();
    wait_until("all connections are in use", || server.metric("tendot_native_connections") == 20);
    assert_eq!(server.code(TCP, &resolution("10.5555/ONE")), 1);
    assert_eq!(server.code(UDP, &resolution("10.5555/ONE")), 1);
    drop(idle);
}

#[test]
fn attack_n16_inside_http() {
    let server = NativeTestServer::start(NativeServerOptions::default());
    let message = resolution("10.5555/ONE").to_bytes().unwrap();
    let status = |body: &[u8], media_type: &str| server.post(body, media_type).status;
    assert_eq!(status(&message, tunnel::CONTENT_TYPE), 200);
    assert_eq!(status(&[b"\r\n", &message[..]].concat(), "Application/X-HDL-Message; x=y"), 200);
    assert_eq!(status(&message[..10], tunnel::CONTENT_TYPE), 400);
    assert_eq!(status(b"", tunnel::CONTENT_TYPE), 400);
    assert_eq!(status(&patched(24, &5_u32.to_be_bytes()), tunnel::CONTENT_TYPE), 400);
    assert_eq!(server.code_for_bytes(Transport::Http, &message[..50]), 4);
    assert_eq!(status(&message, "application/octet-stream"), 405);
    // Clients read the body as it is, so it is neither compressed nor chunked.
    let large_response = server.post(&resolution("10.5555/BIG").to_bytes().unwrap(), tunnel::CONTENT_TYPE);
    assert!(
        large_response.header("content-length").is_some()
            && large_response.header("content-encoding").is_none(),
        "{}",
        large_response.head
    );
}

#[test]
fn attack_n17_encrypted_without_a_session() {
    let server = NativeTestServer::start(NativeServerOptions::default());
    for (flags, session, expected) in [
        (EnvelopeFlags::ENCRYPTED, 0, 4),
        (EnvelopeFlags::COMPRESSED, 0, 4),
        (EnvelopeFlags::COMPRESSED, 9, 4),
        (EnvelopeFlags::ENCRYPTED, 9, 500),
    ] {
        let mut message = resolution("10.5555/ONE");
        message.envelope.flags = flags;
        message.envelope.session_id = session;
        assert_eq!(server.code(TCP, &message), expected, "{flags:?} {session}");
        assert_eq!(server.code(UDP, &message), expected, "{flags:?} {session}");
    }
    let mut message = resolution("10.5555/ONE");
    message.envelope.session_id = 9;
    assert_eq!(server.code(TCP, &message), 500, "unknown session");
}

/// Without authentication or a session the response has no digest, credential or session.
#[test]
fn unsigned_responses() {
    let server = NativeTestServer::start(NativeServerOptions::default());
    let response = server.exchange_udp(&resolution("10.5555/ONE").to_bytes().unwrap()).unwrap();
    let message = Message::from_bytes(&response).unwrap();
    assert_eq!(Envelope::from_bytes(&response).unwrap().session_id, 0);
    assert!(matches!(message.body, MessageBody::Response(Response { digest: None, .. })));
    assert!(message.credential().is_none());
}
