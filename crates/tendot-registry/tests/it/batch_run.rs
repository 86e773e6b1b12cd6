//! The batch engine without an HTTP body: lines from memory, results into memory; interrupted batches resume.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use tendot_registry::batch::{
    BatchError, BatchFormat, BatchInput, BatchLineOutcome, BatchOutput, BatchRun, LineGroup, OutputClosed,
    RawLine, ReplayError, ReplayPlan,
};
use tendot_registry::registration::RegistrationRequest;
use tendot_registry::{Caller, IdempotencyKey, Registry, RegistryError, RegistrySettings};
use tendot_store::{MemoryStore, NameKey, Store};
use tokio::runtime::Runtime;
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::fixtures::HookedStore;
use crate::fixtures::registry_fixture::*;

/// Lines in memory; `None` is where the connection is lost.
struct MemoryLines(VecDeque<Option<RawLine>>);

impl BatchInput for MemoryLines {
    type Error = &'static str;

    async fn next(&mut self) -> Result<Option<RawLine>, &'static str> {
        match self.0.pop_front() {
            Some(Some(line)) => Ok(Some(line)),
            Some(None) => Err("connection lost"),
            None => Ok(None),
        }
    }

    async fn next_group(&mut self, _: usize) -> LineGroup<&'static str> {
        let mut group = LineGroup { lines: Vec::new(), error: None };
        while group.lines.len() < 3 {
            match self.next().await {
                Ok(Some(line)) => group.lines.push(line),
                Ok(None) => break,
                Err(error) => {
                    group.error = Some(error);
                    break;
                }
            }
        }
        group
    }
}

/// A line is a suffix and the last part of its URL; a result is the outcome.
#[derive(Clone)]
struct SuffixFormat;

impl BatchFormat for SuffixFormat {
    fn parse(&self, text: &[u8]) -> Result<RegistrationRequest, RegistryError> {
        let text = str::from_utf8(text).unwrap();
        let (suffix, path) = text.split_once(' ').unwrap_or((text, ""));
        Ok(request(&format!("{PREFIX_A1}/{suffix}"), &format!("https://example.org/{path}")))
    }

    fn peek_name(&self, _: &[u8]) -> Option<Box<str>> {
        None
    }

    fn render(&self, outcomes: &[BatchLineOutcome]) -> Bytes {
        let lines = outcomes.iter().zip(outcome_texts(outcomes));
        lines.map(|(outcome, text)| format!("{} {text}\n", outcome.number)).collect::<String>().into()
    }
}

/// Groups of 1 MiB, all of whose lines are refused.
struct FullGroups {
    groups: usize,
    lines: u64,
}

impl BatchInput for FullGroups {
    type Error = &'static str;

    async fn next(&mut self) -> Result<Option<RawLine>, &'static str> {
        Err("not resumed")
    }

    async fn next_group(&mut self, _: usize) -> LineGroup<&'static str> {
        let mut lines = Vec::new();
        if let Some(groups) = self.groups.checked_sub(1) {
            self.groups = groups;
            for _ in 0..16 {
                self.lines += 1;
                lines.push(RawLine { number: self.lines, text: Ok(vec![b'x'; 1 << 16].into()) });
            }
        }
        LineGroup { lines, error: None }
    }
}

/// Client that never reads its results; notifies when the first ones are sent.
struct StalledResults(Notify);

impl BatchOutput for StalledResults {
    async fn send(&self, _: Bytes) -> Result<(), OutputClosed> {
        self.0.notify_one();
        std::future::pending().await
    }
}

#[derive(Default)]
struct MemoryResults(Mutex<String>);

impl BatchOutput for MemoryResults {
    async fn send(&self, results: Bytes) -> Result<(), OutputClosed> {
        self.0.lock().unwrap().push_str(str::from_utf8(&results).unwrap());
        Ok(())
    }
}

struct Engine {
    runtime: Runtime,
    registry: Arc<Registry>,
    store: HookedStore,
    caller: Caller,
}

impl Engine {
    fn new() -> Self {
        let store = HookedStore::new(MemoryStore::new());
        let caller = RegistryFixture::new(store.clone()).caller('1');
        let registry = Registry::new(store.clone(), RegistrySettings::default()).with_system_clock(|| NOW);
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
        Self { runtime, registry: Arc::new(registry), store, caller }
    }

    /// Runs a batch with an idempotency key; the connection is lost after `complete` lines.
    fn run(&self, lines: &[String], complete: usize, dry_run: bool) -> (Vec<String>, Result<(), String>) {
        let line = |(index, text): (usize, &String)| {
            (index < complete).then(|| RawLine { number: index as u64 + 1, text: Ok(text.clone().into()) })
        };
        let mut input: VecDeque<_> = lines.iter().enumerate().map(line).collect();
        // Nothing follows a lost connection.
        input.truncate(complete + 1);
        let (mut input, output) = (MemoryLines(input), MemoryResults::default());
        let result = self.runtime.block_on(async {
            let key = IdempotencyKey::new(&self.caller, "key").unwrap();
            let (mut journal, mut replay) = (None, ReplayPlan::default());
            if !dry_run {
                let lock = self.registry.lock_key(key).await;
                let opened = self.registry.open_journal(lock, "suffixes", [1; 16], NOW).await.unwrap();
                let planned = opened.plan_replay(&self.registry, &mut input).await;
                replay = planned.map_err(|error| match error {
                    ReplayError::Registry(error) => error.code.to_owned(),
                    ReplayError::Input(error) => error.to_owned(),
                })?;
                journal = Some(opened);
            }
            let (registry, caller) = (Arc::clone(&self.registry), self.caller.clone());
            let (seed, format) = ([7; 16], SuffixFormat);
            let run = BatchRun { registry, caller, client: None, dry_run, journal, seed, format };
            run.run(input, replay, &output).await.map_err(|error| match error {
                BatchError::Registry(error) => error.code.to_owned(),
                BatchError::Input(error) => error.to_owned(),
                other => format!("{other:?}"),
            })
        });
        let results = output.0.into_inner().unwrap();
        (results.lines().map(Into::into).collect(), result)
    }

    /// Dry run of a batch.
    fn dry_run(&self) -> BatchRun<SuffixFormat> {
        let (registry, caller) = (Arc::clone(&self.registry), self.caller.clone());
        BatchRun {
            registry,
            caller,
            client: None,
            dry_run: true,
            journal: None,
            seed: [7; 16],
            format: SuffixFormat,
        }
    }

    fn log_len(&self) -> usize {
        self.runtime.block_on(self.store.read_log(0, 10_000)).unwrap().len()
    }
}

fn lines(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("n{number}")).collect()
}

fn created(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{} created {PREFIX_A1}/n{number}", number + 1)).collect()
}

#[test]
fn interrupted_batch_resumes() {
    let (engine, lines) = (Engine::new(), lines(20));
    let before = engine.log_len();
    let (results, result) = engine.run(&lines, 10, false);
    assert_eq!((results, result), (created(10), Err("connection lost".into())));
    assert_eq!(engine.log_len() - before, 10);
    // Nothing is executed twice, and nothing at all if all lines are repeated.
    for _ in 0..2 {
        let (results, result) = engine.run(&lines, 20, false);
        assert_eq!((results, result), (created(20), Ok(())));
        assert_eq!(engine.log_len() - before, 20);
    }
    // Other lines with the same key.
    let mut other = lines.clone();
    other[4] = "other".into();
    assert_eq!(engine.run(&other, 20, false), (Vec::new(), Err("key-reused".into())));
    assert_eq!(engine.run(&lines[..19], 19, false).1, Err("key-reused".into()));
    assert_eq!(engine.log_len() - before, 20);
}

/// Lines with the same name take effect in order, although groups are committed concurrently.
#[test]
fn lines_take_effect_in_order() {
    let engine = Engine::new();
    let lines: Vec<String> = (0..60).map(|number| format!("same {number}")).collect();
    let (results, result) = engine.run(&lines, 60, false);
    let status = |number: usize| if number == 0 { "created" } else { "updated" };
    let expected: Vec<String> =
        (0..60).map(|number| format!("{} {} {PREFIX_A1}/same", number + 1, status(number))).collect();
    assert_eq!((results, result), (expected, Ok(())));
    let key = NameKey::new(&format!("{PREFIX_A1}/same")).unwrap();
    let entry = engine.runtime.block_on(engine.store.get(&key)).unwrap().unwrap();
    assert_eq!(&*entry.values[0].data, b"https://example.org/59");
}

/// Lines that were refused because the disk was full are executed when the batch is sent again. If a resumed batch could not have so
/// many of them, it is aborted.
#[test]
fn batch_resumes_after_full_disk() {
    for (long_lines, expected) in [(20, Ok(())), (80, Err("disk-full".to_owned()))] {
        let engine = Engine::new();
        let long = |number: usize| format!("long{number} {}", "x".repeat(256 << 10));
        let lines: Vec<String> = (0..long_lines).map(long).chain(lines(100)).collect();
        let before = engine.log_len();
        // The journal is opened. Then each group is tried together, and each line is tried and refused.
        engine.store.before_commit(|_| ());
        engine.store.before_commit(move |store| store.fill_disk(long_lines.div_ceil(3) + 2 * long_lines));
        let (_, result) = engine.run(&lines, lines.len(), false);
        assert_eq!(result, expected, "{long_lines}");
        engine.store.fill_disk(0);
        let (results, result) = engine.run(&lines, lines.len(), false);
        assert_eq!((results.len(), result), (lines.len(), Ok(())), "{long_lines}");
        assert!(engine.log_len() - before >= 100);
    }
}

#[test]
fn dry_run_changes_nothing() {
    let (engine, lines) = (Engine::new(), lines(7));
    let before = engine.log_len();
    assert_eq!(engine.run(&lines, 7, true), (created(7), Ok(())));
    assert_eq!(engine.log_len(), before);
}

/// A client that does not read its results does not stop the batches of others.
#[test]
fn stalled_client_does_not_stop_other_batches() {
    let engine = Engine::new();
    let (stalled, finished) = (StalledResults(Notify::new()), MemoryResults::default());
    engine.runtime.block_on(async {
        let groups = |groups| FullGroups { groups, lines: 0 };
        let other = async {
            stalled.0.notified().await;
            let run = engine.dry_run().run(groups(20), ReplayPlan::default(), &finished);
            timeout(Duration::from_secs(60), run).await.expect("batches wait for the stalled client")
        };
        tokio::select! {
            _ = engine.dry_run().run(groups(20), ReplayPlan::default(), &stalled) => panic!("not stalled"),
            result = other => assert!(result.is_ok()),
        }
    });
    assert_eq!(finished.0.into_inner().unwrap().lines().count(), 20 * 16);
}
