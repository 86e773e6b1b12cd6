use std::time::{Duration, Instant};

/// Timeout of all waits in tests: far longer than any event takes on a busy machine.
pub const WAIT_TIMEOUT: Duration = Duration::from_secs(180);

const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Waits until `condition` holds; panics with `what` if it does not within [`WAIT_TIMEOUT`].
#[track_caller]
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    wait_for(what, || condition().then_some(()));
}

/// Waits until `poll` returns a value; panics with `what` if it does not within [`WAIT_TIMEOUT`].
#[track_caller]
pub fn wait_for<T>(what: &str, mut poll: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + WAIT_TIMEOUT;
    loop {
        if let Some(value) = poll() {
            return value;
        }
        assert!(Instant::now() < deadline, "timed out waiting until {what}");
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// [`wait_until`] for an asynchronous condition.
#[cfg(feature = "async")]
pub async fn wait_until_async(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    wait_for_async(what, async || condition().await.then_some(())).await;
}

/// [`wait_for`] for an asynchronous condition.
#[cfg(feature = "async")]
pub async fn wait_for_async<T>(what: &str, mut poll: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + WAIT_TIMEOUT;
    loop {
        if let Some(value) = poll().await {
            return value;
        }
        assert!(Instant::now() < deadline, "timed out waiting until {what}");
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}
