//! Signer of whole records.

use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::sign::{IssuerClaims, sign_record};
use crate::crypto::{CryptoError, CryptoProvider, HashAlgorithm, SigningKey};
use crate::handle::Handle;
use crate::record::{HandleValue, RecordSignature, ValueDigest, ValueReference};
use crate::wire::ListItem as _;

/// First index of a new signature, if it is free.
const FIRST_SIGNATURE_INDEX: u32 = 400;

/// Signer of records: replaces its own signature of a record, and keeps those of others.
#[derive(Clone, Debug)]
pub struct RecordSigner {
    /// Reference to the value with the signer's key.
    pub issuer: ValueReference<'static>,
    /// Certificates of the signer, the next one first; empty if the signer's record has it.
    pub chain: Vec<ValueReference<'static>>,
    /// Validity period of a signature in seconds.
    pub validity: u64,
    key: Arc<dyn SigningKey>,
}

impl RecordSigner {
    /// Signer with this key, whose public key or certificate is at `issuer`.
    pub fn new(issuer: ValueReference<'_>, key: Arc<dyn SigningKey>, validity: u64) -> Self {
        Self { issuer: issuer.into_owned(), chain: Vec::new(), validity, key }
    }

    /// Signs the public values of a record at a time (Unix time in seconds); private values would be revealed to guesses by
    /// their digests. The new signature takes the place of the previous one, else a free index from 400.
    pub fn sign(
        &self,
        handle: Handle<'_>,
        values: &mut Vec<HandleValue<'static>>,
        now: u64,
        crypto: &dyn CryptoProvider,
    ) -> Result<(), CryptoError> {
        let signed: Vec<HandleValue<'_>> = values
            .iter()
            .filter(|value| value.is_public() && !is_signature(value))
            .map(HandleValue::reborrow)
            .collect();
        let claims = IssuerClaims {
            issuer: self.issuer.clone(),
            issued_at: now,
            expires_at: now.saturating_add(self.validity),
            chain: self.chain.clone(),
        };
        let data = sign_record(handle, &signed, &claims, &*self.key, crypto)?;
        let timestamp = u32::try_from(now).unwrap_or(u32::MAX);
        let signature =
            |index| HandleValue { timestamp, ..HandleValue::with_data(index, "HS_SIGNATURE", data) };
        let mut own = values.iter().enumerate().filter(|(_, value)| self.is_own(value)).map(|(at, _)| at);
        let first = own.next();
        // Further ones of the same issuer are outdated.
        let outdated: Vec<usize> = own.collect();
        for position in outdated.into_iter().rev() {
            values.remove(position);
        }
        match first.and_then(|position| values.get_mut(position)) {
            Some(previous) => *previous = signature(previous.index),
            None => {
                let taken: BTreeSet<u32> = values.iter().map(|value| value.index).collect();
                let next =
                    |free: u32, taken: &u32| if *taken == free { free.saturating_add(1) } else { free };
                let index = taken.range(FIRST_SIGNATURE_INDEX..).fold(FIRST_SIGNATURE_INDEX, next);
                let is_sorted = values.is_sorted_by_key(|value| value.index);
                let position = if is_sorted {
                    values.partition_point(|value| value.index < index)
                } else {
                    values.len()
                };
                values.insert(position, signature(index));
            }
        }
        Ok(())
    }

    /// When the signature of this signer expires (Unix time in seconds); `None` without one. Does not verify it.
    pub fn expiry(&self, values: &[HandleValue<'_>]) -> Option<u64> {
        let own = values.iter().filter(|value| self.is_own(value));
        own.filter_map(|value| RecordSignature::from_bytes(&value.data).ok()?.claims.expires_at).max()
    }

    /// Whether this key made the signature of a record, and all of its public values are as they were when it was made.
    /// Otherwise a new signature would vouch for values that others have changed.
    pub fn made_signature(
        &self,
        handle: Handle<'_>,
        values: &[HandleValue<'_>],
        crypto: &dyn CryptoProvider,
    ) -> Result<bool, CryptoError> {
        for own in values.iter().filter(|value| self.is_own(value)) {
            let Ok(signature) = RecordSignature::from_bytes(&own.data) else { return Ok(false) };
            let [jws] = signature.jws.signatures() else { return Ok(false) };
            // RSA signatures (PKCS #1 v1.5) are deterministic, so that the private key alone can verify them.
            let signed = self.key.sign(HashAlgorithm::Sha256, &signature.jws.signing_input(jws))?;
            if signed != jws.bytes() || !handle.eq_ignore_case(Handle::from(&*signature.claims.subject)) {
                return Ok(false);
            }
            let mut digests = Vec::new();
            for value in values.iter().filter(|value| value.is_public() && !is_signature(value)) {
                let digest = value.digest(crypto, HashAlgorithm::Sha256)?.to_vec();
                digests.push(ValueDigest { index: value.index, digest });
            }
            let by_index = |one: &ValueDigest, other: &ValueDigest| one.index.cmp(&other.index);
            let mut claimed = signature.digests;
            claimed.sort_by(by_index);
            digests.sort_by(by_index);
            if claimed != digests {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether a value is a signature of this signer.
    pub fn is_own(&self, value: &HandleValue<'_>) -> bool {
        is_signature(value)
            && RecordSignature::from_bytes(&value.data)
                .is_ok_and(|signature| signature.claims.issuer.eq_identity(&self.issuer))
    }
}

/// Whether a value is a signature of its record (`HS_SIGNATURE`).
pub fn is_signature(value: &HandleValue<'_>) -> bool {
    &*value.value_type == b"HS_SIGNATURE"
}
