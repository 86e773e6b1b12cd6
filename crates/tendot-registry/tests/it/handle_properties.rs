//! Properties of resolution and overwriting for random records and queries.

use proptest::prelude::*;
use tendot_proto::{Budget, Handle, HandleValue, ValuePermissions};
use tendot_registry::{Resolution, ResolveQuery};
use tendot_testing::block_on;

use crate::fixtures::handle_fixture::{
    FIXTURE_TIMESTAMP, NOW, admin_value, caller, overwrite, put_record, registry, stored_values, write,
};

const READER: &str = "300:10.1/a";

fn record() -> impl Strategy<Value = Vec<HandleValue<'static>>> {
    let value = (1..12_u32, prop::sample::select(vec!["NOTE", "NOTE.x", "EMAIL"]), 0..16_u8, 0..3_u8);
    prop::collection::vec(value, 0..12).prop_map(|values| {
        let mut record: Vec<HandleValue<'static>> = Vec::new();
        for (index, value_type, permissions, data) in values {
            if record.iter().all(|other| other.index != index) {
                let value = HandleValue::new(index, value_type, data.to_string());
                record.push(HandleValue { permissions: ValuePermissions(permissions), ..value });
            }
        }
        record
    })
}

proptest! {
    /// Callers get only values that they may read; values without read permission are never returned.
    #[test]
    fn hidden_values_stay_hidden(
        record in record(),
        indexes in prop::collection::vec(0..12_u32, 0..4),
        by_type: bool,
        public_only: bool,
        in_session: bool,
        caller_name in prop::sample::select(vec!["anonymous", "300:10.1/b", READER, "operator"]),
    ) {
        let registry = registry();
        let mut stored = record.clone();
        stored.push(admin_value(100, 0x0400, READER));
        put_record(registry.store(), "10.1/x", stored);
        let types = if by_type { vec![&b"NOTE."[..]] } else { vec![] };
        let query = ResolveQuery { indexes, types, public_only, in_session, ..ResolveQuery::new(Handle::from("10.1/x")) };
        let outcome = block_on(registry.resolve(&query, &caller(caller_name), &mut Budget::new(10_000)));
        if let Ok(Resolution::Values(values)) = outcome {
            prop_assert!(!values.is_empty());
            for value in values {
                let permissions = value.permissions;
                let is_readable = value.is_public()
                    || !public_only && [READER, "operator"].contains(&caller_name) && permissions.contains(ValuePermissions::ADMIN_READ);
                prop_assert!(is_readable, "{caller_name} got {value:?}");
                let selected = query.indexes.is_empty() && query.types.is_empty()
                    || query.indexes.contains(&value.index)
                    || by_type && value.has_type("NOTE");
                prop_assert!(selected, "{value:?} was not selected");
            }
        }
    }

    /// An overwrite stores the given values, with new timestamps only for those that changed; or it changes nothing.
    #[test]
    fn overwrite_replaces_all_values(old in record(), new in record()) {
        let registry = registry();
        put_record(registry.store(), "10.1/x", old.clone());
        let before = stored_values(registry.store(), "10.1/x").unwrap();
        let outcome = write(&registry, "operator", &overwrite("10.1/x", new.clone()));
        let after = stored_values(registry.store(), "10.1/x").unwrap();
        let without_timestamp = |value: &HandleValue<'static>| HandleValue { timestamp: 0, ..value.clone() };
        match outcome {
            Ok(outcome) if outcome.revision.is_some() => {
                prop_assert_eq!(after.iter().map(without_timestamp).collect::<Vec<_>>(), new);
                for value in &after {
                    let is_unchanged = before.contains(value);
                    let timestamp = if is_unchanged { FIXTURE_TIMESTAMP } else { NOW };
                    prop_assert_eq!(value.timestamp, timestamp);
                    prop_assert_eq!(is_unchanged, old.contains(&without_timestamp(value)));
                }
            }
            Ok(_) => {
                prop_assert!(new.len() == old.len() && new.iter().all(|value| old.contains(value)));
                prop_assert_eq!(after, before);
            }
            Err(error) => {
                prop_assert_eq!(error.response_code().0, 401);
                let writable = ValuePermissions::ADMIN_WRITE;
                prop_assert!(old.iter().any(|value| !value.permissions.contains(writable) && !new.contains(value)));
                prop_assert_eq!(after, before);
            }
        }
    }
}
