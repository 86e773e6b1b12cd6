//! Everything readable in a store, to compare two stores.

use std::collections::BTreeMap;

use tendot_store::{
    AuxEntry, EditKind, History, HistoryEntry, HistoryOrder, LogEntry, NameKey, Store, StoreHead,
    StoredRecord,
};

#[derive(Debug, PartialEq)]
pub(super) struct StoreDump {
    pub(super) head: StoreHead,
    pub(super) records: Vec<StoredRecord>,
    pub(super) log: Vec<LogEntry>,
    /// Oldest first, by name in upper case.
    pub(super) histories: BTreeMap<String, Vec<HistoryEntry>>,
    /// Names that still have the revision of an import, for each import.
    pub(super) imports: Vec<Vec<Box<str>>>,
    lists: Vec<String>,
    pub(super) homed: Vec<Box<str>>,
    pub(super) aux_entries: Vec<AuxEntry>,
}

pub(super) async fn dump(store: &impl Store) -> StoreDump {
    let mut records = Vec::new();
    let visit = |record: &StoredRecord| {
        records.push(record.clone());
        true
    };
    store.scan_records(None, None, visit).await.unwrap();
    let log = store.read_log(0, usize::MAX >> 1).await.unwrap();
    let is_record_change =
        |entry: &&LogEntry| !matches!(entry.kind, EditKind::Home | EditKind::Unhome | EditKind::Import);
    let mut names: Vec<String> = records.iter().map(|record| record.name.to_string()).collect();
    names.extend(log.iter().filter(is_record_change).map(|entry| entry.name.to_string()));
    names.sort_by_key(|name| name.to_ascii_uppercase());
    names.dedup_by(|a, b| a.eq_ignore_ascii_case(b));
    let (mut histories, mut lists) = (BTreeMap::new(), Vec::new());
    for name in names {
        // Some of the many similar names are enough.
        let is_one_of_many = name.strip_prefix("10.9/").is_some_and(|number| !number.ends_with("77"));
        if !is_one_of_many {
            let key = NameKey::new(&name).unwrap();
            lists.push(format!("{:?} {:?}", key, store.get(&key).await.unwrap()));
            histories.insert(name.to_ascii_uppercase(), history(store, &key).await);
        }
    }
    for prefix in ["10.0", "10.1", "10.2", "10.9"] {
        lists.push(format!("{:?}", store.list_names(prefix.as_bytes(), None, 10_000).await.unwrap()));
        lists.push(format!("{:?}", store.count_names(prefix.as_bytes(), None, 10_000).await.unwrap()));
    }
    let last = log.last().map_or(0, |log_entry| log_entry.revision);
    for revision in (1..=last).rev().take(50).chain(1..=3) {
        let page = store.names_at_revision(revision, None, 1_000).await.unwrap();
        lists.push(format!("{revision} {page:?}"));
    }
    let mut imports = Vec::new();
    for log_entry in log.iter().filter(|log_entry| log_entry.kind == EditKind::Import) {
        imports.push(names_at_revision(store, log_entry.revision).await);
    }
    let homed = store.list_homed(None, 1_000).await.unwrap();
    let aux_entries = store.list_aux(b"", None, 10_000).await.unwrap();
    let head = store.head().await.unwrap();
    StoreDump { head, records, log, histories, imports, lists, homed, aux_entries }
}

#[track_caller]
pub(super) fn assert_same(one: &StoreDump, other: &StoreDump) {
    assert_eq!(one.log, other.log);
    for (one, other) in one.records.iter().zip(&other.records) {
        assert_eq!(one, other);
    }
    for (one, other) in one.histories.iter().zip(&other.histories) {
        assert_eq!(one, other);
    }
    assert_eq!(one, other);
}

/// The whole history of a name; checks that all pages in both orders have the same entries.
async fn history(store: &impl Store, key: &NameKey) -> Vec<HistoryEntry> {
    let oldest = pages(store, key, |after| HistoryOrder::OldestFirst { after }, 0).await;
    let mut newest = pages(store, key, |before| HistoryOrder::NewestFirst { before }, u64::MAX).await;
    newest.reverse();
    assert_eq!(oldest, newest, "{key}");
    let whole = store.history(key, HistoryOrder::OldestFirst { after: 0 }, usize::MAX).await.unwrap();
    assert_eq!(whole, History { entries: oldest.clone(), next: None }, "{key}");
    oldest
}

async fn pages(
    store: &impl Store,
    key: &NameKey,
    order: impl Fn(u64) -> HistoryOrder,
    first: u64,
) -> Vec<HistoryEntry> {
    let (mut entries, mut next) = (Vec::new(), Some(first));
    // The first pages have one entry each.
    let mut limits = [1; 5].into_iter();
    while let Some(position) = next {
        let history = store.history(key, order(position), limits.next().unwrap_or(7)).await.unwrap();
        entries.extend(history.entries);
        next = history.next;
    }
    entries
}

async fn names_at_revision(store: &impl Store, revision: u64) -> Vec<Box<str>> {
    let (mut names, mut after) = (Vec::new(), None);
    loop {
        let page = store.names_at_revision(revision, after.as_ref(), 3).await.unwrap();
        names.extend(page.names.into_iter().map(|listed| listed.name));
        after = page.next;
        if after.is_none() {
            return names;
        }
    }
}
