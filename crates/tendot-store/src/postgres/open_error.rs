//! Error of opening a database as a store, with hints.

use tokio_postgres::error::SqlState;

use super::error::DatabaseError;

/// Reason why a database cannot be opened as a store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PostgresOpenError {
    /// The connection string is invalid.
    #[error("invalid connection string: {reason}")]
    InvalidConnectionString {
        /// Reason.
        reason: String,
    },
    /// The CA file of `sslrootcert` cannot be read.
    #[error("cannot read `sslrootcert`: {reason}")]
    InvalidCaFile {
        /// Reason.
        reason: String,
    },
    /// No host answers.
    #[error("cannot reach the database {database}: {reason}")]
    Unreachable {
        /// Database.
        database: String,
        /// Reason.
        reason: String,
    },
    /// TLS failed: the certificate is not trusted, or the server has no TLS.
    #[error("TLS connection to {database} failed: {reason}")]
    TlsFailed {
        /// Database.
        database: String,
        /// Reason.
        reason: String,
    },
    /// Authentication failed.
    #[error("authentication failed for {database}: {reason}")]
    AuthenticationFailed {
        /// Database.
        database: String,
        /// Message of the server.
        reason: String,
    },
    /// The database does not exist.
    #[error("database {database} does not exist")]
    DatabaseNotFound {
        /// Database.
        database: String,
    },
    /// The user lacks a privilege.
    #[error("insufficient privileges in {database}: {reason}")]
    InsufficientPrivilege {
        /// Database.
        database: String,
        /// Message of the server.
        reason: String,
    },
    /// The database is read-only.
    #[error("database {database} is read-only: {reason}")]
    ReadOnly {
        /// Database.
        database: String,
        /// Message of the server.
        reason: String,
    },
    /// The only reachable primary has been superseded by a promotion.
    #[error(
        "the only reachable primary of {database}, {host}, has been superseded: it is on timeline {timeline}, but timeline \
         {highest} was seen before"
    )]
    Superseded {
        /// Database.
        database: String,
        /// Address of the primary.
        host: String,
        /// Number of its timeline.
        timeline: u32,
        /// Highest timeline seen.
        highest: u32,
    },
    /// The file that remembers the timeline cannot be used.
    #[error("cannot use the timeline file `{path}`: {reason}")]
    TimelineFile {
        /// Path.
        path: String,
        /// Reason.
        reason: String,
    },
    /// The schema is newer than this version supports.
    #[error(
        "schema version {version} in {database} requires a program that supports version {required}; this one supports {supported}"
    )]
    SchemaTooNew {
        /// Database.
        database: String,
        /// Schema version found.
        version: u32,
        /// Lowest schema version that a program must support.
        required: u32,
        /// Highest schema version that this program supports.
        supported: u32,
    },
    /// The schema is older than this version needs, and schema migrations are disabled.
    #[error("schema version {version} in {database} is too old; this program needs {required}")]
    SchemaTooOld {
        /// Database.
        database: String,
        /// Schema version found; 0 without tables.
        version: u32,
        /// Schema version that is needed.
        required: u32,
    },
    /// The schema is older than the first one that can be migrated.
    #[error(
        "schema version {version} in {database} is not supported; the first supported version is {first}"
    )]
    SchemaUnsupported {
        /// Database.
        database: String,
        /// Schema version found.
        version: u32,
        /// First schema version that can be used or migrated.
        first: u32,
    },
    /// A schema migration is needed, but other sessions hold locks on the tables for too long.
    #[error("schema migration of {database} timed out waiting for a lock")]
    SchemaLocked {
        /// Database.
        database: String,
    },
    /// The store is the target of an incomplete migration.
    #[error("the store in {database} is an incomplete migration target")]
    IncompleteMigration {
        /// Database.
        database: String,
    },
    /// Another error.
    #[error("cannot use database {database} as a store: {reason}")]
    Other {
        /// Database.
        database: String,
        /// Reason.
        reason: String,
    },
}

impl PostgresOpenError {
    /// Suggested remedy.
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::InvalidConnectionString { .. } => "use `postgres://user:password@host:5432/database`",
            Self::InvalidCaFile { .. } => "`sslrootcert` must name a PEM file of CA certificates",
            Self::Unreachable { .. } => {
                "check that the server is running and that host and port are right; tendot does not wait for it, so let \
                 systemd restart the service"
            }
            Self::TlsFailed { .. } => {
                "certificates are always verified: set `sslrootcert=` to your CA file, or `sslmode=disable` on a trusted \
                 network"
            }
            Self::AuthenticationFailed { .. } => {
                "check user and password in the connection string, and `pg_hba.conf` on the server"
            }
            Self::DatabaseNotFound { .. } => {
                "create it with `createdb`, or change the database name in the connection string"
            }
            Self::InsufficientPrivilege { .. } => {
                "make the user owner of the database, or grant `create` on the schema; once the tables exist, `select, \
                 insert, update, delete` are enough"
            }
            Self::ReadOnly { .. } => {
                "add the primary to the connection string: `postgres://user@one,two,three/database`"
            }
            Self::Superseded { .. } => {
                "stop that host and start the one that was promoted; see \"Two primaries\" in \
                 docs/how-to/run-on-postgresql.md"
            }
            Self::TimelineFile { .. } => {
                "check its permissions and the disk; if its content is corrupt, make sure that only the current primary \
                 runs, then remove it"
            }
            Self::SchemaTooNew { .. } => {
                "upgrade tendot, or restore a backup from before the schema migration"
            }
            Self::SchemaTooOld { .. } => "start tendot once as a user that may alter the tables",
            Self::SchemaUnsupported { .. } => {
                "use an empty database, and export and import the records with the version that created the tables"
            }
            Self::SchemaLocked { .. } => {
                "another server may be migrating the schema; wait until it is ready, then start this one again"
            }
            Self::IncompleteMigration { .. } => crate::migration::RESUME_HINT,
            Self::Other { .. } => "see the log of the database server",
        }
    }

    /// Classifies a database error that occurred while opening.
    pub(crate) fn from_database(database: &str, error: &DatabaseError) -> Self {
        let (database, reason) = (database.to_owned(), error.to_string());
        let (DatabaseError::Sql(error) | DatabaseError::ConnectionRefused(error)) = error else {
            return Self::Unreachable { database, reason };
        };
        match error.code() {
            Some(&SqlState::INVALID_PASSWORD | &SqlState::INVALID_AUTHORIZATION_SPECIFICATION) => {
                Self::AuthenticationFailed { database, reason }
            }
            Some(&SqlState::INVALID_CATALOG_NAME) => Self::DatabaseNotFound { database },
            Some(&SqlState::INSUFFICIENT_PRIVILEGE) => Self::InsufficientPrivilege { database, reason },
            Some(&SqlState::READ_ONLY_SQL_TRANSACTION) => Self::ReadOnly { database, reason },
            Some(&SqlState::CANNOT_CONNECT_NOW | &SqlState::TOO_MANY_CONNECTIONS) => {
                Self::Unreachable { database, reason }
            }
            Some(_) => Self::Other { database, reason },
            None if reason.contains("password missing") || reason.contains("authentication error") => {
                Self::AuthenticationFailed { database, reason }
            }
            None if reason.contains("TLS") => Self::TlsFailed { database, reason },
            None => Self::Unreachable { database, reason },
        }
    }
}
