//! Slow clients: minimum transfer rate, and lingering close.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until, timeout};

/// Minimum transfer rate of a peer in bytes per second, beyond its base timeout.
const MIN_BYTES_PER_SECOND: u64 = 1 << 10;

/// Minimum rate of a request body in bytes per second, over a sliding window.
const MIN_BODY_BYTES_PER_SECOND: u64 = 4 << 10;

/// Lingering close: time and bytes for which further input is discarded.
const LINGER_TIMEOUT: Duration = Duration::from_secs(1);
const MAX_LINGER_BYTES: usize = 4 << 20;

/// Timeout of a transfer of so many bytes: `base`, and one second per kilobyte.
pub(crate) const fn transfer_timeout(base: Duration, bytes: u64) -> Duration {
    base.saturating_add(Duration::from_secs(bytes / MIN_BYTES_PER_SECOND))
}

/// Time that a client may still take to send: a minimum rate over a sliding window.
///
/// Waiting for the client spends the allowance, and what it sends earns time, but never more than the window: a client that
/// was fast cannot stall for longer later.
#[derive(Debug)]
pub(crate) struct TransferAllowance {
    window: Duration,
    remaining: Duration,
}

impl TransferAllowance {
    pub(crate) const fn new(window: Duration) -> Self {
        Self { window, remaining: window }
    }

    /// Timeout of the next part.
    pub(crate) const fn remaining(&self) -> Duration {
        self.remaining
    }

    /// Spends time that was waited.
    pub(crate) const fn spend(&mut self, waited: Duration) {
        self.remaining = self.remaining.saturating_sub(waited);
    }

    /// Earns the time of so many bytes.
    pub(crate) fn earn_bytes(&mut self, bytes: usize) {
        let micros = (bytes as u64).saturating_mul(1_000_000) / MIN_BODY_BYTES_PER_SECOND;
        self.earn(Duration::from_micros(micros));
    }

    pub(crate) fn earn(&mut self, time: Duration) {
        self.remaining = self.remaining.saturating_add(time).min(self.window);
    }
}

/// Lingering close: discards further input after the sending side was closed, so that the peer can read the last response.
///
/// Closing a socket with unread input would reset the connection and lose that response.
#[derive(Debug)]
pub(crate) struct LingeringClose {
    deadline: Pin<Box<Sleep>>,
    discarded_bytes: usize,
}

impl LingeringClose {
    pub(crate) fn begin() -> Self {
        let deadline = Box::pin(sleep_until(Instant::now() + LINGER_TIMEOUT));
        Self { deadline, discarded_bytes: 0 }
    }

    /// Completes when the peer has closed its side, or the time or number of bytes is exceeded.
    pub(crate) fn poll_discard<T: AsyncRead + Unpin>(
        &mut self,
        stream: &mut T,
        context: &mut Context<'_>,
    ) -> Poll<()> {
        let mut bytes = [0; 4 << 10];
        loop {
            let mut buffer = ReadBuf::new(&mut bytes);
            match Pin::new(&mut *stream).poll_read(context, &mut buffer) {
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {
                    self.discarded_bytes += buffer.filled().len();
                    if self.discarded_bytes > MAX_LINGER_BYTES {
                        return Poll::Ready(());
                    }
                }
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending => {
                    ready!(self.deadline.as_mut().poll(context));
                    return Poll::Ready(());
                }
            }
        }
    }
}

/// Closes the sending side of a connection, and lingers.
pub(crate) async fn lingering_close<T: AsyncRead + AsyncWrite + Unpin>(stream: &mut T) {
    let mut lingering = LingeringClose::begin();
    if let Ok(Ok(())) = timeout(LINGER_TIMEOUT, stream.shutdown()).await {
        poll_fn(|context| lingering.poll_discard(stream, context)).await;
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    #[test]
    fn transfer_timeouts() {
        let base = Duration::from_secs(30);
        assert_eq!(transfer_timeout(base, 1_023), base);
        assert_eq!(transfer_timeout(base, 10 << 10), Duration::from_secs(40));
        assert_eq!(transfer_timeout(Duration::MAX, u64::MAX), Duration::MAX);
    }

    #[test]
    fn audit_f4_sliding_window() {
        let window = Duration::from_secs(10);
        let mut allowance = TransferAllowance::new(window);
        // Data that was sent quickly does not permit a longer pause later.
        allowance.earn_bytes(4 << 20);
        assert_eq!(allowance.remaining(), window);
        // The minimum rate can go on for any time; half of it ends after two windows.
        for _ in 0..1_000 {
            allowance.spend(Duration::from_secs(1));
            allowance.earn_bytes(4 << 10);
        }
        assert_eq!(allowance.remaining(), window);
        let exhausted = (1..=100).find(|_| {
            allowance.spend(Duration::from_secs(1));
            let is_exhausted = allowance.remaining().is_zero();
            allowance.earn_bytes(2 << 10);
            is_exhausted
        });
        assert_eq!(exhausted, Some(19));
    }

    /// Input is discarded until the peer closes its side, for a limited time and number of bytes.
    #[tokio::test(start_paused = true)]
    async fn lingers() {
        let (mut stream, mut peer) = duplex(64 << 10);
        let closing = tokio::spawn(async move { lingering_close(&mut stream).await });
        assert_eq!(peer.read(&mut [0]).await.unwrap(), 0, "the sending side is closed");
        peer.write_all(&[0; 256 << 10]).await.unwrap();
        assert!(!closing.is_finished());
        drop(peer);
        closing.await.unwrap();

        let (mut stream, _silent) = duplex(1);
        let started = Instant::now();
        lingering_close(&mut stream).await;
        assert_eq!(started.elapsed(), LINGER_TIMEOUT);

        let (mut stream, mut endless) = duplex(64 << 10);
        let sending = tokio::spawn(async move { while endless.write_all(&[0; 1 << 10]).await.is_ok() {} });
        lingering_close(&mut stream).await;
        drop(stream);
        sending.await.unwrap();
    }
}
