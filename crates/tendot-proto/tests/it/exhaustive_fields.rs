//! All values of small fields: decoded or preserved, never rejected because they are unknown, never a panic.

use tendot_proto::wire::WireList;
use tendot_proto::{
    CredentialSection, Envelope, EnvelopeFlags, Handle, HandleValue, Message, MessageBody, MessageHeader,
    Now, OpFlags, Opcode, ProtocolVersion, Request, Response, ResponseCode, ResponseData,
};

use crate::support::code_points;

const NOW: Now = Now { elapsed: core::time::Duration::ZERO, unix: 1_700_000_000 };

/// Bodies that are valid for some opcode, and invalid ones.
fn bodies() -> Vec<Vec<u8>> {
    let handle_only = b"\0\0\0\x0b10.1000/182".to_vec();
    let mut resolution = handle_only.clone();
    resolution.extend([0; 8]);
    let mut values = handle_only.clone();
    values.extend(1_u32.to_be_bytes());
    values.extend(HandleValue::new(1, "URL", "https://example.org/").to_bytes());
    vec![Vec::new(), handle_only, resolution, values, vec![0; 40], vec![0xff; 40]]
}

fn message(opcode: u32, response_code: u32, flags: OpFlags, body: &[u8]) -> Vec<u8> {
    let message = Message {
        envelope: Envelope::new(ProtocolVersion::LATEST),
        header: MessageHeader {
            response_code: ResponseCode(response_code),
            flags,
            ..MessageHeader::for_request(Opcode(opcode), NOW)
        },
        body: MessageBody::Request(Request::Unknown(body)),
        trailing_body: &[],
        credential_section: CredentialSection::Empty,
    };
    message.to_bytes().unwrap()
}

/// Whether the bytes decode, and encode to the same bytes again; otherwise the error offset is within the message.
fn round_trips(bytes: &[u8]) -> bool {
    match Message::from_bytes(bytes) {
        Ok(message) => {
            assert_eq!(message.to_bytes().unwrap(), bytes);
            true
        }
        Err(error) => {
            assert!(error.offset() <= bytes.len());
            false
        }
    }
}

#[test]
fn all_opcodes() {
    let bodies = bodies();
    assert!(Opcode::ALL.iter().all(|opcode| code_points().any(|code| code == opcode.0)));
    for opcode in code_points() {
        let known = Opcode(opcode).name().is_some();
        assert_eq!(known, Opcode::ALL.contains(&Opcode(opcode)));
        for response_code in [0, 1] {
            for body in &bodies {
                let round_tripped = round_trips(&message(opcode, response_code, OpFlags::DEFAULT, body));
                assert!(round_tripped || known, "the body of the unknown opcode {opcode} must be preserved");
            }
        }
    }
}

#[test]
fn all_response_codes() {
    let bodies = bodies();
    assert!(ResponseCode::ALL.iter().all(|known| code_points().any(|code| code == known.0)));
    for response_code in code_points().filter(|code| *code != 0) {
        let code = ResponseCode(response_code);
        assert_eq!(code.name().is_some(), ResponseCode::ALL.contains(&code));
        for opcode in [1, 105, 400, 999] {
            for body in &bodies {
                round_trips(&message(opcode, response_code, OpFlags::DEFAULT, body));
                round_trips(&message(
                    opcode,
                    response_code,
                    OpFlags::DEFAULT | OpFlags::REQUEST_DIGEST,
                    body,
                ));
            }
        }
        // The error message is decoded for any code.
        if code.is_error() {
            let bytes = message(1, response_code, OpFlags::DEFAULT, b"\0\0\0\x03why");
            let decoded = Message::from_bytes(&bytes).unwrap();
            let MessageBody::Response(Response { data: ResponseData::Error { message }, .. }) = decoded.body
            else {
                panic!("{response_code}: {decoded:?}")
            };
            assert_eq!(message, Some(&b"why"[..]));
        }
    }
}

#[test]
fn all_flags() {
    for bit in 0..32 {
        assert!(round_trips(&message(1, 0, OpFlags(1 << bit), &bodies()[2])), "bit {bit}");
    }
    assert!(round_trips(&message(1, 0, OpFlags(u32::MAX), &bodies()[2])));
    let named: u32 = OpFlags::MNEMONICS.iter().map(|(flag, _)| flag.0).sum();
    assert_eq!(named, 0xfff0_0000, "each bit from the top has one name");
}

#[test]
fn all_versions() {
    let mut bytes = message(1, 0, OpFlags::DEFAULT, &bodies()[2]);
    for major in 0..=255 {
        for minor in 0..=255 {
            bytes[0] = major;
            bytes[1] = minor;
            assert!(round_trips(&bytes));
            let envelope = Envelope {
                version: ProtocolVersion::new(major, minor),
                ..Envelope::new(ProtocolVersion::LATEST)
            };
            assert!(envelope.response_version() <= ProtocolVersion::LATEST);
        }
    }
    for third in 0..=255_u8 {
        bytes[2] = third;
        let envelope = Envelope::from_bytes(&bytes).unwrap();
        assert_eq!(envelope.to_bytes()[..], bytes[..20]);
        let is_plain = !envelope.flags.contains(EnvelopeFlags::ENCRYPTED)
            && !envelope.flags.contains(EnvelopeFlags::COMPRESSED);
        assert_eq!(Message::from_bytes(&bytes).is_ok(), is_plain, "third byte {third:#x}");
        assert!(envelope.response_version() <= ProtocolVersion::LATEST.max(envelope.version));
    }
}

#[test]
fn all_value_header_bytes() {
    let value = HandleValue::new(1, "URL", "https://example.org/").to_bytes();
    for offset in 0..14 {
        for byte in 0..=255 {
            let mut changed = value.clone();
            changed[offset] = byte;
            assert_eq!(
                HandleValue::from_bytes(&changed).unwrap().to_bytes(),
                changed,
                "byte {offset} = {byte}"
            );
        }
    }
}

/// Every truncation of a message is an error, and no change of one byte panics.
#[test]
fn all_truncations_and_single_byte_changes() {
    let types = [&b"URL"[..], b"HS_SITE."];
    let request = Request::Resolve {
        handle: Handle::from("10.1000/182"),
        indexes: WireList::from(&[1, 100][..]),
        types: WireList::from(&types[..]),
    };
    let bytes = Message::request(Opcode::RESOLUTION, request, 7, NOW).to_bytes().unwrap();
    for cut in 0..bytes.len() {
        assert!(!round_trips(&bytes[..cut]), "cut at {cut}");
    }
    for offset in 0..bytes.len() {
        for byte in 0..=255 {
            let mut changed = bytes.clone();
            changed[offset] = byte;
            round_trips(&changed);
        }
    }
}
