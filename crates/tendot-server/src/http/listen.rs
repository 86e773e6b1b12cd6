//! Connections: taken as they come, a bounded number of them, each with its time.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use tendot_store::Store;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use super::Http;

/// What a connection may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at the same time; others wait to be taken.
    pub connections: usize,
    /// From the first byte of a request to the end of its headers.
    pub header_time: Duration,
    /// What is under way may take so long after the end was asked for.
    pub closing_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 10_000,
            header_time: Duration::from_secs(10),
            closing_time: Duration::from_secs(8),
        }
    }
}

/// Headers of a request at most, and bytes of all of them.
const HEADERS: usize = 100;
const HEADER_BYTES: usize = 96 << 10;

/// Streams of one connection at the same time (HTTP/2).
const STREAMS: u32 = 128;

/// After this an error to take a connection is tried again: the system has no room for one.
const PAUSE: Duration = Duration::from_millis(50);

/// Answers the connections of a listener until `end` comes, and then finishes what is under way.
pub async fn listen<S: Store + 'static>(
    listener: TcpListener,
    http: Arc<Http<S>>,
    limits: Limits,
    end: impl Future<Output = ()>,
) -> io::Result<()> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_time)
        .max_headers(HEADERS)
        .max_buf_size(HEADER_BYTES);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(HEADER_BYTES as u32)
        .keep_alive_interval(Duration::from_secs(30));
    let room = Arc::new(Semaphore::new(limits.connections));
    let graceful = GracefulShutdown::new();
    tokio::pin!(end);
    loop {
        let permit = tokio::select! {
            permit = Arc::clone(&room).acquire_owned() => permit,
            () = &mut end => break,
        };
        let (stream, peer) = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(_) => {
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            },
            () = &mut end => break,
        };
        // Answers are small and wanted at once.
        let _ = stream.set_nodelay(true);
        let http = Arc::clone(&http);
        let service = service_fn(move |request| {
            let http = Arc::clone(&http);
            async move { Ok::<_, Infallible>(http.answer(request, Some(peer.ip())).await.map(Full::new)) }
        });
        let connection = builder.serve_connection(TokioIo::new(stream), service).into_owned();
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            // Why a client went away is its own affair.
            let _ = connection.await;
            drop(permit);
        });
    }
    drop(listener);
    http.set_ready(false);
    let _ = tokio::time::timeout(limits.closing_time, graceful.shutdown()).await;
    Ok(())
}
