//! The plug is pulled: a process that writes is killed at any moment, and everything that it said to be durable is there.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use pollster::block_on;
use tendot_proto::Value;
use tendot_store::{Change, Edit, Embedded, Expect, Key, Store};

/// Set in the process that writes and is killed.
const DIRECTORY: &str = "TENDOT_KILL_TEST_DIRECTORY";

/// How often; more with `TENDOT_KILLS=1000 cargo test --release -p tendot-store --test kill`.
const KILLS: u32 = 40;

/// Not a test by itself: what the killed process does. Says `durable round name` for each change that is.
#[test]
fn writes_until_it_is_killed() {
    let Ok(directory) = std::env::var(DIRECTORY) else { return };
    let store = Embedded::open(Path::new(&directory)).unwrap();
    let before = block_on(store.changes(0, usize::MAX)).unwrap().len() as u64;
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let store = &store;
            scope.spawn(move || {
                for number in 0_u64.. {
                    let round = before * 1_000 + number;
                    let name = format!("10.1000/W{writer}-{}", number % 50);
                    // Two records that belong together.
                    let edits = vec![put(&name, round), put(&format!("{name}-twin"), round)];
                    let change = Change { by: "writer".into(), at: round, edits };
                    block_on(store.commit(change)).unwrap();
                    let mut out = std::io::stdout().lock();
                    let _ = writeln!(out, "\ndurable {round} {name} .");
                    let _ = out.flush();
                }
            });
        }
    });
}

fn put(name: &str, round: u64) -> Edit {
    let values = vec![Value::new(1, "URL", format!("https://example.org/{round}/{name}"))];
    Edit::Put { name: name.into(), values, expect: Expect::Any }
}

#[test]
fn what_was_durable_is_there_after_a_kill() {
    let kills = std::env::var("TENDOT_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(KILLS);
    let directory = tempfile::tempdir().unwrap();
    let mut durable: BTreeMap<String, u64> = BTreeMap::new();
    let mut said = 0;
    for kill in 0..kills {
        let mut writer = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "writes_until_it_is_killed", "--nocapture"])
            .env(DIRECTORY, directory.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let out = BufReader::new(writer.stdout.take().unwrap());
        // A different moment each time; the first ones before anything was written.
        let moment = Duration::from_millis(u64::from(kill * 7 % 60));
        let killer = std::thread::spawn(move || {
            std::thread::sleep(moment);
            writer.kill().unwrap();
            writer.wait().unwrap();
        });
        for line in out.lines().map_while(Result::ok) {
            // Without its last word a line was cut off.
            let words: Vec<&str> = line.split(' ').collect();
            if let ["durable", round, name, "."] = words[..] {
                durable.insert(name.to_owned(), round.parse().unwrap());
                said += 1;
            }
        }
        killer.join().unwrap();
        check(directory.path(), &durable);
    }
    assert!(said > 100, "only {said} changes were durable before a kill");
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
            assert_eq!(round_of(&store, &name), round_of(&store, &format!("{name}-twin")), "{name}");
        }
    }
}

fn round_of(store: &Embedded, name: &str) -> Option<u64> {
    let entry = block_on(store.get(&Key::new(name).unwrap())).unwrap()?;
    let data = String::from_utf8(entry.values[0].data.to_vec()).unwrap();
    data.split('/').nth(3).unwrap().parse().ok()
}
