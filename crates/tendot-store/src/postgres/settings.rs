//! Settings of a PostgreSQL store, and the observed state of its hosts.

use std::path::PathBuf;
use std::time::Duration;

/// Host of the database cluster, as last observed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DatabaseHost {
    /// Address: `host:port`.
    pub address: String,
    /// Replication role.
    pub role: HostRole,
    /// Whether it serves reads: a standby does not if it may have diverged from the primary, or if the connection string
    /// excludes standbys.
    pub serves_reads: bool,
    /// Replication lag in log entries; `None` if unreachable.
    pub lag_entries: Option<u64>,
    /// Time since it was last caught up; `None` if unreachable.
    pub lag: Option<Duration>,
    /// Number of the timeline of a host that accepts writes: each promotion starts a higher one.
    pub timeline: Option<u32>,
}

/// Replication role of a database host.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum HostRole {
    /// Current primary.
    Primary,
    /// Accepts writes but is not used: superseded by a promotion, or another host on the same timeline was seen first.
    SecondPrimary,
    /// Read-only.
    Standby,
    /// Does not answer.
    Unreachable,
}

/// Connection limits and timeouts of a PostgreSQL store.
#[derive(Clone, Debug)]
pub struct PostgresSettings {
    /// Maximum number of read connections per host: half for single records, half for lists, at least one each. One more
    /// connection writes.
    pub max_connections: usize,
    /// Timeout of waiting for a connection, for other writers, and for a database that comes back. The resolution of an in-doubt
    /// commit may take three times as long.
    pub wait_timeout: Duration,
    /// Timeout of one statement.
    pub statement_timeout: Duration,
    /// Timeout of a health check, after which a host counts as unreachable; at most half of `wait_timeout`.
    pub probe_timeout: Duration,
    /// Whether tables are created and schema migrations applied.
    pub migrate_schema: bool,
    /// File in which the highest timeline seen is remembered, so that a primary that was superseded by a promotion is not used
    /// after a restart either; none by default.
    pub timeline_file: Option<PathBuf>,
}

impl Default for PostgresSettings {
    fn default() -> Self {
        Self {
            max_connections: 16,
            wait_timeout: Duration::from_secs(10),
            statement_timeout: Duration::from_secs(60),
            probe_timeout: Duration::from_secs(2),
            migrate_schema: true,
            timeline_file: None,
        }
    }
}
