//! Durable commits by one and by several concurrent writers. `deposits DIR` prints commits per second, and the time of one
//! `fdatasync`.

use std::error::Error;
use std::fs::File;
use std::io::{Seek as _, Write as _};
use std::path::Path;
use std::time::Duration;

use crate::measure::{median, seconds, thread_rate};
use crate::records::RecordGenerator;
use tendot_store::{ChangeSet, Edit, EmbeddedStore, Precondition, Store};

const RUN_TIME: Duration = Duration::from_secs(3);

const ROUNDS: u64 = 5;

const WRITERS: [u64; 3] = [1, 16, 64];

pub(crate) fn run(arguments: &[&str]) -> Result<(), Box<dyn Error>> {
    let directory = Path::new(arguments.first().ok_or("usage: deposits DIR")?);
    println!("sync-microseconds {:.0}", fdatasync_seconds(&directory.join("page"))? * 1e6);
    let mut rates = [const { Vec::new() }; 3];
    for round in 0..ROUNDS {
        for (writers, rates) in WRITERS.into_iter().zip(&mut rates) {
            let store = EmbeddedStore::open(&directory.join(writers.to_string()))?;
            rates.push(commit_rate(&store, round, writers));
        }
    }
    // Ratios are to the single writer of the same round.
    let [single, ..] = rates.clone();
    for (writers, rates) in WRITERS.into_iter().zip(rates) {
        let ratios = rates.iter().zip(&single).map(|(rate, single)| rate / single).collect();
        println!("deposits-ratio-{writers} {:.2}", median(ratios));
        println!("deposits-{writers} {:.0}", median(rates));
    }
    Ok(())
}

/// Median seconds to write and sync one page.
fn fdatasync_seconds(path: &Path) -> Result<f64, Box<dyn Error>> {
    let mut file = File::create(path)?;
    let mut times = Vec::new();
    for number in 0..200_u8 {
        file.rewind()?;
        file.write_all(&[number; 4096])?;
        let (time, synced) = seconds(|| file.sync_data());
        synced?;
        times.push(time);
    }
    Ok(median(times))
}

fn commit_rate(store: &EmbeddedStore, round: u64, writers: u64) -> f64 {
    thread_rate(writers, RUN_TIME, |writer| {
        let mut records = RecordGenerator::new(writer);
        move || {
            let (name, values) = records.record();
            let name = format!("{name}-{round}-{writer}").into();
            let put = Edit::Put { name, values, precondition: Precondition::Absent };
            let change = ChangeSet { author: "bench".into(), timestamp_ms: 0, edits: vec![put] };
            pollster::block_on(store.commit(change)).expect("names are unique");
        }
    })
}
