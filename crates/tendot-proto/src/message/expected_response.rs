//! Checks that a response belongs to its request.

use super::{MessageParts, Opcode};
use crate::now::Now;

/// Request id and opcode that a response must match.
///
/// ```
/// use tendot_proto::message::{ExpectedResponse, ResponseMismatch};
/// use tendot_proto::{Handle, Message, MessageParts, Now, Opcode};
///
/// let now = Now { elapsed: core::time::Duration::ZERO, unix: 1_700_000_000 };
/// let request = Message::resolution(Handle::from("10.1000/182"), 7, now).to_bytes()?;
/// let expected = ExpectedResponse { request_id: 7, opcode: Opcode::RESOLUTION };
/// let reflected = expected.check(&MessageParts::split(&request)?, now);
/// assert_eq!(reflected, Err(ResponseMismatch::NotAResponse));
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ExpectedResponse {
    /// Request id.
    pub request_id: u32,
    /// Opcode; for a challenge response that of the request that was challenged.
    pub opcode: Opcode,
}

impl ExpectedResponse {
    /// Checks request id, direction, opcode and expiration, in this order. The body of a message that does not match
    /// need not be decoded.
    pub fn check(&self, parts: &MessageParts<'_>, now: Now) -> Result<(), ResponseMismatch> {
        let header = &parts.header;
        if parts.envelope.request_id != self.request_id {
            return Err(ResponseMismatch::RequestId { found: parts.envelope.request_id });
        }
        if header.is_request() {
            return Err(ResponseMismatch::NotAResponse);
        }
        // Errors about malformed requests have opcode 0; some about authentication that of the challenge response.
        let is_error = header.response_code.is_error()
            && matches!(header.opcode, Opcode::RESERVED | Opcode::CHALLENGE_RESPONSE);
        if header.opcode != self.opcode && !is_error {
            return Err(ResponseMismatch::Opcode { found: header.opcode.0 });
        }
        match now.unix.checked_sub(u64::from(header.expiration)) {
            Some(late @ 1..) => Err(ResponseMismatch::Expired { expiration: header.expiration, late }),
            _ => Ok(()),
        }
    }
}

/// Reason for which a message is not the response to a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ResponseMismatch {
    /// Another request id.
    #[error("request id mismatch: {found:#x}")]
    RequestId {
        /// Request id of the message.
        found: u32,
    },
    /// The message is a request.
    #[error("message is not a response")]
    NotAResponse,
    /// Another opcode.
    #[error("opcode mismatch: {found}")]
    Opcode {
        /// Opcode of the message.
        found: u32,
    },
    /// Expired response.
    #[error("response expired {late} s ago (at {expiration})")]
    Expired {
        /// Expiration as Unix time in seconds.
        expiration: u32,
        /// Seconds since the expiration.
        late: u64,
    },
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;
    use crate::Handle;
    use crate::message::{Message, MessageBody, Response, ResponseCode, ResponseData};

    const NOW: Now = Now { elapsed: Duration::ZERO, unix: 1_700_000_000 };

    #[test]
    fn requests_and_responses() {
        check(|_| {}, Ok(()));
        check(
            |message| message.header.response_code = ResponseCode::REQUEST,
            Err(ResponseMismatch::NotAResponse),
        );
        check(|message| message.envelope.request_id = 8, Err(ResponseMismatch::RequestId { found: 8 }));
        check(|message| message.header.expiration = 1_700_000_000, Ok(()));
        let late = ResponseMismatch::Expired { expiration: 1_699_999_990, late: 10 };
        check(|message| message.header.expiration = 1_699_999_990, Err(late));
        // Errors may have another opcode, successes may not.
        for opcode in [Opcode::RESERVED, Opcode::CHALLENGE_RESPONSE] {
            let found = Err(ResponseMismatch::Opcode { found: opcode.0 });
            check(|message| message.header.opcode = opcode, found);
            let failed = |message: &mut Message<'_>| {
                message.header.opcode = opcode;
                message.header.response_code = ResponseCode::AUTHENTICATION_FAILED;
            };
            check(failed, Ok(()));
        }
        let failed = |message: &mut Message<'_>| {
            message.header.opcode = Opcode::GET_SITE_INFO;
            message.header.response_code = ResponseCode::ERROR;
        };
        check(failed, Err(ResponseMismatch::Opcode { found: 2 }));
    }

    #[track_caller]
    fn check(change: impl FnOnce(&mut Message<'_>), expected: Result<(), ResponseMismatch>) {
        let mut message = Message::resolution(Handle::from("10.1000/182"), 7, NOW);
        message.header = message.header.for_response(ResponseCode::SUCCESS, 1, NOW);
        message.body = MessageBody::Response(Response::new(ResponseData::Empty));
        change(&mut message);
        let bytes = message.to_bytes().unwrap();
        let expectation = ExpectedResponse { request_id: 7, opcode: Opcode::RESOLUTION };
        assert_eq!(expectation.check(&MessageParts::split(&bytes).unwrap(), NOW), expected);
    }
}
