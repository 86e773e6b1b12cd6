//! Request bodies: bounded in size, total memory and time.

use std::net::IpAddr;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use tendot_registry::Caller;
use tokio::time::{Instant, timeout};

use crate::client_network::client_network;
use crate::connection::TransferAllowance;
use crate::http::authentication::CallerClass;
use crate::http::request::body_budget::{BodyBudget, BodySender};

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

/// Body of a request that is still being received, and its sender.
#[derive(Debug)]
pub(crate) struct RequestBody {
    pub(super) incoming: Incoming,
    sender: BodySender,
}

impl RequestBody {
    /// Body of a caller that is not authenticated yet; the client is absent if a proxy hides it.
    pub(crate) fn new(incoming: Incoming, client: Option<IpAddr>) -> Self {
        let sender = BodySender { client: client.map(client_network), caller: CallerClass::Anonymous };
        Self { incoming, sender }
    }

    /// Body of this caller.
    pub(crate) fn of_caller(self, caller: &Caller) -> Self {
        Self { sender: BodySender { caller: CallerClass::of(caller), ..self.sender }, ..self }
    }
}

/// Reads request bodies within a byte budget.
#[derive(Debug)]
pub(crate) struct BodyReader {
    budget: BodyBudget,
    /// Timeout for the first byte, and longest pause; see [`TransferAllowance`].
    pub(crate) timeout: Duration,
}

impl BodyReader {
    pub(crate) fn new(timeout: Duration) -> Self {
        Self { budget: BodyBudget::default(), timeout }
    }

    /// Reads a whole body of text: JSON or a form.
    pub(crate) async fn read_text(&self, body: RequestBody, limit: usize) -> Result<String, BodyError> {
        let bytes = Vec::from(self.read(body, limit).await?);
        String::from_utf8(bytes)
            .map_err(|error| BodyError::InvalidUtf8 { offset: error.utf8_error().valid_up_to() })
    }

    /// Reads a whole body.
    pub(crate) async fn read(&self, body: RequestBody, limit: usize) -> Result<Bytes, BodyError> {
        let RequestBody { incoming: mut body, sender } = body;
        if body.size_hint().lower() > limit as u64 {
            return Err(BodyError::TooLarge { limit });
        }
        let mut reservation = self.budget.reservation(sender);
        let (mut allowance, mut read) = (TransferAllowance::new(self.timeout), BytesMut::new());
        loop {
            let started = Instant::now();
            let frame = timeout(allowance.remaining(), body.frame()).await;
            allowance.spend(started.elapsed());
            let frame = match frame {
                Err(_) => return Err(BodyError::Timeout),
                Ok(None) => return Ok(read.freeze()),
                Ok(Some(Err(_))) => return Err(BodyError::Malformed),
                Ok(Some(Ok(frame))) => frame,
            };
            let Ok(data) = frame.into_data() else { continue };
            if data.len() > limit - read.len() {
                return Err(BodyError::TooLarge { limit });
            }
            if !reservation.reserve(data.len()) {
                return Err(BodyError::Overloaded);
            }
            allowance.earn_bytes(data.len());
            read.extend_from_slice(&data);
        }
    }
}
