//! Commands on a store, for which no server needs to run.
//!
//! `location.rs` finds the store from flags and variables, `open.rs` opens it; then one file or folder per command.

pub(crate) mod backup;
pub(crate) mod export;
pub(crate) mod import;
mod location;
pub(crate) mod migrate;
mod open;
pub(crate) mod restore;
pub(crate) mod verify;

use std::path::PathBuf;

use clap::Args;
pub(crate) use location::StoreLocation;
pub(crate) use open::{STORE_LOCKED_HINT, command_pool, open_error, open_postgres, read_error};

#[derive(Args, Clone, Debug)]
pub(crate) struct StoreArguments {
    /// The directory of the embedded store [default: tendot-data]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,

    /// The store: `embedded:DIR` or `postgres://user@host/database`
    #[arg(long, value_name = "URL", conflicts_with = "data")]
    pub(crate) store: Option<String>,
}
