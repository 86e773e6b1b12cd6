//! `tendot backup`

use std::ffi::OsString;
use std::path::Path;
use std::thread;
use std::time::Duration;

use indicatif::ProgressBar;
use serde::Serialize;
use tendot_store::Embedded;

use crate::args::BackupArguments;
use crate::failure::tell;
use crate::output::Output;
use crate::replacement::AtomicFile;
use crate::store::{BYTES, Place, is_standard, progress, unopened, unread};
use crate::{Answer, Failure, moving};

#[derive(Serialize)]
struct Summary {
    bytes: u64,
}

pub(crate) fn run(arguments: &BackupArguments) -> Result<Answer, Failure> {
    if is_standard(&arguments.file) {
        return Err(Failure::new("a backup is written to a file, since it is read and checked afterwards")
            .hint("`./-` is a file of that name"));
    }
    if let Place::Database(address) = arguments.store.place()? {
        return backup_postgres(arguments, address);
    }
    arguments.store.check_target(&arguments.file)?;
    let store = arguments.store.open_read_only()?;
    write(arguments, &store, &arguments.store.directory()?)
}

/// Moves the store of a database to an embedded one beside the file, and makes the backup of that.
fn backup_postgres(arguments: &BackupArguments, address: String) -> Result<Answer, Failure> {
    let mut name = OsString::from(".");
    name.push(arguments.file.file_name().unwrap_or_default());
    name.push(".moving");
    let folder = arguments.file.with_file_name(name);
    let to = Place::Directory(folder.clone());
    let was_there = folder.exists();
    let moved =
        moving::migrate(&Place::Database(address), &to, false).map_err(|failure| match was_there {
            true => failure.hint(format!(
                "`{}` is what an earlier backup left; without it, this one begins anew",
                folder.display()
            )),
            false => failure,
        })?;
    if moved.different > 0 {
        return Err(Failure::new(format!(
            "the copy in `{}` is not the same: {}",
            folder.display(),
            moved.differences.join("; ")
        )));
    }
    let store = Embedded::open_read_only(&folder).map_err(|error| unopened(&error))?;
    let answer = write(arguments, &store, &folder)?;
    drop(store);
    std::fs::remove_dir_all(&folder)
        .map_err(|error| Failure::io(format!("`{}` can't be removed", folder.display()), &error))?;
    Ok(answer)
}

fn write(arguments: &BackupArguments, store: &Embedded, directory: &Path) -> Result<Answer, Failure> {
    let mut replacement = AtomicFile::create(&arguments.file)?;
    if !replacement.is_regular() {
        return Err(Failure::new(format!(
            "`{}` is no file that a backup can be written to",
            arguments.file.display()
        ))
        .hint("a backup is read and checked after it was written"));
    }
    let path = replacement.path().to_owned();
    let bar = progress(length(&directory.join("data.mdb")), BYTES);
    let bytes = watched(&bar, &path, || store.backup(replacement.file())).map_err(|error| unread(&error))?;
    bar.finish_and_clear();
    replacement.finish()?;
    tell(format_args!("{bytes} bytes in `{}`", arguments.file.display()));
    if arguments.json {
        let mut output = Output::new();
        output.json(&Summary { bytes })?;
        output.flush()?;
    }
    Ok(Answer::Yes)
}

/// Does something, while the bar shows how long a file has become.
fn watched<T>(bar: &ProgressBar, path: &Path, work: impl FnOnce() -> T) -> T {
    if bar.is_hidden() {
        return work();
    }
    thread::scope(|scope| {
        let (done, is_done) = std::sync::mpsc::channel::<()>();
        scope.spawn(move || {
            // The other end is dropped when the work is done.
            while is_done.recv_timeout(Duration::from_millis(200))
                == Err(std::sync::mpsc::RecvTimeoutError::Timeout)
            {
                bar.set_position(length(path));
            }
        });
        let result = work();
        drop(done);
        result
    })
}

fn length(path: &Path) -> u64 {
    path.metadata().map_or(0, |metadata| metadata.len())
}
