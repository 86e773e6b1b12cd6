//! Streamed response bodies, in constant memory: the producer waits for slow clients.

use bytes::Bytes;
use http::StatusCode;
use http::header::HeaderValue;
use tokio::sync::mpsc;

use crate::http::response::reply::{Reply, reply};
use crate::http::response::spool;

/// Chunks queued for sending; beyond that, the producer waits.
const MAX_QUEUED_CHUNKS: usize = 4;

/// A streamed body was aborted: the client left, or its source failed.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the response was aborted")]
pub(crate) struct StreamAborted;

/// Reply whose body is produced by `produce` while it is sent. An error or panic aborts the body so that the client notices. It is not
/// compressed, since that would delay chunks.
///
/// `produce` runs in its own task, and ends when a chunk cannot be sent any more.
pub(crate) fn stream<F>(
    status: StatusCode,
    media_type: HeaderValue,
    produce: impl FnOnce(BodySink) -> F,
) -> Reply
where
    F: Future<Output = Result<(), StreamAborted>> + Send + 'static,
{
    streamed_reply(status, media_type, spawn_producer(produce))
}

/// Like [`stream`], for a response to a body that is still being received: `produce` does not wait for a client that reads only
/// after sending everything. Unread chunks are spooled to disk, within bounds.
pub(crate) fn stream_spooled<F>(
    status: StatusCode,
    media_type: HeaderValue,
    produce: impl FnOnce(BodySink) -> F,
) -> Reply
where
    F: Future<Output = Result<(), StreamAborted>> + Send + 'static,
{
    let (sender, receiver) = mpsc::channel(MAX_QUEUED_CHUNKS);
    tokio::spawn(spool::run(spawn_producer(produce), sender));
    streamed_reply(status, media_type, receiver)
}

fn spawn_producer<F>(produce: impl FnOnce(BodySink) -> F) -> mpsc::Receiver<Bytes>
where
    F: Future<Output = Result<(), StreamAborted>> + Send + 'static,
{
    let (sender, receiver) = mpsc::channel(MAX_QUEUED_CHUNKS);
    let produced = produce(BodySink(sender.clone()));
    tokio::spawn(async move {
        if produced.await.is_ok() {
            // An empty chunk is the end mark; a closed channel is not.
            let _ = sender.send(Bytes::new()).await;
        }
    });
    receiver
}

fn streamed_reply(status: StatusCode, media_type: HeaderValue, receiver: mpsc::Receiver<Bytes>) -> Reply {
    let mut response = reply(status, media_type, Bytes::new());
    response.stream = Some(receiver);
    response
}

/// Sending half of a streamed body.
#[derive(Clone, Debug)]
pub(crate) struct BodySink(mpsc::Sender<Bytes>);

impl BodySink {
    /// Sends a chunk, waiting for room in the queue.
    pub(crate) async fn send(&self, chunk: impl Into<Bytes>) -> Result<(), StreamAborted> {
        let chunk = chunk.into();
        if chunk.is_empty() {
            return Ok(());
        }
        self.0.send(chunk).await.map_err(|_| StreamAborted)
    }

    /// Waits until the client has disconnected.
    pub(crate) async fn closed(&self) {
        self.0.closed().await;
    }
}
