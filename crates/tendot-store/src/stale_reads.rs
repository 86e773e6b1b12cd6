//! Scope in which stale reads are allowed, and in which records are read at most once.

use std::future::Future;

#[cfg(feature = "postgres")]
mod memo {
    use std::cell::RefCell;
    use std::future::Future;

    use crate::{NameKey, StoredRecord};

    tokio::task_local! {
        static STALE_READ_SCOPE: RefCell<Vec<(NameKey, Option<StoredRecord>)>>;
    }

    /// Records memoized per scope: the requested one and those it refers to.
    const MAX_MEMOIZED_RECORDS: usize = 4;

    pub(super) async fn scope<F: Future>(future: F) -> F::Output {
        STALE_READ_SCOPE.scope(RefCell::default(), future).await
    }

    /// Whether the current task is inside the scope.
    pub(crate) fn allows_stale_reads() -> bool {
        STALE_READ_SCOPE.try_with(|_| ()).is_ok()
    }

    /// Record that was read before in this scope.
    pub(crate) fn memoized(key: &NameKey) -> Option<Option<StoredRecord>> {
        let find = |records: &RefCell<Vec<(NameKey, Option<StoredRecord>)>>| {
            records.borrow().iter().find(|(other, _)| other == key).map(|(_, record)| record.clone())
        };
        STALE_READ_SCOPE.try_with(find).ok().flatten()
    }

    pub(crate) fn memoize(key: &NameKey, record: Option<&StoredRecord>) {
        // Fails outside of the scope.
        let _ = STALE_READ_SCOPE.try_with(|records| {
            let mut records = records.borrow_mut();
            if records.len() < MAX_MEMOIZED_RECORDS {
                records.push((key.clone(), record.cloned()));
            }
        });
    }
}

#[cfg(feature = "postgres")]
pub(crate) use memo::{allows_stale_reads, memoize, memoized};

/// Runs a future in whose reads records and homed prefixes may be slightly stale, as far as other processes changed them:
/// PostgreSQL reads may then go to standbys, and each record is read at most once. Commits made through this store are always
/// visible.
///
/// For resolution only. Writes, authentication and reads that need the latest state must run outside of the scope.
#[cfg(feature = "postgres")]
pub async fn with_stale_reads<F: Future>(future: F) -> F::Output {
    memo::scope(future).await
}

/// Runs a future; without PostgreSQL no store has stale reads.
#[cfg(not(feature = "postgres"))]
pub async fn with_stale_reads<F: Future>(future: F) -> F::Output {
    future.await
}
