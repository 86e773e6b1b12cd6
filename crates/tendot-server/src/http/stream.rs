//! Answers that are made while they are sent, in constant memory: who makes one waits while its client reads slowly.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::StatusCode;
use http::header::HeaderValue;
use tokio::sync::mpsc;

use super::answer::{Reply, reply};
use super::spool;

/// Pieces that wait to be sent; with more, who makes them waits.
const MAX_QUEUED_CHUNKS: usize = 4;

/// A streamed body was aborted: the client left, or its source failed.
///
/// The client sees that it was cut.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the answer was cut off")]
pub(crate) struct StreamAborted;

/// An answer whose body `make` gives piece by piece while it is sent; an error, or a panic, cuts it off so that the client
/// sees it. It is not compressed, since that would hold pieces back that somebody waits for.
///
/// `make` goes on in a task of its own, and ends when a piece can't be sent any more.
pub(crate) fn stream<F>(status: StatusCode, kind: HeaderValue, make: impl FnOnce(BodySink) -> F) -> Reply
where
    F: Future<Output = Result<(), StreamAborted>> + Send + 'static,
{
    streamed_reply(status, kind, spawn_producer(make))
}

/// The same, for an answer to what the client still sends: `make` does not wait for a client that reads nothing before it has
/// sent all, as most do. What it does not read yet waits on disk, within bounds.
pub(crate) fn stream_spooled<F>(
    status: StatusCode,
    kind: HeaderValue,
    make: impl FnOnce(BodySink) -> F,
) -> Reply
where
    F: Future<Output = Result<(), StreamAborted>> + Send + 'static,
{
    let (sender, receiver) = mpsc::channel(MAX_QUEUED_CHUNKS);
    tokio::spawn(spool::run(spawn_producer(make), sender));
    streamed_reply(status, kind, receiver)
}

fn spawn_producer<F>(make: impl FnOnce(BodySink) -> F) -> mpsc::Receiver<Bytes>
where
    F: Future<Output = Result<(), StreamAborted>> + Send + 'static,
{
    let (sender, receiver) = mpsc::channel(MAX_QUEUED_CHUNKS);
    let made = make(BodySink(sender.clone()));
    tokio::spawn(async move {
        if made.await.is_ok() {
            // Nothing is the end; a channel that is only closed is none.
            let _ = sender.send(Bytes::new()).await;
        }
    });
    receiver
}

fn streamed_reply(status: StatusCode, kind: HeaderValue, receiver: mpsc::Receiver<Bytes>) -> Reply {
    let mut response = reply(status, kind, Bytes::new());
    response.extensions_mut().insert(StreamedBody(Arc::new(Mutex::new(Some(receiver)))));
    response
}

/// Sending half of a streamed body.
#[derive(Clone, Debug)]
pub(crate) struct BodySink(mpsc::Sender<Bytes>);

impl BodySink {
    /// Sends a piece, as soon as there is room for it.
    pub(crate) async fn send(&self, piece: impl Into<Bytes>) -> Result<(), StreamAborted> {
        let piece = piece.into();
        if piece.is_empty() {
            return Ok(());
        }
        self.0.send(piece).await.map_err(|_| StreamAborted)
    }

    /// Waits until the client is gone.
    pub(crate) async fn closed(&self) {
        self.0.closed().await;
    }
}

/// Marks a reply whose body is streamed, and holds its receiver.
#[derive(Clone, Debug)]
struct StreamedBody(Arc<Mutex<Option<mpsc::Receiver<Bytes>>>>);

/// Where the body of an answer comes from, if it is made while it is sent.
pub(super) fn take_stream(response: &mut Reply) -> Option<mpsc::Receiver<Bytes>> {
    let streamed = response.extensions_mut().remove::<StreamedBody>()?;
    streamed.0.lock().unwrap_or_else(PoisonError::into_inner).take()
}
