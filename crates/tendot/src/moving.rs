//! Moving a store to another place, for all commands that do so.

use std::path::Path;

use tendot_store::{
    EmbeddedStore, EmbeddedTarget, MigrationError, MigrationReport, OpenError, PostgresSettings,
    PostgresStore, PostgresTarget, PreviousRun, StoreError,
};
use tokio::runtime::{Builder, Runtime};

use crate::CliError;
use crate::failure::eprint_line;
use crate::store::{StoreLocation, open_error, open_postgres, progress_bar};

/// How far it is: each record is copied, and compared later.
const MIGRATION_PROGRESS: &str =
    "{bar:40} {human_pos}/{human_len} copied and compared  {per_sec}  {eta} left";

/// The same if it is not known how many there are.
const MIGRATION_PROGRESS_UNBOUNDED: &str = "{human_pos} copied and compared  {per_sec}";

/// Moves all of a store to another one, and tells if it goes on from an earlier time.
pub(crate) fn migrate(
    from: &StoreLocation,
    to: &StoreLocation,
    compare_all: bool,
) -> Result<MigrationReport, CliError> {
    if is_same_store(from, to) {
        return Err(CliError::new("the target is the source").with_hint("a store is moved to another place"));
    }
    runtime()?.block_on(async {
        match from {
            StoreLocation::Directory(from) => {
                let source = open_source(from)?;
                let seen = report_progress(source.count().ok());
                match to {
                    StoreLocation::Directory(to) => {
                        tendot_store::migrate(&source, &mut open_embedded_target(to)?, compare_all, seen)
                            .await
                    }
                    StoreLocation::Database(to) => {
                        let mut target = open_postgres_target(to).await?;
                        tendot_store::migrate(&source, &mut target, compare_all, seen).await
                    }
                }
            }
            StoreLocation::Database(from) => {
                let settings = PostgresSettings { migrate: false, ..settings() };
                let source = open_postgres(from, &settings).await?;
                match to {
                    StoreLocation::Directory(to) => {
                        tendot_store::migrate(
                            &source,
                            &mut open_embedded_target(to)?,
                            compare_all,
                            report_progress(None),
                        )
                        .await
                    }
                    StoreLocation::Database(to) => {
                        let mut target = open_postgres_target(to).await?;
                        tendot_store::migrate(&source, &mut target, compare_all, report_progress(None)).await
                    }
                }
            }
        }
        .map_err(|error| migrate_error(&error))
    })
}

/// Threads for those who talk to a database.
pub(crate) fn runtime() -> Result<Runtime, CliError> {
    Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| CliError::io("threads can't be started", &error))
}

fn is_same_store(from: &StoreLocation, to: &StoreLocation) -> bool {
    match (from, to) {
        (StoreLocation::Directory(from), StoreLocation::Directory(to)) => {
            from == to
                || std::fs::canonicalize(from)
                    .is_ok_and(|from| std::fs::canonicalize(to).is_ok_and(|to| from == to))
        }
        (StoreLocation::Database(from), StoreLocation::Database(to)) => from == to,
        _ => false,
    }
}

/// A store to be read, also while a server writes it.
fn open_source(directory: &Path) -> Result<EmbeddedStore, CliError> {
    EmbeddedStore::open_read_only(directory).map_err(|error| match error {
        OpenError::NoStore { .. } => {
            CliError::new(error.to_string()).with_hint("a store is written as `embedded:DIR`")
        }
        error => open_error(&error),
    })
}

fn open_embedded_target(directory: &Path) -> Result<EmbeddedTarget, CliError> {
    EmbeddedStore::open_target(directory).map_err(|error| open_error(&error))
}

async fn open_postgres_target(address: &str) -> Result<PostgresTarget, CliError> {
    let opened = PostgresStore::open_target(address, &settings()).await;
    opened.map_err(|error| CliError::new(error.to_string()).with_hint(error.hint()))
}

fn settings() -> PostgresSettings {
    PostgresSettings { connections: 4, ..PostgresSettings::default() }
}

/// Shows how far it is, and says once where it began.
fn report_progress(records: Option<u64>) -> impl FnMut(&MigrationReport) + Send {
    let bar = match records {
        Some(records) => progress_bar(2 * records, MIGRATION_PROGRESS),
        None => progress_bar(0, MIGRATION_PROGRESS_UNBOUNDED),
    };
    let mut is_first = true;
    move |moved| {
        if std::mem::take(&mut is_first) {
            bar.suspend(|| match moved.resumed {
                None => {}
                Some(PreviousRun::Interrupted) => {
                    eprint_line("an earlier run was stopped; this one goes on from there")
                }
                Some(PreviousRun::Finished(line)) => eprint_line(format_args!(
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
        MigrationError::Occupied | MigrationError::Written | MigrationError::OtherSource => failure.with_hint(
            "nothing was written; name a directory that is new, or a database or schema \
             (`?options=-csearch_path%3DSCHEMA`) that is empty",
        ),
        MigrationError::Restless => failure.with_hint(
            "let the import come to its end, or start the source's server once if it was interrupted; then the same goes on",
        ),
        MigrationError::Source(StoreError::Damaged { .. }) | MigrationError::Target(StoreError::Damaged { .. }) => {
            failure.with_hint("`tendot verify` finds all that is damaged")
        }
        _ => failure.with_hint("the same again goes on where it was stopped"),
    }
}
