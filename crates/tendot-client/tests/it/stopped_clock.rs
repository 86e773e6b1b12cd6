//! Tests with real sockets in which no time-out expires.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};

use tendot_testing::WAIT_TIMEOUT;

/// Stops the clock of the current runtime until it is dropped, so that no time-out expires, however busy the machine is.
///
/// `tokio::time::advance` moves the clock. A test that waits for a time-out without that fails after [`WAIT_TIMEOUT`].
pub(crate) struct StoppedClock {
    is_over: Arc<AtomicBool>,
    /// Ends the blocking task when dropped.
    _finished: Sender<()>,
}

impl StoppedClock {
    pub(crate) fn new() -> Self {
        tokio::time::pause();
        let (finished, receiver) = channel();
        let is_over = Arc::new(AtomicBool::new(false));
        let clock = Self { is_over: Arc::clone(&is_over), _finished: finished };
        // Tokio advances a paused clock whenever all tasks wait, even for a socket, but not while a blocking task runs.
        tokio::task::spawn_blocking(move || {
            let is_timeout = receiver.recv_timeout(WAIT_TIMEOUT) == Err(RecvTimeoutError::Timeout);
            is_over.store(is_timeout, Ordering::Relaxed);
        });
        clock
    }
}

impl Drop for StoppedClock {
    fn drop(&mut self) {
        let is_over = self.is_over.load(Ordering::Relaxed);
        assert!(!is_over || std::thread::panicking(), "the test waits for a time-out");
    }
}
