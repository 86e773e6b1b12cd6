//! Durable deposits by one writer and by several at once. `deposits DIR` prints changes a second.

use std::error::Error;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tendot_bench::records::Records;
use tendot_store::{Change, Edit, Embedded, Expect, Store};

const TIME: Duration = Duration::from_secs(4);

fn main() -> Result<(), Box<dyn Error>> {
    let directory = std::env::args().nth(1).ok_or("usage: deposits DIR")?;
    for writers in [1, 16, 64] {
        let store = Embedded::open(&Path::new(&directory).join(writers.to_string()))?;
        println!("deposits-{writers} {:.0} a-second", rate(&store, writers));
    }
    Ok(())
}

fn rate(store: &Embedded, writers: u64) -> f64 {
    let (done, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let start = Instant::now();
    std::thread::scope(|scope| {
        for writer in 0..writers {
            let (done, stop) = (&done, &stop);
            scope.spawn(move || {
                let mut records = Records::new(writer);
                while !stop.load(Ordering::Relaxed) {
                    let (name, values) = records.record();
                    let name = format!("{name}-{writer}").into();
                    let put = Edit::Put { name, values, expect: Expect::Absent };
                    let change = Change { by: "bench".into(), at: 0, edits: vec![put] };
                    pollster::block_on(store.commit(change)).expect("no two names are the same");
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        std::thread::sleep(TIME);
        stop.store(true, Ordering::Relaxed);
    });
    done.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64()
}
