//! Commands on a store, for which no server needs to run.
//!
//! `location.rs` finds the store from flags, variables and the configuration file, `open.rs` opens it; then one file or folder per
//! command: `import/`, `export/`, `backup.rs`, `restore.rs` with `restore_names.rs` (single names), `verify.rs`, `migrate.rs`,
//! `audit.rs`.

pub(crate) mod audit;
pub(crate) mod backup;
pub(crate) mod export;
pub(crate) mod import;
mod location;
pub(crate) mod migrate;
mod open;
pub(crate) mod restore;
mod restore_names;
pub(crate) mod verify;

use std::path::PathBuf;

use clap::Args;
pub(crate) use location::{CommandStore, StoreLocation};
pub(crate) use open::{
    STORE_LOCKED_HINT, command_pool, open_error, open_postgres, open_read_only, read_error,
};

use crate::cli::ConfigSourceArguments;

#[derive(Args, Clone, Debug)]
pub(crate) struct StoreArguments {
    /// Data directory of the embedded store [env: TENDOT_DATA] [default: tendot-data]
    #[arg(long, value_name = "DIR", help_heading = "Store")]
    pub(crate) data: Option<PathBuf>,

    /// Store: `embedded:DIR` or `postgres://user@host/database` [env: TENDOT_STORE]
    #[arg(long, value_name = "URL", conflicts_with = "data", help_heading = "Store")]
    pub(crate) store: Option<String>,

    #[command(flatten)]
    pub(crate) configuration: ConfigSourceArguments,
}
