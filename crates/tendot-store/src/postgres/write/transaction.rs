//! One write transaction in two round trips: lock and prefetch; write and commit. Also resolves in-doubt transactions.

use std::pin::pin;

use deadpool_postgres::{ClientWrapper, Object};
use futures_util::TryStreamExt as _;
use futures_util::future::{BoxFuture, join, join_all, join3};
use tokio_postgres::{Error, Row, Statement};

use super::columns::{HistoryColumns, LogColumns, RecordColumns, RedactionColumns, SqlParameter};
use super::statements::{
    BEGIN_READ_COMMITTED, LOCK_COUNTERS, PrefetchStatements, RETAINED_COMMIT_IDS, SELECT_COMMIT_ID,
    SELECT_MISSING_PRIVILEGE, WriteStatements,
};
use super::write_batch::{PrefetchKeys, WriteBatch};
use crate::memory_state::MemoryState;
use crate::model::name_key::storage_key;
use crate::postgres::cluster::host::CommitId;
use crate::postgres::cluster::timeline::{HostTimeline, SELECT_TIMELINE, Timeline, recorded_timeline};
use crate::postgres::cluster::{Cluster, PrimaryHandle};
use crate::postgres::error::DatabaseError;
use crate::postgres::row;
use crate::write_queue::CommitResults;
use crate::{ChangeSet, NameKey, StoreError, StoreHead};

/// Maximum size of the records prefetched for a group.
const MAX_PREFETCH_BYTES: usize = 256 << 20;

/// Maximum milliseconds by which a log entry may be ahead of the database clock. A larger difference is a wrong clock and must not
/// shift all later entries.
const MAX_CLOCK_LEAD_MS: u64 = 60_000;

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
        let (read, write) =
            tokio::try_join!(PrefetchStatements::prepare(client), WriteStatements::prepare(client))?;
        let keys = PrefetchKeys::of(changes.iter().copied());
        let state = lock_and_prefetch(client, &read, keys, primary).await?;
        Ok::<_, TxError>((write, state))
    };
    // On timeout the lock is held until the server notices, but nothing was written.
    let (write, (mut batch, commit)) = primary.with_timeout(prefetch).await??;
    let results = changes.iter().map(|change| batch.apply_change_set(change)).collect();
    let group = CommittedGroup { results, last_sequence: batch.state.head.sequence };
    if batch.is_empty() {
        primary.with_timeout(client.batch_execute("rollback")).await??;
        return Ok(group);
    }
    primary.check_timeline()?;
    let committed = primary.with_timeout(write_and_commit(client, &write, &batch, &commit)).await.flatten();
    // Not acknowledged if a promotion was seen meanwhile: the new primary may not have it.
    match committed.and_then(|()| primary.check_timeline()) {
        Ok(()) => Ok(group),
        Err(error) => Err(TxError::InDoubt { commit, group, error }),
    }
}

/// Resolves an in-doubt transaction. It held the lock, so this waits until it has ended. The commit may be known only to this
/// host, which failed while waiting for standbys; so this writes too, and when that is durable everything before it is.
pub(crate) async fn is_committed(
    client: &ClientWrapper,
    commit: &CommitId,
    cluster: &Cluster,
) -> Result<bool, DatabaseError> {
    client.batch_execute(BEGIN_READ_COMMITTED).await?;
    let counters = LockedCounters::from_row(&client.query_one(LOCK_COUNTERS, &[]).await?)?;
    if counters.timeline.is_some() {
        counters.check_timeline(&client.query_one(SELECT_TIMELINE, &[]).await?, cluster)?;
    }
    // Its commit id has been deleted by now.
    if commit.number < counters.commit.number - RETAINED_COMMIT_IDS {
        return Err(DatabaseError::CommitIdExpired);
    }
    let found = client.query_opt(SELECT_COMMIT_ID, &[&commit.number]).await?;
    client.batch_execute("update tendot_counters set commits = commits where id = 1; commit").await?;
    Ok(found.is_some_and(|row| row.try_get::<_, &str>(0).is_ok_and(|id| id == commit.id)))
}

/// Row of [`LOCK_COUNTERS`].
pub(crate) struct LockedCounters {
    /// Head of the log.
    pub(crate) head: StoreHead,
    /// Id of the commit to be made.
    pub(crate) commit: CommitId,
    /// Highest timeline that a server has recorded; `None` if the database has no timelines.
    pub(crate) timeline: Option<Timeline>,
    /// Time of the last log entry.
    pub(crate) timestamp_ms: u64,
    /// Latest time of a new log entry: that of the database, with a tolerance.
    pub(crate) max_timestamp_ms: u64,
}

impl LockedCounters {
    pub(crate) fn from_row(row: &Row) -> Result<Self, StoreError> {
        Ok(Self {
            head: row::head(row, 0)?,
            commit: CommitId { number: row::column::<i64>(row, 3)? + 1, id: row::column(row, 4)? },
            timeline: recorded_timeline(row, 5)?,
            timestamp_ms: row::to_u64(row::column::<Option<i64>>(row, 6)?.unwrap_or(0)),
            max_timestamp_ms: row::to_u64(row::column(row, 7)?).saturating_add(MAX_CLOCK_LEAD_MS),
        })
    }

    /// Fails if a promotion has superseded the host: by the timeline that a server has recorded in it, or that this one has seen.
    /// `row`: result of [`SELECT_TIMELINE`].
    pub(crate) fn check_timeline(&self, row: &Row, cluster: &Cluster) -> Result<(), DatabaseError> {
        let host = HostTimeline::from_row(row)?.current;
        let is_superseded =
            |host: Timeline| self.timeline.is_some_and(|recorded| host.is_superseded_by(recorded));
        if host.is_some_and(is_superseded) {
            Err(DatabaseError::Superseded)
        } else {
            cluster.check_timeline(host)
        }
    }

    /// Clamps a timestamp: not before the last log entry, not far ahead of the database clock.
    pub(crate) fn clamp_timestamp(&self, timestamp_ms: u64) -> u64 {
        timestamp_ms.min(self.max_timestamp_ms).max(self.timestamp_ms)
    }
}

/// Parameters of [`RECORD_COMMIT`](super::statements::RECORD_COMMIT).
pub(crate) struct CommitParameters<'a> {
    revision: i64,
    sequence: i64,
    log_hash: &'a [u8],
    commit: &'a CommitId,
    expired: i64,
    timestamp_ms: i64,
}

impl<'a> CommitParameters<'a> {
    /// Parameters for a transaction that leaves this head and time of the last log entry, and has this id.
    pub(crate) fn new(head: &'a StoreHead, timestamp_ms: u64, commit: &'a CommitId) -> Self {
        let StoreHead { revision, sequence, log_hash } = head;
        Self {
            revision: row::to_i64(*revision),
            sequence: row::to_i64(*sequence),
            log_hash: &log_hash.0,
            commit,
            expired: commit.number - RETAINED_COMMIT_IDS,
            timestamp_ms: timestamp_ms.cast_signed(),
        }
    }

    pub(crate) fn values(&self) -> [SqlParameter<'_>; 7] {
        let Self { revision, sequence, log_hash, commit, expired, timestamp_ms } = self;
        [revision, sequence, log_hash, &commit.number, &commit.id, expired, timestamp_ms]
    }
}

/// Takes the lock and reads the current state.
async fn lock_and_prefetch(
    client: &Object,
    statements: &PrefetchStatements,
    keys: PrefetchKeys,
    primary: &PrimaryHandle<'_>,
) -> Result<(WriteBatch, CommitId), TxError> {
    let storage_keys: Vec<_> = keys.records.iter().map(storage_key).collect();
    let storage_keys: Vec<&[u8]> = storage_keys.iter().map(|key| &**key).collect();
    let prefixes: Vec<&[u8]> = keys.prefixes.iter().map(NameKey::as_bytes).collect();
    let aux_keys: Vec<&[u8]> = keys.aux.iter().map(|key| &**key).collect();
    let timeline_statement = match primary.timeline {
        Some(_) => Some(client.prepare_cached(SELECT_TIMELINE).await?),
        None => None,
    };
    let query_timeline = async {
        match &timeline_statement {
            Some(statement) => client.query_one(statement, &[]).await.map(Some),
            None => Ok(None),
        }
    };
    let ((begun, locked, timeline), (records, homed, aux)) = join(
        join3(
            client.batch_execute(BEGIN_READ_COMMITTED),
            client.query_one(&statements.lock, &[]),
            query_timeline,
        ),
        join3(
            query_keys(client, &statements.records, &storage_keys),
            query_keys(client, &statements.homed, &prefixes),
            query_keys(client, &statements.aux, &aux_keys),
        ),
    )
    .await;
    begun?;
    let counters = LockedCounters::from_row(&locked?)?;
    if let Some(timeline) = timeline? {
        counters.check_timeline(&timeline, primary.cluster)?;
    }
    let LockedCounters { head, commit, timestamp_ms, max_timestamp_ms, .. } = counters;
    let mut state = MemoryState { head, timestamp_ms, ..MemoryState::default() };
    for found in records? {
        let Some(record) = row::record(&found, 0)? else { continue };
        // Two long names could have the same storage key; only one of them is stored.
        if let Some(key) = NameKey::new(&record.name).ok().filter(|key| keys.records.contains(key)) {
            state.records.insert(key, record);
        }
    }
    for found in homed? {
        state.homed.extend(NameKey::from_prefix(&row::utf8(row::column(&found, 0)?)?));
    }
    for found in aux? {
        let (key, value): (&[u8], &[u8]) = (row::column(&found, 0)?, row::column(&found, 1)?);
        state.aux.insert(key.into(), value.into());
    }
    Ok((WriteBatch { state, max_timestamp_ms, ..WriteBatch::default() }, commit))
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
    /// Sends a statement if it is needed.
    fn push<const N: usize>(
        &mut self,
        is_needed: bool,
        statement: &'c Statement,
        parameters: [SqlParameter<'c>; N],
    ) {
        if !is_needed {
            return;
        }
        let client = self.client;
        self.sent.push(Box::pin(async move { client.execute(statement, &parameters).await.map(drop) }));
    }
}

/// Sends all writes and the commit as a pipeline. If a statement fails, the final `commit` rolls back.
async fn write_and_commit(
    client: &Object,
    statements: &WriteStatements,
    batch: &WriteBatch,
    commit: &CommitId,
) -> Result<(), DatabaseError> {
    let state = &batch.state;
    let end = CommitParameters::new(&state.head, state.timestamp_ms, commit);
    let records = RecordColumns::new(batch.changed_records.iter().map(|key| (key, state.records.get(key))));
    let log_entries = LogColumns::new(batch.log_entries.iter().map(|(log_entry, _)| log_entry));
    let history = HistoryColumns::new(batch.log_entries.iter().filter_map(|(log_entry, prior)| {
        prior.as_ref().map(|(key, prior)| (key, log_entry.sequence, prior))
    }));
    let redactions = RedactionColumns::new(&batch.redactions);
    let is_homed = |prefix: &&NameKey| state.homed.contains(*prefix);
    let (homed, unhomed): (Vec<&NameKey>, Vec<&NameKey>) = batch.changed_homed.iter().partition(is_homed);
    let homed: Vec<&[u8]> = homed.into_iter().map(NameKey::as_bytes).collect();
    let unhomed: Vec<&[u8]> = unhomed.into_iter().map(NameKey::as_bytes).collect();
    let (mut aux_keys, mut aux_values, mut removed_aux) = (Vec::new(), Vec::new(), Vec::new());
    for key in &batch.changed_aux {
        match state.aux.get(key) {
            Some(value) => {
                aux_keys.push(&**key);
                aux_values.push(&**value);
            }
            None => removed_aux.push(&**key),
        }
    }

    let mut pipeline = Pipeline { client, sent: Vec::new() };
    pipeline.push(true, &statements.record_commit, end.values());
    pipeline.push(!records.is_empty(), &statements.upsert_records, records.parameters());
    pipeline.push(!records.removed.is_empty(), &statements.delete_records, [&records.removed]);
    pipeline.push(!history.is_empty(), &statements.insert_history, history.parameters());
    pipeline.push(!redactions.is_empty(), &statements.redact_history, redactions.parameters());
    pipeline.push(!log_entries.is_empty(), &statements.insert_log, log_entries.parameters());
    pipeline.push(!homed.is_empty(), &statements.insert_homed, [&homed]);
    pipeline.push(!unhomed.is_empty(), &statements.delete_homed, [&unhomed]);
    pipeline.push(!aux_keys.is_empty(), &statements.upsert_aux, [&aux_keys, &aux_values]);
    pipeline.push(!removed_aux.is_empty(), &statements.delete_aux, [&removed_aux]);
    pipeline.sent.push(Box::pin(client.batch_execute("commit")));
    // Awaits all in order; the first error is the cause.
    join_all(pipeline.sent).await.into_iter().collect::<Result<(), Error>>()?;
    Ok(())
}
