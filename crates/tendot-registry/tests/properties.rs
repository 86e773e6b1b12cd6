//! What holds for any record and any question.

mod scene;

use pollster::block_on;
use proptest::prelude::*;
use scene::{BEFORE, NOW, admin, caller, overwrite, put, registry, values, write};
use tendot_proto::{Handle, Permissions, Value, Work};
use tendot_registry::{Query, Resolution};

const READER: &str = "300:10.1/a";

fn record() -> impl Strategy<Value = Vec<Value<'static>>> {
    let value = (1..12_u32, prop::sample::select(vec!["NOTE", "NOTE.x", "EMAIL"]), 0..16_u8, 0..3_u8);
    prop::collection::vec(value, 0..12).prop_map(|values| {
        let mut record: Vec<Value<'static>> = Vec::new();
        for (index, value_type, permissions, data) in values {
            if record.iter().all(|other| other.index != index) {
                let value = Value::new(index, value_type, data.to_string());
                record.push(Value { permissions: Permissions(permissions), ..value });
            }
        }
        record
    })
}

proptest! {
    /// Nobody gets what they may not read, and what nobody may read is never answered.
    #[test]
    fn hidden_values_stay_hidden(
        record in record(),
        indexes in prop::collection::vec(0..12_u32, 0..4),
        by_type: bool,
        public_only: bool,
        in_session: bool,
        who in prop::sample::select(vec!["anonymous", "300:10.1/b", READER, "operator"]),
    ) {
        let registry = registry();
        let mut stored = record.clone();
        stored.push(admin(100, 0x0400, READER));
        put(registry.store(), "10.1/x", stored);
        let types = if by_type { vec![&b"NOTE."[..]] } else { vec![] };
        let query = Query { indexes, types, public_only, in_session, ..Query::new(Handle::from("10.1/x")) };
        let outcome = block_on(registry.resolve(&query, &caller(who), &mut Work::new(10_000)));
        if let Ok(Resolution::Values(values)) = outcome {
            prop_assert!(!values.is_empty());
            for value in values {
                let permissions = value.permissions;
                let may = permissions.is_public()
                    || !public_only && [READER, "operator"].contains(&who) && permissions.has(Permissions::ADMIN_READ);
                prop_assert!(may, "{who} got {value:?}");
                let selected = query.indexes.is_empty() && query.types.is_empty()
                    || query.indexes.contains(&value.index)
                    || by_type && value.has_type("NOTE");
                prop_assert!(selected, "{value:?} was not asked for");
            }
        }
    }

    /// After an overwrite the record is what was given, and only what changed has a new date; or nothing changed.
    #[test]
    fn overwriting(old in record(), new in record()) {
        let registry = registry();
        put(registry.store(), "10.1/x", old.clone());
        let before = values(registry.store(), "10.1/x").unwrap();
        let outcome = write(&registry, "operator", &overwrite("10.1/x", new.clone()));
        let after = values(registry.store(), "10.1/x").unwrap();
        let undated = |value: &Value<'static>| Value { timestamp: 0, ..value.clone() };
        match outcome {
            Ok(done) if done.revision.is_some() => {
                prop_assert_eq!(after.iter().map(undated).collect::<Vec<_>>(), new);
                for value in &after {
                    let kept = before.contains(value);
                    let date = if kept { BEFORE } else { u32::try_from(NOW.unix).unwrap() };
                    prop_assert_eq!(value.timestamp, date);
                    prop_assert_eq!(kept, old.contains(&undated(value)));
                }
            }
            Ok(_) => {
                prop_assert!(new.len() == old.len() && new.iter().all(|value| old.contains(value)));
                prop_assert_eq!(after, before);
            }
            Err(error) => {
                prop_assert_eq!(error.response_code().0, 401);
                let writable = Permissions::ADMIN_WRITE;
                prop_assert!(old.iter().any(|value| !value.permissions.has(writable) && !new.contains(value)));
                prop_assert_eq!(after, before);
            }
        }
    }
}
