//! One connection, from its first byte to its last.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{CONNECTION, HeaderValue, TRANSFER_ENCODING};
use http::{Request, Response, Version};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tendot_store::Store;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::Tls;
use super::client::Peer;
use super::listen::{Doors, Limits};
use super::pace::Paced;

pub(super) type Builder = auto::Builder<TokioExecutor>;

/// Streams of one connection at the same time (HTTP/2).
const STREAMS: u32 = 128;

/// Streams that a client gave up before they were looked at, and that were ended for its errors: with more of them, it does
/// nothing else, and the connection is ended.
const RESET_BY_CLIENT: usize = 20;
const RESET_BY_US: usize = 128;

/// Bytes that a client may send before they are looked at, of one request and of all.
const STREAM_WINDOW: u32 = 64 << 10;
const CONNECTION_WINDOW: u32 = 1 << 20;

/// Bytes of an answer that are given to the transport at once, and wait there.
const PIECE: usize = 64 << 10;

/// How HTTP is spoken. Both versions are understood without TLS, too.
pub(super) fn builder(limits: &Limits) -> Builder {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        // From the end of the last answer; a head that has begun has less time, see `pace.rs`.
        .header_read_timeout(limits.idle_time.max(limits.header_time))
        .max_headers(limits.headers)
        .max_buf_size(limits.header_bytes.max(8 << 10));
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .max_pending_accept_reset_streams(RESET_BY_CLIENT)
        .max_local_error_reset_streams(RESET_BY_US)
        .max_header_list_size(u32::try_from(limits.header_bytes).unwrap_or(u32::MAX))
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buf_size(PIECE)
        .keep_alive_interval(Duration::from_secs(30));
    builder
}

/// Answers what comes on a connection until it ends, or is closed.
pub(super) async fn run<S: Store + 'static>(
    doors: &Arc<Doors<S>>,
    stream: TcpStream,
    peer: Peer,
    tls: Option<&Tls>,
    closed: watch::Receiver<bool>,
) {
    let id = doors.http.ids.make();
    let Some(tls) = tls else {
        return serve(doors, Paced::new(stream, doors.limits, id), peer, closed).await;
    };
    match timeout(doors.limits.header_time, tls.acceptor().accept(stream)).await {
        Ok(Ok(stream)) => serve(doors, Paced::new(stream, doors.limits, id), peer, closed).await,
        Ok(Err(error)) => tracing::debug!(client = %peer.address, %error, "TLS was not agreed on"),
        Err(_) => tracing::debug!(client = %peer.address, "TLS was not agreed on in time"),
    }
}

async fn serve<S: Store + 'static, T: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    doors: &Arc<Doors<S>>,
    stream: Paced<T>,
    peer: Peer,
    mut closed: watch::Receiver<bool>,
) {
    let life = Arc::new(Life::new());
    let service = service_fn(|request: Request<Incoming>| {
        let (doors, life) = (Arc::clone(doors), Arc::clone(&life));
        async move { Ok::<_, Infallible>(answer(&doors, life, request, peer).await) }
    });
    let connection = doors.builder.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let mut look = interval(doors.limits.write_time.min(doors.limits.idle_time).max(TICK) / 2);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    look.reset();
    let mut is_closing = false;
    loop {
        tokio::select! {
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
            _ = look.tick() => match life.judge(&doors.limits) {
                Judgement::Alive => {}
                Judgement::Idle if !is_closing => {
                    is_closing = true;
                    connection.as_mut().graceful_shutdown();
                }
                Judgement::Idle | Judgement::Stuck => return,
            }
        }
    }
}

const TICK: Duration = Duration::from_millis(20);

async fn answer<S: Store + 'static>(
    doors: &Doors<S>,
    life: Arc<Life>,
    request: Request<Incoming>,
    peer: Peer,
) -> Response<Sending> {
    let asking = Asking::begin(life, request.version());
    // Where the next request begins after such a body, `head.rs` does not know.
    let is_last = request.version() <= Version::HTTP_11
        && (doors.is_ending.load(Ordering::Relaxed) || request.headers().contains_key(TRANSFER_ENCODING));
    let mut response = doors.http.answer(request, peer, &doors.limits).await;
    if is_last {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response.map(|body| asking.send(body))
}

/// What a connection is doing. Only HTTP/2 needs it: there, the transport does not show who waits for whom. Within the time
/// for reading an answer, at least a piece of one has to be read.
#[derive(Debug)]
struct Life {
    start: Instant,
    /// Whether requests came by HTTP/1, which has its times elsewhere.
    is_http1: AtomicBool,
    /// Milliseconds from the start to the last event.
    last: AtomicU64,
    asking: AtomicUsize,
    sending: AtomicUsize,
}

enum Judgement {
    Alive,
    Idle,
    Stuck,
}

impl Life {
    fn new() -> Self {
        Self {
            start: Instant::now(),
            is_http1: AtomicBool::new(false),
            last: AtomicU64::new(0),
            asking: AtomicUsize::new(0),
            sending: AtomicUsize::new(0),
        }
    }

    fn happened(&self) {
        let now = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(now, Ordering::Relaxed);
    }

    fn judge(&self, limits: &Limits) -> Judgement {
        if self.is_http1.load(Ordering::Relaxed) {
            return Judgement::Alive;
        }
        let rest =
            self.start.elapsed().saturating_sub(Duration::from_millis(self.last.load(Ordering::Relaxed)));
        if self.sending.load(Ordering::Relaxed) > 0 {
            if rest > limits.write_time { Judgement::Stuck } else { Judgement::Alive }
        } else if self.asking.load(Ordering::Relaxed) == 0 && rest > limits.idle_time {
            Judgement::Idle
        } else {
            Judgement::Alive
        }
    }
}

/// A request that is looked at; with HTTP/2, its connection's life.
struct Asking(Option<Arc<Life>>);

impl Asking {
    fn begin(life: Arc<Life>, version: Version) -> Self {
        if version <= Version::HTTP_11 {
            life.is_http1.store(true, Ordering::Relaxed);
            return Self(None);
        }
        life.asking.fetch_add(1, Ordering::Relaxed);
        Self(Some(life))
    }

    fn send(self, body: Bytes) -> Sending {
        let life = self.0.clone();
        if let Some(life) = &life {
            life.sending.fetch_add(1, Ordering::Relaxed);
        }
        Sending { rest: body, life }
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        if let Some(life) = &self.0 {
            life.happened();
            life.asking.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// An answer that is being sent, piece by piece: the next one is asked for when there is room for it.
struct Sending {
    rest: Bytes,
    life: Option<Arc<Life>>,
}

impl Drop for Sending {
    fn drop(&mut self) {
        if let Some(life) = &self.life {
            life.happened();
            life.sending.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Body for Sending {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.rest.is_empty() {
            return Poll::Ready(None);
        }
        if let Some(life) = &self.life {
            life.happened();
        }
        let piece = self.rest.len().min(PIECE);
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(piece)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.len() as u64)
    }
}
