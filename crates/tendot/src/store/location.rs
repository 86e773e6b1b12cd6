//! Location of the store of a command, from flags, environment variables and the configuration file.

use std::path::{Path, PathBuf};

use super::StoreArguments;
use crate::CliError;
use crate::cli::ConfigSourceArguments;
use crate::config::{
    Configuration, ServerSettings, SettingValue as _, StoreSetting, load_settings, redact_password,
};
use crate::serve::TIMELINE_FILE;

/// Location of a persistent store: directory of the embedded store, or PostgreSQL address.
#[derive(Debug)]
pub(crate) enum StoreLocation {
    /// Directory of an embedded store.
    Embedded(PathBuf),
    /// Address of a PostgreSQL database.
    Postgres(String),
}

impl StoreLocation {
    /// Parses the value of a flag such as `--from`.
    pub(crate) fn parse(flag: &str, store: &str) -> Result<Self, CliError> {
        match StoreSetting::parse(store) {
            Ok(StoreSetting::Embedded(Some(directory))) => Ok(Self::Embedded(directory)),
            Ok(StoreSetting::Postgres(address)) => Ok(Self::Postgres(address)),
            _ => Err(not_persistent(&format!("{flag} {}", redact_password(store)))),
        }
    }
}

/// Store of a command, and the data directory of its server.
#[derive(Debug)]
pub(crate) struct CommandStore {
    pub(crate) location: StoreLocation,
    /// Data directory, which holds the server's key also when the records are in PostgreSQL.
    pub(crate) data_dir: PathBuf,
}

impl StoreArguments {
    /// Settings of the server, with the store that the flags select. `--data` selects the embedded store.
    pub(crate) fn load_settings(&self) -> Result<ServerSettings, CliError> {
        let store_flag = self.store.iter().map(|store| ("store", "--store", store.clone()));
        let mut settings = load_settings(&self.configuration, &store_flag.collect::<Vec<_>>())?;
        if let Some(data) = &self.data {
            settings.data.clone_from(data);
            settings.store = StoreSetting::Embedded(None);
        }
        Ok(settings)
    }

    /// Store and data directory. If the flags alone select the store, other settings may be invalid or unreadable.
    pub(crate) fn locate(&self) -> Result<CommandStore, CliError> {
        match self.locate_by_flags() {
            Some(store) => Ok(store),
            None => CommandStore::from_settings(&self.load_settings()?),
        }
    }

    /// Store that `--data` or `--store` selects. None with `--config` or `--set`, and if `--store` is invalid or needs the
    /// data directory (`embedded:`).
    fn locate_by_flags(&self) -> Option<CommandStore> {
        let ConfigSourceArguments { config: None, set } = &self.configuration else { return None };
        if !set.is_empty() {
            return None;
        }
        if let Some(data) = &self.data {
            return Some(CommandStore::embedded(data.clone()));
        }
        match StoreSetting::parse(self.store.as_ref()?).ok()? {
            StoreSetting::Embedded(directory) => directory.map(CommandStore::embedded),
            StoreSetting::Postgres(address) => {
                let location = StoreLocation::Postgres(address);
                Some(CommandStore { location, data_dir: configured_data_dir(&self.configuration)? })
            }
            StoreSetting::Memory => None,
        }
    }
}

/// Value of the setting `data`; errors in other settings are ignored.
fn configured_data_dir(configuration: &ConfigSourceArguments) -> Option<PathBuf> {
    let settings = Configuration::load(configuration, &[]).settings;
    let data = settings.iter().find(|setting| setting.key.name == "data")?;
    PathBuf::parse(&data.text).ok()
}

impl CommandStore {
    pub(crate) fn from_settings(settings: &ServerSettings) -> Result<Self, CliError> {
        match (&settings.store, settings.data_dir()) {
            (StoreSetting::Memory, _) | (_, None) => Err(not_persistent("memory:")),
            (StoreSetting::Embedded(_), Some(directory)) => Ok(Self::embedded(directory)),
            (StoreSetting::Postgres(address), Some(data_dir)) => {
                Ok(Self { location: StoreLocation::Postgres(address.clone()), data_dir })
            }
        }
    }

    fn embedded(directory: PathBuf) -> Self {
        Self { location: StoreLocation::Embedded(directory.clone()), data_dir: directory }
    }

    /// Refuses to overwrite a file of the store.
    pub(crate) fn ensure_not_store_file(&self, target: &Path) -> Result<(), CliError> {
        let target = std::fs::canonicalize(target).unwrap_or_else(|_| target.into());
        let name = target.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let dir = target.parent().filter(|dir| !dir.as_os_str().is_empty());
        let dir = std::fs::canonicalize(dir.unwrap_or_else(|| Path::new("."))).ok();
        let is_data_dir = dir.is_some() && dir == std::fs::canonicalize(&self.data_dir).ok();
        if is_data_dir && STORE_FILES.contains(&name) {
            return Err(CliError::new(format!("`{}` belongs to the store", target.display()))
                .with_hint("choose another output path"));
        }
        Ok(())
    }
}

fn not_persistent(store: &str) -> CliError {
    CliError::new(format!("`{store}` is not a persistent store"))
        .with_hint("expected `embedded:DIR` or `postgres://user@host/database`")
}

/// Files of a store and its server in the data directory.
const STORE_FILES: [&str; 6] =
    ["data.mdb", "lock.mdb", "operator.token", TIMELINE_FILE, "tendot.lock", "tendot.space-probe"];
