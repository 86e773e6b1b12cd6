//! Stream wrapper with timeouts for request heads, slow readers and lingering close.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes};
use http::HeaderValue;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::connection::{LingeringClose, transfer_timeout};
use crate::http::server::listener::HttpLimits;
use crate::http::server::parse_error;
use crate::http::server::smuggling_guard::{HeadValidator, INVALID_HEAD_END};

/// Stream with timeouts for request heads, slow readers and lingering close.
#[derive(Debug)]
pub(crate) struct TimeoutStream<T> {
    stream: T,
    limits: HttpLimits,
    head_validator: HeadValidator,
    /// End of a rejected head that is still to be read.
    pending_head_end: &'static [u8],
    /// Deadline of the request head being received.
    head_deadline: Option<Pin<Box<Sleep>>>,
    /// Current write stall.
    write_stall: Option<WriteStall>,
    /// Request id for a head that cannot be parsed, and the rest of the error response to send.
    request_id: HeaderValue,
    pending_error: Bytes,
    lingering_close: Option<LingeringClose>,
}

/// Start of a blocked write, bytes written since, and its timer.
#[derive(Debug)]
struct WriteStall {
    started: Instant,
    written: u64,
    deadline: Pin<Box<Sleep>>,
}

impl<T> TimeoutStream<T> {
    pub(crate) fn new(stream: T, limits: HttpLimits, request_id: HeaderValue) -> Self {
        // A silent client has no more time than a slow one.
        let head_deadline = Some(Box::pin(sleep_until(Instant::now() + limits.header_timeout)));
        let (head_validator, pending_error) = (HeadValidator::new(), Bytes::new());
        Self {
            stream,
            limits,
            head_validator,
            pending_head_end: &[],
            head_deadline,
            write_stall: None,
            request_id,
            pending_error,
            lingering_close: None,
        }
    }

    /// Reads the end of a rejected head, as far as it fits.
    fn read_head_end(&mut self, buffer: &mut ReadBuf<'_>) {
        let (now, later) =
            self.pending_head_end.split_at(self.pending_head_end.len().min(buffer.remaining()));
        buffer.put_slice(now);
        self.pending_head_end = later;
    }

    fn has_write_timed_out(&mut self, context: &mut Context<'_>) -> bool {
        let limits = self.limits;
        let write_stall = self.write_stall.get_or_insert_with(|| {
            let started = Instant::now();
            WriteStall {
                started,
                written: 0,
                deadline: Box::pin(sleep_until(started + limits.write_timeout)),
            }
        });
        loop {
            if write_stall.deadline.as_mut().poll(context).is_pending() {
                return false;
            }
            let deadline = write_stall.started + transfer_timeout(limits.write_timeout, write_stall.written);
            if deadline <= Instant::now() {
                return true;
            }
            write_stall.deadline.as_mut().reset(deadline);
        }
    }

    fn record_written(&mut self, written: usize, offered: usize) {
        if written == offered {
            self.write_stall = None;
        } else if let Some(write_stall) = &mut self.write_stall {
            write_stall.written += written as u64;
        }
    }
}

fn timed_out(message: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, message)
}

impl<T: AsyncRead + Unpin> AsyncRead for TimeoutStream<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if !this.pending_head_end.is_empty() {
            this.read_head_end(buffer);
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        let polled = Pin::new(&mut this.stream).poll_read(context, buffer);
        if polled.is_ready() {
            if let Some(accepted) =
                this.head_validator.inspect(buffer.filled().get(before..).unwrap_or_default())
            {
                buffer.set_filled(before + accepted);
                this.pending_head_end = INVALID_HEAD_END;
                this.read_head_end(buffer);
            }
            // A client that is sending cannot be expected to read; the reader of its body limits how slowly it may send.
            if let Some(write_stall) = this.write_stall.as_mut().filter(|_| buffer.filled().len() > before) {
                write_stall.started = Instant::now();
            }
            if !this.head_validator.is_in_head() && !this.head_validator.has_received_nothing() {
                this.head_deadline = None;
            } else if this.head_deadline.is_none() {
                this.head_deadline = Some(Box::pin(sleep_until(Instant::now() + this.limits.header_timeout)));
            }
        } else if let Some(deadline) = &mut this.head_deadline {
            ready!(deadline.as_mut().poll(context));
            return Poll::Ready(Err(timed_out("timeout while reading the request head")));
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
                self.pending_error = match self.head_validator.redirect() {
                    Some(redirect) => parse_error::redirect(redirect, &self.request_id),
                    None => {
                        let fault = self.head_validator.fault();
                        parse_error::add_body(bytes, fault.as_ref(), &self.limits, &self.request_id)
                    }
                };
                return Poll::Ready(Ok(bytes.len()));
            }
            // Send what precedes it first.
            Some(before) => bytes.get(..before).unwrap_or(bytes),
            None => bytes,
        };
        match Pin::new(&mut self.stream).poll_write(context, bytes) {
            Poll::Ready(Ok(written)) => {
                self.record_written(written, bytes.len());
                Poll::Ready(Ok(written))
            }
            Poll::Pending if self.has_write_timed_out(context) => {
                Poll::Ready(Err(timed_out("timeout while writing the response")))
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
        if let [slice] = slices {
            return self.poll_write(context, slice);
        }
        match Pin::new(&mut self.stream).poll_write_vectored(context, slices) {
            Poll::Ready(Ok(written)) => {
                self.record_written(written, slices.iter().map(|slice| slice.len()).sum());
                Poll::Ready(Ok(written))
            }
            Poll::Pending if self.has_write_timed_out(context) => {
                Poll::Ready(Err(timed_out("timeout while writing the response")))
            }
            other => other,
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.pending_error.has_remaining() {
            let this = &mut *self;
            match Pin::new(&mut this.stream).poll_write(context, &this.pending_error) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(written)) => this.pending_error.advance(written),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending if this.has_write_timed_out(context) => {
                    return Poll::Ready(Err(timed_out("timeout while writing the response")));
                }
                Poll::Pending => return Poll::Pending,
            }
        }
        match Pin::new(&mut self.stream).poll_flush(context) {
            Poll::Pending if self.has_write_timed_out(context) => {
                Poll::Ready(Err(timed_out("timeout while writing the response")))
            }
            other => other,
        }
    }

    /// Closes the sending side, and lingers.
    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.lingering_close.is_none() && self.pending_error.has_remaining() {
            ready!(self.as_mut().poll_flush(context))?;
        }
        let this = &mut *self;
        if this.lingering_close.is_none() {
            match Pin::new(&mut this.stream).poll_shutdown(context) {
                Poll::Ready(Ok(())) => {}
                Poll::Pending if this.has_write_timed_out(context) => {
                    return Poll::Ready(Err(timed_out("timeout while writing the response")));
                }
                other => return other,
            }
        }
        let lingering_close = this.lingering_close.get_or_insert_with(LingeringClose::begin);
        lingering_close.poll_discard(&mut this.stream, context).map(Ok)
    }
}
