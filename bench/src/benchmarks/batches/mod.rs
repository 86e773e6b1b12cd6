//! Batch inserts: 1,000 new registrations per transaction, into the embedded store or into PostgreSQL.
//!
//! `batches store|pipelined|each PATH RECORDS ascending|random IN_FLIGHT` prints records per second, and for the embedded store
//! the time to read a history. `PATH` is the directory of the store, or PostgreSQL's socket; `IN_FLIGHT` is the number of
//! concurrent transactions. `each` inserts row by row, without pipelining.

mod postgres;

use std::collections::VecDeque;
use std::error::Error;
use std::future::Future as _;
use std::path::Path;
use std::task::{Context, Poll, Waker};

use crate::measure::{median, seconds};
use postgres::Connection;
use tendot_proto::HandleValue;
use tendot_proto::wire::{ListItem as _, WireWriter};
use tendot_store::{ChangeSet, Edit, EmbeddedStore, HistoryOrder, NameKey, Precondition, Store as _};

const BATCH_RECORDS: u64 = 1_000;

pub(crate) fn run(arguments: &[&str]) -> Result<(), Box<dyn Error>> {
    let &[system, path, records, order, max_in_flight] = arguments else {
        return Err("usage: batches store|pipelined|each PATH RECORDS ascending|random IN_FLIGHT".into());
    };
    let (path, records) = (Path::new(path), records.parse::<u64>()?);
    let max_in_flight = max_in_flight.parse::<usize>()?;
    let batches = BatchGenerator { records, next: 0, is_random: order == "random" };
    let (time, done) = match system {
        "store" => {
            let store = EmbeddedStore::open(path)?;
            let measured = seconds(|| commit_batches(&store, batches, max_in_flight));
            println!("history-microseconds {:.1}", history_read_seconds(&store, batches)? * 1e6);
            measured
        }
        "pipelined" | "each" => {
            let mut connection = Connection::open(path)?;
            let max_in_flight = (system == "pipelined").then_some(max_in_flight);
            seconds(|| insert_rows(&mut connection, batches, max_in_flight))
        }
        other => return Err(format!("unknown system `{other}`").into()),
    };
    done?;
    println!("rate {:.0}", records as f64 / time);
    Ok(())
}

type Record = (String, Vec<HandleValue<'static>>, Vec<u8>);

/// Generates batches of 1,000 registrations; identical in every run.
#[derive(Clone, Copy)]
struct BatchGenerator {
    records: u64,
    next: u64,
    is_random: bool,
}

impl Iterator for BatchGenerator {
    type Item = Vec<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        let end = self.records.min(self.next + BATCH_RECORDS);
        let batch: Vec<Record> = (self.next..end).map(|number| self.record(number)).collect();
        self.next = end;
        (!batch.is_empty()).then_some(batch)
    }
}

impl BatchGenerator {
    fn record(&self, number: u64) -> Record {
        // Multiplication by an odd number is a permutation, so suffixes are unique.
        let mixed = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let suffix =
            if self.is_random { format!("{mixed:016x}") } else { format!("journal.2026.{number:09}") };
        let address = format!("https://journal.example.org/articles/{suffix}");
        let mut administrator = b"\x0f\xf3\0\0\0\x0c0.NA/10.5555".to_vec();
        administrator.extend(200_u32.to_be_bytes());
        let values = vec![
            HandleValue { timestamp: 1_760_000_000, ..HandleValue::new(1, "URL", address) },
            HandleValue {
                timestamp: 1_760_000_000,
                ..HandleValue::with_data(100, "HS_ADMIN", administrator)
            },
        ];
        let mut registration = format!(
            "{{\"state\":\"registered\",\"registrant\":\"example-press\",\"created\":{},\"metadata\":{{\"title\":\"On \
             matters of number {mixed}\",\"creators\":[{{\"name\":\"Example, Author {number}\"}}],\"year\":2026,\"abstract\":\"",
            1_760_000_000_000 + number
        )
        .into_bytes();
        while registration.len() < 597 {
            let left = 597 - registration.len();
            registration.extend(&b"Words that tell what it is about, one after the other. "[..left.min(55)]);
        }
        registration.extend(b"\"}}");
        (format!("10.5555/{suffix}"), values, registration)
    }
}

fn commit_batches(
    store: &EmbeddedStore,
    batches: BatchGenerator,
    max_in_flight: usize,
) -> Result<(), Box<dyn Error>> {
    let mut in_flight = VecDeque::new();
    for batch in batches {
        let register = |(name, values, registration): Record| Edit::Register {
            name: name.into(),
            values,
            registration: registration.into(),
            precondition: Precondition::Absent,
        };
        let edits = batch.into_iter().map(register).collect();
        let change =
            ChangeSet { author: "registrant:example-press".into(), timestamp_ms: 1_760_000_000_000, edits };
        let mut commit = Box::pin(store.commit(change));
        // The first poll submits the commit.
        match commit.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(committed) => drop(committed?),
            Poll::Pending => in_flight.push_back(commit),
        }
        if in_flight.len() >= max_in_flight {
            in_flight.pop_front().map(pollster::block_on).transpose()?;
        }
    }
    for commit in in_flight {
        pollster::block_on(commit)?;
    }
    Ok(())
}

/// Median seconds to read the history of a name, whose log entry is one of many in its change.
fn history_read_seconds(store: &EmbeddedStore, batches: BatchGenerator) -> Result<f64, Box<dyn Error>> {
    let mut times = Vec::new();
    for number in (0..batches.records).step_by(997) {
        let key = NameKey::new(&batches.record(number).0)?;
        let order = HistoryOrder::NewestFirst { before: u64::MAX };
        let (time, history) = seconds(|| pollster::block_on(store.history(&key, order, 10)));
        assert_eq!(history?.entries.len(), 1, "one entry for the creation");
        times.push(time);
    }
    Ok(median(times))
}

fn insert_rows(
    connection: &mut Connection,
    batches: BatchGenerator,
    max_in_flight: Option<usize>,
) -> Result<(), Box<dyn Error>> {
    connection.query(
        "create table records (name text primary key, record bytea not null, registration bytea not null)",
    )?;
    connection.prepare("begin", "begin")?;
    connection.prepare("insert", "insert into records values ($1, $2, $3)")?;
    connection.prepare("commit", "commit")?;
    let mut in_flight = 0;
    for batch in batches {
        connection.execute("begin", &[]);
        for (name, values, registration) in batch {
            let mut record = Vec::new();
            values.iter().for_each(|value| value.encode(&mut WireWriter::new(&mut record)));
            connection.execute("insert", &[name.as_bytes(), &record, &registration]);
            if max_in_flight.is_none() {
                connection.sync()?;
                connection.wait()?;
            }
        }
        connection.execute("commit", &[]);
        connection.sync()?;
        in_flight += 1;
        if max_in_flight.is_none_or(|max| in_flight >= max) {
            connection.wait()?;
            in_flight -= 1;
        }
    }
    (0..in_flight).try_for_each(|_| connection.wait())
}
