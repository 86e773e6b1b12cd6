//! Stopped clock for tests with real sockets: no timeout expires.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};

use tendot_testing::WAIT_TIMEOUT;

/// Stops the clock of the current runtime until it is dropped, so that no timeout expires, however busy the machine is.
///
/// `tokio::time::advance` moves the clock. A test that waits for a timeout without that fails after [`WAIT_TIMEOUT`].
pub(crate) struct StoppedClock {
    has_timed_out: Arc<AtomicBool>,
    /// Ends the blocking task when dropped.
    _finished: Sender<()>,
}

impl StoppedClock {
    pub(crate) fn new() -> Self {
        tokio::time::pause();
        let (finished, receiver) = channel();
        let has_timed_out = Arc::new(AtomicBool::new(false));
        let clock = Self { has_timed_out: Arc::clone(&has_timed_out), _finished: finished };
        // Tokio advances a paused clock whenever all tasks wait, even for a socket, but not while a blocking task runs.
        tokio::task::spawn_blocking(move || {
            let is_timeout = receiver.recv_timeout(WAIT_TIMEOUT) == Err(RecvTimeoutError::Timeout);
            has_timed_out.store(is_timeout, Ordering::Relaxed);
        });
        clock
    }
}

impl Drop for StoppedClock {
    fn drop(&mut self) {
        let has_timed_out = self.has_timed_out.load(Ordering::Relaxed);
        assert!(!has_timed_out || std::thread::panicking(), "the test waits for a timeout");
    }
}
