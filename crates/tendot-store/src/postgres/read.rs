//! Queries for records, names, prefixes, aux entries and the log. Each result is a snapshot of one statement or transaction.

use std::pin::pin;
use std::time::Duration;

use deadpool_postgres::{ClientWrapper, Object};
use futures_util::TryStreamExt as _;
use tokio_postgres::{IsolationLevel, Row};

use super::cluster::host::ClusterHost;
use super::cluster::routing::ReadConsistency;
use super::error::{DatabaseError, with_timeout};
use super::write::columns::SqlParameter;
use super::{PostgresStore, row};
use crate::change_counters::is_prefix_record;
use crate::model::name_key::storage_key;
use crate::stale_reads::{allows_stale_reads, memoize, memoized};
use crate::{
    AuxEntry, CountPage, LogEntry, NameEntry, NameKey, NamePage, StoreError, StoreHead, StoredRecord,
};

/// Records per page of a scan; the rest of a page is wasted when the visitor stops.
const SCAN_PAGE_LEN: usize = 256;

/// Maximum number of records scanned per call for those of a revision.
const MAX_SCANNED_RECORDS: i64 = 10_000;

const SELECT_RECORD: &str =
    "select name, revision, status, body, registration from tendot_records where name_key = $1";

const SCAN_RECORDS: &str = "select name, revision, status, body, registration, name_key from tendot_records \
     where name_key > $1 order by name_key limit $2";

// The name that equals the prefix sorts before all names with a slash, but not directly before them.
const SCAN_PREFIX: &str = "\
    (select name, revision, status, body, registration, name_key from tendot_records \
     where name_key = $1 and name_key > $2) \
    union all \
    (select name, revision, status, body, registration, name_key from tendot_records \
     where name_key > $2 and name_key >= $3 and name_key < $4 order by name_key limit $5) \
    order by name_key limit $5";

const LIST_NAMES: &str = "\
    (select name, status, name_key from tendot_records where name_key = $1 and name_key > $2) \
    union all \
    (select name, status, name_key from tendot_records \
     where name_key > $2 and name_key >= $3 and name_key < $4 order by name_key limit $5) \
    order by name_key limit $5";

const SEEK_NAMES: &str = "\
    select first.name, first.status, start.number \
    from unnest($1::bytea[]) with ordinality start (key, number), \
    lateral (select name, status from tendot_records \
        where name_key >= start.key and name_key >= $2 and name_key < $3 order by name_key limit 1) first";

const COUNT_NAMES: &str = "\
    with page as (\
        (select name, status, name_key from tendot_records where name_key = $1 and name_key > $2) \
        union all \
        (select name, status, name_key from tendot_records \
         where name_key > $2 and name_key >= $3 and name_key < $4 order by name_key limit $5) \
        order by name_key limit $5) \
    select (select count(*) from page where status = 0), (select count(*) from page), \
        (select name from page order by name_key desc limit 1)";

// The records of an import are in a key range; no key starts with 0xff.
const NAMES_AT_REVISION: &str = "\
    with import as (select first_key, last_key from tendot_log where kind = 7 and revision = $3 limit 1), scanned as (\
        select name, status, revision, name_key from tendot_records \
        where name_key > $1 and name_key >= coalesce((select first_key from import), ''::bytea) \
        and name_key <= coalesce((select last_key from import), '\\xff'::bytea) order by name_key limit $2) \
    select name, status, revision, name_key from scanned where revision = $3 \
    union all \
    (select name, status, -1, name_key from scanned order by name_key offset $2 - 1 limit 1) \
    order by name_key, revision desc limit $4";

const SELECT_HEAD: &str = "select revision, sequence, log_hash from tendot_counters where id = $1";

pub(crate) const SELECT_LOG: &str = concat!(
    "select ",
    row::log_columns!("l"),
    " from tendot_log l where l.sequence > $1 order by l.sequence limit $2"
);

const SELECT_IS_HOMED: &str = "select 1 from tendot_homed where name_key = $1";

pub(crate) const LIST_HOMED: &str =
    "select name_key from tendot_homed where name_key > $1 order by name_key limit $2";

const SELECT_AUX: &str = "select value from tendot_aux where aux_key = $1";

const LIST_AUX: &str = "select aux_key, value from tendot_aux where aux_key >= $1 and aux_key > $2 \
     and aux_key < $3 order by aux_key limit $4";

const LIST_AUX_TO_END: &str = "select aux_key, value from tendot_aux where aux_key >= $1 and aux_key > $2 \
     order by aux_key limit $3";

/// Parameters of a statement.
pub(crate) type SqlParameters<'p> = &'p [SqlParameter<'p>];

impl PostgresStore {
    pub(crate) async fn get_record(&self, key: &NameKey) -> Result<Option<StoredRecord>, StoreError> {
        if let Some(record) = memoized(key) {
            return Ok(record);
        }
        let read = if allows_stale_reads() {
            ReadConsistency::AtLeast(self.cluster.read_fence.position_for_name(key))
        } else {
            ReadConsistency::Latest
        };
        let (found, is_current) =
            self.query_row("reading a record", SELECT_RECORD, &&*storage_key(key), read).await?;
        if !is_current {
            // Invalidates caches: a response from a possibly stale record must not be cached.
            let is_prefix_change = std::str::from_utf8(key.as_bytes()).is_ok_and(is_prefix_record);
            self.cluster.read_fence.counters.bump(Some(key), is_prefix_change);
        }
        let record = found.map(|found| row::record(&found, 0)).transpose()?.flatten();
        // Two long names could have the same storage key; only one of them is stored.
        let record = record.filter(|record| record.name.as_bytes().eq_ignore_ascii_case(key.as_bytes()));
        memoize(key, record.as_ref());
        Ok(record)
    }

    pub(crate) async fn query_names(
        &self,
        prefix: &[u8],
        after: Option<&NameKey>,
        limit: usize,
    ) -> Result<Vec<NameEntry>, StoreError> {
        let Some(PrefixKeyRange { whole, begin, end }) = PrefixKeyRange::new(prefix) else {
            return Ok(Vec::new());
        };
        let (after, limit) = (start_key(after), row::limit_to_i64(limit));
        let rows = self.query("listing names", LIST_NAMES, &[&whole, &after, &begin, &end, &limit]).await?;
        rows.iter().map(row::name_entry).collect()
    }

    pub(crate) async fn query_first_names(
        &self,
        prefix: &[u8],
        starts: &[Vec<u8>],
    ) -> Result<Vec<Option<NameEntry>>, StoreError> {
        let mut names = vec![None; starts.len()];
        let Some(PrefixKeyRange { begin, end, .. }) = PrefixKeyRange::new(prefix) else {
            return Ok(names);
        };
        for found in self.query("listing names", SEEK_NAMES, &[&starts, &begin, &end]).await? {
            let number = usize::try_from(row::column::<i64>(&found, 2)? - 1);
            if let Some(name) = number.ok().and_then(|number| names.get_mut(number)) {
                *name = Some(row::name_entry(&found)?);
            }
        }
        Ok(names)
    }

    pub(crate) async fn count_names(
        &self,
        prefix: &[u8],
        after: Option<&NameKey>,
        limit: usize,
    ) -> Result<CountPage, StoreError> {
        let Some(PrefixKeyRange { whole, begin, end }) = PrefixKeyRange::new(prefix) else {
            return Ok(CountPage::default());
        };
        let (after, limit) = (start_key(after), row::limit_to_i64(limit.max(1)));
        let rows = self.query("counting names", COUNT_NAMES, &[&whole, &after, &begin, &end, &limit]).await?;
        let Some(found) = rows.first() else { return Ok(CountPage::default()) };
        let (live, count): (i64, i64) = (row::column(found, 0)?, row::column(found, 1)?);
        let last: Option<&[u8]> = row::column(found, 2)?;
        let last = last.filter(|_| count >= limit).map(row::utf8).transpose()?;
        Ok(CountPage { live: row::to_u64(live), next: last.and_then(|name| NameKey::new(&name).ok()) })
    }

    pub(crate) async fn query_records(
        &self,
        prefix: Option<&[u8]>,
        after: Option<&NameKey>,
        visit: impl FnMut(&StoredRecord) -> bool + Send,
    ) -> Result<(), StoreError> {
        let range = prefix.map(PrefixKeyRange::new);
        if matches!(range, Some(None)) {
            return Ok(());
        }
        let mut client = self.read_connection().await.map_err(store_error("reading records"))?;
        let result = self.scan_pages(&mut client, range.flatten().as_ref(), start_key(after), visit).await;
        if result.is_err() {
            drop(Object::take(client));
        }
        result
    }

    async fn scan_pages(
        &self,
        client: &mut Object,
        range: Option<&PrefixKeyRange>,
        mut after: Vec<u8>,
        mut visit: impl FnMut(&StoredRecord) -> bool + Send,
    ) -> Result<(), StoreError> {
        let read_error = store_error("reading records");
        let builder =
            client.build_transaction().isolation_level(IsolationLevel::RepeatableRead).read_only(true);
        let transaction = self.with_timeout(builder.start()).await.map_err(&read_error)?;
        let sql = if range.is_some() { SCAN_PREFIX } else { SCAN_RECORDS };
        let statement = self.with_timeout(transaction.prepare_cached(sql)).await.map_err(&read_error)?;
        let limit = row::limit_to_i64(SCAN_PAGE_LEN);
        loop {
            let parameters: SqlParameters<'_> = match &range {
                Some(PrefixKeyRange { whole, begin, end }) => &[whole, &after, begin, end, &limit],
                None => &[&after, &limit],
            };
            let page = transaction.query_raw(&statement, parameters.iter().copied());
            let mut page = pin!(self.with_timeout(page).await.map_err(&read_error)?);
            let (mut count, mut last) = (0, Vec::new());
            while let Some(found) = self.with_timeout(page.try_next()).await.map_err(&read_error)? {
                count += 1;
                if row::record(&found, 0)?.is_some_and(|record| !visit(&record)) {
                    return Ok(());
                }
                last = row::column::<&[u8]>(&found, 5)?.to_vec();
            }
            if count < SCAN_PAGE_LEN {
                return Ok(());
            }
            after = last;
        }
    }

    pub(crate) async fn query_names_at_revision(
        &self,
        revision: u64,
        after: Option<&NameKey>,
        limit: usize,
    ) -> Result<NamePage, StoreError> {
        let (after, revision, limit) = (start_key(after), row::to_i64(revision), limit.max(1));
        // The last scanned record is returned twice, the second time with revision -1.
        let max_rows = row::limit_to_i64(limit.saturating_add(1));
        let operation = "listing names at a revision";
        let rows = self
            .query(operation, NAMES_AT_REVISION, &[&after, &MAX_SCANNED_RECORDS, &revision, &max_rows])
            .await?;
        let mut page = NamePage::default();
        for found in &rows {
            let entry = row::name_entry(found)?;
            let is_end = row::column::<i64>(found, 2)? < 0;
            if is_end || page.names.len() + 1 >= limit {
                page.next = NameKey::new(&entry.name).ok();
            }
            if !is_end {
                page.names.push(entry);
            }
            if page.next.is_some() {
                break;
            }
        }
        Ok(page)
    }

    pub(crate) async fn query_head(&self) -> Result<StoreHead, StoreError> {
        let (operation, read) = ("reading the head of the log", ReadConsistency::Latest);
        let (found, _) = self.query_row(operation, SELECT_HEAD, &1_i16, read).await?;
        let found =
            found.ok_or_else(|| StoreError::Corrupt { detail: "row of tendot_counters missing".into() })?;
        row::head(&found, 0)
    }

    pub(crate) async fn read_log(&self, after: u64, limit: usize) -> Result<Vec<LogEntry>, StoreError> {
        let rows = self
            .query("reading the change log", SELECT_LOG, &[&row::to_i64(after), &row::limit_to_i64(limit)])
            .await?;
        decode_log(&rows)
    }

    pub(crate) async fn query_is_homed(&self, prefix: &[u8]) -> Result<bool, StoreError> {
        if prefix.is_empty() || prefix.len() > NameKey::MAX_PREFIX_LEN {
            return Ok(false);
        }
        let prefix = prefix.to_ascii_uppercase();
        if !allows_stale_reads() {
            return Ok(self
                .query_row("reading a homed prefix", SELECT_IS_HOMED, &prefix, ReadConsistency::Latest)
                .await?
                .0
                .is_some());
        }
        let read_fence = &self.cluster.read_fence;
        let version = read_fence.counters.prefix_version();
        if let Some(is_homed) = self.homed_cache.get(version, &prefix) {
            return Ok(is_homed);
        }
        let read = ReadConsistency::AtLeast(read_fence.position_for_prefixes());
        let (found, is_current) =
            self.query_row("reading a homed prefix", SELECT_IS_HOMED, &prefix, read).await?;
        if is_current {
            self.homed_cache.insert(version, prefix, found.is_some());
        } else {
            read_fence.counters.bump(None, true);
        }
        Ok(found.is_some())
    }

    pub(crate) async fn list_homed(
        &self,
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<Box<str>>, StoreError> {
        let after = after.unwrap_or_default().to_ascii_uppercase();
        let rows =
            self.query("listing homed prefixes", LIST_HOMED, &[&after, &row::limit_to_i64(limit)]).await?;
        rows.iter().map(|found| row::utf8(row::column(found, 0)?)).collect()
    }

    pub(crate) async fn query_aux(&self, key: &[u8]) -> Result<Option<Box<[u8]>>, StoreError> {
        let (found, _) =
            self.query_row("reading an aux entry", SELECT_AUX, &key, ReadConsistency::Latest).await?;
        found.map(|found| row::column::<&[u8]>(&found, 0).map(Into::into)).transpose()
    }

    pub(crate) async fn query_aux_list(
        &self,
        key_prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<AuxEntry>, StoreError> {
        let after = after.unwrap_or_default();
        let (operation, limit) = ("listing aux entries", row::limit_to_i64(limit));
        let rows = match prefix_end(key_prefix) {
            Some(end) => self.query(operation, LIST_AUX, &[&key_prefix, &after, &end, &limit]).await?,
            None => self.query(operation, LIST_AUX_TO_END, &[&key_prefix, &after, &limit]).await?,
        };
        let entry = |found: &Row| {
            let (key, value): (&[u8], &[u8]) = (row::column(found, 0)?, row::column(found, 1)?);
            Ok(AuxEntry { key: key.into(), value: value.into() })
        };
        rows.iter().map(entry).collect()
    }

    /// Runs a statement that may return many rows.
    pub(crate) async fn query(
        &self,
        operation: &'static str,
        sql: &str,
        parameters: SqlParameters<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        let result =
            self.try_hosts(ReadConsistency::Latest, |host| self.try_query(host, sql, parameters)).await;
        result.map(|(rows, _)| rows).map_err(store_error(operation))
    }

    async fn try_query(
        &self,
        host: &ClusterHost,
        sql: &str,
        parameters: SqlParameters<'_>,
    ) -> Result<Vec<Row>, DatabaseError> {
        let client = host.read_connection().await?;
        let rows = host.with_timeout(self.request_timeout(), run_query(&client, sql, parameters)).await;
        if rows.is_err() {
            // A connection with an error is not reused.
            drop(Object::take(client));
        }
        rows
    }

    /// Reads the row of a key, if there is one, and whether the host was current enough.
    async fn query_row(
        &self,
        operation: &'static str,
        sql: &str,
        key: SqlParameter<'_>,
        read: ReadConsistency,
    ) -> Result<(Option<Row>, bool), StoreError> {
        self.try_hosts(read, |host| self.try_query_row(host, sql, key)).await.map_err(store_error(operation))
    }

    async fn try_query_row(
        &self,
        host: &ClusterHost,
        sql: &str,
        key: SqlParameter<'_>,
    ) -> Result<Option<Row>, DatabaseError> {
        // Single-record reads have a shorter timeout than scans.
        let timeout = self.settings.wait_timeout;
        let client = host.with_timeout(timeout, host.pipelined_pool.get()).await?;
        let rows = host.with_timeout(timeout, run_query(&client, sql, &[key])).await;
        if rows.is_err() {
            host.pipelined_pool.discard(&client);
        }
        Ok(rows?.pop())
    }

    /// Takes a read connection to a host with the latest state.
    pub(crate) async fn read_connection(&self) -> Result<Object, DatabaseError> {
        self.try_hosts(ReadConsistency::Latest, ClusterHost::read_connection).await.map(|(client, _)| client)
    }

    /// Passes the rows of a statement to `visit` until it returns false.
    pub(crate) async fn for_each_row(
        &self,
        sql: &str,
        parameters: SqlParameters<'_>,
        visit: impl FnMut(&Row) -> Result<bool, StoreError> + Send,
    ) -> Result<(), StoreError> {
        let read_error = store_error("scanning a table");
        let client = self.read_connection().await.map_err(&read_error)?;
        let result = self.visit_rows(&client, sql, parameters, visit).await;
        if result.is_err() {
            // A connection with an error is not reused.
            drop(Object::take(client));
        }
        result.map_err(&read_error)
    }

    async fn visit_rows(
        &self,
        client: &ClientWrapper,
        sql: &str,
        parameters: SqlParameters<'_>,
        mut visit: impl FnMut(&Row) -> Result<bool, StoreError> + Send,
    ) -> Result<(), DatabaseError> {
        let query = async {
            let statement = client.prepare_cached(sql).await?;
            client.query_raw(&statement, parameters.iter().copied()).await
        };
        let mut rows = pin!(self.with_timeout(query).await?);
        while let Some(found) = self.with_timeout(rows.try_next()).await? {
            if !visit(&found)? {
                break;
            }
        }
        Ok(())
    }

    pub(crate) fn request_timeout(&self) -> Duration {
        self.settings.statement_timeout + self.settings.wait_timeout
    }

    /// Applies the request timeout: the server cancels statements itself, unless it is gone.
    pub(crate) async fn with_timeout<T>(
        &self,
        request: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, DatabaseError> {
        with_timeout(self.request_timeout(), request).await
    }
}

async fn run_query(
    client: &ClientWrapper,
    sql: &str,
    parameters: SqlParameters<'_>,
) -> Result<Vec<Row>, tokio_postgres::Error> {
    let statement = client.prepare_cached(sql).await?;
    client.query(&statement, parameters).await
}

/// Reads log entries from one host.
pub(crate) async fn read_log_of_host(
    client: &ClientWrapper,
    after: u64,
    limit: usize,
) -> Result<Vec<LogEntry>, DatabaseError> {
    let rows = run_query(client, SELECT_LOG, &[&row::to_i64(after), &row::limit_to_i64(limit)]).await?;
    Ok(decode_log(&rows)?)
}

/// Decodes rows of [`SELECT_LOG`].
fn decode_log(rows: &[Row]) -> Result<Vec<LogEntry>, StoreError> {
    rows.iter().map(|found| row::log_entry(found, 0)).collect()
}

pub(crate) fn store_error(operation: &'static str) -> impl Fn(DatabaseError) -> StoreError {
    move |error| error.into_store_error(operation)
}

fn start_key(after: Option<&NameKey>) -> Vec<u8> {
    // No key is empty, so all sort after this one.
    after.map(|key| storage_key(key).into_owned()).unwrap_or_default()
}

/// Key range of the names under a prefix.
struct PrefixKeyRange {
    whole: Vec<u8>,
    begin: Vec<u8>,
    end: Vec<u8>,
}

impl PrefixKeyRange {
    /// Returns `None` if no name can have this prefix.
    fn new(prefix: &[u8]) -> Option<Self> {
        let is_valid = prefix.len() <= NameKey::MAX_PREFIX_LEN && !prefix.contains(&b'/');
        is_valid.then(|| {
            let whole = prefix.to_ascii_uppercase();
            let (begin, end) = ([&whole[..], b"/"].concat(), [&whole[..], b"0"].concat());
            Self { whole, begin, end }
        })
    }
}

/// Returns the first key after all keys with this prefix; `None` if there is none.
fn prefix_end(key_prefix: &[u8]) -> Option<Vec<u8>> {
    let last = key_prefix.iter().rposition(|byte| *byte < 0xff)?;
    let mut end = key_prefix.get(..=last)?.to_vec();
    *end.last_mut()? += 1;
    Some(end)
}
