//! Serves one connection, and detects idle and stalled clients.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use http::header::{CONNECTION, HeaderValue, TRANSFER_ENCODING};
use http::{Method, Request, Response, Version};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use crate::http::ServerCertificate;
use crate::http::middleware::client_address::ConnectionPeer;
use crate::http::response::reply::Reply;
use crate::http::server::listener::{HttpAcceptor, HttpLimits};
use crate::http::server::response_body::{MAX_CHUNK_BYTES, ResponseBody, ResponseFuture};
use crate::http::server::timeouts::TimeoutStream;

/// hyper connection builder for HTTP/1 and HTTP/2.
pub(crate) type ConnectionBuilder = auto::Builder<TokioExecutor>;

/// Concurrent streams of an HTTP/2 connection.
const MAX_CONCURRENT_STREAMS: u32 = 128;

/// HTTP/2 rapid-reset limits: streams reset by the client before they were handled, and streams reset because of its errors. A
/// connection that exceeds one is closed.
const MAX_PENDING_RESET_STREAMS: usize = 20;
const MAX_LOCAL_RESET_STREAMS: usize = 128;

/// HTTP/2 flow-control windows: bytes of one stream, and of the connection.
const STREAM_WINDOW_BYTES: u32 = 64 << 10;
const CONNECTION_WINDOW_BYTES: u32 = 1 << 20;

/// Builds the hyper settings for HTTP/1 and HTTP/2, the latter also without TLS.
pub(crate) fn connection_builder(limits: &HttpLimits) -> ConnectionBuilder {
    let mut builder = ConnectionBuilder::new(TokioExecutor::new());
    builder
        .http1()
        // Timeouts are in `timeouts.rs` (started heads) and `ConnectionActivity` (idle): one timer less per request.
        .header_read_timeout(None)
        .max_headers(limits.max_headers)
        // Most responses are small: one copied write is faster than a vectored one.
        .writev(false)
        .max_buf_size(limits.max_header_bytes.max(8 << 10));
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_CONCURRENT_STREAMS)
        .max_pending_accept_reset_streams(MAX_PENDING_RESET_STREAMS)
        .max_local_error_reset_streams(MAX_LOCAL_RESET_STREAMS)
        .max_header_list_size(u32::try_from(limits.max_header_bytes).unwrap_or(u32::MAX))
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
) {
    let Some(tls) = tls else {
        return serve_stream(acceptor, stream, peer).await;
    };
    match timeout(acceptor.limits.header_timeout, tls.acceptor().accept(stream)).await {
        Ok(Ok(stream)) => {
            let certificate = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
            peer.certificate = certificate.map(|certificate| Arc::from(&**certificate));
            serve_stream(acceptor, stream, peer).await;
        }
        Ok(Err(error)) => tracing::debug!(client = %peer.address, %error, "TLS handshake failed"),
        Err(_) => tracing::debug!(client = %peer.address, "TLS handshake timed out"),
    }
}

/// Serves requests on a stream, which may be decrypted, until it ends or is closed.
pub(crate) async fn serve_stream<T: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    acceptor: &Arc<HttpAcceptor>,
    stream: T,
    peer: ConnectionPeer,
) {
    let stream = TimeoutStream::new(stream, acceptor.limits, acceptor.http.request_ids.generate());
    let mut close_signal = acceptor.connections.close_signal();
    let activity = Arc::new(ConnectionActivity::default());
    let service = service_fn(|request: Request<Incoming>| respond(acceptor, &activity, request, &peer));
    let connection = acceptor.builder.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let mut check =
        interval(acceptor.limits.write_timeout.min(acceptor.limits.idle_timeout).max(MIN_CHECK_INTERVAL) / 2);
    check.set_missed_tick_behavior(MissedTickBehavior::Delay);
    check.reset();
    let mut is_closing = false;
    let mut last = (0, Instant::now());
    let mut crowded = pin!(activity.wait_idle_and_crowded(acceptor.connections.at_capacity()));
    loop {
        tokio::select! {
            biased;
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(client = %peer.address, %error, "connection error");
                }
                return;
            }
            () = &mut crowded => return,
            () = close_signal.wait(), if !is_closing => {
                is_closing = true;
                connection.as_mut().graceful_shutdown();
            }
            _ = check.tick() => {
                let events = activity.events.load(Ordering::Relaxed);
                if events != last.0 {
                    last = (events, Instant::now());
                }
                match activity.liveness(last.1.elapsed(), &acceptor.limits) {
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

/// Idle time after which a connection is closed while others wait.
const CROWDED_IDLE_TIMEOUT: Duration = Duration::from_millis(250);

fn respond(
    acceptor: &Arc<HttpAcceptor>,
    activity: &Arc<ConnectionActivity>,
    request: Request<Incoming>,
    peer: &ConnectionPeer,
) -> ResponseFuture {
    let guard = InFlightGuard::begin(Arc::clone(activity), request.version());
    // After such a body, `smuggling_guard.rs` does not know where the next request begins.
    let is_last = request.version() <= Version::HTTP_11
        && (acceptor.connections.is_draining() || request.headers().contains_key(TRANSFER_ENCODING));
    // hyper sends no body for HTTP/1.
    let is_http2_head = request.method() == Method::HEAD && request.version() > Version::HTTP_11;
    let send = move |mut response: Reply| {
        if is_last {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        if is_http2_head {
            response.remove_body();
        }
        guard.into_response(response)
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

/// Activity counters of a connection, polled by a timer instead of per request.
///
/// With HTTP/2, the transport does not show which side is waiting. There, the client has to read at least one chunk within the
/// write timeout.
#[derive(Debug, Default)]
pub(super) struct ConnectionActivity {
    /// Whether requests use HTTP/1, where the transport detects clients that do not read.
    is_http1: AtomicBool,
    events: AtomicU64,
    pub(super) in_flight: AtomicUsize,
    pub(super) sending: AtomicUsize,
}

/// Result of an activity check: active, idle or stalled.
enum Liveness {
    Active,
    Idle,
    Stalled,
}

impl ConnectionActivity {
    /// Records an event, such as a chunk that was sent.
    pub(super) fn record_event(&self) {
        self.events.fetch_add(1, Ordering::Relaxed);
    }

    /// Completes when other connections wait, and this one has been idle for a while since: its client has not sent a whole
    /// request, or has read its response.
    async fn wait_idle_and_crowded(&self, mut at_capacity: watch::Receiver<bool>) {
        loop {
            // Without a sender, the server has ended.
            let _ = at_capacity.wait_for(|at_capacity| *at_capacity).await;
            let events = self.events.load(Ordering::Relaxed);
            sleep(CROWDED_IDLE_TIMEOUT).await;
            let is_unused =
                self.in_flight.load(Ordering::Relaxed) == 0 && self.sending.load(Ordering::Relaxed) == 0;
            if is_unused && self.events.load(Ordering::Relaxed) == events {
                return;
            }
        }
    }

    /// Liveness after `quiet_time` without an event.
    fn liveness(&self, quiet_time: Duration, limits: &HttpLimits) -> Liveness {
        if self.sending.load(Ordering::Relaxed) > 0 {
            let is_stalled = quiet_time > limits.write_timeout && !self.is_http1.load(Ordering::Relaxed);
            if is_stalled { Liveness::Stalled } else { Liveness::Active }
        } else if self.in_flight.load(Ordering::Relaxed) == 0 && quiet_time > limits.idle_timeout {
            Liveness::Idle
        } else {
            Liveness::Active
        }
    }
}

/// Counts a request as in flight until it is dropped.
struct InFlightGuard(Arc<ConnectionActivity>);

impl InFlightGuard {
    fn begin(activity: Arc<ConnectionActivity>, version: Version) -> Self {
        if version <= Version::HTTP_11 {
            activity.is_http1.store(true, Ordering::Relaxed);
        }
        activity.in_flight.fetch_add(1, Ordering::Relaxed);
        Self(activity)
    }

    fn into_response(self, response: Reply) -> Response<ResponseBody> {
        ResponseBody::attach(response, &self.0)
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
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}
