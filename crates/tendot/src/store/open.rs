//! Opening a store, and hints for the errors of doing so.

use std::error::Error;
use std::io::{self, IsTerminal as _};

use tendot_store::{LockError, OpenError, PostgresSettings, PostgresStore, StoreError};

use crate::CliError;

/// A command that asks one thing after the other needs few.
pub(crate) fn command_pool() -> PostgresSettings {
    PostgresSettings { connections: 2, ..PostgresSettings::default() }
}

/// Opens the store of a database.
pub(crate) async fn open_postgres(
    address: &str,
    settings: &PostgresSettings,
) -> Result<PostgresStore, CliError> {
    PostgresStore::open(address, settings)
        .await
        .map_err(|error| CliError::new(error.to_string()).with_hint(error.hint()))
}

/// Tells why a store was not opened.
pub(crate) fn open_error(error: &OpenError) -> CliError {
    let failure = CliError::new(error.to_string());
    match error {
        OpenError::Locked(LockError::Held { .. }) => failure.with_hint(STORE_LOCKED_HINT),
        OpenError::NoStore { .. } => failure.with_hint("`--data DIR` says where it is"),
        OpenError::Unfinished { .. } => failure.with_hint(UNFINISHED_MIGRATION_HINT),
        OpenError::OtherFormat { .. } => {
            failure.with_hint("a newer version of tendot wrote it, or another program")
        }
        OpenError::Failed { error, .. } if is_permission_denied(&**error) => {
            failure.with_hint("whoever reads a store has to be able to write its `lock.mdb`, too")
        }
        OpenError::CutOff { .. } | OpenError::Failed { .. } | OpenError::Store { .. } => {
            failure.with_hint("if the file is damaged, `tendot restore` makes a store of a backup")
        }
        _ => failure,
    }
}

/// What to do about a store that another one was being moved to.
const UNFINISHED_MIGRATION_HINT: &str = "the same `tendot migrate` again goes on where it was stopped";

/// Whether an error is that somebody has no permission.
fn is_permission_denied(error: &(dyn Error + 'static)) -> bool {
    let io = error.downcast_ref::<io::Error>();
    // The engine's own errors only say it.
    io.is_some_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
        || error.to_string().contains("Permission denied")
}

/// What to do when another process writes.
pub(crate) const STORE_LOCKED_HINT: &str = "stop the server first, or whatever else writes there";

/// Tells why a store could not be read to its end.
pub(crate) fn read_error(error: &StoreError) -> CliError {
    let failure = CliError::new(error.to_string());
    match error {
        StoreError::Damaged { .. } => failure.with_hint("`tendot verify` finds all that is damaged"),
        _ => failure,
    }
}
