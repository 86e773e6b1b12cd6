//! `tendot restore`

use std::borrow::Cow;
use std::fs::File;

use serde::Serialize;
use tendot_store::{LockError, RestoreError, restore};

use crate::args::RestoreArguments;
use crate::failure::tell;
use crate::output::Output;
use crate::store::{IN_USE, unopened};
use crate::{Answer, Failure};

#[derive(Serialize)]
struct Summary<'a> {
    directory: Cow<'a, str>,
    moved_to: Option<Cow<'a, str>>,
}

pub(crate) fn run(arguments: &RestoreArguments) -> Result<Answer, Failure> {
    let directory = arguments.store.directory()?;
    let path = arguments.file.display();
    let mut file = File::open(&arguments.file)
        .map_err(|error| Failure::io(format!("`{path}` can't be read"), &error))?;
    let moved_to = restore(&mut file, &directory, arguments.force).map_err(|error| match &error {
        RestoreError::Occupied { .. } => {
            Failure::new(error.to_string()).hint("`--force` moves it aside, into a folder of its own")
        }
        RestoreError::Locked(LockError::Held { .. }) => Failure::new(error.to_string()).hint(IN_USE),
        RestoreError::Open(error) => unopened(error),
        RestoreError::OtherVersion => {
            Failure::new(format!("`{path}`: {error}")).hint("a newer version of tendot made it")
        }
        RestoreError::Locked(_) | RestoreError::Failed { .. } => Failure::new(error.to_string()),
        _ => Failure::new(format!("`{path}`: {error}")),
    })?;
    if let Some(moved_to) = &moved_to {
        tell(format_args!("the store that was there is in `{}`", moved_to.display()));
    }
    tell(format_args!("the store in `{}` is that of `{path}`", directory.display()));
    if arguments.json {
        let moved_to = moved_to.as_ref().map(|path| path.to_string_lossy());
        let mut output = Output::new();
        output.json(&Summary { directory: directory.to_string_lossy(), moved_to })?;
        output.flush()?;
    }
    Ok(Answer::Yes)
}
