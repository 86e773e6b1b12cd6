//! Serves one connection, and detects idle and stalled clients.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{CONNECTION, HeaderValue, TRANSFER_ENCODING};
use http::{Request, Response, Version};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::http::ServerCertificate;
use crate::http::middleware::client_address::ConnectionPeer;
use crate::http::response::reply::Reply;
use crate::http::response::stream::{self, StreamAborted};
use crate::http::server::listener::{HttpAcceptor, HttpLimits};
use crate::http::server::timeouts::TimeoutStream;

/// hyper connection builder for HTTP/1 and HTTP/2.
pub(crate) type ConnectionBuilder = auto::Builder<TokioExecutor>;

/// Concurrent streams of an HTTP/2 connection.
const MAX_CONCURRENT_STREAMS: u32 = 128;

/// HTTP/2 rapid-reset limits: streams reset by the client before they were handled, and streams reset because of its errors. A
/// connection that exceeds one is closed.
const RESET_BY_CLIENT: usize = 20;
const MAX_LOCAL_RESET_STREAMS: usize = 128;

/// HTTP/2 flow-control windows: bytes of one stream, and of the connection.
const STREAM_WINDOW_BYTES: u32 = 64 << 10;
const CONNECTION_WINDOW_BYTES: u32 = 1 << 20;

/// Bytes of a response passed to the transport at once.
const MAX_CHUNK_BYTES: usize = 64 << 10;

/// Builds the hyper settings for HTTP/1 and HTTP/2, the latter also without TLS.
pub(crate) fn connection_builder(limits: &HttpLimits) -> ConnectionBuilder {
    let mut builder = ConnectionBuilder::new(TokioExecutor::new());
    builder
        .http1()
        // Time-outs are in `timeouts.rs` (started heads) and `ConnectionActivity` (idle): one timer less per request.
        .header_read_timeout(None)
        .max_headers(limits.headers)
        // Most responses are small: one copied write is faster than a vectored one.
        .writev(false)
        .max_buf_size(limits.header_bytes.max(8 << 10));
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_CONCURRENT_STREAMS)
        .max_pending_accept_reset_streams(RESET_BY_CLIENT)
        .max_local_error_reset_streams(MAX_LOCAL_RESET_STREAMS)
        .max_header_list_size(u32::try_from(limits.header_bytes).unwrap_or(u32::MAX))
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_send_buf_size(MAX_CHUNK_BYTES)
        .keep_alive_interval(Duration::from_secs(30));
    builder
}

/// Serves requests on a connection until it ends or is closed.
pub(crate) async fn run_connection(
    acceptor: &Arc<HttpAcceptor>,
    stream: TcpStream,
    mut peer: ConnectionPeer,
    tls: Option<&ServerCertificate>,
    closed: watch::Receiver<bool>,
) {
    let id = acceptor.http.request_ids.generate();
    let Some(tls) = tls else {
        return serve_stream(acceptor, TimeoutStream::new(stream, acceptor.limits, id), peer, closed).await;
    };
    match timeout(acceptor.limits.header_time, tls.acceptor().accept(stream)).await {
        Ok(Ok(stream)) => {
            let certificate = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
            peer.certificate = certificate.map(|certificate| Arc::from(&**certificate));
            serve_stream(acceptor, TimeoutStream::new(stream, acceptor.limits, id), peer, closed).await;
        }
        Ok(Err(error)) => tracing::debug!(client = %peer.address, %error, "TLS was not agreed on"),
        Err(_) => tracing::debug!(client = %peer.address, "TLS was not agreed on in time"),
    }
}

async fn serve_stream<T: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    acceptor: &Arc<HttpAcceptor>,
    stream: TimeoutStream<T>,
    peer: ConnectionPeer,
    mut closed: watch::Receiver<bool>,
) {
    let life = Arc::new(ConnectionActivity::default());
    let service = service_fn(|request: Request<Incoming>| respond(acceptor, &life, request, &peer));
    let connection = acceptor.builder.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let mut look =
        interval(acceptor.limits.write_time.min(acceptor.limits.idle_time).max(MIN_CHECK_INTERVAL) / 2);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    look.reset();
    let mut is_closing = false;
    let mut last = (0, Instant::now());
    loop {
        tokio::select! {
            biased;
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(client = %peer.address, %error, "a connection broke");
                }
                return;
            }
            _ = closed.wait_for(|closed| *closed), if !is_closing => {
                is_closing = true;
                connection.as_mut().graceful_shutdown();
            }
            _ = look.tick() => {
                let events = life.events.load(Ordering::Relaxed);
                if events != last.0 {
                    last = (events, Instant::now());
                }
                match life.liveness(last.1.elapsed(), &acceptor.limits) {
                    Liveness::Active => {}
                    Liveness::Idle if !is_closing => {
                        is_closing = true;
                        connection.as_mut().graceful_shutdown();
                    }
                    Liveness::Idle | Liveness::Stalled => return,
                }
            }
        }
    }
}

const MIN_CHECK_INTERVAL: Duration = Duration::from_millis(20);

fn respond(
    acceptor: &Arc<HttpAcceptor>,
    life: &Arc<ConnectionActivity>,
    request: Request<Incoming>,
    peer: &ConnectionPeer,
) -> ResponseFuture {
    let asking = InFlightGuard::begin(Arc::clone(life), request.version());
    // After such a body, `smuggling_guard.rs` does not know where the next request begins.
    let is_last = request.version() <= Version::HTTP_11
        && (acceptor.is_draining.load(Ordering::Relaxed)
            || request.headers().contains_key(TRANSFER_ENCODING));
    let send = move |mut response: Reply| {
        if is_last {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        asking.into_response(response)
    };
    match acceptor.http.try_fast_path(&request, peer, &acceptor.limits) {
        (_, Some(response)) => ResponseFuture::Ready(Some(send(response))),
        (context, None) => {
            let acceptor = Arc::clone(acceptor);
            ResponseFuture::Pending(Box::pin(async move {
                send(acceptor.http.handle_request(request, &context).await)
            }))
        }
    }
}

/// Response that is ready, or the boxed future that produces it.
enum ResponseFuture {
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

/// Activity counters of a connection, polled by a timer instead of per request.
///
/// With HTTP/2, the transport does not show which side is waiting. There, the client has to read at least one chunk within the
/// write timeout.
#[derive(Debug, Default)]
struct ConnectionActivity {
    /// Whether requests use HTTP/1, where the transport detects clients that do not read.
    is_http1: AtomicBool,
    events: AtomicU64,
    asking: AtomicUsize,
    sending: AtomicUsize,
}

/// Result of an activity check: alive, idle or stalled.
enum Liveness {
    Active,
    Idle,
    Stalled,
}

impl ConnectionActivity {
    fn record_event(&self) {
        self.events.fetch_add(1, Ordering::Relaxed);
    }

    /// State of the connection after `rest` without an event.
    fn liveness(&self, rest: Duration, limits: &HttpLimits) -> Liveness {
        if self.sending.load(Ordering::Relaxed) > 0 {
            let is_stuck = rest > limits.write_time && !self.is_http1.load(Ordering::Relaxed);
            if is_stuck { Liveness::Stalled } else { Liveness::Active }
        } else if self.asking.load(Ordering::Relaxed) == 0 && rest > limits.idle_time {
            Liveness::Idle
        } else {
            Liveness::Active
        }
    }
}

/// Counts a request as in flight until it is dropped.
struct InFlightGuard(Arc<ConnectionActivity>);

impl InFlightGuard {
    fn begin(life: Arc<ConnectionActivity>, version: Version) -> Self {
        if version <= Version::HTTP_11 {
            life.is_http1.store(true, Ordering::Relaxed);
        }
        life.asking.fetch_add(1, Ordering::Relaxed);
        Self(life)
    }

    fn into_response(self, mut response: Reply) -> Response<ResponseBody> {
        self.0.sending.fetch_add(1, Ordering::Relaxed);
        let (life, source) = (Arc::clone(&self.0), stream::take_stream(&mut response));
        response.map(|body| ResponseBody { rest: body, source, is_waiting: false, is_cut: false, life })
    }
}

/// Response as sent on a connection, for tests.
#[cfg(test)]
pub(crate) fn response_for_test(response: Reply) -> Response<ResponseBody> {
    InFlightGuard::begin(Arc::default(), Version::HTTP_2).into_response(response)
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        self.0.record_event();
        self.0.asking.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Response body sent in chunks of at most `MAX_CHUNK_BYTES`.
pub(crate) struct ResponseBody {
    rest: Bytes,
    /// Source of a streamed body.
    source: Option<mpsc::Receiver<Bytes>>,
    /// Whether the client is waiting for the server; it then counts as a request in flight.
    is_waiting: bool,
    is_cut: bool,
    life: Arc<ConnectionActivity>,
}

impl ResponseBody {
    fn set_waiting_for_source(&mut self, is_waiting: bool) {
        if self.is_waiting != is_waiting {
            let (from, to) = match is_waiting {
                true => (&self.life.sending, &self.life.asking),
                false => (&self.life.asking, &self.life.sending),
            };
            to.fetch_add(1, Ordering::Relaxed);
            from.fetch_sub(1, Ordering::Relaxed);
            self.is_waiting = is_waiting;
        }
    }
}

impl Drop for ResponseBody {
    fn drop(&mut self) {
        self.set_waiting_for_source(false);
        self.life.record_event();
        self.life.sending.fetch_sub(1, Ordering::Relaxed);
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
        if let Some(source) = this.source.as_mut().filter(|_| this.rest.is_empty()) {
            let polled = source.poll_recv(context);
            this.set_waiting_for_source(polled.is_pending());
            match ready!(polled) {
                Some(piece) => this.rest = piece,
                None if this.is_cut => return Poll::Ready(Some(Err(StreamAborted))),
                // Send what is buffered before the connection is aborted.
                None => {
                    this.is_cut = true;
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
            }
            if this.rest.is_empty() {
                this.source = None;
            }
        }
        if this.rest.is_empty() {
            return Poll::Ready(None);
        }
        this.life.record_event();
        let piece = this.rest.len().min(MAX_CHUNK_BYTES);
        Poll::Ready(Some(Ok(Frame::data(this.rest.split_to(piece)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.source.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        match self.source {
            Some(_) => SizeHint::default(),
            None => SizeHint::with_exact(self.rest.len() as u64),
        }
    }
}
