//! `tendot migrate`: copies a store to another one; `backup` and `restore` use it for PostgreSQL.

use std::path::Path;
use std::time::Instant;

use clap::Args;
use serde::Serialize;
use tendot_store::{
    EmbeddedStore, EmbeddedTarget, MigrationError, MigrationReport, OpenError, PostgresSettings,
    PostgresStore, PostgresTarget, PreviousRun, StoreError,
};

use super::{StoreLocation, open_error, open_postgres};
use crate::terminal::{StdoutWriter, eprint_line, escape_control, progress_bar};
use crate::{CliError, CommandStatus, runtime};

/// Moves all of a store to another one
///
/// Records with their revisions, the log, histories, notes and homed prefixes: who follows the changes or has kept an answer
/// notices nothing. A server may write the source meanwhile. What has changed since is copied, too, and at the end both are
/// compared, record by record; then it says up to which change the target is the source. Stop the source's server and run the
/// same once more: it copies and compares what is new, which takes little time. Then start the target's server.
///
/// What was interrupted goes on when the same command is given again; until it is finished, the target is refused by all
/// other commands. A target that has something else in it is left as it is.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot migrate --from embedded:/var/lib/tendot --to postgres://tendot@db.example.org/tendot
  tendot migrate --from postgres://tendot@db.example.org/tendot --to embedded:/var/lib/tendot
  tendot migrate --from embedded:old --to embedded:new

Exit codes: 0 the target is whole, 1 something is not the same (told on stdout), 2 it could not be carried out.")]
pub(crate) struct MigrateArguments {
    /// The store that is moved: `embedded:DIR` or `postgres://user@host/database`
    #[arg(long, value_name = "STORE")]
    pub(crate) from: String,

    /// Where it is moved to: a new or empty directory or database, or what an earlier run made
    #[arg(long, value_name = "STORE")]
    pub(crate) to: String,

    /// Compare everything, also what an earlier run has compared
    #[arg(long)]
    pub(crate) compare_all: bool,

    /// Print a JSON object: resumed, revision, sequence; records, lines, history, notes (copied); compared; notes_changing;
    /// different, differences; seconds
    #[arg(long)]
    pub(crate) json: bool,
}

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
    let moved = migrate(&from, &to, arguments.compare_all)?;
    let MigrationReport {
        revision,
        sequence,
        records,
        log_entries: lines,
        history_entries: history,
        aux_entries: notes,
        compared,
        difference_count: different,
        ..
    } = moved;
    let mut output = StdoutWriter::new();
    if arguments.json {
        let resumed = moved.previous_run.map(|resumed| match resumed {
            PreviousRun::Interrupted => "interrupted",
            PreviousRun::Completed(_) => "finished",
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
            notes_changing: moved.concurrently_changed,
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
        return Ok(CommandStatus::Negative);
    }
    eprint_line(format_args!("the target is the source up to change {revision}, line {sequence} of the log"));
    if moved.concurrently_changed > 0 {
        eprint_line(format_args!("{} notes changed while they were copied", moved.concurrently_changed));
    }
    eprint_line(
        "when the source's server has been stopped, give the same command once more; then start the target's",
    );
    Ok(CommandStatus::Success)
}

/// Progress bar template; each record is copied and later compared.
const MIGRATION_PROGRESS: &str =
    "{bar:40} {human_pos}/{human_len} copied and compared  {per_sec}  {eta} left";

/// Progress template for an unknown number of records.
const MIGRATION_PROGRESS_UNBOUNDED: &str = "{human_pos} copied and compared  {per_sec}";

/// Copies all of a store to another one; prints a notice if it resumes a previous run.
pub(crate) fn migrate(
    from: &StoreLocation,
    to: &StoreLocation,
    compare_all: bool,
) -> Result<MigrationReport, CliError> {
    if is_same_store(from, to) {
        return Err(CliError::new("the target is the source").with_hint("a store is moved to another place"));
    }
    runtime::multi_thread(2)?.block_on(async {
        match from {
            StoreLocation::Embedded(from) => {
                let source = open_source(from)?;
                let seen = report_progress(source.count().ok());
                match to {
                    StoreLocation::Embedded(to) => {
                        tendot_store::migrate(&source, &mut open_embedded_target(to)?, compare_all, seen)
                            .await
                    }
                    StoreLocation::Postgres(to) => {
                        let mut target = open_postgres_target(to).await?;
                        tendot_store::migrate(&source, &mut target, compare_all, seen).await
                    }
                }
            }
            StoreLocation::Postgres(from) => {
                let settings = PostgresSettings { migrate_schema: false, ..migration_pool() };
                let source = open_postgres(from, &settings).await?;
                match to {
                    StoreLocation::Embedded(to) => {
                        tendot_store::migrate(
                            &source,
                            &mut open_embedded_target(to)?,
                            compare_all,
                            report_progress(None),
                        )
                        .await
                    }
                    StoreLocation::Postgres(to) => {
                        let mut target = open_postgres_target(to).await?;
                        tendot_store::migrate(&source, &mut target, compare_all, report_progress(None)).await
                    }
                }
            }
        }
        .map_err(|error| migrate_error(&error))
    })
}

fn is_same_store(from: &StoreLocation, to: &StoreLocation) -> bool {
    match (from, to) {
        (StoreLocation::Embedded(from), StoreLocation::Embedded(to)) => {
            from == to
                || std::fs::canonicalize(from)
                    .is_ok_and(|from| std::fs::canonicalize(to).is_ok_and(|to| from == to))
        }
        (StoreLocation::Postgres(from), StoreLocation::Postgres(to)) => from == to,
        _ => false,
    }
}

/// Opens the source read-only, also while a server writes it.
fn open_source(directory: &Path) -> Result<EmbeddedStore, CliError> {
    EmbeddedStore::open_read_only(directory).map_err(|error| match error {
        OpenError::NotFound { .. } => {
            CliError::new(error.to_string()).with_hint("a store is written as `embedded:DIR`")
        }
        error => open_error(&error),
    })
}

fn open_embedded_target(directory: &Path) -> Result<EmbeddedTarget, CliError> {
    EmbeddedStore::open_target(directory).map_err(|error| open_error(&error))
}

async fn open_postgres_target(address: &str) -> Result<PostgresTarget, CliError> {
    let opened = PostgresStore::open_target(address, &migration_pool()).await;
    opened.map_err(|error| CliError::new(error.to_string()).with_hint(error.hint()))
}

fn migration_pool() -> PostgresSettings {
    PostgresSettings { max_connections: 4, ..PostgresSettings::default() }
}

/// Progress callback; prints once whether a previous run is resumed.
fn report_progress(records: Option<u64>) -> impl FnMut(&MigrationReport) + Send {
    let bar = match records {
        Some(records) => progress_bar(2 * records, MIGRATION_PROGRESS),
        None => progress_bar(0, MIGRATION_PROGRESS_UNBOUNDED),
    };
    let mut is_first = true;
    move |moved| {
        if std::mem::take(&mut is_first) {
            bar.suspend(|| match moved.previous_run {
                None => {}
                Some(PreviousRun::Interrupted) => {
                    eprint_line("an earlier run was stopped; this one goes on from there");
                }
                Some(PreviousRun::Completed(line)) => eprint_line(format_args!(
                    "an earlier run was finished at line {line} of the log; this one copies what is new"
                )),
            });
        }
        bar.set_position(moved.records + moved.compared);
    }
}

fn migrate_error(error: &MigrationError) -> CliError {
    let failure = CliError::new(error.to_string());
    match error {
        MigrationError::TargetNotEmpty | MigrationError::TargetModified | MigrationError::SourceMismatch => failure.with_hint(
            "nothing was written; name a directory that is new, or a database or schema \
             (`?options=-csearch_path%3DSCHEMA`) that is empty",
        ),
        MigrationError::SourceUnsettled => failure.with_hint(
            "let the import come to its end, or start the source's server once if it was interrupted; then the same goes on",
        ),
        MigrationError::Source(StoreError::Corrupt { .. }) | MigrationError::Target(StoreError::Corrupt { .. }) => {
            failure.with_hint("`tendot verify` finds all that is damaged")
        }
        _ => failure.with_hint("the same again goes on where it was stopped"),
    }
}
