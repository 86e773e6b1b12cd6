//! Responses: errors, and sealing with digest, signature, MAC and encryption.

use tendot_proto::crypto::{AwsLcProvider, SystemRandom};
use tendot_proto::endpoint::{IncomingRequest, Rejection, SealContext};
use tendot_proto::{Budget, Message, Now, OpFlags, ResponseCode, ResponseData};
use tendot_registry::{Error, OUTCOME_UNKNOWN};
use tendot_store::StoreError;

use crate::native::classified_message::ClassifiedMessage;
use crate::native::{NativeReply, NativeServer};

/// Message for internal errors.
pub(super) const INTERNAL_ERROR: &str = "internal server error";

impl NativeServer {
    /// Error reply with a MAC, if the request came in a session and requested one.
    pub(crate) fn authenticate_error(
        &self,
        message: &ClassifiedMessage<'_>,
        rejection: &Rejection,
        was_encrypted: bool,
        now: Now,
        budget: &mut Budget,
    ) -> Option<Vec<u8>> {
        let signed = Some(message).filter(|message| message.has_flag(OpFlags::CERTIFY))?;
        let parts = signed.received().split().ok()?;
        let mut response = Message::from_bytes(rejection.response()?).ok()?;
        response.header.flags |= OpFlags::CERTIFY;
        let mut sealed = response.to_bytes().ok()?;
        let mut sessions = self.lock_sessions();
        // Only requests that were verified get a MAC.
        if !was_encrypted {
            sessions.verify(&parts, false, now, &mut self.auth(budget)).ok()?;
        }
        let session = sessions.get_mut(parts.envelope.session_id)?.session_mut();
        session.add_mac(&mut sealed, &mut self.auth(budget)).ok()?;
        Some(sealed)
    }

    pub(crate) fn unsupported(&self, incoming: &mut IncomingRequest<'_>) -> NativeReply {
        let message = format!("{} is not supported", incoming.parts.header.opcode);
        self.error_reply(incoming, ResponseCode::OPERATION_NOT_SUPPORTED, &message)
    }

    /// Reply for a registry error; a challenge if the caller is not authenticated.
    pub(crate) fn registry_error(&self, incoming: &mut IncomingRequest<'_>, error: &Error) -> NativeReply {
        let code = error.response_code();
        match code {
            ResponseCode::AUTHENTICATION_NEEDED => self.issue_challenge(incoming),
            // The caller must know that the write may have been committed.
            ResponseCode::ERROR if matches!(error, Error::Store(StoreError::InDoubt { .. })) => {
                tracing::error!(%error, "request failed");
                self.error_reply(incoming, code, OUTCOME_UNKNOWN)
            }
            // Internal errors are for the operator's log.
            ResponseCode::ERROR => {
                tracing::error!(%error, "request failed");
                self.error_reply(incoming, code, INTERNAL_ERROR)
            }
            _ => self.error_reply(incoming, code, &error.to_string()),
        }
    }

    /// Error reply with a message.
    pub(crate) fn error_reply(
        &self,
        incoming: &mut IncomingRequest<'_>,
        code: ResponseCode,
        message: &str,
    ) -> NativeReply {
        let response = incoming.respond(code, ResponseData::Error { message: Some(message.as_bytes()) });
        self.seal(incoming, response)
    }

    /// Seals a response: digest, signature or MAC, encryption.
    pub(crate) fn seal(&self, incoming: &mut IncomingRequest<'_>, response: Message<'_>) -> NativeReply {
        let code = response.header.response_code;
        let mut sessions = (incoming.session_id != 0).then(|| self.lock_sessions());
        let session = sessions.as_mut().and_then(|sessions| sessions.get_mut(incoming.session_id));
        let mut sealing = SealContext {
            provider: &AwsLcProvider,
            random: &mut SystemRandom,
            policy: self.policy,
            server_key: Some(self.site.key_for_serial(incoming.parts.header.site_serial)),
            session: session.map(|session| session.session_mut()),
        };
        match incoming.seal(response, &mut sealing) {
            Ok(bytes) => NativeReply::new(incoming, code, bytes),
            Err(error) => {
                let text = format!("the response could not be encoded: {error}");
                let outcome = ResponseData::Error { message: Some(text.as_bytes()) };
                let failed = incoming.respond(ResponseCode::ERROR, outcome).to_bytes();
                NativeReply::new(incoming, ResponseCode::ERROR, failed.unwrap_or_default())
            }
        }
    }
}
