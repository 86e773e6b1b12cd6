//! The plug is pulled: a process that writes is killed at any moment, and everything that it said to be durable is there.

#![allow(clippy::print_stdout, reason = "the seed is told when a test fails")]

mod chance;

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

use chance::{Chance, seed};
use pollster::block_on;
use tendot_proto::Value;
use tendot_store::{Change, Edit, Embedded, Expect, Importer, Key, Store};

/// Set in the process that writes and is killed.
const DIRECTORY: &str = "TENDOT_KILL_TEST_DIRECTORY";

/// Set in the process that imports and is killed: what the records are to say.
const ROUND: &str = "TENDOT_KILL_TEST_ROUND";

/// How often; more with `TENDOT_KILLS=5000 cargo test --release -p tendot-store --test kill`. Every second one during an
/// import.
const KILLS: u32 = 250;

/// After so many a new store is begun, so that looking at it stays quick.
const RENEWED: u32 = 50;

/// Records of an import.
const IMPORTED: u64 = 1_000;

/// Not a test by itself: what the killed process does. Says `durable round name` for each change that is.
#[test]
fn writes_until_it_is_killed() {
    let Ok(directory) = std::env::var(DIRECTORY) else { return };
    let store = Embedded::open(Path::new(&directory)).unwrap();
    say("opened");
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
                    say(&format!("durable {round} {name}"));
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
fn imports_until_it_is_killed() {
    let (Ok(directory), Ok(round)) = (std::env::var(DIRECTORY), std::env::var(ROUND)) else { return };
    let mut importer =
        Importer::open(Path::new(&directory), "importer", 1).unwrap().together(100).buffer(50_000);
    say("opened");
    for number in 0..IMPORTED {
        // In any order.
        let name = imported_name(number * 389 % IMPORTED);
        importer.put(name.clone().into(), &values(&name, round.parse().unwrap())).unwrap();
    }
    importer.finish(|_| {}).unwrap();
    say("imported");
}

/// In a line of its own, with an end, so that one that was cut off is known.
fn say(what: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "\n{what} .");
    let _ = out.flush();
}

fn imported_name(number: u64) -> String {
    format!("10.2000/Import-{number:04}")
}

#[test]
fn what_was_durable_is_there_after_a_kill() {
    let kills = std::env::var("TENDOT_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(KILLS);
    let seed = seed();
    println!("TENDOT_SEED={seed}");
    let mut chance = Chance::new(seed);
    let mut directory = tempfile::tempdir().unwrap();
    let mut durable: BTreeMap<String, u64> = BTreeMap::new();
    // The import that is under way or done, and the last that was done.
    let (mut round, mut imported) = (1, 0);
    let (mut said, mut imports) = (0, 0);
    for kill in 0..kills {
        if kill % RENEWED == 0 {
            directory = tempfile::tempdir().unwrap();
            durable.clear();
            (round, imported) = (1, 0);
        }
        let is_import = kill % 2 == 1;
        let child = if is_import { "imports_until_it_is_killed" } else { "writes_until_it_is_killed" };
        let moment = Duration::from_millis(chance.below(if is_import { 200 } else { 60 }) as u64);
        let moment = match kill % RENEWED {
            // In the end the import is done, however often it was interrupted.
            last if last == RENEWED - 1 => Moment::Never,
            _ if chance.flip() => Moment::AfterStart(moment),
            _ => Moment::AfterOpening(moment),
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
    assert!(said > kills && imports >= kills / RENEWED, "only {said} changes and {imports} imports");
}

/// When a process is killed.
#[derive(Clone, Copy)]
enum Moment {
    AfterStart(Duration),
    AfterOpening(Duration),
    Never,
}

/// What a process says until it is killed.
fn lines_until_killed(child: &str, directory: &Path, round: u64, moment: Moment) -> Vec<String> {
    let mut writer = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", child, "--nocapture"])
        .env(DIRECTORY, directory)
        .env(ROUND, round.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let out = BufReader::new(writer.stdout.take().unwrap());
    let (opened, is_opened) = channel();
    let killer = std::thread::spawn(move || {
        match moment {
            Moment::AfterStart(moment) => std::thread::sleep(moment),
            Moment::AfterOpening(moment) => {
                // Or it came to its end.
                let _ = is_opened.recv();
                std::thread::sleep(moment);
            }
            Moment::Never => {
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
        (0..IMPORTED).filter_map(|number| round_of(&store, &imported_name(number))).collect();
    assert_eq!(names.len(), found.len(), "each is there once");
    assert!(found.iter().all(|found| *found == round || *found == round - 1), "round {round}");
    if imported > 0 {
        assert_eq!(found.len() as u64, IMPORTED);
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
        let found = round_of(&store, name);
        assert!(found >= Some(*round), "{name}: {round} was durable, {found:?} is there");
    }
    let log = block_on(store.changes(0, usize::MAX)).unwrap();
    assert_eq!(log.last().map_or(0, |line| line.sequence), log.len() as u64, "no number is left out");
    for writer in 0..4 {
        for number in 0..50 {
            let name = format!("10.1000/W{writer}-{number}");
            let (round, twin) = (round_of(&store, &name), format!("{name}-twin"));
            assert_eq!(round, round_of(&store, &twin), "{name}");
            let written = round.map(|round| round.to_string().into_bytes().into_boxed_slice());
            assert_eq!(block_on(store.note(name.as_bytes())).unwrap(), written, "{name}");
            let twin = block_on(store.get(&Key::new(&twin).unwrap())).unwrap();
            assert_eq!(twin.map(|twin| twin.registration), written, "{name}");
        }
    }
}

fn round_of(store: &Embedded, name: &str) -> Option<u64> {
    let entry = block_on(store.get(&Key::new(name).unwrap())).unwrap()?;
    let data = String::from_utf8(entry.values[0].data.to_vec()).unwrap();
    data.split('/').nth(3).unwrap().parse().ok()
}
