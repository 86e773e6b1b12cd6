//! Hostile messages, one test for each row of the threat model that needs no socket.

use std::time::Duration;

use tendot_proto::endpoint::{Endpoint, Incoming, Reason, Refusal, Transport};
use tendot_proto::wire::List;
use tendot_proto::{
    Body, Envelope, EnvelopeFlags, Framer, Handle, Header, Message, Now, OpFlags, Opcode, Outcome, Request,
    Response, ResponseCode, Tail, Value, Version, limits,
};

const NOW: Now = Now { elapsed: Duration::ZERO, unix: 1_700_000_000 };

const ENDPOINT: Endpoint = Endpoint { site_serial: 5, primary: true };

const TRANSPORTS: [Transport; 3] = [Transport::Udp, Transport::Tcp, Transport::Http];

fn read(bytes: &[u8], transport: Transport) -> Result<Incoming<'_>, Refusal> {
    ENDPOINT.read(bytes, transport, NOW)
}

/// The answer to bytes that are no request: code and message, and that it goes to who asked.
#[track_caller]
fn refused(bytes: &[u8], transport: Transport) -> (ResponseCode, String) {
    let refusal = read(bytes, transport).unwrap_err();
    let response =
        Message::from_bytes(refusal.response().unwrap_or_else(|| panic!("{refusal} without an answer")))
            .expect("our own answer");
    let request = Envelope::from_bytes(bytes).unwrap();
    assert_eq!(response.envelope.request_id, request.request_id, "the Java software forgets it");
    assert_eq!(response.envelope.version, request.response_version());
    assert!(response.header.expiration > NOW.unix32());
    let Body::Response(Response { digest: None, outcome: Outcome::Failed { message } }) = response.body
    else {
        panic!("{response:?}")
    };
    assert_eq!(response.header.response_code, refusal.code());
    (refusal.code(), String::from_utf8(message.unwrap().to_vec()).unwrap())
}

fn resolution(handle: &[u8]) -> Vec<u8> {
    Message::resolution(Handle::new(handle), 0x0102_0304, NOW).to_bytes().unwrap()
}

fn with_values(opcode: Opcode, handle: &[u8], values: &[Value<'_>]) -> Vec<u8> {
    let request = Request::Values { handle: Handle::new(handle), values: List::from(values) };
    Message::request(opcode, request, 0x0102_0304, NOW).to_bytes().unwrap()
}

/// A resolution with other bytes in the place of its body.
fn with_body(opcode: u32, body: &[u8]) -> Vec<u8> {
    let request = Request::Unknown(body);
    Message::request(Opcode(opcode), request, 0x0102_0304, NOW).to_bytes().unwrap()
}

#[test]
fn attack_n1_announced_lengths() {
    for announced in [u32::MAX, 0x8000_0000, 262_145] {
        let mut bytes = resolution(b"10.1000/182");
        bytes[16..20].copy_from_slice(&announced.to_be_bytes());
        let (code, message) = refused(&bytes, Transport::Tcp);
        assert_eq!(code, ResponseCode::PROTOCOL_ERROR);
        assert_eq!(
            message,
            format!("message at byte 20: {announced} bytes announced, at most 262144 allowed")
        );
        assert_eq!(read(&bytes, Transport::Udp).unwrap_err().response(), None, "a datagram is dropped");
    }
    // The largest that is allowed is only missing.
    let mut bytes = resolution(b"10.1000/182");
    bytes[16..20].copy_from_slice(&262_144_u32.to_be_bytes());
    assert_eq!(refused(&bytes, Transport::Tcp).1, "message at byte 20: 262144 bytes announced, 51 there");
}

#[test]
fn attack_n3_trailing_bytes() {
    let mut bytes = resolution(b"10.1000/182");
    bytes.push(0);
    let (code, message) = refused(&bytes, Transport::Udp);
    assert_eq!(
        (code, &*message),
        (ResponseCode::PROTOCOL_ERROR, "message at byte 71: 1 bytes follow where none should")
    );
    // Within the message they stand where the credential should, and are passed over: they prove nothing.
    bytes[19] += 1;
    let message = Message::from_bytes(&bytes).unwrap();
    assert_eq!(message.tail, Tail::Other(&[0; 5]));
    assert_eq!(message.credential(), None);
    assert_eq!(message.to_bytes().unwrap(), bytes);
    assert!(read(&bytes, Transport::Udp).is_ok());
    // A body that announces more than is there never reads on.
    let mut bytes = resolution(b"10.1000/182");
    bytes[43] = 200;
    assert_eq!(refused(&bytes, Transport::Tcp).1, "body at byte 40: 200 bytes announced, 27 there");
}

#[test]
fn attack_n4_counts_that_overflow() {
    for count in [i32::MAX as u32, u32::MAX, 0x4000_0001, 1_048_577, 100] {
        for (opcode, after) in [(1, 0), (100, 0), (103, 0), (1, 4)] {
            let mut body = b"\0\0\0\x0b10.1000/182".to_vec();
            body.extend(vec![0; after]);
            body.extend(count.to_be_bytes());
            body.extend([0; 12]);
            let (code, message) = refused(&with_body(opcode, &body), Transport::Tcp);
            assert_eq!(code, ResponseCode::PROTOCOL_ERROR);
            let at = 44 + 15 + after;
            let announced = format!("at byte {at}: {count} items announced, ");
            assert!(message.contains(&announced), "{message}");
        }
    }
}

#[test]
fn attack_n5_shorter_than_a_header() {
    let whole = resolution(b"10.1000/182");
    for length in 0..24 {
        let mut bytes = whole[..20 + length].to_vec();
        bytes[19] = length as u8;
        for transport in TRANSPORTS {
            let (code, message) = refused(&bytes, transport);
            assert_eq!(code, ResponseCode::PROTOCOL_ERROR);
            assert_eq!(message, format!("header at byte 20: 24 bytes announced, {length} there"));
        }
    }
    for length in 0..20 {
        assert_eq!(
            read(&whole[..length], Transport::Udp).unwrap_err().response(),
            None,
            "not even an envelope"
        );
    }
}

#[test]
fn attack_n6_unknown_opcodes_and_flags() {
    for opcode in 0..=65_535 {
        let bytes = with_body(opcode, b"\0\0\0\x0b10.1000/182\0\0\0\0\0\0\0\0");
        let read = read(&bytes, Transport::Tcp);
        if Opcode(opcode).name().is_none() || opcode == 0 {
            let refusal = read.unwrap_err();
            assert_eq!(refusal.reason(), &Reason::UnknownOperation(Opcode(opcode)));
            assert_eq!(refusal.code(), ResponseCode::OPERATION_NOT_SUPPORTED);
        } else if let Err(refusal) = read {
            // With the body of another: nonsense, or no values where some should be.
            assert!([4, 202].contains(&refusal.code().0), "opcode {opcode}: {refusal}");
        }
    }
    let mut request = Message::resolution(Handle::from("10.1000/182"), 7, NOW);
    request.header.flags = OpFlags(u32::MAX);
    request.header.reserved = 0xff;
    let bytes = request.to_bytes().unwrap();
    let incoming = read(&bytes, Transport::Tcp).unwrap();
    let response = incoming.respond(ResponseCode::SUCCESS, Outcome::Done);
    assert_eq!(response.header.flags.0 & 0x000f_ffff, 0, "flags without a meaning are not repeated");
}

#[test]
fn attack_n7_names_that_are_none() {
    let long = [b"10.1000/".to_vec(), vec![b'a'; 2041]].concat();
    assert_eq!(long.len(), 2049);
    for transport in TRANSPORTS {
        let (code, message) = refused(&resolution(&long), transport);
        assert_eq!(code, ResponseCode::INVALID_HANDLE);
        assert_eq!(message, "the handle has 2049 bytes, at most 2048 are allowed");
    }
    // Odd names are just not found; only a new record must have a good one.
    for (odd, why) in [
        (&b""[..], "the handle is empty"),
        (b"10.1000", "the handle has no `/` between prefix and suffix"),
        (b"/", "the handle has nothing before its `/`"),
    ] {
        assert!(read(&resolution(odd), Transport::Udp).is_ok());
        let (code, message) = refused(&with_values(Opcode::CREATE_HANDLE, odd, &[]), Transport::Tcp);
        assert_eq!((code, &*message), (ResponseCode::INVALID_HANDLE, why));
    }
    for fine in [&b"10.1000/"[..], &[b"10.1000".to_vec(), vec![b'/'; 255]].concat(), &long[..2048]] {
        assert!(read(&resolution(fine), Transport::Udp).is_ok());
        assert!(read(&with_values(Opcode::CREATE_HANDLE, fine, &[]), Transport::Tcp).is_ok());
    }
}

#[test]
fn attack_n8_names_that_are_not_utf8() {
    for bad in
        [&b"10.1000/\x80"[..], b"10.1000/\xc0\xaf", b"10.1000/\xed\xa0\x80", b"10.1000/\xf8\x88\x80\x80\x80"]
    {
        for transport in TRANSPORTS {
            let (code, message) = refused(&resolution(bad), transport);
            assert_eq!(
                (code, &*message),
                (ResponseCode::INVALID_HANDLE, "the handle is not UTF-8 from byte 8 on")
            );
        }
        for opcode in [Opcode::CREATE_HANDLE, Opcode::ADD_VALUE, Opcode::MODIFY_VALUE] {
            let bytes = with_values(opcode, bad, &[Value::new(1, "URL", "x")]);
            assert_eq!(refused(&bytes, Transport::Tcp).0, ResponseCode::INVALID_HANDLE);
        }
    }
}

#[test]
fn attack_n9_too_many_and_too_large_values() {
    let values: Vec<Value<'_>> = (1..=2049).map(|index| Value::new(index, "URL", "x")).collect();
    let bytes = with_values(Opcode::CREATE_HANDLE, b"10.1000/182", &values);
    let (code, message) = refused(&bytes, Transport::Tcp);
    assert_eq!((code, &*message), (ResponseCode::INVALID_VALUE, "2049 values, at most 2048 are allowed"));
    assert!(read(&with_values(Opcode::CREATE_HANDLE, b"10.1000/182", &values[1..]), Transport::Tcp).is_ok());

    // A value of a megabyte and a byte: announced, and really sent.
    let mut body = b"\0\0\0\x0b10.1000/182\0\0\0\x01".to_vec();
    let mut value = Value::new(1, "URL", "x").to_bytes();
    value[21..25].copy_from_slice(&1_048_577_u32.to_be_bytes());
    body.extend(value);
    let (code, message) = refused(&with_body(100, &body), Transport::Tcp);
    assert_eq!(code, ResponseCode::PROTOCOL_ERROR);
    assert_eq!(message, "value data at byte 84: 1048577 bytes announced, at most 1048576 allowed");
    let large = [Value::with_data(1, "URL", vec![0; limits::FIELD + 1])];
    let request = Request::Values { handle: Handle::from("10.1000/182"), values: List::from(&large[..]) };
    let error = Message::request(Opcode::CREATE_HANDLE, request, 7, NOW).to_bytes().unwrap_err();
    assert_eq!(error.to_string(), "the message has 1048653 bytes, at most 262144 can be sent");
}

#[test]
fn attack_n10_the_same_index_twice() {
    let twice = [Value::new(1, "URL", "a"), Value::new(2, "URL", "b"), Value::new(1, "URL", "c")];
    for opcode in [Opcode::CREATE_HANDLE, Opcode::ADD_VALUE, Opcode::MODIFY_VALUE] {
        let (code, message) = refused(&with_values(opcode, b"10.1000/182", &twice), Transport::Tcp);
        assert_eq!((code, &*message), (ResponseCode::VALUE_ALREADY_EXISTS, "two values have the index 1"));
    }
    for index in [0, 0x8000_0000, u32::MAX] {
        let bytes = with_values(Opcode::CREATE_HANDLE, b"10.1000/182", &[Value::new(index, "URL", "a")]);
        let (code, message) = refused(&bytes, Transport::Tcp);
        assert_eq!(
            (code, message),
            (ResponseCode::INVALID_VALUE, format!("{index} cannot be the index of a value"))
        );
    }
    let none = with_values(Opcode::ADD_VALUE, b"10.1000/182", &[]);
    assert_eq!(refused(&none, Transport::Tcp).0, ResponseCode::INVALID_VALUE);
}

#[test]
fn attack_n11_versions() {
    // What is suggested decides, and where nothing is, the version of the request.
    for (version, answered) in [
        ((0, 0), (2, 0)),
        ((1, 0), (2, 0)),
        ((2, 0), (2, 0)),
        ((2, 5), (2, 4)),
        ((2, 6), (2, 4)),
        ((2, 11), (2, 11)),
        ((3, 0), (2, 11)),
        ((5, 0), (2, 0)),
        ((9, 9), (2, 11)),
        ((255, 255), (2, 11)),
    ] {
        let mut request = Message::resolution(Handle::from("10.1000/182"), 7, NOW);
        request.envelope.version = Version::new(version.0, version.1);
        for (suggestion, answered) in
            [((0, 0), answered), ((2, 1), (2, 1)), ((2, 6), (2, 4)), ((5, 0), (2, 0)), ((31, 255), (2, 11))]
        {
            request.envelope.suggestion = Version::new(suggestion.0, suggestion.1);
            let bytes = request.to_bytes().unwrap();
            let incoming = read(&bytes, Transport::Tcp).unwrap();
            let response = incoming.respond(ResponseCode::SUCCESS, Outcome::Done);
            let Envelope { version: of_answer, suggestion: of_server, .. } = response.envelope;
            assert_eq!(of_answer, Version::new(answered.0, answered.1), "{version:?} {suggestion:?}");
            assert_eq!(of_server, Version::OURS);
        }
    }
    // Who speaks only 2.0 would be challenged with MD5: no administration.
    let mut create =
        Message::from_bytes(&with_values(Opcode::CREATE_HANDLE, b"10.1000/182", &[])).unwrap().to_bytes();
    let bytes = create.as_mut().unwrap();
    bytes[..4].copy_from_slice(&[2, 0, 2, 0]);
    let (code, message) = refused(bytes, Transport::Tcp);
    assert_eq!(code, ResponseCode::PROTOCOL_ERROR);
    assert_eq!(message, "administration needs version 2.1 or later, 2.0 is the latest offered");
    // And the codes that old peers do not know are those that they know.
    assert_eq!(
        ResponseCode::INVALID_VALUE.for_version(Version::new(2, 3)),
        ResponseCode::VALUE_ALREADY_EXISTS
    );
    assert_eq!(ResponseCode::SERVER_BACKUP.for_version(Version::new(2, 3)), ResponseCode::PREFIX_REFERRAL);
}

#[test]
fn attack_n12_expirations() {
    for expiration in [0, 1, i32::MAX as u32, 0x8000_0000, u32::MAX] {
        let mut request = Message::resolution(Handle::from("10.1000/182"), 7, NOW);
        request.header.expiration = expiration;
        let bytes = request.to_bytes().unwrap();
        assert!(read(&bytes, Transport::Udp).is_ok(), "an expired request is served");
    }
    // The ends of 31 and 32 bits, in 2038 and 2106, and far after.
    for (unix, expected) in [
        (1_700_000_000, 1_700_043_200),
        (i32::MAX as u64, i32::MAX as u32),
        (u64::from(u32::MAX), i32::MAX as u32),
        (u64::MAX, i32::MAX as u32),
    ] {
        assert_eq!(Header::expiration(Now { elapsed: Duration::ZERO, unix }), expected);
    }
    assert_eq!(Now { elapsed: Duration::ZERO, unix: u64::MAX }.unix32(), u32::MAX);
}

#[test]
fn attack_n13_recursion() {
    for count in 0..=255 {
        let mut request = Message::resolution(Handle::from("10.1000/182"), 7, NOW);
        request.header.recursion_count = count;
        let bytes = request.to_bytes().unwrap();
        let incoming = read(&bytes, Transport::Udp).unwrap();
        assert_eq!(incoming.next_recursion(), (count < 10).then(|| count + 1));
        let response = incoming.respond(ResponseCode::SUCCESS, Outcome::Done);
        assert_eq!(response.header.recursion_count, count);
    }
}

#[test]
fn attack_n17_encrypted_without_a_session() {
    for flag in [EnvelopeFlags::ENCRYPTED, EnvelopeFlags::COMPRESSED] {
        for session_id in [0, 7, u32::MAX] {
            // What follows the envelope may look like anything: a request, a response, nothing.
            for payload in [&resolution(b"10.1000/182")[20..], &[0xa5; 64], &[1; 16], &[]] {
                let mut envelope = Envelope { session_id, request_id: 9, ..Envelope::new(Version::OURS) };
                envelope.flags = flag;
                envelope.length = payload.len() as u32;
                let bytes = [&envelope.to_bytes(), payload].concat();
                for transport in TRANSPORTS {
                    assert_eq!(refused(&bytes, transport).0, ResponseCode::PROTOCOL_ERROR);
                }
                assert!(Message::from_bytes(&bytes).is_err(), "never taken for plain text");
            }
        }
    }
}

/// The error of a stream is enough to answer it.
#[test]
fn attack_n1_streams_that_announce_too_much_are_answered() {
    let mut bytes = resolution(b"10.1000/182");
    bytes[16..20].copy_from_slice(&u32::MAX.to_be_bytes());
    let mut framer = Framer::new();
    framer.push(&bytes);
    let refusal = ENDPOINT.refuse_frame(&framer.next_message().unwrap_err(), NOW);
    let response = Message::from_bytes(refusal.response().unwrap()).unwrap();
    assert_eq!((response.envelope.request_id, response.header.opcode), (0x0102_0304, Opcode::RESOLUTION));
    assert_eq!(refusal.to_string(), "4294967295 bytes announced, at most 262144 allowed");
    bytes[27] = 1;
    let mut framer = Framer::new();
    framer.push(&bytes);
    let refusal = ENDPOINT.refuse_frame(&framer.next_message().unwrap_err(), NOW);
    assert_eq!(refusal.response(), None, "a response is not answered");
}

#[test]
fn attack_u6_responses_are_not_answered() {
    let bytes = resolution(b"10.1000/182");
    let incoming = read(&bytes, Transport::Udp).unwrap();
    let response = incoming.respond(ResponseCode::SERVER_TOO_BUSY, Outcome::Failed { message: None });
    for code in [1, 2, 3, 100, 402, u32::MAX] {
        let mut response = response;
        response.header.response_code = ResponseCode(code);
        let refusal = read(&response.to_bytes().unwrap(), Transport::Udp).unwrap_err();
        assert_eq!((refusal.reason(), refusal.response()), (&Reason::Response, None));
    }
    // Not even malformed ones.
    let mut malformed = response.to_bytes().unwrap();
    malformed[43] = 255;
    assert_eq!(read(&malformed, Transport::Udp).unwrap_err().response(), None);
}

#[test]
fn administration_over_udp() {
    for opcode in [100, 101, 102, 103, 104, 105, 300, 301, 302, 1000, 1001, 1002, 1003] {
        let bytes = with_body(opcode, b"\0\0\0\x0b10.1000/182\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
        let (code, message) = refused(&bytes, Transport::Udp);
        assert_eq!((code, &*message), (ResponseCode::PROTOCOL_ERROR, "administration is not taken over UDP"));
    }
    for opcode in [2, 401] {
        assert!(read(&with_body(opcode, b""), Transport::Udp).is_ok(), "opcode {opcode}");
    }
}

/// Whatever the request, its answer is no larger than the request by more than a sentence.
#[test]
fn answers_to_garbage_are_small() {
    let mut random = 0x9e37_79b9_u32;
    for _ in 0..20_000 {
        let mut bytes = resolution(b"10.1000/182");
        for byte in &mut bytes {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            if random >> 29 == 0 {
                *byte = (random >> 16) as u8;
            }
        }
        if let Err(refusal) = read(&bytes, Transport::Udp) {
            assert!(refusal.response().is_none_or(|response| response.len() <= 200));
        }
    }
}

#[test]
fn a_message_ends_with_its_tail() {
    let request = Message { tail: Tail::Absent, ..Message::resolution(Handle::from("10.1000/182"), 7, NOW) };
    let bytes = request.to_bytes().unwrap();
    assert_eq!(Message::from_bytes(&bytes).unwrap().tail, Tail::Absent);
    assert!(read(&bytes, Transport::Tcp).is_ok(), "some clients leave the credential's length out");
}
