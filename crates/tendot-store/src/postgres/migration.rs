//! PostgreSQL store as migration source and target.

use std::collections::HashMap;

use deadpool_postgres::{Object, Transaction};
use tokio_postgres::Error;

use super::cluster::Cluster;
use super::cluster::timeline::SELECT_TIMELINE;
use super::error::{DatabaseError, with_timeout};
use super::read::SqlParameters;
use super::write::columns::{HistoryColumns, LogColumns, RecordColumns};
use super::write::statements::{
    DELETE_AUX, DELETE_HOMED, DELETE_RECORDS, INSERT_HOMED, INSERT_LOG, LOCK_COUNTERS, RECORD_COMMIT,
    SELECT_RECORDS, UPSERT_AUX, UPSERT_HISTORY, UPSERT_RECORDS,
};
use super::write::transaction::{CommitParameters, LockedCounters};
use super::{PostgresOpenError, PostgresSettings, PostgresStore, row};
use crate::migration::batch::{
    MAX_BATCH_BYTES, MAX_BATCH_ITEMS, MigrationBatch, history_memory_size, record_memory_size,
};
use crate::migration::traits::{HistoryBatch, HistoryPosition, MigrationSource, MigrationTarget};
use crate::migration::{Checkpoint, MigrationError};
use crate::model::name_key::storage_key;
use crate::{HistoryEntry, NameKey, StoreError, StoredRecord};

/// Records per query; each may have some megabytes.
const RECORD_PAGE_LEN: usize = 64;

// A creation by import may have no history row: it is found by the revision in the next row or in the current record.
const SELECT_HISTORIES: &str = concat!(
    "select ",
    row::log_columns!("l"),
    ", h.name, h.revision, h.status, h.body, h.registration, h.name_key from (\
         select name_key, sequence, name, revision, status, body, registration from tendot_history \
         where name_key = any($1) and sequence > $2 \
         union all \
         select created.name_key, i.sequence, null::bytea, null::bigint, null::smallint, null::bytea, null::bytea from (\
             select name_key, revision from tendot_history where name_key = any($1) and revision is not null \
             union select name_key, revision from tendot_records where name_key = any($1)) created \
         join tendot_log i on i.kind = 7 and i.record_count > 0 and i.revision = created.revision \
         where i.sequence > $2 and not exists (\
             select 1 from tendot_history o where o.name_key = created.name_key and o.sequence = i.sequence)) h \
     join tendot_log l on l.sequence = h.sequence order by h.name_key, h.sequence limit $3"
);

const SELECT_CHECKPOINT: &str = "select m.checkpoint, m.commits = c.commits from tendot_migration m, tendot_counters c \
     where m.id = 1 and c.id = 1";

const UPSERT_CHECKPOINT: &str = "insert into tendot_migration (id, checkpoint, commits) values (1, $1, $2) \
     on conflict (id) do update set checkpoint = excluded.checkpoint, commits = excluded.commits";

impl MigrationSource for PostgresStore {
    async fn read_records(&self, names: &[NameKey]) -> Result<Vec<Option<StoredRecord>>, StoreError> {
        let (mut records, mut size) = (Vec::new(), 0);
        for names in names.chunks(RECORD_PAGE_LEN) {
            let keys: Vec<_> = names.iter().map(storage_key).collect();
            let mut by_name = HashMap::new();
            self.for_each_row(SELECT_RECORDS, &[&keys], |found| {
                let record = row::record(found, 0)?;
                size += record.as_ref().map_or(0, record_memory_size);
                by_name.extend(record.and_then(|record| Some((NameKey::new(&record.name).ok()?, record))));
                Ok(true)
            })
            .await?;
            records.extend(names.iter().map(|name| by_name.remove(name)));
            if size >= MAX_BATCH_BYTES {
                break;
            }
        }
        Ok(records)
    }

    async fn read_histories(
        &self,
        names: &[NameKey],
        at: HistoryPosition,
    ) -> Result<HistoryBatch, StoreError> {
        let HistoryPosition { name: first, after, base } = at;
        // A history that spans batches is continued alone, in sequence order.
        let end = if after > base { names.len().min(first + 1) } else { names.len() };
        let keys: Vec<_> = names.get(first..end).unwrap_or_default().iter().map(storage_key).collect();
        let indexes: HashMap<&[u8], usize> = keys.iter().map(|key| &**key).zip(first..).collect();
        let (mut entries, mut size) = (Vec::new(), 0);
        self.for_each_row(
            SELECT_HISTORIES,
            &[&keys, &row::to_i64(after), &row::limit_to_i64(MAX_BATCH_ITEMS)],
            |found| {
                let history_entry = HistoryEntry {
                    log_entry: row::log_entry(found, 0)?,
                    prior: row::prior_state(found, row::LOG_COLUMNS)?,
                };
                size += history_memory_size(&history_entry);
                let index = indexes.get(row::column::<&[u8]>(found, row::LOG_COLUMNS + 5)?);
                entries.extend(index.map(|index| (*index, history_entry)));
                Ok(size < MAX_BATCH_BYTES)
            },
        )
        .await?;
        let next = match entries.last() {
            Some((index, history_entry)) if size >= MAX_BATCH_BYTES || entries.len() >= MAX_BATCH_ITEMS => {
                Some(HistoryPosition { name: *index, after: history_entry.log_entry.sequence, base })
            }
            _ => (end < names.len()).then_some(HistoryPosition::start_of(end, base)),
        };
        Ok(HistoryBatch { entries, next })
    }
}

impl PostgresStore {
    /// Reads the migration checkpoint, if there is one, and whether nothing else was written since.
    async fn checkpoint(&self) -> Result<Option<(Checkpoint, bool)>, StoreError> {
        let mut checkpoint = None;
        self.for_each_row(SELECT_CHECKPOINT, &[], |found| {
            checkpoint = Some((Checkpoint::decode(row::column(found, 0)?), row::column(found, 1)?));
            Ok(true)
        })
        .await?;
        let corrupt = || StoreError::Corrupt { detail: "invalid migration checkpoint".into() };
        checkpoint.map(|(checkpoint, is_last)| Ok((checkpoint.ok_or_else(corrupt)?, is_last))).transpose()
    }

    /// Rejects the target of an incomplete migration.
    pub(crate) async fn check_migration_complete(&self, database: String) -> Result<(), PostgresOpenError> {
        match self.checkpoint().await {
            Ok(Some((checkpoint, _))) if !checkpoint.is_complete() => {
                Err(PostgresOpenError::IncompleteMigration { database })
            }
            Ok(_) => Ok(()),
            Err(error) => Err(PostgresOpenError::Other { database, reason: error.to_string() }),
        }
    }

    /// Opens a database as a target of [`migrate`](crate::migrate); creates its tables if missing.
    pub async fn open_target(
        address: &str,
        settings: &PostgresSettings,
    ) -> Result<PostgresTarget, PostgresOpenError> {
        let (store, _) = Self::open_allowing_incomplete(address, settings).await?;
        Ok(PostgresTarget { store })
    }
}

/// PostgreSQL store opened as a migration target.
#[derive(Debug)]
pub struct PostgresTarget {
    store: PostgresStore,
}

impl MigrationTarget for PostgresTarget {
    type Store = PostgresStore;

    fn store(&self) -> &PostgresStore {
        &self.store
    }

    async fn checkpoint(&self) -> Result<Option<(Checkpoint, bool)>, StoreError> {
        self.store.checkpoint().await
    }

    async fn write_batch(
        &mut self,
        batch: &MigrationBatch,
        checkpoint: &Checkpoint,
    ) -> Result<(), MigrationError> {
        let target_error = |error: DatabaseError| {
            MigrationError::Target(error.into_store_error("writing a migration batch"))
        };
        let primary = self.store.cluster.primary().map_err(target_error)?;
        let mut client = primary.write_connection().await.map_err(target_error)?;
        let write = write_batch(&mut client, &self.store.cluster, batch, checkpoint);
        let written = with_timeout(self.store.request_timeout(), write);
        match written.await {
            Ok(true) => Ok(()),
            Ok(false) => Err(MigrationError::TargetModified),
            Err(error) => Err(target_error(error)),
        }
    }
}

/// Writes a batch in one transaction; returns false if the target was modified by others. On error nothing is written.
async fn write_batch(
    client: &mut Object,
    cluster: &Cluster,
    batch: &MigrationBatch,
    checkpoint: &Checkpoint,
) -> Result<bool, DatabaseError> {
    let transaction = client.transaction().await?;
    let counters = LockedCounters::from_row(&transaction.query_one(LOCK_COUNTERS, &[]).await?)?;
    if counters.timeline.is_some() {
        counters.check_timeline(&transaction.query_one(SELECT_TIMELINE, &[]).await?, cluster)?;
    }
    let LockedCounters { mut head, commit, mut timestamp_ms, .. } = counters;
    let checkpointed =
        transaction.query_opt("select commits from tendot_migration where id = 1", &[]).await?;
    let is_unmodified = match checkpointed {
        Some(checkpointed) => checkpointed.try_get::<_, i64>(0)? == commit.number - 1,
        None => head.sequence == 0,
    };
    if !is_unmodified {
        return Ok(false);
    }
    let first = head.sequence;
    let log = LogColumns::new(batch.log_entries.iter().filter(|log_entry| log_entry.sequence > first));
    if let Some(last) = batch.log_entries.last().filter(|last| last.sequence > first) {
        head.advance_to(last);
        timestamp_ms = timestamp_ms.max(last.timestamp_ms);
    }
    let runner = StatementRunner { transaction: &transaction };
    runner.run(INSERT_LOG, !log.is_empty(), &log.parameters()).await?;
    let history = HistoryColumns::new(batch.history.iter().map(|migrated| {
        let HistoryEntry { log_entry, prior } = &migrated.history_entry;
        (&migrated.key, log_entry.sequence, prior)
    }));
    runner.run(UPSERT_HISTORY, !history.is_empty(), &history.parameters()).await?;
    let records = batch.records.iter();
    let records = RecordColumns::new(
        records.map(|(key, migrated)| (key, migrated.as_ref().map(|migrated| &migrated.record))),
    );
    runner.run(UPSERT_RECORDS, !records.is_empty(), &records.parameters()).await?;
    runner.run(DELETE_RECORDS, !records.removed.is_empty(), &[&records.removed]).await?;
    let [homed, unhomed] = [true, false].map(|is_homed| {
        let prefixes = batch.homed.iter().filter(move |(_, homed)| **homed == is_homed);
        prefixes.map(|(prefix, _)| prefix.as_bytes()).collect::<Vec<_>>()
    });
    runner.run(INSERT_HOMED, !homed.is_empty(), &[&homed]).await?;
    runner.run(DELETE_HOMED, !unhomed.is_empty(), &[&unhomed]).await?;
    let written = batch.aux.iter().filter_map(|change| Some((&*change.key, change.value.as_deref()?)));
    let (keys, values): (Vec<&[u8]>, Vec<&[u8]>) = written.unzip();
    runner.run(UPSERT_AUX, !keys.is_empty(), &[&keys, &values]).await?;
    let removed = batch.aux.iter().filter(|change| change.value.is_none());
    let removed: Vec<&[u8]> = removed.map(|change| &*change.key).collect();
    runner.run(DELETE_AUX, !removed.is_empty(), &[&removed]).await?;
    runner.run(RECORD_COMMIT, true, &CommitParameters::new(&head, timestamp_ms, &commit).values()).await?;
    runner.run(UPSERT_CHECKPOINT, true, &[&checkpoint.encode(), &commit.number]).await?;
    transaction.commit().await?;
    Ok(true)
}

/// Runs statements of one migration transaction.
struct StatementRunner<'t> {
    transaction: &'t Transaction<'t>,
}

impl StatementRunner<'_> {
    async fn run(&self, sql: &str, is_needed: bool, parameters: SqlParameters<'_>) -> Result<(), Error> {
        if is_needed {
            let statement = self.transaction.prepare_cached(sql).await?;
            self.transaction.execute(&statement, parameters).await?;
        }
        Ok(())
    }
}
