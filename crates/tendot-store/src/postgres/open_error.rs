//! Error of opening a database as a store, with hints.

use tokio_postgres::error::SqlState;

use super::error::DatabaseError;

/// Reason why a database cannot be opened as a store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PostgresOpenError {
    /// The address is none.
    #[error("the address of the database can't be read: {why}")]
    Address {
        /// What is wrong with it.
        why: String,
    },
    /// The file of `sslrootcert` cannot be used.
    #[error("the certificates of `sslrootcert` can't be read: {why}")]
    Certificates {
        /// What is wrong with it.
        why: String,
    },
    /// Nobody answers there.
    #[error("no database server was reached at {place}: {why}")]
    Unreachable {
        /// Where it was looked for.
        place: String,
        /// What happened.
        why: String,
    },
    /// Who answers is not who was meant, or does not speak TLS.
    #[error("there is no trusted connection to {place}: {why}")]
    Untrusted {
        /// Where it was looked for.
        place: String,
        /// What happened.
        why: String,
    },
    /// The user or the password is not taken.
    #[error("the database server at {place} refuses the user or the password: {why}")]
    Login {
        /// Where.
        place: String,
        /// What it said.
        why: String,
    },
    /// There is no such database.
    #[error("the server has no such database as {place}")]
    NoDatabase {
        /// Which.
        place: String,
    },
    /// The user may not do what is needed.
    #[error("the user has not the rights that are needed in {place}: {why}")]
    Rights {
        /// Where.
        place: String,
        /// What the server said.
        why: String,
    },
    /// The server takes no changes.
    #[error("the database {place} can only be read: {why}")]
    ReadOnly {
        /// Which.
        place: String,
        /// What the server said.
        why: String,
    },
    /// The tables were made by a newer version of this program, which gave up what this one needs.
    #[error(
        "the tables in {place} have the number {found} and need a program that knows {needed}; this one knows {known}"
    )]
    Newer {
        /// Where.
        place: String,
        /// Their number.
        found: u32,
        /// The lowest that a program has to know.
        needed: u32,
        /// The highest that this one knows.
        known: u32,
    },
    /// The tables are those of an older version, and were not to be changed.
    #[error("the tables in {place} have the number {found}, and this program needs {known}")]
    Older {
        /// Where.
        place: String,
        /// Their number; 0 if there are none.
        found: u32,
        /// What is needed.
        known: u32,
    },
    /// The tables are to be changed, and somebody else changes or uses them for longer than is waited.
    #[error("the tables in {place} have to be changed, and others do not let go of them")]
    Locked {
        /// Where.
        place: String,
    },
    /// Another store was being moved here, and that was not finished.
    #[error("the store in {place} is the unfinished copy of another")]
    Unfinished {
        /// Where.
        place: String,
    },
    /// Something else went wrong.
    #[error("the database {place} can't be used as a store: {why}")]
    Failed {
        /// Which.
        place: String,
        /// What happened.
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

    /// What an error means that was met while opening.
    pub(crate) fn from_database(place: &str, error: &DatabaseError) -> Self {
        let (place, why) = (place.to_owned(), error.to_string());
        let (DatabaseError::Server(error) | DatabaseError::Refused(error)) = error else {
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
