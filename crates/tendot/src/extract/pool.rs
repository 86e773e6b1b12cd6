//! Many jobs at the same time, results in the order of the jobs, few of them in memory.

use std::num::NonZero;
use std::sync::Mutex;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread;

/// Does each of `jobs` with `work` on one of `threads` threads, and gives the results to `take`, in order. Stops at
/// the first error of `take`.
pub(crate) fn in_order<J: Send, R: Send, E>(
    threads: NonZero<usize>,
    jobs: impl Iterator<Item = J> + Send,
    work: impl Fn(J) -> R + Sync,
    mut take: impl FnMut(R) -> Result<(), E>,
) -> Result<(), E> {
    thread::scope(|scope| {
        let ahead = threads.get() * 2;
        let (job_sender, job_receiver) = mpsc::sync_channel::<(J, SyncSender<R>)>(ahead);
        let (result_sender, result_receiver) = mpsc::sync_channel::<Receiver<R>>(ahead);
        scope.spawn(move || {
            for job in jobs {
                let (sender, receiver) = mpsc::sync_channel(1);
                // Both fail only when nobody wants results any more.
                if result_sender.send(receiver).is_err() || job_sender.send((job, sender)).is_err() {
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
                    let Ok(Ok((job, sender))) = job else { return };
                    // Nobody waits for it after an error.
                    let _ = sender.send(work(job));
                }
            });
        }
        drop(job_receiver);
        for result in result_receiver {
            match result.recv() {
                Ok(result) => take(result)?,
                // Its worker panicked; the scope passes that on.
                Err(_) => break,
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn results_come_in_order() {
        let mut results = Vec::new();
        let slow_at_first = |job: u64| {
            thread::sleep(std::time::Duration::from_micros(500 / (job + 1)));
            job * job
        };
        let threads = NonZero::new(4).unwrap();
        in_order(threads, 0..100, slow_at_first, |result| {
            results.push(result);
            Ok::<(), ()>(())
        })
        .unwrap();
        assert_eq!(results, (0..100).map(|job| job * job).collect::<Vec<u64>>());
    }

    #[test]
    fn an_error_stops_the_work() {
        let started = AtomicUsize::new(0);
        let threads = NonZero::new(2).unwrap();
        let stopped = in_order(
            threads,
            0..1_000_000,
            |_| started.fetch_add(1, Ordering::Relaxed),
            |result| if result < 10 { Ok(()) } else { Err("enough") },
        );
        assert_eq!(stopped, Err("enough"));
        assert!(started.load(Ordering::Relaxed) < 1000);
    }
}
