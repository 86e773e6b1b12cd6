//! PostgreSQL store.
//!
//! In reading order: `settings`; `open_error` and `error`; `schema` applies schema migrations; `read`, `homed_cache`, `history` and
//! `row` are the queries; `import` (with its temporary directory, `import_dir`), `migration` and `verify` handle whole stores.
//! `cluster` knows the hosts and routes reads, `write` is the writer task.
//!
//! Several processes may write. A writer first locks the single row of `tendot_counters` and holds it to the end of its
//! transaction; it alone assigns revisions and sequence numbers. So they have no gaps and become visible in order: a reader that
//! follows the log misses nothing. No transaction waits for two locks, so there are no deadlocks. Serialized transactions cost
//! little, because each commits the change sets of all waiting callers. The tables are in `migrations/` and described in
//! `docs/background/storage-format.md`.

mod cluster;
mod error;
mod history;
mod homed_cache;
mod import;
mod import_dir;
mod migration;
mod open_error;
mod read;
mod row;
mod schema;
mod settings;
mod verify;
mod write;

use std::sync::Arc;

use cluster::Cluster;
use cluster::connection_string::ConnectionString;
use cluster::monitor::Monitor;
use homed_cache::HomedCache;
pub use import::PostgresImporter;
pub use migration::PostgresTarget;
pub use open_error::PostgresOpenError;
pub use settings::{DatabaseHost, HostRole, PostgresSettings};
use write::{PostgresWriter, transaction};

use crate::{
    AuxEntry, ChangeCounters, ChangeSet, CommitError, CommitInfo, CountPage, History, HistoryOrder, LogEntry,
    NameEntry, NameKey, NamePage, Store, StoreError, StoreHead, StoredRecord,
};

/// PostgreSQL store.
///
/// ```no_run
/// use tendot_store::{PostgresStore, PostgresSettings, Store};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let settings = PostgresSettings::default();
/// let store = PostgresStore::open("postgres://tendot:secret@db.example.org/tendot", &settings).await?;
/// assert!(store.read_log(0, 1).await?.is_empty());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct PostgresStore {
    cluster: Arc<Cluster>,
    homed_cache: HomedCache,
    writer: PostgresWriter,
    settings: PostgresSettings,
    _monitor: Monitor,
}

impl PostgresStore {
    /// Opens a database as a store; creates its tables if missing. Requires a tokio runtime.
    pub async fn open(address: &str, settings: &PostgresSettings) -> Result<Self, PostgresOpenError> {
        let (store, database) = Self::open_allowing_incomplete(address, settings).await?;
        store.check_migration_complete(database).await?;
        Ok(store)
    }

    /// Opens a store, even if it is the target of an incomplete migration; also returns the database's name for display.
    async fn open_allowing_incomplete(
        address: &str,
        settings: &PostgresSettings,
    ) -> Result<(Self, String), PostgresOpenError> {
        let connection = ConnectionString::parse(address, settings)?;
        let cluster = Arc::new(Cluster::new(&connection, settings)?);
        let database = &connection.display_name;
        let open_error = |error| PostgresOpenError::from_database(database, &error);
        let primary = cluster.find_primary(database).await?;
        let client = primary.write_connection().await.map_err(open_error)?;
        // Schema migrations may take long on large tables.
        let may_migrate = settings.migrate_schema;
        schema::ensure_current(&client, database, schema::SCHEMA_MIGRATIONS, may_migrate).await?;
        // Missing privileges are better reported now than at the first write.
        let missing =
            transaction::check_privileges(&client).await.map_err(|error| open_error(error.into()))?;
        if let Some(privilege) = missing {
            let (database, reason) = (database.clone(), format!("missing privilege: {privilege}"));
            return Err(PostgresOpenError::InsufficientPrivilege { database, reason });
        }
        drop(client);
        let monitor = Monitor::start(&cluster, settings).await;
        let writer = PostgresWriter::start(Arc::clone(&cluster), settings.clone());
        let (homed_cache, settings) = (HomedCache::default(), settings.clone());
        Ok((Self { cluster, homed_cache, writer, settings, _monitor: monitor }, connection.display_name))
    }

    /// Hosts of the database as last observed.
    pub fn hosts(&self) -> Vec<DatabaseHost> {
        self.cluster.hosts()
    }

    /// Closure that returns [`hosts`](Self::hosts) and does not borrow the store.
    pub fn hosts_handle(&self) -> impl Fn() -> Vec<DatabaseHost> + Clone + Send + Sync + 'static {
        let cluster = Arc::clone(&self.cluster);
        move || cluster.hosts()
    }
}

impl Store for PostgresStore {
    async fn get(&self, key: &NameKey) -> Result<Option<StoredRecord>, StoreError> {
        self.get_record(key).await
    }

    async fn list_names(
        &self,
        prefix: &[u8],
        after: Option<&NameKey>,
        limit: usize,
    ) -> Result<Vec<NameEntry>, StoreError> {
        self.query_names(prefix, after, limit).await
    }

    async fn seek_names(
        &self,
        prefix: &[u8],
        starts: &[Vec<u8>],
    ) -> Result<Vec<Option<NameEntry>>, StoreError> {
        self.query_first_names(prefix, starts).await
    }

    async fn count_names(
        &self,
        prefix: &[u8],
        after: Option<&NameKey>,
        limit: usize,
    ) -> Result<CountPage, StoreError> {
        self.count_names(prefix, after, limit).await
    }

    async fn scan_records(
        &self,
        prefix: Option<&[u8]>,
        after: Option<&NameKey>,
        visit: impl FnMut(&StoredRecord) -> bool + Send,
    ) -> Result<(), StoreError> {
        self.query_records(prefix, after, visit).await
    }

    fn change_counters(&self) -> Option<&ChangeCounters> {
        Some(&self.cluster.read_fence.counters)
    }

    fn clock_ms(&self) -> Option<u64> {
        self.cluster.clock_ms()
    }

    async fn is_homed(&self, prefix: &[u8]) -> Result<bool, StoreError> {
        self.query_is_homed(prefix).await
    }

    async fn list_homed(&self, after: Option<&[u8]>, limit: usize) -> Result<Vec<Box<str>>, StoreError> {
        self.list_homed(after, limit).await
    }

    async fn commit(&self, change: ChangeSet) -> Result<CommitInfo, CommitError> {
        self.writer.commit(change).await
    }

    async fn head(&self) -> Result<StoreHead, StoreError> {
        self.query_head().await
    }

    async fn read_log(&self, after: u64, limit: usize) -> Result<Vec<LogEntry>, StoreError> {
        self.read_log(after, limit).await
    }

    async fn history(&self, key: &NameKey, order: HistoryOrder, limit: usize) -> Result<History, StoreError> {
        self.read_history(key, order, limit).await
    }

    async fn get_aux(&self, key: &[u8]) -> Result<Option<Box<[u8]>>, StoreError> {
        self.query_aux(key).await
    }

    async fn list_aux(
        &self,
        key_prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<AuxEntry>, StoreError> {
        self.query_aux_list(key_prefix, after, limit).await
    }

    async fn names_at_revision(
        &self,
        revision: u64,
        after: Option<&NameKey>,
        limit: usize,
    ) -> Result<NamePage, StoreError> {
        self.query_names_at_revision(revision, after, limit).await
    }
}
