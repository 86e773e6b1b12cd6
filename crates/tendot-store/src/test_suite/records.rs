//! Records: spelling, round trip, atomicity, tombstones, removal.

use tendot_proto::{HandleValue, Ttl, ValuePermissions, ValueReference};

use super::history::WHOLE_HISTORY;
use super::{commit, conflict, data, key, put};
use crate::model::change_set::MAX_RECORD_BYTES;
use crate::{CommitError, Edit, EditKind, Precondition, PriorState, RecordStatus, Store};

/// Names are compared without ASCII case and keep their first spelling; other letters are compared exactly.
pub async fn names_ignore_ascii_case(store: &impl Store) {
    let first = commit(store, vec![put("10.1000/Abc", "one", Precondition::Absent)]).await.unwrap();
    let again = commit(store, vec![put("10.1000/ABC", "two", Precondition::Absent)]).await;
    assert_eq!(conflict(again), Some((first, RecordStatus::Live)));
    commit(store, vec![put("10.1000/aBC", "three", Precondition::NotTombstone)]).await.unwrap();
    let entry = store.get(&key("10.1000/abc")).await.unwrap().unwrap();
    assert_eq!((&*entry.name, &*entry.values[0].data), ("10.1000/Abc", &b"three"[..]));
    for (number, name) in
        ["10.1000/é", "10.1000/É", "10.1000/K", "10.1000/\u{212a}", "10.1000/ı"].iter().enumerate()
    {
        let created = commit(store, vec![put(name, &number.to_string(), Precondition::Absent)]).await;
        assert!(created.is_ok(), "{name}");
    }
    assert_eq!(data(store, "10.1000/É").await.unwrap(), "1");
    assert_eq!(data(store, "10.1000/k").await.unwrap(), "2");
}

/// Values, values with a registration, and aux entries of exactly the maximum size are stored and returned, also from the history; one byte
/// more is refused.
pub async fn record_size_limit(store: &impl Store) {
    let values = |length: usize| vec![HandleValue::new(1, "URL", "x".repeat(length))];
    // Index, timestamp, TTL, permissions, lengths and type of a value take 29 bytes.
    let max = MAX_RECORD_BYTES - 29;
    let put = |length: usize| Edit::Put {
        name: "10.1000/large".into(),
        values: values(length),
        precondition: Precondition::NotTombstone,
    };
    let register = |length: usize| Edit::Register {
        name: "10.1000/registered".into(),
        values: values(length / 2),
        registration: vec![b'r'; length - length / 2].into(),
        precondition: Precondition::NotTombstone,
    };
    let put_aux =
        |length: usize| Edit::PutAux { key: b"large"[..].into(), value: vec![b'a'; length + 29].into() };
    for edit in [&put as &(dyn Fn(usize) -> Edit + Sync), &register, &put_aux] {
        let refused = commit(store, vec![edit(max + 1)]).await.unwrap_err();
        assert!(matches!(refused, CommitError::TooLarge { limit: MAX_RECORD_BYTES, .. }), "{refused}");
        commit(store, vec![edit(max)]).await.unwrap();
    }
    assert_eq!(store.get(&key("10.1000/large")).await.unwrap().unwrap().values, values(max));
    let registered = store.get(&key("10.1000/registered")).await.unwrap().unwrap();
    assert_eq!((registered.values, registered.registration.len()), (values(max / 2), max - max / 2));
    assert_eq!(store.get_aux(b"large").await.unwrap().map(|value| value.len()), Some(MAX_RECORD_BYTES));
    commit(store, vec![put(1)]).await.unwrap();
    let history = store.history(&key("10.1000/large"), WHOLE_HISTORY, 10).await.unwrap();
    let Some(PriorState::Record(prior)) = history.entries.last().map(|entry| &entry.prior) else {
        panic!("no prior state")
    };
    assert_eq!(prior.values, values(max));
}

/// Every field of every value is returned unchanged and in order.
pub async fn record_round_trip(store: &impl Store) {
    let odd = HandleValue {
        index: 7,
        timestamp: 1_704_164_645,
        ttl: Ttl::Absolute(1_893_456_000),
        permissions: ValuePermissions(0x0c),
        value_type: b"10320/\xff".to_vec().into(),
        data: (0..=255).collect::<Vec<u8>>().into(),
        references: vec![ValueReference::new(300, &b"0.NA/10.1000"[..]), ValueReference::new(0, &b""[..])],
    };
    let values = vec![
        HandleValue::new(100, "HS_ADMIN", "not a valid HS_ADMIN value"),
        odd,
        HandleValue {
            ttl: Ttl::Unknown { kind: 9, seconds: 5 },
            ..HandleValue::new(1, "URL", "https://example.org/10.1000/X")
        },
        HandleValue {
            permissions: ValuePermissions(0xff),
            timestamp: u32::MAX,
            ..HandleValue::new(u32::MAX, "", "")
        },
        HandleValue::new(2, "URL", "https://example.org/".repeat(3_000)),
    ];
    let name: Box<str> = "10.1000/x".into();
    let edit = Edit::Put { name: name.clone(), values: values.clone(), precondition: Precondition::Absent };
    let revision = commit(store, vec![edit]).await.unwrap();
    let entry = store.get(&key("10.1000/X")).await.unwrap().unwrap();
    assert_eq!((entry.revision, entry.status), (revision, RecordStatus::Live));
    assert_eq!(entry.values, values);
    // A record may have no values at all.
    let edit = Edit::Put { name, values: Vec::new(), precondition: Precondition::AtRevision(revision) };
    commit(store, vec![edit]).await.unwrap();
    assert_eq!(store.get(&key("10.1000/x")).await.unwrap().unwrap().values, []);
}

/// One failing edit rejects the whole change set; edits see the ones before them.
pub async fn change_sets_are_atomic(store: &impl Store) {
    commit(store, vec![put("10.1000/1", "a", Precondition::Absent)]).await.unwrap();
    let log = store.read_log(0, 100).await.unwrap().len();
    let refused = commit(
        store,
        vec![
            put("10.1000/2", "b", Precondition::Absent),
            Edit::Home { prefix: "10.1000".into() },
            put("10.1000/1", "c", Precondition::Absent),
        ],
    )
    .await;
    let CommitError::RecordConflict(conflict) = refused.unwrap_err() else { panic!() };
    assert_eq!((conflict.edit, &*conflict.name), (2, "10.1000/1"));
    assert_eq!(data(store, "10.1000/2").await, None);
    assert!(!store.is_homed(b"10.1000").await.unwrap());
    assert_eq!(store.read_log(0, 100).await.unwrap().len(), log);

    let twice =
        vec![put("10.1000/3", "a", Precondition::Absent), put("10.1000/3", "b", Precondition::Absent)];
    assert!(commit(store, twice).await.is_err());
    assert_eq!(data(store, "10.1000/3").await, None);
    let both = vec![put("10.1000/3", "a", Precondition::Absent), put("10.1000/3", "b", Precondition::Live)];
    let revision = commit(store, both).await.unwrap();
    assert_eq!(data(store, "10.1000/3").await.unwrap(), "b");
    let logged = store.read_log(log as u64, 100).await.unwrap();
    let kinds: Vec<_> = logged.iter().map(|log_entry| (log_entry.revision, log_entry.kind)).collect();
    assert_eq!(kinds, [(revision, EditKind::Create), (revision, EditKind::Update)]);
}

/// A tombstone keeps its values and can be neither replaced nor removed.
pub async fn tombstones_are_final(store: &impl Store) {
    let name: Box<str> = "10.1000/1".into();
    commit(store, vec![put(&name, "a", Precondition::Absent)]).await.unwrap();
    let end = commit(store, vec![Edit::Tombstone { name: name.clone(), precondition: Precondition::Live }])
        .await
        .unwrap();
    let entry = store.get(&key(&name)).await.unwrap().unwrap();
    assert_eq!((entry.status, &*entry.values[0].data), (RecordStatus::Tombstone, &b"a"[..]));
    for precondition in
        [Precondition::NotTombstone, Precondition::Absent, Precondition::Live, Precondition::AtRevision(end)]
    {
        assert_eq!(
            conflict(commit(store, vec![put(&name, "b", precondition)]).await),
            Some((end, RecordStatus::Tombstone))
        );
        let remove = Edit::Remove { name: name.clone(), precondition };
        assert_eq!(conflict(commit(store, vec![remove]).await), Some((end, RecordStatus::Tombstone)));
    }
}

/// A removed name is free again; the log keeps its entries.
pub async fn removed_names_can_be_recreated(store: &impl Store) {
    commit(store, vec![put("10.1000/Abc", "a", Precondition::Absent)]).await.unwrap();
    let remove = Edit::Remove { name: "10.1000/ABC".into(), precondition: Precondition::Live };
    commit(store, vec![remove.clone()]).await.unwrap();
    assert_eq!(store.get(&key("10.1000/abc")).await.unwrap(), None);
    assert_eq!(conflict(commit(store, vec![remove]).await), None);
    commit(store, vec![put("10.1000/aBC", "b", Precondition::Absent)]).await.unwrap();
    assert_eq!(&*store.get(&key("10.1000/abc")).await.unwrap().unwrap().name, "10.1000/aBC");
    let log = store.read_log(0, 10).await.unwrap();
    let log_entries: Vec<_> = log.iter().map(|log_entry| (log_entry.kind, &*log_entry.name)).collect();
    let expected = [
        (EditKind::Create, "10.1000/Abc"),
        (EditKind::Remove, "10.1000/Abc"),
        (EditKind::Create, "10.1000/aBC"),
    ];
    assert_eq!(log_entries, expected);
}
