//! Error of opening a database as a store, with hints.

use tokio_postgres::error::SqlState;

use super::error::DatabaseError;

/// Reason why a database cannot be opened as a store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PostgresOpenError {
    /// The connection string is invalid.
    #[error("the address of the database can't be read: {why}")]
    Address {
        /// Reason.
        why: String,
    },
    /// The CA file of `sslrootcert` cannot be read.
    #[error("the certificates of `sslrootcert` can't be read: {why}")]
    Certificates {
        /// Reason.
        why: String,
    },
    /// No host answers.
    #[error("no database server was reached at {place}: {why}")]
    Unreachable {
        /// Database.
        place: String,
        /// Reason.
        why: String,
    },
    /// TLS failed: the certificate is not trusted, or the server has no TLS.
    #[error("there is no trusted connection to {place}: {why}")]
    Untrusted {
        /// Database.
        place: String,
        /// Reason.
        why: String,
    },
    /// Authentication failed.
    #[error("the database server at {place} refuses the user or the password: {why}")]
    Login {
        /// Database.
        place: String,
        /// Message of the server.
        why: String,
    },
    /// The database does not exist.
    #[error("the server has no such database as {place}")]
    NoDatabase {
        /// Database.
        place: String,
    },
    /// The user lacks a privilege.
    #[error("the user has not the rights that are needed in {place}: {why}")]
    Rights {
        /// Database.
        place: String,
        /// Message of the server.
        why: String,
    },
    /// The database is read-only.
    #[error("the database {place} can only be read: {why}")]
    ReadOnly {
        /// Database.
        place: String,
        /// Message of the server.
        why: String,
    },
    /// The schema is newer than this version supports.
    #[error(
        "the tables in {place} have the number {found} and need a program that knows {needed}; this one knows {known}"
    )]
    Newer {
        /// Database.
        place: String,
        /// Schema version found.
        found: u32,
        /// Lowest schema version that a program must support.
        needed: u32,
        /// Highest schema version that this program supports.
        known: u32,
    },
    /// The schema is older than this version needs, and schema migrations are disabled.
    #[error("the tables in {place} have the number {found}, and this program needs {known}")]
    Older {
        /// Database.
        place: String,
        /// Schema version found; 0 without tables.
        found: u32,
        /// Schema version that is needed.
        known: u32,
    },
    /// A schema migration is needed, but other sessions hold locks on the tables for too long.
    #[error("the tables in {place} have to be changed, and others do not let go of them")]
    Locked {
        /// Database.
        place: String,
    },
    /// The store is the target of an incomplete migration.
    #[error("the store in {place} is the unfinished copy of another")]
    Unfinished {
        /// Database.
        place: String,
    },
    /// Another error.
    #[error("the database {place} can't be used as a store: {why}")]
    Failed {
        /// Database.
        place: String,
        /// Reason.
        why: String,
    },
}

impl PostgresOpenError {
    /// Suggested remedy.
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::Address { .. } => "it looks like postgres://user:password@host:5432/database",
            Self::Certificates { .. } => "`sslrootcert` is the path of a file with certificates in PEM",
            Self::Unreachable { .. } => {
                "see that the server runs, and that host and port are right; it is not waited for: whoever starts this \
                 program, such as systemd, may start it again"
            }
            Self::Untrusted { .. } => {
                "certificates are always verified: name your authority's file by `sslrootcert=`, or on a network that \
                 you trust set `sslmode=disable`"
            }
            Self::Login { .. } => "see user and password in the address, and the server's pg_hba.conf",
            Self::NoDatabase { .. } => {
                "make it with `createdb`, or name another one at the end of the address"
            }
            Self::Rights { .. } => {
                "let the user own the database, or grant it to create tables in the schema and to change them: `select, \
                 insert, update, delete` are enough once they are there"
            }
            Self::ReadOnly { .. } => {
                "name the primary, too: an address may have several hosts, as in `postgres://user@one,two,three/database`"
            }
            Self::Newer { .. } => {
                "use the newer version of this program, or restore a backup from before the change"
            }
            Self::Older { .. } => "let this program change the tables, once, with a user that may",
            Self::Locked { .. } => {
                "another server may be changing them just now: wait until it is ready and start this one again"
            }
            Self::Unfinished { .. } => crate::migration::RESUME_HINT,
            Self::Failed { .. } => "the log of the database server may say more",
        }
    }

    /// Classifies a database error that occurred while opening.
    pub(crate) fn from_database(place: &str, error: &DatabaseError) -> Self {
        let (place, why) = (place.to_owned(), error.to_string());
        let (DatabaseError::Sql(error) | DatabaseError::ConnectionRefused(error)) = error else {
            return Self::Unreachable { place, why };
        };
        match error.code() {
            Some(&SqlState::INVALID_PASSWORD | &SqlState::INVALID_AUTHORIZATION_SPECIFICATION) => {
                Self::Login { place, why }
            }
            Some(&SqlState::INVALID_CATALOG_NAME) => Self::NoDatabase { place },
            Some(&SqlState::INSUFFICIENT_PRIVILEGE) => Self::Rights { place, why },
            Some(&SqlState::READ_ONLY_SQL_TRANSACTION) => Self::ReadOnly { place, why },
            Some(&SqlState::CANNOT_CONNECT_NOW | &SqlState::TOO_MANY_CONNECTIONS) => {
                Self::Unreachable { place, why }
            }
            Some(_) => Self::Failed { place, why },
            None if why.contains("password missing") || why.contains("authentication error") => {
                Self::Login { place, why }
            }
            None if why.contains("TLS") => Self::Untrusted { place, why },
            None => Self::Unreachable { place, why },
        }
    }
}
