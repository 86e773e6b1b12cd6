use deadpool_postgres::{HookError, PoolError, TimeoutType};
use tokio_postgres::error::SqlState;

use crate::StoreError;

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
            Self::Unfinished { .. } => crate::moving::RESUME_HINT,
            Self::Failed { .. } => "the log of the database server may say more",
        }
    }

    /// What an error means that was met while opening.
    pub(super) fn from_database(place: &str, error: &DatabaseError) -> Self {
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

/// Error of a database request.
#[derive(Debug, thiserror::Error)]
pub(super) enum DatabaseError {
    #[error("{}", message(.0))]
    Server(#[from] tokio_postgres::Error),
    /// It takes no connection, and will not soon: whatever it says is of this server and not of what was to be asked.
    #[error("{}", message(.0))]
    Refused(tokio_postgres::Error),
    #[error("no connection was free in time")]
    Busy,
    #[error("there was no answer in time")]
    Silent,
    #[error("the connections are closed")]
    Closed,
    #[error("no server of the database takes changes now")]
    NoPrimary,
    #[error("no server of the database is reached now")]
    Gone,
    #[error("its tables need a newer version of this program")]
    Newer,
    #[error("it is too long ago to tell")]
    Forgotten,
    #[error("the records of these changes are too large together")]
    TooMuch,
    #[error(transparent)]
    Unread(#[from] StoreError),
}

impl From<PoolError> for DatabaseError {
    fn from(error: PoolError) -> Self {
        match error {
            PoolError::Backend(error) | PoolError::PostCreateHook(HookError::Backend(error)) => {
                if is_retryable_sql(&error) {
                    Self::Server(error)
                } else {
                    Self::Refused(error)
                }
            }
            PoolError::Timeout(TimeoutType::Wait) => Self::Busy,
            // The first statement of a connection says so itself.
            PoolError::Timeout(_) | PoolError::PostCreateHook(HookError::Message(_)) => Self::Silent,
            _ => Self::Closed,
        }
    }
}

impl DatabaseError {
    /// Whether the same may succeed if it is done again. Only right for what was not done.
    pub(super) fn is_retryable(&self) -> bool {
        match self {
            Self::Server(error) => is_retryable_sql(error),
            Self::Silent | Self::NoPrimary => true,
            _ => false,
        }
    }

    /// Whether what was asked may be at fault, and not the server.
    pub(super) fn is_caused_by_request(&self) -> bool {
        let of_server =
            [SqlState::READ_ONLY_SQL_TRANSACTION, SqlState::DISK_FULL, SqlState::INSUFFICIENT_PRIVILEGE];
        match self {
            // What was read makes no sense.
            Self::TooMuch | Self::Unread(_) => true,
            Self::Server(error) => {
                error.code().is_some_and(|code| !of_server.contains(code)) && !self.is_retryable()
            }
            _ => false,
        }
    }

    /// Whether there are no tables.
    pub(super) fn is_missing_table(&self) -> bool {
        matches!(self, Self::Server(error) if error.code() == Some(&SqlState::UNDEFINED_TABLE))
    }

    /// Whether somebody else may answer: the server is at fault, or the way to it.
    pub(super) fn is_caused_by_host(&self) -> bool {
        let is_conflict = matches!(self, Self::Server(error) if error.code().is_some_and(|code| code.code().starts_with("40")));
        self.is_retryable() && !is_conflict || matches!(self, Self::Busy | Self::Refused(_))
    }

    /// The same for those who use the store.
    pub(super) fn into_store_error(self, doing: &'static str) -> StoreError {
        let error = match self {
            Self::Server(ref error) => error,
            Self::NoPrimary => return StoreError::ReadOnly { why: self.to_string() },
            Self::Unread(error) => return error,
            Self::TooMuch => return StoreError::Failed { doing, error: Box::new(self) },
            _ => return StoreError::Unreachable { doing, why: self.to_string() },
        };
        match error.code() {
            Some(&SqlState::READ_ONLY_SQL_TRANSACTION) => StoreError::ReadOnly { why: message(error) },
            Some(&SqlState::DISK_FULL) => StoreError::Full { doing, error: message(error) },
            _ if self.is_retryable() => StoreError::Unreachable { doing, why: message(error) },
            _ => StoreError::Failed { doing, error: Box::new(self) },
        }
    }
}

fn is_retryable_sql(error: &tokio_postgres::Error) -> bool {
    let Some(code) = error.code() else {
        // Neither the server nor what was asked is at fault, but the way between.
        return error.is_closed() || is_io_error(error);
    };
    // Conflicts of transactions, connections that were lost, servers that go or come.
    let class = code.code().get(..2).unwrap_or_default();
    matches!(class, "40" | "08")
        || [
            SqlState::ADMIN_SHUTDOWN,
            SqlState::CRASH_SHUTDOWN,
            SqlState::CANNOT_CONNECT_NOW,
            SqlState::LOCK_NOT_AVAILABLE,
            SqlState::TOO_MANY_CONNECTIONS,
            SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
        ]
        .contains(code)
}

fn is_io_error(error: &tokio_postgres::Error) -> bool {
    std::error::Error::source(error).is_some_and(|source| source.is::<std::io::Error>())
}

/// What went wrong, in the server's words if it has any.
pub(super) fn message(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(said) => format!("{} ({})", said.message(), said.code().code()),
        None => {
            let cause = std::error::Error::source(error).map(ToString::to_string);
            let told = error.to_string();
            match cause.filter(|cause| !told.contains(cause)) {
                Some(cause) => format!("{told}: {cause}"),
                None => told,
            }
        }
    }
}
