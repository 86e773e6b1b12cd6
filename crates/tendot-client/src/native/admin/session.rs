//! Session: setup, sealing of requests, opening of responses.

use tendot_proto::auth::{ClientKeyExchange, CredentialError, DhGroup, Session, SessionError};
use tendot_proto::crypto::SystemRandom;
use tendot_proto::{Budget, Envelope, EnvelopeFlags, Handle, MessageParts, OpFlags, Opcode, Request};

use super::exchange::{AdminChannel, OutgoingRequest};
use crate::native::AdminError;

/// Session with the server, and whether every message is encrypted.
#[derive(Debug)]
pub(super) struct SecureSession {
    pub(super) session: Session,
    pub(super) is_encrypted: bool,
}

impl AdminChannel {
    /// Idle time in seconds after which the server may close the session.
    const SESSION_LIFETIME_SECS: u32 = 3_600;

    /// Sets up a session, in which messages are authenticated and, if `is_encrypted`, encrypted.
    pub(super) async fn open_session(&mut self, is_encrypted: bool) -> Result<(), AdminError> {
        self.session = None;
        let key = self.server.public_key().ok_or(AdminError::UnknownServerKey)?.into_owned();
        let mut budget = Budget::PER_REQUEST;
        let context = &mut self.auth(&mut budget);
        let key_exchange = ClientKeyExchange::new(DhGroup::Modp2048, &mut SystemRandom, context)?;
        let setup = key_exchange.request(Some(self.identity.reference()), Self::SESSION_LIFETIME_SECS);
        let flags = OpFlags::DEFAULT | OpFlags::CERTIFY | OpFlags::REQUEST_DIGEST;
        let request = self.encode_request(Opcode::SESSION_SETUP, flags, Request::SessionSetup(setup))?;
        let outgoing = OutgoingRequest { bytes: &request, opcode: Opcode::SESSION_SETUP, is_list: false };
        let (_, response) = self.exchange(&outgoing, Handle::BLANK).await?;
        self.require_success(&response)?;
        let request = MessageParts::split(&request)?;
        let parts = MessageParts::split(&response.bytes)?;
        let context = &mut self.auth(&mut budget);
        let session = key_exchange.complete(&request, &parts, &key, context)?;
        self.session = Some(SecureSession { session, is_encrypted });
        Ok(())
    }

    /// Ends the session, if there is one.
    pub(super) async fn close_session(&mut self) -> Result<(), AdminError> {
        if self.session.is_some() {
            let request = Request::NoOperand { handle: Some(Handle::BLANK) };
            let ended =
                self.execute(Opcode::SESSION_TERMINATE, OpFlags::DEFAULT, request, Handle::BLANK).await;
            self.session = None;
            ended?;
        }
        Ok(())
    }

    /// Adds the MAC of the session to a request; encrypts it in an encrypted session, or if it has private values.
    ///
    /// Without a session, the request is unchanged.
    pub(super) fn seal(
        &mut self,
        mut request: Vec<u8>,
        has_private_values: bool,
    ) -> Result<Vec<u8>, SessionError> {
        let mut budget = Budget::PER_REQUEST;
        let context = &mut self.auth(&mut budget);
        let Some(SecureSession { session, is_encrypted }) = &mut self.session else { return Ok(request) };
        session.add_mac(&mut request, context)?;
        if !*is_encrypted && !has_private_values {
            return Ok(request);
        }
        session.key().encrypt(&request, &mut SystemRandom, context)
    }

    /// Encrypts a challenge response in an encrypted session. It has no MAC: deployed servers expect it without.
    pub(super) fn seal_challenge_response(&self, response: Vec<u8>) -> Result<Vec<u8>, SessionError> {
        match &self.session {
            Some(SecureSession { session, is_encrypted: true }) => {
                let mut budget = Budget::PER_REQUEST;
                let context = &mut self.auth(&mut budget);
                session.key().encrypt(&response, &mut SystemRandom, context)
            }
            _ => Ok(response),
        }
    }

    /// Decrypts a response; also returns whether the session authenticates it.
    pub(super) fn open_response(&mut self, response: Vec<u8>) -> Result<(Vec<u8>, bool), SessionError> {
        let mut budget = Budget::PER_REQUEST;
        let context = &mut self.auth(&mut budget);
        let envelope = Envelope::from_bytes(&response).map_err(CredentialError::from)?;
        let is_encrypted = envelope.flags.contains(EnvelopeFlags::ENCRYPTED);
        let Some(SecureSession { session, .. }) = &mut self.session else {
            return if is_encrypted { Err(SessionError::UnknownSession) } else { Ok((response, false)) };
        };
        if is_encrypted {
            return Ok((session.open(&response, false, context)?, true));
        }
        let parts = MessageParts::split(&response).map_err(CredentialError::from)?;
        match session.verify(&parts, context) {
            Ok(()) => Ok((response, true)),
            // Session errors may be unauthenticated.
            Err(SessionError::Credential(CredentialError::Missing) | SessionError::UnknownSession) => {
                Ok((response, false))
            }
            Err(error) => Err(error),
        }
    }
}
