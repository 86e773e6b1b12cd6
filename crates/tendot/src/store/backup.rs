//! `tendot backup`: writes a checksummed copy of a store.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use clap::Args;
use indicatif::ProgressBar;
use serde::Serialize;
use tendot_store::EmbeddedStore;

use super::migrate::migrate;
use super::{StoreArguments, StoreLocation, open_read_only, read_error};
use crate::atomic_file::AtomicFile;
use crate::terminal::{BYTE_PROGRESS, eprint_line, is_stdio, print_json, progress_bar};
use crate::{CliError, CommandStatus};

/// Write a consistent, checksummed backup
///
/// Works while a server is running. The file is read back and verified, and only then replaces an existing one.
///
/// A PostgreSQL store is first copied to an embedded store beside the file, which needs as much disk space as the file. The
/// backup can be restored to either kind of store. Run the same command again to resume an interrupted backup.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot backup tendot-2026-01-31.backup
  tendot backup --data /var/lib/tendot /mnt/backup/tendot.backup
  tendot backup --store postgres://tendot@db.example.org/tendot tendot.backup

Exit codes: 0 success, 2 error")]
pub(crate) struct BackupArguments {
    /// Output file
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    #[command(flatten)]
    pub(crate) store: StoreArguments,

    /// Print a JSON object: bytes
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
}

#[derive(Serialize)]
struct BackupJson {
    bytes: u64,
}

pub(crate) fn run(arguments: &BackupArguments) -> Result<CommandStatus, CliError> {
    if is_stdio(&arguments.file) {
        return Err(CliError::new("cannot write a backup to standard output: it is read back and verified")
            .with_hint("use `./-` for a file named `-`"));
    }
    let source = arguments.store.locate()?;
    source.ensure_not_store_file(&arguments.file)?;
    match source.location {
        StoreLocation::Embedded(directory) => {
            write_backup(arguments, &open_read_only(&directory)?, &directory)
        }
        StoreLocation::Postgres(address) => backup_postgres(arguments, address),
    }
}

/// Migrates a PostgreSQL store to an embedded store beside the file, and backs that up.
fn backup_postgres(arguments: &BackupArguments, address: String) -> Result<CommandStatus, CliError> {
    let mut name = OsString::from(".");
    name.push(arguments.file.file_name().unwrap_or_default());
    name.push(".moving");
    let dir = arguments.file.with_file_name(name);
    let to = StoreLocation::Embedded(dir.clone());
    let is_left_over = dir.exists();
    let copied =
        migrate(&StoreLocation::Postgres(address), &to, false).map_err(|error| match is_left_over {
            true => error.with_hint(format!(
                "`{}` was left by an interrupted backup; delete it to start over",
                dir.display()
            )),
            false => error,
        })?;
    if copied.difference_count > 0 {
        return Err(CliError::new(format!(
            "the copy in `{}` differs: {}",
            dir.display(),
            copied.differences.join("; ")
        )));
    }
    let store = open_read_only(&dir)?;
    let status = write_backup(arguments, &store, &dir)?;
    drop(store);
    std::fs::remove_dir_all(&dir)
        .map_err(|error| CliError::io(format!("cannot remove `{}`", dir.display()), &error))?;
    Ok(status)
}

fn write_backup(
    arguments: &BackupArguments,
    store: &EmbeddedStore,
    directory: &Path,
) -> Result<CommandStatus, CliError> {
    let mut file = AtomicFile::create(&arguments.file)?;
    if !file.is_regular_file() {
        return Err(CliError::new(format!("`{}` is not a regular file", arguments.file.display()))
            .with_hint("a backup is read back and verified after writing"));
    }
    let path = file.path().to_owned();
    let bar = progress_bar(file_len(&directory.join("data.mdb")), BYTE_PROGRESS);
    let bytes =
        with_size_progress(&bar, &path, || store.backup(file.file())).map_err(|error| read_error(&error))?;
    bar.finish_and_clear();
    file.commit()?;
    eprint_line(format_args!("wrote {bytes} bytes to `{}`", arguments.file.display()));
    if arguments.json {
        print_json(&BackupJson { bytes })?;
    }
    Ok(CommandStatus::Success)
}

/// Runs `work` while the progress bar follows the size of a file.
fn with_size_progress<T>(bar: &ProgressBar, path: &Path, work: impl FnOnce() -> T) -> T {
    if bar.is_hidden() {
        return work();
    }
    thread::scope(|scope| {
        let (done, is_done) = std::sync::mpsc::channel::<()>();
        scope.spawn(move || {
            // The sender is dropped when the work is done.
            while is_done.recv_timeout(Duration::from_millis(200))
                == Err(std::sync::mpsc::RecvTimeoutError::Timeout)
            {
                bar.set_position(file_len(path));
            }
        });
        let result = work();
        drop(done);
        result
    })
}

fn file_len(path: &Path) -> u64 {
    path.metadata().map_or(0, |metadata| metadata.len())
}
