//! Registrations and their history.

use tendot_proto::HandleValue;

use super::history::WHOLE_HISTORY;
use super::{commit, conflict, key, put, tombstone};
use crate::{Edit, Precondition, PriorState, RecordStatus, Store, StoredRecord};

fn register(name: &str, data: &str, registration: &str) -> Edit {
    let values = vec![HandleValue::new(1, "URL", data.to_owned())];
    Edit::Register {
        name: name.into(),
        values,
        registration: registration.as_bytes().into(),
        precondition: Precondition::NotTombstone,
    }
}

async fn registration(store: &impl Store, name: &str) -> Option<String> {
    let entry = store.get(&key(name)).await.unwrap()?;
    Some(String::from_utf8(entry.registration.into_vec()).unwrap())
}

/// A registration is set by `Register`, removed with the record, and kept by every other edit.
pub async fn registrations(store: &impl Store) {
    let remove = Edit::Remove { name: "10.1000/1".into(), precondition: Precondition::Live };
    let large = "x".repeat(100_000);
    let steps = [
        (put("10.1000/1", "a", Precondition::Absent), Some("")),
        (register("10.1000/1", "b", "known"), Some("known")),
        (put("10.1000/1", "c", Precondition::Live), Some("known")),
        (register("10.1000/1", "d", &large), Some(&*large)),
        (register("10.1000/1", "e", ""), Some("")),
        (register("10.1000/1", "f", "known again"), Some("known again")),
        (remove.clone(), None),
        (put("10.1000/1", "g", Precondition::Absent), Some("")),
        (remove.clone(), None),
        (register("10.1000/1", "h", "known at last"), Some("known at last")),
        (put("10.1000/1", "i", Precondition::Live), Some("known at last")),
        (tombstone("10.1000/1"), Some("known at last")),
    ];
    for (number, (edit, expected)) in steps.into_iter().enumerate() {
        commit(store, vec![edit]).await.unwrap();
        assert_eq!(registration(store, "10.1000/1").await.as_deref(), expected, "step {number}");
    }
    let refused = commit(store, vec![register("10.1000/1", "j", "too late")]).await;
    assert!(matches!(conflict(refused), Some((_, RecordStatus::Tombstone))));
    assert_eq!(registration(store, "10.1000/1").await.unwrap(), "known at last");
    // Edits see registrations of earlier edits of their change set.
    let name = "10.1000/2";
    let edits = vec![
        register("10.1000/3", "a", "of another"),
        register(name, "a", "one"),
        put(name, "b", Precondition::Live),
        Edit::Home { prefix: "10.1000".into() },
    ];
    commit(store, edits).await.unwrap();
    assert_eq!(registration(store, name).await.unwrap(), "one");
    assert_eq!(registration(store, "10.1000/3").await.unwrap(), "of another");
    let edits = vec![
        Edit::Remove { name: name.into(), precondition: Precondition::Live },
        put(name, "c", Precondition::Absent),
        register("10.1000/4", "a", "two"),
        tombstone("10.1000/4"),
    ];
    commit(store, edits).await.unwrap();
    assert_eq!(registration(store, name).await.unwrap(), "");
    assert_eq!(registration(store, "10.1000/4").await.unwrap(), "two");
    // A rejected change set writes no registration and uses no sequence number.
    let refused =
        vec![register("10.1000/5", "a", "refused"), put("10.1000/1", "x", Precondition::NotTombstone)];
    commit(store, refused).await.unwrap_err();
    commit(store, vec![register("10.1000/6", "a", "six")]).await.unwrap();
    assert_eq!(registration(store, "10.1000/5").await, None);
    assert_eq!(registration(store, "10.1000/6").await.unwrap(), "six");
    let mut seen = Vec::new();
    let visit = |entry: &StoredRecord| {
        seen.push(String::from_utf8_lossy(&entry.registration).into_owned());
        true
    };
    store.scan_records(Some(b"10.1000"), None, visit).await.unwrap();
    assert_eq!(seen, ["known at last", "", "of another", "two", "six"]);
}

/// Prior registrations are in the history, also of records with secrets and of removed records.
pub async fn history_keeps_registrations(store: &impl Store) {
    let secret = |registration: &str| Edit::Register {
        name: "10.1000/1".into(),
        values: vec![HandleValue::new(300, "HS_SECKEY", "secret")],
        registration: registration.as_bytes().into(),
        precondition: Precondition::NotTombstone,
    };
    commit(store, vec![register("10.1000/1", "a", "one")]).await.unwrap();
    commit(store, vec![put("10.1000/1", "b", Precondition::Live), secret("two"), secret("three")])
        .await
        .unwrap();
    commit(store, vec![put("10.1000/1", "c", Precondition::Live)]).await.unwrap();
    commit(store, vec![Edit::Remove { name: "10.1000/1".into(), precondition: Precondition::Live }])
        .await
        .unwrap();
    commit(store, vec![put("10.1000/1", "d", Precondition::Absent)]).await.unwrap();
    commit(store, vec![tombstone("10.1000/1")]).await.unwrap();
    let history = store.history(&key("10.1000/1"), WHOLE_HISTORY, 10).await.unwrap();
    let before = history.entries.iter().map(|history_entry| match &history_entry.prior {
        PriorState::Record(entry) => Some(String::from_utf8_lossy(&entry.registration).into_owned()),
        _ => None,
    });
    let expected =
        [None, Some("one"), Some("one"), Some("two"), Some("three"), Some("three"), None, Some("")];
    assert_eq!(before.collect::<Vec<_>>(), expected.map(|known| known.map(str::to_owned)));
}
