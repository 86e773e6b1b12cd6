//! Signing of records on write.

use std::sync::Arc;

use tendot_proto::crypto::AwsLcProvider;
use tendot_proto::record::RecordSignature;
use tendot_proto::trust::{RecordSigner, is_signature};
use tendot_registry::{RegistryError, RenewalCursor, RenewalPage, SigningSettings};
use tendot_store::{ChangeSet, MemoryStore, NameKey};
use tendot_testing::handle_keys::private_key;

use super::*;
use crate::fixtures::HookedStore;

store_tests!(memory, embedded, postgres => { record_and_signature_are_one_revision, too_large_records_are_refused });

fn settings() -> RegistrySettings {
    let key = private_key("admpriv.bin").signing_key(&AwsLcProvider).unwrap();
    let signer = RecordSigner::new(ValueReference::parse(PREFIX_ADMIN), key.into(), 86_400);
    let signing = SigningSettings { signer: Arc::new(signer), prefixes: vec!["10.1".into()] };
    RegistrySettings { signing: Some(signing), ..RegistrySettings::default() }
}

/// Revision and signed indexes of a record.
fn signed(registry: &TestRegistry, name: &str) -> (u64, Vec<u32>) {
    let entry = block_on(registry.store().get(&NameKey::new(name).unwrap())).unwrap().unwrap();
    let signature = entry.values.iter().find(|value| is_signature(value)).unwrap();
    assert_eq!(entry.values.iter().filter(|value| is_signature(value)).count(), 1);
    let signature = RecordSignature::from_bytes(&signature.data).unwrap();
    assert_eq!(signature.claims.issued_at, Some(u64::from(NOW)));
    (entry.revision, signature.digests.iter().map(|digest| digest.index).collect())
}

fn record_and_signature_are_one_revision(kind: StoreKind) {
    let registry = fixture(kind, settings());
    let admin = || admin_value(100, 0x0fff, ADMIN);
    let head = || block_on(registry.store().head()).unwrap().revision;
    let before = head();
    check_write(
        &registry,
        PREFIX_ADMIN,
        &create("10.1/x", vec![url_value(1, "https://a/"), admin(), note_value(3, 0x0c)]),
        1,
    );
    assert_eq!(head(), before + 1);
    let (revision, indexes) = signed(&registry, "10.1/x");
    assert_eq!((revision, indexes), (before + 1, vec![1, 100]), "private values are not signed");
    // The caller does not send the signature back, and needs no permission to remove it.
    let same = overwrite("10.1/x", vec![url_value(1, "https://a/"), admin(), note_value(3, 0x0c)]);
    check_write(&registry, ADMIN, &same, 1);
    assert_eq!(head(), before + 1, "nothing changed");
    check_write(&registry, ADMIN, &add("10.1/x", false, vec![url_value(2, "https://b/")]), 1);
    assert_eq!(signed(&registry, "10.1/x"), (before + 2, vec![1, 100, 2]));
    check_write(&registry, ADMIN, &remove("10.1/x", &[2, 400]), 1);
    assert_eq!(signed(&registry, "10.1/x"), (before + 3, vec![1, 100]), "a removed signature is made again");
    check_write(&registry, "operator", &create("10.2/x", vec![url_value(1, "https://a/")]), 1);
    let values = stored_values(registry.store(), "10.2/x").unwrap();
    assert!(!values.iter().any(is_signature), "another prefix");
}

/// Records that cannot be read or written do not stop the renewal of other signatures, behind them and under later prefixes.
#[test]
fn damaged_records_do_not_stop_the_renewal() {
    let store = HookedStore::new(MemoryStore::new());
    let mut settings = settings();
    settings.signing.as_mut().unwrap().prefixes = vec!["10.1".into(), "10.2".into()];
    let registry = TestRegistry::new(store.clone(), settings);
    for prefix in ["10.1", "10.2"] {
        let edits = vec![Edit::Home { prefix: prefix.into() }];
        block_on(store.commit(ChangeSet { author: "test".into(), timestamp_ms: 0, edits })).unwrap();
        for suffix in 'a'..='e' {
            let name = format!("{prefix}/{suffix}");
            let write = create(&name, vec![url_value(1, "https://a/")]);
            check_write(&registry, "operator", &write, 1);
        }
    }
    for name in ["10.1/a", "10.1/c", "10.2/e"] {
        store.damage(name);
    }
    store.reject_writes("10.2/b");
    let renew = |now_ms: u64| -> Result<RenewalPage, RegistryError> {
        let mut total = RenewalPage { next: Some(RenewalCursor::default()), ..RenewalPage::default() };
        while let Some(cursor) = total.next.take() {
            total.add(block_on(registry.renew_signatures(cursor, now_ms))?);
        }
        Ok(total)
    };
    let now_ms = NOW_MS + 20 * 3_600_000;
    let total = renew(now_ms).unwrap();
    assert_eq!((total.renewed, total.unusable, total.failed), (6, 0, 4), "{total:?}");
    assert_eq!(
        total.earliest_expiry,
        Some(u64::from(NOW) + 86_400),
        "that of the record that cannot be written"
    );
    // An outage ends the renewal.
    store.fill_disk(1);
    assert!(renew(2 * now_ms).is_err());
}

/// A record that becomes too large by its signature is refused, not stored without one.
fn too_large_records_are_refused(kind: StoreKind) {
    let mut settings = settings();
    settings.limits.max_record_bytes = 700;
    let registry = fixture(kind, settings);
    let write = create("10.1/x", vec![url_value(1, "https://a/")]);
    let (caller, mut budget) = (caller("operator"), Budget::new(20_000));
    let call = CallContext::new(&caller, NOW_MS, &mut budget);
    let result = block_on(registry.write(&write, call));
    assert!(result.is_err(), "{result:?}");
    assert_eq!(stored_values(registry.store(), "10.1/x"), None);
}
