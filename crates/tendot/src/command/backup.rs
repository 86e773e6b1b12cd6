//! `tendot backup`

use serde::Serialize;

use crate::args::BackupArguments;
use crate::failure::tell;
use crate::output::Output;
use crate::replacement::Replacement;
use crate::store::unread;
use crate::{Answer, Failure};

#[derive(Serialize)]
struct Summary {
    bytes: u64,
}

pub(crate) fn run(arguments: &BackupArguments) -> Result<Answer, Failure> {
    let store = arguments.store.open_read_only()?;
    let mut replacement = Replacement::create(&arguments.file)?;
    if !replacement.is_regular() {
        return Err(Failure::new(format!(
            "`{}` is no file that a backup can be written to",
            arguments.file.display()
        ))
        .hint("a backup is read and checked after it was written"));
    }
    let bytes = store.backup(replacement.file()).map_err(|error| unread(&error))?;
    replacement.finish()?;
    tell(format_args!("{bytes} bytes in `{}`", arguments.file.display()));
    if arguments.json {
        let mut output = Output::new();
        output.json(&Summary { bytes })?;
        output.flush()?;
    }
    Ok(Answer::Yes)
}
