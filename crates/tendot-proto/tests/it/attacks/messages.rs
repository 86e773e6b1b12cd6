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

const ENDPOINT: Endpoint = Endpoint { site_serial: 5, is_primary: true };

const TRANSPORTS: [Transport; 3] = [Transport::Udp, Transport::Tcp, Transport::Http];

fn decode(bytes: &[u8], transport: Transport) -> Result<IncomingRequest<'_>, Rejection> {
    ENDPOINT.decode_request(bytes, transport, NOW)
}

/// Code and message of the error response to an invalid request; checks that it belongs to the request.
#[track_caller]
fn error_response(bytes: &[u8], transport: Transport) -> (ResponseCode, String) {
    let rejection = decode(bytes, transport).unwrap_err();
    let response =
        Message::from_bytes(rejection.response().unwrap_or_else(|| panic!("{rejection} without a response")))
            .expect("own response decodes");
    let request = Envelope::from_bytes(bytes).unwrap();
    assert_eq!(response.envelope.request_id, request.request_id, "Handle.Net omits it");
    assert_eq!(response.envelope.version, request.response_version());
    assert!(response.header.expiration > NOW.unix_u32());
    let MessageBody::Response(Response { digest: None, data: ResponseData::Error { message } }) =
        response.body
    else {
        panic!("{response:?}")
    };
    assert_eq!(response.header.response_code, rejection.response_code());
    (rejection.response_code(), String::from_utf8(message.unwrap().to_vec()).unwrap())
}

fn resolution(handle: &[u8]) -> Vec<u8> {
    Message::resolution(Handle::new(handle), 0x0102_0304, NOW).to_bytes().unwrap()
}

fn with_values(opcode: Opcode, handle: &[u8], values: &[HandleValue<'_>]) -> Vec<u8> {
    let request = Request::WriteValues { handle: Handle::new(handle), values: WireList::from(values) };
    Message::request(opcode, request, 0x0102_0304, NOW).to_bytes().unwrap()
}

/// Encoded request with any bytes as its body.
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
            format!("message at byte 20: length {announced} exceeds the limit of 262144 bytes")
        );
        assert_eq!(decode(&bytes, Transport::Udp).unwrap_err().response(), None, "datagrams are dropped");
    }
    // The largest permitted length is only missing bytes.
    let mut bytes = resolution(b"10.1000/182");
    bytes[16..20].copy_from_slice(&262_144_u32.to_be_bytes());
    assert_eq!(
        error_response(&bytes, Transport::Tcp).1,
        "message at byte 20: needs 262144 bytes, only 51 left"
    );
}

#[test]
fn attack_n3_trailing_bytes() {
    let mut bytes = resolution(b"10.1000/182");
    bytes.push(0);
    let (code, message) = error_response(&bytes, Transport::Udp);
    assert_eq!((code, &*message), (ResponseCode::PROTOCOL_ERROR, "message at byte 71: 1 trailing bytes"));
    // Within the message they are an invalid credential section, which is preserved and ignored.
    bytes[19] += 1;
    let message = Message::from_bytes(&bytes).unwrap();
    assert_eq!(message.credential_section, CredentialSection::Malformed(&[0; 5]));
    assert_eq!(message.credential(), None);
    assert_eq!(message.to_bytes().unwrap(), bytes);
    assert!(decode(&bytes, Transport::Udp).is_ok());
    // A body length beyond the message is an error.
    let mut bytes = resolution(b"10.1000/182");
    bytes[43] = 200;
    assert_eq!(error_response(&bytes, Transport::Tcp).1, "body at byte 40: needs 200 bytes, only 27 left");
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
            let expected = format!("at byte {}: {count} items ", 44 + 15 + after);
            assert!(message.contains(&expected), "{message}");
        }
    }
}

#[test]
fn attack_n5_shorter_than_a_header() {
    let complete = resolution(b"10.1000/182");
    for length in 0..24 {
        let mut bytes = complete[..20 + length].to_vec();
        bytes[19] = length as u8;
        for transport in TRANSPORTS {
            let (code, message) = error_response(&bytes, transport);
            assert_eq!(code, ResponseCode::PROTOCOL_ERROR);
            assert_eq!(message, format!("header at byte 20: needs 24 bytes, only {length} left"));
        }
    }
    for length in 0..20 {
        assert_eq!(
            decode(&complete[..length], Transport::Udp).unwrap_err().response(),
            None,
            "no envelope, no response"
        );
    }
}

#[test]
fn attack_n6_unknown_opcodes_and_flags() {
    for opcode in code_points() {
        let bytes = with_body(opcode, b"\0\0\0\x0b10.1000/182\0\0\0\0\0\0\0\0");
        let decoded = decode(&bytes, Transport::Tcp);
        if Opcode(opcode).name().is_none() || opcode == 0 {
            let rejection = decoded.unwrap_err();
            assert_eq!(rejection.reason(), &RejectionReason::UnknownOpcode(Opcode(opcode)));
            assert_eq!(rejection.response_code(), ResponseCode::OPERATION_NOT_SUPPORTED);
        } else if let Err(rejection) = decoded {
            // The body of another opcode: malformed, or values are missing.
            assert!([4, 202].contains(&rejection.response_code().0), "opcode {opcode}: {rejection}");
        }
    }
    let mut request = Message::resolution(Handle::from("10.1000/182"), 7, NOW);
    request.header.flags = OpFlags(u32::MAX);
    request.header.reserved = 0xff;
    let bytes = request.to_bytes().unwrap();
    let incoming = decode(&bytes, Transport::Tcp).unwrap();
    let response = incoming.respond(ResponseCode::SUCCESS, ResponseData::Empty);
    assert_eq!(response.header.flags.0 & 0x000f_ffff, 0, "unknown flags are not copied to the response");
}

#[test]
fn attack_n7_invalid_handles() {
    let long = [b"10.1000/".to_vec(), vec![b'a'; 2041]].concat();
    assert_eq!(long.len(), 2049);
    for transport in TRANSPORTS {
        let (code, message) = error_response(&resolution(&long), transport);
        assert_eq!(code, ResponseCode::INVALID_HANDLE);
        assert_eq!(message, "handle of 2049 bytes exceeds the limit of 2048");
    }
    // Unusual handles can be resolved; only a new handle must be valid.
    for (unusual, expected) in [
        (&b""[..], "empty handle"),
        (b"10.1000", "invalid handle: missing `/`"),
        (b"/", "invalid handle: empty prefix"),
    ] {
        assert!(decode(&resolution(unusual), Transport::Udp).is_ok());
        let (code, message) =
            error_response(&with_values(Opcode::CREATE_HANDLE, unusual, &[]), Transport::Tcp);
        assert_eq!((code, &*message), (ResponseCode::INVALID_HANDLE, expected));
    }
    for valid in [&b"10.1000/"[..], &[b"10.1000".to_vec(), vec![b'/'; 255]].concat(), &long[..2048]] {
        assert!(decode(&resolution(valid), Transport::Udp).is_ok());
        assert!(decode(&with_values(Opcode::CREATE_HANDLE, valid, &[]), Transport::Tcp).is_ok());
    }
}

#[test]
fn attack_n8_invalid_utf8_handles() {
    for invalid in
        [&b"10.1000/\x80"[..], b"10.1000/\xc0\xaf", b"10.1000/\xed\xa0\x80", b"10.1000/\xf8\x88\x80\x80\x80"]
    {
        for transport in TRANSPORTS {
            let (code, message) = error_response(&resolution(invalid), transport);
            assert_eq!(
                (code, &*message),
                (ResponseCode::INVALID_HANDLE, "invalid handle: invalid UTF-8 at byte 8")
            );
        }
        for opcode in [Opcode::CREATE_HANDLE, Opcode::ADD_VALUE, Opcode::MODIFY_VALUE] {
            let bytes = with_values(opcode, invalid, &[HandleValue::new(1, "URL", "x")]);
            assert_eq!(error_response(&bytes, Transport::Tcp).0, ResponseCode::INVALID_HANDLE);
        }
    }
}

#[test]
fn attack_n9_too_many_and_too_large_values() {
    let values: Vec<HandleValue<'_>> = (1..=2049).map(|index| HandleValue::new(index, "URL", "x")).collect();
    let bytes = with_values(Opcode::CREATE_HANDLE, b"10.1000/182", &values);
    let (code, message) = error_response(&bytes, Transport::Tcp);
    assert_eq!((code, &*message), (ResponseCode::INVALID_VALUE, "2049 values exceed the limit of 2048"));
    assert!(
        decode(&with_values(Opcode::CREATE_HANDLE, b"10.1000/182", &values[1..]), Transport::Tcp).is_ok()
    );

    // A value of a megabyte and a byte: announced, and encoded.
    let mut body = b"\0\0\0\x0b10.1000/182\0\0\0\x01".to_vec();
    let mut value = HandleValue::new(1, "URL", "x").to_bytes();
    value[21..25].copy_from_slice(&1_048_577_u32.to_be_bytes());
    body.extend(value);
    let (code, message) = error_response(&with_body(100, &body), Transport::Tcp);
    assert_eq!(code, ResponseCode::PROTOCOL_ERROR);
    assert_eq!(message, "value data at byte 84: length 1048577 exceeds the limit of 1048576 bytes");
    let large = [HandleValue::with_data(1, "URL", vec![0; limits::MAX_FIELD_LEN + 1])];
    let request =
        Request::WriteValues { handle: Handle::from("10.1000/182"), values: WireList::from(&large[..]) };
    let error = Message::request(Opcode::CREATE_HANDLE, request, 7, NOW).to_bytes().unwrap_err();
    assert_eq!(error.to_string(), "message of 1048653 bytes exceeds the limit of 262144");
}

#[test]
fn attack_n10_duplicate_and_invalid_indexes() {
    let twice =
        [HandleValue::new(1, "URL", "a"), HandleValue::new(2, "URL", "b"), HandleValue::new(1, "URL", "c")];
    for opcode in [Opcode::CREATE_HANDLE, Opcode::ADD_VALUE, Opcode::MODIFY_VALUE] {
        let (code, message) = error_response(&with_values(opcode, b"10.1000/182", &twice), Transport::Tcp);
        assert_eq!((code, &*message), (ResponseCode::VALUE_ALREADY_EXISTS, "duplicate value index 1"));
    }
    for index in [0, 0x8000_0000, u32::MAX] {
        let bytes =
            with_values(Opcode::CREATE_HANDLE, b"10.1000/182", &[HandleValue::new(index, "URL", "a")]);
        let (code, message) = error_response(&bytes, Transport::Tcp);
        assert_eq!((code, message), (ResponseCode::INVALID_VALUE, format!("invalid value index {index}")));
    }
    let none = with_values(Opcode::ADD_VALUE, b"10.1000/182", &[]);
    assert_eq!(error_response(&none, Transport::Tcp).0, ResponseCode::INVALID_VALUE);
}

#[test]
fn attack_n11_versions() {
    // The suggested version is used; without one, that of the request.
    for (version, negotiated) in [
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
        for (suggested, expected) in
            [((0, 0), negotiated), ((2, 1), (2, 1)), ((2, 6), (2, 4)), ((5, 0), (2, 0)), ((31, 255), (2, 11))]
        {
            request.envelope.suggested_version = ProtocolVersion::new(suggested.0, suggested.1);
            let bytes = request.to_bytes().unwrap();
            let incoming = decode(&bytes, Transport::Tcp).unwrap();
            let response = incoming.respond(ResponseCode::SUCCESS, ResponseData::Empty);
            let Envelope { version: response_version, suggested_version: server_version, .. } =
                response.envelope;
            assert_eq!(
                response_version,
                ProtocolVersion::new(expected.0, expected.1),
                "{version:?} {suggested:?}"
            );
            assert_eq!(server_version, ProtocolVersion::LATEST);
        }
    }
    // A client of 2.0 would need an MD5 challenge: no admin operations.
    let mut create =
        Message::from_bytes(&with_values(Opcode::CREATE_HANDLE, b"10.1000/182", &[])).unwrap().to_bytes();
    let bytes = create.as_mut().unwrap();
    bytes[..4].copy_from_slice(&[2, 0, 2, 0]);
    let (code, message) = error_response(bytes, Transport::Tcp);
    assert_eq!(code, ResponseCode::PROTOCOL_ERROR);
    assert_eq!(message, "admin operations require protocol version 2.1 or later; client offers 2.0");
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
        assert!(decode(&bytes, Transport::Udp).is_ok(), "expired requests are served");
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
        let incoming = decode(&bytes, Transport::Udp).unwrap();
        let response = incoming.respond(ResponseCode::SUCCESS, ResponseData::Empty);
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
    let rejection = ENDPOINT.reject_frame(&framer.next_message().unwrap_err(), NOW);
    let response = Message::from_bytes(rejection.response().unwrap()).unwrap();
    assert_eq!((response.envelope.request_id, response.header.opcode), (0x0102_0304, Opcode::RESOLUTION));
    assert_eq!(rejection.to_string(), "message length 4294967295 exceeds the limit of 262144 bytes");
    bytes[27] = 1;
    let mut framer = Framer::new();
    framer.push(&bytes);
    let rejection = ENDPOINT.reject_frame(&framer.next_message().unwrap_err(), NOW);
    assert_eq!(rejection.response(), None, "responses get no response");
}

#[test]
fn attack_u6_responses_get_no_response() {
    let bytes = resolution(b"10.1000/182");
    let incoming = decode(&bytes, Transport::Udp).unwrap();
    let response = incoming.respond(ResponseCode::SERVER_TOO_BUSY, ResponseData::Error { message: None });
    for code in [1, 2, 3, 100, 402, u32::MAX] {
        let mut response = response;
        response.header.response_code = ResponseCode(code);
        let rejection = decode(&response.to_bytes().unwrap(), Transport::Udp).unwrap_err();
        assert_eq!((rejection.reason(), rejection.response()), (&RejectionReason::NotARequest, None));
    }
    // Malformed ones neither.
    let mut malformed = response.to_bytes().unwrap();
    malformed[43] = 255;
    assert_eq!(decode(&malformed, Transport::Udp).unwrap_err().response(), None);
}

#[test]
fn admin_operations_over_udp_are_rejected() {
    for opcode in [100, 101, 102, 103, 104, 105, 300, 301, 302, 1000, 1001, 1002, 1003] {
        let bytes = with_body(opcode, b"\0\0\0\x0b10.1000/182\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
        let (code, message) = error_response(&bytes, Transport::Udp);
        assert_eq!(
            (code, &*message),
            (ResponseCode::PROTOCOL_ERROR, "admin operations are not accepted over UDP; use TCP or HTTP")
        );
    }
    for opcode in [2, 401] {
        assert!(decode(&with_body(opcode, b""), Transport::Udp).is_ok(), "opcode {opcode}");
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
        if let Err(rejection) = decode(&bytes, Transport::Udp) {
            assert!(rejection.response().is_none_or(|response| response.len() <= 200));
        }
    }
}

#[test]
fn absent_credential_section() {
    let request = Message {
        credential_section: CredentialSection::Absent,
        ..Message::resolution(Handle::from("10.1000/182"), 7, NOW)
    };
    let bytes = request.to_bytes().unwrap();
    assert_eq!(Message::from_bytes(&bytes).unwrap().credential_section, CredentialSection::Absent);
    assert!(decode(&bytes, Transport::Tcp).is_ok(), "some clients omit the credential section");
}
