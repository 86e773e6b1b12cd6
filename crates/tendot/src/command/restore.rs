//! `tendot restore`

use std::borrow::Cow;
use std::fs::File;
use std::path::{Path, PathBuf};

use serde::Serialize;
use tendot_store::{LockError, RestoreError, restore};

use crate::args::RestoreArguments;
use crate::failure::tell;
use crate::output::Output;
use crate::store::{STORE_LOCKED_HINT, Place, unopened};
use crate::{Answer, Failure, moving};

#[derive(Serialize)]
struct Summary<'a> {
    directory: Option<Cow<'a, str>>,
    moved_to: Option<Cow<'a, str>>,
}

pub(crate) fn run(arguments: &RestoreArguments) -> Result<Answer, Failure> {
    let directory = match arguments.store.place()? {
        Place::Directory(directory) => directory,
        Place::Database(address) => return restore_postgres(arguments, address),
    };
    let path = arguments.file.display();
    let moved_to = make(arguments, &directory)?;
    if let Some(moved_to) = &moved_to {
        tell(format_args!("the store that was there is in `{}`", moved_to.display()));
    }
    tell(format_args!("the store in `{}` is that of `{path}`", directory.display()));
    if arguments.json {
        let moved_to = moved_to.as_ref().map(|path| path.to_string_lossy());
        let mut output = Output::new();
        output.json(&Summary { directory: Some(directory.to_string_lossy()), moved_to })?;
        output.flush()?;
    }
    Ok(Answer::Yes)
}

/// Makes the embedded store.
fn make(arguments: &RestoreArguments, directory: &Path) -> Result<Option<PathBuf>, Failure> {
    let path = arguments.file.display();
    let mut file = File::open(&arguments.file)
        .map_err(|error| Failure::io(format!("`{path}` can't be read"), &error))?;
    restore(&mut file, directory, arguments.force).map_err(|error| match &error {
        RestoreError::Occupied { .. } => {
            Failure::new(error.to_string()).hint("`--force` moves it aside, into a folder of its own")
        }
        RestoreError::Locked(LockError::Held { .. }) => Failure::new(error.to_string()).hint(STORE_LOCKED_HINT),
        RestoreError::Open(error) => unopened(error),
        RestoreError::OtherVersion => {
            Failure::new(format!("`{path}`: {error}")).hint("a newer version of tendot made it")
        }
        RestoreError::Locked(_) | RestoreError::Failed { .. } => Failure::new(error.to_string()),
        _ => Failure::new(format!("`{path}`: {error}")),
    })
}

/// Makes an embedded store for a while, and moves it to the database.
fn restore_postgres(arguments: &RestoreArguments, address: String) -> Result<Answer, Failure> {
    if arguments.force {
        return Err(Failure::new("what is in a database is not moved aside")
            .hint("restore to another database, or to another schema: `?options=-csearch_path%3DSCHEMA`"));
    }
    let folder = Folder(std::env::temp_dir().join(format!("tendot-restore-{}", std::process::id())));
    make(arguments, &folder.0)?;
    let moved = moving::migrate(&Place::Directory(folder.0.clone()), &Place::Database(address), false)?;
    if moved.different > 0 {
        return Err(Failure::new(format!(
            "the store is not that of the backup: {}",
            moved.differences.join("; ")
        )));
    }
    tell(format_args!("the store in the database is that of `{}`", arguments.file.display()));
    if arguments.json {
        let mut output = Output::new();
        output.json(&Summary { directory: None, moved_to: None })?;
        output.flush()?;
    }
    Ok(Answer::Yes)
}

/// A folder that is gone with this.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        // It is in the folder for temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
