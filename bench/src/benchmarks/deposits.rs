//! Durable commits by one and by several concurrent writers. `deposits DIR` prints commits per second, and the time of one
//! `fdatasync`.

use std::error::Error;
use std::fs::File;
use std::io::{Seek as _, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::measure::{median, seconds};
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
    let [one, ..] = rates.clone();
    for (writers, rates) in WRITERS.into_iter().zip(rates) {
        let ratios = rates.iter().zip(&one).map(|(rate, one)| rate / one).collect();
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
    let (done, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let start = Instant::now();
    std::thread::scope(|scope| {
        for writer in 0..writers {
            let (done, stop) = (&done, &stop);
            scope.spawn(move || {
                let mut records = RecordGenerator::new(writer);
                while !stop.load(Ordering::Relaxed) {
                    let (name, values) = records.record();
                    let name = format!("{name}-{round}-{writer}").into();
                    let put = Edit::Put { name, values, precondition: Precondition::Absent };
                    let change = ChangeSet { author: "bench".into(), timestamp_ms: 0, edits: vec![put] };
                    pollster::block_on(store.commit(change)).expect("no two names are the same");
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        std::thread::sleep(RUN_TIME);
        stop.store(true, Ordering::Relaxed);
    });
    done.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64()
}
