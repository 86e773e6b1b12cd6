//! Bulk import: records are sorted, sent by COPY to a temporary table, and written from there under the write lock, in
//! transactions short enough for other writers.
//!
//! All checks run under the lock, so they see earlier commits of others, and later ones see the import. Only short statements
//! are sent while the lock is held, so that a stalled import or connection blocks others no longer than the server's timeout.

use std::collections::BTreeSet;
use std::io::Cursor;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{ClientWrapper, Object};
use futures_util::SinkExt as _;
use futures_util::future::join;
use tendot_proto::HandleValue;
use tokio::time::sleep;
use tokio_postgres::{Error, Row};

use super::cluster::Cluster;
use super::cluster::timeline::SELECT_TIMELINE;
use super::error::{DatabaseError, with_timeout};
use super::read::SqlParameters;
use super::write::columns::{LogColumns, SqlParameter};
use super::write::statements::{
    BEGIN_READ_COMMITTED, INSERT_HOMED, INSERT_LOG, LOCK_COUNTERS, RECORD_COMMIT, SELECT_HOMED,
};
use super::write::transaction::{CommitParameters, LockedCounters};
use super::{PostgresStore, import_dir, row};
use crate::import::MAX_REPORTED_TOMBSTONES;
use crate::import::import_buffer::ImportBuffer;
use crate::import::merge::{RawRecord, RunMerge};
use crate::model::name_key::storage_key;
use crate::model::{history, values_codec};
use crate::{EditKind, ImportBatch, ImportError, ImportSummary, LogEntry, NameKey, StoreError, StoreHead};

/// Default number of records per transaction, and maximum size of a transaction.
const DEFAULT_RECORDS_PER_TRANSACTION: u64 = 100_000;
const MAX_TRANSACTION_BYTES: usize = 64 << 20;

/// Size of a COPY message.
const COPY_CHUNK_BYTES: usize = 1 << 16;

/// Maximum number of attempts on write conflicts, and the delay between them.
const MAX_ATTEMPTS: u32 = 8;
const RETRY_DELAY: Duration = Duration::from_millis(50);

/// Replaced records per check for secrets.
const SECRET_CHECK_BATCH: usize = 100;

const OPERATION: &str = "importing records";

// Temporary, so that nothing remains however the import ends. No statement timeout, since the client may send slowly.
const CREATE_STAGING_TABLE: &str = "set statement_timeout = 0; create temporary table if not exists tendot_import \
     (name_key bytea not null, name bytea not null, body bytea not null)";

const TRUNCATE_STAGING: &str = "truncate tendot_import";

const COPY_STAGING: &str = "copy tendot_import (name_key, name, body) from stdin (format binary)";

// With the key range, since otherwise some plans scan all records before it.
const COUNT_EXISTING: &str = "select count(*), count(*) filter (where r.status = 1), \
     count(*) filter (where r.status = 0 and r.body = s.body) \
     from tendot_import s join tendot_records r on r.name_key = s.name_key where r.name_key between $1 and $2";

const SELECT_TOMBSTONED_NAMES: &str = "select r.name from tendot_import s join tendot_records r on r.name_key = s.name_key \
     where r.name_key between $1 and $2 and r.status = 1 order by r.name_key limit $3";

const INSERT_HISTORY: &str = "insert into tendot_history (name_key, sequence, name, revision, status, body, registration) \
     select r.name_key, $3::bigint, r.name, r.revision, r.status, r.body, r.registration \
     from tendot_import s join tendot_records r on r.name_key = s.name_key \
     where r.name_key between $1 and $2 and r.status = 0 and r.body <> s.body";

// Records that may have a value of this type, in any case.
const SELECT_POSSIBLE_SECRETS: &str = "select h.name_key from tendot_import s join tendot_history h \
     on h.name_key = s.name_key and h.sequence = $3 \
     where h.name_key between $1 and $2 and upper(encode(h.body, 'escape')) like '%HS_SECKEY%'";

const SELECT_HISTORY_ROWS: &str = "select name, revision, status, body, registration, name_key from tendot_history \
     where name_key = any($1) and sequence = $2";

const UPDATE_HISTORY_BODY: &str = "update tendot_history set body = $3 where name_key = $1 and sequence = $2";

const INSERT_RECORDS: &str = "insert into tendot_records (name_key, name, revision, status, body, registration) \
     select name_key, name, $1::bigint, 0::smallint, body, ''::bytea from tendot_import";

// Imports have no registrations; existing ones and the first spelling stay.
const UPSERT_RECORDS: &str = "insert into tendot_records (name_key, name, revision, status, body, registration) \
     select name_key, name, $1::bigint, 0::smallint, body, ''::bytea from tendot_import \
     on conflict (name_key) do update set revision = excluded.revision, body = excluded.body \
     where tendot_records.status = 0 and tendot_records.body <> excluded.body";

const INSERT_IMPORT_LOG: &str = "insert into tendot_log (sequence, revision, timestamp_ms, author, kind, name, record_count, \
     previous_hash, content_digest, first_key, last_key) select l.*, $10::bytea, $11::bytea from \
     unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bytea[], $5::smallint[], $6::bytea[], $7::bigint[], \
     $8::bytea[], $9::bytea[]) l";

impl PostgresStore {
    /// Starts an import; this store and others may write meanwhile.
    pub fn start_import(&self, author: &str, timestamp_ms: u64) -> Result<PostgresImporter, ImportError> {
        let io_error =
            |error| StoreError::Backend { operation: "creating the sort directory", error: Box::new(error) };
        let buffer = import_dir::create_buffer().map_err(io_error)?;
        let timeout = self.request_timeout();
        let cluster = Arc::clone(&self.cluster);
        Ok(PostgresImporter {
            cluster,
            author: author.into(),
            timestamp_ms,
            records_per_transaction: DEFAULT_RECORDS_PER_TRANSACTION,
            timeout,
            buffer,
        })
    }
}

/// Bulk import into a PostgreSQL store; others may write meanwhile.
///
/// Of records with equal names the last one counts; unchanged records are not written. Records are written in key order in
/// transactions of up to 100,000, each with its own revision and log entry. After an interruption, committed transactions stay,
/// and repeating the import writes the rest.
///
/// A concurrent commit is ordered either before a transaction of the import, which then replaces the record and adds it to the
/// history, or after it.
///
/// ```no_run
/// use tendot_proto::HandleValue;
/// use tendot_store::{PostgresStore, PostgresSettings};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let store = PostgresStore::open("postgres://tendot@db.example.org/tendot", &PostgresSettings::default()).await?;
/// let mut importer = store.start_import("operator", 1_700_000_000_000)?;
/// importer.add("10.1000/1".into(), &[HandleValue::new(1, "URL", "https://example.org/1")])?;
/// importer.home_prefix("10.1000")?;
/// assert_eq!(importer.finish(|_| {}).await?.created, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct PostgresImporter {
    /// Hosts of the store. Connections are opened in `finish`, perhaps hours later.
    cluster: Arc<Cluster>,
    author: Box<str>,
    timestamp_ms: u64,
    records_per_transaction: u64,
    /// Timeout of a request.
    timeout: Duration,
    buffer: ImportBuffer,
}

impl PostgresImporter {
    /// Sets the bytes of records kept in memory before a run is written.
    #[must_use]
    pub fn buffer_bytes(mut self, bytes: usize) -> Self {
        self.buffer.max_buffer_bytes = bytes;
        self
    }

    /// Sets the number of records per transaction.
    #[must_use]
    pub fn records_per_transaction(mut self, records: u64) -> Self {
        self.records_per_transaction = records.max(1);
        self
    }

    /// Adds a record. Nothing is written before [`finish`](Self::finish).
    pub fn add(&mut self, name: Box<str>, values: &[HandleValue<'_>]) -> Result<(), ImportError> {
        self.buffer.add(&name, values)
    }

    /// Adds the records of a batch, after those added before.
    pub fn add_batch(&mut self, batch: &ImportBatch) -> Result<(), ImportError> {
        self.buffer.add_batch(batch)
    }

    /// Homes a prefix when the import is written.
    pub fn home_prefix(&mut self, prefix: &str) -> Result<(), ImportError> {
        self.buffer.home_prefix(prefix)
    }

    /// Writes all records. `progress` is called after each transaction.
    pub async fn finish(
        mut self,
        mut progress: impl FnMut(&ImportSummary),
    ) -> Result<ImportSummary, ImportError> {
        let mut homed = std::mem::take(&mut self.buffer.homed);
        let clients = [self.connect_staging().await?, self.connect_staging().await?];
        let (mut merge, superseded) = self.buffer.merge()?;
        let [mut current, mut other] = clients.each_ref().map(|client| ImportWriter {
            client,
            cluster: &self.cluster,
            author: &self.author,
            timestamp_ms: self.timestamp_ms,
            timeout: self.timeout,
        });
        let mut summary = ImportSummary { superseded, ..ImportSummary::default() };
        let mut staged = current.stage_records(&mut merge, self.records_per_transaction).await?;
        loop {
            summary.superseded += std::mem::take(&mut merge.superseded);
            if staged.records == 0 && homed.is_empty() {
                progress(&summary);
                return Ok(summary);
            }
            let names_left = MAX_REPORTED_TOMBSTONES.saturating_sub(summary.tombstoned_names.len());
            // The next records are staged on the other connection meanwhile.
            let (written, next) = join(
                current.write_staged(&staged, &homed, names_left),
                other.stage_records(&mut merge, self.records_per_transaction),
            )
            .await;
            summary.merge(written?);
            homed.clear();
            progress(&summary);
            staged = next?;
            std::mem::swap(&mut current, &mut other);
        }
    }

    /// Opens a connection with a staging table; it is not returned to the pool.
    async fn connect_staging(&self) -> Result<ClientWrapper, StoreError> {
        let client = Object::take(
            self.cluster.primary().map_err(store_error)?.read_connection().await.map_err(store_error)?,
        );
        let created = with_timeout(self.timeout, client.batch_execute(CREATE_STAGING_TABLE)).await;
        created.map(|()| client).map_err(store_error)
    }
}

/// Records in the temporary table, and their key range.
#[derive(Debug, Default)]
struct StagedRecords {
    records: u64,
    first: Vec<u8>,
    last: Vec<u8>,
}

/// Writes the transactions of an import.
struct ImportWriter<'a> {
    client: &'a ClientWrapper,
    cluster: &'a Cluster,
    author: &'a str,
    timestamp_ms: u64,
    timeout: Duration,
}

impl ImportWriter<'_> {
    /// Sends the next records to the staging table.
    async fn stage_records(
        &self,
        merge: &mut RunMerge<'_>,
        records_per_transaction: u64,
    ) -> Result<StagedRecords, ImportError> {
        let mut staged = StagedRecords::default();
        self.with_timeout(self.client.batch_execute(TRUNCATE_STAGING)).await.map_err(store_error)?;
        let mut sink = pin!(
            self.with_timeout(self.client.copy_in::<_, Cursor<Vec<u8>>>(COPY_STAGING))
                .await
                .map_err(store_error)?
        );
        let mut chunk = COPY_HEADER.to_vec();
        let mut bytes = 0;
        while staged.records < records_per_transaction
            && bytes < MAX_TRANSACTION_BYTES
            && let Some(RawRecord { name, values }) = merge.next()?
        {
            let text = std::str::from_utf8(name).map_err(|_| corrupt_run(name))?;
            let key = NameKey::new(text)?;
            let key = storage_key(&key);
            chunk.extend(COPY_FIELD_COUNT.to_be_bytes());
            for field in [&*key, name, values] {
                // Fields have at most a few MiB.
                chunk.extend((field.len() as u32).to_be_bytes());
                chunk.extend_from_slice(field);
            }
            bytes += key.len() + name.len() + values.len();
            staged.records += 1;
            if staged.records == 1 || *key < *staged.first {
                staged.first = key.to_vec();
            }
            // Storage keys of long names are not in key order.
            if *key > *staged.last {
                staged.last.clear();
                staged.last.extend_from_slice(&key);
            }
            if chunk.len() >= COPY_CHUNK_BYTES {
                let full = std::mem::replace(
                    &mut chunk,
                    Vec::with_capacity(COPY_CHUNK_BYTES + COPY_CHUNK_BYTES / 8),
                );
                self.with_timeout(sink.send(Cursor::new(full))).await.map_err(store_error)?;
            }
        }
        chunk.extend(COPY_TRAILER.to_be_bytes());
        self.with_timeout(sink.send(Cursor::new(chunk))).await.map_err(store_error)?;
        self.with_timeout(sink.finish()).await.map_err(store_error)?;
        Ok(staged)
    }

    /// Writes the staged records in one transaction, after homing prefixes; retries on write conflicts, which roll everything
    /// back.
    async fn write_staged(
        &self,
        staged: &StagedRecords,
        homed: &BTreeSet<NameKey>,
        names_left: usize,
    ) -> Result<ImportSummary, ImportError> {
        let mut attempts = 1;
        loop {
            let written = self.try_write(staged, homed, names_left).await;
            let error = match written {
                Ok(summary) => match self.commit().await? {
                    None => return Ok(summary),
                    Some(error) => error,
                },
                Err(error) => error,
            };
            if attempts == MAX_ATTEMPTS || !error.is_write_conflict() {
                return Err(store_error(error).into());
            }
            attempts += 1;
            self.with_timeout(self.client.batch_execute("rollback")).await.map_err(store_error)?;
            sleep(RETRY_DELAY * attempts).await;
        }
    }

    /// Commits; returns the error if the transaction was certainly rolled back.
    async fn commit(&self) -> Result<Option<DatabaseError>, StoreError> {
        match self.with_timeout(self.client.batch_execute("commit")).await {
            Ok(()) => Ok(None),
            Err(DatabaseError::Sql(error)) if error.code().is_some() => Ok(Some(error.into())),
            Err(error) => Err(StoreError::InDoubt {
                reason: format!("{error}; run the same import again to finish it"),
            }),
        }
    }

    async fn try_write(
        &self,
        staged: &StagedRecords,
        homed: &BTreeSet<NameKey>,
        names_left: usize,
    ) -> Result<ImportSummary, DatabaseError> {
        self.with_timeout(self.client.batch_execute(BEGIN_READ_COMMITTED)).await?;
        let counters = LockedCounters::from_row(&self.query_one(LOCK_COUNTERS, &[]).await?)?;
        if counters.timeline.is_some() {
            counters.check_timeline(&self.query_one(SELECT_TIMELINE, &[]).await?, self.cluster)?;
        }
        let timestamp_ms = counters.clamp_timestamp(self.timestamp_ms);
        let LockedCounters { mut head, commit, .. } = counters;
        let (before, revision) = (head.sequence, head.revision + 1);
        self.home_prefixes(homed, (revision, timestamp_ms), &mut head).await?;

        let (first, last) = (&staged.first, &staged.last);
        let found = self.query_one(COUNT_EXISTING, &[first, last]).await?;
        let count = |column| Ok::<_, StoreError>(row::to_u64(row::column(&found, column)?));
        let (existing, tombstoned, unchanged) = (count(0)?, count(1)?, count(2)?);
        let (created, changed) =
            (staged.records.saturating_sub(existing), existing.saturating_sub(tombstoned + unchanged));
        let mut summary =
            ImportSummary { created, changed, unchanged, tombstoned, ..ImportSummary::default() };
        if tombstoned > 0 && names_left > 0 {
            let names_left = row::limit_to_i64(names_left);
            for row in self.query(SELECT_TOMBSTONED_NAMES, &[first, last, &names_left]).await? {
                summary.tombstoned_names.push(row::utf8(row::column(&row, 0)?)?);
            }
        }
        if created + changed > 0 {
            let mut entry = self.log_entry((revision, timestamp_ms), EditKind::Import, "");
            entry.record_count = created + changed;
            head.append(&mut entry, &mut Vec::new());
            if changed > 0 {
                self.write_history(staged, row::to_i64(entry.sequence)).await?;
            }
            let write = if existing == 0 { INSERT_RECORDS } else { UPSERT_RECORDS };
            self.execute(write, &[&row::to_i64(revision)]).await?;
            let columns = LogColumns::new([&entry]);
            let mut parameters = columns.parameters().to_vec();
            parameters.extend([first as SqlParameter<'_>, last]);
            self.execute(INSERT_IMPORT_LOG, &parameters).await?;
        }
        if head.sequence > before {
            head.revision = revision;
            self.execute(RECORD_COMMIT, &CommitParameters::new(&head, timestamp_ms, &commit).values())
                .await?;
        }
        Ok(summary)
    }

    fn log_entry(&self, (revision, timestamp_ms): (u64, u64), kind: EditKind, name: &str) -> LogEntry {
        LogEntry::new(self.author, timestamp_ms, revision, kind, name.into())
    }

    /// Homes new prefixes and logs them, with this revision and time.
    async fn home_prefixes(
        &self,
        homed: &BTreeSet<NameKey>,
        revision: (u64, u64),
        head: &mut StoreHead,
    ) -> Result<(), DatabaseError> {
        let keys: Vec<&[u8]> = homed.iter().map(NameKey::as_bytes).collect();
        if keys.is_empty() {
            return Ok(());
        }
        let mut known = BTreeSet::new();
        for row in self.query(SELECT_HOMED, &[&keys]).await? {
            known.insert(row::column::<&[u8]>(&row, 0)?.to_vec());
        }
        let mut new = homed.clone();
        new.retain(|prefix| !known.contains(prefix.as_bytes()));
        if new.is_empty() {
            return Ok(());
        }
        let keys: Vec<&[u8]> = new.iter().map(NameKey::as_bytes).collect();
        self.execute(INSERT_HOMED, &[&keys]).await?;
        let mut content = Vec::new();
        let append = |prefix: &NameKey| {
            let mut entry = self.log_entry(revision, EditKind::Home, &prefix.to_string());
            head.append(&mut entry, &mut content);
            entry
        };
        let entries: Vec<LogEntry> = new.iter().map(append).collect();
        self.execute(INSERT_LOG, &LogColumns::new(&entries).parameters()).await?;
        Ok(())
    }

    /// Copies the records to be replaced to the history, without secrets.
    async fn write_history(&self, staged: &StagedRecords, sequence: i64) -> Result<(), DatabaseError> {
        let (first, last) = (&staged.first, &staged.last);
        self.execute(INSERT_HISTORY, &[first, last, &sequence]).await?;
        let keys = self.query(SELECT_POSSIBLE_SECRETS, &[first, last, &sequence]).await?;
        let keys = keys.iter().map(|row| row::column(row, 0)).collect::<Result<Vec<&[u8]>, _>>()?;
        for keys in keys.chunks(SECRET_CHECK_BATCH) {
            for found in self.query(SELECT_HISTORY_ROWS, &[&keys, &sequence]).await? {
                let redacted = row::record(&found, 0)?.as_ref().and_then(history::redact_secrets);
                let Some(record) = redacted else { continue };
                let key: &[u8] = row::column(&found, 5)?;
                self.execute(UPDATE_HISTORY_BODY, &[&key, &sequence, &values_codec::encode(&record.values)])
                    .await?;
            }
        }
        Ok(())
    }

    async fn query_one(&self, sql: &str, parameters: SqlParameters<'_>) -> Result<Row, DatabaseError> {
        self.with_timeout(async {
            self.client.query_one(&self.client.prepare_cached(sql).await?, parameters).await
        })
        .await
    }

    async fn query(&self, sql: &str, parameters: SqlParameters<'_>) -> Result<Vec<Row>, DatabaseError> {
        self.with_timeout(async {
            self.client.query(&self.client.prepare_cached(sql).await?, parameters).await
        })
        .await
    }

    async fn execute(&self, sql: &str, parameters: SqlParameters<'_>) -> Result<u64, DatabaseError> {
        self.with_timeout(async {
            self.client.execute(&self.client.prepare_cached(sql).await?, parameters).await
        })
        .await
    }

    async fn with_timeout<T>(
        &self,
        request: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, DatabaseError> {
        with_timeout(self.timeout, request).await
    }
}

fn store_error(error: DatabaseError) -> StoreError {
    error.into_store_error(OPERATION)
}

fn corrupt_run(name: &[u8]) -> StoreError {
    StoreError::Corrupt { detail: format!("import run, at `{}`", name.escape_ascii()) }
}

/// Header of PostgreSQL's binary COPY format: signature, no flags, no extension.
const COPY_HEADER: [u8; 19] = *b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";

/// Field count of each row, and the end marker.
const COPY_FIELD_COUNT: i16 = 3;
const COPY_TRAILER: i16 = -1;
