//! Response future and body, sent in chunks.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::Response;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::mpsc;

use crate::http::response::reply::Reply;
use crate::http::response::stream::StreamAborted;
use crate::http::server::connection::ConnectionActivity;

/// Bytes of a response passed to the transport at once.
pub(super) const MAX_CHUNK_BYTES: usize = 64 << 10;

/// Response that is ready, or the boxed future that produces it.
pub(super) enum ResponseFuture {
    Ready(Option<Response<ResponseBody>>),
    Pending(Pin<Box<dyn Future<Output = Response<ResponseBody>> + Send>>),
}

impl Future for ResponseFuture {
    type Output = Result<Response<ResponseBody>, Infallible>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            Self::Ready(response) => {
                response.take().map_or(Poll::Pending, |response| Poll::Ready(Ok(response)))
            }
            Self::Pending(response) => response.as_mut().poll(context).map(Ok),
        }
    }
}

/// Response body sent in chunks of at most `MAX_CHUNK_BYTES`.
pub(crate) struct ResponseBody {
    remaining: Bytes,
    /// Source of a streamed body.
    source: Option<mpsc::Receiver<Bytes>>,
    /// Whether the client is waiting for the server; it then counts as a request in flight.
    is_waiting_for_source: bool,
    /// Whether the source ended without an end mark.
    is_aborted: bool,
    activity: Arc<ConnectionActivity>,
}

impl ResponseBody {
    /// Turns a reply into a response whose body reports to the connection's activity.
    pub(super) fn attach(reply: Reply, activity: &Arc<ConnectionActivity>) -> Response<Self> {
        activity.sending.fetch_add(1, Ordering::Relaxed);
        let (activity, (response, source)) = (Arc::clone(activity), reply.into_response());
        response.map(|body| Self {
            remaining: body,
            source,
            is_waiting_for_source: false,
            is_aborted: false,
            activity,
        })
    }

    fn set_waiting_for_source(&mut self, is_waiting: bool) {
        if self.is_waiting_for_source != is_waiting {
            let (from, to) = match is_waiting {
                true => (&self.activity.sending, &self.activity.in_flight),
                false => (&self.activity.in_flight, &self.activity.sending),
            };
            to.fetch_add(1, Ordering::Relaxed);
            from.fetch_sub(1, Ordering::Relaxed);
            self.is_waiting_for_source = is_waiting;
        }
    }
}

impl Drop for ResponseBody {
    fn drop(&mut self) {
        self.set_waiting_for_source(false);
        self.activity.record_event();
        self.activity.sending.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = StreamAborted;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, StreamAborted>>> {
        let this = &mut *self;
        if let Some(source) = this.source.as_mut().filter(|_| this.remaining.is_empty()) {
            let polled = source.poll_recv(context);
            this.set_waiting_for_source(polled.is_pending());
            match ready!(polled) {
                Some(chunk) => this.remaining = chunk,
                None if this.is_aborted => return Poll::Ready(Some(Err(StreamAborted))),
                // Send what is buffered before the connection is aborted.
                None => {
                    this.is_aborted = true;
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
            }
            if this.remaining.is_empty() {
                this.source = None;
            }
        }
        if this.remaining.is_empty() {
            return Poll::Ready(None);
        }
        this.activity.record_event();
        let chunk = this.remaining.len().min(MAX_CHUNK_BYTES);
        Poll::Ready(Some(Ok(Frame::data(this.remaining.split_to(chunk)))))
    }

    fn is_end_stream(&self) -> bool {
        self.remaining.is_empty() && self.source.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        match self.source {
            Some(_) => SizeHint::default(),
            None => SizeHint::with_exact(self.remaining.len() as u64),
        }
    }
}
