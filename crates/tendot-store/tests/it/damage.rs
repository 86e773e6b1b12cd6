//! Corrupt pages: a name that exists is never reported as missing, and the scrub finds the corruption.
//!
//! One page is corrupted at a time, by random bytes, zeros or the content of another page. Corruption of the same names in both
//! databases is not detected by reads; a page with an older state of itself is a topic of `corruption`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pollster::block_on;
use tendot_proto::HandleValue;
use tendot_store::{
    ChangeSet, CommitError, Edit, EmbeddedImporter, EmbeddedStore, NameKey, Precondition, Store, StoreError,
};
use tendot_testing::{
    SeededRng, child_test, emit, emitted_lines, ram_dir, repetitions, test_seed, wait_until,
};

/// Set in child processes: their directory and the first round.
const DIRECTORY_VAR: &str = "TENDOT_TEST_DAMAGE_DIRECTORY";
const FIRST_ROUND_VAR: &str = "TENDOT_TEST_FIRST_ROUND";

const PAGE_BYTES: usize = 4_096;

/// Number of names; every tenth is written by a commit of its own.
const NAMES: usize = 1_200;

fn round_count() -> u64 {
    repetitions("TENDOT_TEST_DAMAGES", 20, 3_000)
}

fn name(number: usize) -> String {
    format!("10.{}/Name-{number:05}", number % 3)
}

fn data(number: usize) -> String {
    format!("https://example.org/{number}/{}", "x".repeat(number * 7 % 120))
}

fn put(number: usize) -> Edit {
    let values = vec![HandleValue::new(1, "URL", data(number))];
    Edit::Put { name: name(number).into(), values, precondition: Precondition::Absent }
}

fn commit(store: &EmbeddedStore, edits: Vec<Edit>) -> Result<(), CommitError> {
    block_on(store.commit(ChangeSet { author: "tester".into(), timestamp_ms: 1, edits })).map(drop)
}

fn build_store(directory: &Path) {
    let mut importer = EmbeddedImporter::open(directory, "importer", 1).unwrap();
    for number in (0..NAMES).filter(|number| number % 10 != 0) {
        importer.add(name(number).into(), &[HandleValue::new(1, "URL", data(number))]).unwrap();
    }
    importer.home_prefix("10.1").unwrap();
    importer.finish(|_| {}).unwrap();
    let store = EmbeddedStore::open(directory).unwrap();
    for number in (0..NAMES).step_by(10) {
        commit(&store, vec![put(number)]).unwrap();
    }
    assert_eq!(store.verify(|_| {}).unwrap().errors, [""; 0]);
}

/// Result of reading a name in a corrupt store.
fn read(store: &EmbeddedStore, name: &str) -> Result<Option<Vec<u8>>, String> {
    match block_on(store.get(&NameKey::new(name).unwrap())) {
        Ok(record) => Ok(record.map(|record| {
            assert_eq!(*record.name, *name);
            record.values[0].data.to_vec()
        })),
        Err(StoreError::Corrupt { detail }) => Err(detail),
        // LMDB ends a transaction that has read a corrupt page.
        Err(error) => panic!("{name}: {error}"),
    }
}

#[test]
fn damaged_pages_never_hide_names() {
    let seed = test_seed();
    println!("TENDOT_TEST_SEED={seed}");
    let root = ram_dir();
    build_store(&root.path().join("store"));
    let (mut outcomes, mut first) = (BTreeMap::<String, u64>::new(), 0);
    while first < round_count() {
        let output = child_test("damage::child_damages_pages")
            .env(DIRECTORY_VAR, root.path())
            .env(FIRST_ROUND_VAR, first.to_string())
            .env("TENDOT_TEST_SEED", seed.to_string())
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!errors.contains("panicked"), "{errors}");
        let mut finished = first;
        for outcome in emitted_lines(&String::from_utf8_lossy(&output.stdout)) {
            *outcomes.entry(outcome.to_owned()).or_default() += 1;
            finished += 1;
        }
        first = finished;
        if !output.status.success() {
            *outcomes.entry("ended by a signal".into()).or_default() += 1;
            first += 1;
        }
    }
    println!("{outcomes:?}");
    assert_eq!(outcomes.values().sum::<u64>(), round_count());
    assert!(outcomes.contains_key("corrupt"), "{outcomes:?}");
    let signals = outcomes.get("ended by a signal").copied().unwrap_or_default();
    assert!(signals <= 2 + round_count() / 10, "{outcomes:?}");
}

/// Child process: corrupts one page after the other, until one ends the process.
#[test]
fn child_damages_pages() {
    let Some(root) = std::env::var_os(DIRECTORY_VAR).map(PathBuf::from) else { return };
    let first: u64 = std::env::var(FIRST_ROUND_VAR).unwrap().parse().unwrap();
    let original = std::fs::read(root.join("store/data.mdb")).unwrap();
    let path = root.join("damaged");
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir(&path).unwrap();
    for round in first..round_count() {
        let mut rng = SeededRng::new(test_seed() ^ round << 32);
        let mut bytes = original.clone();
        damage(&mut bytes, &mut rng);
        std::fs::write(path.join("data.mdb"), &bytes).unwrap();
        emit(check_reads(&path, round));
    }
}

fn damage(bytes: &mut [u8], rng: &mut SeededRng) {
    let pages = bytes.len() / PAGE_BYTES;
    let (page, other) = (2 + rng.below(pages - 2), 2 + rng.below(pages - 2));
    let other = bytes[other * PAGE_BYTES..][..PAGE_BYTES].to_vec();
    let page = &mut bytes[page * PAGE_BYTES..][..PAGE_BYTES];
    match rng.below(8) {
        0 => page.fill(0),
        1 => page.copy_from_slice(&other),
        2 => page[512..1024].iter_mut().for_each(|byte| *byte = rng.below(256) as u8),
        // The numbers of the nodes.
        3 => page[16 + 2 * rng.below(16)] ^= 1 << rng.below(8),
        _ => {
            for _ in 0..=rng.below(32) {
                page[rng.below(PAGE_BYTES)] = rng.below(256) as u8;
            }
        }
    }
}

fn check_reads(path: &Path, round: u64) -> &'static str {
    let Ok(store) = EmbeddedStore::open_read_only(path) else { return "refused" };
    let mut is_damaged = false;
    for number in 0..NAMES {
        let name = name(number);
        match read(&store, &name) {
            Ok(found) => {
                let found = found.map(|found| String::from_utf8(found).unwrap());
                assert_eq!(found, Some(data(number)), "round {round}: {name}");
            }
            Err(_) => is_damaged = true,
        }
        is_damaged |= match read(&store, &format!("{name}-absent")) {
            Ok(found) => {
                assert_eq!(found, None, "round {round}");
                false
            }
            Err(_) => true,
        };
    }
    match block_on(store.is_homed(b"10.1")) {
        Ok(is_homed) => assert!(is_homed, "round {round}"),
        Err(_) => is_damaged = true,
    }
    if is_damaged { "corrupt" } else { "harmless" }
}

/// Corrupts the value of one record in all pages; returns its name.
fn damage_record(directory: &Path, number: usize) -> String {
    let path = directory.join("data.mdb");
    let mut bytes = std::fs::read(&path).unwrap();
    let folded = name(number).to_ascii_uppercase();
    let ends: Vec<usize> = bytes
        .windows(folded.len())
        .enumerate()
        .filter(|(_, window)| *window == folded.as_bytes())
        .map(|(at, _)| at + folded.len())
        .collect();
    assert!(!ends.is_empty());
    ends.into_iter().for_each(|end| bytes[end + 6] ^= 0xff);
    std::fs::write(path, bytes).unwrap();
    name(number)
}

/// A corrupt record is an error for reads and writes of its name only, and `verify` names it.
#[test]
fn damaged_record() {
    let directory = ram_dir();
    build_store(directory.path());
    let damaged = damage_record(directory.path(), 501);
    let store = EmbeddedStore::open(directory.path()).unwrap();
    read(&store, &damaged).unwrap_err();
    assert_eq!(read(&store, &name(502)), Ok(Some(data(502).into_bytes())));
    let refused = commit(&store, vec![put(501)]).unwrap_err();
    assert!(matches!(refused, CommitError::Store(StoreError::Corrupt { .. })), "{refused}");
    commit(&store, vec![put(NAMES)]).unwrap();
    let verified = store.verify(|_| {}).unwrap();
    assert_eq!((verified.error_count, verified.name_hash_errors), (1, 0), "{:?}", verified.errors);
    assert_eq!(verified.damaged_names, [damaged.to_ascii_uppercase().into()]);
}

/// The scrub finds corruption, and none in a sound store that is written.
#[test]
fn scrub_finds_damage() {
    let directory = ram_dir();
    build_store(directory.path());
    let mut store = EmbeddedStore::open(directory.path()).unwrap();
    let status = store.scrub_status_handle();
    assert_eq!(status(), None);
    store.start_scrub(Duration::from_secs(1)).unwrap();
    let mut number = NAMES;
    wait_until("a pass has ended", || {
        commit(&store, vec![put(number)]).unwrap();
        number += 1;
        status().is_some_and(|status| status.completed_ms.is_some())
    });
    let found = status().unwrap();
    assert_eq!(found.damaged, 0);
    let length = std::fs::metadata(directory.path().join("data.mdb")).unwrap().len();
    assert!((length / 4..3 * length).contains(&found.bytes_read), "{found:?}, {length}");
    drop(store);

    damage_record(directory.path(), 77);
    let mut store = EmbeddedStore::open(directory.path()).unwrap();
    let status = store.scrub_status_handle();
    store.start_scrub(Duration::from_secs(86_400)).unwrap();
    wait_until("the damage is found", || status().is_some_and(|status| status.damaged == 1));
}
