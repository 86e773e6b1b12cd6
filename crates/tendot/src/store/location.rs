//! Location of the store of a command, from flags and environment variables.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use tendot_store::EmbeddedStore;

use super::{StoreArguments, open_error};
use crate::CliError;
use crate::config::redact_password;

/// Location of a store: directory of the embedded store, or PostgreSQL address.
#[derive(Debug)]
pub(crate) enum StoreLocation {
    /// Directory of an embedded store.
    Embedded(PathBuf),
    /// Address of a PostgreSQL database.
    Postgres(String),
}

impl StoreLocation {
    /// Parses the value of a flag such as `--store`.
    pub(crate) fn parse(flag: &str, store: &str) -> Result<Self, CliError> {
        match store.split_once(':') {
            Some(("embedded", directory)) if !directory.is_empty() => Ok(Self::Embedded(directory.into())),
            Some(("postgres" | "postgresql", _)) => Ok(Self::Postgres(store.into())),
            _ => Err(CliError::new(format!("`{flag} {}` is not a persistent store", redact_password(store)))
                .with_hint("expected `embedded:DIR` or `postgres://user@host/database`")),
        }
    }
}

impl StoreArguments {
    /// Location of the store.
    pub(crate) fn location(&self) -> Result<StoreLocation, CliError> {
        let data = || self.data_flag();
        // `--data` overrides `TENDOT_STORE`.
        let store = if self.data.is_some() {
            None
        } else {
            flag_or_env(self.store.clone().map(Into::into), "TENDOT_STORE")
        };
        let Some(store) = store else { return Ok(StoreLocation::Embedded(data())) };
        match store.to_string_lossy().as_ref() {
            "embedded:" => Ok(StoreLocation::Embedded(data())),
            store => StoreLocation::parse("--store", store),
        }
    }

    fn data_flag(&self) -> PathBuf {
        flag_or_env(self.data.clone().map(Into::into), "TENDOT_DATA").unwrap_or("tendot-data".into()).into()
    }

    /// Data directory, which holds the server's key also when the records are in PostgreSQL.
    pub(crate) fn data_dir(&self) -> Result<PathBuf, CliError> {
        match self.location()? {
            StoreLocation::Embedded(directory) => Ok(directory),
            StoreLocation::Postgres(_) => Ok(self.data_flag()),
        }
    }

    /// Directory of the embedded store; an error for other stores.
    pub(crate) fn embedded_dir(&self) -> Result<PathBuf, CliError> {
        match self.location()? {
            StoreLocation::Embedded(directory) => Ok(directory),
            StoreLocation::Postgres(_) => {
                Err(CliError::new("only supported for the embedded store").with_hint("use `--data DIR`"))
            }
        }
    }

    /// Refuses to overwrite a file of the store.
    pub(crate) fn ensure_not_store_file(&self, target: &Path) -> Result<(), CliError> {
        let target = std::fs::canonicalize(target).unwrap_or_else(|_| target.into());
        let name = target.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let dir = target.parent().filter(|dir| !dir.as_os_str().is_empty());
        let dir = std::fs::canonicalize(dir.unwrap_or_else(|| Path::new("."))).ok();
        let is_data_dir = dir.is_some() && dir == std::fs::canonicalize(self.data_dir()?).ok();
        if is_data_dir && STORE_FILES.contains(&name) {
            return Err(CliError::new(format!("`{}` belongs to the store", target.display()))
                .with_hint("choose another output path"));
        }
        Ok(())
    }

    /// Opens the embedded store read-only; a server may be running.
    pub(crate) fn open_read_only(&self) -> Result<EmbeddedStore, CliError> {
        EmbeddedStore::open_read_only(&self.embedded_dir()?).map_err(|error| open_error(&error))
    }
}

/// Value of a flag, else of an environment variable.
fn flag_or_env(flag: Option<OsString>, variable: &str) -> Option<OsString> {
    flag.or_else(|| std::env::var_os(variable))
}

/// Files of a store and its server in the data directory.
const STORE_FILES: [&str; 5] =
    ["data.mdb", "lock.mdb", "operator.token", "tendot.lock", "tendot.space-probe"];
