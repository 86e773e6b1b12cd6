//! Batch upload: options and stream of results.

use std::io::Read;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_TYPE, HeaderName};
use http::{Method, StatusCode};
use http_body_util::{BodyExt as _, Either};
use hyper::body::Incoming;

use super::upload::{StallTimeout, UploadBody, UploadProgress};
use super::{RegistryClient, RegistryClientError};
use crate::http_client::error_chain;

/// Maximum length of a line of results.
const MAX_LINE_BYTES: usize = 1 << 20;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Header of a response whose results were stored by an earlier request with the same idempotency key.
const IDEMPOTENCY_REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// Options of a batch upload.
#[derive(Clone, Copy, Debug, Default)]
pub struct BatchOptions<'a> {
    /// Whether the lines are CSV rows instead of JSON.
    pub is_csv: bool,
    /// Whether to validate without executing.
    pub is_dry_run: bool,
    /// Idempotency key of the batch.
    pub idempotency_key: Option<&'a str>,
    /// Whether the source may pause, so that a stall is not an error.
    pub has_slow_source: bool,
}

impl RegistryClient {
    /// Uploads a batch and streams its results while it is sent.
    pub async fn batch(
        &self,
        options: &BatchOptions<'_>,
        source: impl Read + Send + 'static,
    ) -> Result<BatchResultStream, RegistryClientError> {
        let query: &[_] = if options.is_dry_run { &[("dry-run", "true")] } else { &[] };
        let content_type = if options.is_csv { "text/csv" } else { "application/x-ndjson" };
        let mut request =
            self.request(Method::POST, &["dois", "batch"], query).header(CONTENT_TYPE, content_type);
        if let Some(key) = options.idempotency_key {
            request = request.header(IDEMPOTENCY_KEY, key);
        }
        let progress = Arc::new(UploadProgress::default());
        let body = UploadBody::spawn(source, Arc::clone(&progress));
        let request = request.body(Either::Right(body)).map_err(|error| self.invalid_request(&error))?;
        let stall_timeout = StallTimeout { progress, has_slow_source: options.has_slow_source };
        let response = stall_timeout.run(self.client.request(request)).await;
        let response = response.ok_or_else(|| self.stalled())?.map_err(|error| {
            stall_timeout.progress.take_read_error().unwrap_or_else(|| self.transport_error(&error))
        })?;
        if response.status() != StatusCode::OK {
            return Err(self.read_problem(response).await);
        }
        let is_replayed = response.headers().contains_key(IDEMPOTENCY_REPLAYED);
        let body = response.into_body();
        Ok(BatchResultStream {
            client: self.clone(),
            body,
            buffer: BytesMut::new(),
            stall_timeout,
            is_replayed,
        })
    }
}

/// Stream of per-line results of a batch; dropping it cancels the batch.
#[derive(Debug)]
pub struct BatchResultStream {
    client: RegistryClient,
    body: Incoming,
    /// Received bytes that are not yet returned as lines.
    buffer: BytesMut,
    stall_timeout: StallTimeout,
    is_replayed: bool,
}

impl BatchResultStream {
    /// Whether the batch was executed before and these are the stored results (`Idempotency-Replayed`).
    pub const fn is_replayed(&self) -> bool {
        self.is_replayed
    }

    /// Next line without its line end; `None` at the end.
    pub async fn next_line(&mut self) -> Result<Option<Bytes>, RegistryClientError> {
        let mut searched = 0;
        loop {
            let unsearched = self.buffer.get(searched..).unwrap_or_default();
            if let Some(end) = unsearched.iter().position(|byte| *byte == b'\n') {
                let line = self.buffer.split_to(searched + end + 1).freeze();
                return Ok(Some(line.slice(..line.len() - 1)));
            }
            searched = self.buffer.len();
            if searched > MAX_LINE_BYTES {
                return Err(self.client.invalid_response(format!("line exceeds {MAX_LINE_BYTES} bytes")));
            }
            let frame =
                self.stall_timeout.run(self.body.frame()).await.ok_or_else(|| self.client.stalled())?;
            match frame {
                None if self.buffer.is_empty() => return Ok(None),
                None => return Err(self.client.invalid_response("truncated last line".into())),
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.buffer.extend_from_slice(&data);
                    }
                }
                Some(Err(error)) => {
                    let read_error = self.stall_timeout.progress.take_read_error();
                    return Err(
                        read_error.unwrap_or_else(|| self.client.connection_lost(&error_chain(&error)))
                    );
                }
            }
        }
    }
}
