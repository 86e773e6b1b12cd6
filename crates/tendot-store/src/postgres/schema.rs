//! Schema migrations.
//!
//! Expand, migrate, contract: while servers of two versions share a database, a migration must keep what the older ones use. A
//! contracting migration raises `compatible`; programs that support less refuse the schema, all others may use a newer one. A
//! migration is never edited after its release.

use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use super::PostgresOpenError;
use super::error::{self, DatabaseError};

/// Schema migration: SQL and the lowest schema version a program must know afterwards.
pub(crate) struct SchemaMigration {
    sql: &'static str,
    /// Lowest schema version that a program must support afterwards.
    compatible: u32,
}

/// Schema version after the first migration. Earlier versions were never released and are refused.
const FIRST_VERSION: u32 = 6;

/// All schema migrations; the first one creates the schema of [`FIRST_VERSION`], each other one raises the version by one.
pub(crate) const SCHEMA_MIGRATIONS: &[SchemaMigration] = &[
    SchemaMigration { sql: include_str!("migrations/0001-schema.sql"), compatible: FIRST_VERSION },
    SchemaMigration { sql: include_str!("migrations/0002-timeline.sql"), compatible: FIRST_VERSION },
];

/// Highest schema version that this program supports.
pub(crate) const fn latest_version() -> i32 {
    version_after(SCHEMA_MIGRATIONS) as i32
}

/// Schema version after all of these migrations.
const fn version_after(migrations: &[SchemaMigration]) -> u32 {
    FIRST_VERSION + migrations.len() as u32 - 1
}

/// Maximum number of attempts when other sessions migrate concurrently; each waits for the lock timeout.
const MAX_ATTEMPTS: u32 = 10;

/// Brings the schema to the version of this program, or reports why that is impossible.
pub(crate) async fn ensure_current(
    client: &Client,
    database: &str,
    migrations: &[SchemaMigration],
    migrate_schema: bool,
) -> Result<(), PostgresOpenError> {
    let supported = version_after(migrations);
    let open_error =
        |error: tokio_postgres::Error| PostgresOpenError::from_database(database, &DatabaseError::Sql(error));
    let mut is_locked = false;
    for _ in 0..MAX_ATTEMPTS {
        let (version, required) = read_version(client, false).await.map_err(open_error)?;
        let database = || database.to_owned();
        if required > supported {
            return Err(PostgresOpenError::SchemaTooNew {
                database: database(),
                version,
                required,
                supported,
            });
        }
        if version >= supported {
            return Ok(());
        }
        if (1..FIRST_VERSION).contains(&version) {
            let first = FIRST_VERSION;
            return Err(PostgresOpenError::SchemaUnsupported { database: database(), version, first });
        }
        if !migrate_schema {
            return Err(PostgresOpenError::SchemaTooOld {
                database: database(),
                version,
                required: supported,
            });
        }
        let Err(error) = apply_migrations(client, migrations).await else { continue };
        // Rolled back in any case if the connection is lost.
        let _ = client.batch_execute("rollback").await;
        if !error::is_concurrent_migration(&error) {
            return Err(open_error(error));
        }
        is_locked = error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE);
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    if is_locked {
        return Err(PostgresOpenError::SchemaLocked { database: database.into() });
    }
    Err(PostgresOpenError::Other {
        database: database.into(),
        reason: "gave up after repeated concurrent schema migrations".into(),
    })
}

/// Reads the schema version and the lowest one a program must support; 0 without tables.
async fn read_version(client: &Client, is_locked: bool) -> Result<(u32, u32), tokio_postgres::Error> {
    let lock = if is_locked { " for update" } else { "" };
    let row = client
        .query_opt(&format!("select version, compatible from tendot_schema where id = 1{lock}"), &[])
        .await;
    match row {
        Ok(Some(row)) => {
            let number = |column| row.try_get(column).map(|number: i32| number.max(0).cast_unsigned());
            Ok((number(0)?, number(1)?))
        }
        Ok(None) => Ok((0, 0)),
        Err(error) if !is_locked && error.code() == Some(&SqlState::UNDEFINED_TABLE) => Ok((0, 0)),
        Err(error) => Err(error),
    }
}

/// Applies missing migrations in one transaction, holding a row lock against concurrent runs. Migrations are idempotent, for
/// databases without transactional DDL.
async fn apply_migrations(
    client: &Client,
    migrations: &[SchemaMigration],
) -> Result<(), tokio_postgres::Error> {
    client
        .batch_execute(
            "begin; \
             set local statement_timeout = 0; \
             create table if not exists tendot_schema \
                 (id smallint primary key, version integer not null, compatible integer not null); \
             insert into tendot_schema (id, version, compatible) values (1, 0, 0) on conflict (id) do nothing",
        )
        .await?;
    let (version, mut compatible) = read_version(client, true).await?;
    let applied = (version + 1).saturating_sub(FIRST_VERSION) as usize;
    for migration in migrations.iter().skip(applied) {
        client.batch_execute(migration.sql).await?;
        compatible = compatible.max(migration.compatible);
    }
    let version = version_after(migrations).max(version);
    client
        .batch_execute(&format!(
            "update tendot_schema set version = {version}, compatible = {compatible} where id = 1; commit"
        ))
        .await
}
