use tendot_proto::auth::{ClientKeyExchange, CredentialError, DhGroup, Session, SessionError};
use tendot_proto::crypto::{AwsLcProvider, SystemRandom};
use tendot_proto::{Budget, Envelope, EnvelopeFlags, Handle, MessageParts, OpFlags, Opcode, Request};

use super::conversation::OutgoingRequest;
use super::{AdminClient, AdminError};

/// Session with the server, and whether every message is encrypted.
#[derive(Debug)]
pub(super) struct SecureSession {
    pub(super) session: Session,
    pub(super) is_encrypted: bool,
}

impl AdminClient {
    /// Seconds without a message after which the server may forget the session.
    const SESSION_LIFETIME_SECS: u32 = 3_600;

    /// Sets up a session: authenticates and, if `is_encrypted`, encrypts what follows; private values are always encrypted. Needs
    /// the server's public key.
    ///
    /// Values that not everybody may read are encrypted in any case. Who is asking has to be proved once in it.
    ///
    /// It needs the server's public key, which its site has; otherwise anybody could be at the other end.
    pub async fn open_session(&mut self, is_encrypted: bool) -> Result<(), AdminError> {
        self.secured = None;
        let key = self.peer.public_key().ok_or(AdminError::NoKey)?.into_owned();
        let mut work = Budget::PER_REQUEST;
        let proposal =
            ClientKeyExchange::new(DhGroup::Modp2048, &AwsLcProvider, &mut SystemRandom, &mut work)?;
        let setup = proposal.request(Some(self.identity.reference()), Self::SESSION_LIFETIME_SECS);
        let flags = OpFlags::DEFAULT.with(OpFlags::CERTIFY).with(OpFlags::REQUEST_DIGEST);
        let request = self.encode_request(Opcode::SESSION_SETUP, flags, Request::SessionSetup(setup))?;
        let sent = OutgoingRequest { bytes: &request, opcode: Opcode::SESSION_SETUP, is_list: false };
        let (_, response) = self.exchange(&sent, Handle::BLANK).await?;
        self.require_success(&response)?;
        let request = MessageParts::split(&request)?;
        let parts = MessageParts::split(&response.bytes)?;
        let session = proposal.complete(&request, &parts, &key, &self.policy, &AwsLcProvider, &mut work)?;
        self.secured = Some(SecureSession { session, is_encrypted });
        Ok(())
    }

    /// Ends the session, if there is one.
    pub async fn close_session(&mut self) -> Result<(), AdminError> {
        if self.secured.is_some() {
            let request = Request::Plain { handle: Some(Handle::BLANK) };
            let ended =
                self.execute(Opcode::SESSION_TERMINATE, OpFlags::DEFAULT, request, Handle::BLANK).await;
            self.secured = None;
            ended?;
        }
        Ok(())
    }

    /// A request as it goes out in the session, if there is one.
    pub(super) fn seal(&mut self, mut request: Vec<u8>, has_secrets: bool) -> Result<Vec<u8>, SessionError> {
        let Some(SecureSession { session, is_encrypted }) = &mut self.secured else { return Ok(request) };
        let mut work = Budget::PER_REQUEST;
        session.add_mac(&mut request, &AwsLcProvider, &mut work)?;
        if !*is_encrypted && !has_secrets {
            return Ok(request);
        }
        session.key().encrypt(&request, &AwsLcProvider, &mut SystemRandom, &mut work)
    }

    /// The answer to a challenge as it goes out: it is a proof itself, and deployed servers expect it without another.
    pub(super) fn seal_challenge_response(&self, answer: Vec<u8>) -> Result<Vec<u8>, SessionError> {
        match &self.secured {
            Some(SecureSession { session, is_encrypted: true }) => {
                session
                    .key()
                    .encrypt(&answer, &AwsLcProvider, &mut SystemRandom, &mut { Budget::PER_REQUEST })
            }
            _ => Ok(answer),
        }
    }

    /// A response decrypted, and whether it is proved to be the server's.
    pub(super) fn open_response(&mut self, response: Vec<u8>) -> Result<(Vec<u8>, bool), SessionError> {
        let mut work = Budget::PER_REQUEST;
        let envelope = Envelope::from_bytes(&response).map_err(CredentialError::from)?;
        let is_encrypted = envelope.flags.has(EnvelopeFlags::ENCRYPTED);
        let Some(SecureSession { session, .. }) = &mut self.secured else {
            return if is_encrypted { Err(SessionError::Unknown) } else { Ok((response, false)) };
        };
        if is_encrypted {
            return Ok((session.open(&response, false, &AwsLcProvider, &mut work)?, true));
        }
        let parts = MessageParts::split(&response).map_err(CredentialError::from)?;
        match session.verify(&parts, &AwsLcProvider, &mut work) {
            Ok(()) => Ok((response, true)),
            // Errors may come without: about the session itself, for instance.
            Err(SessionError::Credential(CredentialError::Missing) | SessionError::Unknown) => {
                Ok((response, false))
            }
            Err(error) => Err(error),
        }
    }
}
