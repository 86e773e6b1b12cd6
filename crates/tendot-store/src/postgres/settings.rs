//! Settings of a PostgreSQL store, and the observed state of its hosts.

use std::time::Duration;

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
