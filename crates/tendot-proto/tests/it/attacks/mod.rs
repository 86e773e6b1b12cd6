//! Attacks by the rows of the threat model: malformed messages, challenges, sessions.

#[cfg(feature = "crypto")]
mod challenges;
mod messages;
#[cfg(feature = "crypto")]
mod sessions;

use std::time::Duration;

use tendot_proto::{Handle, Message, Now, Opcode, Request};

/// Virtual time after this many seconds.
pub(super) fn at(seconds: u64) -> Now {
    Now { elapsed: Duration::from_secs(seconds), unix: 1_700_000_000 + seconds }
}

pub(super) fn no_ids_in_use(_: u32) -> bool {
    false
}

/// Encoded request to delete a handle.
pub(super) fn delete_request(handle: &str, request_id: u32) -> Vec<u8> {
    let request = Request::HandleOnly { handle: Handle::from(handle) };
    Message::request(Opcode::DELETE_HANDLE, request, request_id, at(0)).to_bytes().unwrap()
}
