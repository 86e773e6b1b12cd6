//! Request bodies: bounded in size, total memory and time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use tokio::time::{Instant, timeout_at};

use crate::http::server::timeouts::SLOWEST;

/// Bytes of all bodies being read.
const MAX_TOTAL_BODY_BYTES: usize = 256 << 20;

/// Reason a request body was rejected.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub(crate) enum BodyError {
    #[error("at most {limit} bytes are read")]
    TooLarge { limit: usize },
    #[error("the body did not come in time")]
    Timeout,
    #[error("the body is malformed, or ended too early")]
    Malformed,
    #[error("too many others are being read")]
    Overloaded,
    #[error("the body has a coding that is not understood; gzip is, or none")]
    UnsupportedEncoding,
    #[error("the body grows to more than {ratio} times its size")]
    DecompressionRatio { ratio: usize },
}

impl BodyError {
    /// Error code of the problem.
    pub(crate) const fn code(self) -> &'static str {
        match self {
            Self::TooLarge { .. } => "too-large",
            Self::Timeout => "too-slow",
            Self::Overloaded => "too-busy",
            Self::UnsupportedEncoding => "media-type",
            Self::DecompressionRatio { .. } => "too-dense",
            Self::Malformed => "malformed",
        }
    }

    pub(crate) const fn status(self) -> StatusCode {
        match self {
            Self::TooLarge { .. } | Self::DecompressionRatio { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::UnsupportedEncoding => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Timeout => StatusCode::REQUEST_TIMEOUT,
            Self::Malformed => StatusCode::BAD_REQUEST,
            Self::Overloaded => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

/// Reads request bodies within a byte budget shared by all requests.
#[derive(Debug)]
pub(crate) struct BodyReader {
    taken: AtomicUsize,
    /// Timeout for the first byte, in addition to the minimum transfer rate.
    pub(crate) time: Duration,
}

impl BodyReader {
    pub(crate) const fn new(time: Duration) -> Self {
        Self { taken: AtomicUsize::new(0), time }
    }

    /// Reads a whole body.
    pub(crate) async fn read(&self, mut body: Incoming, limit: usize) -> Result<Bytes, BodyError> {
        if body.size_hint().lower() > limit as u64 {
            return Err(BodyError::TooLarge { limit });
        }
        let mut room = BodyReservation { all: &self.taken, taken: 0 };
        let (begun, mut read) = (Instant::now(), BytesMut::new());
        loop {
            let end = begun + self.time + Duration::from_secs(read.len() as u64 / SLOWEST);
            let frame = match timeout_at(end, body.frame()).await {
                Err(_) => return Err(BodyError::Timeout),
                Ok(None) => return Ok(read.freeze()),
                Ok(Some(Err(_))) => return Err(BodyError::Malformed),
                Ok(Some(Ok(frame))) => frame,
            };
            let Ok(data) = frame.into_data() else { continue };
            if data.len() > limit - read.len() {
                return Err(BodyError::TooLarge { limit });
            }
            room.reserve(data.len())?;
            read.extend_from_slice(&data);
        }
    }
}

/// Bytes of the shared budget held by one body; released when dropped.
struct BodyReservation<'a> {
    all: &'a AtomicUsize,
    taken: usize,
}

impl BodyReservation<'_> {
    fn reserve(&mut self, bytes: usize) -> Result<(), BodyError> {
        self.taken += bytes;
        let before = self.all.fetch_add(bytes, Ordering::Relaxed);
        if before + bytes > MAX_TOTAL_BODY_BYTES { Err(BodyError::Overloaded) } else { Ok(()) }
    }
}

impl Drop for BodyReservation<'_> {
    fn drop(&mut self) {
        self.all.fetch_sub(self.taken, Ordering::Relaxed);
    }
}
