//! Rows N of the list of attacks: messages that are not what they should be, over real sockets.

mod native;

use std::io::{ErrorKind, Write as _};
use std::time::{Duration, Instant};

use native::*;
use tendot_proto::endpoint::Transport;
use tendot_proto::wire::List;
use tendot_proto::{
    Body, Envelope, EnvelopeFlags, Handle, Message, OpFlags, Opcode, Request, Response, Value, Version,
    tunnel,
};
use tendot_server::native::Limits;

const TCP: Transport = Transport::Tcp;
const UDP: Transport = Transport::Udp;

fn create<'a>(handle: &'a str, values: &'a [Value<'a>]) -> Message<'a> {
    let request = Request::Values { handle: Handle::from(handle), values: List::from(values) };
    Message::request(Opcode::CREATE_HANDLE, request, 7, now())
}

/// A question, of which some bytes are others.
fn changed(at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut message = resolution("10.5555/ONE").to_bytes().unwrap();
    message[at..at + bytes.len()].copy_from_slice(bytes);
    message
}

/// Asks on a connection that stays.
fn kept(handle: &str) -> Vec<u8> {
    let mut message = resolution(handle);
    message.header.flags = message.header.flags.with(OpFlags::KEEP_CONNECTION);
    message.to_bytes().unwrap()
}

#[test]
fn attack_n1_announced_lengths() {
    let service = start(Setting::default());
    for length in [0xffff_ffff_u32, 0x8000_0000, (256 << 10) + 1] {
        let message = changed(16, &length.to_be_bytes());
        let answers = cut(&service.say(&message));
        assert_eq!((answers.len(), code(&answers[0])), (1, 4), "{length:x}");
        assert!(words(&answers[0]).contains(&length.to_string()), "{}", words(&answers[0]));
        // Nothing of the header came.
        assert_eq!(code(&cut(&service.say(&message[..20]))[0]), 4);
        assert_eq!(service.ask_udp(&message, SHORT), None, "{length:x}");
    }
    assert_eq!(service.code(UDP, &resolution("10.5555/ONE")), 1);
}

#[test]
fn attack_n2_stalled_messages() {
    let limits = Limits { message_time: Duration::from_millis(300), ..Limits::default() };
    let service = start(Setting { limits, ..Setting::default() });
    let message = resolution("10.5555/ONE").to_bytes().unwrap();
    for length in [0, 1, 19, 20, 44, message.len() - 1] {
        let mut stream = service.connect();
        stream.write_all(&message[..length]).unwrap();
        let begun = Instant::now();
        assert!(rest(&mut stream).is_empty(), "{length}");
        assert!(begun.elapsed() < Duration::from_secs(3), "{length}");
    }
    // Slow, but not too slow.
    let mut stream = service.connect();
    for piece in message.chunks(10) {
        stream.write_all(piece).unwrap();
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(code(&next(&mut stream).unwrap()), 1);
}

#[test]
fn attack_n3_bytes_that_follow() {
    let service = start(Setting::default());
    let two = [kept("10.5555/ONE"), resolution("10.5555/NONE").to_bytes().unwrap()].concat();
    let codes: Vec<u32> = cut(&service.say(&two)).iter().map(|answer| code(answer)).collect();
    assert_eq!(codes, [1, 100]);
    assert_eq!(service.code_of(UDP, &two), 4);
    assert_eq!(service.code_of(Transport::Http, &two), 4);
}

#[test]
fn attack_n4_counts() {
    let service = start(Setting::default());
    let message = resolution("10.5555/ONE").to_bytes().unwrap();
    // The length of the name, the number of indexes, and that of types.
    for at in [44, 59, 63] {
        for count in [0x7fff_ffff_u32, 0xffff_ffff, 0x4000_0000, 100] {
            let message = changed(at, &count.to_be_bytes());
            assert_eq!(service.code_of(TCP, &message), 4, "{at} {count:x}");
            assert_eq!(service.code_of(UDP, &message), 4, "{at} {count:x}");
        }
    }
    assert_eq!(service.code_of(TCP, &message), 1);
}

#[test]
fn attack_n5_short_messages() {
    let service = start(Setting::default());
    let whole = resolution("10.5555/ONE").to_bytes().unwrap();
    for length in 0..24_u32 {
        let mut message = whole[..20 + length as usize].to_vec();
        message[16..20].copy_from_slice(&length.to_be_bytes());
        for transport in [UDP, TCP, Transport::Http] {
            assert_eq!(service.code_of(transport, &message), 4, "{length}");
        }
    }
    for length in 0..20 {
        assert_eq!(service.ask_udp(&whole[..length], Duration::from_millis(20)), None);
    }
}

#[test]
fn attack_n6_all_operations_and_flags() {
    let service = start(Setting::default());
    let (mut stream, mut unknown) = (service.connect(), 0);
    for opcode in 0..=0xffff_u32 {
        let mut message = kept("10.5555/ONE");
        message[20..24].copy_from_slice(&opcode.to_be_bytes());
        stream.write_all(&message).unwrap();
        let answer = next(&mut stream).unwrap();
        if code(&answer) == 5 && words(&answer).contains("is not known") {
            unknown += 1;
        }
        assert_eq!(answer[8..12], message[8..12], "{opcode}");
    }
    assert_eq!(unknown, 0x1_0000 - 21, "all but those that are known");
    for bit in 0..32 {
        let flags = OpFlags::DEFAULT.0 ^ 1 << bit;
        let code = service.code_of(UDP, &changed(28, &flags.to_be_bytes()));
        assert_eq!(code, 1, "{flags:x}");
    }
    let before = service.changes();
    assert_eq!(service.code_of(TCP, &changed(24, &5_u32.to_be_bytes())), 0, "a response is not answered");
    assert_eq!(service.changes(), before);
}

#[test]
fn attack_n7_n8_names() {
    let service = start(Setting::default());
    let long = format!("10.5555/{}", "x".repeat(2_041));
    let values = [url(1, "https://example.org/")];
    let before = service.changes();
    let check = |handle: &[u8], resolved: u32, created: u32| {
        let handle = Handle::new(handle);
        let question = Message::resolution(handle, 7, now());
        assert_eq!(service.code(UDP, &question), resolved, "{handle}");
        assert_eq!(service.code(TCP, &question), resolved, "{handle}");
        let request = Request::Values { handle, values: List::from(&values[..]) };
        let request = Message::request(Opcode::CREATE_HANDLE, request, 7, now());
        assert_eq!(service.code(TCP, &request), created, "{handle}");
    };
    check(long.as_bytes(), 102, 102);
    check(&vec![b'1'; 200_000][..], 102, 102);
    check(b"", 100, 102);
    check(b"/", 301, 102);
    check(b"10.5555", 1, 102);
    check(&[b'/'; 255], 301, 102);
    check(b"10.5555/\x80", 102, 102);
    check(b"10.5555/\xc0\xaf", 102, 102);
    check(b"10.5555/\xed\xa0\x80", 102, 102);
    check(b"10.5555/ok", 100, 402);
    assert_eq!(service.changes(), before);
}

#[test]
fn attack_n9_n10_values() {
    let service = start(Setting::default());
    let before = service.changes();
    let many: Vec<_> = (1..=2_049).map(|index| Value::new(index, "X", "")).collect();
    assert_eq!(service.code(TCP, &create("10.5555/N9", &many)), 202);
    assert_eq!(service.code(TCP, &create("10.5555/N9", &many[1..])), 402);
    let twice = [url(1, "https://example.org/"), url(1, "https://example.org/2")];
    assert_eq!(service.code(TCP, &create("10.5555/N10", &twice)), 201);
    for index in [0, 0x8000_0000, u32::MAX] {
        let values = [Value { index, ..url(1, "https://example.org/") }];
        assert_eq!(service.code(TCP, &create("10.5555/N10", &values)), 202, "{index}");
    }
    // A value that is longer than a message.
    let mut message = create("10.5555/N9", &[]).to_bytes().unwrap();
    message.resize(20 + (1 << 20), 0);
    message[16..20].copy_from_slice(&(1_u32 << 20).to_be_bytes());
    assert_eq!(code(&cut(&service.say(&message))[0]), 4);
    assert!(service.post(&message, tunnel::CONTENT_TYPE).starts_with(b"HTTP/1.1 413 "));
    assert_eq!(service.changes(), before);
}

#[test]
fn attack_n11_versions() {
    let service = start(Setting::default());
    for (major, minor, spoken) in [
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
        // The upper bits of a suggestion are flags.
        let message = changed(0, &[major, minor, 0, 0]);
        let answer = service.ask_udp(&message, SHORT).unwrap();
        let version = Message::from_bytes(&answer).unwrap().envelope.version;
        assert_eq!((code(&answer), version), (1, Version::new(spoken.0, spoken.1)), "{major}.{minor}");
    }
    // Nobody is challenged with MD5 or SHA-1 because they wish it.
    let values = [url(1, "https://example.org/")];
    for (minor, expected) in [(0, 4), (1, 404), (6, 404), (7, 402), (11, 402)] {
        let mut message = create("10.5555/N11", &values);
        message.envelope.version = Version::new(2, minor);
        message.envelope.suggestion = message.envelope.version;
        assert_eq!(service.code(TCP, &message), expected, "2.{minor}");
    }
}

#[test]
fn attack_n12_n13_dates_and_recursion() {
    let service = start(Setting::default());
    for expiration in [0_u32, 1, 1_000_000_000, 0x7fff_ffff, 0x8000_0000, u32::MAX] {
        assert_eq!(service.code_of(UDP, &changed(36, &expiration.to_be_bytes())), 1, "{expiration}");
    }
    for count in [0, 10, 11, 255] {
        assert_eq!(service.code_of(UDP, &changed(34, &[count])), 1, "we pass nothing on: {count}");
    }
}

#[test]
fn attack_n14_answers_that_nobody_reads() {
    let limits = Limits { write_time: Duration::from_millis(300), ..Limits::default() };
    let service = start(Setting { limits, ..Setting::default() });
    service.put("10.5555/WIDE", vec![Value::new(1, "DESC", "x".repeat(3_000))]);
    let mut stream = service.connect();
    let message = kept("10.5555/WIDE");
    stream.set_write_timeout(Some(Duration::from_secs(20))).unwrap();
    let begun = Instant::now();
    let error = (0..100_000).find_map(|_| stream.write_all(&message).err());
    let kind = error.map(|error| error.kind());
    assert!(matches!(kind, Some(ErrorKind::ConnectionReset | ErrorKind::BrokenPipe)), "{kind:?}");
    assert!(begun.elapsed() < Duration::from_secs(15));
    let made =
        service.metric("tendot_native_requests_total{transport=\"tcp\",operation=\"resolve\",code=\"1\"}");
    assert!(made < 10_000, "{made} answers were made that nobody read");
}

/// Ten thousand on one connection, all sent before the first answer is read.
#[test]
fn many_on_one_connection() {
    let service = start(Setting::default());
    let mut stream = service.connect();
    let mut writer = stream.try_clone().unwrap();
    let sender = std::thread::spawn(move || {
        for number in 0..10_000_u32 {
            let mut message = kept(if number % 2 == 0 { "10.5555/ONE" } else { "10.5555/NONE" });
            message[8..12].copy_from_slice(&number.to_be_bytes());
            writer.write_all(&message).unwrap();
        }
    });
    for number in 0..10_000_u32 {
        let answer = next(&mut stream).unwrap();
        assert_eq!(answer[8..12], number.to_be_bytes());
        assert_eq!(code(&answer), if number % 2 == 0 { 1 } else { 100 });
    }
    sender.join().unwrap();
    // A client that does not ask for it gets one answer.
    let one = resolution("10.5555/ONE").to_bytes().unwrap();
    assert_eq!(cut(&service.say(&one.repeat(3))).len(), 1);
}

#[test]
fn attack_n15_idle_connections() {
    let limits = Limits { connections: 20, message_time: Duration::from_secs(60), ..Limits::default() };
    let service = start(Setting { limits, ..Setting::default() });
    let idle: Vec<_> = (0..50).map(|_| service.connect()).collect();
    std::thread::sleep(Duration::from_millis(100));
    let begun = Instant::now();
    assert_eq!(service.code(TCP, &resolution("10.5555/ONE")), 1);
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    assert_eq!(service.code(UDP, &resolution("10.5555/ONE")), 1);
    drop(idle);
}

#[test]
fn attack_n16_inside_http() {
    let service = start(Setting::default());
    let message = resolution("10.5555/ONE").to_bytes().unwrap();
    let status = |body: &[u8], kind: &str| {
        let answer = service.post(body, kind);
        String::from_utf8_lossy(&answer[9..12]).into_owned()
    };
    assert_eq!(status(&message, tunnel::CONTENT_TYPE), "200");
    assert_eq!(status(&[b"\r\n", &message[..]].concat(), "Application/X-HDL-Message; x=y"), "200");
    assert_eq!(status(&message[..10], tunnel::CONTENT_TYPE), "400");
    assert_eq!(status(b"", tunnel::CONTENT_TYPE), "400");
    assert_eq!(status(&changed(24, &5_u32.to_be_bytes()), tunnel::CONTENT_TYPE), "400");
    assert_eq!(service.code_of(Transport::Http, &message[..50]), 4);
    assert_eq!(status(&message, "application/octet-stream"), "405");
    // Read as it is by clients, so neither compressed nor in pieces.
    let big = service.post(&resolution("10.5555/BIG").to_bytes().unwrap(), tunnel::CONTENT_TYPE);
    let head = String::from_utf8_lossy(&big[..tunnel::response_body(&big).unwrap().unwrap()]).to_lowercase();
    assert!(head.contains("content-length: ") && !head.contains("encoding: gzip"), "{head}");
}

#[test]
fn attack_n17_encrypted_without_a_session() {
    let service = start(Setting::default());
    for (flags, session, expected) in [
        (EnvelopeFlags::ENCRYPTED, 0, 4),
        (EnvelopeFlags::COMPRESSED, 0, 4),
        (EnvelopeFlags::COMPRESSED, 9, 4),
        (EnvelopeFlags::ENCRYPTED, 9, 500),
    ] {
        let mut message = resolution("10.5555/ONE");
        message.envelope.flags = flags;
        message.envelope.session_id = session;
        assert_eq!(service.code(TCP, &message), expected, "{flags:?} {session}");
        assert_eq!(service.code(UDP, &message), expected, "{flags:?} {session}");
    }
    let mut message = resolution("10.5555/ONE");
    message.envelope.session_id = 9;
    assert_eq!(service.code(TCP, &message), 500, "a session that is not there");
}

/// The answer to a stranger's question is that to a question, whatever else it seems to be.
#[test]
fn unsealed_answers() {
    let service = start(Setting::default());
    let answer = service.ask_udp(&resolution("10.5555/ONE").to_bytes().unwrap(), SHORT).unwrap();
    let message = Message::from_bytes(&answer).unwrap();
    assert_eq!(Envelope::from_bytes(&answer).unwrap().session_id, 0);
    assert!(matches!(message.body, Body::Response(Response { digest: None, .. })));
    assert!(message.credential().is_none());
}
