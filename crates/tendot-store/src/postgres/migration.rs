//! PostgreSQL store as migration source and target.

use std::borrow::Cow;
use std::collections::HashMap;

use deadpool_postgres::{Object, Transaction};
use tokio_postgres::Error;

use super::cluster::connection_string::ConnectionString;
use super::error::DatabaseError;
use super::read::SqlParameters;
use super::write::columns::LogColumns;
use super::write::statements::{DELETE_OLD_COMMIT_ID, INSERT_COMMIT_ID, RETAINED_COMMIT_IDS};
use super::{PostgresOpenError, PostgresSettings, PostgresStore, row};
use crate::migration::batch::{
    MAX_BATCH_BYTES, MAX_BATCH_ITEMS, MigrationBatch, history_memory_size, record_memory_size,
};
use crate::migration::traits::{HistoryBatch, HistoryPosition, MigrationSource, MigrationTarget};
use crate::migration::{Checkpoint, MigrationError};
use crate::model::name_key::storage_key;
use crate::model::values_codec;
use crate::store::StoreHead;
use crate::{HistoryEntry, LogEntry, NameKey, PriorState, StoreError, StoredRecord};

/// Records per query; each may have some megabytes.
const RECORD_PAGE_LEN: usize = 64;

const SELECT_HEAD: &str = "select revision, sequence from tendot_counters where id = 1";

const SELECT_RECORDS: &str = "select name, revision, status, body, registration, name_key from tendot_records \
     where name_key = any($1)";

// A creation by import may have no history row: it is found by the revision in the next row or in the current record.
const SELECT_HISTORIES: &str = "select l.sequence, l.revision, l.timestamp_ms, l.author, l.kind, l.name, l.record_count, \
     h.name, h.revision, h.status, h.body, h.registration, h.name_key from (\
         select name_key, sequence, name, revision, status, body, registration from tendot_history \
         where name_key = any($1) and sequence > $2 \
         union all \
         select created.name_key, i.sequence, null::bytea, null::bigint, null::smallint, null::bytea, null::bytea from (\
             select name_key, revision from tendot_history where name_key = any($1) and revision is not null \
             union select name_key, revision from tendot_records where name_key = any($1)) created \
         join tendot_log i on i.kind = 7 and i.record_count > 0 and i.revision = created.revision \
         where i.sequence > $2 and not exists (\
             select 1 from tendot_history o where o.name_key = created.name_key and o.sequence = i.sequence)) h \
     join tendot_log l on l.sequence = h.sequence order by h.name_key, h.sequence limit $3";

const SELECT_CHECKPOINT: &str = "select m.checkpoint, m.commits = c.commits from tendot_migration m, tendot_counters c \
     where m.id = 1 and c.id = 1";

const LOCK_COUNTERS: &str = "select revision, sequence, commits from tendot_counters where id = 1 for update";

const INSERT_LOG: &str = "insert into tendot_log (sequence, revision, timestamp_ms, author, kind, name, record_count) select * from \
     unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bytea[], $5::smallint[], $6::bytea[], $7::bigint[])";

const UPSERT_HISTORY: &str = "insert into tendot_history (name_key, sequence, name, revision, status, body, registration) \
     select * from \
     unnest($1::bytea[], $2::bigint[], $3::bytea[], $4::bigint[], $5::smallint[], $6::bytea[], $7::bytea[]) \
     on conflict (name_key, sequence) do update set name = excluded.name, revision = excluded.revision, \
     status = excluded.status, body = excluded.body, registration = excluded.registration";

const UPSERT_RECORDS: &str = "insert into tendot_records (name_key, name, revision, status, body, registration) \
     select * from unnest($1::bytea[], $2::bytea[], $3::bigint[], $4::smallint[], $5::bytea[], $6::bytea[]) \
     on conflict (name_key) do update set name = excluded.name, revision = excluded.revision, \
     status = excluded.status, body = excluded.body, registration = excluded.registration";

const DELETE_RECORDS: &str = "delete from tendot_records where name_key = any($1)";

const INSERT_HOMED: &str =
    "insert into tendot_homed (name_key) select * from unnest($1::bytea[]) on conflict (name_key) do nothing";

const DELETE_HOMED: &str = "delete from tendot_homed where name_key = any($1)";

const UPSERT_AUX: &str = "insert into tendot_aux (aux_key, value) select * from unnest($1::bytea[], $2::bytea[]) \
     on conflict (aux_key) do update set value = excluded.value";

const DELETE_AUX: &str = "delete from tendot_aux where aux_key = any($1)";

const UPDATE_COUNTERS: &str =
    "update tendot_counters set revision = $1, sequence = $2, commits = $3 where id = 1";

const UPSERT_CHECKPOINT: &str = "insert into tendot_migration (id, checkpoint, commits) values (1, $1, $2) \
     on conflict (id) do update set checkpoint = excluded.checkpoint, commits = excluded.commits";

impl MigrationSource for PostgresStore {
    async fn head(&self) -> Result<StoreHead, StoreError> {
        let mut head = None;
        self.for_each_row(SELECT_HEAD, &[], |found| {
            let number = |column| row::column(found, column).map(row::to_u64);
            head = Some(StoreHead { revision: number(0)?, sequence: number(1)? });
            Ok(true)
        })
        .await?;
        head.ok_or_else(|| StoreError::Corrupt { detail: "counters row missing".into() })
    }

    async fn read_records(&self, names: &[NameKey]) -> Result<Vec<Option<StoredRecord>>, StoreError> {
        let (mut records, mut size) = (Vec::new(), 0);
        for names in names.chunks(RECORD_PAGE_LEN) {
            let keys: Vec<_> = names.iter().map(storage_key).collect();
            let mut by_key = HashMap::new();
            self.for_each_row(SELECT_RECORDS, &[&keys], |found| {
                let record = row::record(found, 0)?;
                size += record.as_ref().map_or(0, record_memory_size);
                by_key.insert(row::column::<&[u8]>(found, 5)?.to_vec(), record);
                Ok(true)
            })
            .await?;
            records.extend(keys.iter().map(|key| by_key.remove(&**key).flatten()));
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
        let HistoryPosition { name: first, after } = at;
        // A history that spans batches is continued alone, in sequence order.
        let end = if after > 0 { names.len().min(first + 1) } else { names.len() };
        let keys: Vec<_> = names.get(first..end).unwrap_or_default().iter().map(storage_key).collect();
        let indexes: HashMap<&[u8], usize> = keys.iter().map(|key| &**key).zip(first..).collect();
        let (mut entries, mut size) = (Vec::new(), 0);
        self.for_each_row(
            SELECT_HISTORIES,
            &[&keys, &row::to_i64(after), &row::limit_to_i64(MAX_BATCH_ITEMS)],
            |found| {
                let history_entry =
                    HistoryEntry { log_entry: row::log_entry(found, 0)?, prior: row::prior_state(found, 7)? };
                size += history_memory_size(&history_entry);
                let index = indexes.get(row::column::<&[u8]>(found, 12)?);
                entries.extend(index.map(|index| (*index, history_entry)));
                Ok(size < MAX_BATCH_BYTES)
            },
        )
        .await?;
        let next = match entries.last() {
            Some((index, history_entry)) if size >= MAX_BATCH_BYTES || entries.len() >= MAX_BATCH_ITEMS => {
                Some(HistoryPosition { name: *index, after: history_entry.log_entry.sequence })
            }
            _ => (end < names.len()).then_some(HistoryPosition { name: end, after: 0 }),
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
    pub(crate) async fn check_migration_complete(&self, address: &str) -> Result<(), PostgresOpenError> {
        let database = ConnectionString::parse(address, &self.settings)?.display_name;
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
        let store = Self::open_allowing_incomplete(address, settings).await?;
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
        let settings = &self.store.settings;
        let timeout = settings.statement_timeout + settings.wait_timeout;
        let target_error = |error: DatabaseError| {
            MigrationError::Target(error.into_store_error("writing a migration batch"))
        };
        let mut client = self
            .store
            .cluster
            .primary()
            .map_err(target_error)?
            .write_connection()
            .await
            .map_err(target_error)?;
        let written = tokio::time::timeout(timeout, write_batch(&mut client, batch, checkpoint)).await;
        match written {
            Ok(Ok(true)) => Ok(()),
            Ok(Ok(false)) => Err(MigrationError::TargetModified),
            Ok(Err(error)) => Err(target_error(error.into())),
            Err(_) => Err(target_error(DatabaseError::Timeout)),
        }
    }
}

/// Writes a batch in one transaction; returns false if the target was modified by others. On error nothing is written.
async fn write_batch(
    client: &mut Object,
    batch: &MigrationBatch,
    checkpoint: &Checkpoint,
) -> Result<bool, Error> {
    let transaction = client.transaction().await?;
    let counters = transaction.query_one(LOCK_COUNTERS, &[]).await?;
    let (mut revision, mut sequence, commits): (i64, i64, i64) =
        (counters.try_get(0)?, counters.try_get(1)?, counters.try_get(2)?);
    let checkpointed =
        transaction.query_opt("select commits from tendot_migration where id = 1", &[]).await?;
    let is_unmodified = match checkpointed {
        Some(checkpointed) => checkpointed.try_get::<_, i64>(0)? == commits,
        None => sequence == 0,
    };
    if !is_unmodified {
        return Ok(false);
    }
    let is_new = |log_entry: &&LogEntry| row::to_i64(log_entry.sequence) > sequence;
    let log = LogColumns::new(batch.log_entries.iter().filter(is_new));
    if let Some(last) = batch.log_entries.last() {
        revision = revision.max(row::to_i64(last.revision));
        sequence = sequence.max(row::to_i64(last.sequence));
    }
    let LogColumns { sequences, revisions, timestamps, authors, kinds, names, record_counts } = &log;
    let columns: SqlParameters<'_> =
        &[sequences, revisions, timestamps, authors, kinds, names, record_counts];
    let runner = StatementRunner { transaction: &transaction };
    runner.run(INSERT_LOG, !names.is_empty(), columns).await?;
    write_records_and_history(&runner, batch).await?;
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
    let commits = commits + 1;
    runner.run(UPDATE_COUNTERS, true, &[&revision, &sequence, &commits]).await?;
    runner.run(INSERT_COMMIT_ID, true, &[]).await?;
    runner.run(DELETE_OLD_COMMIT_ID, true, &[&RETAINED_COMMIT_IDS]).await?;
    runner.run(UPSERT_CHECKPOINT, true, &[&checkpoint.encode(), &commits]).await?;
    transaction.commit().await?;
    Ok(true)
}

async fn write_records_and_history(
    runner: &StatementRunner<'_>,
    batch: &MigrationBatch,
) -> Result<(), Error> {
    let mut history = Columns::default();
    for migrated in &batch.history {
        let HistoryEntry { log_entry, prior } = &migrated.history_entry;
        history.sequences.push(row::to_i64(log_entry.sequence));
        let record = if let PriorState::Record(record) = prior { Some(record) } else { None };
        history.push(&migrated.key, record);
    }
    let Columns { keys, sequences, names, revisions, statuses, bodies, registrations } = &history;
    let columns: SqlParameters<'_> = &[keys, sequences, names, revisions, statuses, bodies, registrations];
    runner.run(UPSERT_HISTORY, !keys.is_empty(), columns).await?;

    let (mut written, mut removed) = (Columns::default(), Vec::new());
    for (key, migrated) in &batch.records {
        match migrated {
            Some(migrated) => written.push(key, Some(&migrated.record)),
            None => removed.push(storage_key(key)),
        }
    }
    let Columns { keys, names, revisions, statuses, bodies, registrations, .. } = &written;
    let columns: SqlParameters<'_> = &[keys, names, revisions, statuses, bodies, registrations];
    runner.run(UPSERT_RECORDS, !keys.is_empty(), columns).await?;
    runner.run(DELETE_RECORDS, !removed.is_empty(), &[&removed]).await
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

/// Records or prior states as column arrays.
#[derive(Default)]
struct Columns<'p> {
    keys: Vec<Cow<'p, [u8]>>,
    /// Only used for history entries.
    sequences: Vec<i64>,
    names: Vec<Option<&'p [u8]>>,
    revisions: Vec<Option<i64>>,
    statuses: Vec<Option<i16>>,
    bodies: Vec<Option<Vec<u8>>>,
    registrations: Vec<Option<&'p [u8]>>,
}

impl<'p> Columns<'p> {
    fn push(&mut self, key: &'p NameKey, record: Option<&'p StoredRecord>) {
        self.keys.push(storage_key(key));
        self.names.push(record.map(|record| record.name.as_bytes()));
        self.revisions.push(record.map(|record| row::to_i64(record.revision)));
        self.statuses.push(record.map(|record| row::status_code(record.status)));
        self.bodies.push(record.map(|record| values_codec::encode(&record.values)));
        self.registrations.push(record.map(|record| &*record.registration));
    }
}
