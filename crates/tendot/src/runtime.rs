//! Tokio runtimes.

use std::io;
use std::sync::{Mutex, PoisonError};
use std::thread::{self, available_parallelism};
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};

use crate::CliError;

/// Threads of the server besides two per core (for connections and UDP): writer, maintenance of the store, blocking operations.
const OTHER_SERVER_THREADS: usize = 8;

/// How long to wait until the system has removed threads that have ended.
const THREAD_EXIT_TIMEOUT: Duration = Duration::from_secs(5);

/// Single-threaded runtime, for one lookup.
pub(crate) fn current_thread() -> Result<Runtime, CliError> {
    build(&mut Builder::new_current_thread(), 1)
}

/// Multi-threaded runtime with this number of worker threads, which drive connections while the command does other work.
pub(crate) fn multi_thread(workers: usize) -> Result<Runtime, CliError> {
    build(Builder::new_multi_thread().worker_threads(workers), workers + 1)
}

/// Multi-threaded runtime with a worker per core, for the server.
pub(crate) fn for_server() -> Result<Runtime, CliError> {
    let cores = available_parallelism().map_or(1, usize::from);
    build(Builder::new_multi_thread().worker_threads(cores), 2 * cores + OTHER_SERVER_THREADS)
}

fn build(builder: &mut Builder, threads: usize) -> Result<Runtime, CliError> {
    check_threads(threads)
        .map_err(|error| thread_error(&format!("cannot start {threads} threads"), &error))?;
    builder.enable_all().build().map_err(|error| CliError::io("cannot start the async runtime", &error))
}

/// Error of starting a thread.
pub(crate) fn thread_error(message: &str, error: &io::Error) -> CliError {
    CliError::io(message, error).with_hint(
        "raise the thread limit: `TasksMax=` in the systemd unit, `--pids-limit` of the container, or `ulimit -u`",
    )
}

/// Checks that this number of threads can run at the same time. Tokio panics if it cannot start a worker thread, and waits forever for
/// a thread of a blocking operation.
fn check_threads(count: usize) -> io::Result<()> {
    let before = thread_count();
    let gate = Mutex::new(());
    let started = thread::scope(|scope| {
        let closed = gate.lock();
        let wait = || drop(gate.lock().unwrap_or_else(PoisonError::into_inner));
        let started: io::Result<Vec<_>> =
            (0..count).map(|_| thread::Builder::new().spawn_scoped(scope, wait)).collect();
        drop(closed);
        started.map(drop)
    });
    // The kernel counts a thread until shortly after it was joined.
    let deadline = Instant::now() + THREAD_EXIT_TIMEOUT;
    while thread_count() > before && Instant::now() < deadline {
        thread::yield_now();
    }
    started
}

/// Number of threads of this process; `None` where that is unknown.
fn thread_count() -> Option<usize> {
    std::fs::read_dir("/proc/self/task").ok().map(Iterator::count)
}
