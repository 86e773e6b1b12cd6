//! Certificate chain verification.

use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use super::verify::TrustError;
use super::{Claims, Jws, JwsAlgorithm};
use crate::auth::{AuthContext, AuthError, cost, verify};
use crate::handle::Handle;
use crate::record::{HandleCertificate, HandleValue, KeyComponents, PublicKey, ValueReference};

/// Trust anchors: public keys accepted without a certificate.
#[derive(Clone, Debug, Default)]
pub struct TrustAnchors {
    /// Handle of the record with the keys, which must have issued the last certificate of a chain; `None` accepts these keys
    /// in any record.
    pub handle: Option<Cow<'static, [u8]>>,
    /// Trusted public keys.
    pub keys: Vec<PublicKey<'static>>,
}

impl TrustAnchors {
    /// Trust anchors of the Handle System, `0.0/0.0`.
    pub const fn new(keys: Vec<PublicKey<'static>>) -> Self {
        Self { handle: Some(Cow::Borrowed(b"0.0/0.0")), keys }
    }
}

/// Records resolved so far; an absent record is stored without values.
#[derive(Clone, Debug, Default)]
pub struct RecordSet(BTreeMap<Vec<u8>, Vec<HandleValue<'static>>>);

impl RecordSet {
    /// Adds a record.
    pub fn insert(&mut self, handle: Handle<'_>, values: Vec<HandleValue<'static>>) {
        self.0.insert(handle.canonical().into_owned(), values);
    }

    fn require(&self, handle: Handle<'_>) -> Result<&[HandleValue<'static>], TrustError> {
        let required = || TrustError::RecordRequired(handle.canonical().into_owned());
        self.0.get(&*handle.canonical()).map(Vec::as_slice).ok_or_else(required)
    }
}

/// Maximum length of a certificate chain.
const MAX_CHAIN_LEN: usize = 50;

/// Maximum number of values of a record that are examined for certificates.
const MAX_CERTIFICATES_PER_RECORD: usize = 16;

/// Inputs of a certificate chain verification.
#[derive(Clone, Copy)]
pub(super) struct ChainVerifier<'c> {
    pub(super) handle: Handle<'c>,
    pub(super) records: &'c RecordSet,
    pub(super) anchors: &'c TrustAnchors,
    pub(super) now: u64,
}

impl<'c> ChainVerifier<'c> {
    /// Verifies the chain from the issuer of a statement to a trust anchor; returns the issuers and the earliest expiration.
    pub(super) fn verify_chain(
        &self,
        jws: &Jws<'_>,
        claims: &Claims,
        context: &mut AuthContext<'_>,
    ) -> Result<(Vec<ValueReference<'static>>, Option<u64>), TrustError> {
        let (mut issuers, mut expires_at) = (Vec::new(), None);
        let mut links: Vec<ValueReference<'static>> = Vec::new();
        let (mut jws, mut claims) = (Cow::Borrowed(jws), Cow::Borrowed(claims));
        loop {
            let issuer = claims.issuer.clone();
            self.check_period(&claims)?;
            expires_at = earlier(expires_at, claims.expires_at);
            if issuers.len() == MAX_CHAIN_LEN {
                return Err(TrustError::ChainTooLong { max: MAX_CHAIN_LEN });
            }
            if issuers.iter().any(|earlier: &ValueReference<'_>| earlier.eq_identity(&issuer)) {
                return Err(TrustError::ChainLoop { issuer: issuer.to_string() });
            }
            // A statement's own chain takes precedence until it is exhausted.
            if links.is_empty() {
                links = claims.chain.iter().rev().cloned().collect();
            }
            let certificate = self.find_certificate(&issuer, links.pop(), context)?;
            self.verify_signed_by(&jws, &certificate.public_key, &issuer, context)?;
            if !certificate.permissions.iter().any(|permission| permission.covers(self.handle)) {
                return Err(TrustError::OutOfScope { issuer: issuer.to_string() });
            }
            issuers.push(issuer.clone());
            if certificate.claims.issuer.eq_identity(&issuer) {
                self.verify_root(&certificate, &issuer, context)?;
                return Ok((issuers, earlier(expires_at, certificate.claims.expires_at)));
            }
            jws = Cow::Owned(certificate.jws);
            claims = Cow::Owned(certificate.claims);
        }
    }

    fn check_period(&self, claims: &Claims) -> Result<(), TrustError> {
        if claims.is_valid_at(self.now) {
            return Ok(());
        }
        Err(TrustError::NotInValidityPeriod {
            issuer: claims.issuer.to_string(),
            not_before: claims.not_before,
            expires_at: claims.expires_at,
            now: self.now,
        })
    }

    /// Certificate of an issuer: the one that the chain names, or the newest in the issuer's record; of several equally
    /// new, the first.
    fn find_certificate(
        &self,
        issuer: &ValueReference<'_>,
        link: Option<ValueReference<'static>>,
        context: &mut AuthContext<'_>,
    ) -> Result<HandleCertificate<'c>, TrustError> {
        let location = link.unwrap_or_else(|| ValueReference::new(0, issuer.handle.to_vec()));
        let values = self.records.require(Handle::new(&location.handle))?;
        let candidates = values
            .iter()
            .filter(|value| &*value.value_type == b"HS_CERT")
            .filter(|value| location.index == 0 || value.index == location.index)
            .take(MAX_CERTIFICATES_PER_RECORD);
        let mut newest: Option<HandleCertificate<'c>> = None;
        for value in candidates {
            context.budget.charge(cost::decode_jws(value.data.len()))?;
            let Ok(certificate) = HandleCertificate::from_bytes(&value.data) else { continue };
            let is_newer =
                newest.as_ref().is_none_or(|other| certificate.claims.issued_at > other.claims.issued_at);
            if is_newer && certificate.subject().eq_identity(issuer) {
                newest = Some(certificate);
            }
        }
        newest.ok_or_else(|| TrustError::NoCertificate { issuer: issuer.to_string() })
    }

    fn verify_root(
        &self,
        certificate: &HandleCertificate<'_>,
        issuer: &ValueReference<'_>,
        context: &mut AuthContext<'_>,
    ) -> Result<(), TrustError> {
        let untrusted = || TrustError::UntrustedRoot { issuer: issuer.to_string() };
        let is_anchor =
            self.anchors.keys.iter().any(|key| key.components() == certificate.public_key.components());
        let is_expected = |handle: &[u8]| issuer.handle().eq_ignore_case(Handle::new(handle));
        if !is_anchor || !self.anchors.handle.as_deref().is_none_or(is_expected) {
            return Err(untrusted());
        }
        self.check_period(&certificate.claims)?;
        self.verify_signed_by(&certificate.jws, &certificate.public_key, issuer, context)
    }

    /// Verifies that a key made one of the signatures. The algorithm must match the key type, not only the header of
    /// the signature.
    fn verify_signed_by(
        &self,
        jws: &Jws<'_>,
        key: &PublicKey<'_>,
        issuer: &ValueReference<'_>,
        context: &mut AuthContext<'_>,
    ) -> Result<(), TrustError> {
        let mut rejection = TrustError::SignatureMismatch { issuer: issuer.to_string() };
        for signature in jws.signatures() {
            let hash = match (signature.supported_algorithm(), key.components()) {
                (Some(JwsAlgorithm::Rsa(hash)), KeyComponents::Rsa { .. }) => hash,
                (Some(JwsAlgorithm::Dsa(hash)), KeyComponents::Dsa { .. }) => hash,
                _ => continue,
            };
            let input = jws.signing_input(signature);
            match verify(key, hash, &input, signature.bytes(), context) {
                Ok(()) => return Ok(()),
                Err(AuthError::Failed) => {}
                Err(AuthError::Budget(exceeded)) => return Err(exceeded.into()),
                Err(error) => rejection = TrustError::Unverifiable { issuer: issuer.to_string(), error },
            }
        }
        Err(rejection)
    }
}

/// Earlier of two expirations; `None` is never.
fn earlier(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    one.into_iter().chain(other).min()
}

impl core::fmt::Debug for ChainVerifier<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "ChainVerifier({})", String::from_utf8_lossy(self.handle.as_bytes()))
    }
}
