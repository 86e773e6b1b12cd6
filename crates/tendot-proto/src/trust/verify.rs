use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use subtle::ConstantTimeEq as _;

use super::chain::{ChainVerifier, RecordSet, TrustAnchors};
use crate::auth::{AuthError, AuthPolicy};
use crate::crypto::{CryptoError, CryptoProvider, HashAlgorithm};
use crate::handle::Handle;
use crate::record::{HandleValue, RecordSignature, ValueReference};
use crate::work::{Budget, BudgetExceeded};

/// Result of verifying the signatures of a record.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct VerificationReport {
    /// Who signed it, each with all who certify them, up to the root.
    pub signers: Vec<Vec<ValueReference<'static>>>,
    /// The indexes of values that no believed signature covers, also those that not everybody may read. If two values
    /// have the same index, neither is covered: a signature tells values by their index.
    pub unsigned: Vec<u32>,
    /// The indexes of values that a believed signature covers and that are not there: taken away, or not asked for.
    pub missing: Vec<u32>,
    /// Why signatures were not believed.
    pub refused: Vec<TrustError>,
}

impl VerificationReport {
    /// Whether every value is covered, and none is missing. Ask for whole records.
    pub fn is_trusted(&self) -> bool {
        self.unsigned.is_empty() && self.missing.is_empty() && !self.signers.is_empty()
    }
}

/// How many signatures of one record are looked at.
const SIGNATURES: usize = 16;

/// Looks at the signatures of a record, as it was resolved: all of it. Which of its values are to be believed?
///
/// Certificates may stand in other records. If one of them is not `known`, the error
/// [`TrustError::Needs`] names it; resolve it, add it, and ask again. A record that cannot be had is added without
/// values.
///
/// ```
/// use tendot_proto::{Handle, HandleValue, Budget};
/// use tendot_proto::auth::AuthPolicy;
/// use tendot_proto::crypto::AwsLcProvider;
/// use tendot_proto::trust::{RecordSet, TrustAnchors, verify_record};
///
/// let values = [HandleValue::new(1, "URL", "https://example.org/")];
/// let verdict = verify_record(
///     Handle::from("10.1000/1"), &values, &RecordSet::default(), &TrustAnchors::new(vec![]), 1_700_000_000,
///     &AuthPolicy::default(), &AwsLcProvider, &mut Budget::new(1_000),
/// )?;
/// assert!(!verdict.is_trusted());
/// assert_eq!(verdict.unsigned, [1]);
/// # Ok::<(), tendot_proto::trust::TrustError>(())
/// ```
#[expect(clippy::too_many_arguments, reason = "what is asked, what is known, and what it may cost")]
pub fn verify_record(
    handle: Handle<'_>,
    values: &[HandleValue<'_>],
    known: &RecordSet,
    roots: &TrustAnchors,
    now: u64,
    policy: &AuthPolicy,
    crypto: &dyn CryptoProvider,
    work: &mut Budget,
) -> Result<VerificationReport, TrustError> {
    let check = ChainVerifier { handle, known, roots, now, policy, crypto };
    let mut verdict = VerificationReport {
        signers: Vec::new(),
        unsigned: Vec::new(),
        missing: Vec::new(),
        refused: Vec::new(),
    };
    let mut covered = Vec::new();
    for value in values.iter().filter(|value| &*value.value_type == b"HS_SIGNATURE").take(SIGNATURES) {
        match check.verify_signature(value, values, work) {
            Ok(ValidSignature { signers, indexes, missing }) => {
                verdict.signers.push(signers);
                verdict.missing.extend(missing);
                covered.extend(indexes);
            }
            Err(error @ (TrustError::Needs(_) | TrustError::Exhausted(_))) => return Err(error),
            Err(error) => verdict.refused.push(error),
        }
    }
    verdict.missing.sort_unstable();
    verdict.missing.dedup();
    let indexes = sorted_indexes(values);
    let is_covered = |index| covered.contains(&index) && is_once(&indexes, index);
    let to_cover = values.iter().filter(|value| !is_signature(handle, value));
    verdict.unsigned = to_cover.map(|value| value.index).filter(|index| !is_covered(*index)).collect();
    Ok(verdict)
}

/// A signature whose signers are known.
struct ValidSignature {
    signers: Vec<ValueReference<'static>>,
    /// The values that it covers as they are.
    indexes: BTreeSet<u32>,
    /// Those that are not there.
    missing: Vec<u32>,
}

fn sorted_indexes(values: &[HandleValue<'_>]) -> Vec<u32> {
    let mut indexes: Vec<u32> = values.iter().map(|value| value.index).collect();
    indexes.sort_unstable();
    indexes
}

/// Whether an index is in the sorted list just once.
fn is_once(indexes: &[u32], index: u32) -> bool {
    let from = indexes.partition_point(|other| *other < index);
    indexes.get(from) == Some(&index) && indexes.get(from + 1) != Some(&index)
}

impl ChainVerifier<'_> {
    /// Who stands behind a signature, and which values it covers.
    fn verify_signature(
        &self,
        value: &HandleValue<'_>,
        values: &[HandleValue<'_>],
        work: &mut Budget,
    ) -> Result<ValidSignature, TrustError> {
        work.charge(reading(value.data.len()))?;
        let malformed = |_| TrustError::Malformed { index: value.index };
        let signature = RecordSignature::from_bytes(&value.data).map_err(malformed)?;
        if !self.handle.eq_ignore_case(Handle::from(&*signature.claims.subject)) {
            return Err(TrustError::OtherRecord { subject: signature.claims.subject });
        }
        let unknown = || TrustError::UnknownHash { algorithm: signature.algorithm.clone() };
        let hash = match signature.hash_algorithm().ok_or_else(unknown)? {
            HashAlgorithm::Sha1 if !self.policy.sha1 => return Err(unknown()),
            hash => hash,
        };
        let signers = self.verify_chain(&signature.jws, &signature.claims, work)?;
        let mut believed = ValidSignature { signers, indexes: BTreeSet::new(), missing: Vec::new() };
        let claimed: BTreeMap<u32, &[u8]> =
            signature.digests.iter().map(|digest| (digest.index, &*digest.digest)).collect();
        for value in values {
            let Some(claimed) = claimed.get(&value.index) else { continue };
            work.charge(reading(value.data.len()))?;
            let digest = value.digest(self.crypto, hash).map_err(TrustError::Crypto)?;
            if bool::from(digest.ct_eq(claimed)) {
                believed.indexes.insert(value.index);
            }
        }
        let there: BTreeSet<u32> = values.iter().map(|value| value.index).collect();
        believed.missing = claimed.keys().filter(|index| !there.contains(index)).copied().collect();
        Ok(believed)
    }
}

/// What it costs to read or digest so many bytes.
pub(super) fn reading(length: usize) -> u32 {
    u32::try_from(1 + length / 128).unwrap_or(u32::MAX)
}

/// Whether a value is itself a signature, and so needs none. The root record has some of an older kind.
fn is_signature(handle: Handle<'_>, value: &HandleValue<'_>) -> bool {
    &*value.value_type == b"HS_SIGNATURE"
        || handle.eq_ignore_case(Handle::ROOT) && value.value_type.starts_with(b"10320/sig.")
}

/// Reason for which a signature is rejected.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TrustError {
    /// A record is needed first: resolve it and ask again.
    #[error("the record {} is needed", String::from_utf8_lossy(.0))]
    Needs(Vec<u8>),
    /// The value is no signature.
    #[error("value {index} is no signature")]
    Malformed {
        /// Its index.
        index: u32,
    },
    /// It is about another record.
    #[error("the signature is about {subject}")]
    OtherRecord {
        /// The record that it is about.
        subject: String,
    },
    /// It is too early or too late.
    #[error("what {issuer} says does not hold now")]
    NotValidNow {
        /// Who says it.
        issuer: String,
    },
    /// Nobody certifies the issuer.
    #[error("there is no certificate of {issuer}")]
    NoCertificate {
        /// Who needs one.
        issuer: String,
    },
    /// The issuer did not sign it, or not by an algorithm of its key.
    #[error("{issuer} did not sign this")]
    WrongSignature {
        /// Who should have.
        issuer: String,
    },
    /// The signature cannot be checked.
    #[error("the signature of {issuer} cannot be checked: {error}")]
    Unverifiable {
        /// Whose it is.
        issuer: String,
        /// Why not.
        error: AuthError,
    },
    /// The issuer may not sign for this record.
    #[error("{issuer} may not sign for this record")]
    NotPermitted {
        /// Who may not.
        issuer: String,
    },
    /// The chain ends at somebody who is no root.
    #[error("{issuer} certifies itself and is no root")]
    NotRoot {
        /// Who.
        issuer: String,
    },
    /// The chain comes back to itself.
    #[error("the chain of certificates comes back to {issuer}")]
    Loop {
        /// Where it does.
        issuer: String,
    },
    /// The chain is too long.
    #[error("the chain has more than {links} certificates")]
    TooLong {
        /// How many are followed.
        links: usize,
    },
    /// The digests are made with a hash function that is not known.
    #[error("unknown hash function {algorithm}")]
    UnknownHash {
        /// Its name.
        algorithm: String,
    },
    /// The digests cannot be computed.
    #[error(transparent)]
    Crypto(CryptoError),
    /// It would cost too much.
    #[error(transparent)]
    Exhausted(#[from] BudgetExceeded),
}
