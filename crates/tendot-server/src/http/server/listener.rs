//! Accept loops: connection limits, and draining at shutdown.

use std::future::{Future, poll_fn};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::connection_limit::ConnectionLimiter;
use crate::http::middleware::client_address::ConnectionPeer;
use crate::http::server::connection::{self, ConnectionBuilder};
use crate::http::{HttpServer, ServerCertificate};

/// Limits and timeouts of HTTP connections.
#[derive(Clone, Copy, Debug)]
pub struct HttpLimits {
    /// Maximum concurrent connections; further ones wait in the backlog.
    pub max_connections: usize,
    /// Maximum connections per IPv4 address or IPv6 /64 network; further ones are closed. Loopback and trusted proxies are
    /// exempt.
    pub max_connections_per_client: usize,
    /// Timeout from the first byte of a request to the end of its head; also for the TLS handshake.
    pub header_timeout: Duration,
    /// Timeout between two requests.
    pub idle_timeout: Duration,
    /// Timeout for reading a response, in addition to one second per kilobyte.
    pub write_timeout: Duration,
    /// Drain timeout: time for requests in flight at shutdown.
    pub drain_timeout: Duration,
    /// Maximum number of header fields.
    pub max_headers: usize,
    /// Maximum bytes of a request head.
    pub max_header_bytes: usize,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            max_connections: 10_000,
            max_connections_per_client: 256,
            header_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(60),
            write_timeout: Duration::from_secs(30),
            drain_timeout: Duration::from_secs(8),
            max_headers: 100,
            max_header_bytes: 96 << 10,
        }
    }
}

/// Delay after a failed accept, such as for lack of file descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

/// At shutdown, time between `Connection: close` in responses and closing idle connections: a client may have sent a request
/// just before.
const IDLE_CLOSE_DELAY: Duration = Duration::from_secs(1);

/// Listening socket, plain or TLS.
#[derive(Debug)]
pub struct HttpListener {
    socket: TcpListener,
    tls: Option<Arc<ServerCertificate>>,
}

impl HttpListener {
    /// Plain HTTP.
    pub const fn plain(socket: TcpListener) -> Self {
        Self { socket, tls: None }
    }

    /// HTTPS.
    pub const fn tls(socket: TcpListener, tls: Arc<ServerCertificate>) -> Self {
        Self { socket, tls: Some(tls) }
    }
}

/// Listening sockets that share the connection limits.
#[derive(Debug)]
pub struct HttpListeners(Vec<HttpListener>);

impl From<TcpListener> for HttpListeners {
    fn from(socket: TcpListener) -> Self {
        Self(vec![HttpListener::plain(socket)])
    }
}

impl From<Vec<HttpListener>> for HttpListeners {
    fn from(listeners: Vec<HttpListener>) -> Self {
        Self(listeners)
    }
}

/// State shared by the accept loops of all sockets.
pub(crate) struct HttpAcceptor {
    pub(crate) http: Arc<HttpServer>,
    pub(crate) limits: HttpLimits,
    pub(crate) builder: ConnectionBuilder,
    /// Whether shutdown was requested.
    pub(crate) is_draining: AtomicBool,
    permits: Arc<Semaphore>,
    connection_limiter: Arc<ConnectionLimiter>,
}

/// Serves connections until `shutdown` completes, then drains requests in flight.
pub async fn serve(
    listeners: impl Into<HttpListeners>,
    http: Arc<HttpServer>,
    limits: HttpLimits,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    let acceptor = Arc::new(HttpAcceptor {
        http,
        builder: connection::connection_builder(&limits),
        is_draining: AtomicBool::new(false),
        permits: Arc::new(Semaphore::new(limits.max_connections)),
        connection_limiter: ConnectionLimiter::new(limits.max_connections_per_client),
        limits,
    });
    let (stop, stopped) = watch::channel(false);
    let (close, closed) = watch::channel(false);
    let (mut accepting, mut watching) = (JoinSet::new(), JoinSet::new());
    for listener in listeners.into().0 {
        if let Some(tls) = listener.tls.clone() {
            watching.spawn(async move { tls.watch_files().await });
        }
        accepting.spawn(accept_loop(listener, Arc::clone(&acceptor), stopped.clone(), closed.clone()));
    }
    shutdown.await;
    let deadline = Instant::now() + limits.drain_timeout;
    acceptor.http.set_ready(false);
    // Change feeds do not end by themselves.
    acceptor.http.subscribers.shut_down();
    acceptor.is_draining.store(true, Ordering::Relaxed);
    let _ = stop.send(true);
    while accepting.join_next().await.is_some() {}
    let all = u32::try_from(limits.max_connections).unwrap_or(u32::MAX);
    let _ = timeout(IDLE_CLOSE_DELAY.min(limits.drain_timeout), acceptor.permits.acquire_many(all)).await;
    let _ = close.send(true);
    let _ = timeout_at(deadline, acceptor.permits.acquire_many(all)).await;
    Ok(())
}

async fn accept_loop(
    listener: HttpListener,
    acceptor: Arc<HttpAcceptor>,
    mut stopped: watch::Receiver<bool>,
    closed: watch::Receiver<bool>,
) {
    let mut error_logged = false;
    let spawn = |permit, (stream, peer)| {
        HttpAcceptor::spawn_connection(&acceptor, stream, peer, listener.tls.clone(), permit, closed.clone());
    };
    loop {
        let permit = tokio::select! {
            permit = Arc::clone(&acceptor.permits).acquire_owned() => permit,
            _ = stopped.wait_for(|stopped| *stopped) => break,
        };
        let Ok(permit) = permit else { return };
        let accepted = tokio::select! {
            accepted = listener.socket.accept() => accepted,
            _ = stopped.wait_for(|stopped| *stopped) => break,
        };
        match accepted {
            Ok(accepted) => {
                error_logged = false;
                spawn(permit, accepted);
            }
            // The client closed the connection before it was accepted.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                if !error_logged {
                    tracing::error!(%error, "accept failed; retrying");
                }
                error_logged = true;
                sleep(ACCEPT_RETRY_DELAY).await;
            }
        }
    }
    // Accept connections still in the backlog, which closing the socket would reset; let the runtime poll it once more.
    sleep(Duration::from_millis(1)).await;
    let next_in_backlog = || {
        poll_fn(|context| match listener.socket.poll_accept(context) {
            Poll::Ready(accepted) => Poll::Ready(accepted.ok()),
            Poll::Pending => Poll::Ready(None),
        })
    };
    while let Ok(permit) = Arc::clone(&acceptor.permits).try_acquire_owned()
        && let Some(accepted) = next_in_backlog().await
    {
        spawn(permit, accepted);
    }
}

impl HttpAcceptor {
    /// Spawns the task of a connection, unless its client has too many.
    fn spawn_connection(
        acceptor: &Arc<Self>,
        stream: TcpStream,
        peer: SocketAddr,
        tls: Option<Arc<ServerCertificate>>,
        permit: OwnedSemaphorePermit,
        closed: watch::Receiver<bool>,
    ) {
        let address = peer.ip().to_canonical();
        let metrics = Arc::clone(&acceptor.http.metrics);
        let client_permit = if acceptor.is_exempt(address) {
            None
        } else {
            Some(acceptor.connection_limiter.acquire(address))
        };
        if client_permit.as_ref().is_some_and(Option::is_none) {
            metrics.rejected.fetch_add(1, Ordering::Relaxed);
            tracing::debug!(%address, "connection rejected: too many from this client");
            return;
        }
        metrics.accepted.fetch_add(1, Ordering::Relaxed);
        metrics.connections.fetch_add(1, Ordering::Relaxed);
        // Responses are small: send them without delay.
        let _ = stream.set_nodelay(true);
        let peer = ConnectionPeer { address, is_encrypted: tls.is_some(), certificate: None };
        let acceptor = Arc::clone(acceptor);
        tokio::spawn(async move {
            connection::run_connection(&acceptor, stream, peer, tls.as_deref(), closed).await;
            metrics.connections.fetch_sub(1, Ordering::Relaxed);
            drop(client_permit);
            drop(permit);
        });
    }

    fn is_exempt(&self, address: IpAddr) -> bool {
        address.is_loopback() || self.http.proxy_trust.is_trusted_proxy(address)
    }
}

#[cfg(test)]
mod tests {
    use tendot_registry::{Registry, RegistrySettings};
    use tendot_store::MemoryStore;

    use super::*;
    use crate::http::ProxyTrust;

    #[test]
    fn loopback_and_proxies_are_exempt() {
        let trust =
            ProxyTrust { trusted_proxies: vec!["10.0.0.0/8".parse().unwrap()], ..ProxyTrust::default() };
        let limits = HttpLimits { max_connections_per_client: 2, ..HttpLimits::default() };
        let acceptor = HttpAcceptor {
            http: Arc::new(
                HttpServer::new(Arc::new(Registry::new(MemoryStore::new(), RegistrySettings::default())))
                    .proxy_trust(trust),
            ),
            builder: connection::connection_builder(&limits),
            is_draining: AtomicBool::new(false),
            permits: Arc::new(Semaphore::new(0)),
            connection_limiter: ConnectionLimiter::new(limits.max_connections_per_client),
            limits,
        };
        let check = |address: &str, expected| {
            assert_eq!(acceptor.is_exempt(address.parse().unwrap()), expected, "{address}");
        };
        check("127.0.0.1", true);
        check("::1", true);
        check("10.1.1.1", true);
        check("192.0.2.1", false);
    }
}
