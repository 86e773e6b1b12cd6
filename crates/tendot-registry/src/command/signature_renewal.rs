//! Renewal of signatures before they expire: page by page, in the background.

use tendot_proto::crypto::AwsLcProvider;
use tendot_proto::trust::RecordSigner;
use tendot_proto::{Handle, HandleValue};
use tendot_store::{Edit, NameKey, Precondition, RecordStatus, Store as _, StoreError, StoredRecord};

use super::signing::SigningSettings;
use crate::{Registry, RegistryError};

/// Records read per page.
const PAGE_RECORDS: usize = 1_000;

/// Signatures made per page.
const PAGE_SIGNATURES: usize = 20;

/// Signatures are renewed when a third of their validity remains, but not earlier than this before they expire.
const MAX_REMAINING_SECONDS: u64 = 90 * 86_400;

/// Author of renewals in the change log.
const AUTHOR: &str = "signing";

/// Position of a renewal among the names of the signed prefixes.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct RenewalCursor {
    /// Index of the prefix.
    prefix: usize,
    /// Last name that was processed.
    after: Option<NameKey>,
}

/// Result of one page of a renewal.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct RenewalPage {
    /// Where to continue; `None` at the end.
    pub next: Option<RenewalCursor>,
    /// Number of renewed signatures.
    pub renewed: u64,
    /// Signatures that are due but cannot be renewed: made by another key, or values changed since.
    pub unusable: u64,
    /// Records that cannot be read, signed or written.
    pub failed: u64,
    /// Reason of the last of them.
    pub failure: Option<String>,
    /// Earliest expiry of the signatures after the renewal (Unix time in seconds).
    pub earliest_expiry: Option<u64>,
}

impl RenewalPage {
    /// Adds the result of the next page.
    pub fn add(&mut self, page: Self) {
        self.next = page.next;
        self.renewed += page.renewed;
        self.unusable += page.unusable;
        self.failed += page.failed;
        self.failure = page.failure.or(self.failure.take());
        page.earliest_expiry.into_iter().for_each(|expiry| self.add_expiry(expiry));
    }

    fn add_failure(&mut self, reason: impl ToString) {
        self.failed += 1;
        self.failure = Some(reason.to_string());
    }

    fn add_expiry(&mut self, expiry: u64) {
        self.earliest_expiry = Some(self.earliest_expiry.map_or(expiry, |earliest| earliest.min(expiry)));
    }
}

impl SigningSettings {
    /// Whether a signature must be renewed.
    fn is_due(&self, expiry: u64, now: u64) -> bool {
        expiry.saturating_sub(now) < (self.signer.validity / 3).min(MAX_REMAINING_SECONDS)
    }
}

impl Registry {
    /// Renews the signatures that expire soon among the next names of the prefixes that are signed on write. Records without a
    /// signature of the signer stay as they are, and so do those that cannot be read, signed or written, which do not stop the renewal
    /// of others.
    pub async fn renew_signatures(
        &self,
        cursor: RenewalCursor,
        now_ms: u64,
    ) -> Result<RenewalPage, RegistryError> {
        let mut page = RenewalPage::default();
        let Some(signing) = &self.rules.settings.signing else { return Ok(page) };
        let RenewalCursor { prefix: number, after } = cursor;
        let Some(prefix) = signing.prefixes.get(number) else { return Ok(page) };
        let now = now_ms / 1_000;
        let (mut due, mut last, mut count) = (Vec::new(), None, 0);
        let visit = |record: &StoredRecord| {
            count += 1;
            last = NameKey::new(&record.name).ok();
            if record.status == RecordStatus::Live
                && let Some(expiry) = signing.signer.expiry(&record.values)
            {
                if signing.is_due(expiry, now) {
                    due.push((record.clone(), expiry));
                } else {
                    page.add_expiry(expiry);
                }
            }
            count < PAGE_RECORDS && due.len() < PAGE_SIGNATURES
        };
        let scanned = self.rules.store.scan_records(Some(prefix.as_bytes()), after.as_ref(), visit).await;
        let mut is_end = count < PAGE_RECORDS && due.len() < PAGE_SIGNATURES;
        for (record, expiry) in due {
            self.renew_record(signing, record, expiry, now_ms, &mut page).await?;
        }
        match scanned {
            Ok(()) => {}
            Err(error @ StoreError::Corrupt { .. }) => {
                page.add_failure(error);
                last = self.damaged_name(prefix, last.or(after)).await;
                is_end = last.is_none();
            }
            Err(error) => return Err(error.into()),
        }
        page.next = match last.filter(|_| !is_end) {
            Some(last) => Some(RenewalCursor { prefix: number, after: Some(last) }),
            None => Some(RenewalCursor { prefix: number + 1, after: None }),
        };
        page.next = page.next.filter(|next| next.prefix < signing.prefixes.len());
        Ok(page)
    }

    /// Name of the damaged record that a scan of a prefix ended at, after the last one that was read; `None` if it cannot be read either.
    async fn damaged_name(&self, prefix: &str, last: Option<NameKey>) -> Option<NameKey> {
        let names = self.rules.store.list_names(prefix.as_bytes(), last.as_ref(), 1).await.ok()?;
        NameKey::new(&names.first()?.name).ok().filter(|name| Some(name) != last.as_ref())
    }

    /// Signs a record again, and adds the result to the page. Fails only if the store cannot be written at all.
    async fn renew_record(
        &self,
        signing: &SigningSettings,
        record: StoredRecord,
        expiry: u64,
        now_ms: u64,
        page: &mut RenewalPage,
    ) -> Result<(), RegistryError> {
        match self.renew_signature(signing, record, now_ms).await {
            Ok(Renewal::Renewed(expiry)) => {
                page.renewed += 1;
                page.add_expiry(expiry);
            }
            Ok(Renewal::Unusable) => {
                page.unusable += 1;
                page.add_expiry(expiry);
            }
            // Signed by the write that changed it.
            Ok(Renewal::Changed) => {}
            Ok(Renewal::Failed(reason)) => {
                page.add_failure(reason);
                page.add_expiry(expiry);
            }
            Err(error) if matches!(error.source, None | Some(StoreError::Corrupt { .. })) => {
                page.add_failure(error.source.map_or(error.detail, |source| source.to_string()));
                page.add_expiry(expiry);
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Signs a record again.
    async fn renew_signature(
        &self,
        signing: &SigningSettings,
        record: StoredRecord,
        now_ms: u64,
    ) -> Result<Renewal, RegistryError> {
        let StoredRecord { name, revision, values, .. } = record;
        let (signer, signed_name) = (signing.signer.clone(), name.clone());
        // An RSA signature takes about a millisecond.
        let task =
            tokio::task::spawn_blocking(move || sign_again(&signer, &signed_name, values, now_ms / 1_000));
        let values = match task.await {
            Ok(Ok(Some(values))) => values,
            Ok(Ok(None)) => return Ok(Renewal::Unusable),
            Ok(Err(error)) => return Ok(Renewal::Failed(error.to_string())),
            Err(error) => return Ok(Renewal::Failed(error.to_string())),
        };
        let expiry = signing.signer.expiry(&values).unwrap_or_default();
        let put = Edit::Put { name, values, precondition: Precondition::AtRevision(revision) };
        let is_committed = self.commit_once(AUTHOR, now_ms, vec![put]).await?;
        Ok(if is_committed { Renewal::Renewed(expiry) } else { Renewal::Changed })
    }
}

/// Outcome of the renewal of one signature.
enum Renewal {
    /// Expiry of the new signature.
    Renewed(u64),
    /// The record was changed meanwhile.
    Changed,
    /// The signature was made by another key, or the values changed since.
    Unusable,
    /// The record could not be signed.
    Failed(String),
}

/// Values with a new signature; `None` if the present one does not match.
fn sign_again(
    signer: &RecordSigner,
    name: &str,
    mut values: Vec<HandleValue<'static>>,
    now: u64,
) -> Result<Option<Vec<HandleValue<'static>>>, tendot_proto::crypto::CryptoError> {
    let handle = Handle::from(name);
    if !signer.made_signature(handle, &values, &AwsLcProvider)? {
        return Ok(None);
    }
    signer.sign(handle, &mut values, now, &AwsLcProvider)?;
    Ok(Some(values))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tendot_proto::ValueReference;
    use tendot_store::MemoryStore;
    use tendot_testing::handle_keys::private_key;
    use tokio::runtime::Builder;

    use super::*;
    use crate::RegistrySettings;

    const DAY: u64 = 86_400;
    const SIGNED_AT: u64 = 1_700_000_000;

    fn signer(key: &str) -> RecordSigner {
        let key = private_key(key).signing_key(&AwsLcProvider).unwrap();
        RecordSigner::new(ValueReference::parse("300:0.NA/10.5555"), key.into(), 30 * DAY)
    }

    fn signed(name: &str, signer: &RecordSigner, now: u64) -> Vec<HandleValue<'static>> {
        let mut values = vec![HandleValue::new(1, "URL", "https://example.org/")];
        signer.sign(Handle::from(name), &mut values, now, &AwsLcProvider).unwrap();
        values
    }

    /// Signatures that expire soon are renewed, once, if key and values are those that were signed.
    #[test]
    fn renews_what_expires_soon() {
        let runtime = Builder::new_current_thread().build().unwrap();
        let own = signer("admpriv.bin");
        let signing = SigningSettings {
            signer: Arc::new(own.clone()),
            prefixes: vec!["10.1".into(), "10.5555".into()],
        };
        let settings = RegistrySettings { signing: Some(signing), ..RegistrySettings::default() };
        let registry = Registry::new(MemoryStore::new(), settings);
        let mut changed = signed("10.5555/changed", &own, SIGNED_AT);
        changed[0] = HandleValue::new(1, "URL", "https://evil.example/");
        let mut extended = signed("10.5555/extended", &own, SIGNED_AT);
        extended.push(HandleValue::new(2, "URL", "https://evil.example/"));
        let edits = [
            ("10.1/late", signed("10.1/late", &own, SIGNED_AT + 15 * DAY)),
            ("10.5555/one", signed("10.5555/one", &own, SIGNED_AT)),
            ("10.5555/two", signed("10.5555/two", &own, SIGNED_AT)),
            ("10.5555/unsigned", vec![HandleValue::new(1, "URL", "https://example.org/")]),
            ("10.5555/changed", changed),
            ("10.5555/extended", extended),
            ("10.5555/copied", signed("10.5555/other", &own, SIGNED_AT)),
            ("10.5555/forged", signed("10.5555/forged", &signer("privkey.bin"), SIGNED_AT)),
            ("10.6666/other", signed("10.6666/other", &own, SIGNED_AT)),
        ];
        let put = |(name, values): (&str, _)| Edit::Put {
            name: name.into(),
            values,
            precondition: Precondition::Absent,
        };
        let edits = edits.into_iter().map(put).collect();
        assert!(runtime.block_on(registry.commit_once("test", 1, edits)).unwrap());
        let renew = |days: u64| {
            let (mut cursor, mut sum) = (Some(RenewalCursor::default()), RenewalPage::default());
            while let Some(next) = cursor {
                let now_ms = (SIGNED_AT + days * DAY) * 1_000;
                let page = runtime.block_on(registry.renew_signatures(next, now_ms)).unwrap();
                cursor = page.next.clone();
                sum.add(page);
            }
            assert_eq!(sum.failed, 0, "{sum:?}");
            let earliest = sum.earliest_expiry.map(|expiry| (expiry - SIGNED_AT) / DAY);
            (sum.renewed, sum.unusable, earliest)
        };
        assert_eq!(renew(19), (0, 0, Some(30)));
        assert_eq!(renew(21), (2, 4, Some(30)));
        assert_eq!(renew(21), (0, 4, Some(30)), "renewed twice");
        let record = |name: &str| {
            let key = NameKey::new(name).unwrap();
            runtime.block_on(registry.rules.store.get(&key)).unwrap().unwrap().values
        };
        let renewed = record("10.5555/one");
        assert_eq!(own.expiry(&renewed), Some(SIGNED_AT + 51 * DAY));
        assert!(own.made_signature(Handle::from("10.5555/one"), &renewed, &AwsLcProvider).unwrap());
        assert_eq!(own.expiry(&record("10.6666/other")), Some(SIGNED_AT + 30 * DAY));
        assert_eq!(record("10.5555/unsigned").len(), 1);
    }
}
