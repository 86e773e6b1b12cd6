//! Who sends a request.

use data_encoding::BASE64;
use http::header::AUTHORIZATION;
use subtle::ConstantTimeEq as _;
use tendot_proto::auth::{Challenge, SecretKeyAnswer, SecretKeyMac};
use tendot_proto::crypto::{AwsLc, Random as _, SystemRandom};
use tendot_proto::{Handle, Reference, Value, Work};
use tendot_registry::{Caller, Identity};
use tendot_store::Store;

use super::request::Request;
use super::{Http, WORK, percent};

/// Why nobody is believed to be who they say.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub(crate) enum AuthenticationError {
    #[error("passwords and tokens are taken only over TLS, from this machine, or from trusted proxies")]
    NotHere,
    #[error("the `Authorization` header is not understood: `Basic` and `Bearer` are")]
    Malformed,
    #[error("Identity not verified")]
    Failed,
}

impl<S: Store> Http<S> {
    /// Finds out who sends a request; nobody in particular if it does not say.
    pub(crate) async fn caller(&self, request: &Request<'_>) -> Result<Caller, AuthenticationError> {
        let Some(header) = request.headers.get(AUTHORIZATION) else { return Ok(Caller::Anonymous) };
        if !request.takes_credentials {
            return Err(AuthenticationError::NotHere);
        }
        let malformed = AuthenticationError::Malformed;
        let (scheme, rest) = header.to_str().ok().and_then(|text| text.split_once(' ')).ok_or(malformed)?;
        match scheme.to_ascii_lowercase().as_str() {
            "basic" => self.by_password(rest.trim()).await,
            "bearer" => self.by_token(rest.trim()),
            _ => Err(malformed),
        }
    }

    /// `INDEX%3AHANDLE:SECRET`, the secret being that of an `HS_SECKEY` value.
    async fn by_password(&self, encoded: &str) -> Result<Caller, AuthenticationError> {
        let malformed = AuthenticationError::Malformed;
        let decoded = BASE64.decode(encoded.as_bytes()).map_err(|_| malformed)?;
        let at = decoded.iter().position(|byte| *byte == b':').ok_or(malformed)?;
        let (user, password) = (&decoded[..at], &decoded[at + 1..]);
        let user = str::from_utf8(user).map_err(|_| malformed)?;
        let user = percent::decode_text(user, "user").map_err(|_| malformed)?;
        let (index, handle) = user.split_once(':').ok_or(malformed)?;
        let index: u32 = index.parse().map_err(|_| malformed)?;
        if !self.registry.is_in_share(Handle::from(handle)) {
            return self.by_password_elsewhere(index, handle, password).await;
        }
        let keys = self.registry.keys(Handle::from(handle), &mut Work::new(WORK)).await;
        let keys = keys.map_err(|_| AuthenticationError::Failed)?;
        let is_it = |key: &&Value<'_>| {
            *key.value_type == *b"HS_SECKEY"
                && (index == 0 || key.index == index)
                && bool::from(key.data.ct_eq(password))
        };
        let key = keys.iter().find(is_it).ok_or(AuthenticationError::Failed)?;
        let identity = Identity::proven(key.index, handle).ok_or(AuthenticationError::Failed)?;
        Ok(Caller::Handle(identity))
    }

    /// The same with a key that another server of our site keeps, which is shown a proof and not the secret.
    async fn by_password_elsewhere(
        &self,
        index: u32,
        handle: &str,
        password: &[u8],
    ) -> Result<Caller, AuthenticationError> {
        let failed = AuthenticationError::Failed;
        let (mut random, mut work) = ([0; 48], Work::REQUEST);
        SystemRandom.fill(&mut random);
        let (nonce, digest) = random.split_at(16);
        let challenge = Challenge { nonce, digest };
        let (form, key) = (SecretKeyMac::HmacSha256, Reference::new(index, handle.as_bytes()));
        let proof = SecretKeyAnswer::make(form, password, challenge, &AwsLc, &mut SystemRandom, &mut work);
        let proof = proof.map_err(|_| failed)?;
        let fits = self.registry.fits_elsewhere(&key, challenge, &proof, &mut work).await;
        match (fits, Identity::proven(index, handle)) {
            (Ok(true), Some(identity)) => Ok(Caller::Handle(identity)),
            _ => Err(failed),
        }
    }

    fn by_token(&self, token: &str) -> Result<Caller, AuthenticationError> {
        match &self.operator_token {
            Some(known) if bool::from(known.as_bytes().ct_eq(token.as_bytes())) => Ok(Caller::Operator),
            _ => Err(AuthenticationError::Failed),
        }
    }
}
