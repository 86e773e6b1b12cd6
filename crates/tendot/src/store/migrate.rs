//! `tendot migrate`: copies a store to another one; `backup` and `restore` use it for PostgreSQL.

use std::path::Path;
use std::time::Instant;

use clap::Args;
use serde::Serialize;
use tendot_store::{
    EmbeddedStore, EmbeddedTarget, MigrationError, MigrationReport, OpenError, PostgresSettings,
    PostgresStore, PostgresTarget, PreviousRun, StoreError,
};

use super::{CommandStore, StoreLocation, open_error, open_postgres};
use crate::cli::ConfigSourceArguments;
use crate::config::load_settings;
use crate::terminal::{StdoutWriter, eprint_line, escape_control, progress_bar};
use crate::{CliError, CommandStatus, runtime};

/// Copy a store to another store, with history and change log
///
/// Copies records with their revisions, the change log, history entries, aux entries and homed prefixes, so that cursors of the
/// change feed and cached responses stay valid. A server may write to the source: changes made during the copy are copied, too.
/// At the end source and target are compared record by record, and the revision up to which they are identical is printed. To
/// switch over, stop the source server, run the same command once more (only new changes are copied), then start a server on the
/// target.
///
/// Run the same command again to resume an interrupted migration. Until it is finished, other commands refuse the target. A
/// target with other content is not changed.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot migrate --from embedded:/var/lib/tendot --to postgres://tendot@db.example.org/tendot
  tendot migrate --from postgres://tendot@db.example.org/tendot --to embedded:/var/lib/tendot
  tendot migrate --from embedded:old --to embedded:new
  tendot migrate --config /etc/tendot.toml --to postgres://tendot@db.example.org/tendot

Exit codes: 0 success, 1 source and target differ, 2 error")]
pub(crate) struct MigrateArguments {
    /// Source store: `embedded:DIR` or `postgres://user@host/database` [default: the configured store]
    #[arg(long, value_name = "STORE", conflicts_with_all = ["config", "set"], help_heading = "Store")]
    pub(crate) from: Option<String>,

    /// Target store: new, empty, or left by an earlier run
    #[arg(long, value_name = "STORE", help_heading = "Store")]
    pub(crate) to: String,

    #[command(flatten)]
    pub(crate) configuration: ConfigSourceArguments,

    /// Compare everything again, not only what is new
    #[arg(long)]
    pub(crate) compare_all: bool,

    /// Print a JSON object: resumed, revision, sequence; records, log_entries, history, aux_entries (copied); compared;
    /// aux_entries_changing; different, differences; seconds
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
}

#[derive(Serialize)]
struct MigrationJson<'a> {
    resumed: Option<&'static str>,
    revision: u64,
    sequence: u64,
    records: u64,
    log_entries: u64,
    history: u64,
    aux_entries: u64,
    compared: u64,
    aux_entries_changing: u64,
    different: u64,
    differences: &'a [String],
    seconds: f64,
}

pub(crate) fn run(arguments: &MigrateArguments) -> Result<CommandStatus, CliError> {
    let (from, missing_source_hint) = match &arguments.from {
        Some(from) => (StoreLocation::parse("--from", from)?, MISSING_DIRECTORY_HINT),
        None => {
            let settings = load_settings(&arguments.configuration, &[])?;
            (CommandStore::from_settings(&settings)?.location, "use `--from STORE` or `--config FILE`")
        }
    };
    let to = StoreLocation::parse("--to", &arguments.to)?;
    let start = Instant::now();
    let report = migrate_with_hint(&from, &to, arguments.compare_all, missing_source_hint)?;
    let MigrationReport {
        revision,
        sequence,
        records,
        log_entries,
        history_entries,
        aux_entries,
        compared,
        difference_count,
        ..
    } = report;
    let mut output = StdoutWriter::new();
    if arguments.json {
        let resumed = report.previous_run.map(|resumed| match resumed {
            PreviousRun::Interrupted => "interrupted",
            PreviousRun::Completed(_) => "finished",
        });
        output.write_json(&MigrationJson {
            resumed,
            revision,
            sequence,
            records,
            log_entries,
            history: history_entries,
            aux_entries,
            compared,
            aux_entries_changing: report.concurrently_changed,
            different: difference_count,
            differences: &report.differences,
            seconds: start.elapsed().as_secs_f64(),
        })?;
    } else {
        report.differences.iter().try_for_each(|difference| {
            output.write_line(format_args!("differs: {}", escape_control(difference)))
        })?;
    }
    output.flush()?;
    eprint_line(format_args!(
        "copied: {records} records, {history_entries} history entries, {log_entries} log entries, {aux_entries} aux entries; \
         compared: {compared} names"
    ));
    if difference_count > 0 {
        eprint_line(format_args!(
            "{difference_count} unexplained differences found; the target is incomplete and is refused by other commands"
        ));
        return Ok(CommandStatus::Negative);
    }
    eprint_line(format_args!(
        "target is identical to the source up to revision {revision}, log entry {sequence}"
    ));
    if report.concurrently_changed > 0 {
        eprint_line(format_args!("{} aux entries changed during the copy", report.concurrently_changed));
    }
    eprint_line(
        "to switch over: stop the source server, run this command once more, then start a server on the target",
    );
    Ok(CommandStatus::Success)
}

/// Progress bar template; each record is copied and later compared.
const MIGRATION_PROGRESS: &str = "{bar:40} {human_pos}/{human_len} copied and compared  {per_sec}  ETA {eta}";

/// Progress template for an unknown number of records.
const MIGRATION_PROGRESS_UNBOUNDED: &str = "{human_pos} copied and compared  {per_sec}";

/// Hint if a directory has no store.
const MISSING_DIRECTORY_HINT: &str = "expected `embedded:DIR`, where DIR contains a store";

/// Hint if a target is not the directory of a store.
const TARGET_DIRECTORY_HINT: &str = "use a new or empty directory: `--to embedded:DIR`";

/// Copies all of a store to another one; prints a notice if it resumes a previous run.
pub(crate) fn migrate(
    from: &StoreLocation,
    to: &StoreLocation,
    compare_all: bool,
) -> Result<MigrationReport, CliError> {
    migrate_with_hint(from, to, compare_all, MISSING_DIRECTORY_HINT)
}

/// Like [`migrate`], with the hint for a source that does not exist.
fn migrate_with_hint(
    from: &StoreLocation,
    to: &StoreLocation,
    compare_all: bool,
    missing_source_hint: &str,
) -> Result<MigrationReport, CliError> {
    if is_same_store(from, to) {
        return Err(
            CliError::new("source and target are the same store").with_hint("choose a different target")
        );
    }
    runtime::multi_thread(2)?.block_on(async {
        match from {
            StoreLocation::Embedded(from) => {
                let source = open_source(from, missing_source_hint)?;
                let progress = report_progress(source.count().ok());
                match to {
                    StoreLocation::Embedded(to) => {
                        tendot_store::migrate(&source, &mut open_embedded_target(to)?, compare_all, progress)
                            .await
                    }
                    StoreLocation::Postgres(to) => {
                        let mut target = open_postgres_target(to).await?;
                        tendot_store::migrate(&source, &mut target, compare_all, progress).await
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

/// Opens the source read-only; a server may be running.
fn open_source(directory: &Path, missing_hint: &str) -> Result<EmbeddedStore, CliError> {
    EmbeddedStore::open_read_only(directory).map_err(|error| directory_error(&error, missing_hint))
}

fn open_embedded_target(directory: &Path) -> Result<EmbeddedTarget, CliError> {
    EmbeddedStore::open_target(directory).map_err(|error| directory_error(&error, TARGET_DIRECTORY_HINT))
}

/// Error of opening a store, with this hint if the directory is a wrong one.
fn directory_error(error: &OpenError, hint: &str) -> CliError {
    match error {
        OpenError::NotFound { .. }
        | OpenError::NotADirectory { .. }
        | OpenError::OtherProgram { .. }
        | OpenError::NotAStore { .. } => CliError::new(error.to_string()).with_hint(hint),
        error => open_error(error),
    }
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
    move |report| {
        if std::mem::take(&mut is_first) {
            bar.suspend(|| match report.previous_run {
                None => {}
                Some(PreviousRun::Interrupted) => {
                    eprint_line("resuming an interrupted migration");
                }
                Some(PreviousRun::Completed(sequence)) => {
                    eprint_line(format_args!("resuming after log entry {sequence}; copying newer changes"));
                }
            });
        }
        bar.set_position(report.records + report.compared);
    }
}

fn migrate_error(error: &MigrationError) -> CliError {
    let failure = CliError::new(error.to_string());
    match error {
        MigrationError::TargetNotEmpty | MigrationError::TargetModified | MigrationError::SourceMismatch => failure.with_hint(
            "nothing was written; use a new directory, or an empty database or schema \
             (`?options=-csearch_path%3DSCHEMA`)",
        ),
        MigrationError::SourceUnsettled => failure.with_hint(
            "wait for the import to finish, or start the source server once if the import was interrupted; then run this \
             command again",
        ),
        MigrationError::Source(StoreError::Corrupt { .. }) | MigrationError::Target(StoreError::Corrupt { .. }) => {
            failure.with_hint("run `tendot verify` to list the corruption")
        }
        _ => failure.with_hint("run the same command again to resume"),
    }
}
