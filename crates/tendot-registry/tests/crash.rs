//! The plug is pulled in the middle of a batch and of a transfer: each change is there as a whole or not at all.

#![allow(clippy::print_stdout, reason = "what was done is told")]

mod parties;

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use parties::*;
use pollster::block_on;
use tendot_registry::party::{NewAgency, NewPrefix, NewRegistrant, Policy};
use tendot_registry::transfer::{NewTransfer, TransferState, What};
use tendot_registry::{Caller, Registry, Settings};
use tendot_store::{Edit, Embedded, Store};

/// Set in the process that writes and is killed.
const DIRECTORY: &str = "TENDOT_CRASH_TEST_DIRECTORY";

/// How often; more with `TENDOT_KILLS=1000`.
const KILLS: u64 = 25;

/// Lines of a batch, and names of a transfer.
const LINES: u64 = 40;

/// Not a test by itself: what the killed process does. Says what is done when it is.
#[test]
fn writes_until_it_is_killed() {
    let Ok(directory) = std::env::var(DIRECTORY) else { return };
    let scene = InMemory.scene().over(Embedded::open(Path::new(&directory)).unwrap());
    let one = scene.caller('1');
    say("opened");
    for round in 0_u64.. {
        let name = |number| format!("{ONE}/{round}-{number}");
        let lines: Vec<_> =
            (0..LINES).map(|number| line(number, deposit(&name(number), "https://a/"))).collect();
        let beside = |outcomes: &[_]| {
            let body = told(outcomes).join("\n").into_bytes().into();
            vec![Edit::PutNote { key: format!("receipt/{round}").into_bytes().into(), body }]
        };
        block_on(scene.registry.deposit(&lines, &one, NOW, false, beside)).unwrap();
        say(&format!("batch {round}"));
        let names = (0..LINES).map(|number| name(number).into()).collect();
        give(&scene.registry, What::Names(names), scene.id("A2"), round, 1);
        say(&format!("names {round}"));
        let to = scene.id(if round.is_multiple_of(2) { "B1" } else { "A1" });
        give(&scene.registry, What::Prefix(OTHER.into()), to, round, 2);
        say(&format!("prefix {round}"));
        let code = agency(round);
        let new = format!(r#"{{"code": "{code}", "name": "An agency"}}"#);
        scene.done(&serde_json::from_str::<NewAgency>(&new).unwrap());
        for number in 0..3 {
            let agency = Some(code.as_str().into());
            let (name, contact, admins) = ("R".into(), None, Vec::new());
            let random = scene.random();
            let made = scene.done(&NewRegistrant { agency, name, contact, admins, random });
            let prefix = Some(format!("10.{}", 100_000 + round * 10 + number).into());
            let policy = Policy::default();
            scene.done(&NewPrefix { registrant: made.done.id, prefix, test: false, policy });
        }
        give(&scene.registry, What::Agency(code.as_str().into()), "beta".into(), round, 3);
        say(&format!("agency {round}"));
    }
}

fn agency(round: u64) -> String {
    format!("round{round}")
}

fn give(registry: &Registry<Embedded>, what: What, to: Box<str>, round: u64, kind: u8) {
    let mut random = [kind; 16];
    random[..8].copy_from_slice(&round.to_le_bytes());
    let transfer = NewTransfer { what, to, force: true, random };
    let done = block_on(registry.carry_out(&transfer, &Caller::Operator, NOW, &mut work()));
    assert!(done.is_ok(), "{:?}", done.err());
}

/// In a line of its own, with an end, so that one that was cut off is known.
fn say(what: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "\n{what} .");
    let _ = out.flush();
}

#[test]
fn whole_or_not_at_all() {
    let kills = std::env::var("TENDOT_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(KILLS);
    let first = tempfile::tempdir().unwrap();
    drop(Scene::new(Embedded::open(first.path()).unwrap()));
    let (mut said, mut unsaid) = (BTreeSet::new(), 0);
    for kill in 0..kills {
        let directory = tempfile::tempdir().unwrap();
        copy_folder(first.path(), directory.path());
        // Spread over what the process does in its first rounds.
        let done = until_killed(directory.path(), Duration::from_micros(kill * 7_919 % 150_000));
        unsaid += check(directory.path(), &done);
        said.extend(done.iter().filter_map(|done| done.split(' ').next().map(str::to_owned)));
    }
    println!("{unsaid} changes were whole though nobody was told");
    assert_eq!(said.len(), 4, "each kind was done before some kill: {said:?}");
}

/// What a process did before it was killed.
fn until_killed(directory: &Path, moment: Duration) -> BTreeSet<String> {
    let mut writer = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "writes_until_it_is_killed", "--nocapture"])
        .env(DIRECTORY, directory)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let out = BufReader::new(writer.stdout.take().unwrap());
    let mut lines = out.lines().map_while(Result::ok);
    assert!(lines.any(|line| line == "opened ."));
    std::thread::sleep(moment);
    writer.kill().unwrap();
    writer.wait().unwrap();
    lines.filter_map(|line| line.strip_suffix(" .").map(str::to_owned)).collect()
}

/// Told is how many changes there are that were not said to be done.
fn check(directory: &Path, done: &BTreeSet<String>) -> usize {
    let registry = Registry::new(Embedded::open(directory).unwrap(), Settings::default());
    check_whole(&registry);
    let operator = &Caller::Operator;
    let mut paid = work();
    let (transfers, _) = block_on(registry.transfers(None, 1_000, operator, NOW, &mut paid)).unwrap();
    let is_done = |what: &dyn Fn(&What) -> bool| {
        transfers.iter().any(|one| what(&one.transfer.what) && one.transfer.state == TransferState::Done)
    };
    let (a2, mut unsaid) = (InMemory.scene().id("A2"), 0);
    let mut noted = |what: String, is_there: bool| {
        assert!(is_there || !done.contains(&what), "{what} was done");
        unsaid += usize::from(is_there && !done.contains(&what));
    };
    let last = done.iter().filter_map(|done| done.split_once(' ')?.1.parse::<u64>().ok()).max().unwrap_or(0);
    for round in 0..=last + 1 {
        let names: Vec<_> = (0..LINES).map(|number| format!("{ONE}/{round}-{number}")).collect();
        let found: Vec<_> = names
            .iter()
            .filter_map(|name| block_on(registry.registered(name, operator, NOW, &mut work())).ok())
            .collect();
        let receipt = block_on(registry.store().note(format!("receipt/{round}").as_bytes())).unwrap();
        assert_eq!(found.len(), if receipt.is_some() { names.len() } else { 0 }, "batch {round}");
        if let Some(receipt) = &receipt {
            let told = names.iter().map(|name| format!("created {name}")).collect::<Vec<_>>().join("\n");
            assert_eq!(String::from_utf8_lossy(receipt), told);
        }
        noted(format!("batch {round}"), receipt.is_some());
        let given = found.iter().filter(|name| name.registrant == a2).count();
        let is_given = is_done(
            // Of many names a list has the first.
            &|what| matches!(what, What::Names(first) if first.iter().zip(&names).all(|(one, name)| **one == **name)),
        );
        assert_eq!(given, if is_given { names.len() } else { 0 }, "names {round}");
        noted(format!("names {round}"), is_given);
        let code = agency(round);
        let there = block_on(registry.agency(&code, &mut work()));
        let has_ended = there.is_ok_and(|agency| agency.it.ended.is_some());
        assert_eq!(has_ended, is_done(&|what| matches!(what, What::Agency(one) if **one == *code)));
        for number in 0..3 {
            let prefix = format!("10.{}", 100_000 + round * 10 + number);
            if let Ok(prefix) = block_on(registry.prefix(&prefix, &mut work())) {
                assert_eq!(&*prefix.it.agency, if has_ended { "beta" } else { &*code });
            }
        }
        noted(format!("agency {round}"), has_ended);
    }
    let moves = transfers.iter().filter(|held| matches!(held.transfer.what, What::Prefix(_))).count();
    let there = block_on(registry.prefix(OTHER, &mut work())).unwrap().it.agency;
    assert_eq!(&*there, if moves.is_multiple_of(2) { "alpha" } else { "beta" });
    let said = done.iter().filter(|done| done.starts_with("prefix")).count();
    assert!(moves >= said);
    assert_eq!(registry.store().verify(|_| {}).unwrap().damage, [""; 0]);
    unsaid + moves - said
}
