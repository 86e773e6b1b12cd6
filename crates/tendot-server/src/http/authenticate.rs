//! Who sends a request.

use data_encoding::BASE64;
use http::header::AUTHORIZATION;
use subtle::ConstantTimeEq as _;
use tendot_proto::{Handle, Value, Work};
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

    fn by_token(&self, token: &str) -> Result<Caller, AuthenticationError> {
        match &self.operator_token {
            Some(known) if bool::from(known.as_bytes().ct_eq(token.as_bytes())) => Ok(Caller::Operator),
            _ => Err(AuthenticationError::Failed),
        }
    }
}
