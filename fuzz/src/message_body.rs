//! Message bodies of every opcode and response code: no input panics, decoded bodies encode to the same bytes.
//!
//! The first bytes are opcode, response code, flags and version; the rest is the body.

use tendot_proto::{
    CredentialSection, Envelope, Message, MessageBody, MessageHeader, Now, OpFlags, Opcode, ProtocolVersion,
    Request, ResponseCode,
};

pub(crate) fn check(bytes: &[u8]) {
    let Some(([high, low, code_high, code_low, digest, minor], body)) = bytes.split_first_chunk() else {
        return;
    };
    let now = Now { elapsed: core::time::Duration::ZERO, unix: 1_700_000_000 };
    let digest = if digest & 0x80 == 0 { OpFlags::default() } else { OpFlags::REQUEST_DIGEST };
    let message = Message {
        envelope: Envelope::new(ProtocolVersion::new(2, minor % 16)),
        header: MessageHeader {
            response_code: ResponseCode(u16::from_be_bytes([*code_high, *code_low]).into()),
            flags: OpFlags::DEFAULT | digest,
            ..MessageHeader::for_request(Opcode(u16::from_be_bytes([*high, *low]).into()), now)
        },
        body: MessageBody::Request(Request::Unknown(body)),
        trailing_body: &[],
        credential_section: CredentialSection::Empty,
    };
    let Ok(encoded) = message.to_bytes() else { return };
    match Message::from_bytes(&encoded) {
        Ok(message) => assert_eq!(message.to_bytes().expect("decoded message re-encodes"), encoded),
        Err(error) => assert!(error.offset() >= 44 && error.offset() <= encoded.len()),
    }
}
