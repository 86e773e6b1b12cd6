//! Aux entries: edits, paging, preconditions.

use super::{commit, data, put};
use crate::{AuxCounter, AuxEntry, CommitError, Edit, Precondition, Store};

fn put_aux(key: &[u8], value: &str) -> Edit {
    Edit::PutAux { key: key.into(), value: value.as_bytes().into() }
}

fn remove_aux(key: &[u8]) -> Edit {
    Edit::RemoveAux { key: key.into() }
}

async fn aux(store: &impl Store, key: &[u8]) -> Option<String> {
    let value = store.get_aux(key).await.unwrap()?;
    Some(String::from_utf8(value.into_vec()).unwrap())
}

/// Aux entries are put, replaced and removed; they have no revision and are not logged.
pub async fn aux_entries(store: &impl Store) {
    assert_eq!(aux(store, b"a").await, None);
    assert_eq!(commit(store, vec![put_aux(b"a", "one")]).await.unwrap(), 0);
    assert_eq!(aux(store, b"a").await.unwrap(), "one");
    let first = commit(store, vec![put("10.1000/1", "x", Precondition::Absent)]).await.unwrap();
    let alone = vec![put_aux(b"a", "two"), put_aux(b"A", ""), put_aux(b"b", "b"), remove_aux(b"b")];
    assert_eq!(commit(store, alone).await.unwrap(), first);
    assert_eq!(aux(store, b"a").await.unwrap(), "two");
    assert_eq!(aux(store, b"A").await.unwrap(), "");
    assert_eq!(aux(store, b"b").await, None);
    let with = vec![put_aux(b"c", "c"), put("10.1000/2", "x", Precondition::Absent), remove_aux(b"a")];
    assert_eq!(commit(store, with).await.unwrap(), first + 1);
    assert_eq!((aux(store, b"a").await, aux(store, b"c").await.unwrap()), (None, "c".to_owned()));
    assert_eq!(commit(store, vec![remove_aux(b"never written")]).await.unwrap(), first + 1);
    let log = store.read_log(0, 100).await.unwrap();
    let log_entries: Vec<_> = log.iter().map(|log_entry| (log_entry.revision, &*log_entry.name)).collect();
    assert_eq!(log_entries, [(first, "10.1000/1"), (first + 1, "10.1000/2")]);
    // A rejected change set writes and removes nothing.
    let refused = vec![put_aux(b"d", "d"), remove_aux(b"c"), put("10.1000/1", "x", Precondition::Absent)];
    commit(store, refused).await.unwrap_err();
    assert_eq!((aux(store, b"d").await, aux(store, b"c").await.unwrap()), (None, "c".to_owned()));
    // Keys may contain any bytes, up to a maximum length.
    let longest = [0xff; AuxEntry::MAX_KEY_LEN];
    for key in [&b"\0"[..], b"\0\0", &longest] {
        commit(store, vec![put_aux(key, "odd")]).await.unwrap();
        assert_eq!(aux(store, key).await.unwrap(), "odd");
    }
    let too_long = [0xff; AuxEntry::MAX_KEY_LEN + 1];
    for key in [&b""[..], &too_long] {
        let require = Edit::RequireAux { key: key.into(), value: None };
        for edit in [put_aux(key, "none"), remove_aux(key), require] {
            let refused = commit(store, vec![put_aux(b"e", "e"), edit]).await.unwrap_err();
            assert!(matches!(refused, CommitError::InvalidAuxKey { edit: 1 }), "{refused}");
        }
        assert_eq!(aux(store, key).await, None);
    }
    assert_eq!(aux(store, b"e").await, None);
}

/// Aux entries by key prefix, in order, page by page.
pub async fn aux_paging(store: &impl Store) {
    let keys = ["a", "a/", "a/1", "a/2", "a/20", "a/3", "a0", "b/1"];
    commit(store, keys.iter().rev().map(|key| put_aux(key.as_bytes(), key)).collect()).await.unwrap();
    let cases = [
        ("", None, 100, &keys[..]),
        ("", None, 2, &keys[..2]),
        ("", Some(""), 100, &keys),
        ("", Some("a/2"), 2, &keys[4..6]),
        ("", Some("a/25"), 1, &keys[5..6]),
        ("a/", None, 100, &keys[1..6]),
        ("a/", None, 0, &[]),
        ("a/", Some("a"), 3, &keys[1..4]),
        ("a/", Some("a/"), 100, &keys[2..6]),
        ("a/", Some("a/3"), 100, &[]),
        ("a/", Some("b"), 100, &[]),
        ("a/2", None, 100, &keys[3..5]),
        ("c", None, 100, &[]),
        ("a/1/", None, 100, &[]),
        (&"b".repeat(5_000), None, 100, &[]),
        ("", Some(&"a/2".repeat(5_000)), 1, &keys[5..6]),
    ];
    for (number, (key_prefix, after, limit, expected)) in cases.into_iter().enumerate() {
        let found = store.list_aux(key_prefix.as_bytes(), after.map(str::as_bytes), limit).await.unwrap();
        assert!(found.iter().all(|entry| entry.key == entry.value));
        let found: Vec<_> = found.iter().map(|entry| String::from_utf8_lossy(&entry.key)).collect();
        assert_eq!(found, expected, "case {number}");
    }
}

/// A required aux entry is checked at its position among the edits; if it does not match, nothing is done.
pub async fn required_aux(store: &impl Store) {
    let require = |key: &[u8], value: Option<&str>| Edit::RequireAux {
        key: key.into(),
        value: value.map(|value| value.as_bytes().into()),
    };
    commit(store, vec![put_aux(b"a", "one")]).await.unwrap();
    let writes = || [put("10.1000/1", "x", Precondition::Absent), put_aux(b"written", "x")];
    let unmet: [&dyn Fn() -> Vec<Edit>; 7] = [
        &|| vec![require(b"a", None)],
        &|| vec![require(b"a", Some("two"))],
        &|| vec![require(b"a", Some(""))],
        &|| vec![require(b"b", Some(""))],
        &|| vec![put_aux(b"a", "two"), require(b"a", Some("one"))],
        &|| vec![remove_aux(b"a"), require(b"a", Some("one"))],
        &|| vec![put_aux(b"b", "two"), require(b"b", None)],
    ];
    for edits in unmet {
        for edits in [
            edits(),
            writes().into_iter().chain(edits()).collect(),
            edits().into_iter().chain(writes()).collect(),
        ] {
            let at = edits.iter().position(|edit| matches!(edit, Edit::RequireAux { .. })).unwrap();
            let refused = commit(store, edits).await.unwrap_err();
            assert!(matches!(refused, CommitError::AuxConflict { edit } if edit == at), "{refused}");
            assert_eq!((data(store, "10.1000/1").await, aux(store, b"written").await), (None, None));
            assert_eq!((aux(store, b"a").await.unwrap(), aux(store, b"b").await), ("one".to_owned(), None));
        }
    }
    let met = vec![
        require(b"a", Some("one")),
        require(b"b", None),
        put_aux(b"a", "two"),
        require(b"a", Some("two")),
        remove_aux(b"a"),
        require(b"a", None),
        put_aux(b"b", "three"),
    ];
    let revision = commit(store, met.into_iter().chain(writes()).collect()).await.unwrap();
    assert_eq!((aux(store, b"a").await, aux(store, b"b").await.unwrap()), (None, "three".to_owned()));
    assert_eq!(commit(store, vec![require(b"b", Some("three"))]).await.unwrap(), revision);
}

/// Counters are adjusted without conflicts, within their limit; a counter that does not exist is not created.
pub async fn aux_counters(store: &impl Store) {
    let adjust = |added: u64, subtracted: u64, limit: Option<u64>| Edit::AdjustCounter {
        key: b"counter"[..].into(),
        added,
        subtracted,
        limit,
    };
    let counter = async || {
        let value = store.get_aux(b"counter").await.unwrap()?;
        AuxCounter::decode(&value).map(AuxCounter::count)
    };
    let is_refused = async |edits: Vec<Edit>| {
        let at = edits.len() - 1;
        let refused = commit(store, edits).await.unwrap_err();
        assert!(matches!(refused, CommitError::AuxConflict { edit } if edit == at), "{refused}");
    };
    commit(store, vec![adjust(0, 1, None)]).await.unwrap();
    assert_eq!(counter().await, None);
    is_refused(vec![adjust(1, 0, Some(10))]).await;
    let value = AuxCounter { added: 3, subtracted: 1 }.encode();
    commit(store, vec![Edit::PutAux { key: b"counter"[..].into(), value }]).await.unwrap();
    commit(store, vec![put("10.1000/1", "x", Precondition::Absent), adjust(2, 0, Some(4))]).await.unwrap();
    assert_eq!(counter().await, Some(4));
    is_refused(vec![put("10.1000/2", "x", Precondition::Absent), adjust(1, 0, Some(4))]).await;
    assert_eq!((counter().await, data(store, "10.1000/2").await), (Some(4), None));
    // Each edit sees those before it; the limit does not matter if nothing is added.
    is_refused(vec![adjust(1, 0, Some(5)), adjust(1, 0, Some(5))]).await;
    commit(store, vec![adjust(0, 1, Some(1)), adjust(1, 0, Some(4))]).await.unwrap();
    assert_eq!(counter().await, Some(4));
    commit(store, vec![remove_aux(b"counter"), adjust(0, 1, None)]).await.unwrap();
    assert_eq!(counter().await, None);
}
