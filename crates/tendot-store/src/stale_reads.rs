//! Reading what others may have changed just now.

use std::future::Future;

#[cfg(feature = "postgres")]
mod memo {
    use std::cell::RefCell;
    use std::future::Future;

    use crate::{NameKey, StoredRecord};

    tokio::task_local! {
        static STALE_READ_SCOPE: RefCell<Vec<(NameKey, Option<StoredRecord>)>>;
    }

    /// Records that are remembered: the one that was asked for, and those that it leads to.
    const MAX_MEMOIZED_RECORDS: usize = 4;

    pub(super) async fn scope<F: Future>(reading: F) -> F::Output {
        STALE_READ_SCOPE.scope(RefCell::default(), reading).await
    }

    /// Whether whoever reads has said so.
    pub(crate) fn allows_stale_reads() -> bool {
        STALE_READ_SCOPE.try_with(|_| ()).is_ok()
    }

    /// A record that was read within before.
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

/// Lets records and homed prefixes that are read within be as they were a moment ago, as far as others changed them: a database
/// may then ask its standbys, and what was read within once is not read again. What was committed through this store before is
/// there in any case.
///
/// For those who only resolve. Who changes something, has to be known, or asks for what is there now reads outside of this.
#[cfg(feature = "postgres")]
pub async fn with_stale_reads<F: Future>(reading: F) -> F::Output {
    memo::scope(reading).await
}

/// The same where every store knows what is there now.
#[cfg(not(feature = "postgres"))]
pub async fn with_stale_reads<F: Future>(reading: F) -> F::Output {
    reading.await
}
