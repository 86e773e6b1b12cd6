//! The store that a command is about: where it is, and what to do when it cannot be opened.

use std::error::Error;
use std::ffi::OsString;
use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};

use indicatif::{ProgressBar, ProgressStyle};
use tendot_store::{EmbeddedStore, LockError, OpenError, PostgresSettings, PostgresStore, StoreError};
use tokio::runtime::{Builder, Runtime};

use crate::CliError;
use crate::args::StoreArguments;
use crate::config::redact_password;

/// Where the records are that a command is about.
#[derive(Debug)]
pub(crate) enum StoreLocation {
    /// An embedded store in this directory.
    Directory(PathBuf),
    /// The database of this address.
    Database(String),
}

impl StoreLocation {
    /// Reads what a flag says.
    pub(crate) fn parse(flag: &str, store: &str) -> Result<Self, CliError> {
        match store.split_once(':') {
            Some(("embedded", directory)) if !directory.is_empty() => Ok(Self::Directory(directory.into())),
            Some(("postgres" | "postgresql", _)) => Ok(Self::Database(store.into())),
            _ => Err(CliError::new(format!("`{flag} {}` is no store that lasts", redact_password(store)))
                .with_hint("a store is written as `embedded:DIR` or `postgres://user@host/database`")),
        }
    }
}

impl StoreArguments {
    /// Where the store is.
    pub(crate) fn location(&self) -> Result<StoreLocation, CliError> {
        let data = || self.data_directory();
        // A directory that a flag names wins over a store that a variable names.
        let store = if self.data.is_some() {
            None
        } else {
            flag_or_env(self.store.clone().map(Into::into), "TENDOT_STORE")
        };
        let Some(store) = store else { return Ok(StoreLocation::Directory(data())) };
        match store.to_string_lossy().as_ref() {
            "embedded:" => Ok(StoreLocation::Directory(data())),
            store => StoreLocation::parse("--store", store),
        }
    }

    fn data_directory(&self) -> PathBuf {
        flag_or_env(self.data.clone().map(Into::into), "TENDOT_DATA").unwrap_or("tendot-data".into()).into()
    }

    /// The directory of what is ours beside the records, such as our key.
    pub(crate) fn own_directory(&self) -> Result<PathBuf, CliError> {
        match self.location()? {
            StoreLocation::Directory(directory) => Ok(directory),
            StoreLocation::Database(_) => Ok(self.data_directory()),
        }
    }

    /// The directory of the embedded store.
    pub(crate) fn embedded_dir(&self) -> Result<PathBuf, CliError> {
        match self.location()? {
            StoreLocation::Directory(directory) => Ok(directory),
            StoreLocation::Database(_) => Err(CliError::new("this is done with an embedded store only")
                .with_hint("`--data DIR` says where it is")),
        }
    }

    /// Refuses to write over a file of the store itself.
    pub(crate) fn ensure_not_store_file(&self, target: &Path) -> Result<(), CliError> {
        let target = std::fs::canonicalize(target).unwrap_or_else(|_| target.into());
        let name = target.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = std::fs::canonicalize(folder.unwrap_or_else(|| Path::new("."))).ok();
        let is_ours = folder.is_some() && folder == std::fs::canonicalize(self.own_directory()?).ok();
        if is_ours && STORE_FILES.contains(&name) {
            return Err(CliError::new(format!("`{}` is a file of the store itself", target.display()))
                .with_hint("write to another place"));
        }
        Ok(())
    }

    /// The store, for reading, also while a server writes it.
    pub(crate) fn open_read_only(&self) -> Result<EmbeddedStore, CliError> {
        EmbeddedStore::open_read_only(&self.embedded_dir()?).map_err(|error| open_error(&error))
    }
}

/// What a flag says, or else a variable.
fn flag_or_env(flag: Option<OsString>, variable: &str) -> Option<OsString> {
    flag.or_else(|| std::env::var_os(variable))
}

/// A command that asks one thing after the other needs few.
pub(crate) fn few_connections() -> PostgresSettings {
    PostgresSettings { connections: 2, ..PostgresSettings::default() }
}

/// What a database is asked in: one thread reads and writes the connection.
pub(crate) fn multi_thread() -> Result<Runtime, CliError> {
    Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|error| CliError::io("threads can't be started", &error))
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

/// What a store and its server have in their directory.
const STORE_FILES: [&str; 5] = ["data.mdb", "lock.mdb", "operator.token", "tendot.lock", "tendot.room"];

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

/// A bar on stderr when somebody watches it, in `template`'s words.
pub(crate) fn progress_bar(length: u64, template: &str) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(length).with_style(style)
}

/// How far a count of records is.
pub(crate) const RECORD_PROGRESS: &str = "{bar:40} {human_pos}/{human_len} records  {per_sec}  {eta} left";

/// How far the bytes of a file are.
pub(crate) const BYTE_PROGRESS: &str = "{bar:40} {bytes}/{total_bytes}  {bytes_per_sec}  {eta} left";

/// Whether a path stands for standard input or output.
pub(crate) fn is_stdio(path: &Path) -> bool {
    path.as_os_str() == "-"
}
