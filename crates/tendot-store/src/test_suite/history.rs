//! History entries: order, paging, secrets.

use tendot_proto::{HandleValue, ValuePermissions};

use super::{commit, key, put, tombstone};
use crate::{
    Edit, EditKind, HistoryEntry, HistoryOrder, Precondition, PriorState, RecordStatus, Store, shows_exposure,
};

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

/// Secrets are not in the history. Of those that were publicly readable, it tells whether a later one is the same.
pub async fn history_redacts_secrets(store: &impl Store) {
    let secret = |text: &'static str, permissions| HandleValue {
        permissions: ValuePermissions(permissions),
        ..HandleValue::new(300, "HS_SECKEY", text)
    };
    let put = |name: &str, secret: HandleValue<'static>| Edit::Put {
        name: name.into(),
        values: vec![secret, HandleValue::new(1, "URL", "https://example.org/")],
        precondition: Precondition::NotTombstone,
    };
    let exposed = vec![put("10.1000/2", secret("exposed", 0x0e)), put("10.1000/2", secret("private", 0x0c))];
    commit(store, exposed).await.unwrap();
    commit(store, vec![put("10.1000/2", secret("third", 0x0c))]).await.unwrap();
    let history = store.history(&key("10.1000/2"), WHOLE_HISTORY, 10).await.unwrap();
    let shows = |text| {
        let is_shown = |entry: &HistoryEntry| match &entry.prior {
            PriorState::Record(past) => {
                past.values.iter().any(|past| shows_exposure(past, &secret(text, 0x0c)))
            }
            PriorState::Absent => false,
        };
        history.entries.iter().any(is_shown)
    };
    assert_eq!(["exposed", "private", "third"].map(shows), [true, false, false]);
    assert!(!format!("{history:?}").contains("exposed"));
    let put = |text| put("10.1000/1", secret(text, 0x0c));
    commit(store, vec![put("first secret"), put("second secret")]).await.unwrap();
    commit(store, vec![put("third secret")]).await.unwrap();
    commit(store, vec![tombstone("10.1000/1")]).await.unwrap();
    let history = store.history(&key("10.1000/1"), WHOLE_HISTORY, 10).await.unwrap();
    let record = Some((RecordStatus::Live, "https://example.org/".to_owned()));
    let priors: Vec<_> = history.entries.iter().map(|history_entry| summary(history_entry).1).collect();
    assert_eq!(priors, [None, record.clone(), record.clone(), record]);
}

/// A redaction removes values and registrations of prior states, of live, retired and removed names, and keeps the log.
pub async fn history_redaction(store: &impl Store) {
    let mark = HandleValue::new(1, "MARK", "redacted");
    let register = |name: &str, data: &str, precondition| Edit::Register {
        name: name.into(),
        values: vec![HandleValue::new(1, "NOTE", data.to_owned())],
        registration: format!("registration of {data}").into_bytes().into(),
        precondition,
    };
    let redact = |name: &str, redacts_current, registration: &str, history: Vec<u64>| Edit::Redact {
        name: name.into(),
        mark: mark.clone(),
        redacts_current,
        registration: registration.as_bytes().into(),
        prior_registration: b"redacted"[..].into(),
        history: history.into_iter().map(|sequence| (sequence, b"redacted"[..].into())).collect(),
    };
    let long = format!("10.1000/{}", "x".repeat(4_000));
    for (number, name) in
        ["10.1000/Redacted", "10.1000/retired", "10.1000/removed", &long].into_iter().enumerate()
    {
        commit(store, vec![register(name, "one", Precondition::Absent)]).await.unwrap();
        // The registration stays the same.
        commit(store, vec![put(name, "two", Precondition::Live)]).await.unwrap();
        commit(store, vec![register(name, "three", Precondition::Live)]).await.unwrap();
        match number {
            1 => drop(commit(store, vec![tombstone(name)]).await.unwrap()),
            2 => {
                let remove = Edit::Remove { name: name.into(), precondition: Precondition::Live };
                commit(store, vec![remove]).await.unwrap();
            }
            _ => {}
        }
        let before = store.history(&key(name), WHOLE_HISTORY, 10).await.unwrap().entries;
        let log = store.read_log(0, 1_000).await.unwrap();
        let sequences = before.iter().map(|entry| entry.log_entry.sequence).collect();
        let is_retired = number == 1;
        let registration = if is_retired { "redacted" } else { "registration of three" };
        let revision = commit(store, vec![redact(name, is_retired, registration, sequences)]).await.unwrap();

        let after = store.history(&key(name), WHOLE_HISTORY, 10).await.unwrap().entries;
        let expected = before.len() + usize::from(number != 2);
        assert_eq!(after.len(), expected, "{name}");
        for (before, after) in before.iter().zip(&after) {
            assert_eq!(before.log_entry, after.log_entry, "{name}");
        }
        for entry in &after {
            let PriorState::Record(state) = &entry.prior else { continue };
            assert_eq!(
                (&*state.values, &*state.registration),
                (&[mark.clone()][..], &b"redacted"[..]),
                "{name}"
            );
        }
        let unchanged = |after: &HistoryEntry, before: &HistoryEntry| match (&after.prior, &before.prior) {
            (PriorState::Record(after), PriorState::Record(before)) => {
                (&after.name, after.revision, after.status) == (&before.name, before.revision, before.status)
            }
            (after, before) => after == before,
        };
        assert!(after.iter().zip(&before).all(|(after, before)| unchanged(after, before)), "{name}");
        let current = store.get(&key(name)).await.unwrap();
        match current {
            None => assert_eq!(number, 2),
            Some(current) => {
                let data = String::from_utf8_lossy(&current.values[0].data).into_owned();
                let expected = if is_retired { "redacted" } else { "three" };
                assert_eq!((&*data, current.revision), (expected, revision), "{name}");
                assert_eq!(&*current.registration, registration.as_bytes(), "{name}");
                let status = if is_retired { RecordStatus::Tombstone } else { RecordStatus::Live };
                assert_eq!(current.status, status, "{name}");
            }
        }
        let new_log = store.read_log(0, 1_000).await.unwrap();
        assert_eq!(new_log[..log.len()], log, "{name}");
        let last = new_log.last().unwrap();
        assert_eq!((last.kind, new_log.len()), (EditKind::Redact, log.len() + 1), "{name}");
        assert_eq!(last.link.previous_hash, log.last().unwrap().link.hash());
    }
    // A redacted live name can be changed again, and keeps the redacted states.
    commit(store, vec![register("10.1000/redacted", "four", Precondition::Live)]).await.unwrap();
    let history = store.history(&key("10.1000/redacted"), WHOLE_HISTORY, 10).await.unwrap().entries;
    let data = |entry: &HistoryEntry| summary(entry).1.map(|(_, data)| data);
    let states: Vec<_> = history.iter().map(data).collect();
    let redacted = || Some("redacted".to_owned());
    assert_eq!(states, [None, redacted(), redacted(), redacted(), Some("three".to_owned())]);
}
