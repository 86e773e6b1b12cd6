//! Crash consistency: a process is killed during batches and transfers, and each change is stored completely or not at all.

#![allow(clippy::print_stdout, reason = "the child process reports its progress")]

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use tendot_registry::party::{AllocatePrefix, CreateAgency, CreateRegistrant, PrefixPolicy};
use tendot_registry::transfer::{ProposeTransfer, TransferState, TransferSubject};
use tendot_registry::{CallContext, Caller, RegistrySettings};
use tendot_store::{AnyStore, EmbeddedStore};
use tendot_testing::{block_on, ram_dir, repetitions};

use crate::fixtures::check_invariants;
use crate::fixtures::registry_fixture::*;
use crate::support::{TestRegistry, copy_dir};

/// Set in the child process: the directory of its store.
const CHILD_DIR_ENV: &str = "TENDOT_TEST_CRASH_DIR";

/// Kills in an ordinary run.
const DEFAULT_KILLS: u64 = 10;

/// Lines of a batch, and names of a transfer.
const BATCH_LINES: u64 = 40;

/// Not a test by itself: the child process, which writes until it is killed and reports each change after its commit.
#[test]
fn writer_process() {
    let Ok(directory) = std::env::var(CHILD_DIR_ENV) else { return };
    let fixture =
        RegistryFixture::in_memory().with_store(EmbeddedStore::open(Path::new(&directory)).unwrap());
    let caller = fixture.caller('1');
    report("opened");
    for round in 0_u64.. {
        let name = |number| format!("{PREFIX_A1}/{round}-{number}");
        let lines: Vec<_> =
            (0..BATCH_LINES).map(|number| batch_line(number, request(&name(number), "https://a/"))).collect();
        let render = |outcomes: &[_]| outcome_texts(outcomes).join("\n").into_bytes();
        fixture.journaled_batch(&lines, &caller, &format!("round-{round}"), render).unwrap();
        report(&format!("batch {round}"));
        let names = (0..BATCH_LINES).map(|number| name(number).into()).collect();
        transfer(&fixture.registry, TransferSubject::Names(names), fixture.id("A2"), round, 1);
        report(&format!("names {round}"));
        let to = fixture.id(if round.is_multiple_of(2) { "B1" } else { "A1" });
        transfer(&fixture.registry, TransferSubject::Prefix(PREFIX_A1_OTHER.into()), to, round, 2);
        report(&format!("prefix {round}"));
        let code = agency_code(round);
        let agency_json = format!(r#"{{"code": "{code}", "name": "An agency", "metadata": "optional"}}"#);
        fixture.execute_as_operator(&serde_json::from_str::<CreateAgency>(&agency_json).unwrap());
        for number in 0..3 {
            let agency = Some(code.as_str().into());
            let (name, contact, admins) = ("R".into(), None, Vec::new());
            let random_bytes = fixture.random_bytes();
            let created = fixture.execute_as_operator(&CreateRegistrant {
                agency,
                name,
                contact,
                admins,
                random_bytes,
            });
            let prefix = Some(format!("10.{}", 100_000 + round * 10 + number).into());
            let policy = PrefixPolicy::default();
            fixture.execute_as_operator(&AllocatePrefix {
                registrant: created.output.id,
                prefix,
                is_test: false,
                policy,
            });
        }
        transfer(&fixture.registry, TransferSubject::Agency(code.as_str().into()), "beta".into(), round, 3);
        report(&format!("agency {round}"));
    }
}

fn agency_code(round: u64) -> String {
    format!("round{round}")
}

fn transfer(registry: &TestRegistry, subject: TransferSubject, to: Box<str>, round: u64, kind: u8) {
    let mut random_bytes = [kind; 16];
    random_bytes[..8].copy_from_slice(&round.to_le_bytes());
    let transfer = ProposeTransfer { subject, to, force: true, random_bytes };
    let outcome =
        block_on(registry.execute(&transfer, CallContext::new(&Caller::Operator, NOW, &mut budget())));
    assert!(outcome.is_ok(), "{:?}", outcome.err());
}

/// Prints a change in its own line, with an end mark to detect truncated lines.
fn report(change: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "\n{change} .");
    let _ = out.flush();
}

#[test]
fn commits_are_atomic() {
    let kills = repetitions("TENDOT_TEST_KILLS", DEFAULT_KILLS, 100);
    // A killed process loses nothing that it has written to a file, so nothing has to reach a disk.
    let original = ram_dir();
    drop(RegistryFixture::new(EmbeddedStore::open(original.path()).unwrap()));
    let (mut kinds, mut unreported) = (BTreeSet::new(), 0);
    for kill in 0..kills {
        let directory = ram_dir();
        copy_dir(original.path(), directory.path());
        // Spread over the changes of the first two rounds, and over the time that the next change takes.
        let (changes, delay) = (kill as usize % 9, Duration::from_micros(kill * 7_919 % 20_000));
        let reported = run_and_kill(directory.path(), changes, delay);
        unreported += check(directory.path(), &reported);
        kinds.extend(reported.iter().filter_map(|change| change.split(' ').next().map(str::to_owned)));
    }
    println!("{unreported} changes were stored but not reported");
    assert_eq!(kinds.len(), 4, "each kind of change was committed before some kill: {kinds:?}");
}

/// Kills the child process some time after it has reported a number of changes; returns all reported changes.
fn run_and_kill(directory: &Path, changes: usize, delay: Duration) -> BTreeSet<String> {
    let mut writer = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crash_consistency::writer_process", "--nocapture"])
        .env(CHILD_DIR_ENV, directory)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let out = BufReader::new(writer.stdout.take().unwrap());
    let mut lines =
        out.lines().map_while(Result::ok).filter_map(|line| line.strip_suffix(" .").map(str::to_owned));
    assert!(lines.any(|line| line == "opened"));
    let mut reported: BTreeSet<String> = lines.by_ref().take(changes).collect();
    // The kill has to come at any moment, also between two lines of output.
    std::thread::sleep(delay);
    writer.kill().unwrap();
    writer.wait().unwrap();
    reported.extend(lines);
    reported
}

/// Checks that all reported changes are complete; returns the number of complete changes that were not reported.
fn check(directory: &Path, reported: &BTreeSet<String>) -> usize {
    let registry = TestRegistry::new(EmbeddedStore::open(directory).unwrap(), RegistrySettings::default());
    check_invariants(&registry);
    let operator = &Caller::Operator;
    let mut budget_left = budget();
    let transfers =
        block_on(registry.list_transfers(None, 1_000, CallContext::new(operator, NOW, &mut budget_left)))
            .unwrap()
            .items;
    let is_done = |subject: &dyn Fn(&TransferSubject) -> bool| {
        transfers
            .iter()
            .any(|item| subject(&item.transfer.subject) && item.transfer.state == TransferState::Completed)
    };
    let (a2, mut unreported) = (RegistryFixture::in_memory().id("A2"), 0);
    let mut compare = |change: String, is_stored: bool| {
        assert!(is_stored || !reported.contains(&change), "{change} was reported");
        unreported += usize::from(is_stored && !reported.contains(&change));
    };
    let last =
        reported.iter().filter_map(|change| change.split_once(' ')?.1.parse::<u64>().ok()).max().unwrap_or(0);
    let mut journaled: BTreeSet<String> = journaled_results(registry.store()).into_iter().collect();
    for round in 0..=last + 1 {
        let names: Vec<_> = (0..BATCH_LINES).map(|number| format!("{PREFIX_A1}/{round}-{number}")).collect();
        let found: Vec<_> = names
            .iter()
            .filter_map(|name| {
                block_on(registry.get_doi(name, CallContext::new(operator, NOW, &mut budget()))).ok()
            })
            .collect();
        let results = names.iter().map(|name| format!("created {name}")).collect::<Vec<_>>().join("\n");
        let is_journaled = journaled.remove(&results);
        assert_eq!(found.len(), if is_journaled { names.len() } else { 0 }, "batch {round}");
        compare(format!("batch {round}"), is_journaled);
        let transferred = found.iter().filter(|name| name.registrant == a2).count();
        let is_transferred = is_done(
            // A list has the first names of a transfer.
            &|subject| matches!(subject, TransferSubject::Names(first) if first.iter().zip(&names).all(|(listed, name)| **listed == **name)),
        );
        assert_eq!(transferred, if is_transferred { names.len() } else { 0 }, "names {round}");
        compare(format!("names {round}"), is_transferred);
        let code = agency_code(round);
        let found = block_on(registry.get_agency(&code, &mut budget()));
        let is_closed = found.is_ok_and(|agency| agency.value.closed.is_some());
        assert_eq!(
            is_closed,
            is_done(&|subject| matches!(subject, TransferSubject::Agency(closed) if **closed == *code))
        );
        for number in 0..3 {
            let prefix = format!("10.{}", 100_000 + round * 10 + number);
            if let Ok(prefix) = block_on(registry.get_prefix(&prefix, &mut budget())) {
                assert_eq!(&*prefix.value.agency, if is_closed { "beta" } else { &*code });
            }
        }
        compare(format!("agency {round}"), is_closed);
    }
    assert!(journaled.is_empty(), "incomplete batches: {journaled:?}");
    let prefix_transfers =
        transfers.iter().filter(|item| matches!(item.transfer.subject, TransferSubject::Prefix(_))).count();
    let agency = block_on(registry.get_prefix(PREFIX_A1_OTHER, &mut budget())).unwrap().value.agency;
    assert_eq!(&*agency, if prefix_transfers.is_multiple_of(2) { "alpha" } else { "beta" });
    let reported_prefix_transfers = reported.iter().filter(|change| change.starts_with("prefix")).count();
    assert!(prefix_transfers >= reported_prefix_transfers);
    let AnyStore::Embedded(store) = registry.store() else { panic!("another store") };
    assert_eq!(store.verify(|_| {}).unwrap().errors, [""; 0]);
    unreported + prefix_transfers - reported_prefix_transfers
}
