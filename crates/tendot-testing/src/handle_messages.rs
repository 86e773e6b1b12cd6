//! Messages of the Handle protocol: requests that tests send, and how they read responses.

use std::io::Read;
use std::net::UdpSocket;
use std::sync::LazyLock;
use std::time::{Duration, Instant, SystemTime};

use tendot_proto::auth::{ChallengeResponse, ClientKey};
use tendot_proto::crypto::SystemRandom;
use tendot_proto::record::{Admin, AdminPermissions};
use tendot_proto::wire::WireList;
use tendot_proto::{
    Envelope, Fragments, Framer, Handle, HandleValue, Message, MessageBody, MessageParts, Now, OpFlags,
    Opcode, Reassembly, Request, Response, ResponseData, ValueReference, limits,
};

/// Request id of all requests that do not set one.
const REQUEST_ID: u32 = 7;

/// The current time, as `tendot-proto` expects it.
pub fn now() -> Now {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    Now { elapsed: START.elapsed(), unix }
}

/// A request for all public values of a handle.
pub fn resolution(handle: &str) -> Message<'_> {
    Message::resolution(Handle::from(handle), REQUEST_ID, now())
}

/// A request for the public values of a handle with one of these indexes or types.
pub fn selection<'a>(handle: &'a str, indexes: &'a [u32], types: &'a [&'a [u8]]) -> Message<'a> {
    let (indexes, types) = (WireList::from(indexes), WireList::from(types));
    let request = Request::Resolve { handle: Handle::from(handle), indexes, types };
    Message::request(Opcode::RESOLUTION, request, REQUEST_ID, now())
}

/// A resolution after which the connection stays open.
pub fn keep_alive_resolution(handle: &str) -> Message<'_> {
    let mut request = resolution(handle);
    request.header.flags |= OpFlags::KEEP_CONNECTION;
    request
}

/// A request with a handle as its only operand.
pub fn handle_request(opcode: Opcode, handle: &str) -> Message<'_> {
    Message::request(opcode, Request::HandleOnly { handle: Handle::from(handle) }, REQUEST_ID, now())
}

/// A request to create, add or modify values.
pub fn values_request<'a>(opcode: Opcode, handle: &'a str, values: &'a [HandleValue<'a>]) -> Message<'a> {
    let request = Request::WriteValues { handle: Handle::from(handle), values: WireList::from(values) };
    Message::request(opcode, request, REQUEST_ID, now())
}

/// A request to create a record.
pub fn create_request<'a>(handle: &'a str, values: &'a [HandleValue<'a>]) -> Message<'a> {
    values_request(Opcode::CREATE_HANDLE, handle, values)
}

/// A request to delete a record.
pub fn delete_request(handle: &str) -> Message<'_> {
    handle_request(Opcode::DELETE_HANDLE, handle)
}

/// A `URL` value.
pub fn url_value(index: u32, url: &'static str) -> HandleValue<'static> {
    HandleValue::new(index, "URL", url)
}

/// An `HS_ADMIN` value with these permission bits.
pub fn admin_value(index: u32, bits: u16, admin: &str) -> HandleValue<'static> {
    let permissions = AdminPermissions(bits);
    let admin = Admin { permissions, reference: ValueReference::parse(admin), legacy_byte_length: false };
    HandleValue::with_data(index, "HS_ADMIN", admin.to_bytes())
}

/// The response to a challenge.
pub fn challenge_response(
    request: &[u8],
    challenge: &[u8],
    identity: &str,
    credentials: ClientKey<'_>,
    request_id: u32,
) -> Vec<u8> {
    let message = Message::from_bytes(challenge).unwrap();
    let parts = MessageParts::split(request).unwrap();
    let proof = credentials.respond(&parts, &message, &mut SystemRandom, crate::auth_context!()).unwrap();
    challenge_response_with(challenge, credentials.auth_type(), identity, &proof, request_id)
}

/// The response to a challenge with any proof, also an invalid one.
pub fn challenge_response_with(
    challenge: &[u8],
    auth_type: &[u8],
    identity: &str,
    proof: &[u8],
    request_id: u32,
) -> Vec<u8> {
    let identity = ValueReference::parse(identity);
    let request = Request::ChallengeResponse(ChallengeResponse {
        auth_type,
        key_handle: identity.handle(),
        key_index: identity.index,
        proof,
    });
    let mut message = Message::request(Opcode::CHALLENGE_RESPONSE, request, request_id, now());
    message.envelope.session_id = Envelope::from_bytes(challenge).unwrap().session_id;
    message.to_bytes().unwrap()
}

/// The response code of a message.
#[track_caller]
pub fn response_code(response: &[u8]) -> u32 {
    Message::from_bytes(response).unwrap().header.response_code.0
}

/// The text of an error response; empty if it has none.
#[track_caller]
pub fn error_message(response: &[u8]) -> String {
    match Message::from_bytes(response).unwrap().body {
        MessageBody::Response(Response { data: ResponseData::Error { message: Some(text) }, .. }) => {
            String::from_utf8(text.to_vec()).unwrap()
        }
        _ => String::new(),
    }
}

/// One message of a connection that stays open; none if it was closed.
pub fn read_message(stream: &mut impl Read) -> Option<Vec<u8>> {
    let mut message = vec![0; limits::ENVELOPE_LEN];
    stream.read_exact(&mut message).ok()?;
    let length = Envelope::from_bytes(&message).unwrap().length as usize;
    message.resize(limits::ENVELOPE_LEN + length, 0);
    stream.read_exact(&mut message[limits::ENVELOPE_LEN..]).ok()?;
    Some(message)
}

/// The messages in a byte stream that ends with a whole message.
#[track_caller]
pub fn split_messages(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut framer = Framer::new();
    framer.push(bytes);
    let mut messages = Vec::new();
    while let Some(message) = framer.next_message().unwrap() {
        messages.push(message.to_vec());
    }
    assert!(!framer.has_partial_message());
    messages
}

/// Sends a message in as many datagrams as it needs; a message too short for that as it is.
#[track_caller]
pub fn send_udp(socket: &UdpSocket, message: &[u8]) {
    if let Ok(datagrams) = Fragments::new(message) {
        for datagram in datagrams {
            socket.send(&datagram).unwrap();
        }
    } else {
        socket.send(message).unwrap();
    }
}

/// The next whole message from a socket; `None` if no datagram arrives within `timeout`.
#[track_caller]
pub fn receive_udp(socket: &UdpSocket, timeout: Duration) -> Option<Vec<u8>> {
    socket.set_read_timeout(Some(timeout)).unwrap();
    let (mut reassembly, mut buffer) = (Reassembly::new(), [0; 1024]);
    let from = socket.peer_addr().unwrap();
    while let Ok(length) = socket.recv(&mut buffer) {
        assert!(length <= limits::MAX_DATAGRAM_LEN);
        if let Some(message) = reassembly.insert(now(), from, &buffer[..length]).unwrap() {
            return Some(message.into_owned());
        }
    }
    None
}
