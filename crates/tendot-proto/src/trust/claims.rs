//! Claims of certificates and record signatures.

use alloc::string::String;
use alloc::vec::Vec;

use super::Jws;
use crate::error::{DecodeError, DecodeErrorKind};
use crate::record::{JsonError, JsonNode, ValueReference};

/// Claims shared by certificates and record signatures: issuer, subject, validity, chain.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Claims {
    /// Issuer: reference to the value with its key.
    pub issuer: ValueReference<'static>,
    /// Subject: reference to a key for a certificate, handle for a record signature.
    pub subject: String,
    /// Expiration as Unix time in seconds, inclusive.
    pub expires_at: Option<u64>,
    /// Start of validity as Unix time in seconds.
    pub not_before: Option<u64>,
    /// Time of issue as Unix time in seconds.
    pub issued_at: Option<u64>,
    /// Certificates of the issuer, the next one first; index 0 if none is named.
    pub chain: Vec<ValueReference<'static>>,
}

impl Claims {
    /// Decodes the payload: the shared claims, and the rest with `decode_rest`.
    pub(crate) fn decode<T>(
        jws: &Jws<'_>,
        field: &'static str,
        decode_rest: impl FnOnce(&JsonNode<'_, '_>) -> Result<T, JsonError>,
    ) -> Result<(Self, T), DecodeError> {
        let claims = || {
            let json = serde_json::from_slice(jws.payload()).ok()?;
            let node = JsonNode::new(&json);
            Some((Self::decode_common(&node).ok()?, decode_rest(&node).ok()?))
        };
        claims().ok_or(DecodeError::new(field, 0, DecodeErrorKind::Invalid))
    }

    fn decode_common(node: &JsonNode<'_, '_>) -> Result<Self, JsonError> {
        let reference = |text| ValueReference::parse(text).into_owned();
        let date = |key| node.get(key).map(|date| date.integer::<u64>()).transpose();
        Ok(Self {
            issuer: reference(node.required("iss")?.string()?),
            subject: node.required("sub")?.string()?.into(),
            expires_at: date("exp")?,
            not_before: date("nbf")?,
            issued_at: date("iat")?,
            chain: (node.get("chain"))
                .map_or(Ok(Vec::new()), |chain| chain.map_list(|link| link.string().map(reference)))?,
        })
    }

    /// Whether the claims are valid at `now`, a Unix time in seconds.
    pub fn is_valid_at(&self, now: u64) -> bool {
        self.not_before.is_none_or(|first| first <= now) && self.expires_at.is_none_or(|last| now <= last)
    }
}
