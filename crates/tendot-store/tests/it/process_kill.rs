//! The plug is pulled: a process that writes is killed at any moment, and everything that it said to be durable is there.

#![allow(clippy::print_stdout, reason = "the seed is told when a test fails")]


use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

use tendot_testing::{SeededRng, test_seed};
use pollster::block_on;
use tendot_proto::Value;
use tendot_store::{Change, Edit, Embedded, Expect, Importer, Key, Store};

/// Set in the process that writes and is killed.
const DIRECTORY_VAR: &str = "TENDOT_KILL_TEST_DIRECTORY";

/// Set in the process that imports and is killed: what the records are to emit.
const ROUND_VAR: &str = "TENDOT_KILL_TEST_ROUND";

/// How often; more with `TENDOT_KILLS=5000 cargo test --release -p tendot-store --test kill`. Every second one during an
/// import.
const DEFAULT_KILLS: u32 = 250;

/// After so many a new store is begun, so that looking at it stays quick.
const KILLS_PER_STORE: u32 = 50;

/// Records of an import.
const IMPORTED_RECORDS: u64 = 1_000;

/// Not a test by itself: what the killed process does. Says `durable round name` for each change that is.
#[test]
fn child_writes() {
    let Ok(directory) = std::env::var(DIRECTORY_VAR) else { return };
    let store = Embedded::open(Path::new(&directory)).unwrap();
    emit("opened");
    let before = block_on(store.changes(0, usize::MAX)).unwrap().len() as u64;
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let store = &store;
            scope.spawn(move || {
                for number in 0_u64.. {
                    let round = before * 1_000 + number;
                    let name = format!("10.1000/W{writer}-{}", number % 50);
                    // Two records and a note that belong together.
                    let body = round.to_string().into_bytes().into();
                    let edits = vec![
                        put(&name, round),
                        Edit::PutNote { key: name.as_bytes().into(), body },
                        register(&format!("{name}-twin"), round),
                    ];
                    let change = Change { by: "writer".into(), at: round, edits };
                    block_on(store.commit(change)).unwrap();
                    emit(&format!("durable {round} {name}"));
                }
            });
        }
    });
}

fn values(name: &str, round: u64) -> Vec<Value<'static>> {
    vec![Value::new(1, "URL", format!("https://example.org/{round}/{name}"))]
}

fn put(name: &str, round: u64) -> Edit {
    Edit::Put { name: name.into(), values: values(name, round), expect: Expect::Any }
}

fn register(name: &str, round: u64) -> Edit {
    let registration = round.to_string().into_bytes().into();
    Edit::Register { name: name.into(), values: values(name, round), registration, expect: Expect::Any }
}

/// Not a test by itself: an import, which says `imported` when it is done.
#[test]
fn child_imports() {
    let (Ok(directory), Ok(round)) = (std::env::var(DIRECTORY_VAR), std::env::var(ROUND_VAR)) else { return };
    let mut importer =
        Importer::open(Path::new(&directory), "importer", 1).unwrap().together(100).buffer(50_000);
    emit("opened");
    for number in 0..IMPORTED {
        // In any order.
        let name = imported_name(number * 389 % IMPORTED_RECORDS);
        importer.put(name.clone().into(), &values(&name, round.parse().unwrap())).unwrap();
    }
    importer.finish(|_| {}).unwrap();
    emit("imported");
}

/// In a line of its own, with an end, so that one that was cut off is known.
fn emit(what: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "\n{what} .");
    let _ = out.flush();
}

fn imported_name(number: u64) -> String {
    format!("10.2000/Import-{number:04}")
}

#[test]
fn durable_after_kill() {
    let kills = std::env::var("TENDOT_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(DEFAULT_KILLS);
    let seed = test_seed();
    println!("TENDOT_TEST_SEED={seed}");
    let mut rng = SeededRng::new(seed);
    let mut directory = ram_dir();
    let mut durable: BTreeMap<String, u64> = BTreeMap::new();
    // The import that is under way or done, and the last that was done.
    let (mut round, mut imported) = (1, 0);
    let (mut said, mut imports) = (0, 0);
    for kill in 0..kills {
        if kill % KILLS_PER_STORE == 0 {
            directory = ram_dir();
            durable.clear();
            (round, imported) = (1, 0);
        }
        let is_import = kill % 2 == 1;
        let child = if is_import { "child_imports" } else { "child_writes" };
        let moment = Duration::from_millis(rng.below(if is_import { 200 } else { 60 }) as u64);
        let moment = match kill % KILLS_PER_STORE {
            // In the end the import is done, however often it was interrupted.
            last if last == KILLS_PER_STORE - 1 => KillTime::Never,
            _ if rng.flip() => KillTime::AfterStart(moment),
            _ => KillTime::AfterOpening(moment),
        };
        let mut is_imported = false;
        for line in lines_until_killed(child, directory.path(), round, moment) {
            // Without its last word a line was cut off.
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["durable", round, name, "."] => {
                    durable.insert(name.to_owned(), round.parse().unwrap());
                    said += 1;
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
    println!("{said} changes and {imports} imports were durable before a kill");
    assert!(said > kills && imports >= kills / KILLS_PER_STORE, "only {said} changes and {imports} imports");
}

/// When a process is killed.
#[derive(Clone, Copy)]
enum KillTime {
    AfterStart(Duration),
    AfterOpening(Duration),
    Never,
}

/// What a process says until it is killed.
fn lines_until_killed(child: &str, directory: &Path, round: u64, moment: KillTime) -> Vec<String> {
    let mut writer = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", child, "--nocapture"])
        .env(DIRECTORY_VAR, directory)
        .env(ROUND_VAR, round.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let out = BufReader::new(writer.stdout.take().unwrap());
    let (opened, is_opened) = channel();
    let killer = std::thread::spawn(move || {
        match moment {
            KillTime::AfterStart(moment) => std::thread::sleep(moment),
            KillTime::AfterOpening(moment) => {
                // Or it came to its end.
                let _ = is_opened.recv();
                std::thread::sleep(moment);
            }
            KillTime::Never => {
                writer.wait().unwrap();
            }
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

/// What is there of imports is of the one under way, if it came that far, or of the one before; of one that was done it
/// is all.
fn check_import(directory: &Path, round: u64, imported: u64) {
    let store = Embedded::open(directory).unwrap();
    let names = block_on(store.list(b"10.2000", None, usize::MAX)).unwrap();
    let found: Vec<u64> =
        (0..IMPORTED).filter_map(|number| stored_round(&store, &imported_name(number))).collect();
    assert_eq!(names.len(), found.len(), "each is there once");
    assert!(found.iter().all(|found| *found == round || *found == round - 1), "round {round}");
    if imported > 0 {
        assert_eq!(found.len() as u64, IMPORTED_RECORDS);
    }
    if imported == round {
        assert!(found.iter().all(|found| *found == round), "round {round} was done");
    }
    assert_eq!(store.verify(|_| {}).unwrap().damage, [""; 0]);
}

/// What is there is at least what was durable, and a change is there whole or not at all.
fn check(directory: &Path, durable: &BTreeMap<String, u64>) {
    let store = Embedded::open(directory).unwrap();
    for (name, round) in durable {
        let found = stored_round(&store, name);
        assert!(found >= Some(*round), "{name}: {round} was durable, {found:?} is there");
    }
    let log = block_on(store.changes(0, usize::MAX)).unwrap();
    assert_eq!(log.last().map_or(0, |line| line.sequence), log.len() as u64, "no number is left out");
    for writer in 0..4 {
        for number in 0..50 {
            let name = format!("10.1000/W{writer}-{number}");
            let (round, twin) = (stored_round(&store, &name), format!("{name}-twin"));
            assert_eq!(round, stored_round(&store, &twin), "{name}");
            let written = round.map(|round| round.to_string().into_bytes().into_boxed_slice());
            assert_eq!(block_on(store.note(name.as_bytes())).unwrap(), written, "{name}");
            let twin = block_on(store.get(&Key::new(&twin).unwrap())).unwrap();
            assert_eq!(twin.map(|twin| twin.registration), written, "{name}");
        }
    }
}

fn stored_round(store: &Embedded, name: &str) -> Option<u64> {
    let entry = block_on(store.get(&Key::new(name).unwrap())).unwrap()?;
    let data = String::from_utf8(entry.values[0].data.to_vec()).unwrap();
    data.split('/').nth(3).unwrap().parse().ok()
}
