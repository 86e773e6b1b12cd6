//! Answers that are made while they are sent, in constant memory: who makes one waits while its client reads slowly.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::StatusCode;
use http::header::HeaderValue;
use tokio::sync::mpsc;

use super::answer::{Answer, answer};
use super::spool;

/// Pieces that wait to be sent; with more, who makes them waits.
const PIECES: usize = 4;

/// An answer was not sent to its end: its client is gone, or what it is made of failed. The client sees that it was cut.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the answer was cut off")]
pub(crate) struct Cut;

/// An answer whose body `make` gives piece by piece while it is sent; an error, or a panic, cuts it off so that the client
/// sees it. It is not compressed, since that would hold pieces back that somebody waits for.
///
/// `make` goes on in a task of its own, and ends when a piece can't be sent any more.
pub(crate) fn stream<F>(status: StatusCode, kind: HeaderValue, make: impl FnOnce(Sink) -> F) -> Answer
where
    F: Future<Output = Result<(), Cut>> + Send + 'static,
{
    respond(status, kind, begin(make))
}

/// The same, for an answer to what the client still sends: `make` does not wait for a client that reads nothing before it has
/// sent all, as most do. What it does not read yet waits on disk, within bounds.
pub(crate) fn stream_patiently<F>(
    status: StatusCode,
    kind: HeaderValue,
    make: impl FnOnce(Sink) -> F,
) -> Answer
where
    F: Future<Output = Result<(), Cut>> + Send + 'static,
{
    let (sender, receiver) = mpsc::channel(PIECES);
    tokio::spawn(spool::pass(begin(make), sender));
    respond(status, kind, receiver)
}

fn begin<F>(make: impl FnOnce(Sink) -> F) -> mpsc::Receiver<Bytes>
where
    F: Future<Output = Result<(), Cut>> + Send + 'static,
{
    let (sender, receiver) = mpsc::channel(PIECES);
    let made = make(Sink(sender.clone()));
    tokio::spawn(async move {
        if made.await.is_ok() {
            // Nothing is the end; a channel that is only closed is none.
            let _ = sender.send(Bytes::new()).await;
        }
    });
    receiver
}

fn respond(status: StatusCode, kind: HeaderValue, receiver: mpsc::Receiver<Bytes>) -> Answer {
    let mut response = answer(status, kind, Bytes::new());
    response.extensions_mut().insert(StreamedBody(Arc::new(Mutex::new(Some(receiver)))));
    response
}

/// Where an answer goes while it is made.
#[derive(Clone, Debug)]
pub(crate) struct Sink(mpsc::Sender<Bytes>);

impl Sink {
    /// Sends a piece, as soon as there is room for it.
    pub(crate) async fn send(&self, piece: impl Into<Bytes>) -> Result<(), Cut> {
        let piece = piece.into();
        if piece.is_empty() {
            return Ok(());
        }
        self.0.send(piece).await.map_err(|_| Cut)
    }

    /// Waits until the client is gone.
    pub(crate) async fn gone(&self) {
        self.0.closed().await;
    }
}

/// Says of an answer that its body is still to come, and from where.
#[derive(Clone, Debug)]
struct StreamedBody(Arc<Mutex<Option<mpsc::Receiver<Bytes>>>>);

/// Where the body of an answer comes from, if it is made while it is sent.
pub(super) fn take(response: &mut Answer) -> Option<mpsc::Receiver<Bytes>> {
    let streamed = response.extensions_mut().remove::<StreamedBody>()?;
    streamed.0.lock().unwrap_or_else(PoisonError::into_inner).take()
}
