use tendot_proto::endpoint::{IncomingRequest, Rejection};
use tendot_proto::{Opcode, ResponseCode};

use super::listing::ListContinuation;

/// Reply to a message: bytes, continuation, opcode, response code and cost.
#[derive(Debug)]
pub(crate) struct NativeReply {
    /// The message; none if nothing is to be answered.
    pub(crate) message: Option<Vec<u8>>,
    /// What comes after it.
    pub(super) more: Option<ListContinuation>,
    pub(super) opcode: Opcode,
    pub(super) code: ResponseCode,
    /// Steps of work that it took.
    pub(super) cost: u32,
}

impl NativeReply {
    /// Nothing.
    pub(super) const fn none(code: ResponseCode) -> Self {
        Self { message: None, more: None, opcode: Opcode::RESERVED, code, cost: 0 }
    }

    pub(super) fn from_rejection(opcode: Opcode, refusal: &Rejection) -> Self {
        let message = refusal.response().map(Into::into);
        Self { message, more: None, opcode, code: refusal.code(), cost: 0 }
    }

    pub(super) const fn new(incoming: &IncomingRequest<'_>, code: ResponseCode, message: Vec<u8>) -> Self {
        let opcode = incoming.message.header.opcode;
        Self { message: Some(message), more: None, opcode, code, cost: 0 }
    }
}
