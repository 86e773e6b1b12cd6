//! Opening a store, and hints for its errors.

use std::error::Error;
use std::io;
use std::path::Path;

use tendot_store::{EmbeddedStore, LockError, OpenError, PostgresSettings, PostgresStore, StoreError};

use crate::CliError;

/// Connection pool of a command that sends one query at a time.
pub(crate) fn command_pool() -> PostgresSettings {
    PostgresSettings { max_connections: 2, ..PostgresSettings::default() }
}

/// Opens a PostgreSQL store.
pub(crate) async fn open_postgres(
    address: &str,
    settings: &PostgresSettings,
) -> Result<PostgresStore, CliError> {
    PostgresStore::open(address, settings)
        .await
        .map_err(|error| CliError::new(error.to_string()).with_hint(error.hint()))
}

/// Opens an embedded store read-only; a server may be running.
pub(crate) fn open_read_only(directory: &Path) -> Result<EmbeddedStore, CliError> {
    EmbeddedStore::open_read_only(directory).map_err(|error| open_error(&error))
}

/// Error of opening a store, with a hint.
pub(crate) fn open_error(error: &OpenError) -> CliError {
    let failure = CliError::new(error.to_string());
    match error {
        OpenError::Locked(LockError::Held { .. }) => failure.with_hint(STORE_LOCKED_HINT),
        OpenError::NotFound { .. } | OpenError::NotADirectory { .. } => {
            failure.with_hint("set the data directory with `--data DIR`")
        }
        OpenError::OtherProgram { .. } => {
            failure.with_hint("use a directory of its own: set the data directory with `--data DIR`")
        }
        OpenError::NotAStore { .. } => failure.with_hint(
            "set the data directory with `--data DIR`; if the file is a corrupt store, restore a backup with `tendot restore`",
        ),
        OpenError::IncompleteMigration { .. } => failure.with_hint(UNFINISHED_MIGRATION_HINT),
        OpenError::UnknownFormat { .. } => {
            failure.with_hint("it was written by another version of tendot, or by another program")
        }
        OpenError::Io { error, .. } if is_permission_denied(&**error) => {
            failure.with_hint("reading a store requires write permission on its `lock.mdb`")
        }
        OpenError::Truncated { .. } | OpenError::Io { .. } | OpenError::Store { .. } => {
            failure.with_hint("if the file is corrupt, restore a backup with `tendot restore`")
        }
        _ => failure,
    }
}

/// Hint for the target of an interrupted migration.
const UNFINISHED_MIGRATION_HINT: &str = "run the same `tendot migrate` command again to finish it";

/// True if the cause is a missing file permission.
fn is_permission_denied(error: &(dyn Error + 'static)) -> bool {
    let io = error.downcast_ref::<io::Error>();
    // LMDB's errors have no kind, only text.
    io.is_some_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
        || error.to_string().contains("Permission denied")
}

/// Hint for a store that another process has locked.
pub(crate) const STORE_LOCKED_HINT: &str = "stop the server or other process that has the store open";

/// Error of reading a store, with a hint.
pub(crate) fn read_error(error: &StoreError) -> CliError {
    let failure = CliError::new(error.to_string());
    match error {
        StoreError::Corrupt { .. } => failure.with_hint("run `tendot verify` to list the corruption"),
        _ => failure,
    }
}
