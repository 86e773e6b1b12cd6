//! Reading what others may have changed just now.

use std::future::Future;

#[cfg(feature = "postgres")]
tokio::task_local! {
    static RECENT: ();
}

/// Lets records and homed prefixes that are read within be as they were a moment ago, as far as others changed them: a database
/// may then ask its standbys. What was committed through this store is there in any case.
///
/// For those who only resolve. Who changes something, has to be known, or asks for what is there now reads outside of this.
#[cfg(feature = "postgres")]
pub async fn recent<F: Future>(reading: F) -> F::Output {
    RECENT.scope((), reading).await
}

/// The same where every store knows what is there now.
#[cfg(not(feature = "postgres"))]
pub async fn recent<F: Future>(reading: F) -> F::Output {
    reading.await
}

/// Whether whoever reads has said so.
#[cfg(feature = "postgres")]
pub(crate) fn is_recent_enough() -> bool {
    RECENT.try_with(|()| ()).is_ok()
}
