//! Linearizability of concurrent operations on one name, by the search of Wing and Gong.

use std::collections::{BTreeSet, HashSet};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};

use pollster::block_on;
use tendot_proto::HandleValue;
use tendot_store::{
    ChangeSet, CommitError, Edit, EmbeddedStore, MemoryStore, NameKey, Precondition, RecordStatus, Store,
    StoredRecord,
};
use tendot_testing::{SeededRng, ram_dir, repetitions, test_seed};

/// Histories for each store.
fn history_count() -> u64 {
    repetitions("TENDOT_TEST_HISTORIES", 500, 5_000)
}

const THREADS: usize = 6;
const OPERATIONS_PER_THREAD: usize = 5;
const NAME_COUNT: usize = 3;

/// This many of the names are records; the others are aux entries.
const RECORD_NAMES: usize = 2;

/// State of one name in the sequential model: revision, record status, data, registration. An aux entry has neither revision nor
/// registration.
type ModelState = Option<(u64, RecordStatus, u64, u64)>;

/// Operation on one name and its observed result.
#[derive(Clone, Debug)]
enum Observation {
    Put {
        precondition: Precondition,
        data: u64,
        result: Result<u64, Option<(u64, RecordStatus)>>,
    },
    Register {
        precondition: Precondition,
        data: u64,
        result: Result<u64, Option<(u64, RecordStatus)>>,
    },
    Tombstone {
        precondition: Precondition,
        result: Result<u64, Option<(u64, RecordStatus)>>,
    },
    Remove {
        precondition: Precondition,
        result: Result<u64, Option<(u64, RecordStatus)>>,
    },
    Get {
        found: ModelState,
    },
    Listed {
        found: Option<RecordStatus>,
    },
    PutAux {
        data: u64,
    },
    RemoveAux,
    /// Compare and set.
    Replace {
        expected: Option<u64>,
        data: u64,
        is_met: bool,
    },
    GetAux {
        found: Option<u64>,
    },
}

/// An observation with its begin and end by a clock that all threads share.
#[derive(Clone, Debug)]
struct Operation {
    name: usize,
    begin: u64,
    end: u64,
    observation: Observation,
}

impl Observation {
    /// The next state, if this result is possible in this state.
    fn apply(&self, current: ModelState) -> Option<ModelState> {
        let head = current.map(|(revision, status, ..)| (revision, status));
        let registration = current.map_or(0, |(.., registration)| registration);
        let aux = |data: u64| Some((0, RecordStatus::Live, data, 0));
        let current_data = current.map(|(_, _, data, _)| data);
        let after_write = |precondition: &Precondition,
                           result: &Result<u64, Option<(u64, RecordStatus)>>,
                           next: &dyn Fn(u64) -> ModelState| {
            match result {
                Ok(revision) => is_met(*precondition, head).then(|| next(*revision)),
                Err(actual) => (!is_met(*precondition, head) && *actual == head).then_some(current),
            }
        };
        match self {
            Self::Put { precondition, data, result } => after_write(precondition, result, &|revision| {
                Some((revision, RecordStatus::Live, *data, registration))
            }),
            Self::Register { precondition, data, result } => after_write(precondition, result, &|revision| {
                Some((revision, RecordStatus::Live, *data, *data))
            }),
            Self::Tombstone { precondition, result } => after_write(precondition, result, &|revision| {
                Some((revision, RecordStatus::Tombstone, current_data.unwrap_or(0), registration))
            }),
            Self::Remove { precondition, result } => after_write(precondition, result, &|_| None),
            Self::Get { found } => (*found == current).then_some(current),
            Self::Listed { found } => (*found == head.map(|(_, status)| status)).then_some(current),
            Self::PutAux { data } => Some(aux(*data)),
            Self::RemoveAux => Some(None),
            Self::Replace { expected, data, is_met } => {
                let next = if *is_met { aux(*data) } else { current };
                (*is_met == (*expected == current_data)).then_some(next)
            }
            Self::GetAux { found } => (*found == current_data).then_some(current),
        }
    }
}

/// Independent implementation of preconditions.
fn is_met(precondition: Precondition, current: Option<(u64, RecordStatus)>) -> bool {
    match current {
        None => matches!(precondition, Precondition::NotTombstone | Precondition::Absent),
        Some((_, RecordStatus::Tombstone)) => false,
        Some((revision, RecordStatus::Live)) => match precondition {
            Precondition::NotTombstone | Precondition::Live => true,
            Precondition::Absent => false,
            Precondition::AtRevision(expected) => expected == revision,
        },
    }
}

/// Whether some order of the operations on one name explains all results: the next can be any operation that began
/// before any other remaining one ended. States that were tried are remembered.
fn is_linearizable(operations: &[Operation]) -> bool {
    fn search(
        operations: &[Operation],
        done: u64,
        current: ModelState,
        tried: &mut HashSet<(u64, ModelState)>,
    ) -> bool {
        if done.count_ones() as usize == operations.len() {
            return true;
        }
        if !tried.insert((done, current)) {
            return false;
        }
        let remaining = || operations.iter().enumerate().filter(|(number, _)| done >> number & 1 == 0);
        let first_end = remaining().map(|(_, operation)| operation.end).min().unwrap_or(u64::MAX);
        remaining().filter(|(_, operation)| operation.begin < first_end).any(|(number, operation)| {
            operation
                .observation
                .apply(current)
                .is_some_and(|next| search(operations, done | 1 << number, next, tried))
        })
    }
    assert!(operations.len() <= 64);
    search(operations, 0, None, &mut HashSet::new())
}

fn name(history: u64, number: usize) -> String {
    format!("10.{history}/name-{number}")
}

fn data_of(values: &[HandleValue<'_>]) -> u64 {
    values.first().map_or(0, |value| number_of(&value.data))
}

fn number_of(bytes: &[u8]) -> u64 {
    if bytes.is_empty() { 0 } else { String::from_utf8_lossy(bytes).parse().unwrap() }
}

/// One random operation on an aux entry, and its result.
fn run_aux_operation(
    store: &impl Store,
    name: &str,
    data: u64,
    choice: usize,
    last_seen: &mut Option<u64>,
) -> Observation {
    let key = || name.as_bytes().into();
    let value = |data: u64| data.to_string().into_bytes().into();
    let commit =
        |edits| block_on(store.commit(ChangeSet { author: "tester".into(), timestamp_ms: 0, edits }));
    let put = || Edit::PutAux { key: key(), value: value(data) };
    match choice {
        0..=2 => {
            commit(vec![put()]).unwrap();
            *last_seen = Some(data);
            Observation::PutAux { data }
        }
        3 => {
            commit(vec![Edit::RemoveAux { key: key() }]).unwrap();
            *last_seen = None;
            Observation::RemoveAux
        }
        4..=7 => {
            let expected = *last_seen;
            let is_met =
                match commit(vec![Edit::RequireAux { key: key(), value: expected.map(value) }, put()]) {
                    Ok(_) => true,
                    Err(CommitError::AuxConflict { edit: 0 }) => false,
                    Err(error) => panic!("{error}"),
                };
            Observation::Replace { expected, data, is_met }
        }
        _ => {
            *last_seen = block_on(store.get_aux(name.as_bytes())).unwrap().map(|value| number_of(&value));
            Observation::GetAux { found: *last_seen }
        }
    }
}

/// The random operations of one thread, and their results.
fn run_thread(
    store: &impl Store,
    history: u64,
    clock: &AtomicU64,
    mut rng: SeededRng,
    thread: usize,
) -> Vec<Operation> {
    let mut operations = Vec::new();
    let (mut last_revision, mut last_aux) = (0, None);
    for step in 0..OPERATIONS_PER_THREAD {
        let number = rng.below(NAME_COUNT);
        let name = name(history, number);
        let precondition = match rng.below(4) {
            0 => Precondition::NotTombstone,
            1 => Precondition::Absent,
            2 => Precondition::Live,
            _ => Precondition::AtRevision(last_revision),
        };
        let data = (thread * 100 + step + 1) as u64;
        let commit = |edit: Edit| {
            let change = ChangeSet { author: "tester".into(), timestamp_ms: 0, edits: vec![edit] };
            match block_on(store.commit(change)) {
                Ok(committed) => Ok(committed.revision),
                Err(CommitError::RecordConflict(conflict)) => {
                    Err(conflict.current.map(|current| (current.revision, current.status)))
                }
                Err(error) => panic!("{error}"),
            }
        };
        let choice = rng.below(12);
        let (waits_before, waits_after) = (rng.coin(), rng.coin());
        let begin = clock.fetch_add(1, Ordering::SeqCst);
        // Lets other threads interleave, even on few processors.
        if waits_before {
            std::thread::yield_now();
        }
        let values = vec![HandleValue::new(1, "DATA", data.to_string())];
        let observation = match choice {
            _ if number >= RECORD_NAMES => run_aux_operation(store, &name, data, choice, &mut last_aux),
            0..=1 => {
                let (name, registration) = (name.into(), data.to_string().into_bytes().into());
                let edit = Edit::Register { name, values, registration, precondition };
                Observation::Register { precondition, data, result: commit(edit) }
            }
            2..=4 => Observation::Put {
                precondition,
                data,
                result: commit(Edit::Put { name: name.into(), values, precondition }),
            },
            5 => Observation::Tombstone {
                precondition,
                result: commit(Edit::Tombstone { name: name.into(), precondition }),
            },
            6 | 7 => Observation::Remove {
                precondition,
                result: commit(Edit::Remove { name: name.into(), precondition }),
            },
            8..=10 => {
                let entry = block_on(store.get(&NameKey::new(&name).unwrap())).unwrap();
                let found = |entry: StoredRecord| {
                    (entry.revision, entry.status, data_of(&entry.values), number_of(&entry.registration))
                };
                Observation::Get { found: entry.map(found) }
            }
            _ => {
                let listed =
                    block_on(store.list_names(format!("10.{history}").as_bytes(), None, 10)).unwrap();
                let found = listed.iter().find(|listed| *listed.name == *name).map(|listed| listed.status);
                Observation::Listed { found }
            }
        };
        if waits_after {
            std::thread::yield_now();
        }
        let end = clock.fetch_add(1, Ordering::SeqCst);
        if let Observation::Get { found: Some((revision, ..)) }
        | Observation::Put { result: Ok(revision) | Err(Some((revision, _))), .. }
        | Observation::Register { result: Ok(revision) | Err(Some((revision, _))), .. } = observation
        {
            last_revision = revision;
        }
        operations.push(Operation { name: number, begin, end, observation });
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
        for number in 0..NAME_COUNT {
            let operations_on_name: Vec<Operation> =
                operations.iter().filter(|operation| operation.name == number).cloned().collect();
            assert!(
                is_linearizable(&operations_on_name),
                "seed {seed}, history {history}: {operations_on_name:#?}"
            );
        }
    }
    println!("{overlaps} operations overlapped others in {histories} histories");
    assert!(overlaps as u64 > histories, "only {overlaps} operations overlapped others");
}

#[test]
fn memory_store() {
    check(&MemoryStore::new(), history_count());
}

#[test]
fn embedded_store() {
    let directory = ram_dir();
    check(&EmbeddedStore::open(directory.path()).unwrap(), history_count());
}

/// Change sets of several names are atomic: no list contains a part of one, and revisions never go back.
fn check_atomicity(store: &impl Store) {
    const CHANGE_SET_SIZE: usize = 5;
    const ROUNDS: u64 = 150;
    let names: Vec<String> = (0..CHANGE_SET_SIZE).map(|number| format!("10.1/name-{number}")).collect();
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for writer in 0..3_u64 {
            let names = &names;
            threads.push(scope.spawn(move || {
                for round in 0..ROUNDS {
                    let data = || vec![HandleValue::new(1, "DATA", (writer * 1_000 + round).to_string())];
                    let put = |name: &String| Edit::Put {
                        name: (**name).into(),
                        values: data(),
                        precondition: Precondition::NotTombstone,
                    };
                    let remove = |name: &String| Edit::Remove {
                        name: (**name).into(),
                        precondition: Precondition::Live,
                    };
                    let edits = if round % 3 == 2 {
                        names.iter().map(remove).collect()
                    } else {
                        names.iter().map(put).collect()
                    };
                    match block_on(store.commit(ChangeSet {
                        author: "writer".into(),
                        timestamp_ms: 0,
                        edits,
                    })) {
                        Ok(_) | Err(CommitError::RecordConflict(_)) => {}
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
                    let listed = block_on(store.list_names(b"10.1", None, 100)).unwrap();
                    assert!(
                        listed.is_empty() || listed.len() == CHANGE_SET_SIZE,
                        "a part of a change set: {listed:?}"
                    );
                    let revisions: Vec<u64> = names
                        .iter()
                        .filter_map(|name| block_on(store.get(&NameKey::new(name).unwrap())).unwrap())
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
    // The log contains each change set completely, in the order of revisions.
    let log = block_on(store.read_log(0, usize::MAX)).unwrap();
    assert!(log.is_sorted_by_key(|log_entry| log_entry.revision));
    let revisions: BTreeSet<u64> = log.iter().map(|log_entry| log_entry.revision).collect();
    assert_eq!(log.len(), revisions.len() * CHANGE_SET_SIZE);
}

#[test]
fn change_sets_are_atomic_memory() {
    check_atomicity(&MemoryStore::new());
}

#[test]
fn change_sets_are_atomic_embedded() {
    let directory = ram_dir();
    check_atomicity(&EmbeddedStore::open(directory.path()).unwrap());
}

/// The search accepts valid histories and rejects invalid ones.
#[test]
fn checker_rejects_invalid_histories() {
    let operation = |begin, end, observation| Operation { name: 0, begin, end, observation };
    let put = |data, result| Observation::Put { precondition: Precondition::Absent, data, result };
    let get = |found| Observation::Get { found };
    let record = |revision, data| Some((revision, RecordStatus::Live, data, 0));
    for (expected, operations) in [
        (true, vec![operation(0, 1, put(5, Ok(1))), operation(2, 3, get(record(1, 5)))]),
        // A record is missing after its write was acknowledged.
        (false, vec![operation(0, 1, put(5, Ok(1))), operation(2, 3, get(None))]),
        // Concurrent: either is possible.
        (true, vec![operation(0, 3, put(5, Ok(1))), operation(1, 2, get(None))]),
        (true, vec![operation(0, 3, put(5, Ok(1))), operation(1, 2, get(record(1, 5)))]),
        // Two clients register the same name.
        (false, vec![operation(0, 2, put(5, Ok(1))), operation(1, 3, put(6, Ok(2)))]),
        (
            true,
            vec![operation(0, 2, put(5, Ok(1))), operation(1, 3, put(6, Err(Some((1, RecordStatus::Live)))))],
        ),
        // A record is read, and then missing.
        (
            false,
            vec![
                operation(0, 9, put(5, Ok(1))),
                operation(1, 2, get(record(1, 5))),
                operation(3, 4, get(None)),
            ],
        ),
        // Two compare-and-set operations with the same expectation both succeed.
        (
            false,
            [5, 6]
                .map(|data| operation(0, 9, Observation::Replace { expected: None, data, is_met: true }))
                .to_vec(),
        ),
        // A put loses the registration.
        (
            false,
            vec![
                operation(
                    0,
                    1,
                    Observation::Register {
                        precondition: Precondition::NotTombstone,
                        data: 5,
                        result: Ok(1),
                    },
                ),
                operation(
                    2,
                    3,
                    Observation::Put { precondition: Precondition::NotTombstone, data: 6, result: Ok(2) },
                ),
                operation(4, 5, get(record(2, 6))),
            ],
        ),
    ] {
        assert_eq!(is_linearizable(&operations), expected, "{operations:#?}");
    }
}
