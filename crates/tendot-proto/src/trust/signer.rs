//! Signer of whole records.

use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::sign::{IssuerClaims, sign_record};
use crate::crypto::{CryptoError, CryptoProvider, SigningKey};
use crate::handle::Handle;
use crate::record::{HandleValue, RecordSignature, ValueReference};
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
