//! `tendot restore`: creates a store from a backup.

use std::borrow::Cow;
use std::fs::File;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use tempfile::TempDir;
use tendot_store::{LockError, RestoreError, restore};

use super::migrate::migrate;
use super::{STORE_LOCKED_HINT, StoreArguments, StoreLocation, open_error, read_error, restore_names};
use crate::terminal::{ConfirmationArguments, eprint_line, print_json};
use crate::{CliError, CommandStatus};

/// Restore a store, or names with corrupt records, from a backup
///
/// The backup is read and verified before anything is replaced; `--dry-run` only does that. Stop the server first. Asks before an
/// existing store is replaced (`--force`); without a terminal, `--yes` is required.
///
/// `--name` and `--damaged` restore single names of an embedded store in place: only those whose record is corrupt and was not
/// changed after the backup, byte for byte. The backup must be of this store, and its pages intact (see `tendot verify`).
///
/// For PostgreSQL, the backup is first restored to an embedded store in the directory for temporary files (`TMPDIR`), then
/// copied to the database, which must be empty.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot restore --data restored tendot-2026-01-31.backup
  tendot restore --force tendot-2026-01-31.backup
  tendot restore --name 10.5555/1 --name 10.5555/2 tendot-2026-01-31.backup
  tendot restore --damaged tendot-2026-01-31.backup
  tendot restore --store postgres://tendot@db.example.org/empty tendot.backup

Exit codes: 0 success, 1 not all names could be restored, 2 error (nothing was replaced)")]
pub(crate) struct RestoreArguments {
    /// Backup file
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// Restore only this name, if its record is corrupt; repeatable
    #[arg(long = "name", value_name = "NAME", conflicts_with = "force")]
    pub(crate) names: Vec<String>,

    /// Restore only names with corrupt records
    #[arg(long, conflicts_with_all = ["force", "names"])]
    pub(crate) damaged: bool,

    /// Move an existing store aside, to `DIR/old-N`
    #[arg(long)]
    pub(crate) force: bool,

    #[command(flatten)]
    pub(crate) confirmation: ConfirmationArguments,

    #[command(flatten)]
    pub(crate) store: StoreArguments,

    /// Print a JSON object: directory, moved_to; with `--name` or `--damaged`: restored, undamaged, changed, missing, removed_entries
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
}

#[derive(Serialize)]
struct RestoreJson<'a> {
    directory: Option<Cow<'a, str>>,
    moved_to: Option<Cow<'a, str>>,
}

pub(crate) fn run(arguments: &RestoreArguments) -> Result<CommandStatus, CliError> {
    let restores_names = arguments.damaged || !arguments.names.is_empty();
    let directory = match arguments.store.locate()?.location {
        StoreLocation::Embedded(directory) if restores_names => {
            return restore_names::run(arguments, &directory);
        }
        StoreLocation::Postgres(_) if restores_names => {
            return Err(CliError::new("`--name` and `--damaged` require an embedded store")
                .with_hint("restore the backup to another database"));
        }
        StoreLocation::Embedded(directory) => directory,
        StoreLocation::Postgres(address) => return restore_postgres(arguments, address),
    };
    let path = arguments.file.display();
    if let Some(status) = confirm_replacement(arguments, &directory)? {
        return Ok(status);
    }
    let moved_to = restore_embedded(arguments, &directory)?;
    if let Some(moved_to) = &moved_to {
        eprint_line(format_args!("moved the previous store to `{}`", moved_to.display()));
    }
    eprint_line(format_args!("restored `{path}` to `{}`", directory.display()));
    if arguments.json {
        let moved_to = moved_to.as_ref().map(|path| path.to_string_lossy());
        print_json(&RestoreJson { directory: Some(directory.to_string_lossy()), moved_to })?;
    }
    Ok(CommandStatus::Success)
}

/// Shows what a restore would do, and asks before it replaces a store. Returns the exit status if nothing is to be written.
fn confirm_replacement(
    arguments: &RestoreArguments,
    directory: &Path,
) -> Result<Option<CommandStatus>, CliError> {
    let RestoreArguments { force, confirmation, .. } = arguments;
    let has_store = directory.join("data.mdb").exists();
    if !confirmation.dry_run && (!has_store || !force) {
        return Ok(None);
    }
    confirmation.confirm(|| {
        if has_store && !force {
            return Err(store_exists_error(&RestoreError::StoreExists { directory: directory.into() }));
        }
        if confirmation.dry_run {
            restore_to_temporary_directory(arguments)?;
        }
        let directory = directory.display();
        Ok(if has_store {
            format!(
                "the store in `{directory}` will be replaced by the backup and moved to `{directory}/old-N`"
            )
        } else {
            format!("the backup will be restored to `{directory}`")
        })
    })
}

fn store_exists_error(error: &RestoreError) -> CliError {
    CliError::new(error.to_string()).with_hint("use `--force` to move the existing store aside")
}

/// Restores a temporary embedded store.
fn restore_to_temporary_directory(arguments: &RestoreArguments) -> Result<TempDir, CliError> {
    let dir = tempfile::Builder::new()
        .prefix("tendot-restore-")
        .tempdir()
        .map_err(|error| CliError::io("cannot create a temporary directory", &error))?;
    restore_embedded(arguments, dir.path())?;
    Ok(dir)
}

/// Restores an embedded store.
fn restore_embedded(arguments: &RestoreArguments, directory: &Path) -> Result<Option<PathBuf>, CliError> {
    let path = arguments.file.display();
    let mut file =
        File::open(&arguments.file).map_err(|error| CliError::io(format!("cannot read `{path}`"), &error))?;
    restore(&mut file, directory, arguments.force).map_err(|error| restore_error(&arguments.file, &error))
}

/// Error of restoring from a file, with a hint.
pub(super) fn restore_error(path: &Path, error: &RestoreError) -> CliError {
    let path = path.display();
    match error {
        RestoreError::StoreExists { .. } => store_exists_error(error),
        RestoreError::Locked(LockError::Held { .. }) => {
            CliError::new(error.to_string()).with_hint(STORE_LOCKED_HINT)
        }
        RestoreError::Open(error) => open_error(error),
        RestoreError::Store(error) => read_error(error),
        RestoreError::PagesDamaged { .. } => CliError::new(error.to_string()).with_hint(
            "restore the whole backup with `--force`, or export the readable records with `tendot export`",
        ),
        RestoreError::UnknownVersion => CliError::new(format!("`{path}`: {error}"))
            .with_hint("it was written by a newer version of tendot"),
        RestoreError::Locked(_) | RestoreError::Io { .. } => CliError::new(error.to_string()),
        _ => CliError::new(format!("`{path}`: {error}")),
    }
}

/// Restores a temporary embedded store, and migrates it to PostgreSQL.
fn restore_postgres(arguments: &RestoreArguments, address: String) -> Result<CommandStatus, CliError> {
    if arguments.force {
        return Err(CliError::new("`--force` is not supported for PostgreSQL")
            .with_hint("restore to another database or schema: `?options=-csearch_path%3DSCHEMA`"));
    }
    let dir = restore_to_temporary_directory(arguments)?;
    if arguments.confirmation.dry_run {
        eprint_line("the backup will be restored to the database; dry run, nothing was written");
        return Ok(CommandStatus::Success);
    }
    let source = StoreLocation::Embedded(dir.path().into());
    let copied = migrate(&source, &StoreLocation::Postgres(address), false)?;
    if copied.difference_count > 0 {
        return Err(CliError::new(format!(
            "restored store differs from the backup: {}",
            copied.differences.join("; ")
        )));
    }
    eprint_line(format_args!("restored `{}` to the database", arguments.file.display()));
    if arguments.json {
        print_json(&RestoreJson { directory: None, moved_to: None })?;
    }
    Ok(CommandStatus::Success)
}
