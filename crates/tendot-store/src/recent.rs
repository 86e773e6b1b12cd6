//! Reading what others may have changed just now.

use std::future::Future;

#[cfg(feature = "postgres")]
mod memory {
    use std::cell::RefCell;
    use std::future::Future;

    use crate::{Entry, Key};

    tokio::task_local! {
        static STALE_READ_SCOPE: RefCell<Vec<(Key, Option<Entry>)>>;
    }

    /// Records that are remembered: the one that was asked for, and those that it leads to.
    const MOST: usize = 4;

    pub(super) async fn scope<F: Future>(reading: F) -> F::Output {
        STALE_READ_SCOPE.scope(RefCell::default(), reading).await
    }

    /// Whether whoever reads has said so.
    pub(crate) fn is_recent_enough() -> bool {
        STALE_READ_SCOPE.try_with(|_| ()).is_ok()
    }

    /// A record that was read within before.
    pub(crate) fn remembered(key: &Key) -> Option<Option<Entry>> {
        let find = |known: &RefCell<Vec<(Key, Option<Entry>)>>| {
            known.borrow().iter().find(|(one, _)| one == key).map(|(_, entry)| entry.clone())
        };
        STALE_READ_SCOPE.try_with(find).ok().flatten()
    }

    pub(crate) fn remember(key: &Key, entry: Option<&Entry>) {
        // Outside nothing is remembered.
        let _ = STALE_READ_SCOPE.try_with(|known| {
            let mut known = known.borrow_mut();
            if known.len() < MOST {
                known.push((key.clone(), entry.cloned()));
            }
        });
    }
}

#[cfg(feature = "postgres")]
pub(crate) use memory::{is_recent_enough, remember, remembered};

/// Lets records and homed prefixes that are read within be as they were a moment ago, as far as others changed them: a database
/// may then ask its standbys, and what was read within once is not read again. What was committed through this store before is
/// there in any case.
///
/// For those who only resolve. Who changes something, has to be known, or asks for what is there now reads outside of this.
#[cfg(feature = "postgres")]
pub async fn recent<F: Future>(reading: F) -> F::Output {
    memory::scope(reading).await
}

/// The same where every store knows what is there now.
#[cfg(not(feature = "postgres"))]
pub async fn recent<F: Future>(reading: F) -> F::Output {
    reading.await
}
