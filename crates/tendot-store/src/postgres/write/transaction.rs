//! One write transaction in two round trips: lock and prefetch; write and commit. Also resolves in-doubt transactions.

use std::pin::pin;

use deadpool_postgres::{ClientWrapper, Object};
use futures_util::TryStreamExt as _;
use futures_util::future::{BoxFuture, join_all, join5, try_join_all};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row, Statement};

use super::columns::{HistoryColumns, LogColumns, RecordColumns};
use super::statements::{
    BEGIN_READ_COMMITTED, LOCK_COUNTERS, PREFETCH_SQL, RETAINED_COMMIT_IDS, SELECT_COMMIT_ID,
    SELECT_MISSING_PRIVILEGE, WRITE_SQL,
};
use super::write_batch::{PrefetchKeys, WriteBatch};
use crate::model::name_key::storage_key;
use crate::postgres::cluster::PrimaryHandle;
use crate::postgres::cluster::host::CommitId;
use crate::postgres::error::DatabaseError;
use crate::postgres::row;
use crate::{ChangeSet, CommitError, CommitInfo, NameKey, StoreError};

/// Maximum size of the records prefetched for a group.
const MAX_PREFETCH_BYTES: usize = 256 << 20;

/// Result of each change set of a group.
pub(crate) type CommitResults = Vec<Result<CommitInfo, CommitError>>;

/// Group of change sets whose transaction was committed.
pub(crate) struct CommittedGroup {
    pub(crate) results: CommitResults,
    /// Last log sequence number.
    pub(crate) last_sequence: u64,
}

/// Error of a write transaction: rolled back, or in doubt.
pub(crate) enum TxError {
    /// Rolled back.
    RolledBack(DatabaseError),
    /// In doubt: committed or rolled back.
    InDoubt { commit: CommitId, group: CommittedGroup, error: DatabaseError },
}

impl From<DatabaseError> for TxError {
    fn from(error: DatabaseError) -> Self {
        Self::RolledBack(error)
    }
}

impl From<Error> for TxError {
    fn from(error: Error) -> Self {
        Self::RolledBack(error.into())
    }
}

impl From<StoreError> for TxError {
    fn from(error: StoreError) -> Self {
        Self::RolledBack(error.into())
    }
}

/// Checks that the user may write; returns the missing privilege.
pub(crate) async fn check_privileges(client: &Object) -> Result<Option<String>, Error> {
    client.batch_execute("begin").await?;
    client.query_opt(LOCK_COUNTERS, &[]).await?;
    let missing = client.query_opt(SELECT_MISSING_PRIVILEGE, &[]).await?;
    client.batch_execute("rollback").await?;
    missing.map(|missing| missing.try_get(0)).transpose()
}

/// Commits a group of change sets, each atomically. After an error the connection is unusable.
pub(crate) async fn try_commit_group(
    client: &Object,
    changes: &[&ChangeSet],
    primary: &PrimaryHandle<'_>,
) -> Result<CommittedGroup, TxError> {
    let prefetch = async {
        let read = prepare(client, PREFETCH_SQL.iter().chain([&LOCK_COUNTERS])).await?;
        let write = prepare(client, WRITE_SQL.iter()).await?;
        let state = lock_and_prefetch(client, &read, PrefetchKeys::of(changes.iter().copied())).await?;
        Ok::<_, TxError>((write, state))
    };
    // On timeout the lock is held until the server notices, but nothing was written.
    let (write, (mut batch, commit)) = primary.with_timeout(prefetch).await??;
    let results = changes.iter().map(|change| batch.apply_change_set(change)).collect();
    let group = CommittedGroup { results, last_sequence: batch.sequence };
    if batch.is_empty() {
        primary.with_timeout(client.batch_execute("rollback")).await??;
        return Ok(group);
    }
    match primary.with_timeout(write_and_commit(client, &write, &batch, &commit)).await.flatten() {
        Ok(()) => Ok(group),
        Err(error) => Err(TxError::InDoubt { commit, group, error }),
    }
}

/// Resolves an in-doubt transaction. It held the lock, so this waits until it has ended. The commit may be known only to this
/// host, which failed while waiting for standbys; so this writes too, and when that is durable everything before it is.
pub(crate) async fn is_committed(client: &ClientWrapper, commit: &CommitId) -> Result<bool, DatabaseError> {
    client.batch_execute(BEGIN_READ_COMMITTED).await?;
    let locked = client.query_one(LOCK_COUNTERS, &[]).await?;
    // Its commit id has been deleted by now.
    if commit.number <= row::column::<i64>(&locked, 2)? - RETAINED_COMMIT_IDS {
        return Err(DatabaseError::CommitIdExpired);
    }
    let found = client.query_opt(SELECT_COMMIT_ID, &[&commit.number]).await?;
    client.batch_execute("update tendot_counters set commits = commits where id = 1; commit").await?;
    Ok(found.is_some_and(|row| row.try_get::<_, &str>(0).is_ok_and(|id| id == commit.id)))
}

async fn prepare<'s>(
    client: &Object,
    statements: impl Iterator<Item = &'s &'s str>,
) -> Result<Vec<Statement>, Error> {
    try_join_all(statements.map(|sql| client.prepare_cached(sql))).await
}

/// Takes the lock and reads the current state.
async fn lock_and_prefetch(
    client: &Object,
    statements: &[Statement],
    keys: PrefetchKeys,
) -> Result<(WriteBatch, CommitId), TxError> {
    let [records, homed, aux, lock] = statements else { return Err(DatabaseError::PoolClosed.into()) };
    let storage_keys: Vec<_> = keys.records.iter().map(storage_key).collect();
    let storage_keys: Vec<&[u8]> = storage_keys.iter().map(|key| &**key).collect();
    let prefixes: Vec<&[u8]> = keys.prefixes.iter().map(NameKey::as_bytes).collect();
    let aux_keys: Vec<&[u8]> = keys.aux.iter().map(|key| &**key).collect();
    let (begun, locked, records, homed, aux) = join5(
        client.batch_execute(BEGIN_READ_COMMITTED),
        client.query_one(lock, &[]),
        query_keys(client, records, &storage_keys),
        query_keys(client, homed, &prefixes),
        query_keys(client, aux, &aux_keys),
    )
    .await;
    begun?;
    let locked = locked?;
    let mut batch = WriteBatch {
        revision: row::to_u64(row::column(&locked, 0)?),
        sequence: row::to_u64(row::column(&locked, 1)?),
        ..WriteBatch::default()
    };
    let commit = CommitId { number: row::column::<i64>(&locked, 2)? + 1, id: row::column(&locked, 3)? };
    for found in records? {
        let Some(record) = row::record(&found, 0)? else { continue };
        // Two long names could have the same storage key; only one of them is stored.
        if let Some(key) = NameKey::new(&record.name).ok().filter(|key| keys.records.contains(key)) {
            batch.records.insert(key, record);
        }
    }
    for found in homed? {
        batch.homed.extend(NameKey::from_prefix(&row::utf8(row::column(&found, 0)?)?));
    }
    for found in aux? {
        let (key, value): (&[u8], &[u8]) = (row::column(&found, 0)?, row::column(&found, 1)?);
        batch.aux.insert(key.into(), value.into());
    }
    Ok((batch, commit))
}

/// Reads the rows of keys; sends nothing without keys.
async fn query_keys(
    client: &Object,
    statement: &Statement,
    keys: &[&[u8]],
) -> Result<Vec<Row>, DatabaseError> {
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let (mut rows, mut bytes_left) = (Vec::new(), MAX_PREFETCH_BYTES);
    let mut found = pin!(client.query_raw(statement, [&keys]).await?);
    while let Some(row) = found.try_next().await? {
        bytes_left = bytes_left.checked_sub(row.raw_size_bytes()).ok_or(DatabaseError::PrefetchTooLarge)?;
        rows.push(row);
    }
    Ok(rows)
}

/// Statements sent without waiting for earlier results.
struct Pipeline<'c> {
    client: &'c Object,
    sent: Vec<BoxFuture<'c, Result<(), Error>>>,
}

impl<'c> Pipeline<'c> {
    fn push<const N: usize>(&mut self, statement: &'c Statement, parameters: [&'c (dyn ToSql + Sync); N]) {
        let client = self.client;
        self.sent.push(Box::pin(async move { client.execute(statement, &parameters).await.map(drop) }));
    }
}

/// Sends all writes and the commit as a pipeline. If a statement fails, the final `commit` rolls back.
async fn write_and_commit(
    client: &Object,
    statements: &[Statement],
    batch: &WriteBatch,
    commit: &CommitId,
) -> Result<(), DatabaseError> {
    let [insert_id, delete_id, counters, put, remove, insert_history, log, home, unhome, put_aux, remove_aux] =
        statements
    else {
        return Err(DatabaseError::PoolClosed);
    };
    let (revision, sequence) = (row::to_i64(batch.revision), row::to_i64(batch.sequence));
    let expired = commit.number - RETAINED_COMMIT_IDS;
    let records = RecordColumns::new(batch);
    let log_entries = LogColumns::new(batch.log_entries.iter().map(|(log_entry, _)| log_entry));
    let history = HistoryColumns::new(batch);
    let is_homed = |prefix: &&NameKey| batch.homed.contains(*prefix);
    let (homed, unhomed): (Vec<&NameKey>, Vec<&NameKey>) = batch.changed_homed.iter().partition(is_homed);
    let homed: Vec<&[u8]> = homed.into_iter().map(NameKey::as_bytes).collect();
    let unhomed: Vec<&[u8]> = unhomed.into_iter().map(NameKey::as_bytes).collect();
    let (mut aux_keys, mut aux_values, mut removed_aux) = (Vec::new(), Vec::new(), Vec::new());
    for key in &batch.changed_aux {
        match batch.aux.get(key) {
            Some(value) => {
                aux_keys.push(&**key);
                aux_values.push(&**value);
            }
            None => removed_aux.push(&**key),
        }
    }

    let mut pipeline = Pipeline { client, sent: Vec::new() };
    pipeline.push(insert_id, [&commit.number, &commit.id]);
    pipeline.push(delete_id, [&expired]);
    pipeline.push(counters, [&revision, &sequence, &commit.number]);
    if !records.keys.is_empty() {
        let RecordColumns { keys, names, revisions, statuses, bodies, registrations, .. } = &records;
        pipeline.push(put, [keys, names, revisions, statuses, bodies, registrations]);
    }
    if !records.removed.is_empty() {
        pipeline.push(remove, [&records.removed]);
    }
    if !history.keys.is_empty() {
        let HistoryColumns { keys, sequences, names, revisions, statuses, bodies, registrations } = &history;
        pipeline.push(insert_history, [keys, sequences, names, revisions, statuses, bodies, registrations]);
    }
    if !log_entries.sequences.is_empty() {
        let LogColumns { sequences, revisions, timestamps, authors, kinds, names, record_counts } =
            &log_entries;
        pipeline.push(log, [sequences, revisions, timestamps, authors, kinds, names, record_counts]);
    }
    if !homed.is_empty() {
        pipeline.push(home, [&homed]);
    }
    if !unhomed.is_empty() {
        pipeline.push(unhome, [&unhomed]);
    }
    if !aux_keys.is_empty() {
        pipeline.push(put_aux, [&aux_keys, &aux_values]);
    }
    if !removed_aux.is_empty() {
        pipeline.push(remove_aux, [&removed_aux]);
    }
    pipeline.sent.push(Box::pin(client.batch_execute("commit")));
    // Awaits all in order; the first error is the cause.
    join_all(pipeline.sent).await.into_iter().collect::<Result<(), Error>>()?;
    Ok(())
}
