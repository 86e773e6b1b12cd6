//! Streamed request body and its stall timeout.

use std::io::{self, Read};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame};
use tokio::sync::mpsc;

use super::RegistryClientError;

/// Time without progress after which an upload fails.
pub(super) const STALL_TIMEOUT: Duration = Duration::from_secs(60);

/// Size of a chunk read from the source.
const CHUNK_BYTES: usize = 1 << 16;

/// Chunks that are read ahead of the connection.
const MAX_QUEUED_CHUNKS: usize = 4;

/// Progress of an upload, and the error that ended it.
#[derive(Debug, Default)]
pub(super) struct UploadProgress {
    chunks_sent: AtomicU64,
    read_error: Mutex<Option<io::Error>>,
}

impl UploadProgress {
    /// Error of reading the source, if any.
    pub(super) fn take_read_error(&self) -> Option<RegistryClientError> {
        let mut error = self.read_error.lock().unwrap_or_else(PoisonError::into_inner);
        error.take().map(RegistryClientError::ReadSource)
    }
}

/// Timeout that restarts while the upload makes progress.
#[derive(Debug)]
pub(super) struct StallTimeout {
    pub(super) progress: Arc<UploadProgress>,
    pub(super) has_slow_source: bool,
}

impl StallTimeout {
    /// Waits for `future`; `None` if the upload stalls meanwhile.
    pub(super) async fn run<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        let mut future = std::pin::pin!(future);
        loop {
            let before = self.progress.chunks_sent.load(Ordering::Relaxed);
            match tokio::time::timeout(STALL_TIMEOUT, &mut future).await {
                Ok(output) => return Some(output),
                Err(_)
                    if self.has_slow_source
                        || before != self.progress.chunks_sent.load(Ordering::Relaxed) => {}
                Err(_) => return None,
            }
        }
    }
}

/// Request body read from a blocking source on its own thread.
#[derive(Debug)]
pub(super) struct UploadBody {
    receiver: mpsc::Receiver<io::Result<Bytes>>,
    progress: Arc<UploadProgress>,
}

impl UploadBody {
    /// Starts the thread; it ends with the source, with its first error, or when the body is dropped.
    pub(super) fn spawn(mut source: impl Read + Send + 'static, progress: Arc<UploadProgress>) -> Self {
        let (sender, receiver) = mpsc::channel(MAX_QUEUED_CHUNKS);
        std::thread::spawn(move || {
            loop {
                let mut chunk = vec![0; CHUNK_BYTES];
                let read = match source.read(&mut chunk) {
                    Ok(0) => break,
                    Ok(read) => {
                        chunk.truncate(read);
                        Ok(chunk.into())
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) => Err(error),
                };
                let is_last = read.is_err();
                if sender.blocking_send(read).is_err() || is_last {
                    break;
                }
            }
        });
        Self { receiver, progress }
    }
}

impl Body for UploadBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        self.receiver.poll_recv(context).map(|chunk| match chunk? {
            Ok(chunk) => {
                self.progress.chunks_sent.fetch_add(1, Ordering::Relaxed);
                Some(Ok(Frame::data(chunk)))
            }
            Err(error) => {
                let kind = error.kind();
                *self.progress.read_error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                Some(Err(kind.into()))
            }
        })
    }
}
