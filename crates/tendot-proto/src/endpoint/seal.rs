//! Seals responses: request digest, signature or MAC, encryption.

use alloc::vec::Vec;
use core::fmt;

use super::IncomingRequest;
use crate::auth::{
    AuthError, AuthPolicy, ComputedDigest, CredentialError, Session, SessionError, sign_message,
};
use crate::crypto::{CryptoProvider, SecureRandom, SigningKey};
use crate::error::EncodeError;
use crate::message::{Message, MessageBody, OpFlags, Opcode, ProtocolVersion, Response, ResponseData};

/// Keys, session and policy used to seal a response.
pub struct SealContext<'s> {
    /// Cryptography provider.
    pub crypto: &'s dyn CryptoProvider,
    /// Random source for encryption.
    pub random: &'s mut dyn SecureRandom,
    /// Algorithms allowed for old peers.
    pub policy: &'s AuthPolicy,
    /// Server key; without one responses are not signed.
    pub key: Option<&'s dyn SigningKey>,
    /// Session of the request, if there is one.
    pub session: Option<&'s mut Session>,
}

impl fmt::Debug for SealContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sealing")
    }
}

impl IncomingRequest<'_> {
    /// Encodes a response with request digest, signature and encryption, as the request demands.
    ///
    /// In a session the response has a MAC of the session, except in session setup and termination; private values are
    /// always encrypted there. Peers before 2.7 get no signature, and a digest only if the policy allows its hash: both
    /// would use MD5 or SHA-1.
    pub fn seal(&mut self, response: Message<'_>, with: &mut SealContext<'_>) -> Result<Vec<u8>, SealError> {
        let is_about_session = self.is_session_management();
        let budget = &mut self.work;
        let version = response.envelope.version;
        let flags = self.message.header.flags;
        let digest;
        let mut response = response;
        if flags.has(OpFlags::REQUEST_DIGEST)
            && let MessageBody::Response(Response { digest: None, outcome }) = response.body
        {
            let request = self.parts.header_and_body;
            match ComputedDigest::for_request(request, version, with.policy, with.crypto, budget) {
                Ok(own) => {
                    digest = own;
                    response.header.flags = response.header.flags.with(OpFlags::REQUEST_DIGEST);
                    response.body =
                        MessageBody::Response(Response { digest: Some(digest.as_request_digest()), outcome });
                }
                Err(AuthError::NotAllowed { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let mut bytes = response.to_bytes()?;
        if flags.has(OpFlags::CERTIFY) {
            match (&mut with.session, with.key) {
                (Some(session), _) if !is_about_session => {
                    session.add_mac(&mut bytes, with.crypto, budget)?;
                }
                (_, Some(key)) if version >= ProtocolVersion::SHA256 => {
                    sign_message(&mut bytes, key, budget)?;
                }
                _ => {}
            }
        }
        match &with.session {
            Some(session)
                if !is_about_session && (flags.has(OpFlags::ENCRYPT) || has_private_values(&response)) =>
            {
                Ok(session.key().encrypt(&bytes, with.crypto, with.random, budget)?)
            }
            _ => Ok(bytes),
        }
    }

    fn is_session_management(&self) -> bool {
        matches!(self.message.header.opcode, Opcode::SESSION_SETUP | Opcode::SESSION_TERMINATE)
    }
}

/// Whether a response has values that are not publicly readable. Peers expect them encrypted since 2.8; older peers can
/// decrypt them, too, since every session can.
fn has_private_values(response: &Message<'_>) -> bool {
    let MessageBody::Response(Response { outcome, .. }) = &response.body else { return false };
    let (ResponseData::Resolved { values, .. } | ResponseData::Referral { values: Some(values), .. }) =
        outcome
    else {
        return false;
    };
    values.iter().any(|value| !value.permissions.is_public())
}

/// Error of sealing a response.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SealError {
    /// Encoding failed.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// The request digest could not be computed in the version of the peer.
    #[error(transparent)]
    Digest(#[from] AuthError),
    /// Signing failed.
    #[error(transparent)]
    Sign(#[from] CredentialError),
    /// The session failed.
    #[error(transparent)]
    Session(#[from] SessionError),
}
