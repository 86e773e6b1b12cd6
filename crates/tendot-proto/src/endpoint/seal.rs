//! Seals responses: request digest, signature or MAC, encryption.

use alloc::vec::Vec;
use core::fmt;

use super::IncomingRequest;
use crate::auth::{
    AuthContext, AuthError, AuthPolicy, ComputedDigest, CredentialError, Session, SessionError, sign_message,
};
use crate::crypto::{CryptoProvider, SecureRandom, SigningKey};
use crate::error::EncodeError;
use crate::message::{Message, MessageBody, OpFlags, Opcode, ProtocolVersion, Response, ResponseData};
use crate::record::HandleValue;
use crate::wire::WireList;

/// Keys, session and policy used to seal a response.
pub struct SealContext<'s> {
    /// Cryptography provider.
    pub provider: &'s dyn CryptoProvider,
    /// Random source for encryption.
    pub random: &'s mut dyn SecureRandom,
    /// Allowed algorithms; decides whether peers before 2.7 get a digest.
    pub policy: AuthPolicy,
    /// Server key; without one responses are not signed.
    pub server_key: Option<&'s dyn SigningKey>,
    /// Session of the request, if there is one.
    pub session: Option<&'s mut Session>,
}

impl fmt::Debug for SealContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SealContext")
    }
}

impl IncomingRequest<'_> {
    /// Encodes a response with request digest, signature and encryption, as the request demands.
    ///
    /// In a session, a MAC with the session key replaces the signature, except in session setup and termination;
    /// private values are always encrypted there. Peers before 2.7 get no signature, and a digest only if the policy
    /// allows its hash: both would use MD5 or SHA-1.
    pub fn seal(
        &mut self,
        response: Message<'_>,
        context: &mut SealContext<'_>,
    ) -> Result<Vec<u8>, SealError> {
        let is_session_management = self.is_session_management();
        let auth = &mut AuthContext::new(context.provider, context.policy, &mut self.budget);
        let version = response.envelope.version;
        let flags = self.parts.header.flags;
        let digest;
        let mut response = response;
        if flags.contains(OpFlags::REQUEST_DIGEST)
            && let MessageBody::Response(Response { digest: None, data }) = response.body
        {
            let request = self.parts.header_and_body;
            match ComputedDigest::for_request(request, version, auth) {
                Ok(computed) => {
                    digest = computed;
                    response.header.flags |= OpFlags::REQUEST_DIGEST;
                    response.body =
                        MessageBody::Response(Response { digest: Some(digest.as_request_digest()), data });
                }
                Err(AuthError::AlgorithmNotAllowed { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let mut bytes = response.to_bytes()?;
        if flags.contains(OpFlags::CERTIFY) {
            match (&mut context.session, context.server_key) {
                (Some(session), _) if !is_session_management => {
                    session.add_mac(&mut bytes, auth)?;
                }
                (_, Some(key)) if version >= ProtocolVersion::SHA256 => {
                    sign_message(&mut bytes, key, auth.budget)?;
                }
                _ => {}
            }
        }
        match &context.session {
            Some(session)
                if !is_session_management
                    && (flags.contains(OpFlags::ENCRYPT) || has_private_values(&response)) =>
            {
                Ok(session.key().encrypt(&bytes, context.random, auth)?)
            }
            // Secrets leave the server only in an encrypted session, even if the session ends meanwhile.
            _ if has_secrets(&response) => Err(SealError::UnencryptedSecret),
            _ => Ok(bytes),
        }
    }

    fn is_session_management(&self) -> bool {
        matches!(self.parts.header.opcode, Opcode::SESSION_SETUP | Opcode::SESSION_TERMINATE)
    }
}

/// Whether a response has values that are not publicly readable. Peers expect them encrypted since 2.8; older peers can
/// decrypt them, too, since every session can.
fn has_private_values(response: &Message<'_>) -> bool {
    values_of(response).is_some_and(|values| values.iter().any(|value| !value.is_public()))
}

/// Whether a response has values of a secret type.
fn has_secrets(response: &Message<'_>) -> bool {
    values_of(response).is_some_and(|values| values.iter().any(|value| value.is_secret()))
}

fn values_of<'r, 'm>(response: &'r Message<'m>) -> Option<&'r WireList<'m, HandleValue<'m>>> {
    match &response.body {
        MessageBody::Response(Response {
            data: ResponseData::Resolved { values, .. } | ResponseData::Referral { values: Some(values), .. },
            ..
        }) => Some(values),
        _ => None,
    }
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
    /// The response has a secret, and no session to encrypt it.
    #[error("secret outside of an encrypted session")]
    UnencryptedSecret,
    /// The session failed.
    #[error(transparent)]
    Session(#[from] SessionError),
}
