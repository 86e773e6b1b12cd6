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
use super::{StoreArguments, StoreLocation, open_error, read_error};
use crate::atomic_file::AtomicFile;
use crate::terminal::{BYTE_PROGRESS, StdoutWriter, eprint_line, is_stdio, progress_bar};
use crate::{CliError, CommandStatus};

/// Writes a consistent copy of a store into a file
///
/// Works beside a running server. The file has a checksum, is read and checked after it was written, and replaces
/// another one only then.
///
/// A store in a database is moved to an embedded one first, in the folder of the file, which takes as much room again as
/// the file; so the backup can be restored to either. What was interrupted goes on when it is done again.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot backup tendot-2026-01-31.backup
  tendot backup --data /var/lib/tendot /mnt/backup/tendot.backup
  tendot backup --store postgres://tendot@db.example.org/tendot tendot.backup

Exit codes: 0 done, 2 it could not be carried out.")]
pub(crate) struct BackupArguments {
    /// Where to
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    #[command(flatten)]
    pub(crate) store: StoreArguments,

    /// Print a JSON object: bytes
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Serialize)]
struct BackupJson {
    bytes: u64,
}

pub(crate) fn run(arguments: &BackupArguments) -> Result<CommandStatus, CliError> {
    if is_stdio(&arguments.file) {
        return Err(CliError::new("a backup is written to a file, since it is read and checked afterwards")
            .with_hint("`./-` is a file of that name"));
    }
    if let StoreLocation::Postgres(address) = arguments.store.location()? {
        return backup_postgres(arguments, address);
    }
    arguments.store.ensure_not_store_file(&arguments.file)?;
    let store = arguments.store.open_read_only()?;
    write(arguments, &store, &arguments.store.embedded_dir()?)
}

/// Migrates a PostgreSQL store to an embedded store beside the file, and backs that up.
fn backup_postgres(arguments: &BackupArguments, address: String) -> Result<CommandStatus, CliError> {
    let mut name = OsString::from(".");
    name.push(arguments.file.file_name().unwrap_or_default());
    name.push(".moving");
    let folder = arguments.file.with_file_name(name);
    let to = StoreLocation::Embedded(folder.clone());
    let was_there = folder.exists();
    let moved =
        migrate(&StoreLocation::Postgres(address), &to, false).map_err(|failure| match was_there {
            true => failure.with_hint(format!(
                "`{}` is what an earlier backup left; without it, this one begins anew",
                folder.display()
            )),
            false => failure,
        })?;
    if moved.difference_count > 0 {
        return Err(CliError::new(format!(
            "the copy in `{}` is not the same: {}",
            folder.display(),
            moved.differences.join("; ")
        )));
    }
    let store = EmbeddedStore::open_read_only(&folder).map_err(|error| open_error(&error))?;
    let answer = write(arguments, &store, &folder)?;
    drop(store);
    std::fs::remove_dir_all(&folder)
        .map_err(|error| CliError::io(format!("`{}` can't be removed", folder.display()), &error))?;
    Ok(answer)
}

fn write(
    arguments: &BackupArguments,
    store: &EmbeddedStore,
    directory: &Path,
) -> Result<CommandStatus, CliError> {
    let mut replacement = AtomicFile::create(&arguments.file)?;
    if !replacement.is_regular_file() {
        return Err(CliError::new(format!(
            "`{}` is no file that a backup can be written to",
            arguments.file.display()
        ))
        .with_hint("a backup is read and checked after it was written"));
    }
    let path = replacement.path().to_owned();
    let bar = progress_bar(file_len(&directory.join("data.mdb")), BYTE_PROGRESS);
    let bytes = with_size_progress(&bar, &path, || store.backup(replacement.file()))
        .map_err(|error| read_error(&error))?;
    bar.finish_and_clear();
    replacement.commit()?;
    eprint_line(format_args!("{bytes} bytes in `{}`", arguments.file.display()));
    if arguments.json {
        let mut output = StdoutWriter::new();
        output.write_json(&BackupJson { bytes })?;
        output.flush()?;
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
