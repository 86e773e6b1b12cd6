//! Verification of signed records.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use core::fmt;

use jiff::Timestamp;
use subtle::ConstantTimeEq as _;

use super::chain::{ChainVerifier, RecordSet, TrustAnchors};
use crate::auth::{AuthContext, AuthError, cost};
use crate::budget::BudgetExceeded;
use crate::crypto::{CryptoError, HashAlgorithm};
use crate::handle::Handle;
use crate::record::{HandleValue, RecordSignature, ValueReference};

/// Result of verifying the signatures of a record.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct VerificationReport {
    /// Valid signatures, each with its certificate chain to the trust anchor.
    pub signatures: Vec<ValidSignature>,
    /// Indexes of values that no valid signature covers, including private and changed values. Of two values with the same
    /// index neither is covered, since signatures identify values by index.
    pub unsigned: Vec<u32>,
    /// Those of the unsigned values that a valid signature names with another digest: changed after they were signed.
    pub changed: Vec<u32>,
    /// Indexes of values that a valid signature covers but that are absent: removed, or not requested.
    pub missing: Vec<u32>,
    /// Signatures that were rejected.
    pub rejected: Vec<RejectedSignature>,
}

/// Valid signature of a record.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ValidSignature {
    /// Index of the `HS_SIGNATURE` value.
    pub index: u32,
    /// Signer, then the issuers of its certificates up to the trust anchor.
    pub chain: Vec<ValueReference<'static>>,
    /// Earliest expiration in the chain, as Unix time in seconds, inclusive.
    pub expires_at: Option<u64>,
}

/// Rejected signature of a record.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RejectedSignature {
    /// Index of the `HS_SIGNATURE` value.
    pub index: u32,
    /// Reason.
    pub error: TrustError,
}

impl VerificationReport {
    /// Whether every value is covered, none is missing and no signature is forged. Resolve whole records.
    pub fn is_trusted(&self) -> bool {
        self.unsigned.is_empty()
            && self.missing.is_empty()
            && !self.signatures.is_empty()
            && !self.rejected.iter().any(|rejected| rejected.error.is_forgery())
    }

    /// Everything that is wrong with the record, one sentence each; empty if it is trusted.
    pub fn faults(&self) -> Vec<String> {
        if self.is_trusted() {
            return Vec::new();
        }
        let rejected = self.rejected.iter().map(|rejected| rejected.to_string());
        let unsigned = self.unsigned.iter().map(|index| match self.changed.contains(index) {
            true => format!("value {index}: changed after it was signed"),
            false => format!("value {index}: not covered by a valid signature"),
        });
        let missing = self.missing.iter().map(|index| format!("value {index}: signed but missing"));
        let none = self.signatures.is_empty() && self.rejected.is_empty();
        let none = none.then(|| "no signature (HS_SIGNATURE)".to_string());
        none.into_iter().chain(rejected).chain(unsigned).chain(missing).collect()
    }
}

impl fmt::Display for RejectedSignature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "signature {}: {}", self.index, self.error)
    }
}

/// Maximum number of signatures per record.
const MAX_SIGNATURE_VALUES: usize = 16;

/// Verifies the signatures of a complete record and reports which values they cover.
///
/// Certificates may be in other records. If one of these is not in `records`, the error [`TrustError::RecordRequired`]
/// names it: resolve it, add it and call again. Add a record that cannot be resolved without values.
///
/// ```
/// use tendot_proto::{Handle, HandleValue, Budget};
/// use tendot_proto::auth::{AuthContext, AuthPolicy};
/// use tendot_proto::crypto::AwsLcProvider;
/// use tendot_proto::trust::{RecordSet, TrustAnchors, verify_record};
///
/// let values = [HandleValue::new(1, "URL", "https://example.org/")];
/// let (records, anchors, mut budget) = (RecordSet::default(), TrustAnchors::new(vec![]), Budget::new(1_000));
/// let mut context = AuthContext::new(&AwsLcProvider, AuthPolicy::default(), &mut budget);
/// let handle = Handle::from("10.1000/1");
/// let report = verify_record(handle, &values, &records, &anchors, 1_700_000_000, &mut context)?;
/// assert!(!report.is_trusted());
/// assert_eq!(report.unsigned, [1]);
/// # Ok::<(), tendot_proto::trust::TrustError>(())
/// ```
pub fn verify_record(
    handle: Handle<'_>,
    values: &[HandleValue<'_>],
    records: &RecordSet,
    anchors: &TrustAnchors,
    now: u64,
    context: &mut AuthContext<'_>,
) -> Result<VerificationReport, TrustError> {
    let verifier = ChainVerifier { handle, records, anchors, now };
    let mut report = VerificationReport::default();
    let (mut covered, mut changed) = (BTreeSet::new(), BTreeSet::new());
    for value in
        values.iter().filter(|value| &*value.value_type == b"HS_SIGNATURE").take(MAX_SIGNATURE_VALUES)
    {
        match verifier.verify_signature(value, values, context) {
            Ok(verified) => {
                report.signatures.push(verified.signature);
                report.missing.extend(verified.missing);
                covered.extend(verified.covered);
                changed.extend(verified.changed);
            }
            Err(error @ (TrustError::RecordRequired(_) | TrustError::Budget(_))) => return Err(error),
            Err(error) => report.rejected.push(RejectedSignature { index: value.index, error }),
        }
    }
    report.missing.sort_unstable();
    report.missing.dedup();
    let indexes = sorted_indexes(values);
    let is_covered = |index| covered.contains(&index) && is_unique(&indexes, index);
    let to_cover = values.iter().filter(|value| !is_exempt(handle, value));
    report.unsigned = to_cover.map(|value| value.index).filter(|index| !is_covered(*index)).collect();
    report.changed = report.unsigned.iter().copied().filter(|index| changed.contains(index)).collect();
    Ok(report)
}

/// Verified signature, and what it says about the values.
struct VerifiedSignature {
    signature: ValidSignature,
    /// Indexes of the values that it covers unchanged.
    covered: Vec<u32>,
    /// Indexes of the values that have another digest.
    changed: Vec<u32>,
    /// Indexes of values that are absent.
    missing: Vec<u32>,
}

fn sorted_indexes(values: &[HandleValue<'_>]) -> Vec<u32> {
    let mut indexes: Vec<u32> = values.iter().map(|value| value.index).collect();
    indexes.sort_unstable();
    indexes
}

/// Whether an index occurs exactly once in a sorted list.
fn is_unique(indexes: &[u32], index: u32) -> bool {
    let start = indexes.partition_point(|other| *other < index);
    indexes.get(start) == Some(&index) && indexes.get(start + 1) != Some(&index)
}

impl ChainVerifier<'_> {
    /// Verifies a signature and its chain, and compares the digests of the values.
    fn verify_signature(
        &self,
        value: &HandleValue<'_>,
        values: &[HandleValue<'_>],
        context: &mut AuthContext<'_>,
    ) -> Result<VerifiedSignature, TrustError> {
        context.budget.charge(cost::decode_jws(value.data.len()))?;
        let malformed = |_| TrustError::Malformed { index: value.index };
        let signature = RecordSignature::from_bytes(&value.data).map_err(malformed)?;
        if !self.handle.eq_ignore_case(Handle::from(&*signature.claims.subject)) {
            return Err(TrustError::SubjectMismatch { subject: signature.claims.subject });
        }
        let unknown = || TrustError::UnknownHash { algorithm: signature.algorithm.clone() };
        let hash = match signature.hash_algorithm().ok_or_else(unknown)? {
            HashAlgorithm::Sha1 if !context.policy.allow_sha1 => return Err(unknown()),
            hash => hash,
        };
        let (chain, expires_at) = self.verify_chain(&signature.jws, &signature.claims, context)?;
        let mut verified = VerifiedSignature {
            signature: ValidSignature { index: value.index, chain, expires_at },
            covered: Vec::new(),
            changed: Vec::new(),
            missing: Vec::new(),
        };
        let claimed: BTreeMap<u32, &[u8]> =
            signature.digests.iter().map(|digest| (digest.index, &*digest.digest)).collect();
        for value in values {
            let Some(claimed) = claimed.get(&value.index) else { continue };
            context.budget.charge(cost::hash(value.data.len()))?;
            let digest = value.digest(context.provider, hash).map_err(TrustError::Crypto)?;
            match bool::from(digest.ct_eq(claimed)) {
                true => verified.covered.push(value.index),
                false => verified.changed.push(value.index),
            }
        }
        let present: BTreeSet<u32> = values.iter().map(|value| value.index).collect();
        verified.missing = claimed.keys().filter(|index| !present.contains(index)).copied().collect();
        Ok(verified)
    }
}

/// Whether a value is itself a signature and needs none. The root record has some of an older type.
fn is_exempt(handle: Handle<'_>, value: &HandleValue<'_>) -> bool {
    &*value.value_type == b"HS_SIGNATURE"
        || handle.eq_ignore_case(Handle::ROOT) && value.value_type.starts_with(b"10320/sig.")
}

/// Reason for which a signature is rejected.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TrustError {
    /// A further record is required: resolve it and call again.
    #[error("record required: {}", String::from_utf8_lossy(.0))]
    RecordRequired(Vec<u8>),
    /// The value is not a valid signature.
    #[error("invalid signature value {index}")]
    Malformed {
        /// Index of the value.
        index: u32,
    },
    /// The signature is for another record.
    #[error("subject mismatch: {subject}")]
    SubjectMismatch {
        /// Handle of that record.
        subject: String,
    },
    /// Outside of the validity period.
    #[error("statement of {issuer} {}", format_period(*not_before, *expires_at, *now))]
    NotInValidityPeriod {
        /// Issuer.
        issuer: String,
        /// Start of validity as Unix time in seconds.
        not_before: Option<u64>,
        /// Expiration as Unix time in seconds, inclusive.
        expires_at: Option<u64>,
        /// Time of the verification.
        now: u64,
    },
    /// No certificate for the issuer.
    #[error("no certificate for {issuer}")]
    NoCertificate {
        /// Issuer.
        issuer: String,
    },
    /// The signature does not match the issuer's key, or has another algorithm.
    #[error("signature of {issuer} does not match")]
    SignatureMismatch {
        /// Issuer.
        issuer: String,
    },
    /// The signature cannot be verified.
    #[error("cannot verify the signature of {issuer}: {error}")]
    Unverifiable {
        /// Issuer.
        issuer: String,
        /// Error of the verification.
        error: AuthError,
    },
    /// The issuer is not authorized to sign this record.
    #[error("{issuer} is not authorized to sign this record")]
    OutOfScope {
        /// Issuer.
        issuer: String,
    },
    /// The chain ends at a self-signed issuer that is not a trust anchor.
    #[error("{issuer} is self-signed but not a trust anchor")]
    UntrustedRoot {
        /// Issuer.
        issuer: String,
    },
    /// Certificate chain loop.
    #[error("certificate chain loop at {issuer}")]
    ChainLoop {
        /// Issuer at which it loops.
        issuer: String,
    },
    /// Certificate chain too long.
    #[error("certificate chain longer than {max}")]
    ChainTooLong {
        /// Maximum.
        max: usize,
    },
    /// The certificates are in too many records.
    #[error("more than {max} records with certificates")]
    TooManyRecords {
        /// Maximum.
        max: usize,
    },
    /// Unknown hash algorithm of the digests.
    #[error("unknown hash algorithm {algorithm}")]
    UnknownHash {
        /// Name of the algorithm.
        algorithm: String,
    },
    /// The digests could not be computed.
    #[error(transparent)]
    Crypto(CryptoError),
    /// Work budget exceeded.
    #[error(transparent)]
    Budget(#[from] BudgetExceeded),
}

impl TrustError {
    /// Whether the signature is not what it claims to be, rather than outdated or not trusted.
    pub const fn is_forgery(&self) -> bool {
        matches!(self, Self::Malformed { .. } | Self::SubjectMismatch { .. } | Self::SignatureMismatch { .. })
    }
}

/// Why a time is outside of a validity period.
fn format_period(not_before: Option<u64>, expires_at: Option<u64>, now: u64) -> String {
    let date = |seconds: u64| {
        let date = i64::try_from(seconds).ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
        date.map_or_else(|| seconds.to_string(), |date| date.to_string())
    };
    match (not_before, expires_at) {
        (Some(first), _) if now < first => format!("is not valid before {}", date(first)),
        (_, Some(last)) => format!("expired at {}", date(last)),
        _ => "is not valid".into(),
    }
}
