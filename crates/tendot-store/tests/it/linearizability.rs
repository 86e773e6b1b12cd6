//! Many at once: whatever they do at the same time, what each of them saw could have been seen if all had been done one
//! after the other, each at some moment between its beginning and its end.

#![allow(clippy::print_stdout, reason = "the seed is told when a test fails")]


use std::collections::{BTreeSet, HashSet};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};

use tendot_testing::{SeededRng, test_seed};
use pollster::block_on;
use tendot_proto::Value;
use tendot_store::{Change, CommitError, Edit, Embedded, Entry, Expect, Key, Memory, State, Store};

/// Histories for each store, and what is in one.
const HISTORY_COUNT: u64 = 1_500;
const THREADS: usize = 6;
const OPERATIONS_PER_THREAD: usize = 5;
const NAME_COUNT: usize = 3;

/// Of these, so many are of records; the rest are of notes.
const RECORD_NAMES: usize = 2;

/// What is under a name: its revision, its state, what was put there, and what is known of it. A note has no revision, and of
/// it nothing is known.
type ModelState = Option<(u64, State, u64, u64)>;

/// What was done with one name, and what came of it.
#[derive(Clone, Debug)]
enum Observation {
    Put {
        expect: Expect,
        data: u64,
        result: Result<u64, Option<(u64, State)>>,
    },
    Register {
        expect: Expect,
        data: u64,
        result: Result<u64, Option<(u64, State)>>,
    },
    Tombstone {
        expect: Expect,
        result: Result<u64, Option<(u64, State)>>,
    },
    Remove {
        expect: Expect,
        result: Result<u64, Option<(u64, State)>>,
    },
    Get {
        found: ModelState,
    },
    Listed {
        found: Option<State>,
    },
    PutNote {
        data: u64,
    },
    RemoveNote,
    /// Put if it was what it was expected to be.
    Replace {
        expected: Option<u64>,
        data: u64,
        is_met: bool,
    },
    GetNote {
        found: Option<u64>,
    },
}

/// One operation, from its beginning to its end by a clock that all share.
#[derive(Clone, Debug)]
struct Operation {
    name: usize,
    begin: u64,
    end: u64,
    done: Observation,
}

impl Observation {
    /// What is there afterwards, if this could have come of it.
    fn apply(&self, there: ModelState) -> Option<ModelState> {
        let head = there.map(|(revision, state, ..)| (revision, state));
        let known = there.map_or(0, |(.., known)| known);
        let note = |data: u64| Some((0, State::Live, data, 0));
        let data_there = there.map(|(_, _, data, _)| data);
        let written =
            |expect: &Expect, result: &Result<u64, Option<(u64, State)>>, next: &dyn Fn(u64) -> ModelState| {
                match result {
                    Ok(revision) => is_met(*expect, head).then(|| next(*revision)),
                    Err(told) => (!is_met(*expect, head) && *told == head).then_some(there),
                }
            };
        match self {
            Self::Put { expect, data, result } => {
                written(expect, result, &|revision| Some((revision, State::Live, *data, known)))
            }
            Self::Register { expect, data, result } => {
                written(expect, result, &|revision| Some((revision, State::Live, *data, *data)))
            }
            Self::Tombstone { expect, result } => written(expect, result, &|revision| {
                Some((revision, State::Tombstone, data_there.unwrap_or(0), known))
            }),
            Self::Remove { expect, result } => written(expect, result, &|_| None),
            Self::Get { found } => (*found == there).then_some(there),
            Self::Listed { found } => (*found == head.map(|(_, state)| state)).then_some(there),
            Self::PutNote { data } => Some(note(*data)),
            Self::RemoveNote => Some(None),
            Self::Replace { expected, data, is_met } => {
                let next = if *is_met { note(*data) } else { there };
                (*is_met == (*expected == data_there)).then_some(next)
            }
            Self::GetNote { found } => (*found == data_there).then_some(there),
        }
    }
}

/// What `Expect` promises, written down once more.
fn is_met(expect: Expect, there: Option<(u64, State)>) -> bool {
    match there {
        None => matches!(expect, Expect::Any | Expect::Absent),
        Some((_, State::Tombstone)) => false,
        Some((revision, State::Live)) => match expect {
            Expect::Any | Expect::Live => true,
            Expect::Absent => false,
            Expect::Revision(expected) => expected == revision,
        },
    }
}

/// Whether the operations on one name can be put in an order that explains all of them: each in turn that began before
/// any other that is left ended. What has been tried is remembered.
fn is_linearizable(operations: &[Operation]) -> bool {
    fn search(operations: &[Operation], done: u64, there: ModelState, tried: &mut HashSet<(u64, ModelState)>) -> bool {
        if done.count_ones() as usize == operations.len() {
            return true;
        }
        if !tried.insert((done, there)) {
            return false;
        }
        let left = || operations.iter().enumerate().filter(|(number, _)| done >> number & 1 == 0);
        let first_end = left().map(|(_, operation)| operation.end).min().unwrap_or(u64::MAX);
        left().filter(|(_, operation)| operation.begin < first_end).any(|(number, operation)| {
            operation
                .done
                .apply(there)
                .is_some_and(|next| search(operations, done | 1 << number, next, tried))
        })
    }
    assert!(operations.len() <= 64);
    search(operations, 0, None, &mut HashSet::new())
}

fn name(history: u64, number: usize) -> String {
    format!("10.{history}/name-{number}")
}

fn data_of(values: &[Value<'_>]) -> u64 {
    values.first().map_or(0, |value| number_of(&value.data))
}

fn number_of(bytes: &[u8]) -> u64 {
    if bytes.is_empty() { 0 } else { String::from_utf8_lossy(bytes).parse().unwrap() }
}

/// What one thread does with a note, and what it sees.
fn run_aux_operation(store: &impl Store, name: &str, data: u64, choice: usize, known: &mut Option<u64>) -> Observation {
    let key = || name.as_bytes().into();
    let body = |data: u64| data.to_string().into_bytes().into();
    let commit = |edits| block_on(store.commit(Change { by: "somebody".into(), at: 0, edits }));
    let put = || Edit::PutNote { key: key(), body: body(data) };
    match choice {
        0..=2 => {
            commit(vec![put()]).unwrap();
            *known = Some(data);
            Observation::PutNote { data }
        }
        3 => {
            commit(vec![Edit::RemoveNote { key: key() }]).unwrap();
            *known = None;
            Observation::RemoveNote
        }
        4..=7 => {
            let expected = *known;
            let is_met = match commit(vec![Edit::RequireNote { key: key(), body: expected.map(body) }, put()])
            {
                Ok(_) => true,
                Err(CommitError::Note { edit: 0 }) => false,
                Err(error) => panic!("{error}"),
            };
            Observation::Replace { expected, data, is_met }
        }
        _ => {
            *known = block_on(store.note(name.as_bytes())).unwrap().map(|body| number_of(&body));
            Observation::GetNote { found: *known }
        }
    }
}

/// What one thread does, and what it sees.
fn run_thread(
    store: &impl Store,
    history: u64,
    clock: &AtomicU64,
    mut rng: SeededRng,
    thread: usize,
) -> Vec<Operation> {
    let mut operations = Vec::new();
    let (mut known, mut known_note) = (0, None);
    for step in 0..OPERATIONS {
        let number = rng.below(NAME_COUNT);
        let name = name(history, number);
        let expect = match rng.below(4) {
            0 => Expect::Any,
            1 => Expect::Absent,
            2 => Expect::Live,
            _ => Expect::Revision(known),
        };
        let data = (thread * 100 + step + 1) as u64;
        let commit = |edit: Edit| {
            let change = Change { by: "somebody".into(), at: 0, edits: vec![edit] };
            match block_on(store.commit(change)) {
                Ok(committed) => Ok(committed.revision),
                Err(CommitError::Conflict(conflict)) => {
                    Err(conflict.there.map(|(_, revision, state)| (revision, state)))
                }
                Err(error) => panic!("{error}"),
            }
        };
        let choice = rng.below(12);
        let (waits_before, waits_after) = (rng.flip(), rng.flip());
        let begin = clock.fetch_add(1, Ordering::SeqCst);
        // So that others come between, however quick the store is and few the processors are.
        if waits_before {
            std::thread::yield_now();
        }
        let values = vec![Value::new(1, "DATA", data.to_string())];
        let done = match choice {
            _ if number >= RECORD_NAMES => run_aux_operation(store, &name, data, choice, &mut known_note),
            0..=1 => {
                let (name, registration) = (name.into(), data.to_string().into_bytes().into());
                let edit = Edit::Register { name, values, registration, expect };
                Observation::Register { expect, data, result: commit(edit) }
            }
            2..=4 => {
                Observation::Put { expect, data, result: commit(Edit::Put { name: name.into(), values, expect }) }
            }
            5 => Observation::Tombstone { expect, result: commit(Edit::Tombstone { name: name.into(), expect }) },
            6 | 7 => Observation::Remove { expect, result: commit(Edit::Remove { name: name.into(), expect }) },
            8..=10 => {
                let entry = block_on(store.get(&Key::new(&name).unwrap())).unwrap();
                let found = |entry: Entry| {
                    (entry.revision, entry.state, data_of(&entry.values), number_of(&entry.registration))
                };
                Observation::Get { found: entry.map(found) }
            }
            _ => {
                let listed = block_on(store.list(format!("10.{history}").as_bytes(), None, 10)).unwrap();
                let found = listed.iter().find(|listed| *listed.name == *name).map(|listed| listed.state);
                Observation::Listed { found }
            }
        };
        if waits_after {
            std::thread::yield_now();
        }
        let end = clock.fetch_add(1, Ordering::SeqCst);
        if let Observation::Get { found: Some((revision, ..)) }
        | Observation::Put { result: Ok(revision) | Err(Some((revision, _))), .. }
        | Observation::Register { result: Ok(revision) | Err(Some((revision, _))), .. } = done
        {
            known = revision;
        }
        operations.push(Operation { name: number, begin, end, done });
    }
    operations
}

fn check(store: &impl Store, histories: u64) {
    let seed = test_seed();
    println!("TENDOT_TEST_SEED={seed}");
    let mut overlaps = 0;
    for history in 0..histories {
        let (clock, start) = (AtomicU64::new(0), Barrier::new(THREADS));
        let operations: Vec<Operation> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|thread| {
                    let rng = SeededRng::new(seed ^ history << 20 ^ (thread as u64) << 50);
                    let (clock, start) = (&clock, &start);
                    scope.spawn(move || {
                        start.wait();
                        run_thread(store, history, clock, rng, thread)
                    })
                })
                .collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        overlaps += operations.iter().filter(|operation| operation.end > operation.begin + 1).count();
        for number in 0..NAMES {
            let of_name: Vec<Operation> =
                operations.iter().filter(|operation| operation.name == number).cloned().collect();
            assert!(is_linearizable(&of_name), "seed {seed}, history {history}: {of_name:#?}");
        }
    }
    println!("{overlaps} operations met others in {histories} histories");
    assert!(overlaps as u64 > histories, "only {overlaps} operations met others");
}

#[test]
fn memory() {
    check(&Memory::new(), HISTORY_COUNT);
}

#[test]
fn embedded() {
    let directory = fast();
    check(&Embedded::open(directory.path()).unwrap(), HISTORY_COUNT);
}

/// What is looked for here is the order, not the disk.
fn fast() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// Changes of several names are seen whole: no list has a part of one, and who sees a change sees all before it.
fn check_atomicity(store: &impl Store) {
    const GROUP: usize = 5;
    const ROUNDS: u64 = 150;
    let names: Vec<String> = (0..GROUP).map(|number| format!("10.1/name-{number}")).collect();
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for writer in 0..3_u64 {
            let names = &names;
            threads.push(scope.spawn(move || {
                for round in 0..ROUNDS {
                    let data = || vec![Value::new(1, "DATA", (writer * 1_000 + round).to_string())];
                    let put = |name: &String| Edit::Put {
                        name: (**name).into(),
                        values: data(),
                        expect: Expect::Any,
                    };
                    let remove = |name: &String| Edit::Remove { name: (**name).into(), expect: Expect::Live };
                    let edits = if round % 3 == 2 {
                        names.iter().map(remove).collect()
                    } else {
                        names.iter().map(put).collect()
                    };
                    match block_on(store.commit(Change { by: "writer".into(), at: 0, edits })) {
                        Ok(_) | Err(CommitError::Conflict(_)) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            }));
        }
        for _ in 0..3 {
            let names = &names;
            threads.push(scope.spawn(move || {
                let mut last = 0;
                for _ in 0..4 * ROUNDS {
                    let listed = block_on(store.list(b"10.1", None, 100)).unwrap();
                    assert!(listed.is_empty() || listed.len() == GROUP, "a part of a change: {listed:?}");
                    let revisions: Vec<u64> = names
                        .iter()
                        .filter_map(|name| block_on(store.get(&Key::new(name).unwrap())).unwrap())
                        .map(|entry| entry.revision)
                        .collect();
                    for revision in revisions {
                        assert!(revision >= last, "{revision} was seen after {last}");
                        last = revision;
                    }
                }
            }));
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
    // The log has each change whole, and in the order of its number.
    let log = block_on(store.changes(0, usize::MAX)).unwrap();
    assert!(log.is_sorted_by_key(|line| line.revision));
    let revisions: BTreeSet<u64> = log.iter().map(|line| line.revision).collect();
    assert_eq!(log.len(), revisions.len() * GROUP);
}

#[test]
fn change_sets_are_atomic_memory() {
    check_atomicity(&Memory::new());
}

#[test]
fn change_sets_are_atomic_embedded() {
    let directory = fast();
    check_atomicity(&Embedded::open(directory.path()).unwrap());
}

/// The judge is judged: it takes what is in order, and nothing else.
#[test]
fn checker_rejects_invalid_histories() {
    let operation = |begin, end, done| Operation { name: 0, begin, end, done };
    let put = |data, result| Observation::Put { expect: Expect::Absent, data, result };
    let get = |found| Observation::Get { found };
    let there = |revision, data| Some((revision, State::Live, data, 0));
    for (expected, operations) in [
        (true, vec![operation(0, 1, put(5, Ok(1))), operation(2, 3, get(there(1, 5)))]),
        // Not there after it was acknowledged.
        (false, vec![operation(0, 1, put(5, Ok(1))), operation(2, 3, get(None))]),
        // At the same time, either.
        (true, vec![operation(0, 3, put(5, Ok(1))), operation(1, 2, get(None))]),
        (true, vec![operation(0, 3, put(5, Ok(1))), operation(1, 2, get(there(1, 5)))]),
        // Both registered the same name.
        (false, vec![operation(0, 2, put(5, Ok(1))), operation(1, 3, put(6, Ok(2)))]),
        (true, vec![operation(0, 2, put(5, Ok(1))), operation(1, 3, put(6, Err(Some((1, State::Live)))))]),
        // Seen, and then no more.
        (
            false,
            vec![
                operation(0, 9, put(5, Ok(1))),
                operation(1, 2, get(there(1, 5))),
                operation(3, 4, get(None)),
            ],
        ),
        // Of two that replace the same note, one comes first.
        (
            false,
            [5, 6].map(|data| operation(0, 9, Observation::Replace { expected: None, data, is_met: true })).to_vec(),
        ),
        // What is known of a name stays when it is put.
        (
            false,
            vec![
                operation(0, 1, Observation::Register { expect: Expect::Any, data: 5, result: Ok(1) }),
                operation(2, 3, Observation::Put { expect: Expect::Any, data: 6, result: Ok(2) }),
                operation(4, 5, get(there(2, 6))),
            ],
        ),
    ] {
        assert_eq!(is_linearizable(&operations), expected, "{operations:#?}");
    }
}
