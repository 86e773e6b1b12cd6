//! Timing, medians, rates, and the regular expression to compare with.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

pub use tendot_testing::median;

/// Crossref's regular expression for DOI names, with its dot escaped.
pub const CROSSREF_PATTERN: &str = r"10\.\d{4,9}/[-._;()/:A-Z0-9]+";

/// Runs `work` and returns its duration in seconds.
pub fn seconds<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let start = Instant::now();
    let result = work();
    (start.elapsed().as_secs_f64(), result)
}

/// Operations per second of this number of threads. `operation` makes what the thread with this number repeats.
pub fn thread_rate<F: FnMut()>(threads: u64, time: Duration, operation: impl Fn(u64) -> F + Sync) -> f64 {
    let (done, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let start = Instant::now();
    thread::scope(|scope| {
        for thread in 0..threads {
            let (done, stop, operation) = (&done, &stop, &operation);
            scope.spawn(move || {
                let mut repeat = operation(thread);
                while !stop.load(Ordering::Relaxed) {
                    repeat();
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        thread::sleep(time);
        stop.store(true, Ordering::Relaxed);
    });
    done.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64()
}
