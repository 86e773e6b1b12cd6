//! Native sockets: bind, accept loop, and draining at shutdown.

use std::future::Future;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};

use crate::connection_limit::ConnectionLimiter;
use crate::native::NativeServer;
use crate::native::server::tcp::NativeConnection;
use crate::native::server::udp::UdpWorker;

/// Limits and timeouts of native connections.
#[derive(Clone, Copy, Debug)]
pub struct NativeLimits {
    /// Maximum concurrent connections; idle ones are closed when the limit is reached.
    pub max_connections: usize,
    /// Maximum connections per IPv4 address or IPv6 /64 network; further ones are closed. Loopback is exempt.
    pub max_connections_per_client: usize,
    /// Timeout for the first message to begin, and from the first to the last byte of a message.
    pub message_timeout: Duration,
    /// Timeout between two messages.
    pub idle_timeout: Duration,
    /// Timeout for reading a response, in addition to one second per kilobyte.
    pub write_timeout: Duration,
    /// Drain timeout: time for requests in flight at shutdown.
    pub drain_timeout: Duration,
}

impl Default for NativeLimits {
    fn default() -> Self {
        Self {
            max_connections: 10_000,
            max_connections_per_client: 100,
            message_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(60),
            write_timeout: Duration::from_secs(30),
            drain_timeout: Duration::from_secs(8),
        }
    }
}

/// Delay after a failed accept, such as for lack of file descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

/// Requested receive buffer of UDP sockets; the system may limit it.
const UDP_RECV_BUFFER_BYTES: usize = 4 << 20;

/// Attempts to find a port that is free for TCP and UDP, with port 0.
const MAX_BIND_ATTEMPTS: usize = 16;

/// TCP and UDP sockets at one address.
#[derive(Debug)]
pub struct NativeSockets {
    tcp: TcpListener,
    udp: Vec<UdpSocket>,
}

impl NativeSockets {
    /// Binds one TCP socket, and one UDP socket per core. Port 0 selects a free port.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            match Self::bind_once(address) {
                Err(error)
                    if address.port() == 0
                        && error.kind() == io::ErrorKind::AddrInUse
                        && attempts < MAX_BIND_ATTEMPTS => {}
                bound => return bound,
            }
        }
    }

    fn bind_once(address: SocketAddr) -> io::Result<Self> {
        let tcp = std::net::TcpListener::bind(address)?;
        tcp.set_nonblocking(true)?;
        let address = tcp.local_addr()?;
        // Bound exclusively first: with `SO_REUSEPORT`, another program could share the port.
        drop(bind_udp(address, false)?);
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        let udp = (0..workers).map(|_| Ok(bind_udp(address, true)?.into()));
        Ok(Self { udp: udp.collect::<io::Result<_>>()?, tcp: TcpListener::from_std(tcp)? })
    }

    /// Uses inherited sockets, which the parent passes on to the next process, too.
    pub fn from_inherited(tcp: std::net::TcpListener, udp: UdpSocket) -> io::Result<Self> {
        tcp.set_nonblocking(true)?;
        // The previous process may have changed the mode at its end.
        udp.set_nonblocking(false)?;
        // Threads that share a socket would each receive parts of a multi-datagram request.
        Ok(Self { tcp: TcpListener::from_std(tcp)?, udp: vec![udp] })
    }

    /// Local address.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.tcp.local_addr()
    }
}

fn bind_udp(address: SocketAddr, reuse_port: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_reuse_port(reuse_port)?;
    // The system may limit the size.
    let _ = socket.set_recv_buffer_size(UDP_RECV_BUFFER_BYTES);
    socket.bind(&address.into())?;
    Ok(socket)
}

/// State shared by native connections.
struct NativeAcceptor {
    native: Arc<NativeServer>,
    limits: NativeLimits,
    permits: Arc<Semaphore>,
    connection_limiter: Arc<ConnectionLimiter>,
    at_capacity: watch::Sender<bool>,
}

/// Serves messages until `shutdown` completes, then drains requests in flight.
pub async fn serve(
    sockets: NativeSockets,
    native: Arc<NativeServer>,
    limits: NativeLimits,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    let acceptor = Arc::new(NativeAcceptor {
        permits: Arc::new(Semaphore::new(limits.max_connections)),
        connection_limiter: ConnectionLimiter::new(limits.max_connections_per_client),
        at_capacity: watch::channel(false).0,
        native: Arc::clone(&native),
        limits,
    });
    let (close, closed) = watch::channel(false);
    let is_draining = Arc::new(AtomicBool::new(false));
    let mut running = JoinSet::new();
    let count = sockets.udp.len();
    for socket in sockets.udp {
        let (worker, is_draining) =
            (UdpWorker::new(Arc::clone(&native), socket, count)?, Arc::clone(&is_draining));
        let (done, is_done) = oneshot::channel();
        let in_flight = worker.wait_in_flight();
        let thread = std::thread::Builder::new().name("udp-worker".into()).spawn(move || {
            if let Err(error) = worker.run(&is_draining) {
                tracing::error!(%error, "UDP receive failed");
            }
            let _ = done.send(());
        })?;
        running.spawn(async move {
            let _ = is_done.await;
            // The thread's last action is to release the store, which may be closed right after this.
            let _ = thread.join();
            in_flight.await;
        });
    }
    running.spawn(accept_loop(sockets.tcp, Arc::clone(&acceptor), closed));
    shutdown.await;
    let deadline = Instant::now() + limits.drain_timeout;
    is_draining.store(true, Ordering::Relaxed);
    let _ = close.send(true);
    let finished = async {
        while running.join_next().await.is_some() {}
        let all = u32::try_from(limits.max_connections).unwrap_or(u32::MAX);
        drop(acceptor.permits.acquire_many(all).await);
    };
    let _ = timeout_at(deadline, finished).await;
    Ok(())
}

async fn accept_loop(
    socket: TcpListener,
    acceptor: Arc<NativeAcceptor>,
    mut shutdown: watch::Receiver<bool>,
) {
    let mut error_logged = false;
    loop {
        let permit = tokio::select! {
            permit = NativeAcceptor::acquire_permit(&acceptor) => permit,
            _ = shutdown.wait_for(|shutdown| *shutdown) => return,
        };
        let Some(permit) = permit else { return };
        let accepted = tokio::select! {
            accepted = socket.accept() => accepted,
            _ = shutdown.wait_for(|shutdown| *shutdown) => return,
        };
        match accepted {
            Ok((stream, peer)) => {
                error_logged = false;
                NativeAcceptor::spawn_connection(&acceptor, stream, peer, permit, shutdown.clone());
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
}

impl NativeAcceptor {
    /// Permit for a connection. At capacity, idle connections are notified.
    async fn acquire_permit(acceptor: &Arc<Self>) -> Option<OwnedSemaphorePermit> {
        if let Ok(permit) = Arc::clone(&acceptor.permits).try_acquire_owned() {
            return Some(permit);
        }
        acceptor.at_capacity.send_replace(true);
        let permit = Arc::clone(&acceptor.permits).acquire_owned().await.ok();
        acceptor.at_capacity.send_replace(false);
        permit
    }

    /// Spawns the task of a connection, unless its client has too many.
    fn spawn_connection(
        acceptor: &Arc<Self>,
        stream: TcpStream,
        peer: SocketAddr,
        permit: OwnedSemaphorePermit,
        shutdown: watch::Receiver<bool>,
    ) {
        let client = peer.ip().to_canonical();
        let metrics = acceptor.native.metrics();
        let client_permit =
            if client.is_loopback() { None } else { Some(acceptor.connection_limiter.acquire(client)) };
        if client_permit.as_ref().is_some_and(Option::is_none) {
            metrics.rejected.fetch_add(1, Ordering::Relaxed);
            tracing::debug!(%client, "connection rejected: too many from this client");
            return;
        }
        metrics.accepted.fetch_add(1, Ordering::Relaxed);
        metrics.connections.fetch_add(1, Ordering::Relaxed);
        // Responses are small: send them without delay.
        let _ = stream.set_nodelay(true);
        let connection = NativeConnection {
            native: Arc::clone(&acceptor.native),
            limits: acceptor.limits,
            client,
            shutdown,
            at_capacity: acceptor.at_capacity.subscribe(),
        };
        tokio::spawn(async move {
            connection.run(stream).await;
            metrics.connections.fetch_sub(1, Ordering::Relaxed);
            drop(client_permit);
            drop(permit);
        });
    }
}
