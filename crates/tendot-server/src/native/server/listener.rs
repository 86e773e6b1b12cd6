//! Native sockets: bind, serve, and draining at shutdown.

use std::future::Future;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::connection::ConnectionAcceptor;
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

/// Serves messages until `shutdown` completes, then drains requests in flight.
pub async fn serve(
    sockets: NativeSockets,
    native: Arc<NativeServer>,
    limits: NativeLimits,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    let acceptor = Arc::new(ConnectionAcceptor::new(
        limits.max_connections,
        limits.max_connections_per_client,
        Arc::clone(&native.metrics.connections),
    ));
    let is_draining = Arc::new(AtomicBool::new(false));
    let mut udp_workers = spawn_udp_workers(sockets.udp, &native, &is_draining)?;
    let mut accept_loops = JoinSet::new();
    accept_loops.spawn(accept_loop(sockets.tcp, Arc::clone(&acceptor), Arc::clone(&native), limits));
    shutdown.await;
    is_draining.store(true, Ordering::Relaxed);
    let udp_drained =
        timeout(limits.drain_timeout, async { while udp_workers.join_next().await.is_some() {} });
    let _ = tokio::join!(udp_drained, acceptor.drain(accept_loops, limits.drain_timeout));
    // Held until all UDP threads have ended: the thread that drops the last reference closes the store.
    drop(native);
    Ok(())
}

/// Starts a thread per UDP socket; the returned tasks end when the thread has, and no request of its socket is in flight.
fn spawn_udp_workers(
    sockets: Vec<UdpSocket>,
    native: &Arc<NativeServer>,
    is_draining: &Arc<AtomicBool>,
) -> io::Result<JoinSet<()>> {
    let mut workers = JoinSet::new();
    let count = sockets.len();
    for socket in sockets {
        let worker = UdpWorker::new(Arc::clone(native), socket, count)?;
        let is_draining = Arc::clone(is_draining);
        let (done, is_done) = oneshot::channel();
        let in_flight = worker.wait_in_flight();
        let thread = std::thread::Builder::new().name("udp-worker".into()).spawn(move || {
            if let Err(error) = worker.run(&is_draining) {
                tracing::error!(%error, "UDP receive failed");
            }
            let _ = done.send(());
        })?;
        workers.spawn(async move {
            let _ = is_done.await;
            // The thread's last action is to release the store, which may be closed right after this.
            let _ = thread.join();
            in_flight.await;
        });
    }
    Ok(workers)
}

async fn accept_loop(
    socket: TcpListener,
    acceptor: Arc<ConnectionAcceptor>,
    native: Arc<NativeServer>,
    limits: NativeLimits,
) {
    let accepting = acceptor.accept_loop(
        &socket,
        |client| client.is_loopback(),
        |stream, client, open| {
            let connection =
                NativeConnection::new(Arc::clone(&native), Arc::clone(&acceptor), limits, client);
            tokio::spawn(async move {
                connection.run(stream).await;
                drop(open);
            });
        },
    );
    accepting.await;
}
