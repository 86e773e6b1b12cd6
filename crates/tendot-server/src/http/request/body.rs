//! Request bodies: bounded in size, total memory and time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use tokio::time::{Instant, timeout_at};

use crate::connection::transfer_timeout;

/// Bytes of all bodies being read.
const MAX_TOTAL_BODY_BYTES: usize = 256 << 20;

/// Reason a request body was rejected.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub(crate) enum BodyError {
    #[error("the body exceeds {limit} bytes")]
    TooLarge { limit: usize },
    #[error("timeout while reading the body")]
    Timeout,
    #[error("the body is malformed or incomplete")]
    Malformed,
    #[error("invalid UTF-8 at byte {offset} of the body")]
    InvalidUtf8 { offset: usize },
    #[error("the server is reading too many request bodies; retry later")]
    Overloaded,
    #[error("unsupported Content-Encoding; use gzip or none")]
    UnsupportedEncoding,
    #[error("the decompressed body exceeds {ratio} times its compressed size")]
    DecompressionRatio { ratio: usize },
}

/// Reads request bodies within a byte budget shared by all requests.
#[derive(Debug)]
pub(crate) struct BodyReader {
    reserved: AtomicUsize,
    /// Timeout for the first byte, in addition to the minimum transfer rate.
    pub(crate) timeout: Duration,
}

impl BodyReader {
    pub(crate) const fn new(timeout: Duration) -> Self {
        Self { reserved: AtomicUsize::new(0), timeout }
    }

    /// Reads a whole body of text: JSON or a form.
    pub(crate) async fn read_text(&self, body: Incoming, limit: usize) -> Result<String, BodyError> {
        let bytes = Vec::from(self.read(body, limit).await?);
        String::from_utf8(bytes)
            .map_err(|error| BodyError::InvalidUtf8 { offset: error.utf8_error().valid_up_to() })
    }

    /// Reads a whole body.
    pub(crate) async fn read(&self, mut body: Incoming, limit: usize) -> Result<Bytes, BodyError> {
        if body.size_hint().lower() > limit as u64 {
            return Err(BodyError::TooLarge { limit });
        }
        let mut reservation = BodyReservation { total: &self.reserved, reserved: 0 };
        let (started, mut read) = (Instant::now(), BytesMut::new());
        loop {
            let deadline = started + transfer_timeout(self.timeout, read.len() as u64);
            let frame = match timeout_at(deadline, body.frame()).await {
                Err(_) => return Err(BodyError::Timeout),
                Ok(None) => return Ok(read.freeze()),
                Ok(Some(Err(_))) => return Err(BodyError::Malformed),
                Ok(Some(Ok(frame))) => frame,
            };
            let Ok(data) = frame.into_data() else { continue };
            if data.len() > limit - read.len() {
                return Err(BodyError::TooLarge { limit });
            }
            reservation.reserve(data.len())?;
            read.extend_from_slice(&data);
        }
    }
}

/// Bytes of the shared budget held by one body; released when dropped.
struct BodyReservation<'a> {
    total: &'a AtomicUsize,
    reserved: usize,
}

impl BodyReservation<'_> {
    fn reserve(&mut self, bytes: usize) -> Result<(), BodyError> {
        self.reserved += bytes;
        let before = self.total.fetch_add(bytes, Ordering::Relaxed);
        if before + bytes > MAX_TOTAL_BODY_BYTES { Err(BodyError::Overloaded) } else { Ok(()) }
    }
}

impl Drop for BodyReservation<'_> {
    fn drop(&mut self) {
        self.total.fetch_sub(self.reserved, Ordering::Relaxed);
    }
}
