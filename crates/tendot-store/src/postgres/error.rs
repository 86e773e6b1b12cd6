//! Error of a database request, and its classification.

use std::time::Duration;

use deadpool_postgres::{HookError, PoolError, TimeoutType};
use tokio_postgres::error::SqlState;

use crate::StoreError;

/// Error of a database request.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DatabaseError {
    #[error("{}", message(.0))]
    Sql(#[from] tokio_postgres::Error),
    /// The host rejects connections, and will not accept one soon: a fault of the host, not of the request.
    #[error("{}", message(.0))]
    ConnectionRefused(tokio_postgres::Error),
    #[error("timed out waiting for a free connection")]
    PoolTimeout,
    #[error("request timed out")]
    Timeout,
    #[error("connection pool is closed")]
    PoolClosed,
    #[error("no primary available")]
    NoPrimary,
    #[error("the primary was superseded by a promotion")]
    Superseded,
    #[error("no database host reachable")]
    NoHost,
    #[error("schema requires a newer version of this program")]
    SchemaTooNew,
    #[error("commit id has expired")]
    CommitIdExpired,
    #[error("records of this group exceed the prefetch limit")]
    PrefetchTooLarge,
    #[error(transparent)]
    Corrupt(#[from] StoreError),
}

impl From<PoolError> for DatabaseError {
    fn from(error: PoolError) -> Self {
        match error {
            PoolError::Backend(error) | PoolError::PostCreateHook(HookError::Backend(error)) => {
                if is_retryable_sql(&error) {
                    Self::Sql(error)
                } else {
                    Self::ConnectionRefused(error)
                }
            }
            PoolError::Timeout(TimeoutType::Wait) => Self::PoolTimeout,
            // The post-create hook reports its own timeout as a message.
            PoolError::Timeout(_) | PoolError::PostCreateHook(HookError::Message(_)) => Self::Timeout,
            _ => Self::PoolClosed,
        }
    }
}

impl DatabaseError {
    /// Whether a retry may succeed. Only valid if nothing was written.
    pub(crate) fn is_retryable(&self) -> bool {
        match self {
            Self::Sql(error) => is_retryable_sql(error),
            Self::Timeout | Self::NoPrimary | Self::Superseded => true,
            _ => false,
        }
    }

    /// Whether the request may be the cause, and not the host.
    pub(crate) fn is_caused_by_request(&self) -> bool {
        let host_errors =
            [SqlState::READ_ONLY_SQL_TRANSACTION, SqlState::DISK_FULL, SqlState::INSUFFICIENT_PRIVILEGE];
        match self {
            // Stored data is corrupt or too large.
            Self::PrefetchTooLarge | Self::Corrupt(_) => true,
            Self::Sql(error) => {
                error.code().is_some_and(|code| !host_errors.contains(code)) && !self.is_retryable()
            }
            _ => false,
        }
    }

    /// Whether the error is a write conflict on an intact connection.
    pub(crate) fn is_write_conflict(&self) -> bool {
        let Self::Sql(error) = self else { return false };
        let is_conflict =
            |code: &SqlState| is_transaction_rollback(code) || *code == SqlState::LOCK_NOT_AVAILABLE;
        !error.is_closed() && error.code().is_some_and(is_conflict)
    }

    /// Whether a table or a column is missing.
    pub(crate) fn is_missing_table(&self) -> bool {
        let missing = [SqlState::UNDEFINED_TABLE, SqlState::UNDEFINED_COLUMN];
        matches!(self, Self::Sql(error) if error.code().is_some_and(|code| missing.contains(code)))
    }

    /// Whether another host may answer: the host or the connection is the cause.
    pub(crate) fn is_caused_by_host(&self) -> bool {
        let is_conflict =
            matches!(self, Self::Sql(error) if error.code().is_some_and(is_transaction_rollback));
        self.is_retryable() && !is_conflict || matches!(self, Self::PoolTimeout | Self::ConnectionRefused(_))
    }

    /// Converts to a [`StoreError`].
    pub(crate) fn into_store_error(self, operation: &'static str) -> StoreError {
        let error = match self {
            Self::Sql(ref error) => error,
            Self::NoPrimary | Self::Superseded => return StoreError::ReadOnly { reason: self.to_string() },
            Self::Corrupt(error) => return error,
            Self::PrefetchTooLarge => return StoreError::Backend { operation, error: Box::new(self) },
            _ => return StoreError::Unavailable { operation, reason: self.to_string() },
        };
        match error.code() {
            Some(&SqlState::READ_ONLY_SQL_TRANSACTION) => StoreError::ReadOnly { reason: message(error) },
            Some(&SqlState::DISK_FULL) => StoreError::DiskFull { operation, detail: message(error) },
            _ if self.is_retryable() => StoreError::Unavailable { operation, reason: message(error) },
            _ => StoreError::Backend { operation, error: Box::new(self) },
        }
    }
}

fn is_retryable_sql(error: &tokio_postgres::Error) -> bool {
    let Some(code) = error.code() else {
        // Without SQLSTATE, the connection is the cause.
        return error.is_closed() || is_io_error(error);
    };
    // Serialization failures, lost connections, and servers that start or stop.
    is_transaction_rollback(code)
        || code.code().starts_with("08")
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

/// Whether the server rolled the transaction back because of another one (class 40).
fn is_transaction_rollback(code: &SqlState) -> bool {
    code.code().starts_with("40")
}

/// Whether another session migrated the schema concurrently or holds a lock.
pub(crate) fn is_concurrent_migration(error: &tokio_postgres::Error) -> bool {
    let codes = [
        SqlState::UNIQUE_VIOLATION,
        SqlState::DUPLICATE_TABLE,
        SqlState::DUPLICATE_OBJECT,
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::LOCK_NOT_AVAILABLE,
    ];
    error.code().is_some_and(|code| codes.contains(code))
}

/// Whether the database does not know a function, or does not permit its use.
pub(crate) fn is_unsupported(error: &tokio_postgres::Error) -> bool {
    let codes = [
        SqlState::UNDEFINED_FUNCTION,
        SqlState::UNDEFINED_TABLE,
        SqlState::UNDEFINED_COLUMN,
        SqlState::FEATURE_NOT_SUPPORTED,
        SqlState::INSUFFICIENT_PRIVILEGE,
        SqlState::SYNTAX_ERROR,
    ];
    error.code().is_some_and(|code| codes.contains(code))
}

fn is_io_error(error: &tokio_postgres::Error) -> bool {
    std::error::Error::source(error).is_some_and(|source| source.is::<std::io::Error>())
}

/// Awaits a request; fails when the time is over.
pub(crate) async fn with_timeout<T, E>(
    duration: Duration,
    request: impl Future<Output = Result<T, E>>,
) -> Result<T, DatabaseError>
where
    DatabaseError: From<E>,
{
    Ok(tokio::time::timeout(duration, request).await.map_err(|_| DatabaseError::Timeout)??)
}

/// Message of an error: the server's, if there is one.
pub(crate) fn message(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(error) => format!("{} ({})", error.message(), error.code().code()),
        None => {
            let cause = std::error::Error::source(error).map(ToString::to_string);
            let text = error.to_string();
            match cause.filter(|cause| !text.contains(cause)) {
                Some(cause) => format!("{text}: {cause}"),
                None => text,
            }
        }
    }
}
