//! Proofs of key possession: signatures and MACs of nonces, checked against the keys of a handle record.

use std::sync::Arc;
use std::time::Instant;

use tendot_proto::auth::{
    AuthContext, AuthError, AuthPolicy, Challenge, PublicKeyResponse, SecretKeyMac, SecretKeyResponse,
};
use tendot_proto::crypto::{AwsLcProvider, SystemRandom};
use tendot_proto::{Budget, HandleValue, ValueReference};
use tendot_registry::{Error, Registry};

use crate::authenticated_key::AuthenticatedKey;
use crate::guess_throttle::{AuthAttempt, ThrottledAccount};
use crate::http::REQUEST_BUDGET;
use crate::http::authentication::auth_params::{ChallengeAnswer, encode_base64};
use crate::http::authentication::credential_watch::is_key_current;
use crate::http::authentication::{AuthParams, AuthenticationError, Authenticator, HttpSession};
use crate::http::request::request_head::RequestHead;
use crate::random::random_bytes;

/// Proof of possession of a key: signature, MAC or PBKDF2 MAC.
#[derive(Debug)]
pub(crate) enum KeyProof {
    Signature { hash: String, signature: Vec<u8> },
    Mac { algorithm: SecretKeyMac, mac: Vec<u8> },
    Pbkdf2 { salt: Vec<u8>, iterations: u32, key_bits: u32, mac: Vec<u8> },
}

impl KeyProof {
    /// Index of the key that made the signature or MAC over both nonces; a claimed index of 0 matches any key.
    fn verify(&self, nonces: [&[u8]; 2], index: u32, keys: &[HandleValue<'_>]) -> Result<u32, AuthError> {
        let challenge = Challenge { nonce: nonces[0], digest: nonces[1] };
        let mut budget = Budget::PER_REQUEST;
        let context = &mut AuthContext::new(&AwsLcProvider, AuthPolicy::default(), &mut budget);
        let answer = match self {
            Self::Signature { hash, signature } => {
                let answer = PublicKeyResponse { hash: hash.as_bytes(), signature };
                return challenge.verify_public_key(&answer, index, keys, context);
            }
            Self::Mac { algorithm, mac } => SecretKeyResponse::Mac { algorithm: *algorithm, mac },
            Self::Pbkdf2 { salt, iterations, key_bits, mac } => {
                SecretKeyResponse::Pbkdf2 { salt, iterations: *iterations, key_bits: *key_bits, mac }
            }
        };
        challenge.verify_secret_key(&answer, index, keys, context)
    }
}

/// Verifies a secret key that another server of the site stores. That server is sent a proof, not the secret.
pub(super) async fn verify_secret_at_peer(
    registry: &Registry,
    key: &ValueReference<'_>,
    secret: &[u8],
) -> Result<bool, Error> {
    let (random, mut budget) = (random_bytes::<48>(), Budget::PER_REQUEST);
    let (nonce, digest) = random.split_at(16);
    let challenge = Challenge { nonce, digest };
    let algorithm = SecretKeyMac::HmacSha256;
    let context = &mut AuthContext::new(&AwsLcProvider, AuthPolicy::default(), &mut budget);
    let proof = SecretKeyResponse::create(algorithm, secret, challenge, &mut SystemRandom, context);
    match proof {
        Ok(proof) if key.index != 0 => {
            registry.verify_secret_at_peer(key, challenge, &proof, &mut budget).await
        }
        _ => Ok(false),
    }
}

impl Authenticator {
    /// Keys of the claimed identity.
    pub(crate) async fn read_keys<'a>(
        &self,
        claim: &ValueReference<'_>,
        attempt: AuthAttempt<'a>,
    ) -> Result<(Vec<HandleValue<'static>>, AuthAttempt<'a>), AuthenticationError> {
        match self.registry.key_values(claim.handle(), &mut Budget::new(REQUEST_BUDGET)).await {
            Ok(keys) => Ok((keys, attempt)),
            Err(error) => {
                tracing::error!(%error, "reading keys failed");
                if !matches!(error, Error::Store(_)) {
                    return Err(AuthenticationError::Failed);
                }
                // The store failed, not the client.
                attempt.mark_succeeded();
                Err(AuthenticationError::Unavailable)
            }
        }
    }

    /// Whether the record still has the key; assumed while the record cannot be read.
    pub(crate) async fn is_key_current(&self, authenticated: &AuthenticatedKey) -> bool {
        is_key_current(&self.registry, authenticated).await
    }

    /// Verifies the signature or MAC over the server's and the client's nonce.
    pub(crate) async fn verify_nonce_signature(
        &self,
        nonce: [u8; 16],
        answer: ChallengeAnswer,
        request: &RequestHead<'_>,
    ) -> Result<AuthenticatedKey, AuthenticationError> {
        let claim = answer.claim.clone();
        let attempt = self.start_attempt(request, ThrottledAccount::Identity(&claim))?;
        let (keys, attempt) = self.read_keys(&claim, attempt).await?;
        let (index, keys) = self.verify_proof(nonce.to_vec(), answer, keys, attempt).await?;
        let key = keys.iter().find(|key| key.index == index);
        key.and_then(|key| AuthenticatedKey::new(&claim, key)).ok_or(AuthenticationError::Failed)
    }

    /// Verifies a proof on a blocking thread, with at most one verification per core.
    pub(crate) async fn verify_proof(
        &self,
        nonce: Vec<u8>,
        answer: ChallengeAnswer,
        keys: Vec<HandleValue<'static>>,
        attempt: AuthAttempt<'_>,
    ) -> Result<(u32, Vec<HandleValue<'static>>), AuthenticationError> {
        let cpu_permit =
            Arc::clone(&self.cpu_permits).acquire_owned().await.map_err(|_| AuthenticationError::Failed)?;
        let task = tokio::task::spawn_blocking(move || {
            let found = answer.proof.verify([&nonce, &answer.cnonce], answer.claim.index, &keys);
            drop(cpu_permit);
            found.map(|index| (index, keys))
        });
        let found = task.await.unwrap_or(Err(AuthError::Failed)).map_err(|error| match error {
            AuthError::Failed => AuthenticationError::Failed,
            error => AuthenticationError::Rejected(error),
        })?;
        attempt.mark_succeeded();
        Ok(found)
    }

    /// Whether the client may have another server signature.
    fn may_have_signature(&self, request: &RequestHead<'_>) -> bool {
        let client = request.client.filter(|_| !request.is_loopback);
        client.is_none_or(|client| self.signature_limiter.charge(client, Instant::now()).is_ok())
    }

    /// Server signature of both nonces, if the client requests it and the site has a key.
    pub(crate) async fn sign_nonces(
        &self,
        session: &HttpSession,
        params: &AuthParams,
        request: &RequestHead<'_>,
    ) -> Option<String> {
        let (native_server, cnonce) = (self.native_server.as_ref()?, params.server_challenge()?);
        if !self.may_have_signature(request) {
            return None;
        }
        let cpu_permit = Arc::clone(&self.cpu_permits).acquire_owned().await.ok()?;
        let (native_server, nonces) = (Arc::clone(native_server), [&session.nonce[..], &cnonce].concat());
        let signed = tokio::task::spawn_blocking(move || {
            let signature = native_server.site().sign(&nonces);
            drop(cpu_permit);
            signature
        });
        Some(encode_base64(&signed.await.ok()??))
    }
}
