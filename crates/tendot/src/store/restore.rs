//! `tendot restore`: creates a store from a backup.

use std::borrow::Cow;
use std::fs::File;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use tendot_store::{LockError, RestoreError, restore};

use super::migrate::migrate;
use super::{STORE_LOCKED_HINT, StoreArguments, StoreLocation, open_error};
use crate::terminal::{StdoutWriter, eprint_line};
use crate::{CliError, CommandStatus};

/// Makes a store of a backup
///
/// The backup is read and checked before anything is replaced. The server has to be stopped meanwhile.
///
/// For a store in a database, an embedded one is made of it first, in the folder for temporary files, and then moved. The
/// database has to be empty.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot restore --data restored tendot-2026-01-31.backup
  tendot restore --force tendot-2026-01-31.backup
  tendot restore --store postgres://tendot@db.example.org/empty tendot.backup

Exit codes: 0 done, 2 it could not be carried out (nothing was replaced).")]
pub(crate) struct RestoreArguments {
    /// The backup
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// Move a store that is there aside, into `DIR/old-…`
    #[arg(long)]
    pub(crate) force: bool,

    #[command(flatten)]
    pub(crate) store: StoreArguments,

    /// Print a JSON object: directory, moved_to
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Serialize)]
struct RestoreJson<'a> {
    directory: Option<Cow<'a, str>>,
    moved_to: Option<Cow<'a, str>>,
}

pub(crate) fn run(arguments: &RestoreArguments) -> Result<CommandStatus, CliError> {
    let directory = match arguments.store.location()? {
        StoreLocation::Embedded(directory) => directory,
        StoreLocation::Postgres(address) => return restore_postgres(arguments, address),
    };
    let path = arguments.file.display();
    let moved_to = restore_embedded(arguments, &directory)?;
    if let Some(moved_to) = &moved_to {
        eprint_line(format_args!("the store that was there is in `{}`", moved_to.display()));
    }
    eprint_line(format_args!("the store in `{}` is that of `{path}`", directory.display()));
    if arguments.json {
        let moved_to = moved_to.as_ref().map(|path| path.to_string_lossy());
        let mut output = StdoutWriter::new();
        output.write_json(&RestoreJson { directory: Some(directory.to_string_lossy()), moved_to })?;
        output.flush()?;
    }
    Ok(CommandStatus::Success)
}

/// Restores an embedded store.
fn restore_embedded(arguments: &RestoreArguments, directory: &Path) -> Result<Option<PathBuf>, CliError> {
    let path = arguments.file.display();
    let mut file = File::open(&arguments.file)
        .map_err(|error| CliError::io(format!("`{path}` can't be read"), &error))?;
    restore(&mut file, directory, arguments.force).map_err(|error| match &error {
        RestoreError::StoreExists { .. } => {
            CliError::new(error.to_string()).with_hint("`--force` moves it aside, into a folder of its own")
        }
        RestoreError::Locked(LockError::Held { .. }) => {
            CliError::new(error.to_string()).with_hint(STORE_LOCKED_HINT)
        }
        RestoreError::Open(error) => open_error(error),
        RestoreError::UnknownVersion => {
            CliError::new(format!("`{path}`: {error}")).with_hint("a newer version of tendot made it")
        }
        RestoreError::Locked(_) | RestoreError::Io { .. } => CliError::new(error.to_string()),
        _ => CliError::new(format!("`{path}`: {error}")),
    })
}

/// Restores a temporary embedded store, and migrates it to PostgreSQL.
fn restore_postgres(arguments: &RestoreArguments, address: String) -> Result<CommandStatus, CliError> {
    if arguments.force {
        return Err(CliError::new("what is in a database is not moved aside").with_hint(
            "restore to another database, or to another schema: `?options=-csearch_path%3DSCHEMA`",
        ));
    }
    let folder = Folder(std::env::temp_dir().join(format!("tendot-restore-{}", std::process::id())));
    restore_embedded(arguments, &folder.0)?;
    let moved =
        migrate(&StoreLocation::Embedded(folder.0.clone()), &StoreLocation::Postgres(address), false)?;
    if moved.difference_count > 0 {
        return Err(CliError::new(format!(
            "the store is not that of the backup: {}",
            moved.differences.join("; ")
        )));
    }
    eprint_line(format_args!("the store in the database is that of `{}`", arguments.file.display()));
    if arguments.json {
        let mut output = StdoutWriter::new();
        output.write_json(&RestoreJson { directory: None, moved_to: None })?;
        output.flush()?;
    }
    Ok(CommandStatus::Success)
}

/// Temporary directory, removed on drop.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        // An error leaves it in the system's temporary directory.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
