//! The store that a command is about: where it is, and what to do when it cannot be opened.

use std::error::Error;
use std::ffi::OsString;
use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};

use indicatif::{ProgressBar, ProgressStyle};
use tendot_store::{Embedded, LockError, OpenError, Postgres, PostgresSettings, StoreError};
use tokio::runtime::{Builder, Runtime};

use crate::Failure;
use crate::args::StoreArguments;
use crate::config::without_password;

/// Where the records are that a command is about.
#[derive(Debug)]
pub(crate) enum Place {
    /// An embedded store in this directory.
    Directory(PathBuf),
    /// The database of this address.
    Database(String),
}

impl Place {
    /// Reads what a flag says.
    pub(crate) fn read(flag: &str, store: &str) -> Result<Self, Failure> {
        match store.split_once(':') {
            Some(("embedded", directory)) if !directory.is_empty() => Ok(Self::Directory(directory.into())),
            Some(("postgres" | "postgresql", _)) => Ok(Self::Database(store.into())),
            _ => Err(Failure::new(format!("`{flag} {}` is no store that lasts", without_password(store)))
                .hint("a store is written as `embedded:DIR` or `postgres://user@host/database`")),
        }
    }
}

impl StoreArguments {
    /// Where the store is.
    pub(crate) fn place(&self) -> Result<Place, Failure> {
        let data = || self.data_directory();
        // A directory that a flag names wins over a store that a variable names.
        let store =
            if self.data.is_some() { None } else { said(self.store.clone().map(Into::into), "TENDOT_STORE") };
        let Some(store) = store else { return Ok(Place::Directory(data())) };
        match store.to_string_lossy().as_ref() {
            "embedded:" => Ok(Place::Directory(data())),
            store => Place::read("--store", store),
        }
    }

    fn data_directory(&self) -> PathBuf {
        said(self.data.clone().map(Into::into), "TENDOT_DATA").unwrap_or("tendot-data".into()).into()
    }

    /// The directory of what is ours beside the records, such as our key.
    pub(crate) fn own_directory(&self) -> Result<PathBuf, Failure> {
        match self.place()? {
            Place::Directory(directory) => Ok(directory),
            Place::Database(_) => Ok(self.data_directory()),
        }
    }

    /// The directory of the embedded store.
    pub(crate) fn directory(&self) -> Result<PathBuf, Failure> {
        match self.place()? {
            Place::Directory(directory) => Ok(directory),
            Place::Database(_) => Err(Failure::new("this is done with an embedded store only")
                .hint("`--data DIR` says where it is")),
        }
    }

    /// Refuses to write over a file of the store itself.
    pub(crate) fn check_target(&self, target: &Path) -> Result<(), Failure> {
        let target = std::fs::canonicalize(target).unwrap_or_else(|_| target.into());
        let name = target.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = std::fs::canonicalize(folder.unwrap_or_else(|| Path::new("."))).ok();
        let is_ours = folder.is_some() && folder == std::fs::canonicalize(self.own_directory()?).ok();
        if is_ours && STORE_FILES.contains(&name) {
            return Err(Failure::new(format!("`{}` is a file of the store itself", target.display()))
                .hint("write to another place"));
        }
        Ok(())
    }

    /// The store, for reading, also while a server writes it.
    pub(crate) fn open_read_only(&self) -> Result<Embedded, Failure> {
        Embedded::open_read_only(&self.directory()?).map_err(|error| unopened(&error))
    }
}

/// What a flag says, or else a variable.
fn said(flag: Option<OsString>, variable: &str) -> Option<OsString> {
    flag.or_else(|| std::env::var_os(variable))
}

/// A command that asks one thing after the other needs few.
pub(crate) fn few_connections() -> PostgresSettings {
    PostgresSettings { connections: 2, ..PostgresSettings::default() }
}

/// What a database is asked in: one thread reads and writes the connection.
pub(crate) fn runtime() -> Result<Runtime, Failure> {
    Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|error| Failure::io("threads can't be started", &error))
}

/// Opens the store of a database.
pub(crate) async fn open_postgres(address: &str, settings: &PostgresSettings) -> Result<Postgres, Failure> {
    Postgres::open(address, settings)
        .await
        .map_err(|error| Failure::new(error.to_string()).hint(error.hint()))
}

/// What a store and its server have in their directory.
const STORE_FILES: [&str; 5] = ["data.mdb", "lock.mdb", "operator.token", "tendot.lock", "tendot.room"];

/// Tells why a store was not opened.
pub(crate) fn unopened(error: &OpenError) -> Failure {
    let failure = Failure::new(error.to_string());
    match error {
        OpenError::Locked(LockError::Held { .. }) => failure.hint(STORE_LOCKED_HINT),
        OpenError::NoStore { .. } => failure.hint("`--data DIR` says where it is"),
        OpenError::Unfinished { .. } => failure.hint(UNFINISHED),
        OpenError::OtherFormat { .. } => {
            failure.hint("a newer version of tendot wrote it, or another program")
        }
        OpenError::Failed { error, .. } if is_permission_denied(&**error) => {
            failure.hint("whoever reads a store has to be able to write its `lock.mdb`, too")
        }
        OpenError::CutOff { .. } | OpenError::Failed { .. } | OpenError::Store { .. } => {
            failure.hint("if the file is damaged, `tendot restore` makes a store of a backup")
        }
        _ => failure,
    }
}

/// What to do about a store that another one was being moved to.
const UNFINISHED: &str = "the same `tendot migrate` again goes on where it was stopped";

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
pub(crate) fn unread(error: &StoreError) -> Failure {
    let failure = Failure::new(error.to_string());
    match error {
        StoreError::Damaged { .. } => failure.hint("`tendot verify` finds all that is damaged"),
        _ => failure,
    }
}

/// A bar on stderr when somebody watches it, in `template`'s words.
pub(crate) fn progress(length: u64, template: &str) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(length).with_style(style)
}

/// How far a count of records is.
pub(crate) const RECORDS: &str = "{bar:40} {human_pos}/{human_len} records  {per_sec}  {eta} left";

/// How far the bytes of a file are.
pub(crate) const BYTES: &str = "{bar:40} {bytes}/{total_bytes}  {bytes_per_sec}  {eta} left";

/// Whether a path stands for standard input or output.
pub(crate) fn is_standard(path: &Path) -> bool {
    path.as_os_str() == "-"
}
