//! Signing of records on write: the signature is part of the commit.

use std::sync::Arc;

use tendot_proto::crypto::AwsLcProvider;
use tendot_proto::trust::RecordSigner;
use tendot_proto::{Handle, HandleValue};
use tendot_store::{CommitError, Edit, StoreError};

use crate::{RecordLimits, Registry};

/// Signing of records on write.
#[derive(Clone, Debug)]
pub struct SigningSettings {
    /// Signer of the records.
    pub signer: Arc<RecordSigner>,
    /// Prefixes whose records are signed; ASCII case-insensitive.
    pub prefixes: Vec<Box<str>>,
}

impl SigningSettings {
    /// Whether the record of a name is signed.
    fn covers(&self, name: &str) -> bool {
        let prefix = Handle::from(name).prefix();
        self.prefixes.iter().any(|signed| signed.as_bytes().eq_ignore_ascii_case(prefix))
    }

    /// Stored signature that a write of these values replaces: not a change that the caller makes.
    pub(crate) fn stored_signature<'v>(
        &self,
        name: &str,
        stored: &'v [HandleValue<'static>],
        written: &[HandleValue<'_>],
    ) -> Option<&'v HandleValue<'static>> {
        if !self.covers(name) {
            return None;
        }
        let signature = stored.iter().find(|value| self.signer.is_own(value))?;
        let is_replaced =
            |value: &HandleValue<'_>| value.index == signature.index || self.signer.is_own(value);
        (!written.iter().any(is_replaced)).then_some(signature)
    }

    /// Signs the record of an edit.
    fn sign(
        &self,
        number: usize,
        edit: &mut Edit,
        now_ms: u64,
        limits: &RecordLimits,
    ) -> Result<(), CommitError> {
        let (Edit::Put { name, values, .. } | Edit::Register { name, values, .. }) = edit else {
            return Ok(());
        };
        if !self.covers(name) {
            return Ok(());
        }
        let signed = self.signer.sign(Handle::from(&**name), values, now_ms / 1_000, &AwsLcProvider);
        signed.map_err(|error| signing_failed(error.into()))?;
        let length: usize = values.iter().map(|value| value.to_bytes().len()).sum();
        if length > limits.max_record_bytes || values.len() > limits.max_values {
            return Err(CommitError::TooLarge { edit: number, length, limit: limits.max_record_bytes });
        }
        Ok(())
    }
}

pub(super) fn signing_failed(error: Box<dyn std::error::Error + Send + Sync>) -> CommitError {
    CommitError::Store(StoreError::Backend { operation: "signing the record", error })
}

impl Registry {
    /// Signs the records of planned edits. An RSA signature takes about a millisecond, so that is done on a blocking thread.
    pub(super) async fn sign_edits(
        &self,
        mut edits: Vec<Edit>,
        now_ms: u64,
    ) -> Result<Vec<Edit>, CommitError> {
        let Some(signing) = &self.rules.settings.signing else { return Ok(edits) };
        let is_signed = |edit: &Edit| {
            matches!(edit, Edit::Put { .. } | Edit::Register { .. }) && signing.covers(edit.name())
        };
        if !edits.iter().any(is_signed) {
            return Ok(edits);
        }
        let (signing, limits) = (signing.clone(), self.rules.settings.limits);
        let task = tokio::task::spawn_blocking(move || {
            for (number, edit) in edits.iter_mut().enumerate() {
                signing.sign(number, edit, now_ms, &limits)?;
            }
            Ok(edits)
        });
        task.await.map_err(|error| signing_failed(error.into()))?
    }
}
