//! Tokio runtimes.

use tokio::runtime::{Builder, Runtime};

use crate::CliError;

/// Single-threaded runtime, for one lookup.
pub(crate) fn current_thread() -> Result<Runtime, CliError> {
    build(&mut Builder::new_current_thread())
}

/// Multi-threaded runtime with this number of worker threads, which drive connections while the command does other work.
pub(crate) fn multi_thread(workers: usize) -> Result<Runtime, CliError> {
    build(Builder::new_multi_thread().worker_threads(workers))
}

/// Multi-threaded runtime with Tokio's default number of workers, for the server.
pub(crate) fn multi_thread_default() -> Result<Runtime, CliError> {
    build(&mut Builder::new_multi_thread())
}

fn build(builder: &mut Builder) -> Result<Runtime, CliError> {
    builder.enable_all().build().map_err(|error| CliError::io("cannot start the async runtime", &error))
}
