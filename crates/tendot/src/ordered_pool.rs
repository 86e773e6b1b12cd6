//! Parallel jobs with results in job order and bounded memory.

use std::num::NonZero;
use std::sync::Mutex;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread;

/// Bounded channel for the results of one job.
pub(crate) struct ResultSender<R>(SyncSender<R>);

/// The receiver of results was dropped.
#[derive(Debug)]
pub(crate) struct ReceiverGone;

impl<R> ResultSender<R> {
    /// Sends a partial result; blocks while the channel is full.
    pub(crate) fn send(&self, result: R) -> Result<(), ReceiverGone> {
        self.0.send(result).map_err(|_| ReceiverGone)
    }
}

/// Capacity of the channel of one job.
const RESULTS_PER_JOB: usize = 4;

/// Runs `work` for each job on a pool of `threads` threads and passes the results to `take` in job order. Stops at the first
/// error of `take`.
///
/// No deadlock: jobs start in order, and the results of the first unfinished job are received.
pub(crate) fn map_ordered<J: Send, R: Send, E>(
    threads: NonZero<usize>,
    jobs: impl Iterator<Item = J> + Send,
    work: impl Fn(J, &ResultSender<R>) + Sync,
    mut take: impl FnMut(R) -> Result<(), E>,
) -> Result<(), E> {
    thread::scope(|scope| {
        let (job_sender, job_receiver) = mpsc::sync_channel::<(J, ResultSender<R>)>(threads.get());
        let (result_sender, result_receiver) = mpsc::sync_channel::<Receiver<R>>(threads.get());
        scope.spawn(move || {
            for job in jobs {
                let (sender, receiver) = mpsc::sync_channel(RESULTS_PER_JOB);
                // Sending fails only after `take` has failed.
                if result_sender.send(receiver).is_err()
                    || job_sender.send((job, ResultSender(sender))).is_err()
                {
                    return;
                }
            }
        });
        let job_receiver = std::sync::Arc::new(Mutex::new(job_receiver));
        for _ in 0..threads.get() {
            let (jobs, work) = (job_receiver.clone(), &work);
            scope.spawn(move || {
                loop {
                    let job = jobs.lock().map(|jobs| jobs.recv());
                    let Ok(Ok((job, results))) = job else { return };
                    work(job, &results);
                }
            });
        }
        drop(job_receiver);
        for results in result_receiver {
            for result in results {
                take(result)?;
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn results_are_ordered() {
        let mut results = Vec::new();
        let begun = AtomicU64::new(0);
        let work = |job: u64, results: &ResultSender<u64>| {
            begun.fetch_max(job, Ordering::Relaxed);
            // Every fourth job sends nothing until the three after it have begun.
            while job.is_multiple_of(4) && begun.load(Ordering::Relaxed) < job + 3 {
                thread::yield_now();
            }
            for result in 0..10 {
                results.send(job * 10 + result).unwrap();
            }
        };
        let threads = NonZero::new(4).unwrap();
        map_ordered(threads, 0..100, work, |result| {
            results.push(result);
            Ok::<(), ()>(())
        })
        .unwrap();
        assert_eq!(results, (0..1000).collect::<Vec<u64>>());
    }

    #[test]
    fn error_stops_jobs() {
        let started = AtomicUsize::new(0);
        let threads = NonZero::new(2).unwrap();
        let work = |_: i32, results: &ResultSender<usize>| {
            let _ = results.send(started.fetch_add(1, Ordering::Relaxed));
        };
        let take = |result| if result < 10 { Ok(()) } else { Err("enough") };
        assert_eq!(map_ordered(threads, 0..1_000_000, work, take), Err("enough"));
        assert!(started.load(Ordering::Relaxed) < 1000);
    }
}
