//! Stream wrapper with timeouts for request heads, slow readers and lingering close.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use http::HeaderValue;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::http::server::listener::HttpLimits;
use crate::http::server::parse_error;
use crate::http::server::smuggling_guard::HeadValidator;

/// Minimum transfer rate of a peer in bytes per second, beyond its base timeout.
pub(crate) const SLOWEST: u64 = 1 << 10;

/// Lingering close: time and bytes for which further input is discarded, so that the peer can read the last response.
const LINGER_TIMEOUT: Duration = Duration::from_secs(1);
const MAX_LINGER_BYTES: usize = 4 << 20;

/// Stream with timeouts for request heads, slow readers and lingering close.
#[derive(Debug)]
pub(crate) struct TimeoutStream<T> {
    stream: T,
    limits: HttpLimits,
    heads: HeadValidator,
    /// Deadline of the request head being received.
    head_end: Option<Pin<Box<Sleep>>>,
    /// Current write stall.
    stalled: Option<WriteStall>,
    /// Request id for a head that cannot be parsed, and the rest of the error response to send.
    id: HeaderValue,
    refusal: Bytes,
    linger: Option<LingerState>,
}

/// Start of a blocked write, bytes accepted since, and its timer.
#[derive(Debug)]
struct WriteStall {
    since: Instant,
    taken: u64,
    end: Pin<Box<Sleep>>,
}

/// State of a lingering close: timer and bytes discarded.
#[derive(Debug)]
struct LingerState {
    end: Pin<Box<Sleep>>,
    thrown_away: usize,
}

impl<T> TimeoutStream<T> {
    pub(crate) fn new(stream: T, limits: HttpLimits, id: HeaderValue) -> Self {
        // A silent client has no more time than a slow one.
        let head_end = Some(Box::pin(sleep_until(Instant::now() + limits.header_time)));
        let (heads, refusal) = (HeadValidator::new(), Bytes::new());
        Self { stream, limits, heads, head_end, stalled: None, id, refusal, linger: None }
    }

    fn has_write_timed_out(&mut self, context: &mut Context<'_>) -> bool {
        let limits = self.limits;
        let stalled = self.stalled.get_or_insert_with(|| {
            let since = Instant::now();
            WriteStall { since, taken: 0, end: Box::pin(sleep_until(since + limits.write_time)) }
        });
        loop {
            if stalled.end.as_mut().poll(context).is_pending() {
                return false;
            }
            let end = stalled.since + limits.write_time + Duration::from_secs(stalled.taken / SLOWEST);
            if end <= Instant::now() {
                return true;
            }
            stalled.end.as_mut().reset(end);
        }
    }

    fn record_written(&mut self, bytes: usize, of: usize) {
        if bytes == of {
            self.stalled = None;
        } else if let Some(stalled) = &mut self.stalled {
            stalled.taken += bytes as u64;
        }
    }
}

fn timed_out(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, what)
}

impl<T: AsyncRead + Unpin> AsyncRead for TimeoutStream<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let before = buffer.filled().len();
        let polled = Pin::new(&mut this.stream).poll_read(context, buffer);
        if polled.is_ready() {
            this.heads.inspect(&mut buffer.filled_mut()[before..]);
            // A client that is sending cannot be expected to read; the reader of its body limits how slowly it may send.
            if let Some(stalled) = this.stalled.as_mut().filter(|_| buffer.filled().len() > before) {
                stalled.since = Instant::now();
            }
            if !this.heads.is_in_head() && !this.heads.has_received_nothing() {
                this.head_end = None;
            } else if this.head_end.is_none() {
                this.head_end = Some(Box::pin(sleep_until(Instant::now() + this.limits.header_time)));
            }
        } else if let Some(end) = &mut this.head_end {
            ready!(end.as_mut().poll(context));
            return Poll::Ready(Err(timed_out("the head of a request did not come in time")));
        }
        polled
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncWrite for TimeoutStream<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let bytes = match parse_error::find_hyper_error(bytes) {
            Some(0) => {
                self.refusal = parse_error::add_body(bytes, self.heads.fault(), &self.limits, &self.id);
                return Poll::Ready(Ok(bytes.len()));
            }
            // Send what precedes it first.
            Some(before) => &bytes[..before],
            None => bytes,
        };
        match Pin::new(&mut self.stream).poll_write(context, bytes) {
            Poll::Ready(Ok(taken)) => {
                self.record_written(taken, bytes.len());
                Poll::Ready(Ok(taken))
            }
            Poll::Pending if self.has_write_timed_out(context) => {
                Poll::Ready(Err(timed_out("the answer is not read")))
            }
            other => other,
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        // A head without a body comes in one slice.
        if let [one] = slices {
            return self.poll_write(context, one);
        }
        match Pin::new(&mut self.stream).poll_write_vectored(context, slices) {
            Poll::Ready(Ok(taken)) => {
                self.record_written(taken, slices.iter().map(|slice| slice.len()).sum());
                Poll::Ready(Ok(taken))
            }
            Poll::Pending if self.has_write_timed_out(context) => {
                Poll::Ready(Err(timed_out("the answer is not read")))
            }
            other => other,
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.refusal.has_remaining() {
            let this = &mut *self;
            match Pin::new(&mut this.stream).poll_write(context, &this.refusal) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(taken)) => this.refusal.advance(taken),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending if this.has_write_timed_out(context) => {
                    return Poll::Ready(Err(timed_out("the answer is not read")));
                }
                Poll::Pending => return Poll::Pending,
            }
        }
        match Pin::new(&mut self.stream).poll_flush(context) {
            Poll::Pending if self.has_write_timed_out(context) => {
                Poll::Ready(Err(timed_out("the answer is not read")))
            }
            other => other,
        }
    }

    /// Closes the sending side, and lingers: closing the socket with unread input would reset the connection and lose the last
    /// response.
    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.linger.is_none() && self.refusal.has_remaining() {
            ready!(self.as_mut().poll_flush(context))?;
        }
        let this = &mut *self;
        if this.linger.is_none() {
            match Pin::new(&mut this.stream).poll_shutdown(context) {
                Poll::Ready(Ok(())) => {}
                Poll::Pending if this.has_write_timed_out(context) => {
                    return Poll::Ready(Err(timed_out("the answer is not read")));
                }
                other => return other,
            }
            let end = Box::pin(sleep_until(Instant::now() + LINGER_TIMEOUT));
            this.linger = Some(LingerState { end, thrown_away: 0 });
        }
        let Some(linger) = &mut this.linger else { return Poll::Ready(Ok(())) };
        let mut room = [0; 4 << 10];
        loop {
            let mut buffer = ReadBuf::new(&mut room);
            match Pin::new(&mut this.stream).poll_read(context, &mut buffer) {
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {
                    linger.thrown_away += buffer.filled().len();
                    if linger.thrown_away > MAX_LINGER_BYTES {
                        return Poll::Ready(Ok(()));
                    }
                }
                Poll::Ready(_) => return Poll::Ready(Ok(())),
                Poll::Pending => return linger.end.as_mut().poll(context).map(Ok),
            }
        }
    }
}
