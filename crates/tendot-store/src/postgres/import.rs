//! Many records at once: sorted first, then sent by COPY to a table of this connection alone, and from there written under the
//! lock, so many at a time that nobody else who writes waits for long.
//!
//! What is judged, is judged under the lock: what others committed before is there, and what they commit afterwards finds the
//! records of the import. Nothing is sent while the lock is held but short statements, so that an import that stops, or whose
//! connection does, keeps nobody out for longer than the server waits for it.

use std::collections::BTreeSet;
use std::io::Cursor;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{ClientWrapper, Object};
use futures_util::SinkExt as _;
use futures_util::future::join;
use tendot_proto::Value;
use tokio::time::{sleep, timeout};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row};

use super::error::Failure;
use super::nodes::Cluster;
use super::transaction::{self, FORGET_NUMBER, NUMBER};
use super::{Postgres, row, values};
use crate::embedded::gather::Gathered;
use crate::embedded::import::ENDED;
use crate::embedded::key::record_key;
use crate::embedded::run::RunMerge;
use crate::embedded::{Batch, ImportError, ImportSummary};
use crate::{EditKind, Key, StoreError, history};

/// Records that are written in one transaction, unless told otherwise, and their bytes.
const TOGETHER: u64 = 100_000;
const TOGETHER_BYTES: usize = 64 << 20;

/// Bytes that are sent in one message.
const CHUNK: usize = 1 << 16;

/// How often a transaction is tried if others are in the way.
const TRIES: u32 = 8;
const PAUSE: Duration = Duration::from_millis(50);

/// Old records that are looked through for secrets together.
const SECRET_CHECK_BATCH: usize = 100;

const DOING: &str = "importing records";

// Of this connection alone, so that nothing is left of it, however the import ends. How long one statement takes is for the
// client to say, since it may send slowly.
const CREATE_STAGING_TABLE: &str = "set statement_timeout = 0; create temporary table if not exists tendot_import \
     (name_key bytea not null, name bytea not null, body bytea not null)";

const EMPTY: &str = "truncate tendot_import";

const COPY_STAGING: &str = "copy tendot_import (name_key, name, body) from stdin (format binary)";

const LOCK: &str = "select revision, sequence from tendot_counters where id = 1 for update";

// All of them say between which keys, since otherwise some plans would look at all records before.
const COUNT_EXISTING: &str = "select count(*), count(*) filter (where r.state = 1), \
     count(*) filter (where r.state = 0 and r.body = s.body) \
     from tendot_import s join tendot_records r on r.name_key = s.name_key where r.name_key between $1 and $2";

const SELECT_TOMBSTONED_NAMES: &str = "select r.name from tendot_import s join tendot_records r on r.name_key = s.name_key \
     where r.name_key between $1 and $2 and r.state = 1 order by r.name_key limit $3";

const INSERT_HISTORY: &str = "insert into tendot_history (name_key, sequence, name, revision, state, body, registration) \
     select r.name_key, $3::bigint, r.name, r.revision, r.state, r.body, r.registration \
     from tendot_import s join tendot_records r on r.name_key = s.name_key \
     where r.name_key between $1 and $2 and r.state = 0 and r.body <> s.body";

// Whatever may have a type of this name, in any spelling.
const SELECT_POSSIBLE_SECRETS: &str = "select h.name_key from tendot_import s join tendot_history h \
     on h.name_key = s.name_key and h.sequence = $3 \
     where h.name_key between $1 and $2 and upper(encode(h.body, 'escape')) like '%HS_SECKEY%'";

const KEPT: &str = "select name, revision, state, body, registration, name_key from tendot_history \
     where name_key = any($1) and sequence = $2";

const UPDATE_HISTORY_BODY: &str = "update tendot_history set body = $3 where name_key = $1 and sequence = $2";

const INSERT_RECORDS: &str = "insert into tendot_records (name_key, name, revision, state, body, registration) \
     select name_key, name, $1::bigint, 0::smallint, body, ''::bytea from tendot_import";

// What the registry knows of a name is not in imports, and stays; so does how it was spelled first.
const PUT: &str = "insert into tendot_records (name_key, name, revision, state, body, registration) \
     select name_key, name, $1::bigint, 0::smallint, body, ''::bytea from tendot_import \
     on conflict (name_key) do update set revision = excluded.revision, body = excluded.body \
     where tendot_records.state = 0 and tendot_records.body <> excluded.body";

const HOMED: &str = "select name_key from tendot_homed where name_key = any($1)";

const HOME: &str = "insert into tendot_homed (name_key) select * from unnest($1::bytea[])";

const INSERT_HOME_LOG: &str = "insert into tendot_log (sequence, revision, made_at, made_by, kind, name, records) \
     select added.sequence, $2::bigint, $3::bigint, $4::bytea, $5::smallint, added.name, 1 \
     from unnest($1::bigint[], $6::bytea[]) as added (sequence, name)";

const LOG: &str = "insert into tendot_log \
     (sequence, revision, made_at, made_by, kind, name, records, first_key, last_key) \
     values ($1, $2, $3, $4, $5, ''::bytea, $6, $7, $8)";

const COUNT: &str =
    "update tendot_counters set revision = $1, sequence = $2, commits = commits + 1 where id = 1";

impl Postgres {
    /// Begins an import, while this store and others may write the same database.
    pub fn importer(&self, by: &str, at: u64) -> Result<PostgresImporter, ImportError> {
        let unmade =
            |error| StoreError::Failed { doing: "making a folder for sorting", error: Box::new(error) };
        let gathered = Gathered::temporary().map_err(unmade)?;
        let time = self.settings.statement + self.settings.patience;
        let nodes = Arc::clone(&self.nodes);
        Ok(PostgresImporter { nodes, by: by.into(), at, together: TOGETHER, time, gathered })
    }
}

/// An import into a database under way.
///
/// Records that come twice count once, the last one; those that are there as they are stay untouched. They are written in
/// the order of their keys, in transactions of up to 100,000 records, each with its revision and its line in the log. If it is
/// interrupted, what was committed stays, with its lines, and the same import again writes the rest.
///
/// What others commit meanwhile is there either before a transaction of the import, which then changes it (and keeps it in
/// the history), or after it.
///
/// ```no_run
/// use tendot_proto::Value;
/// use tendot_store::{Postgres, PostgresSettings};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let store = Postgres::open("postgres://tendot@db.example.org/tendot", &PostgresSettings::default()).await?;
/// let mut importer = store.importer("operator", 1_700_000_000_000)?;
/// importer.put("10.1000/1".into(), &[Value::new(1, "URL", "https://example.org/1")])?;
/// importer.home("10.1000")?;
/// assert_eq!(importer.finish(|_| {}).await?.created, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct PostgresImporter {
    /// Connections of the store. One is taken when all records are there, which may be hours later.
    nodes: Arc<Cluster>,
    by: Box<str>,
    at: u64,
    together: u64,
    /// After which the server will not answer any more.
    time: Duration,
    gathered: Gathered,
}

impl PostgresImporter {
    /// Lets so many bytes of records wait in memory before they go to disk.
    #[must_use]
    pub fn buffer(mut self, bytes: usize) -> Self {
        self.gathered.buffer = bytes;
        self
    }

    /// Commits so many records together.
    #[must_use]
    pub fn together(mut self, records: u64) -> Self {
        self.together = records.max(1);
        self
    }

    /// Adds a record. It is written when the import is finished.
    pub fn put(&mut self, name: Box<str>, values: &[Value<'_>]) -> Result<(), ImportError> {
        self.gathered.put(&name, values)
    }

    /// Adds all records of a batch, which come after those that were added before.
    pub fn put_all(&mut self, batch: &Batch) -> Result<(), ImportError> {
        self.gathered.put_all(batch)
    }

    /// Names under this prefix are to be kept here.
    pub fn home(&mut self, prefix: &str) -> Result<(), ImportError> {
        self.gathered.home(prefix)
    }

    /// Writes all records. `progress` is told after each transaction how many there are so far.
    pub async fn finish(mut self, mut progress: impl FnMut(&ImportSummary)) -> Result<ImportSummary, ImportError> {
        let mut homed = std::mem::take(&mut self.gathered.homed);
        let clients = [self.connect().await?, self.connect().await?];
        let (mut merge, superseded) = self.gathered.merge()?;
        let [mut one, mut other] =
            clients.each_ref().map(|client| Writing { client, by: &self.by, at: self.at, time: self.time });
        let mut imported = ImportSummary { superseded, ..ImportSummary::default() };
        let mut staged = one.stage(&mut merge, self.together).await?;
        loop {
            imported.superseded += std::mem::take(&mut merge.superseded);
            if staged.records == 0 && homed.is_empty() {
                progress(&imported);
                return Ok(imported);
            }
            let room = ENDED.saturating_sub(imported.ended_names.len());
            // The next ones are sent on the other connection meanwhile.
            let (written, next) =
                join(one.write(&staged, &homed, room), other.stage(&mut merge, self.together)).await;
            imported.add(written?);
            homed.clear();
            progress(&imported);
            staged = next?;
            std::mem::swap(&mut one, &mut other);
        }
    }

    /// A connection with a table of its own, which nobody else is to get afterwards.
    async fn connect(&self) -> Result<ClientWrapper, StoreError> {
        let client = Object::take(self.nodes.primary().map_err(store)?.reader().await.map_err(store)?);
        let made = timeout(self.time, client.batch_execute(CREATE_STAGING_TABLE)).await;
        made.map_err(|_| store(Failure::Silent))?.map_err(|error| store(error.into()))?;
        Ok(client)
    }
}

/// Records that are at the server, and between which keys.
#[derive(Debug, Default)]
struct StagedRecords {
    records: u64,
    first: Vec<u8>,
    last: Vec<u8>,
}

/// How the transactions of an import are made.
struct Writing<'a> {
    client: &'a ClientWrapper,
    by: &'a str,
    at: u64,
    time: Duration,
}

impl Writing<'_> {
    /// Sends the next records to the table of this connection.
    async fn stage(&self, merge: &mut RunMerge<'_>, together: u64) -> Result<StagedRecords, ImportError> {
        let mut staged = StagedRecords::default();
        self.within(self.client.batch_execute(EMPTY)).await.map_err(store)?;
        let mut sink =
            pin!(self.within(self.client.copy_in::<_, Cursor<Vec<u8>>>(COPY_STAGING)).await.map_err(store)?);
        let mut chunk = HEADER.to_vec();
        let mut bytes = 0;
        while staged.records < together
            && bytes < TOGETHER_BYTES
            && let Some((name, body)) = merge.next()?
        {
            let text = std::str::from_utf8(name).map_err(|_| unread(name))?;
            let key = Key::new(text)?;
            let key = record_key(&key);
            chunk.extend(FIELDS.to_be_bytes());
            for field in [&*key, name, body] {
                // Each has at most a few million bytes.
                chunk.extend((field.len() as u32).to_be_bytes());
                chunk.extend_from_slice(field);
            }
            bytes += key.len() + name.len() + body.len();
            staged.records += 1;
            if staged.records == 1 || *key < *staged.first {
                staged.first = key.to_vec();
            }
            // Long names have keys that are not quite in order.
            if *key > *staged.last {
                staged.last.clear();
                staged.last.extend_from_slice(&key);
            }
            if chunk.len() >= CHUNK {
                let full = std::mem::replace(&mut chunk, Vec::with_capacity(CHUNK + CHUNK / 8));
                self.within(sink.send(Cursor::new(full))).await.map_err(store)?;
            }
        }
        chunk.extend(END.to_be_bytes());
        self.within(sink.send(Cursor::new(chunk))).await.map_err(store)?;
        self.within(sink.finish()).await.map_err(store)?;
        Ok(staged)
    }

    /// Writes what is there in one transaction, and homes prefixes before. If others are in the way, all of it again: nothing
    /// was done.
    async fn write(
        &self,
        staged: &StagedRecords,
        homed: &BTreeSet<Key>,
        room: usize,
    ) -> Result<ImportSummary, ImportError> {
        let mut tries = 1;
        loop {
            let written = self.attempt(staged, homed, room).await;
            let error = match written {
                Ok(imported) => match self.commit().await? {
                    None => return Ok(imported),
                    Some(error) => error,
                },
                Err(Trouble::Damaged(error)) => return Err(error.into()),
                Err(Trouble::Failed(error)) => error,
            };
            if tries == TRIES || !is_of_others(&error) {
                return Err(store(error).into());
            }
            tries += 1;
            self.within(self.client.batch_execute("rollback")).await.map_err(store)?;
            sleep(PAUSE * tries).await;
        }
    }

    /// Commits; gives why not, if that is sure.
    async fn commit(&self) -> Result<Option<Failure>, StoreError> {
        match self.within(self.client.batch_execute("commit")).await {
            Ok(()) => Ok(None),
            Err(Failure::Server(error)) if error.code().is_some() => Ok(Some(error.into())),
            Err(error) => {
                Err(StoreError::Unknown { why: format!("{error}; the same import again does the rest") })
            }
        }
    }

    async fn attempt(
        &self,
        staged: &StagedRecords,
        homed: &BTreeSet<Key>,
        room: usize,
    ) -> Result<ImportSummary, Trouble> {
        self.within(self.client.batch_execute("begin isolation level read committed")).await?;
        let counters = self.one(LOCK, &[]).await?;
        let (revision, mut sequence): (i64, i64) = (row::column(&counters, 0)?, row::column(&counters, 1)?);
        let revision = revision + 1;
        let homes = self.home(homed, revision, sequence).await?;
        sequence += homes;

        let (first, last) = (&staged.first, &staged.last);
        let found = self.one(COUNT_EXISTING, &[first, last]).await?;
        let number = |at| Ok::<_, StoreError>(row::number(row::column(&found, at)?));
        let (there, ended, unchanged) = (number(0)?, number(1)?, number(2)?);
        let (created, changed) =
            (staged.records.saturating_sub(there), there.saturating_sub(ended + unchanged));
        let mut imported = ImportSummary { created, changed, unchanged, ended, ..ImportSummary::default() };
        if ended > 0 && room > 0 {
            for row in self.rows(SELECT_TOMBSTONED_NAMES, &[first, last, &row::limit(room)]).await? {
                imported.ended_names.push(row::text(row::column(&row, 0)?)?);
            }
        }
        if created + changed > 0 {
            sequence += 1;
            if changed > 0 {
                self.keep(staged, sequence).await?;
            }
            self.execute(if there == 0 { INSERT_RECORDS } else { PUT }, &[&revision]).await?;
            let (at, by, kind) =
                (self.at.cast_signed(), self.by.as_bytes(), row::kind_code(EditKind::Import));
            let count = row::signed(created + changed);
            self.execute(LOG, &[&sequence, &revision, &at, &by, &kind, &count, first, last]).await?;
        }
        if homes > 0 || created + changed > 0 {
            self.execute(COUNT, &[&revision, &sequence]).await?;
            self.execute(NUMBER, &[]).await?;
            self.execute(FORGET_NUMBER, &[&transaction::KEPT]).await?;
        }
        Ok(imported)
    }

    /// Homes the prefixes that are new here, with their lines after `sequence`. Gives how many there are.
    async fn home(&self, homed: &BTreeSet<Key>, revision: i64, sequence: i64) -> Result<i64, Trouble> {
        let keys: Vec<&[u8]> = homed.iter().map(Key::as_bytes).collect();
        if keys.is_empty() {
            return Ok(0);
        }
        let mut known = BTreeSet::new();
        for row in self.rows(HOMED, &[&keys]).await? {
            known.insert(row::column::<&[u8]>(&row, 0)?.to_vec());
        }
        let new: Vec<&Key> = homed.iter().filter(|prefix| !known.contains(prefix.as_bytes())).collect();
        if new.is_empty() {
            return Ok(0);
        }
        let keys: Vec<&[u8]> = new.iter().map(|prefix| prefix.as_bytes()).collect();
        self.execute(HOME, &[&keys]).await?;
        let sequences: Vec<i64> = (sequence + 1..).take(new.len()).collect();
        let names: Vec<Vec<u8>> = new.iter().map(|prefix| prefix.to_string().into_bytes()).collect();
        let (at, by, kind) = (self.at.cast_signed(), self.by.as_bytes(), row::kind_code(EditKind::Home));
        self.execute(INSERT_HOME_LOG, &[&sequences, &revision, &at, &by, &kind, &names]).await?;
        Ok(row::limit(new.len()))
    }

    /// Keeps the records that are about to be changed in the history, without their secrets.
    async fn keep(&self, staged: &StagedRecords, sequence: i64) -> Result<(), Trouble> {
        let (first, last) = (&staged.first, &staged.last);
        self.execute(INSERT_HISTORY, &[first, last, &sequence]).await?;
        let keys = self.rows(SELECT_POSSIBLE_SECRETS, &[first, last, &sequence]).await?;
        let keys = keys.iter().map(|row| row::column(row, 0)).collect::<Result<Vec<&[u8]>, _>>()?;
        for keys in keys.chunks(SECRET_CHECK_BATCH) {
            for kept in self.rows(KEPT, &[&keys, &sequence]).await? {
                let without = row::entry(&kept, 0)?.as_ref().and_then(history::without_secrets);
                let Some(entry) = without else { continue };
                let key: &[u8] = row::column(&kept, 5)?;
                self.execute(UPDATE_HISTORY_BODY, &[&key, &sequence, &values::encode(&entry.values)]).await?;
            }
        }
        Ok(())
    }

    async fn one(&self, sql: &str, parameters: &[&(dyn ToSql + Sync)]) -> Result<Row, Failure> {
        self.within(async {
            self.client.query_one(&self.client.prepare_cached(sql).await?, parameters).await
        })
        .await
    }

    async fn rows(&self, sql: &str, parameters: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, Failure> {
        self.within(async { self.client.query(&self.client.prepare_cached(sql).await?, parameters).await })
            .await
    }

    async fn execute(&self, sql: &str, parameters: &[&(dyn ToSql + Sync)]) -> Result<u64, Failure> {
        self.within(async { self.client.execute(&self.client.prepare_cached(sql).await?, parameters).await })
            .await
    }

    async fn within<T>(&self, asked: impl Future<Output = Result<T, Error>>) -> Result<T, Failure> {
        Ok(timeout(self.time, asked).await.map_err(|_| Failure::Silent)??)
    }
}

/// Why a transaction was not carried out.
enum Trouble {
    Failed(Failure),
    Damaged(StoreError),
}

impl From<Failure> for Trouble {
    fn from(error: Failure) -> Self {
        Self::Failed(error)
    }
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Self {
        Self::Damaged(error)
    }
}

/// Whether others were in the way, on a connection that is still there.
fn is_of_others(error: &Failure) -> bool {
    let Failure::Server(error) = error else { return false };
    let is_conflict =
        |code: &SqlState| code.code().starts_with("40") || *code == SqlState::LOCK_NOT_AVAILABLE;
    !error.is_closed() && error.code().is_some_and(is_conflict)
}

fn store(error: Failure) -> StoreError {
    error.into_store_error(DOING)
}

fn unread(name: &[u8]) -> StoreError {
    StoreError::Damaged { what: format!("a run of the import, at `{}`", name.escape_ascii()) }
}

/// How PostgreSQL's binary format for COPY begins: its signature, no flags, no more of a header.
const HEADER: [u8; 19] = *b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";

/// The fields of each row, and what stands in place of their number after the last one.
const FIELDS: i16 = 3;
const END: i16 = -1;
