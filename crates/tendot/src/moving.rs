//! Moving a store to another place, for all commands that do so.

use std::path::Path;

use tendot_store::{
    Embedded, EmbeddedTarget, MigrationError, MigrationReport, OpenError, Postgres, PostgresSettings, PostgresTarget,
    PreviousRun, StoreError,
};
use tokio::runtime::{Builder, Runtime};

use crate::Failure;
use crate::failure::tell;
use crate::store::{Place, open_postgres, progress, unopened};

/// How far it is: each record is copied, and compared later.
const MIGRATION_PROGRESS: &str = "{bar:40} {human_pos}/{human_len} copied and compared  {per_sec}  {eta} left";

/// The same if it is not known how many there are.
const MIGRATION_PROGRESS_UNBOUNDED: &str = "{human_pos} copied and compared  {per_sec}";

/// Moves all of a store to another one, and tells if it goes on from an earlier time.
pub(crate) fn migrate(from: &Place, to: &Place, compare_all: bool) -> Result<MigrationReport, Failure> {
    if is_same(from, to) {
        return Err(Failure::new("the target is the source").hint("a store is moved to another place"));
    }
    runtime()?.block_on(async {
        match from {
            Place::Directory(from) => {
                let source = source(from)?;
                let seen = watch(source.count().ok());
                match to {
                    Place::Directory(to) => {
                        tendot_store::migrate(&source, &mut target(to)?, compare_all, seen).await
                    }
                    Place::Database(to) => {
                        let mut target = open_postgres_target(to).await?;
                        tendot_store::migrate(&source, &mut target, compare_all, seen).await
                    }
                }
            }
            Place::Database(from) => {
                let settings = PostgresSettings { migrate: false, ..settings() };
                let source = open_postgres(from, &settings).await?;
                match to {
                    Place::Directory(to) => {
                        tendot_store::migrate(&source, &mut target(to)?, compare_all, watch(None)).await
                    }
                    Place::Database(to) => {
                        let mut target = open_postgres_target(to).await?;
                        tendot_store::migrate(&source, &mut target, compare_all, watch(None)).await
                    }
                }
            }
        }
        .map_err(|error| unmoved(&error))
    })
}

/// Threads for those who talk to a database.
pub(crate) fn runtime() -> Result<Runtime, Failure> {
    Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| Failure::io("threads can't be started", &error))
}

fn is_same(from: &Place, to: &Place) -> bool {
    match (from, to) {
        (Place::Directory(from), Place::Directory(to)) => {
            from == to
                || std::fs::canonicalize(from)
                    .is_ok_and(|from| std::fs::canonicalize(to).is_ok_and(|to| from == to))
        }
        (Place::Database(from), Place::Database(to)) => from == to,
        _ => false,
    }
}

/// A store to be read, also while a server writes it.
fn source(directory: &Path) -> Result<Embedded, Failure> {
    Embedded::open_read_only(directory).map_err(|error| match error {
        OpenError::NoStore { .. } => {
            Failure::new(error.to_string()).hint("a store is written as `embedded:DIR`")
        }
        error => unopened(&error),
    })
}

fn target(directory: &Path) -> Result<EmbeddedTarget, Failure> {
    Embedded::open_target(directory).map_err(|error| unopened(&error))
}

async fn open_postgres_target(address: &str) -> Result<PostgresTarget, Failure> {
    let opened = Postgres::open_target(address, &settings()).await;
    opened.map_err(|error| Failure::new(error.to_string()).hint(error.hint()))
}

fn settings() -> PostgresSettings {
    PostgresSettings { connections: 4, ..PostgresSettings::default() }
}

/// Shows how far it is, and says once where it began.
fn watch(records: Option<u64>) -> impl FnMut(&MigrationReport) + Send {
    let bar = match records {
        Some(records) => progress(2 * records, MIGRATION_PROGRESS),
        None => progress(0, MIGRATION_PROGRESS_UNBOUNDED),
    };
    let mut is_first = true;
    move |moved| {
        if std::mem::take(&mut is_first) {
            bar.suspend(|| match moved.resumed {
                None => {}
                Some(PreviousRun::Interrupted) => tell("an earlier run was stopped; this one goes on from there"),
                Some(PreviousRun::Finished(line)) => tell(format_args!(
                    "an earlier run was finished at line {line} of the log; this one copies what is new"
                )),
            });
        }
        bar.set_position(moved.records + moved.compared);
    }
}

fn unmoved(error: &MigrationError) -> Failure {
    let failure = Failure::new(error.to_string());
    match error {
        MigrationError::Occupied | MigrationError::Written | MigrationError::OtherSource => failure.hint(
            "nothing was written; name a directory that is new, or a database or schema \
             (`?options=-csearch_path%3DSCHEMA`) that is empty",
        ),
        MigrationError::Restless => failure.hint(
            "let the import come to its end, or start the source's server once if it was interrupted; then the same goes on",
        ),
        MigrationError::Source(StoreError::Damaged { .. }) | MigrationError::Target(StoreError::Damaged { .. }) => {
            failure.hint("`tendot verify` finds all that is damaged")
        }
        _ => failure.hint("the same again goes on where it was stopped"),
    }
}
