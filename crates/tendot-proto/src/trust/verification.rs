//! Verification of a record step by step, with the records that it needs.

use alloc::string::String;
use alloc::vec::Vec;

use super::chain::{RecordSet, TrustAnchors};
use super::verify::{TrustError, VerificationReport, verify_record};
use crate::auth::{AuthContext, AuthPolicy};
use crate::budget::Budget;
use crate::crypto::CryptoProvider;
use crate::handle::Handle;
use crate::record::HandleValue;

/// Maximum number of further records of one verification.
const MAX_RECORDS: usize = 16;

/// Verification of one record: asks for the records of certificates, one at a time.
///
/// ```
/// use tendot_proto::{Budget, Handle, HandleValue};
/// use tendot_proto::crypto::AwsLcProvider;
/// use tendot_proto::trust::{RecordVerification, TrustAnchors, VerificationStep};
///
/// let values = [HandleValue::new(1, "URL", "https://example.org/")];
/// let anchors = TrustAnchors::default();
/// let mut verification = RecordVerification::new("10.1000/1", &values, &anchors, 1_700_000_000, Budget::new(1_000));
/// let report = loop {
///     match verification.step(&AwsLcProvider)? {
///         VerificationStep::Finished(report) => break report,
///         // Resolve it; one that does not exist has no values.
///         VerificationStep::RecordRequired(handle) => verification.add_record(&handle, Vec::new()),
///     }
/// };
/// assert_eq!(report.faults(), ["no signature (HS_SIGNATURE)", "value 1: not covered by a valid signature"]);
/// # Ok::<(), tendot_proto::trust::TrustError>(())
/// ```
#[derive(Debug)]
pub struct RecordVerification<'a> {
    handle: &'a str,
    values: &'a [HandleValue<'static>],
    anchors: &'a TrustAnchors,
    now: u64,
    budget: Budget,
    records: RecordSet,
    records_left: usize,
}

/// Progress of a [`RecordVerification`].
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum VerificationStep {
    /// The record of this handle is required: add it and continue.
    RecordRequired(String),
    /// Result.
    Finished(VerificationReport),
}

impl<'a> RecordVerification<'a> {
    /// Verification of a complete record at a time (Unix time in seconds).
    pub fn new(
        handle: &'a str,
        values: &'a [HandleValue<'static>],
        anchors: &'a TrustAnchors,
        now: u64,
        budget: Budget,
    ) -> Self {
        let mut records = RecordSet::default();
        // A certificate may be in the record itself.
        records.insert(Handle::from(handle), values.to_vec());
        Self { handle, values, anchors, now, budget, records, records_left: MAX_RECORDS }
    }

    /// Verifies as far as the records suffice.
    pub fn step(&mut self, crypto: &dyn CryptoProvider) -> Result<VerificationStep, TrustError> {
        loop {
            let mut context = AuthContext::new(crypto, AuthPolicy::default(), &mut self.budget);
            let handle = Handle::from(self.handle);
            match verify_record(handle, self.values, &self.records, self.anchors, self.now, &mut context) {
                Ok(report) => return Ok(VerificationStep::Finished(report)),
                Err(TrustError::RecordRequired(_)) if self.records_left == 0 => {
                    return Err(TrustError::TooManyRecords { max: MAX_RECORDS });
                }
                Err(TrustError::RecordRequired(required)) => {
                    self.records_left -= 1;
                    match String::from_utf8(required) {
                        Ok(required) => return Ok(VerificationStep::RecordRequired(required)),
                        // Such a handle cannot exist.
                        Err(error) => self.records.insert(Handle::new(error.as_bytes()), Vec::new()),
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Adds a record; without values if it does not exist.
    pub fn add_record(&mut self, handle: &str, values: Vec<HandleValue<'static>>) {
        self.records.insert(Handle::from(handle), values);
    }
}
