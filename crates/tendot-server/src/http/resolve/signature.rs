//! Verification of signed records, for pages and traces.

use serde::Serialize;
use tendot_proto::crypto::AwsLcProvider;
use tendot_proto::trust::{RecordVerification, ValidSignature, VerificationStep, is_signature};
use tendot_proto::{Budget, Handle, HandleValue};
use tendot_registry::{Caller, Error, ResolveQuery};
use utoipa::ToSchema;

use crate::clock::{format_millis, to_unix_seconds};
use crate::http::resolve::lookup::{LookupContext, RecordLookupError};
use crate::http::resolve::resolver::RecordResolver;

/// Work budget of one verification, in microseconds: a chain of a few RSA certificates takes less than one millisecond.
const VERIFICATION_BUDGET: u32 = 50_000;

/// Result of verifying the signatures of a record.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, ToSchema)]
pub(crate) struct SignatureStatus {
    /// Whether valid signatures, with certificates up to a trust anchor, cover all public values.
    pub(crate) trusted: bool,
    /// Valid signatures.
    pub(crate) signatures: Vec<SignatureDetails>,
    /// Reasons for which the record is not trusted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) faults: Vec<String>,
}

/// Valid signature of a record.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, ToSchema)]
pub(crate) struct SignatureDetails {
    /// Index and handle of the signer's key.
    pub(crate) signed_by: String,
    /// Earliest expiration of the signature and its certificates (RFC 3339).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) valid_until: Option<String>,
}

impl SignatureDetails {
    fn new(signature: &ValidSignature) -> Self {
        Self {
            signed_by: signature.chain.first().map(ToString::to_string).unwrap_or_default(),
            valid_until: signature.expires_at.map(|seconds| format_millis(seconds.saturating_mul(1_000))),
        }
    }
}

impl SignatureStatus {
    fn fault(fault: String) -> Self {
        Self { faults: vec![fault], ..Self::default() }
    }

    /// Signers and expiration in words, or what is wrong.
    pub(crate) fn describe(&self) -> String {
        if !self.trusted {
            return format!("not trusted: {}", self.faults.join("; "));
        }
        let describe = |signature: &SignatureDetails| match &signature.valid_until {
            Some(date) => format!("signed by {}, valid until {date}", signature.signed_by),
            None => format!("signed by {}", signature.signed_by),
        };
        self.signatures.iter().map(describe).collect::<Vec<_>>().join("; ")
    }
}

impl RecordResolver {
    /// Verifies the signatures of a name's whole record; `None` if it has none.
    pub(crate) async fn verify_signatures(
        &self,
        name: &str,
        context: &mut LookupContext<'_>,
    ) -> Option<SignatureStatus> {
        // The record was resolved before; its certificates need not be authoritative, nor signed themselves.
        let is_authoritative = std::mem::take(&mut context.is_authoritative);
        let status = self.verify_cached_record(name, context).await;
        context.is_authoritative = is_authoritative;
        context.is_certificate_lookup = false;
        status
    }

    async fn verify_cached_record(
        &self,
        name: &str,
        context: &mut LookupContext<'_>,
    ) -> Option<SignatureStatus> {
        let record = self.lookup_public(name, context).await.ok()??;
        if !record.iter().any(is_signature) {
            return None;
        }
        context.is_certificate_lookup = true;
        let now = to_unix_seconds(context.now);
        let budget = Budget::new(VERIFICATION_BUDGET);
        let mut verification = RecordVerification::new(name, &record, &self.trust_anchors, now, budget);
        loop {
            match verification.step(&AwsLcProvider) {
                Ok(VerificationStep::Finished(report)) => {
                    return Some(SignatureStatus {
                        trusted: report.is_trusted(),
                        signatures: report.signatures.iter().map(SignatureDetails::new).collect(),
                        faults: report.faults(),
                    });
                }
                Ok(VerificationStep::RecordRequired(handle)) => {
                    match self.lookup_public(&handle, context).await {
                        Ok(values) => verification.add_record(&handle, values.unwrap_or_default()),
                        Err(()) => {
                            let fault = format!("cannot resolve `{handle}`, which has a certificate");
                            return Some(SignatureStatus::fault(fault));
                        }
                    }
                }
                Err(error) => return Some(SignatureStatus::fault(error.to_string())),
            }
        }
    }

    /// Public values of a record; `None` if there is no record, an error if that is unknown.
    async fn lookup_public(
        &self,
        name: &str,
        context: &mut LookupContext<'_>,
    ) -> Result<Option<Vec<HandleValue<'static>>>, ()> {
        let query = ResolveQuery::new(Handle::from(name));
        match self.lookup(&query, &Caller::Anonymous, context).await {
            Ok(record) => Ok(Some(record.values)),
            Err(error) if is_absent(&error) => Ok(None),
            Err(_) => Err(()),
        }
    }
}

/// Whether the record does not exist, as far as this server and its upstream know.
const fn is_absent(error: &RecordLookupError) -> bool {
    matches!(
        error.error(),
        Some(
            Error::NotFound
                | Error::Retired
                | Error::ValuesNotFound
                | Error::NotResponsible { .. }
                | Error::OtherServer
        )
    )
}
