//! The doors: connections are taken as they come, a bounded number of them, and at the end what is under way is finished.

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

use super::client::{ConnectionPeer, plain};
use super::connection::{self, ConnectionBuilder};
use super::{HttpServer, ServerCertificate};
use crate::crowd::ConnectionLimiter;

/// Limits and timeouts of HTTP connections.
#[derive(Clone, Copy, Debug)]
pub struct HttpLimits {
    /// Connections at the same time; others wait to be taken.
    pub connections: usize,
    /// Those of one address (IPv4) or network of 64 bits (IPv6); more are closed. This machine and proxies have no limit.
    pub connections_per_client: usize,
    /// From the first byte of a request to the end of its head; also for the handshake of TLS.
    pub header_time: Duration,
    /// Between two requests.
    pub idle_time: Duration,
    /// An answer has to be read within this time, and a second for each kilobyte.
    pub write_time: Duration,
    /// What is under way may take so long after the end was asked for.
    pub closing_time: Duration,
    /// Lines of a request's head.
    pub headers: usize,
    /// Bytes of it.
    pub header_bytes: usize,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            connections: 10_000,
            connections_per_client: 256,
            header_time: Duration::from_secs(10),
            idle_time: Duration::from_secs(60),
            write_time: Duration::from_secs(30),
            closing_time: Duration::from_secs(8),
            headers: 100,
            header_bytes: 96 << 10,
        }
    }
}

/// After this an error to take a connection is tried again: the system has no room for one.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

/// So long clients are told, in answers, that the connection ends, before those that ask nothing are closed. Closed at
/// once, they could just have sent a request.
const IDLE_CLOSE_DELAY: Duration = Duration::from_secs(1);

/// Listening socket, plain or TLS.
#[derive(Debug)]
pub struct HttpListener {
    socket: TcpListener,
    tls: Option<Arc<ServerCertificate>>,
}

impl HttpListener {
    /// Without TLS.
    pub const fn plain(socket: TcpListener) -> Self {
        Self { socket, tls: None }
    }

    /// With TLS.
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
pub(super) struct HttpAcceptor {
    pub(super) http: Arc<HttpServer>,
    pub(super) limits: HttpLimits,
    pub(super) builder: ConnectionBuilder,
    /// Whether the end was asked for.
    pub(super) is_ending: AtomicBool,
    room: Arc<Semaphore>,
    crowd: Arc<ConnectionLimiter>,
}

/// Answers the connections of sockets until `end` comes, and then finishes what is under way.
pub async fn serve(
    listeners: impl Into<HttpListeners>,
    http: Arc<HttpServer>,
    limits: HttpLimits,
    end: impl Future<Output = ()>,
) -> io::Result<()> {
    let doors = Arc::new(HttpAcceptor {
        http,
        builder: connection::connection_builder(&limits),
        is_ending: AtomicBool::new(false),
        room: Arc::new(Semaphore::new(limits.connections)),
        crowd: ConnectionLimiter::new(limits.connections_per_client),
        limits,
    });
    let (stop, stopped) = watch::channel(false);
    let (close, closed) = watch::channel(false);
    let (mut accepting, mut watching) = (JoinSet::new(), JoinSet::new());
    for listener in listeners.into().0 {
        if let Some(tls) = listener.tls.clone() {
            watching.spawn(async move { tls.watch_files().await });
        }
        accepting.spawn(accept_loop(listener, Arc::clone(&doors), stopped.clone(), closed.clone()));
    }
    end.await;
    let last = Instant::now() + limits.closing_time;
    doors.http.set_ready(false);
    // They would never end by themselves.
    doors.http.followers.shut_down();
    doors.is_ending.store(true, Ordering::Relaxed);
    let _ = stop.send(true);
    while accepting.join_next().await.is_some() {}
    let all = u32::try_from(limits.connections).unwrap_or(u32::MAX);
    let _ = timeout(IDLE_CLOSE_DELAY.min(limits.closing_time), doors.room.acquire_many(all)).await;
    let _ = close.send(true);
    let _ = timeout_at(last, doors.room.acquire_many(all)).await;
    Ok(())
}

async fn accept_loop(
    listener: HttpListener,
    doors: Arc<HttpAcceptor>,
    mut stopped: watch::Receiver<bool>,
    closed: watch::Receiver<bool>,
) {
    let mut is_told = false;
    let take = |permit, (stream, peer)| {
        HttpAcceptor::spawn_connection(&doors, stream, peer, listener.tls.clone(), permit, closed.clone());
    };
    loop {
        let permit = tokio::select! {
            permit = Arc::clone(&doors.room).acquire_owned() => permit,
            _ = stopped.wait_for(|stopped| *stopped) => break,
        };
        let Ok(permit) = permit else { return };
        let accepted = tokio::select! {
            accepted = listener.socket.accept() => accepted,
            _ = stopped.wait_for(|stopped| *stopped) => break,
        };
        match accepted {
            Ok(accepted) => {
                is_told = false;
                take(permit, accepted);
            }
            // Somebody went away while waiting.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                if !is_told {
                    tracing::error!(%error, "connections can't be taken; they wait");
                }
                is_told = true;
                sleep(ACCEPT_RETRY_DELAY).await;
            }
        }
    }
    // Those that wait already would be torn down with the socket. The runtime may not have heard of the last ones.
    sleep(Duration::from_millis(1)).await;
    let waiting = || {
        poll_fn(|context| match listener.socket.poll_accept(context) {
            Poll::Ready(accepted) => Poll::Ready(accepted.ok()),
            Poll::Pending => Poll::Ready(None),
        })
    };
    while let Ok(permit) = Arc::clone(&doors.room).try_acquire_owned()
        && let Some(accepted) = waiting().await
    {
        take(permit, accepted);
    }
}

impl HttpAcceptor {
    /// Takes a connection, unless its client has too many.
    fn spawn_connection(
        doors: &Arc<Self>,
        stream: TcpStream,
        peer: SocketAddr,
        tls: Option<Arc<ServerCertificate>>,
        permit: OwnedSemaphorePermit,
        closed: watch::Receiver<bool>,
    ) {
        let address = plain(peer.ip());
        let metrics = Arc::clone(&doors.http.metrics);
        let place = if doors.is_exempt(address) { None } else { Some(doors.crowd.acquire(address)) };
        if place.as_ref().is_some_and(Option::is_none) {
            metrics.turned_away.fetch_add(1, Ordering::Relaxed);
            tracing::debug!(%address, "a client has too many connections");
            return;
        }
        metrics.accepted.fetch_add(1, Ordering::Relaxed);
        metrics.connections.fetch_add(1, Ordering::Relaxed);
        // Answers are small and wanted at once.
        let _ = stream.set_nodelay(true);
        let peer = ConnectionPeer { address, is_encrypted: tls.is_some(), certificate: None };
        let doors = Arc::clone(doors);
        tokio::spawn(async move {
            connection::run_connection(&doors, stream, peer, tls.as_deref(), closed).await;
            metrics.connections.fetch_sub(1, Ordering::Relaxed);
            drop(place);
            drop(permit);
        });
    }

    fn is_exempt(&self, address: IpAddr) -> bool {
        address.is_loopback() || self.http.trust.is_trusted_proxy(address)
    }
}

#[cfg(test)]
mod tests {
    use tendot_registry::{Registry, RegistrySettings};
    use tendot_store::MemoryStore;

    use super::*;
    use crate::http::ProxyTrust;

    #[test]
    fn nobody_counts_this_machine_and_proxies() {
        let trust = ProxyTrust { proxies: vec!["10.0.0.0/8".parse().unwrap()], ..ProxyTrust::default() };
        let limits = HttpLimits { connections_per_client: 2, ..HttpLimits::default() };
        let doors = HttpAcceptor {
            http: Arc::new(
                HttpServer::new(Arc::new(Registry::new(MemoryStore::new(), RegistrySettings::default())))
                    .proxy_trust(trust),
            ),
            builder: connection::connection_builder(&limits),
            is_ending: AtomicBool::new(false),
            room: Arc::new(Semaphore::new(0)),
            crowd: ConnectionLimiter::new(limits.connections_per_client),
            limits,
        };
        let check = |address: &str, expected| {
            assert_eq!(doors.is_exempt(address.parse().unwrap()), expected, "{address}");
        };
        check("127.0.0.1", true);
        check("::1", true);
        check("10.1.1.1", true);
        check("192.0.2.1", false);
    }
}
