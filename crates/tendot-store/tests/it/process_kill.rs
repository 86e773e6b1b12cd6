//! Process kills: a writing process is killed at random moments, and every acknowledged change is durable.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::sync::mpsc::channel;
use std::time::Duration;

use pollster::block_on;
use tendot_proto::HandleValue;
use tendot_store::{ChangeSet, Edit, EmbeddedImporter, EmbeddedStore, NameKey, Precondition, Store};
use tendot_testing::{SeededRng, child_test, emit, ram_dir, repetitions, test_seed};

/// Set in child processes: the store.
const DIRECTORY_VAR: &str = "TENDOT_TEST_KILL_DIRECTORY";

/// Set in child processes that import: the number that the records contain.
const ROUND_VAR: &str = "TENDOT_TEST_KILL_ROUND";

/// Kills in an ordinary run, every second one during an import; `TENDOT_TEST_KILLS=5000` for more.
const DEFAULT_KILLS: u64 = 30;
const FULL_RUN_KILLS: u64 = 2_000;

/// After this many kills a new store is created, so that checking it stays quick.
const KILLS_PER_STORE: u64 = 30;

/// Records of an import.
const IMPORTED_RECORDS: u64 = 1_000;

/// Child process: writes until it is killed; prints `durable ROUND NAME` for each acknowledged change set.
#[test]
fn child_writes() {
    let Ok(directory) = std::env::var(DIRECTORY_VAR) else { return };
    let store = EmbeddedStore::open(Path::new(&directory)).unwrap();
    emit("opened");
    let before = block_on(store.read_log(0, usize::MAX)).unwrap().len() as u64;
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let store = &store;
            scope.spawn(move || {
                for number in 0_u64.. {
                    let round = before * 1_000 + number;
                    let name = format!("10.1000/W{writer}-{}", number % 50);
                    // Two records and an aux entry that belong together.
                    let value = round.to_string().into_bytes().into();
                    let edits = vec![
                        put(&name, round),
                        Edit::PutAux { key: name.as_bytes().into(), value },
                        register(&format!("{name}-twin"), round),
                    ];
                    let change = ChangeSet { author: "writer".into(), timestamp_ms: round, edits };
                    block_on(store.commit(change)).unwrap();
                    emit(&format!("durable {round} {name}"));
                }
            });
        }
    });
}

fn values(name: &str, round: u64) -> Vec<HandleValue<'static>> {
    vec![HandleValue::new(1, "URL", format!("https://example.org/{round}/{name}"))]
}

fn put(name: &str, round: u64) -> Edit {
    Edit::Put { name: name.into(), values: values(name, round), precondition: Precondition::NotTombstone }
}

fn register(name: &str, round: u64) -> Edit {
    let registration = round.to_string().into_bytes().into();
    Edit::Register {
        name: name.into(),
        values: values(name, round),
        registration,
        precondition: Precondition::NotTombstone,
    }
}

/// Child process: imports and prints `imported` when it is done.
#[test]
fn child_imports() {
    let (Ok(directory), Ok(round)) = (std::env::var(DIRECTORY_VAR), std::env::var(ROUND_VAR)) else { return };
    let mut importer = EmbeddedImporter::open(Path::new(&directory), "importer", 1)
        .unwrap()
        .records_per_transaction(100)
        .buffer_bytes(50_000);
    emit("opened");
    for number in 0..IMPORTED_RECORDS {
        // Not in name order.
        let name = imported_name(number * 389 % IMPORTED_RECORDS);
        importer.add(name.clone().into(), &values(&name, round.parse().unwrap())).unwrap();
    }
    importer.finish(|_| {}).unwrap();
    emit("imported");
}

fn imported_name(number: u64) -> String {
    format!("10.2000/Import-{number:04}")
}

#[test]
fn durable_after_kill() {
    let kills = repetitions("TENDOT_TEST_KILLS", DEFAULT_KILLS, FULL_RUN_KILLS);
    let seed = test_seed();
    println!("TENDOT_TEST_SEED={seed}");
    let mut rng = SeededRng::new(seed);
    let mut directory = ram_dir();
    let mut durable: BTreeMap<String, u64> = BTreeMap::new();
    // The current import, and the last one that was completed.
    let (mut round, mut imported) = (1, 0);
    let (mut acknowledged, mut imports) = (0_u64, 0_u64);
    for kill in 0..kills {
        if kill % KILLS_PER_STORE == 0 {
            directory = ram_dir();
            durable.clear();
            (round, imported) = (1, 0);
        }
        let is_import = kill % 2 == 1;
        let child = if is_import { "process_kill::child_imports" } else { "process_kill::child_writes" };
        let kill_time = Duration::from_millis(rng.below(if is_import { 200 } else { 60 }) as u64);
        let kill_time = match kill % KILLS_PER_STORE {
            // At the end an import is completed, however often it was interrupted.
            last if last == KILLS_PER_STORE - 1 => KillTime::Never,
            _ if rng.coin() => KillTime::AfterStart(kill_time),
            _ => KillTime::AfterOpening(kill_time),
        };
        let mut is_imported = false;
        for line in lines_until_killed(child, directory.path(), round, kill_time) {
            // A line without its last word was cut off by the kill.
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["durable", round, name, "."] => {
                    durable.insert(name.to_owned(), round.parse().unwrap());
                    acknowledged += 1;
                }
                ["imported", "."] => is_imported = true,
                _ => {}
            }
        }
        if is_imported {
            imported = round;
            imports += 1;
        }
        check(directory.path(), &durable);
        check_import(directory.path(), round, imported);
        if is_imported {
            round += 1;
        }
    }
    println!("{acknowledged} change sets and {imports} imports were acknowledged before a kill");
    assert!(acknowledged > kills, "only {acknowledged} change sets");
    assert!(imports >= kills / KILLS_PER_STORE, "only {imports} imports");
}

/// When the child process is killed.
#[derive(Clone, Copy)]
enum KillTime {
    AfterStart(Duration),
    AfterOpening(Duration),
    Never,
}

/// The lines that a child process prints until it is killed.
fn lines_until_killed(child: &str, directory: &Path, round: u64, kill_time: KillTime) -> Vec<String> {
    let mut writer = child_test(child)
        .env(DIRECTORY_VAR, directory)
        .env(ROUND_VAR, round.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let out = BufReader::new(writer.stdout.take().unwrap());
    let (opened, is_opened) = channel();
    let killer = std::thread::spawn(move || {
        let delay = match kill_time {
            KillTime::AfterStart(delay) => Some(delay),
            KillTime::AfterOpening(delay) => {
                // Or the process has ended.
                let _ = is_opened.recv();
                Some(delay)
            }
            KillTime::Never => None,
        };
        match delay {
            // The kill has to come at a random moment, not at an event.
            Some(delay) => std::thread::sleep(delay),
            None => drop(writer.wait().unwrap()),
        }
        writer.kill().unwrap();
        writer.wait().unwrap();
    });
    let mut lines = Vec::new();
    for line in out.lines().map_while(Result::ok) {
        if line == "opened ." {
            let _ = opened.send(());
        }
        lines.push(line);
    }
    drop(opened);
    killer.join().unwrap();
    lines
}

/// Imported records are of the current import or of the one before; a completed import is stored completely.
fn check_import(directory: &Path, round: u64, imported: u64) {
    let store = EmbeddedStore::open(directory).unwrap();
    let names = block_on(store.list_names(b"10.2000", None, usize::MAX)).unwrap();
    let found: Vec<u64> =
        (0..IMPORTED_RECORDS).filter_map(|number| stored_round(&store, &imported_name(number))).collect();
    assert_eq!(names.len(), found.len(), "each name once");
    assert!(found.iter().all(|found| *found == round || *found == round - 1), "round {round}");
    if imported > 0 {
        assert_eq!(found.len() as u64, IMPORTED_RECORDS);
    }
    if imported == round {
        assert!(found.iter().all(|found| *found == round), "round {round} was completed");
    }
    assert_eq!(store.verify(|_| {}).unwrap().errors, [""; 0]);
}

/// Every acknowledged change set is stored, and every change set completely or not at all.
fn check(directory: &Path, durable: &BTreeMap<String, u64>) {
    let store = EmbeddedStore::open(directory).unwrap();
    for (name, round) in durable {
        let found = stored_round(&store, name);
        assert!(found >= Some(*round), "{name}: {round} was acknowledged, {found:?} is stored");
    }
    let log = block_on(store.read_log(0, usize::MAX)).unwrap();
    assert_eq!(log.last().map_or(0, |last| last.sequence), log.len() as u64, "the log has a gap");
    for writer in 0..4 {
        for number in 0..50 {
            let name = format!("10.1000/W{writer}-{number}");
            let (round, twin) = (stored_round(&store, &name), format!("{name}-twin"));
            assert_eq!(round, stored_round(&store, &twin), "{name}");
            let written = round.map(|round| round.to_string().into_bytes().into_boxed_slice());
            assert_eq!(block_on(store.get_aux(name.as_bytes())).unwrap(), written, "{name}");
            let twin = block_on(store.get(&NameKey::new(&twin).unwrap())).unwrap();
            assert_eq!(twin.map(|twin| twin.registration), written, "{name}");
        }
    }
}

fn stored_round(store: &EmbeddedStore, name: &str) -> Option<u64> {
    let entry = block_on(store.get(&NameKey::new(name).unwrap())).unwrap()?;
    let data = String::from_utf8(entry.values[0].data.to_vec()).unwrap();
    data.split('/').nth(3).unwrap().parse().ok()
}
