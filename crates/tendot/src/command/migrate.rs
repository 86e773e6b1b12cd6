//! `tendot migrate`

use std::time::Instant;

use serde::Serialize;
use tendot_store::{MigrationReport, PreviousRun};

use crate::args::MigrateArguments;
use crate::failure::{eprint_line, escape_control};
use crate::output::StdoutWriter;
use crate::store::StoreLocation;
use crate::{CliError, CommandStatus, moving};

#[derive(Serialize)]
struct MigrationJson<'a> {
    resumed: Option<&'static str>,
    revision: u64,
    sequence: u64,
    records: u64,
    lines: u64,
    history: u64,
    notes: u64,
    compared: u64,
    notes_changing: u64,
    different: u64,
    differences: &'a [String],
    seconds: f64,
}

pub(crate) fn run(arguments: &MigrateArguments) -> Result<CommandStatus, CliError> {
    let from = StoreLocation::parse("--from", &arguments.from)?;
    let to = StoreLocation::parse("--to", &arguments.to)?;
    let start = Instant::now();
    let moved = moving::migrate(&from, &to, arguments.compare_all)?;
    let MigrationReport { revision, sequence, records, lines, history, notes, compared, different, .. } =
        moved;
    let mut output = StdoutWriter::new();
    if arguments.json {
        let resumed = moved.resumed.map(|resumed| match resumed {
            PreviousRun::Interrupted => "interrupted",
            PreviousRun::Finished(_) => "finished",
        });
        output.write_json(&MigrationJson {
            resumed,
            revision,
            sequence,
            records,
            lines,
            history,
            notes,
            compared,
            notes_changing: moved.restless_notes,
            different,
            differences: &moved.differences,
            seconds: start.elapsed().as_secs_f64(),
        })?;
    } else {
        moved
            .differences
            .iter()
            .try_for_each(|what| output.write_line(format_args!("differs: {}", escape_control(what))))?;
    }
    output.flush()?;
    eprint_line(format_args!(
        "copied: {records} records, {history} changes of them, {lines} lines of the log, {notes} notes; \
         compared: {compared} names"
    ));
    if different > 0 {
        eprint_line(format_args!(
            "{different} differences were found that no change of the source explains; the target is not whole, and is \
             refused by other commands"
        ));
        return Ok(CommandStatus::No);
    }
    eprint_line(format_args!("the target is the source up to change {revision}, line {sequence} of the log"));
    if moved.restless_notes > 0 {
        eprint_line(format_args!("{} notes changed while they were copied", moved.restless_notes));
    }
    eprint_line(
        "when the source's server has been stopped, give the same command once more; then start the target's",
    );
    Ok(CommandStatus::Yes)
}
