//! Verification of signed records, with the records of their certificates.

use std::time::{SystemTime, UNIX_EPOCH};

use tendot_proto::crypto::AwsLcProvider;
use tendot_proto::trust::{
    RecordVerification, TrustAnchors, TrustError, VerificationReport, VerificationStep,
};
use tendot_proto::{Budget, HandleValue};

use crate::upstream::LookupOutcome;

/// Reason for which a record is not trusted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SignedRecordError<E> {
    /// The record of a certificate cannot be resolved.
    #[error("cannot resolve `{handle}`, which has a certificate: {error}")]
    Lookup {
        /// Handle of the record.
        handle: String,
        /// Cause.
        error: E,
    },
    /// The verification cannot be completed.
    #[error(transparent)]
    Verification(#[from] TrustError),
    /// A value is not covered by a valid signature, a signed value is missing, or a signature is forged.
    #[error("record not trusted: {}", .0.faults().join("; "))]
    Untrusted(Box<VerificationReport>),
}

/// Verifies all values of a record now: signatures, certificate chains to a trust anchor, dates and scope. `lookup` resolves
/// the records of certificates.
pub async fn verify_signed_record<E, F>(
    name: &str,
    values: &[HandleValue<'static>],
    anchors: &TrustAnchors,
    lookup: impl Fn(String) -> F + Sync,
) -> Result<VerificationReport, SignedRecordError<E>>
where
    F: Future<Output = Result<LookupOutcome, E>> + Send,
{
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let mut verification = RecordVerification::new(name, values, anchors, now, Budget::PER_REQUEST);
    loop {
        match verification.step(&AwsLcProvider)? {
            VerificationStep::Finished(report) if report.is_trusted() => return Ok(report),
            VerificationStep::Finished(report) => return Err(SignedRecordError::Untrusted(Box::new(report))),
            VerificationStep::RecordRequired(handle) => match lookup(handle.clone()).await {
                Ok(LookupOutcome::Values(values)) => verification.add_record(&handle, values),
                Ok(_) => verification.add_record(&handle, Vec::new()),
                Err(error) => return Err(SignedRecordError::Lookup { handle, error }),
            },
        }
    }
}
