//! Corruption: every bit flip is detected by `verify` or harmless; a wrong record is never served.
//!
//! One case cannot be excluded, because LMDB's pages have no checksums: a flipped bit in a page number can refer to an older
//! page with the same key, and so to an older state of the record. `verify` reports that. Flips in free pages and between
//! entries are harmless; this is checked by writing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use pollster::block_on;
use tendot_proto::HandleValue;
use tendot_store::{
    ChangeSet, Edit, EmbeddedImporter, EmbeddedStore, NameKey, Precondition, Store, StoredRecord,
};
use tendot_testing::{
    SeededRng, child_test, emit, emitted_lines, is_full_run, ram_dir, repetitions, test_seed,
};

/// Set in child processes: their directory, and the range of flips.
const DIRECTORY_VAR: &str = "TENDOT_TEST_FLIP_DIRECTORY";
const FIRST_FLIP_VAR: &str = "TENDOT_TEST_FIRST_FLIP";
const END_FLIP_VAR: &str = "TENDOT_TEST_END_FLIP";

/// Bytes at the beginning of both meta pages; one bit of each is flipped, in a full run every bit.
const META_PAGE_BYTES: usize = 160;

/// Random flips elsewhere; `TENDOT_TEST_FLIPS=100000` for more.
const DEFAULT_FLIPS: u64 = 700;
const FULL_RUN_FLIPS: u64 = 10_000;

fn flip_count() -> usize {
    let random = repetitions("TENDOT_TEST_FLIPS", DEFAULT_FLIPS, FULL_RUN_FLIPS);
    meta_page_flips() + usize::try_from(random).unwrap()
}

fn meta_page_flips() -> usize {
    2 * META_PAGE_BYTES * if is_full_run() { 8 } else { 1 }
}

/// The byte and the bit of a flip.
fn flip_position(flip: usize, length: usize, seed: u64) -> (usize, u8) {
    if flip < meta_page_flips() {
        let (byte, bit) = if is_full_run() {
            (flip / 8, flip % 8)
        } else {
            (flip, SeededRng::new(seed ^ flip as u64).below(8))
        };
        return (byte / META_PAGE_BYTES * 4_096 + byte % META_PAGE_BYTES, 1 << bit);
    }
    let mut rng = SeededRng::new(seed ^ (flip as u64) << 32);
    (rng.below(length), 1 << rng.below(8))
}

fn key(name: &str) -> NameKey {
    NameKey::new(name).unwrap()
}

fn put(name: &str, data: String) -> Edit {
    let values = vec![
        HandleValue::new(1, "URL", format!("https://example.org/{data}")),
        HandleValue::new(2, "EMAIL", data),
    ];
    Edit::Put { name: name.into(), values, precondition: Precondition::NotTombstone }
}

fn commit(store: &EmbeddedStore, edits: Vec<Edit>) {
    block_on(store.commit(ChangeSet { author: "tester".into(), timestamp_ms: 1, edits })).unwrap();
}

/// Every state that each name ever had, the latest last.
type RecordVersions = BTreeMap<String, Vec<Option<StoredRecord>>>;

/// A store with pages of every kind: branch pages, large records, free pages, tombstones, dictionary entries.
fn build_store(directory: &Path) -> RecordVersions {
    let names: Vec<String> = (0..120).map(|number| format!("10.1/Name-{number:03}")).collect();
    let mut importer = EmbeddedImporter::open(directory, "importer", 1).unwrap();
    for name in &names {
        importer
            .add((**name).into(), &[HandleValue::new(1, "URL", format!("https://example.org/{name}"))])
            .unwrap();
    }
    importer.home_prefix("10.1").unwrap();
    importer.finish(|_| {}).unwrap();
    let store = EmbeddedStore::open(directory).unwrap();
    let mut versions = RecordVersions::new();
    let record_versions = |versions: &mut RecordVersions| {
        for name in &names {
            let entry = block_on(store.get(&key(name))).unwrap();
            let states = versions.entry(name.clone()).or_default();
            if states.last() != Some(&entry) {
                states.push(entry);
            }
        }
    };
    record_versions(&mut versions);
    // So many that one bit flip can turn the number of the last transaction into that of the previous one.
    for round in 0..43 {
        let name = &names[round * 7 % names.len()];
        let edit = match round % 8 {
            3 => put(name, "x".repeat(9_000 + round)),
            5 => Edit::Remove { name: (**name).into(), precondition: Precondition::Live },
            7 => Edit::Tombstone { name: (**name).into(), precondition: Precondition::Live },
            _ => put(name, format!("again/{round}")),
        };
        let twin = put(&names[(round * 7 + 3) % names.len()], format!("twin/{round}"));
        commit(&store, if round % 16 < 8 { vec![edit, twin] } else { vec![edit] });
        record_versions(&mut versions);
    }
    assert_eq!(store.verify(|_| {}).unwrap().errors, [""; 0]);
    versions
}

#[test]
fn bit_flips_are_detected_or_harmless() {
    const PROCESSES: usize = 2;
    let seed = test_seed();
    println!("TENDOT_TEST_SEED={seed}");
    let flips_per_process = flip_count().div_ceil(PROCESSES);
    let counts: Vec<BTreeMap<String, usize>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..PROCESSES)
            .map(|number| {
                let end = flip_count().min((number + 1) * flips_per_process);
                scope.spawn(move || flip_range(number * flips_per_process..end, seed))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let mut outcomes: BTreeMap<String, usize> = BTreeMap::new();
    for (outcome, count) in counts.into_iter().flatten() {
        *outcomes.entry(outcome).or_default() += count;
    }
    println!("{outcomes:?}");
    assert_eq!(outcomes.values().sum::<usize>(), flip_count());
    for outcome in ["found", "harmless"] {
        assert!(outcomes.get(outcome).is_some_and(|count| *count > 50), "{outcomes:?}");
    }
}

/// Runs child processes until all flips of a range are done; returns how often each outcome occurred.
fn flip_range(range: Range<usize>, seed: u64) -> BTreeMap<String, usize> {
    let root = ram_dir();
    build_store(&root.path().join("store"));
    let mut outcomes: BTreeMap<String, usize> = BTreeMap::new();
    let mut first = range.start;
    while first < range.end {
        let output = child_test("corruption::child_flips_bits")
            .env(DIRECTORY_VAR, root.path())
            .env(FIRST_FLIP_VAR, first.to_string())
            .env(END_FLIP_VAR, range.end.to_string())
            .env("TENDOT_TEST_SEED", seed.to_string())
            .output()
            .unwrap();
        let stdout = String::from_utf8_lossy(&output.stdout);
        let mut last = None;
        for line in emitted_lines(&stdout) {
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["flip", number] => last = Some((number.parse::<usize>().unwrap(), "crashed")),
                // `verify` has reported the flip before a reader crashed.
                ["found"] => last = last.map(|(number, _)| (number, "found, and readers crashed")),
                ["outcome", outcome] => {
                    *outcomes.entry(outcome.to_owned()).or_default() += 1;
                    last = None;
                }
                _ => {}
            }
        }
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!errors.contains("panicked"), "flip {last:?}: {errors}");
        let Some((number, outcome)) = last else {
            assert!(output.status.success(), "{errors}");
            break;
        };
        // A crash is acceptable: `tendot verify` reads in a child process and reports its crash.
        *outcomes.entry(outcome.to_owned()).or_default() += 1;
        first = number + 1;
    }
    outcomes
}

/// Child process: flips one bit after the other until a corrupt page crashes it.
#[test]
fn child_flips_bits() {
    let Some(root) = std::env::var_os(DIRECTORY_VAR).map(PathBuf::from) else { return };
    let number = |name: &str| -> usize { std::env::var(name).unwrap().parse().unwrap() };
    let (first, end) = (number(FIRST_FLIP_VAR), number(END_FLIP_VAR));
    let versions = build_store(&root.join(format!("versions-{first}")));
    std::fs::remove_dir_all(root.join(format!("versions-{first}"))).unwrap();
    let original = std::fs::read(root.join("store/data.mdb")).unwrap();
    let path = root.join("flipped");
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir(&path).unwrap();
    std::fs::write(path.join("data.mdb"), &original).unwrap();
    let file = File::options().write(true).open(path.join("data.mdb")).unwrap();
    let seed = test_seed();
    for flip in first..end {
        let (byte, bit) = flip_position(flip, original.len(), seed);
        emit(&format!("flip {flip}"));
        file.write_all_at(&[original[byte] ^ bit], byte as u64).unwrap();
        let outcome = check_reads(&path, &versions, &format!("byte {byte}, bit {bit}"));
        file.write_all_at(&original[byte..=byte], byte as u64).unwrap();
        if outcome == "harmless" && (flip < meta_page_flips() || flip % 4 == 0) {
            file.write_all_at(&[original[byte] ^ bit], byte as u64).unwrap();
            check_writes(&path, &versions, &format!("byte {byte}, bit {bit}"));
            std::fs::write(path.join("data.mdb"), &original).unwrap();
        }
        emit(&format!("outcome {outcome}"));
    }
}

/// Verifies and reads everything.
fn check_reads(path: &Path, versions: &RecordVersions, flip: &str) -> &'static str {
    let Ok(store) = EmbeddedStore::open_read_only(path) else { return "refused" };
    let is_detected = store.verify(|_| {}).map_or(true, |verified| verified.error_count > 0);
    if is_detected {
        emit("found");
    }
    let mut has_old_state = false;
    for (name, versions) in versions {
        let last = versions.last().unwrap();
        match block_on(store.get(&key(name))) {
            Ok(entry) if entry == *last => {}
            Ok(entry) => {
                assert!(
                    is_detected,
                    "{flip}: {name} has changed, and `verify` does not report it: {entry:?}"
                );
                assert!(
                    entry.is_none() || versions.contains(&entry),
                    "{flip}: {name} is served wrong: {entry:?}"
                );
                has_old_state |= entry.is_some();
            }
            Err(error) => assert!(is_detected, "{flip}: {name}: {error}, and `verify` does not report it"),
        }
    }
    match (is_detected, has_old_state) {
        (true, true) => "found,old",
        (true, false) => "found",
        (false, _) => {
            let listed = block_on(store.list_names(b"10.1", None, 1_000)).unwrap();
            assert_eq!(
                listed.len(),
                versions.values().filter(|versions| versions.last().unwrap().is_some()).count()
            );
            assert!(block_on(store.is_homed(b"10.1")).unwrap(), "{flip}");
            "harmless"
        }
    }
}

/// A flip that `verify` does not report does no harm when the store is written.
fn check_writes(path: &Path, versions: &RecordVersions, flip: &str) {
    let store = EmbeddedStore::open(path).unwrap_or_else(|error| panic!("{flip}: {error}"));
    let mut changed = BTreeSet::new();
    for round in 0..6 {
        let name = format!("10.1/new-{round}");
        commit(&store, vec![put(&name, "y".repeat(round * 1_500))]);
        let is_live = |versions: &Vec<Option<StoredRecord>>| {
            versions
                .last()
                .unwrap()
                .as_ref()
                .is_some_and(|entry| entry.status == tendot_store::RecordStatus::Live)
        };
        let (name, _) = versions.iter().filter(|(_, versions)| is_live(versions)).nth(round * 11).unwrap();
        commit(&store, vec![Edit::Remove { name: (**name).into(), precondition: Precondition::Live }]);
        changed.insert(name);
    }
    assert_eq!(store.verify(|_| {}).unwrap().errors, [""; 0], "{flip}");
    for (name, versions) in versions {
        let expected = if changed.contains(name) { &None } else { versions.last().unwrap() };
        assert_eq!(block_on(store.get(&key(name))).unwrap(), *expected, "{flip}: {name}");
    }
}
