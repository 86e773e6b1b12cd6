//! The store in a database: PostgreSQL, or what speaks its protocol.
//!
//! `connect.rs` reads the address, `nodes.rs` knows its servers and `watch.rs` looks after them and follows the log, from which
//! `freshness.rs` knows what has changed. `schema.rs` makes and changes the tables, `read.rs` asks them (single records on the
//! connections of `shared.rs`; `homed.rs` remembers prefixes), `writer.rs` commits the changes of all callers together, again
//! where that is right; `transaction.rs` is one try of it, with `batch.rs`, what its changes come to, and `columns.rs`, what is
//! written. `row.rs` and `values.rs` are what stands in the columns, `error.rs` is what can go wrong. `history.rs` reads what was
//! before, `import.rs` writes many records at once, `moving.rs` lets it be moved from and to, `verify.rs` reads everything. The
//! tables are in `migrations/` and drawn in `docs/storage-format.md`.
//!
//! Several processes may write. Who does locks the one row of `tendot_counters` first: from then on, until its transaction has
//! ended, it alone knows what is there and hands out revisions and sequence numbers. So these have no gaps, and they become
//! visible in their order: who follows the log misses nothing. Nobody waits for two locks, so there are no deadlocks. That
//! one transaction comes after the other costs little, since each carries the changes of all callers that came meanwhile.

mod batch;
mod columns;
mod connect;
mod error;
mod freshness;
mod history;
mod homed;
mod import;
mod moving;
mod nodes;
mod read;
mod row;
mod schema;
mod shared;
mod transaction;
mod values;
mod verify;
mod watch;
mod writer;

use std::sync::Arc;
use std::time::Duration;

use connect::ConnectionString;
use error::DatabaseError;
pub use error::PostgresOpenError;
use futures_util::future::join_all;
use homed::HomedCache;
pub use import::PostgresImporter;
pub use moving::PostgresTarget;
use nodes::{Cluster, ClusterHost};
use watch::Monitor;
use writer::WriteQueue;

use crate::{
    ChangeCounters, ChangeSet, CommitError, CommitInfo, CountPage, History, HistoryOrder, LogEntry,
    NameEntry, NameKey, NamePage, Note, Store, StoreError, StoredRecord,
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
    nodes: Arc<Cluster>,
    homed: HomedCache,
    writer: WriteQueue,
    settings: PostgresSettings,
    _watch: Monitor,
}

/// Host of the database cluster, as last observed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DatabaseHost {
    /// Where it is: `host:port`.
    pub place: String,
    /// What it is.
    pub role: HostRole,
    /// Whether it is asked: not a standby that may have another history than the primary, nor any if the address says so.
    pub is_asked: bool,
    /// Lines of the log that are known here and not there; none if it is not reached.
    pub behind: Option<u64>,
    /// For how long it has not known all that is known here; none if it is not reached.
    pub lag: Option<Duration>,
}

/// Replication role of a database host.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum HostRole {
    /// It takes changes.
    Primary,
    /// It can only be read.
    Standby,
    /// It does not answer.
    Unreachable,
}

/// Connection limits and timeouts of a PostgreSQL store.
#[derive(Clone, Debug)]
pub struct PostgresSettings {
    /// Connections to each server that read, at most: half of them for single records, half for lists, and one for each at
    /// least. One more writes.
    pub connections: usize,
    /// How long is waited for a connection, for those who write before, and for a database that comes back; and three times
    /// as long to find out what became of a change.
    pub patience: Duration,
    /// How long one statement may take.
    pub statement: Duration,
    /// How long a server may take to answer a health check before it counts as lost; at most half of `patience`.
    pub probe_timeout: Duration,
    /// Whether tables are made where there are none, and changed where they are older.
    pub migrate: bool,
}

impl Default for PostgresSettings {
    fn default() -> Self {
        Self {
            connections: 16,
            patience: Duration::from_secs(10),
            statement: Duration::from_secs(60),
            probe_timeout: Duration::from_secs(2),
            migrate: true,
        }
    }
}

impl PostgresStore {
    /// Opens the store of a database, within tokio's runtime, and makes its tables if they are not there.
    pub async fn open(address: &str, settings: &PostgresSettings) -> Result<Self, PostgresOpenError> {
        let store = Self::open_allowing_incomplete(address, settings).await?;
        store.check_migration_complete(address).await?;
        Ok(store)
    }

    /// The same of one that may be the unfinished copy of another.
    async fn open_allowing_incomplete(
        address: &str,
        settings: &PostgresSettings,
    ) -> Result<Self, PostgresOpenError> {
        let address = ConnectionString::parse(address, settings)?;
        let nodes = Arc::new(Cluster::new(&address, settings)?);
        let failed = |error| PostgresOpenError::from_database(&address.place, &error);
        let primary = find_primary(&nodes).await.map_err(failed)?;
        let client = primary.write_connection().await.map_err(failed)?;
        // Steps take their time where there is much.
        schema::ensure_current(&client, &address.place, schema::SCHEMA_MIGRATIONS, settings.migrate).await?;
        // Whether changes are taken here and from this user, is better told now.
        let missing = transaction::check_privileges(&client).await.map_err(|error| failed(error.into()))?;
        if let Some(missing) = missing {
            let (place, why) = (address.place.clone(), format!("{missing} is missing"));
            return Err(PostgresOpenError::Rights { place, why });
        }
        drop(client);
        let watch = Monitor::start(&nodes, settings).await;
        let writer = WriteQueue::start(Arc::clone(&nodes), settings.clone());
        Ok(Self { nodes, homed: HomedCache::default(), writer, settings: settings.clone(), _watch: watch })
    }

    /// The servers of the database, as they were last seen.
    pub fn hosts(&self) -> Vec<DatabaseHost> {
        self.nodes.hosts()
    }

    /// Closure that returns [`hosts`](Self::hosts) and does not borrow the store.
    pub fn hosts_handle(&self) -> impl Fn() -> Vec<DatabaseHost> + Clone + Send + Sync + 'static {
        let nodes = Arc::clone(&self.nodes);
        move || nodes.hosts()
    }
}

/// The server that takes changes, or else one that answers: what is asked of it next tells what is wrong.
async fn find_primary(nodes: &Cluster) -> Result<&ClusterHost, DatabaseError> {
    let ask = async |node: &ClusterHost| {
        let client = node.write_connection().await?;
        let row = client.query_one("select current_setting('transaction_read_only')", &[]).await?;
        Ok::<_, DatabaseError>(row.try_get::<_, &str>(0)? == "off")
    };
    let mut found: Vec<_> = join_all(nodes.iter().map(|node| async move { (node, ask(node).await) })).await;
    let is = |wanted: Option<bool>| {
        move |(_, answer): &(&ClusterHost, Result<bool, DatabaseError>)| {
            answer.as_ref().ok().copied() == wanted
        }
    };
    let best =
        found.iter().position(is(Some(true))).or_else(|| found.iter().position(is(Some(false)))).unwrap_or(0);
    if found.is_empty() {
        return Err(DatabaseError::Gone);
    }
    let (node, answer) = found.swap_remove(best);
    answer.map(|_| node)
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
        self.list_under(prefix, after, limit).await
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
        self.visit_records(prefix, after, visit).await
    }

    fn change_counters(&self) -> Option<&ChangeCounters> {
        Some(&self.nodes.freshness.versions)
    }

    async fn is_homed(&self, prefix: &[u8]) -> Result<bool, StoreError> {
        self.has_homed(prefix).await
    }

    async fn list_homed(&self, after: Option<&[u8]>, limit: usize) -> Result<Vec<Box<str>>, StoreError> {
        self.list_homed(after, limit).await
    }

    async fn commit(&self, change: ChangeSet) -> Result<CommitInfo, CommitError> {
        self.writer.commit(change).await
    }

    async fn read_log(&self, after: u64, limit: usize) -> Result<Vec<LogEntry>, StoreError> {
        self.read_log(after, limit).await
    }

    async fn history(&self, key: &NameKey, order: HistoryOrder, limit: usize) -> Result<History, StoreError> {
        self.read_history(key, order, limit).await
    }

    async fn get_aux(&self, key: &[u8]) -> Result<Option<Box<[u8]>>, StoreError> {
        self.read_note(key).await
    }

    async fn list_aux(
        &self,
        beginning: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<Note>, StoreError> {
        self.list_notes(beginning, after, limit).await
    }

    async fn names_at_revision(
        &self,
        revision: u64,
        after: Option<&NameKey>,
        limit: usize,
    ) -> Result<NamePage, StoreError> {
        self.list_revision(revision, after, limit).await
    }
}
