//! PostgreSQL store as migration source and target.

use std::borrow::Cow;
use std::collections::HashMap;

use deadpool_postgres::{Object, Transaction};
use tokio_postgres::Error;
use tokio_postgres::types::ToSql;

use super::cluster::connection_string::ConnectionString;
use super::error::DatabaseError;
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
use crate::{HistoryEntry, NameKey, PriorState, StoreError, StoredRecord};

/// Records per query; each may have some megabytes.
const RECORD_PAGE_LEN: usize = 64;

const SELECT_HEAD: &str = "select revision, sequence from tendot_counters where id = 1";

const SELECT_RECORDS: &str = "select name, revision, state, body, registration, name_key from tendot_records \
     where name_key = any($1)";

// A creation by import may have no history row: it is found by the revision in the next row or in the current record.
const SELECT_HISTORIES: &str = "select l.sequence, l.revision, l.made_at, l.made_by, l.kind, l.name, l.records, \
     h.name, h.revision, h.state, h.body, h.registration, h.name_key from (\
         select name_key, sequence, name, revision, state, body, registration from tendot_history \
         where name_key = any($1) and sequence > $2 \
         union all \
         select made.name_key, i.sequence, null::bytea, null::bigint, null::smallint, null::bytea, null::bytea from (\
             select name_key, revision from tendot_history where name_key = any($1) and revision is not null \
             union select name_key, revision from tendot_records where name_key = any($1)) made \
         join tendot_log i on i.kind = 7 and i.records > 0 and i.revision = made.revision \
         where i.sequence > $2 and not exists (\
             select 1 from tendot_history o where o.name_key = made.name_key and o.sequence = i.sequence)) h \
     join tendot_log l on l.sequence = h.sequence order by h.name_key, h.sequence limit $3";

const SELECT_CHECKPOINT: &str = "select m.mark, m.commits = c.commits from tendot_moving m, tendot_counters c \
     where m.id = 1 and c.id = 1";

const LOCK_COUNTERS: &str = "select revision, sequence, commits from tendot_counters where id = 1 for update";

const INSERT_LOG: &str = "insert into tendot_log (sequence, revision, made_at, made_by, kind, name, records) select * from \
     unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bytea[], $5::smallint[], $6::bytea[], $7::bigint[])";

const UPSERT_HISTORY: &str = "insert into tendot_history (name_key, sequence, name, revision, state, body, registration) \
     select * from \
     unnest($1::bytea[], $2::bigint[], $3::bytea[], $4::bigint[], $5::smallint[], $6::bytea[], $7::bytea[]) \
     on conflict (name_key, sequence) do update set name = excluded.name, revision = excluded.revision, \
     state = excluded.state, body = excluded.body, registration = excluded.registration";

const UPSERT_RECORDS: &str = "insert into tendot_records (name_key, name, revision, state, body, registration) \
     select * from unnest($1::bytea[], $2::bytea[], $3::bigint[], $4::smallint[], $5::bytea[], $6::bytea[]) \
     on conflict (name_key) do update set name = excluded.name, revision = excluded.revision, \
     state = excluded.state, body = excluded.body, registration = excluded.registration";

const DELETE_RECORDS: &str = "delete from tendot_records where name_key = any($1)";

const INSERT_HOMED: &str =
    "insert into tendot_homed (name_key) select * from unnest($1::bytea[]) on conflict (name_key) do nothing";

const DELETE_HOMED: &str = "delete from tendot_homed where name_key = any($1)";

const UPSERT_AUX: &str = "insert into tendot_notes (note_key, body) select * from unnest($1::bytea[], $2::bytea[]) \
     on conflict (note_key) do update set body = excluded.body";

const DELETE_AUX: &str = "delete from tendot_notes where note_key = any($1)";

const UPDATE_COUNTERS: &str =
    "update tendot_counters set revision = $1, sequence = $2, commits = $3 where id = 1";

const UPSERT_CHECKPOINT: &str = "insert into tendot_moving (id, mark, commits) values (1, $1, $2) \
     on conflict (id) do update set mark = excluded.mark, commits = excluded.commits";

impl MigrationSource for PostgresStore {
    async fn head(&self) -> Result<StoreHead, StoreError> {
        let mut head = None;
        self.for_each_row(SELECT_HEAD, &[], |found| {
            let number = |column| row::column(found, column).map(row::to_u64);
            head = Some(StoreHead { revision: number(0)?, sequence: number(1)? });
            Ok(true)
        })
        .await?;
        head.ok_or_else(|| StoreError::Damaged { what: "the counters are missing".into() })
    }

    async fn read_records(&self, names: &[NameKey]) -> Result<Vec<Option<StoredRecord>>, StoreError> {
        let (mut entries, mut size) = (Vec::new(), 0);
        for names in names.chunks(RECORD_PAGE_LEN) {
            let keys: Vec<_> = names.iter().map(storage_key).collect();
            let mut records = HashMap::new();
            self.for_each_row(SELECT_RECORDS, &[&keys], |found| {
                let entry = row::record(found, 0)?;
                size += entry.as_ref().map_or(0, record_memory_size);
                records.insert(row::column::<&[u8]>(found, 5)?.to_vec(), entry);
                Ok(true)
            })
            .await?;
            entries.extend(keys.iter().map(|key| records.remove(&**key).flatten()));
            if size >= MAX_BATCH_BYTES {
                break;
            }
        }
        Ok(entries)
    }

    async fn read_histories(
        &self,
        names: &[NameKey],
        at: HistoryPosition,
    ) -> Result<HistoryBatch, StoreError> {
        let (first, after) = at;
        // A history that spans batches is continued alone, in sequence order.
        let end = if after > 0 { names.len().min(first + 1) } else { names.len() };
        let keys: Vec<_> = names.get(first..end).unwrap_or_default().iter().map(storage_key).collect();
        let numbers: HashMap<&[u8], usize> = keys.iter().map(|key| &**key).zip(first..).collect();
        let (mut entries, mut size) = (Vec::new(), 0);
        self.for_each_row(
            SELECT_HISTORIES,
            &[&keys, &row::to_i64(after), &row::limit_to_i64(MAX_BATCH_ITEMS)],
            |found| {
                let history_entry =
                    HistoryEntry { line: row::log_entry(found, 0)?, before: row::prior_state(found, 7)? };
                size += history_memory_size(&history_entry);
                let number = numbers.get(row::column::<&[u8]>(found, 12)?);
                entries.extend(number.map(|number| (*number, history_entry)));
                Ok(size < MAX_BATCH_BYTES)
            },
        )
        .await?;
        let next = match entries.last() {
            Some((number, history_entry)) if size >= MAX_BATCH_BYTES || entries.len() >= MAX_BATCH_ITEMS => {
                Some((*number, history_entry.line.sequence))
            }
            _ => (end < names.len()).then_some((end, 0)),
        };
        Ok((entries, next))
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
        let corrupt = || StoreError::Damaged { what: "what the store says of a move to it".into() };
        checkpoint.map(|(checkpoint, is_last)| Ok((checkpoint.ok_or_else(corrupt)?, is_last))).transpose()
    }

    /// Rejects the target of an incomplete migration.
    pub(crate) async fn check_migration_complete(&self, address: &str) -> Result<(), PostgresOpenError> {
        let place = ConnectionString::parse(address, &self.settings)?.place;
        match self.checkpoint().await {
            Ok(Some((checkpoint, _))) if !checkpoint.is_complete() => {
                Err(PostgresOpenError::Unfinished { place })
            }
            Ok(_) => Ok(()),
            Err(error) => Err(PostgresOpenError::Failed { place, why: error.to_string() }),
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
        let time = self.store.settings.statement + self.store.settings.patience;
        let failed =
            |error: DatabaseError| MigrationError::Target(error.into_store_error("writing what is moved"));
        let mut client =
            self.store.cluster.primary().map_err(failed)?.write_connection().await.map_err(failed)?;
        let migrated = tokio::time::timeout(time, write_batch(&mut client, batch, checkpoint)).await;
        match migrated {
            Ok(Ok(true)) => Ok(()),
            Ok(Ok(false)) => Err(MigrationError::Written),
            Ok(Err(error)) => Err(failed(error.into())),
            Err(_) => Err(failed(DatabaseError::Timeout)),
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
    let there = transaction.query_one(LOCK_COUNTERS, &[]).await?;
    let (mut revision, mut sequence, commits): (i64, i64, i64) =
        (there.try_get(0)?, there.try_get(1)?, there.try_get(2)?);
    let marked = transaction.query_opt("select commits from tendot_moving where id = 1", &[]).await?;
    let is_ours = match marked {
        Some(marked) => marked.try_get::<_, i64>(0)? == commits,
        None => sequence == 0,
    };
    if !is_ours {
        return Ok(false);
    }
    let lines =
        LogColumns::new(batch.log_entries.iter().filter(|line| row::to_i64(line.sequence) > sequence));
    if let Some(last) = batch.log_entries.last() {
        revision = revision.max(row::to_i64(last.revision));
        sequence = sequence.max(row::to_i64(last.sequence));
    }
    let LogColumns { sequences, revisions, times, by, kinds, names, counts } = &lines;
    let runner = StatementRunner { transaction: &transaction };
    runner
        .send(INSERT_LOG, !names.is_empty(), &[sequences, revisions, times, by, kinds, names, counts])
        .await?;
    write_records_and_history(&runner, batch).await?;
    let is_homed = |is: bool| batch.homed.iter().filter(move |(_, homed)| **homed == is);
    let [homed, unhomed] =
        [true, false].map(|is| is_homed(is).map(|(prefix, _)| prefix.as_bytes()).collect::<Vec<_>>());
    runner.send(INSERT_HOMED, !homed.is_empty(), &[&homed]).await?;
    runner.send(DELETE_HOMED, !unhomed.is_empty(), &[&unhomed]).await?;
    let there = batch.aux.iter().filter_map(|(key, body)| Some((&**key, body.as_deref()?)));
    let (keys, bodies): (Vec<&[u8]>, Vec<&[u8]>) = there.unzip();
    runner.send(UPSERT_AUX, !keys.is_empty(), &[&keys, &bodies]).await?;
    let removed = batch.aux.iter().filter(|(_, body)| body.is_none());
    let removed: Vec<&[u8]> = removed.map(|(key, _)| &**key).collect();
    runner.send(DELETE_AUX, !removed.is_empty(), &[&removed]).await?;
    let commits = commits + 1;
    runner.send(UPDATE_COUNTERS, true, &[&revision, &sequence, &commits]).await?;
    runner.send(INSERT_COMMIT_ID, true, &[]).await?;
    runner.send(DELETE_OLD_COMMIT_ID, true, &[&RETAINED_COMMIT_IDS]).await?;
    runner.send(UPSERT_CHECKPOINT, true, &[&checkpoint.encode(), &commits]).await?;
    transaction.commit().await?;
    Ok(true)
}

async fn write_records_and_history(
    runner: &StatementRunner<'_>,
    batch: &MigrationBatch,
) -> Result<(), Error> {
    let mut history = Columns::default();
    for migrated in &batch.history {
        history.sequences.push(row::to_i64(migrated.history_entry.line.sequence));
        let entry =
            if let PriorState::Record(entry) = &migrated.history_entry.before { Some(entry) } else { None };
        history.push(&migrated.key, entry);
        if let (PriorState::Unknown, Some(state)) =
            (&migrated.history_entry.before, history.states.last_mut())
        {
            *state = Some(row::STATUS_UNKNOWN);
        }
    }
    let Columns { keys, sequences, names, revisions, states, bodies, registrations } = &history;
    let columns: Parameters<'_> = &[keys, sequences, names, revisions, states, bodies, registrations];
    runner.send(UPSERT_HISTORY, !keys.is_empty(), columns).await?;

    let (mut written, mut removed) = (Columns::default(), Vec::new());
    for (key, migrated) in &batch.records {
        match migrated {
            Some(migrated) => written.push(key, Some(&migrated.entry)),
            None => removed.push(storage_key(key)),
        }
    }
    let Columns { keys, names, revisions, states, bodies, registrations, .. } = &written;
    let columns: Parameters<'_> = &[keys, names, revisions, states, bodies, registrations];
    runner.send(UPSERT_RECORDS, !keys.is_empty(), columns).await?;
    runner.send(DELETE_RECORDS, !removed.is_empty(), &[&removed]).await
}

type Parameters<'p> = &'p [&'p (dyn ToSql + Sync)];

/// Runs statements of one migration transaction.
struct StatementRunner<'t> {
    transaction: &'t Transaction<'t>,
}

impl StatementRunner<'_> {
    async fn send(&self, sql: &str, is_needed: bool, parameters: Parameters<'_>) -> Result<(), Error> {
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
    states: Vec<Option<i16>>,
    bodies: Vec<Option<Vec<u8>>>,
    registrations: Vec<Option<&'p [u8]>>,
}

impl<'p> Columns<'p> {
    fn push(&mut self, key: &'p NameKey, entry: Option<&'p StoredRecord>) {
        self.keys.push(storage_key(key));
        self.names.push(entry.map(|entry| entry.name.as_bytes()));
        self.revisions.push(entry.map(|entry| row::to_i64(entry.revision)));
        self.states.push(entry.map(|entry| row::status_code(entry.state)));
        self.bodies.push(entry.map(|entry| values_codec::encode(&entry.values)));
        self.registrations.push(entry.map(|entry| &*entry.registration));
    }
}
