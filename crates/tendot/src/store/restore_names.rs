//! `tendot restore --name` and `--damaged`: restores names with corrupt records in place.

use std::fs::File;
use std::path::Path;

use serde::Serialize;
use tendot_store::{NameKey, RestoredNames, restore_names};

use super::restore::{RestoreArguments, restore_error};
use crate::terminal::{eprint_line, escape_control, print_json};
use crate::{CliError, CommandStatus};

#[derive(Serialize)]
struct RestoredNamesJson<'a> {
    restored: &'a [Box<str>],
    undamaged: &'a [Box<str>],
    changed: &'a [Box<str>],
    missing: &'a [Box<str>],
    removed_entries: u64,
}

/// Restores the given names, or all names with corrupt records.
pub(crate) fn run(arguments: &RestoreArguments, directory: &Path) -> Result<CommandStatus, CliError> {
    let path = arguments.file.display();
    let invalid = |name: &String, error| CliError::new(format!("invalid name `{name}`: {error}"));
    let names: Vec<NameKey> = arguments
        .names
        .iter()
        .map(|name| NameKey::new(name).map_err(|error| invalid(name, error)))
        .collect::<Result<_, _>>()?;
    let names = (!arguments.damaged).then_some(&*names);
    let mut file =
        File::open(&arguments.file).map_err(|error| CliError::io(format!("cannot read `{path}`"), &error))?;
    let dry_run = arguments.confirmation.dry_run;
    let restored = restore_names(&mut file, directory, names, dry_run)
        .map_err(|error| restore_error(&arguments.file, &error))?;
    let RestoredNames { restored, undamaged, changed, missing, removed_entries } = &restored;
    if arguments.json {
        let removed_entries = *removed_entries;
        print_json(&RestoredNamesJson { restored, undamaged, changed, missing, removed_entries })?;
    }
    for (names, result) in [
        (undamaged, "skipped: not corrupt"),
        (changed, "not restored: changed since the backup; use a later backup"),
        (missing, "not restored: not in the backup"),
    ] {
        for name in names {
            eprint_line(format_args!("`{}`: {result}", escape_control(name)));
        }
    }
    if *removed_entries > 0 {
        eprint_line(format_args!("removed {removed_entries} entries with corrupt keys"));
    }
    let note = if dry_run { "; dry run, nothing was written" } else { "" };
    eprint_line(format_args!("restored {} names from `{path}`{note}", restored.len()));
    let is_complete = changed.is_empty() && missing.is_empty();
    Ok(if is_complete { CommandStatus::Success } else { CommandStatus::Negative })
}
