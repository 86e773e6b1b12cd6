//! Imports into the embedded store: sorting, merging, repetition, interruption, limits, history.

use std::collections::BTreeMap;
use std::path::Path;

use pollster::block_on;
use tendot_proto::{HandleValue, ValueReference};
use tendot_store::{
    ChangeSet, CommitError, Edit, EditKind, EmbeddedImporter, EmbeddedStore, HistoryOrder, ImportError,
    ImportSummary, NameKey, OpenError, Precondition, PriorState, RecordStatus, Store, StoredRecord,
};
use tendot_testing::{is_full_run, ram_dir};

fn values(data: &str) -> Vec<HandleValue<'static>> {
    vec![
        HandleValue { timestamp: 1_700_000_000, ..HandleValue::new(1, "URL", data.to_owned()) },
        HandleValue::new(100, "HS_ADMIN", "administrator data"),
    ]
}

fn import(directory: &Path, buffer: usize, records: &[(String, String)]) -> ImportSummary {
    let mut importer =
        EmbeddedImporter::open(directory, "importer", 1_700_000_000_000).unwrap().buffer_bytes(buffer);
    for (name, data) in records {
        importer.add((**name).into(), &values(data)).unwrap();
        importer.home_prefix(name.split('/').next().unwrap()).unwrap();
    }
    let mut reports = 0;
    let imported = importer.finish(|_| reports += 1).unwrap();
    assert!(reports > 0);
    imported
}

/// All records, read page by page.
pub(crate) fn scan(store: &EmbeddedStore) -> Vec<StoredRecord> {
    let mut all: Vec<StoredRecord> = Vec::new();
    loop {
        let (after, before) = (all.last().map(|last| NameKey::new(&last.name).unwrap()), all.len());
        let visit = |record: &StoredRecord| {
            all.push(record.clone());
            all.len() < before + 777
        };
        block_on(store.scan_records(None, after.as_ref(), visit)).unwrap();
        if all.len() == before {
            return all;
        }
    }
}

/// Unsorted records are stored completely, with many sorted runs or one.
#[test]
fn imports_unsorted_records() {
    let records: Vec<(String, String)> = (0..5_000_u64)
        .map(|number| {
            let mixed = number.wrapping_mul(2_654_435_761) % 5_000;
            (format!("10.{}/Rec-{mixed}", mixed % 7), format!("https://example.org/articles/{mixed}"))
        })
        .collect();
    for buffer in [10_000, 300_000, 100_000_000] {
        let directory = ram_dir();
        let imported = import(directory.path(), buffer, &records);
        assert_eq!((imported.created, imported.changed, imported.unchanged), (5_000, 0, 0));
        assert!(!directory.path().join("import-runs").exists(), "runs are removed");
        let store = EmbeddedStore::open(directory.path()).unwrap();
        let found: BTreeMap<String, Vec<u8>> = scan(&store)
            .into_iter()
            .map(|entry| (entry.name.into_string(), entry.values[0].data.to_vec()))
            .collect();
        let expected: BTreeMap<String, Vec<u8>> =
            records.iter().map(|(name, data)| (name.clone(), data.clone().into_bytes())).collect();
        assert_eq!(found, expected);
        // One log entry for each homed prefix, and one for the import.
        let log = block_on(store.read_log(0, 100)).unwrap();
        assert_eq!(log.len(), 8);
        assert_eq!(
            (log[7].kind, log[7].record_count, &*log[7].author),
            (EditKind::Import, 5_000, "importer")
        );
        assert!(log[..7].iter().all(|log_entry| log_entry.kind == EditKind::Home));
        assert!(block_on(store.is_homed(b"10.3")).unwrap());
        let first = block_on(store.get(&NameKey::new("10.1/rec-1").unwrap())).unwrap().unwrap();
        assert_eq!(
            (first.revision, first.values),
            (log[7].revision, values("https://example.org/articles/1"))
        );
    }
}

/// Repeating an import changes nothing; changed records keep their spelling; tombstones stay.
#[test]
fn reimport_is_idempotent() {
    let directory = ram_dir();
    let record = |name: &str, data: &str| (name.to_owned(), data.to_owned());
    let records: Vec<_> =
        (0..100).map(|number| record(&format!("10.1000/Rec-{number}"), "https://a/")).collect();
    import(directory.path(), 1_000, &records);
    let second = import(directory.path(), 1_000, &records);
    assert_eq!((second.created, second.changed, second.unchanged), (0, 0, 100));
    let store = EmbeddedStore::open(directory.path()).unwrap();
    let log = block_on(store.read_log(0, 100)).unwrap();
    assert_eq!(log.len(), 2, "nothing is logged if nothing changed");
    let tombstone = Edit::Tombstone { name: "10.1000/rec-7".into(), precondition: Precondition::Live };
    block_on(store.commit(ChangeSet { author: "tester".into(), timestamp_ms: 0, edits: vec![tombstone] }))
        .unwrap();
    assert!(matches!(EmbeddedImporter::open(directory.path(), "x", 0), Err(OpenError::Locked(_))));
    drop(store);

    let changes = [
        record("10.1000/REC-1", "https://b/"),
        record("10.1000/rec-7", "https://b/"),
        record("10.1000/new", "https://b/"),
        record("10.1000/Rec-2", "https://a/"),
        record("10.1000/NEW", "https://c/"),
    ];
    for (round, expected) in [(0, (1, 1, 1)), (1, (0, 0, 3))] {
        let imported = import(directory.path(), 1, &changes);
        assert_eq!((imported.created, imported.changed, imported.unchanged), expected, "round {round}");
        assert_eq!(imported.superseded, 1, "the same name twice");
        assert_eq!((imported.tombstoned, imported.tombstoned_names), (1, vec!["10.1000/Rec-7".into()]));
    }
    let store = EmbeddedStore::open(directory.path()).unwrap();
    let get = |name: &str| block_on(store.get(&NameKey::new(name).unwrap())).unwrap().unwrap();
    assert_eq!(
        (&*get("10.1000/rec-1").name, &*get("10.1000/rec-1").values[0].data),
        ("10.1000/Rec-1", &b"https://b/"[..])
    );
    assert_eq!(
        (&*get("10.1000/new").name, &*get("10.1000/new").values[0].data),
        ("10.1000/new", &b"https://c/"[..])
    );
    assert_eq!(get("10.1000/rec-7").status, RecordStatus::Tombstone);
}

/// Long names, whose storage keys are ordered only by their beginning.
#[test]
fn long_names() {
    let directory = ram_dir();
    let records: Vec<(String, String)> = (0..50)
        .map(|number| (format!("10.1000/{}{number}", "x".repeat(3_000)), format!("https://a/{number}")))
        .collect();
    import(directory.path(), 50_000, &records);
    let store = EmbeddedStore::open(directory.path()).unwrap();
    for (name, data) in &records {
        let entry = block_on(store.get(&NameKey::new(name).unwrap())).unwrap().unwrap();
        assert_eq!((&*entry.name, &*entry.values[0].data), (&**name, data.as_bytes()));
    }
    assert_eq!(scan(&store).len(), 50);
}

#[test]
fn rejects_invalid_records_only() {
    let directory = ram_dir();
    let mut importer = EmbeddedImporter::open(directory.path(), "importer", 0).unwrap();
    assert!(matches!(importer.add("".into(), &[]), Err(ImportError::InvalidName(_))));
    assert!(matches!(importer.add("x".repeat(5_000).into(), &[]), Err(ImportError::InvalidName(_))));
    let large = [HandleValue::with_data(1, "URL", vec![0; 5 << 20])];
    assert!(matches!(importer.add("10.1000/1".into(), &large), Err(ImportError::TooLarge { .. })));
    importer.add("10.1000/2".into(), &values("https://a/")).unwrap();
    assert_eq!(importer.finish(|_| {}).unwrap().created, 1);
}

/// A transaction is limited by bytes, however large the records are.
#[test]
fn transactions_are_bounded_by_bytes() {
    let directory = ram_dir();
    let mut importer = EmbeddedImporter::open(directory.path(), "importer", 0).unwrap();
    for number in 0..40 {
        let large = [HandleValue::with_data(1, "DESC", vec![number; 1 << 20])];
        importer.add(format!("10.1000/{number}").into(), &large).unwrap();
    }
    let mut reports = Vec::new();
    assert_eq!(importer.finish(|imported| reports.push(imported.created)).unwrap().created, 40);
    assert!(reports.len() >= 3, "{reports:?}");
    let store = EmbeddedStore::open(directory.path()).unwrap();
    assert_eq!(scan(&store).len(), 40);
}

/// References count towards the size limit, for imports and for commits.
#[test]
fn all_bytes_of_a_record_count() {
    let directory = ram_dir();
    let references = (0..5).map(|index| ValueReference::new(index, vec![b'x'; 1 << 20])).collect();
    let large = vec![HandleValue { references, ..HandleValue::new(1, "DESC", "") }];
    let mut importer = EmbeddedImporter::open(directory.path(), "importer", 0).unwrap();
    let result = importer.add("10.1000/1".into(), &large);
    assert!(matches!(result, Err(ImportError::TooLarge { limit: 4_194_304, .. })));
    drop(importer);
    assert!(!directory.path().join("import-runs").exists(), "an abandoned import leaves nothing");
    let store = EmbeddedStore::open(directory.path()).unwrap();
    let put = Edit::Put { name: "10.1000/1".into(), values: large, precondition: Precondition::NotTombstone };
    let result =
        block_on(store.commit(ChangeSet { author: "tester".into(), timestamp_ms: 0, edits: vec![put] }));
    assert!(matches!(result, Err(CommitError::TooLarge { limit: 4_194_304, .. })));
}

/// An import is interrupted after its first transaction: the written records are logged, and a repeated import writes the rest.
#[test]
fn interrupted_import_is_completed() {
    // 50,000 is the default.
    let (count, per_transaction) = if is_full_run() { (120_000, 50_000) } else { (1_200, 500) };
    let directory = ram_dir();
    let records: Vec<(String, String)> =
        (0..count).map(|number| (format!("10.1000/{number:07}"), format!("https://a/{number}"))).collect();
    let interrupted = std::panic::catch_unwind(|| {
        let mut importer = EmbeddedImporter::open(directory.path(), "importer", 5)
            .unwrap()
            .records_per_transaction(per_transaction);
        for (name, data) in &records {
            importer.add((**name).into(), &values(data)).unwrap();
        }
        importer.finish(|_| std::panic::resume_unwind(Box::new("interrupted"))).unwrap();
    });
    assert!(interrupted.is_err());
    let store = EmbeddedStore::open(directory.path()).unwrap();
    let log = block_on(store.read_log(0, 10)).unwrap();
    assert_eq!(log.len(), 1);
    assert_eq!(
        (log[0].kind, log[0].record_count, log[0].timestamp_ms),
        (EditKind::Import, per_transaction, 5)
    );
    assert_eq!(scan(&store).len() as u64, per_transaction);
    drop(store);
    let second = import(directory.path(), 32 << 20, &records);
    assert_eq!(
        (second.created, second.changed, second.unchanged),
        (count - per_transaction, 0, per_transaction)
    );
    let store = EmbeddedStore::open(directory.path()).unwrap();
    assert_eq!(block_on(store.read_log(0, 10)).unwrap().len(), 3);
    assert_eq!(scan(&store).len() as u64, count);
}

/// An import that is interrupted before its first change leaves nothing: no log entry, and its revision is not used.
#[test]
fn interrupted_import_without_changes_is_not_logged() {
    let directory = ram_dir();
    let records: Vec<(String, String)> =
        (0..3).map(|number| (format!("10.1000/{number}"), format!("https://a/{number}"))).collect();
    import(directory.path(), 32 << 20, &records);
    let log = block_on(EmbeddedStore::open(directory.path()).unwrap().read_log(0, 10)).unwrap();
    let interrupted = std::panic::catch_unwind(|| {
        let mut importer =
            EmbeddedImporter::open(directory.path(), "importer", 5).unwrap().records_per_transaction(1);
        for (name, data) in &records {
            importer.add((**name).into(), &values(data)).unwrap();
        }
        importer.finish(|_| std::panic::resume_unwind(Box::new("interrupted"))).unwrap();
    });
    assert!(interrupted.is_err());
    let store = EmbeddedStore::open(directory.path()).unwrap();
    assert_eq!(store.verify(|_| {}).unwrap().errors, [""; 0]);
    assert_eq!(block_on(store.read_log(0, 10)).unwrap(), log);
    let put = Edit::Put {
        name: "10.1000/0".into(),
        values: values("https://b/"),
        precondition: Precondition::Live,
    };
    let change = ChangeSet { author: "tester".into(), timestamp_ms: 6, edits: vec![put] };
    let last = log.last().unwrap().revision;
    assert_eq!(block_on(store.commit(change)).unwrap().revision, last + 1);
    assert_eq!(store.verify(|_| {}).unwrap().errors, [""; 0]);
}

/// Values up to the size limit of a record are imported, also from run files; larger records are rejected when they are added.
#[test]
fn large_values() {
    let data = |bytes: usize| [HandleValue::new(1, "URL", "x".repeat(bytes))];
    // Index, timestamp, TTL, permissions, lengths and type of a value take 29 bytes.
    let max = (4 << 20) - 29;
    for buffer in [1, 32 << 20] {
        let directory = ram_dir();
        let importer = EmbeddedImporter::open(directory.path(), "importer", 1).unwrap();
        let mut importer = importer.buffer_bytes(buffer);
        for (name, bytes) in [("10.1/2", 2 << 20), ("10.1/4", max)] {
            importer.add(name.into(), &data(bytes)).unwrap();
        }
        let error = importer.add("10.1/5".into(), &data(max + 1)).unwrap_err();
        assert!(matches!(error, ImportError::TooLarge { .. }), "{error}");
        assert_eq!(importer.finish(|_| {}).unwrap().created, 2);
        let store = EmbeddedStore::open(directory.path()).unwrap();
        let record = block_on(store.get(&NameKey::new("10.1/4").unwrap())).unwrap().unwrap();
        assert_eq!(record.values, data(max));
    }
}

/// The names of an import are found by its revision, with a bounded number of records per call.
#[test]
fn names_at_import_revision() {
    let directory = ram_dir();
    let names = |from: u32, to: u32| -> Vec<(String, String)> {
        (from..to).map(|number| (format!("10.1000/{number:07}"), "https://a/".into())).collect()
    };
    import(directory.path(), 32 << 20, &names(0, 25_000));
    import(directory.path(), 32 << 20, &names(24_999, 25_002));
    let store = EmbeddedStore::open(directory.path()).unwrap();
    let log = block_on(store.read_log(0, 10)).unwrap();
    let imports: Vec<_> = log.iter().filter(|log_entry| log_entry.kind == EditKind::Import).collect();
    let page = |revision, after: Option<&NameKey>, limit| {
        let page = block_on(store.names_at_revision(revision, after, limit)).unwrap();
        (page.names.len(), page.next)
    };
    let (first, next) = page(imports[0].revision, None, 9_000);
    assert_eq!((first, next.as_ref()), (9_000, Some(&NameKey::new("10.1000/0008999").unwrap())));
    // The names of the second import come after all others.
    let (mut found, mut after, mut calls) = (0, None, 0);
    loop {
        let (names, next) = page(imports[1].revision, after.as_ref(), 100_000);
        found += names;
        calls += 1;
        after = next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!((found, calls), (2, 3));
    assert_eq!(imports[1].record_count, 2);
}

/// Imports are in the history of records that they created, changed, or created again.
#[test]
fn imports_are_in_the_history() {
    use EditKind::{Create, Import, Remove, Update};
    let directory = ram_dir();
    let put = |name: &str, data: &str| Edit::Put {
        name: name.into(),
        values: values(data),
        precondition: Precondition::NotTombstone,
    };
    let remove = |name: &str| Edit::Remove { name: name.into(), precondition: Precondition::Live };
    let commit = |edits| {
        let change = ChangeSet { author: "tester".into(), timestamp_ms: 1, edits };
        block_on(EmbeddedStore::open(directory.path()).unwrap().commit(change)).unwrap();
    };
    let long_name = format!("10.1/{}", "x".repeat(3_000));
    let record = |name: &str, data: &str| (name.to_owned(), data.to_owned());
    commit(vec![put("10.1/found", "a"), put("10.1/removed", "a"), put("10.1/same", "i")]);
    commit(vec![remove("10.1/removed")]);
    let names = ["10.1/only", "10.1/found", "10.1/removed", "10.1/same", "10.1/changed", &long_name];
    import(directory.path(), 100, &names.map(|name| record(name, "i")));
    import(
        directory.path(),
        100,
        &[record("10.1/Found", "j"), record("10.1/only", "i"), record(&long_name, "j")],
    );
    commit(vec![put("10.1/removed", "b"), put("10.1/changed", "b"), put("10.1/changed", "c")]);

    let store = EmbeddedStore::open(directory.path()).unwrap();
    let check = |name: &str, expected: &[(EditKind, Option<&str>)]| {
        let key = NameKey::new(name).unwrap();
        for limit in [1, 2, 100] {
            for newest_first in [false, true] {
                let (mut found, mut from) = (Vec::new(), if newest_first { u64::MAX } else { 0 });
                loop {
                    let order = match newest_first {
                        true => HistoryOrder::NewestFirst { before: from },
                        false => HistoryOrder::OldestFirst { after: from },
                    };
                    let history = block_on(store.history(&key, order, limit)).unwrap();
                    found.extend(history.entries.into_iter().map(
                        |history_entry| match history_entry.prior {
                            PriorState::Absent => (history_entry.log_entry.kind, None),
                            PriorState::Record(entry) => (history_entry.log_entry.kind, Some(entry.values)),
                        },
                    ));
                    let Some(next) = history.next else { break };
                    from = next;
                }
                if newest_first {
                    found.reverse();
                }
                let expected: Vec<_> =
                    expected.iter().map(|(kind, data)| (*kind, data.map(values))).collect();
                assert_eq!(found, expected, "{name} by {limit}");
            }
        }
    };
    check("10.1/ONLY", &[(Import, None)]);
    check("10.1/found", &[(Create, None), (Import, Some("a")), (Import, Some("i"))]);
    check("10.1/removed", &[(Create, None), (Remove, Some("a")), (Import, None), (Update, Some("i"))]);
    check("10.1/same", &[(Create, None)]);
    check("10.1/changed", &[(Import, None), (Update, Some("i")), (Update, Some("b"))]);
    check(&long_name, &[(Import, None), (Import, Some("i"))]);
    check("10.1/none", &[]);
    assert_eq!(store.verify(|_| {}).unwrap().errors, [""; 0]);
}

/// An import keeps registrations, also in the history, and aux entries.
#[test]
fn import_keeps_registrations_and_aux() {
    let directory = ram_dir();
    let store = EmbeddedStore::open(directory.path()).unwrap();
    let edits = vec![
        Edit::Register {
            name: "10.1/found".into(),
            values: values("a"),
            registration: b"known"[..].into(),
            precondition: Precondition::Absent,
        },
        Edit::PutAux { key: b"key"[..].into(), value: b"body"[..].into() },
    ];
    block_on(store.commit(ChangeSet { author: "tester".into(), timestamp_ms: 1, edits })).unwrap();
    drop(store);
    let records = ["10.1/found", "10.1/new"].map(|name| (name.to_owned(), "i".to_owned()));
    import(directory.path(), 100, &records);
    let store = EmbeddedStore::open(directory.path()).unwrap();
    let entries = scan(&store);
    let registrations: Vec<_> = entries.iter().map(|entry| (&*entry.name, &*entry.registration)).collect();
    assert_eq!(registrations, [("10.1/found", &b"known"[..]), ("10.1/new", b"")]);
    assert!(entries.iter().all(|entry| entry.values == values("i")));
    let (key, order) = (NameKey::new("10.1/found").unwrap(), HistoryOrder::OldestFirst { after: 0 });
    let history = block_on(store.history(&key, order, 9)).unwrap();
    let PriorState::Record(before) = &history.entries[1].prior else { panic!("{history:?}") };
    assert_eq!((&before.values, &*before.registration), (&values("a"), &b"known"[..]));
    assert_eq!(&*block_on(store.get_aux(b"key")).unwrap().unwrap(), b"body");
    assert_eq!(store.verify(|_| {}).unwrap().errors, [""; 0]);
}

/// An import with a clock that is behind gets the time of the last change, and changes after it are not earlier.
#[test]
fn times_never_decrease() {
    let directory = ram_dir();
    let commit = |timestamp_ms| {
        let edits = vec![Edit::Home { prefix: format!("10.{timestamp_ms}").into() }];
        let store = EmbeddedStore::open(directory.path()).unwrap();
        block_on(store.commit(ChangeSet { author: "tester".into(), timestamp_ms, edits })).unwrap();
    };
    commit(5_000);
    let mut importer = EmbeddedImporter::open(directory.path(), "importer", 1_000).unwrap();
    importer.add("10.1/a".into(), &values("a")).unwrap();
    importer.home_prefix("10.1").unwrap();
    importer.finish(|_| {}).unwrap();
    commit(2_000);
    let log = block_on(EmbeddedStore::open(directory.path()).unwrap().read_log(0, 10)).unwrap();
    let times: Vec<u64> = log.iter().map(|log_entry| log_entry.timestamp_ms).collect();
    assert_eq!(times, [5_000; 4]);
}
