//! Attacks by malformed messages: one test for each row of the threat model that needs no socket.

use std::time::Duration;

use tendot_proto::endpoint::{Endpoint, IncomingRequest, Rejection, RejectionReason, Transport};
use tendot_proto::wire::WireList;
use tendot_proto::{
    CredentialSection, Envelope, EnvelopeFlags, Framer, Handle, HandleValue, Message, MessageBody,
    MessageHeader, Now, OpFlags, Opcode, ProtocolVersion, Request, Response, ResponseCode, ResponseData,
    limits,
};
use tendot_testing::SeededRng;

use crate::support::code_points;

const NOW: Now = Now { elapsed: Duration::ZERO, unix: 1_700_000_000 };

const ENDPOINT: Endpoint = Endpoint { site_serial: 5, primary: true };

const TRANSPORTS: [Transport; 3] = [Transport::Udp, Transport::Tcp, Transport::Http];

fn read(bytes: &[u8], transport: Transport) -> Result<IncomingRequest<'_>, Rejection> {
    ENDPOINT.decode_request(bytes, transport, NOW)
}

/// The code and message of the error response to an invalid request; checks that it belongs to the request.
#[track_caller]
fn error_response(bytes: &[u8], transport: Transport) -> (ResponseCode, String) {
    let refusal = read(bytes, transport).unwrap_err();
    let response =
        Message::from_bytes(refusal.response().unwrap_or_else(|| panic!("{refusal} without a response")))
            .expect("own response decodes");
    let request = Envelope::from_bytes(bytes).unwrap();
    assert_eq!(response.envelope.request_id, request.request_id, "Handle.Net omits it");
    assert_eq!(response.envelope.version, request.response_version());
    assert!(response.header.expiration > NOW.unix_u32());
    let MessageBody::Response(Response { digest: None, outcome: ResponseData::Failed { message } }) =
        response.body
    else {
        panic!("{response:?}")
    };
    assert_eq!(response.header.response_code, refusal.code());
    (refusal.code(), String::from_utf8(message.unwrap().to_vec()).unwrap())
}

fn resolution(handle: &[u8]) -> Vec<u8> {
    Message::resolution(Handle::new(handle), 0x0102_0304, NOW).to_bytes().unwrap()
}

fn with_values(opcode: Opcode, handle: &[u8], values: &[HandleValue<'_>]) -> Vec<u8> {
    let request = Request::Values { handle: Handle::new(handle), values: WireList::from(values) };
    Message::request(opcode, request, 0x0102_0304, NOW).to_bytes().unwrap()
}

/// A request with any bytes as its body.
fn with_body(opcode: u32, body: &[u8]) -> Vec<u8> {
    let request = Request::Unknown(body);
    Message::request(Opcode(opcode), request, 0x0102_0304, NOW).to_bytes().unwrap()
}

#[test]
fn attack_n1_announced_lengths() {
    for announced in [u32::MAX, 0x8000_0000, 262_145] {
        let mut bytes = resolution(b"10.1000/182");
        bytes[16..20].copy_from_slice(&announced.to_be_bytes());
        let (code, message) = error_response(&bytes, Transport::Tcp);
        assert_eq!(code, ResponseCode::PROTOCOL_ERROR);
        assert_eq!(
            message,
            format!("message at byte 20: {announced} bytes announced, at most 262144 allowed")
        );
        assert_eq!(read(&bytes, Transport::Udp).unwrap_err().response(), None, "datagrams are dropped");
    }
    // The largest permitted length is only missing bytes.
    let mut bytes = resolution(b"10.1000/182");
    bytes[16..20].copy_from_slice(&262_144_u32.to_be_bytes());
    assert_eq!(
        error_response(&bytes, Transport::Tcp).1,
        "message at byte 20: 262144 bytes announced, 51 there"
    );
}

#[test]
fn attack_n3_trailing_bytes() {
    let mut bytes = resolution(b"10.1000/182");
    bytes.push(0);
    let (code, message) = error_response(&bytes, Transport::Udp);
    assert_eq!(
        (code, &*message),
        (ResponseCode::PROTOCOL_ERROR, "message at byte 71: 1 bytes follow where none should")
    );
    // Within the message they are an invalid credential section, which is preserved and ignored.
    bytes[19] += 1;
    let message = Message::from_bytes(&bytes).unwrap();
    assert_eq!(message.tail, CredentialSection::Other(&[0; 5]));
    assert_eq!(message.credential(), None);
    assert_eq!(message.to_bytes().unwrap(), bytes);
    assert!(read(&bytes, Transport::Udp).is_ok());
    // A body length beyond the message is an error.
    let mut bytes = resolution(b"10.1000/182");
    bytes[43] = 200;
    assert_eq!(error_response(&bytes, Transport::Tcp).1, "body at byte 40: 200 bytes announced, 27 there");
}

#[test]
fn attack_n4_overflowing_counts() {
    for count in [i32::MAX as u32, u32::MAX, 0x4000_0001, 1_048_577, 100] {
        for (opcode, after) in [(1, 0), (100, 0), (103, 0), (1, 4)] {
            let mut body = b"\0\0\0\x0b10.1000/182".to_vec();
            body.extend(vec![0; after]);
            body.extend(count.to_be_bytes());
            body.extend([0; 12]);
            let (code, message) = error_response(&with_body(opcode, &body), Transport::Tcp);
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
            let (code, message) = error_response(&bytes, transport);
            assert_eq!(code, ResponseCode::PROTOCOL_ERROR);
            assert_eq!(message, format!("header at byte 20: 24 bytes announced, {length} there"));
        }
    }
    for length in 0..20 {
        assert_eq!(
            read(&whole[..length], Transport::Udp).unwrap_err().response(),
            None,
            "no envelope, no response"
        );
    }
}

#[test]
fn attack_n6_unknown_opcodes_and_flags() {
    for opcode in code_points() {
        let bytes = with_body(opcode, b"\0\0\0\x0b10.1000/182\0\0\0\0\0\0\0\0");
        let read = read(&bytes, Transport::Tcp);
        if Opcode(opcode).name().is_none() || opcode == 0 {
            let refusal = read.unwrap_err();
            assert_eq!(refusal.reason(), &RejectionReason::UnknownOperation(Opcode(opcode)));
            assert_eq!(refusal.code(), ResponseCode::OPERATION_NOT_SUPPORTED);
        } else if let Err(refusal) = read {
            // The body of another opcode: malformed, or values are missing.
            assert!([4, 202].contains(&refusal.code().0), "opcode {opcode}: {refusal}");
        }
    }
    let mut request = Message::resolution(Handle::from("10.1000/182"), 7, NOW);
    request.header.flags = OpFlags(u32::MAX);
    request.header.reserved = 0xff;
    let bytes = request.to_bytes().unwrap();
    let incoming = read(&bytes, Transport::Tcp).unwrap();
    let response = incoming.respond(ResponseCode::SUCCESS, ResponseData::Done);
    assert_eq!(response.header.flags.0 & 0x000f_ffff, 0, "unknown flags are not copied to the response");
}

#[test]
fn attack_n7_invalid_handles() {
    let long = [b"10.1000/".to_vec(), vec![b'a'; 2041]].concat();
    assert_eq!(long.len(), 2049);
    for transport in TRANSPORTS {
        let (code, message) = error_response(&resolution(&long), transport);
        assert_eq!(code, ResponseCode::INVALID_HANDLE);
        assert_eq!(message, "the handle has 2049 bytes, at most 2048 are allowed");
    }
    // Unusual handles can be resolved; only a new handle must be valid.
    for (odd, why) in [
        (&b""[..], "the handle is empty"),
        (b"10.1000", "the handle has no `/` between prefix and suffix"),
        (b"/", "the handle has nothing before its `/`"),
    ] {
        assert!(read(&resolution(odd), Transport::Udp).is_ok());
        let (code, message) = error_response(&with_values(Opcode::CREATE_HANDLE, odd, &[]), Transport::Tcp);
        assert_eq!((code, &*message), (ResponseCode::INVALID_HANDLE, why));
    }
    for fine in [&b"10.1000/"[..], &[b"10.1000".to_vec(), vec![b'/'; 255]].concat(), &long[..2048]] {
        assert!(read(&resolution(fine), Transport::Udp).is_ok());
        assert!(read(&with_values(Opcode::CREATE_HANDLE, fine, &[]), Transport::Tcp).is_ok());
    }
}

#[test]
fn attack_n8_handles_that_are_not_utf8() {
    for bad in
        [&b"10.1000/\x80"[..], b"10.1000/\xc0\xaf", b"10.1000/\xed\xa0\x80", b"10.1000/\xf8\x88\x80\x80\x80"]
    {
        for transport in TRANSPORTS {
            let (code, message) = error_response(&resolution(bad), transport);
            assert_eq!(
                (code, &*message),
                (ResponseCode::INVALID_HANDLE, "the handle is not UTF-8 from byte 8 on")
            );
        }
        for opcode in [Opcode::CREATE_HANDLE, Opcode::ADD_VALUE, Opcode::MODIFY_VALUE] {
            let bytes = with_values(opcode, bad, &[HandleValue::new(1, "URL", "x")]);
            assert_eq!(error_response(&bytes, Transport::Tcp).0, ResponseCode::INVALID_HANDLE);
        }
    }
}

#[test]
fn attack_n9_too_many_and_too_large_values() {
    let values: Vec<HandleValue<'_>> = (1..=2049).map(|index| HandleValue::new(index, "URL", "x")).collect();
    let bytes = with_values(Opcode::CREATE_HANDLE, b"10.1000/182", &values);
    let (code, message) = error_response(&bytes, Transport::Tcp);
    assert_eq!((code, &*message), (ResponseCode::INVALID_VALUE, "2049 values, at most 2048 are allowed"));
    assert!(read(&with_values(Opcode::CREATE_HANDLE, b"10.1000/182", &values[1..]), Transport::Tcp).is_ok());

    // A value of a megabyte and a byte: announced, and encoded.
    let mut body = b"\0\0\0\x0b10.1000/182\0\0\0\x01".to_vec();
    let mut value = HandleValue::new(1, "URL", "x").to_bytes();
    value[21..25].copy_from_slice(&1_048_577_u32.to_be_bytes());
    body.extend(value);
    let (code, message) = error_response(&with_body(100, &body), Transport::Tcp);
    assert_eq!(code, ResponseCode::PROTOCOL_ERROR);
    assert_eq!(message, "value data at byte 84: 1048577 bytes announced, at most 1048576 allowed");
    let large = [HandleValue::with_data(1, "URL", vec![0; limits::FIELD + 1])];
    let request = Request::Values { handle: Handle::from("10.1000/182"), values: WireList::from(&large[..]) };
    let error = Message::request(Opcode::CREATE_HANDLE, request, 7, NOW).to_bytes().unwrap_err();
    assert_eq!(error.to_string(), "the message has 1048653 bytes, at most 262144 can be sent");
}

#[test]
fn attack_n10_duplicate_and_invalid_indexes() {
    let twice =
        [HandleValue::new(1, "URL", "a"), HandleValue::new(2, "URL", "b"), HandleValue::new(1, "URL", "c")];
    for opcode in [Opcode::CREATE_HANDLE, Opcode::ADD_VALUE, Opcode::MODIFY_VALUE] {
        let (code, message) = error_response(&with_values(opcode, b"10.1000/182", &twice), Transport::Tcp);
        assert_eq!((code, &*message), (ResponseCode::VALUE_ALREADY_EXISTS, "two values have the index 1"));
    }
    for index in [0, 0x8000_0000, u32::MAX] {
        let bytes =
            with_values(Opcode::CREATE_HANDLE, b"10.1000/182", &[HandleValue::new(index, "URL", "a")]);
        let (code, message) = error_response(&bytes, Transport::Tcp);
        assert_eq!(
            (code, message),
            (ResponseCode::INVALID_VALUE, format!("{index} cannot be the index of a value"))
        );
    }
    let none = with_values(Opcode::ADD_VALUE, b"10.1000/182", &[]);
    assert_eq!(error_response(&none, Transport::Tcp).0, ResponseCode::INVALID_VALUE);
}

#[test]
fn attack_n11_versions() {
    // The suggested version is used; without one, that of the request.
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
        request.envelope.version = ProtocolVersion::new(version.0, version.1);
        for (suggestion, answered) in
            [((0, 0), answered), ((2, 1), (2, 1)), ((2, 6), (2, 4)), ((5, 0), (2, 0)), ((31, 255), (2, 11))]
        {
            request.envelope.suggestion = ProtocolVersion::new(suggestion.0, suggestion.1);
            let bytes = request.to_bytes().unwrap();
            let incoming = read(&bytes, Transport::Tcp).unwrap();
            let response = incoming.respond(ResponseCode::SUCCESS, ResponseData::Done);
            let Envelope { version: of_answer, suggestion: of_server, .. } = response.envelope;
            assert_eq!(of_answer, ProtocolVersion::new(answered.0, answered.1), "{version:?} {suggestion:?}");
            assert_eq!(of_server, ProtocolVersion::LATEST);
        }
    }
    // A client of 2.0 would need an MD5 challenge: no administration.
    let mut create =
        Message::from_bytes(&with_values(Opcode::CREATE_HANDLE, b"10.1000/182", &[])).unwrap().to_bytes();
    let bytes = create.as_mut().unwrap();
    bytes[..4].copy_from_slice(&[2, 0, 2, 0]);
    let (code, message) = error_response(bytes, Transport::Tcp);
    assert_eq!(code, ResponseCode::PROTOCOL_ERROR);
    assert_eq!(message, "administration needs version 2.1 or later, 2.0 is the latest offered");
    // Response codes unknown to old peers are replaced.
    assert_eq!(
        ResponseCode::INVALID_VALUE.for_peer_version(ProtocolVersion::new(2, 3)),
        ResponseCode::VALUE_ALREADY_EXISTS
    );
    assert_eq!(
        ResponseCode::SERVER_BACKUP.for_peer_version(ProtocolVersion::new(2, 3)),
        ResponseCode::PREFIX_REFERRAL
    );
}

#[test]
fn attack_n12_expirations() {
    for expiration in [0, 1, i32::MAX as u32, 0x8000_0000, u32::MAX] {
        let mut request = Message::resolution(Handle::from("10.1000/182"), 7, NOW);
        request.header.expiration = expiration;
        let bytes = request.to_bytes().unwrap();
        assert!(read(&bytes, Transport::Udp).is_ok(), "expired requests are served");
    }
    // The limits of 31 and 32 bits in 2038 and 2106, and the maximum.
    for (unix, expected) in [
        (1_700_000_000, 1_700_043_200),
        (i32::MAX as u64, i32::MAX as u32),
        (u64::from(u32::MAX), i32::MAX as u32),
        (u64::MAX, i32::MAX as u32),
    ] {
        assert_eq!(MessageHeader::default_expiration(Now { elapsed: Duration::ZERO, unix }), expected);
    }
    assert_eq!(Now { elapsed: Duration::ZERO, unix: u64::MAX }.unix_u32(), u32::MAX);
}

#[test]
fn attack_n13_recursion() {
    for count in 0..=255 {
        let mut request = Message::resolution(Handle::from("10.1000/182"), 7, NOW);
        request.header.recursion_count = count;
        let bytes = request.to_bytes().unwrap();
        let incoming = read(&bytes, Transport::Udp).unwrap();
        assert_eq!(incoming.next_recursion_count(), (count < 10).then(|| count + 1));
        let response = incoming.respond(ResponseCode::SUCCESS, ResponseData::Done);
        assert_eq!(response.header.recursion_count, count);
    }
}

#[test]
fn attack_n17_encrypted_without_a_session() {
    for flag in [EnvelopeFlags::ENCRYPTED, EnvelopeFlags::COMPRESSED] {
        for session_id in [0, 7, u32::MAX] {
            // The payload may look like a request, like a response, or be empty.
            for payload in [&resolution(b"10.1000/182")[20..], &[0xa5; 64], &[1; 16], &[]] {
                let mut envelope =
                    Envelope { session_id, request_id: 9, ..Envelope::new(ProtocolVersion::LATEST) };
                envelope.flags = flag;
                envelope.length = payload.len() as u32;
                let bytes = [&envelope.to_bytes(), payload].concat();
                for transport in TRANSPORTS {
                    assert_eq!(error_response(&bytes, transport).0, ResponseCode::PROTOCOL_ERROR);
                }
                assert!(Message::from_bytes(&bytes).is_err(), "never parsed as plaintext");
            }
        }
    }
}

/// A framing error has everything that an error response needs.
#[test]
fn attack_n1_oversized_frames_get_a_response() {
    let mut bytes = resolution(b"10.1000/182");
    bytes[16..20].copy_from_slice(&u32::MAX.to_be_bytes());
    let mut framer = Framer::new();
    framer.push(&bytes);
    let refusal = ENDPOINT.reject_frame(&framer.next_message().unwrap_err(), NOW);
    let response = Message::from_bytes(refusal.response().unwrap()).unwrap();
    assert_eq!((response.envelope.request_id, response.header.opcode), (0x0102_0304, Opcode::RESOLUTION));
    assert_eq!(refusal.to_string(), "4294967295 bytes announced, at most 262144 allowed");
    bytes[27] = 1;
    let mut framer = Framer::new();
    framer.push(&bytes);
    let refusal = ENDPOINT.reject_frame(&framer.next_message().unwrap_err(), NOW);
    assert_eq!(refusal.response(), None, "responses get no response");
}

#[test]
fn attack_u6_responses_get_no_response() {
    let bytes = resolution(b"10.1000/182");
    let incoming = read(&bytes, Transport::Udp).unwrap();
    let response = incoming.respond(ResponseCode::SERVER_TOO_BUSY, ResponseData::Failed { message: None });
    for code in [1, 2, 3, 100, 402, u32::MAX] {
        let mut response = response;
        response.header.response_code = ResponseCode(code);
        let refusal = read(&response.to_bytes().unwrap(), Transport::Udp).unwrap_err();
        assert_eq!((refusal.reason(), refusal.response()), (&RejectionReason::Response, None));
    }
    // Malformed ones neither.
    let mut malformed = response.to_bytes().unwrap();
    malformed[43] = 255;
    assert_eq!(read(&malformed, Transport::Udp).unwrap_err().response(), None);
}

#[test]
fn administration_over_udp_is_rejected() {
    for opcode in [100, 101, 102, 103, 104, 105, 300, 301, 302, 1000, 1001, 1002, 1003] {
        let bytes = with_body(opcode, b"\0\0\0\x0b10.1000/182\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
        let (code, message) = error_response(&bytes, Transport::Udp);
        assert_eq!((code, &*message), (ResponseCode::PROTOCOL_ERROR, "administration is not taken over UDP"));
    }
    for opcode in [2, 401] {
        assert!(read(&with_body(opcode, b""), Transport::Udp).is_ok(), "opcode {opcode}");
    }
}

/// An error response is hardly larger than its request, whatever the request.
#[test]
fn error_responses_are_small() {
    let mut random = SeededRng::new(1);
    for _ in 0..20_000 {
        let mut bytes = resolution(b"10.1000/182");
        for byte in &mut bytes {
            if random.percent(12) {
                *byte = random.next_u64() as u8;
            }
        }
        if let Err(refusal) = read(&bytes, Transport::Udp) {
            assert!(refusal.response().is_none_or(|response| response.len() <= 200));
        }
    }
}

#[test]
fn absent_credential_section() {
    let request = Message {
        tail: CredentialSection::Absent,
        ..Message::resolution(Handle::from("10.1000/182"), 7, NOW)
    };
    let bytes = request.to_bytes().unwrap();
    assert_eq!(Message::from_bytes(&bytes).unwrap().tail, CredentialSection::Absent);
    assert!(read(&bytes, Transport::Tcp).is_ok(), "some clients omit the credential section");
}
