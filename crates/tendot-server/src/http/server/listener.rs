//! Listening sockets: limits, accept loops, and draining at shutdown.

use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::connection::ConnectionAcceptor;
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

/// State shared by the connections of all sockets.
pub(crate) struct HttpAcceptor {
    pub(crate) http: Arc<HttpServer>,
    pub(crate) limits: HttpLimits,
    pub(crate) builder: ConnectionBuilder,
    pub(crate) connections: ConnectionAcceptor,
}

/// Serves connections until `shutdown` completes, then drains requests in flight.
pub async fn serve(
    listeners: impl Into<HttpListeners>,
    http: Arc<HttpServer>,
    limits: HttpLimits,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    let (mut accept_loops, mut watching) = (JoinSet::new(), JoinSet::new());
    if let Some(database) = http.watched_country_database() {
        watching.spawn(database.watch_file());
    }
    let acceptor = Arc::new(HttpAcceptor::new(http, limits));
    for listener in listeners.into().0 {
        if let Some(tls) = listener.tls.clone() {
            watching.spawn(async move { tls.watch_files().await });
        }
        accept_loops.spawn(HttpAcceptor::accept_loop(Arc::clone(&acceptor), listener));
    }
    shutdown.await;
    acceptor.http.set_ready(false);
    // Change feeds do not end by themselves.
    acceptor.http.subscribers.shut_down();
    acceptor.connections.drain(accept_loops, limits.drain_timeout).await;
    Ok(())
}

impl HttpAcceptor {
    fn new(http: Arc<HttpServer>, limits: HttpLimits) -> Self {
        let metrics = Arc::clone(&http.metrics.connections);
        Self {
            http,
            builder: connection::connection_builder(&limits),
            connections: ConnectionAcceptor::new(
                limits.max_connections,
                limits.max_connections_per_client,
                metrics,
            ),
            limits,
        }
    }

    async fn accept_loop(acceptor: Arc<Self>, listener: HttpListener) {
        let HttpListener { socket, tls } = listener;
        let is_exempt = |client| acceptor.is_exempt(client);
        let accepting = acceptor.connections.accept_loop(&socket, is_exempt, |stream, address, open| {
            let (acceptor, tls) = (Arc::clone(&acceptor), tls.clone());
            let peer = ConnectionPeer { address, is_encrypted: tls.is_some(), certificate: None };
            tokio::spawn(async move {
                connection::run_connection(&acceptor, stream, peer, tls.as_deref()).await;
                drop(open);
            });
        });
        accepting.await;
    }

    fn is_exempt(&self, address: IpAddr) -> bool {
        address.is_loopback() || self.http.proxy_trust.is_trusted_proxy(address)
    }
}

/// Serves connections that were not accepted from a socket, such as pipes in memory.
#[derive(Clone)]
pub struct StreamServer(Arc<HttpAcceptor>);

impl StreamServer {
    /// Server with these limits and timeouts; the number of connections is up to the caller.
    pub fn new(http: Arc<HttpServer>, limits: HttpLimits) -> Self {
        Self(Arc::new(HttpAcceptor::new(http, limits)))
    }

    /// Serves requests until the stream ends. The stream counts as encrypted, so that credentials are accepted.
    pub async fn serve<T>(&self, stream: T, client: IpAddr)
    where
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let peer = ConnectionPeer { address: client, is_encrypted: true, certificate: None };
        connection::serve_stream(&self.0, stream, peer).await;
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
        let http = HttpServer::new(Arc::new(Registry::new(MemoryStore::new(), RegistrySettings::default())));
        let acceptor = HttpAcceptor::new(Arc::new(http.proxy_trust(trust)), HttpLimits::default());
        let check = |address: &str, expected| {
            assert_eq!(acceptor.is_exempt(address.parse().unwrap()), expected, "{address}");
        };
        check("127.0.0.1", true);
        check("::1", true);
        check("10.1.1.1", true);
        check("192.0.2.1", false);
    }
}
