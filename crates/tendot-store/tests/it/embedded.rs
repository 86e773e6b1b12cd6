//! Embedded store beyond the common test suite: reopening, locking, corruption, limits, concurrent writers.

use std::collections::BTreeMap;
use std::future::Future as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use pollster::block_on;
use proptest::prelude::*;
use tendot_proto::HandleValue;
use tendot_store::{
    ChangeSet, CommitError, Edit, EmbeddedStore, HistoryOrder, MemoryStore, NameKey, OpenError, Precondition,
    RecordStatus, Store, StoreError, StoredRecord,
};
use tendot_testing::{ram_dir, wait_until};

fn change(edits: Vec<Edit>) -> ChangeSet {
    ChangeSet { author: "tester".into(), timestamp_ms: 1_700_000_000_000, edits }
}

fn put(name: &str, data: &str, precondition: Precondition) -> Edit {
    let values = vec![
        HandleValue::new(1, "URL", data.to_owned()),
        HandleValue::new(100, "HS_ADMIN", "administrator data"),
    ];
    Edit::Put { name: name.into(), values, precondition }
}

fn register(name: &str, registration: &str, precondition: Precondition) -> Edit {
    let values = vec![HandleValue::new(1, "URL", format!("https://example.org/{registration}"))];
    Edit::Register { name: name.into(), values, registration: registration.as_bytes().into(), precondition }
}

fn get(store: &impl Store, name: &str) -> Option<StoredRecord> {
    block_on(store.get(&NameKey::new(name).unwrap())).unwrap()
}

#[test]
fn commits_survive_reopen() {
    let directory = ram_dir();
    let mut expected = BTreeMap::new();
    for round in 0..5 {
        let store = EmbeddedStore::open(directory.path()).unwrap();
        for number in 0..50 {
            let name = format!("10.1000/Name-{}", number * 3 % 50);
            let data = format!("https://example.org/{round}/{number}");
            block_on(store.commit(change(vec![put(&name, &data, Precondition::NotTombstone)]))).unwrap();
            expected.insert(name, data);
        }
        for (name, data) in &expected {
            let entry = get(&store, name).unwrap();
            assert_eq!((&*entry.name, &*entry.values[0].data), (&**name, data.as_bytes()));
        }
        let log = block_on(store.read_log(0, 10_000)).unwrap();
        assert_eq!(log.len(), 50 * (round + 1));
        assert_eq!(log.last().unwrap().revision, log.len() as u64);
    }
}

#[test]
fn single_writer_many_readers() {
    let directory = ram_dir();
    let error = EmbeddedStore::open_read_only(directory.path()).unwrap_err();
    assert!(matches!(error, OpenError::NotFound { .. }), "{error}");
    let store = EmbeddedStore::open(directory.path()).unwrap();
    block_on(store.commit(change(vec![put("10.1000/1", "a", Precondition::Absent)]))).unwrap();
    let error = EmbeddedStore::open(directory.path()).unwrap_err().to_string();
    let holder = format!("is in use by process {}", std::process::id());
    assert!(error.ends_with(&holder), "{error}");
    drop(store);
    let reader = EmbeddedStore::open_read_only(directory.path()).unwrap();
    assert!(get(&reader, "10.1000/1").is_some());
    let error =
        block_on(reader.commit(change(vec![put("10.1000/2", "a", Precondition::Absent)]))).unwrap_err();
    assert!(matches!(error, CommitError::Store(StoreError::ReadOnly { .. })), "{error}");
}

#[test]
fn rejects_other_formats() {
    let directory = ram_dir();
    drop(EmbeddedStore::open(directory.path()).unwrap());
    let file = directory.path().join("data.mdb");
    let mut bytes = std::fs::read(&file).unwrap();
    let mut changed = 0;
    for at in 0..bytes.len() - 8 {
        if &bytes[at..at + 8] == b"tendot 5" {
            bytes[at + 7] = b'4';
            changed += 1;
        }
    }
    assert!(changed > 0);
    std::fs::write(&file, &bytes).unwrap();
    let error = EmbeddedStore::open(directory.path()).unwrap_err().to_string();
    assert!(error.contains("checksum"), "{error}");
    // A file that is not a store.
    std::fs::write(&file, b"something else".repeat(10_000)).unwrap();
    assert!(EmbeddedStore::open(directory.path()).is_err());
}

/// Bytes of records are changed one by one: a read returns the written record, nothing, or an error.
#[test]
fn corruption_is_never_served() {
    let directory = ram_dir();
    let names: Vec<String> = (0..40).map(|number| format!("10.1000/Name-{number}")).collect();
    let store = EmbeddedStore::open(directory.path()).unwrap();
    for name in &names {
        let data = format!("https://example.org/{name}");
        block_on(store.commit(change(vec![put(name, &data, Precondition::Absent)]))).unwrap();
    }
    let verified = store.verify(|_| {}).unwrap();
    assert_eq!(
        (verified.records, verified.log_entries, verified.errors),
        (names.len() as u64, names.len() as u64, vec![])
    );
    drop(store);
    let original = std::fs::read(directory.path().join("data.mdb")).unwrap();
    let (mut detected, mut harmless) = (0, 0);
    // Pages in use and unused ones; LMDB's own pages are the topic of `corruption`.
    let name = b"10.1000/NAME-";
    let offsets = original.windows(name.len()).enumerate().filter(|(_, at)| at == name).map(|(at, _)| at);
    let offsets: Vec<usize> = offsets.collect();
    assert!(offsets.len() >= names.len());
    for &start in offsets.iter().step_by(offsets.len().div_ceil(200)) {
        for offset in [13, 16, 20, 28] {
            let mut corrupt = original.clone();
            corrupt[start + offset] ^= 0x10;
            let copy = ram_dir();
            std::fs::write(copy.path().join("data.mdb"), &corrupt).unwrap();
            // `verify` reports every record that readers would miss or reject.
            let verified = EmbeddedStore::open_read_only(copy.path())
                .map(|store| store.verify(|_| {}).unwrap())
                .map_or(1, |verified| verified.error_count);
            match read_all(copy.path(), &names) {
                Ok(true) => harmless += 1,
                Ok(false) | Err(_) => {
                    detected += 1;
                    assert!(verified > 0, "byte {} is not reported", start + offset);
                }
            }
        }
    }
    assert!(detected > 0 && harmless > 0, "{detected} detected, {harmless} in unused pages");
}

/// Whether all records are found; an error if one is corrupt. Panics if one has other content.
fn read_all(directory: &Path, names: &[String]) -> Result<bool, StoreError> {
    let Ok(store) = EmbeddedStore::open_read_only(directory) else { return Ok(false) };
    let mut is_complete = true;
    for name in names {
        match block_on(store.get(&NameKey::new(name).unwrap()))? {
            Some(entry) => {
                assert_eq!(*entry.name, **name);
                assert_eq!(*entry.values[0].data, *format!("https://example.org/{name}").as_bytes());
            }
            None => is_complete = false,
        }
    }
    Ok(is_complete)
}

/// 64 clients register the same name in different case at the same time: exactly one wins, for each of many names.
#[test]
fn one_of_64_registrations_wins() {
    let directory = ram_dir();
    let embedded = EmbeddedStore::open(directory.path()).unwrap();
    let memory = MemoryStore::new();
    for round in 0..20 {
        check_one_wins(&embedded, round);
        check_one_wins(&memory, round);
    }
}

fn check_one_wins(store: &impl Store, round: u32) {
    let spelled = |number: u32| -> String {
        let recased = |(position, c): (usize, char)| {
            if number >> (position % 6) & 1 == 1 { c.to_ascii_uppercase() } else { c }
        };
        "10.1000/abcdef".chars().enumerate().map(recased).collect()
    };
    let register = |number: u32| {
        let name = format!("{}-{round}", spelled(number));
        match block_on(store.commit(change(vec![put(&name, &name, Precondition::Absent)]))) {
            Ok(_) => Some(name),
            Err(CommitError::RecordConflict(_)) => None,
            Err(error) => panic!("{error}"),
        }
    };
    let winners: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..64).map(|number| scope.spawn(move || register(number))).collect();
        threads.into_iter().filter_map(|thread| thread.join().unwrap()).collect()
    });
    let entry = get(store, &format!("10.1000/ABCDEF-{round}")).unwrap();
    assert_eq!(winners, [entry.name.into_string()], "the spelling of the winner is stored");
}

/// Random change sets.
fn edits() -> impl Strategy<Value = Vec<Vec<Edit>>> {
    let name = (0_u8..6, any::<bool>()).prop_map(|(number, upper)| {
        let name = format!("10.{}/name{number}", number % 2);
        if upper { name.to_uppercase() } else { name }
    });
    let precondition = prop_oneof![
        Just(Precondition::NotTombstone),
        Just(Precondition::Absent),
        Just(Precondition::Live),
        (0_u64..20).prop_map(Precondition::AtRevision),
    ];
    let edit =
        (name, precondition, 0_u8..16, "[a-z/]{0,12}").prop_map(|(name, precondition, choice, data)| {
            match choice {
                0..=3 => put(&name, &format!("https://example.org/{data}"), precondition),
                4..=5 => register(&name, &data, precondition),
                6 => Edit::Tombstone { name: name.into(), precondition },
                7 => Edit::Remove { name: name.into(), precondition },
                8 => Edit::Home { prefix: name.split('/').next().unwrap_or_default().into() },
                9 => Edit::Unhome { prefix: name.split('/').next().unwrap_or_default().into() },
                10..=12 => Edit::PutAux { key: name.as_bytes().into(), value: data.as_bytes().into() },
                13 => Edit::RemoveAux { key: name.as_bytes().into() },
                // Often met.
                14 => Edit::RequireAux { key: name.as_bytes().into(), value: None },
                _ => Edit::RequireAux { key: b"10.1/name1"[..].into(), value: Some(data.as_bytes().into()) },
            }
        });
    proptest::collection::vec(proptest::collection::vec(edit, 1..4), 1..30)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Random change sets have the same results in the embedded store and in the memory store, also after reopening.
    #[test]
    fn matches_memory_store(changes in edits()) {
        let directory = ram_dir();
        let memory = MemoryStore::new();
        let mut embedded = EmbeddedStore::open(directory.path()).unwrap();
        let middle = changes.len() / 2;
        for (number, edits) in changes.into_iter().enumerate() {
            if number == middle {
                drop(embedded);
                embedded = EmbeddedStore::open(directory.path()).unwrap();
            }
            let expected = block_on(memory.commit(change(edits.clone())));
            let found = block_on(embedded.commit(change(edits)));
            match (expected, found) {
                (Ok(expected), Ok(found)) => prop_assert_eq!(expected, found),
                (Err(CommitError::RecordConflict(expected)), Err(CommitError::RecordConflict(found))) => {
                    prop_assert_eq!(expected, found);
                }
                (Err(CommitError::AuxConflict { edit: expected }), Err(CommitError::AuxConflict { edit: found })) => {
                    prop_assert_eq!(expected, found);
                }
                (expected, found) => prop_assert!(false, "{:?} but {:?}", expected, found),
            }
        }
        for number in 0..6 {
            let name = format!("10.{}/name{number}", number % 2);
            prop_assert_eq!(get(&memory, &name), get(&embedded, &name));
            let (key, order) = (NameKey::new(&name).unwrap(), HistoryOrder::OldestFirst { after: 0 });
            let expected = block_on(memory.history(&key, order, 999)).unwrap();
            prop_assert_eq!(expected, block_on(embedded.history(&key, order, 999)).unwrap());
        }
        for prefix in [&b"10.0"[..], b"10.1"] {
            let listed = block_on(embedded.list_names(prefix, None, 99)).unwrap();
            prop_assert_eq!(block_on(memory.list_names(prefix, None, 99)).unwrap(), listed);
        }
        let aux_entries = block_on(memory.list_aux(b"", None, 99)).unwrap();
        prop_assert_eq!(&aux_entries, &block_on(embedded.list_aux(b"", None, 99)).unwrap());
        prop_assert_eq!(aux_entries.len() as u64, embedded.verify(|_| {}).unwrap().aux_entries);
        prop_assert_eq!(block_on(memory.list_homed(None, 9)).unwrap(), block_on(embedded.list_homed(None, 9)).unwrap());
        prop_assert_eq!(block_on(memory.read_log(0, 999)).unwrap(), block_on(embedded.read_log(0, 999)).unwrap());
        prop_assert_eq!(embedded.verify(|_| {}).unwrap().errors, [""; 0]);
    }
}

/// Aux entries, registrations and the audit chain are durable and in backups; corruption of the first two is detected.
#[test]
fn aux_entries_and_registrations_are_durable() {
    let (aux, registration) = ("content-of-the-aux-entry", "content-of-the-registration");
    let directory = ram_dir();
    let store = EmbeddedStore::open(directory.path()).unwrap();
    let edits = vec![register("10.1000/1", registration, Precondition::Absent)];
    let registered = block_on(store.commit(change(edits))).unwrap();
    let edits = vec![Edit::PutAux { key: b"key"[..].into(), value: aux.as_bytes().into() }];
    assert_eq!(block_on(store.commit(change(edits))).unwrap(), registered);
    let mut file = tempfile::tempfile().unwrap();
    store.backup(&mut file).unwrap();
    let (log, head) = (block_on(store.read_log(0, 10)).unwrap(), block_on(store.head()).unwrap());
    drop(store);
    let check = |directory: &Path| {
        let store = EmbeddedStore::open(directory).unwrap();
        assert_eq!(
            (block_on(store.read_log(0, 10)).unwrap(), block_on(store.head()).unwrap()),
            (log.clone(), head)
        );
        assert_eq!(&*block_on(store.get_aux(b"key")).unwrap().unwrap(), aux.as_bytes());
        assert_eq!(&*get(&store, "10.1000/1").unwrap().registration, registration.as_bytes());
        let verified = store.verify(|_| {}).unwrap();
        assert_eq!((verified.aux_entries, verified.registrations, verified.errors), (1, 1, Vec::new()));
    };
    check(directory.path());
    let restored = ram_dir();
    tendot_store::restore(&mut file, restored.path(), false).unwrap();
    check(restored.path());
    let original = std::fs::read(directory.path().join("data.mdb")).unwrap();
    for content in [aux, registration] {
        let mut corrupt = original.clone();
        for at in 0..corrupt.len() - content.len() {
            if &original[at..at + content.len()] == content.as_bytes() {
                corrupt[at] ^= 1;
            }
        }
        let copy = ram_dir();
        std::fs::write(copy.path().join("data.mdb"), &corrupt).unwrap();
        let store = EmbeddedStore::open_read_only(copy.path()).unwrap();
        let errors = store.verify(|_| {}).unwrap().errors;
        let expected = if content == aux { "journal entry `" } else { "registration `" };
        assert!(errors.iter().any(|error| error.starts_with(expected)), "{content}: {errors:?}");
        let is_corrupt = |error: StoreError| matches!(error, StoreError::Corrupt { .. });
        if content == aux {
            assert!(block_on(store.get_aux(b"key")).is_err_and(is_corrupt));
            assert!(block_on(store.list_aux(b"", None, 9)).is_err_and(is_corrupt));
        } else {
            assert!(block_on(store.get(&NameKey::new("10.1000/1").unwrap())).is_err_and(is_corrupt));
        }
    }
}

#[test]
fn rejects_oversized_records() {
    const LIMIT: usize = 4 << 20;
    let directory = ram_dir();
    let store = EmbeddedStore::open(directory.path()).unwrap();
    let register = |length: usize| Edit::Register {
        name: "10.1000/1".into(),
        values: Vec::new(),
        registration: vec![b'x'; length].into(),
        precondition: Precondition::NotTombstone,
    };
    let put_aux = |length: usize| Edit::PutAux { key: b"key"[..].into(), value: vec![b'x'; length].into() };
    for edit in [&register as &dyn Fn(usize) -> Edit, &put_aux] {
        let error = block_on(store.commit(change(vec![edit(LIMIT + 1)]))).unwrap_err();
        assert!(matches!(error, CommitError::TooLarge { edit: 0, .. }), "{error}");
        block_on(store.commit(change(vec![edit(LIMIT)]))).unwrap();
    }
}

/// A tombstone keeps its values on disk.
#[test]
fn tombstones_keep_their_values() {
    let directory = ram_dir();
    let store = EmbeddedStore::open(directory.path()).unwrap();
    block_on(store.commit(change(vec![put("10.1000/1", "a", Precondition::Absent)]))).unwrap();
    let tombstone = Edit::Tombstone { name: "10.1000/1".into(), precondition: Precondition::Live };
    block_on(store.commit(change(vec![tombstone]))).unwrap();
    let entry = get(&store, "10.1000/1").unwrap();
    assert_eq!((entry.status, entry.values.len()), (RecordStatus::Tombstone, 2));
}

/// Change sets of one record that are committed together see each other, also their dictionary entries.
#[test]
fn changes_of_one_record_in_one_transaction() {
    let directory = ram_dir();
    let store = EmbeddedStore::open(directory.path()).unwrap();
    for round in 0..100 {
        let name = format!("10.1000/{round}");
        block_on(store.commit(change(vec![put(&name, "https://a/b/c", Precondition::Absent)]))).unwrap();
        let results = std::thread::scope(|scope| {
            let data = format!("https://example.org/{round}/x/y");
            let update = put(&name, &data, Precondition::NotTombstone);
            let tombstone = Edit::Tombstone { name: name.clone().into(), precondition: Precondition::Live };
            let store = &store;
            [update, tombstone]
                .map(|edit| scope.spawn(move || block_on(store.commit(change(vec![edit])))))
                .map(|thread| thread.join().unwrap())
        });
        for result in results {
            assert!(!matches!(result, Err(CommitError::Store(_))), "{result:?}");
        }
        assert_eq!(get(&store, &name).unwrap().status, RecordStatus::Tombstone);
    }
    assert_eq!(store.verify(|_| {}).unwrap().errors, [""; 0]);
}

/// A truncated file is rejected and not mapped: reading missing pages would crash the process.
#[test]
fn rejects_truncated_files() {
    let directory = ram_dir();
    let store = EmbeddedStore::open(directory.path()).unwrap();
    for number in 0..500 {
        let name = format!("10.1000/{number}");
        block_on(store.commit(change(vec![put(&name, &name, Precondition::Absent)]))).unwrap();
    }
    drop(store);
    let file = directory.path().join("data.mdb");
    let bytes = std::fs::read(&file).unwrap();
    let mut rejected = 0;
    for length in (8_192..bytes.len()).rev().step_by(4_096).chain([0]) {
        std::fs::write(&file, &bytes[..length]).unwrap();
        match EmbeddedStore::open_read_only(directory.path()) {
            Err(error) => {
                assert!(matches!(error, OpenError::Truncated { .. }), "{length}: {error}");
                rejected += 1;
            }
            // Only free pages are missing, or pages of the previous state.
            Ok(store) => {
                assert_eq!(rejected, 0, "{length}: a longer file was rejected");
                let errors = store.verify(|_| {}).unwrap().errors;
                assert!(errors.iter().all(|error| error.contains("LMDB meta page")), "{errors:?}");
                assert_eq!(store.count().unwrap(), 500);
                continue;
            }
        }
        let error = EmbeddedStore::open(directory.path()).unwrap_err();
        assert!(matches!(error, OpenError::Truncated { .. }), "{length}: {error}");
    }
    assert!(rejected > 0);
    std::fs::write(&file, &bytes).unwrap();
    assert!(EmbeddedStore::open(directory.path()).is_ok());
}

/// Secrets are not in the dictionary, so that they are removed with their record.
#[test]
fn secrets_are_not_interned() {
    let directory = ram_dir();
    let store = EmbeddedStore::open(directory.path()).unwrap();
    let dictionary_entries = |store: &EmbeddedStore| store.verify(|_| {}).unwrap().dictionary_entries;
    let secret = |name: &str, data: &str| {
        let values = vec![HandleValue::new(1, "HS_SECKEY", data.to_owned())];
        Edit::Put { name: name.into(), values, precondition: Precondition::NotTombstone }
    };
    for number in 0..4 {
        block_on(store.commit(change(vec![secret(&format!("10.1000/{number}"), "plain secret")]))).unwrap();
    }
    let before = dictionary_entries(&store);
    for number in 0..4 {
        let edit = secret(&format!("10.1000/{number}"), "a/secret/with/slashes/and=equals=");
        block_on(store.commit(change(vec![edit]))).unwrap();
    }
    assert_eq!(dictionary_entries(&store), before);
}

#[test]
fn dictionary_grows_with_record_count() {
    let directory = ram_dir();
    let store = EmbeddedStore::open(directory.path()).unwrap();
    for name in ["10.1000/A", "10.1000/B", "10.1000/C"] {
        // The second occurrence of a string is added to the dictionary.
        for _ in 0..2 {
            let address =
                |index| HandleValue::new(index, "URL", format!("https://example.org/{name}/{index}/"));
            let edit = Edit::Put {
                name: name.into(),
                values: (1..=2_048).map(address).collect(),
                precondition: Precondition::NotTombstone,
            };
            block_on(store.commit(change(vec![edit]))).unwrap();
        }
    }
    let verified = store.verify(|_| {}).unwrap();
    assert_eq!(verified.dictionary_entries, 4_096, "{verified:?}");
    assert_eq!(
        get(&store, "10.1000/C").unwrap().values[2_047].data,
        "https://example.org/10.1000/C/2048/".as_bytes()
    );
}

/// A record that is created and removed in one transaction leaves free pages at the end of the file that were never written, so
/// that the file is shorter than the size in LMDB's meta page. That is not corruption.
#[test]
fn unwritten_free_pages_are_valid() {
    let directory = ram_dir();
    for round in 0..20 {
        let store =
            EmbeddedStore::open(directory.path()).unwrap_or_else(|error| panic!("round {round}: {error}"));
        assert_eq!(store.verify(|_| {}).unwrap().errors, [""; 0]);
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        // The first one keeps the writer busy, so that the others are committed together.
        let large = put("10.1000/1", &"x".repeat(50_000 * (round + 1)), Precondition::NotTombstone);
        let remove = Edit::Remove { name: "10.1000/1".into(), precondition: Precondition::Live };
        let mut commits: Vec<_> = [put("10.1000/1", "x", Precondition::NotTombstone), large, remove]
            .map(|edit| Box::pin(store.commit(change(vec![edit]))))
            .into();
        for commit in &mut commits {
            let _ = commit.as_mut().poll(&mut context);
        }
        drop(commits);
    }
}

#[test]
fn verify_under_load() {
    const VERIFICATIONS: u64 = 50;
    let directory = ram_dir();
    let store = EmbeddedStore::open(directory.path()).unwrap();
    let verified = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for writer in 0..8 {
            let (store, verified) = (&store, &verified);
            scope.spawn(move || {
                let mut number = 0;
                while verified.load(Ordering::SeqCst) < VERIFICATIONS {
                    // Not many per verification, because each reads the whole log.
                    wait_until("a verification is done", || {
                        number < 20 * (verified.load(Ordering::SeqCst) + 1)
                    });
                    let name = format!("10.1000/{writer}-{}", number % 100);
                    block_on(store.commit(change(vec![put(&name, &name, Precondition::NotTombstone)])))
                        .unwrap();
                    number += 1;
                }
            });
        }
        let mut errors = Vec::new();
        for _ in 0..VERIFICATIONS {
            errors.extend(store.verify(|_| {}).unwrap().errors);
            verified.fetch_add(1, Ordering::SeqCst);
        }
        assert_eq!(errors, [""; 0]);
    });
}

/// Nothing is acknowledged that is written to a file which others do not find: of a directory that was deleted, moved or replaced.
#[test]
fn commits_into_a_removed_store_are_refused() {
    let root = ram_dir();
    let (data, old) = (root.path().join("data"), root.path().join("old"));
    let store = EmbeddedStore::open(&data).unwrap();
    let commit = |name: &str| block_on(store.commit(change(vec![put(name, "x", Precondition::Absent)])));
    let refusal = |name: &str| match commit(name).unwrap_err() {
        CommitError::Store(StoreError::ReadOnly { reason }) => reason,
        error => panic!("{error}"),
    };
    commit("10.1/first").unwrap();
    std::fs::rename(&data, &old).unwrap();
    assert!(refusal("10.1/moved").contains("was moved while it was in use"));
    // A new store in its place.
    drop(EmbeddedStore::open(&root.path().join("new")).unwrap());
    std::fs::rename(root.path().join("new"), &data).unwrap();
    assert!(refusal("10.1/replaced").contains("was replaced while it was in use"));
    std::fs::remove_dir_all(&data).unwrap();
    std::fs::rename(&old, &data).unwrap();
    commit("10.1/second").unwrap();
    std::fs::remove_file(data.join("data.mdb")).unwrap();
    assert!(refusal("10.1/deleted").contains("was deleted while it was in use"));
    // Earlier writes can still be read.
    assert!(get(&store, "10.1/second").is_some() && get(&store, "10.1/moved").is_none());
}

/// The data file itself is locked, not only a file beside it.
#[test]
fn store_is_locked_without_its_lock_files() {
    let directory = ram_dir();
    let store = EmbeddedStore::open(directory.path()).unwrap();
    let mut backup = tempfile::tempfile().unwrap();
    store.backup(&mut backup).unwrap();
    for lock_file in ["tendot.lock", "lock.mdb"] {
        std::fs::remove_file(directory.path().join(lock_file)).unwrap();
    }
    let error = EmbeddedStore::open(directory.path()).unwrap_err();
    assert!(matches!(error, OpenError::Locked(_)), "{error}");
    let error = tendot_store::restore(&mut backup, directory.path(), true).unwrap_err();
    assert!(matches!(error, tendot_store::RestoreError::Locked(_)), "{error}");
    drop(store);
    EmbeddedStore::open(directory.path()).unwrap();
}
