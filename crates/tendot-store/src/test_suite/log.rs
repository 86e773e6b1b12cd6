//! The change log, names at a revision, change counters.

use super::{commit, key, put, tombstone};
use crate::{ChangeSet, Edit, EditKind, HistoryOrder, Precondition, Store, StoreHead};

/// The log contains every edit once and in order, and can be read page by page.
pub async fn change_log(store: &impl Store) {
    for number in 0..30 {
        let change = ChangeSet {
            author: format!("person {number}").into(),
            timestamp_ms: 1_700_000_000_000 + number,
            edits: vec![put(&format!("10.1000/{}", number % 20), "x", Precondition::NotTombstone)],
        };
        store.commit(change).await.unwrap();
    }
    let whole = store.read_log(0, 1000).await.unwrap();
    assert_eq!(whole.len(), 30);
    for (number, log_entry) in whole.iter().enumerate() {
        assert_eq!(log_entry.sequence, number as u64 + 1);
        assert_eq!(
            (log_entry.timestamp_ms, &*log_entry.author),
            (1_700_000_000_000 + number as u64, &*format!("person {number}"))
        );
        assert_eq!(log_entry.kind, if number < 20 { EditKind::Create } else { EditKind::Update });
        assert_eq!(*log_entry.name, *format!("10.1000/{}", number % 20));
    }
    assert!(whole.windows(2).all(|pair| pair[0].revision < pair[1].revision));
    let (mut pages, mut after) = (Vec::new(), 0);
    loop {
        let page = store.read_log(after, 7).await.unwrap();
        let Some(last) = page.last() else { break };
        after = last.sequence;
        pages.extend(page);
    }
    assert_eq!(pages, whole);
    assert_eq!(store.read_log(u64::MAX, 10).await.unwrap(), []);
}

/// The head is the end of the log, and each log entry continues the audit chain.
pub async fn audit_chain(store: &impl Store) {
    assert_eq!(store.head().await.unwrap(), StoreHead::default());
    let aux = |value: &str| Edit::PutAux { key: b"key".as_slice().into(), value: value.as_bytes().into() };
    let require = Edit::RequireRevision { name: "10.1000/a".into(), revision: Some(1) };
    let changes = [
        (vec![put("10.1000/a", "1", Precondition::Absent)], 1),
        (vec![require], 0),
        (vec![aux("1")], 0),
        (vec![put("10.1000/a", "2", Precondition::Live), aux("2"), tombstone("10.1000/a")], 2),
        (vec![Edit::Home { prefix: "10.1000".into() }, Edit::Unhome { prefix: "10.1000".into() }], 2),
        (vec![put("10.1000/b", "1", Precondition::Absent), put("10.1000/a", "3", Precondition::Live)], 0),
    ];
    let mut head = StoreHead::default();
    for (edits, entries) in changes {
        let result = commit(store, edits).await;
        let log = store.read_log(head.sequence, 100).await.unwrap();
        assert_eq!(log.len(), entries);
        for entry in log {
            assert_eq!(entry.link.previous_hash, head.log_hash);
            assert_eq!(entry.link.content_digest, entry.compute_content_digest());
            assert_eq!(entry.sequence, head.sequence + 1);
            head =
                StoreHead { revision: entry.revision, sequence: entry.sequence, log_hash: entry.link.hash() };
        }
        assert_eq!(store.head().await.unwrap(), head);
        assert_eq!(result.unwrap_or(head.revision), head.revision);
    }
    // Every store computes this hash.
    assert_eq!(
        head.to_string(),
        "revision 3, log entry 5, hash 876e6a2681a07d168a2aec114033d1839df4ad4161629752b6ed7ac9303188e1"
    );
}

/// Names whose record has a revision, as long as it is their latest. An import is one revision.
pub async fn names_at_revision(store: &impl Store) {
    let names: Vec<String> = (0..40).map(|number| format!("10.1000/Rec-{number:02}")).collect();
    let long = format!("10.1000/{}", "x".repeat(3_000));
    commit(store, vec![put("10.1000/before", "x", Precondition::Absent)]).await.unwrap();
    let all = names.iter().chain([&long]).map(|name| put(name, "x", Precondition::Absent)).collect();
    let import = commit(store, all).await.unwrap();
    assert_eq!(names_by_page(store, import, 100).await.len(), 41);
    let later = vec![
        put("10.1000/rec-00", "y", Precondition::Live),
        tombstone("10.1000/rec-07"),
        Edit::Remove { name: "10.1000/rec-08".into(), precondition: Precondition::Live },
        put("10.1000/rec-08a", "y", Precondition::Absent),
    ];
    let later = commit(store, later).await.unwrap();
    let untouched = |name: &String| !["00", "07", "08"].iter().any(|number| name.ends_with(number));
    let expected: Vec<_> = names.iter().filter(|name| untouched(name)).chain([&long]).cloned().collect();
    for limit in [1, 2, 37, 38, 39, 1_000] {
        assert_eq!(names_by_page(store, import, limit).await, expected, "by {limit}");
    }
    let touched = ["10.1000/Rec-00", "10.1000/Rec-07", "10.1000/rec-08a"];
    assert_eq!(names_by_page(store, later, 2).await, touched);
    assert!(names_by_page(store, later + 1, 2).await.is_empty());
}

/// A change set with an earlier time than the one before gets the time of that one.
pub async fn times_never_decrease(store: &impl Store) {
    let commit_at = async |timestamp_ms: u64, name: &str| {
        let edits = vec![put(name, "x", Precondition::NotTombstone)];
        store.commit(ChangeSet { author: "test".into(), timestamp_ms, edits }).await.unwrap();
    };
    for (timestamp_ms, name) in
        [(1_000, "10.1/a"), (3_000, "10.1/b"), (2_000, "10.1/a"), (3_000, "10.1/c"), (4_000, "10.1/b")]
    {
        commit_at(timestamp_ms, name).await;
    }
    let log = store.read_log(0, 10).await.unwrap();
    let times: Vec<u64> = log.iter().map(|log_entry| log_entry.timestamp_ms).collect();
    assert_eq!(times, [1_000, 3_000, 3_000, 3_000, 4_000]);
    let history = store.history(&key("10.1/a"), HistoryOrder::OldestFirst { after: 0 }, 10).await.unwrap();
    let times: Vec<u64> = history.entries.iter().map(|entry| entry.log_entry.timestamp_ms).collect();
    assert_eq!(times, [1_000, 3_000]);
}

/// A change counter is current until its record changes; failed changes may count, other records do not.
pub async fn change_counters(store: &impl Store) {
    let Some(counters) = store.change_counters() else { return };
    commit(store, vec![put("10.1000/a", "1", Precondition::Absent)]).await.unwrap();
    let version = || counters.version_of(&key("10.1000/A")).unwrap();
    let other = counters.version_of(&key("10.1000/b")).unwrap();
    // A store that reads its own log may count a change twice, but not indefinitely.
    let mut before = version();
    for attempt in 0.. {
        commit(store, vec![put("10.1000/c", "1", Precondition::NotTombstone)]).await.unwrap();
        assert!(counters.is_current(other));
        if counters.is_current(before) {
            break;
        }
        assert!(attempt < 20, "changes of other records count");
        before = version();
    }
    commit(store, vec![put("10.1000/a", "2", Precondition::Live)]).await.unwrap();
    assert!(!counters.is_current(before) && counters.is_current(other));
    let before = version();
    commit(store, vec![put("0.NA/10.1000", "1", Precondition::NotTombstone)]).await.unwrap();
    assert!(!counters.is_current(before) && !counters.is_current(other));
    let before = version();
    commit(store, vec![Edit::Home { prefix: "10.1000".into() }]).await.unwrap();
    assert!(!counters.is_current(before));
    let before = version();
    commit(store, vec![Edit::Remove { name: "10.1000/a".into(), precondition: Precondition::Live }])
        .await
        .unwrap();
    assert!(!counters.is_current(before));
}

async fn names_by_page(store: &impl Store, revision: u64, limit: usize) -> Vec<String> {
    let (mut names, mut after) = (Vec::new(), None);
    loop {
        let page = store.names_at_revision(revision, after.as_ref(), limit).await.unwrap();
        assert!(page.names.len() <= limit);
        names.extend(page.names.into_iter().map(|entry| entry.name.into_string()));
        after = page.next;
        if after.is_none() {
            return names;
        }
    }
}
