//! Tokio runtimes for commands that use a database.

use tokio::runtime::{Builder, Runtime};

use crate::CliError;

/// Multi-threaded runtime with this number of worker threads, which drive database connections.
pub(crate) fn multi_thread(workers: usize) -> Result<Runtime, CliError> {
    Builder::new_multi_thread()
        .worker_threads(workers)
        .enable_all()
        .build()
        .map_err(|error| CliError::io("cannot start the async runtime", &error))
}
