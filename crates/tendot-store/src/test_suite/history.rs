//! History entries: order, paging, secrets.

use tendot_proto::HandleValue;

use super::{commit, key, put, tombstone};
use crate::{Edit, EditKind, HistoryEntry, HistoryOrder, Precondition, PriorState, RecordStatus, Store};

/// The kind of a change, and the status and data of its prior state.
fn summary(history_entry: &HistoryEntry) -> (EditKind, Option<(RecordStatus, String)>) {
    let prior = match &history_entry.prior {
        PriorState::Absent => None,
        PriorState::Record(entry) => {
            let data = entry.values.iter().map(|value| String::from_utf8_lossy(&value.data)).collect();
            Some((entry.status, data))
        }
    };
    (history_entry.log_entry.kind, prior)
}

pub(super) const WHOLE_HISTORY: HistoryOrder = HistoryOrder::OldestFirst { after: 0 };

/// The history of one name with prior states, also of removed and tombstoned names, and of no other name.
pub async fn history(store: &impl Store) {
    use EditKind::{Create, Remove, Tombstone, Update};
    let long = |end: &str| format!("10.1000/{}{end}", "x".repeat(4_000));
    let remove = |name: &str| Edit::Remove { name: name.into(), precondition: Precondition::Live };
    let live = |data: &str| Some((RecordStatus::Live, data.to_owned()));
    for name in ["10.1000/Abc", "10.1000", &"y".repeat(1_900), &long("1")] {
        // Names with this name as prefix have separate histories.
        for sibling in [format!("{name}\u{0}"), format!("{name}\u{0}\u{0}\u{0}\u{0}\u{0}\u{0}\u{0}\u{1}")] {
            commit(store, vec![put(&sibling, "sibling", Precondition::Absent)]).await.unwrap();
        }
        assert_eq!(store.history(&key(name), WHOLE_HISTORY, 10).await.unwrap().entries, []);
        commit(store, vec![put(name, "a", Precondition::Absent)]).await.unwrap();
        commit(store, vec![put(&name.to_ascii_uppercase(), "b", Precondition::Live)]).await.unwrap();
        // Several edits of the name in one change set.
        let several = vec![
            put("10.1000/other", "x", Precondition::NotTombstone),
            put(name, "c", Precondition::Live),
            Edit::Home { prefix: "10.1000".into() },
            remove(name),
            put(name, "d", Precondition::Absent),
            put(name, "e", Precondition::Live),
        ];
        let revision = commit(store, several).await.unwrap();
        commit(store, vec![tombstone(&name.to_ascii_lowercase())]).await.unwrap();
        commit(store, vec![put(name, "refused", Precondition::NotTombstone)]).await.unwrap_err();
        let history = store.history(&key(&name.to_ascii_lowercase()), WHOLE_HISTORY, 10).await.unwrap();
        let expected = [
            (Create, None),
            (Update, live("a")),
            (Update, live("b")),
            (Remove, live("c")),
            (Create, None),
            (Update, live("d")),
            (Tombstone, live("e")),
        ];
        assert_eq!(history.entries.iter().map(summary).collect::<Vec<_>>(), expected, "{name}");
        assert_eq!(history.next, None);
        let revisions: Vec<u64> =
            history.entries.iter().map(|history_entry| history_entry.log_entry.revision).collect();
        assert_eq!(revisions[2..6], [revision; 4]);
        let PriorState::Record(entry) = &history.entries[3].prior else { panic!() };
        assert_eq!((entry.revision, &*entry.name), (revision, name));
        for history_entry in &history.entries {
            let log_entry = store.read_log(history_entry.log_entry.sequence - 1, 1).await.unwrap();
            assert_eq!(log_entry, std::slice::from_ref(&history_entry.log_entry), "equal to the log entry");
            assert_eq!(&*history_entry.log_entry.name, name);
        }
    }
    assert_eq!(store.history(&key(&long("2")), WHOLE_HISTORY, 10).await.unwrap().entries, []);
    assert_eq!(store.history(&key("10.1000/Ab"), WHOLE_HISTORY, 10).await.unwrap().entries, []);
    // Many names created in one change set, removed, and created again.
    let names: Vec<String> = (0..4_097).map(|number| format!("10.1000/many-{number}")).collect();
    for count in [1, 2, 200, 4_096, 4_097] {
        let of_all = |edit: &dyn Fn(&str) -> Edit| names.iter().take(count).map(|name| edit(name)).collect();
        commit(store, of_all(&|name| put(name, "a", Precondition::Absent))).await.unwrap();
        commit(store, of_all(&|name| put(name, "b", Precondition::Live))).await.unwrap();
        commit(store, of_all(&remove)).await.unwrap();
        let expected = [(Create, None), (Update, live("a")), (Remove, live("b"))];
        for name in names.iter().take(count).step_by(count.div_ceil(20)).chain(names.get(count - 1)) {
            let history =
                store.history(&key(name), HistoryOrder::NewestFirst { before: u64::MAX }, 3).await.unwrap();
            let found: Vec<_> = history.entries.iter().rev().map(summary).collect();
            assert_eq!(found, expected, "{name} of {count}");
            assert!(history.entries.iter().all(|history_entry| *history_entry.log_entry.name == **name));
        }
    }
    // A removed name keeps its history.
    commit(store, vec![put("10.1000/gone", "a", Precondition::Absent)]).await.unwrap();
    commit(store, vec![remove("10.1000/gone")]).await.unwrap();
    let history = store.history(&key("10.1000/GONE"), WHOLE_HISTORY, 10).await.unwrap();
    let found: Vec<_> = history.entries.iter().map(summary).collect();
    assert_eq!(found, [(Create, None), (Remove, live("a"))]);
}

/// The history is paged in both directions with any page size; pages of large records are short.
pub async fn history_paging(store: &impl Store) {
    for number in 0..20 {
        commit(store, vec![put("10.1000/1", &number.to_string(), Precondition::NotTombstone)]).await.unwrap();
        commit(store, vec![put(&format!("10.1000/1{number}"), "x", Precondition::NotTombstone)])
            .await
            .unwrap();
    }
    let name = key("10.1000/1");
    let all = store.history(&name, WHOLE_HISTORY, 100).await.unwrap().entries;
    assert_eq!(all.len(), 20);
    for limit in [0, 1, 3, 19, 20, 21] {
        let (mut forth, mut back) = (WHOLE_HISTORY, HistoryOrder::NewestFirst { before: u64::MAX });
        for (order, is_back) in [(&mut forth, false), (&mut back, true)] {
            let mut seen = Vec::new();
            loop {
                let page = store.history(&name, *order, limit).await.unwrap();
                assert!(page.entries.len() <= limit.max(1));
                seen.extend(page.entries);
                let Some(next) = page.next else { break };
                *order = if is_back {
                    HistoryOrder::NewestFirst { before: next }
                } else {
                    HistoryOrder::OldestFirst { after: next }
                };
            }
            if is_back {
                seen.reverse();
            }
            assert_eq!(seen, all, "by {limit}");
        }
    }
    for order in [HistoryOrder::OldestFirst { after: u64::MAX }, HistoryOrder::NewestFirst { before: 0 }] {
        assert_eq!(store.history(&name, order, 9).await.unwrap().entries, []);
    }
    let large = "x".repeat(3 << 20);
    for _ in 0..5 {
        commit(store, vec![put("10.1000/large", &large, Precondition::NotTombstone)]).await.unwrap();
    }
    let page = store.history(&key("10.1000/large"), WHOLE_HISTORY, 100).await.unwrap();
    assert!(page.entries.len() < 5 && page.next.is_some());
}

/// Values of secret types are not in the history.
pub async fn history_redacts_secrets(store: &impl Store) {
    let put = |secret: &'static str| Edit::Put {
        name: "10.1000/1".into(),
        values: vec![
            HandleValue::new(300, "HS_SECKEY", secret),
            HandleValue::new(1, "URL", "https://example.org/"),
        ],
        precondition: Precondition::NotTombstone,
    };
    commit(store, vec![put("first secret"), put("second secret")]).await.unwrap();
    commit(store, vec![put("third secret")]).await.unwrap();
    commit(store, vec![tombstone("10.1000/1")]).await.unwrap();
    let history = store.history(&key("10.1000/1"), WHOLE_HISTORY, 10).await.unwrap();
    let record = Some((RecordStatus::Live, "https://example.org/".to_owned()));
    let priors: Vec<_> = history.entries.iter().map(|history_entry| summary(history_entry).1).collect();
    assert_eq!(priors, [None, record.clone(), record.clone(), record]);
}
