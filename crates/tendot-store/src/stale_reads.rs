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

    pub(super) async fn scope<F: Future>(reading: F) -> F::Output {
        STALE_READ_SCOPE.scope(RefCell::default(), reading).await
    }

    /// Whether the current task is inside the scope.
    pub(crate) fn allows_stale_reads() -> bool {
        STALE_READ_SCOPE.try_with(|_| ()).is_ok()
    }

    /// Record that was read before in this scope.
    pub(crate) fn memoized(key: &NameKey) -> Option<Option<StoredRecord>> {
        let find = |known: &RefCell<Vec<(NameKey, Option<StoredRecord>)>>| {
            known.borrow().iter().find(|(one, _)| one == key).map(|(_, entry)| entry.clone())
        };
        STALE_READ_SCOPE.try_with(find).ok().flatten()
    }

    pub(crate) fn memoize(key: &NameKey, entry: Option<&StoredRecord>) {
        // Outside nothing is remembered.
        let _ = STALE_READ_SCOPE.try_with(|known| {
            let mut known = known.borrow_mut();
            if known.len() < MAX_MEMOIZED_RECORDS {
                known.push((key.clone(), entry.cloned()));
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
pub async fn with_stale_reads<F: Future>(reading: F) -> F::Output {
    memo::scope(reading).await
}

/// Runs a future; without PostgreSQL no store has stale reads.
#[cfg(not(feature = "postgres"))]
pub async fn with_stale_reads<F: Future>(reading: F) -> F::Output {
    reading.await
}
