//! Sockets of one look-up: each attempt has its own, and all end with the look-up.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;
use std::time::Duration;

use tendot_proto::lookup::{ConnectionError, Transmit};
use tendot_proto::record::InterfaceProtocol;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{Instant, timeout, timeout_at};

use super::tls::connect_tls;

/// How long a connection may take to be made: less than an answer over it is waited for.
pub(super) const CONNECT: Duration = Duration::from_secs(3);

/// What is read at once.
const READ: usize = 16 << 10;

/// Input for a lookup: datagram, stream bytes, failure or DNS result.
pub(super) enum SocketEvent {
    Datagram { from: SocketAddr, bytes: Vec<u8> },
    Bytes { attempt: u32, bytes: Vec<u8> },
    Failure { attempt: u32, error: ConnectionError },
    Addresses { domain: String, addresses: Vec<IpAddr> },
}

impl SocketEvent {
    /// How many bytes of others are in it.
    pub(super) fn received_bytes(&self) -> usize {
        match self {
            Self::Datagram { bytes, .. } | Self::Bytes { bytes, .. } => bytes.len(),
            _ => 0,
        }
    }
}

/// Sockets and DNS queries of one lookup; all end when it is dropped.
pub(super) struct LookupSockets {
    tasks: JoinSet<()>,
    datagrams: HashMap<u32, Arc<UdpSocket>>,
    sender: mpsc::Sender<SocketEvent>,
    arrivals: mpsc::Receiver<SocketEvent>,
}

impl LookupSockets {
    pub(super) fn new() -> Self {
        // Who sends faster than it is read has to wait.
        let (sender, arrivals) = mpsc::channel(16);
        Self { tasks: JoinSet::new(), datagrams: HashMap::new(), sender, arrivals }
    }

    /// What comes next, if it comes in time.
    pub(super) async fn next_event(&mut self, until: Instant) -> Option<SocketEvent> {
        timeout_at(until, self.arrivals.recv()).await.ok().flatten()
    }

    /// Sends; what becomes of it is an arrival.
    pub(super) async fn send(&mut self, transmit: Transmit) -> Option<SocketEvent> {
        if transmit.transport != InterfaceProtocol::UDP {
            self.tasks.spawn(run_stream(transmit, self.sender.clone()));
            return None;
        }
        let attempt = transmit.attempt;
        match self.send_datagram(transmit).await {
            Ok(()) => None,
            Err(_) => Some(SocketEvent::Failure { attempt, error: ConnectionError::Unreachable }),
        }
    }

    /// Each attempt has a port of its own, chosen by the system at random, that takes datagrams of its server only.
    async fn send_datagram(&mut self, transmit: Transmit) -> io::Result<()> {
        let socket = match self.datagrams.get(&transmit.attempt) {
            Some(socket) => Arc::clone(socket),
            None => {
                let any: IpAddr = match transmit.to {
                    SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
                    SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
                };
                let socket = UdpSocket::bind((any, 0)).await?;
                socket.connect(transmit.to).await?;
                let socket = Arc::new(socket);
                self.datagrams.insert(transmit.attempt, Arc::clone(&socket));
                let receive = receive_datagrams(
                    transmit.attempt,
                    transmit.to,
                    Arc::clone(&socket),
                    self.sender.clone(),
                );
                self.tasks.spawn(receive);
                socket
            }
        };
        socket.send(&transmit.bytes).await.map(drop)
    }

    /// Finds out the addresses of a name. Each takes a thread for as long as the system likes, so there are only as many at a
    /// time as `threads` has permits; who gets none in time finds nothing.
    pub(super) fn resolve_domain(&mut self, domain: String, threads: Arc<Semaphore>) {
        let sender = self.sender.clone();
        self.tasks.spawn(async move {
            let name = domain.clone();
            let addresses = async {
                let permit = threads.acquire_owned().await.ok()?;
                let found = spawn_blocking(move || {
                    let _permit = permit;
                    (name, 0).to_socket_addrs().ok().map(|found| found.map(|to| to.ip()).collect())
                });
                found.await.ok().flatten()
            };
            let addresses = timeout(CONNECT, addresses).await.ok().flatten().unwrap_or_default();
            let _ = sender.send(SocketEvent::Addresses { domain, addresses }).await;
        });
    }
}

async fn receive_datagrams(
    attempt: u32,
    from: SocketAddr,
    socket: Arc<UdpSocket>,
    sender: mpsc::Sender<SocketEvent>,
) {
    // Longer datagrams than the protocol has are cut off, and no messages then.
    let mut buffer = [0; 2_048];
    loop {
        let arrival = match socket.recv(&mut buffer).await {
            Ok(length) => {
                SocketEvent::Datagram { from, bytes: buffer.get(..length).unwrap_or_default().to_vec() }
            }
            Err(_) => SocketEvent::Failure { attempt, error: ConnectionError::Unreachable },
        };
        let is_over = matches!(arrival, SocketEvent::Failure { .. });
        if sender.send(arrival).await.is_err() || is_over {
            return;
        }
    }
}

async fn run_stream(transmit: Transmit, sender: mpsc::Sender<SocketEvent>) {
    let attempt = transmit.attempt;
    let Transmit { transport, to, domain, server_key, bytes, .. } = &transmit;
    let error = match connect_stream(*transport, *to, domain.as_deref(), server_key).await {
        Ok(connection) => {
            exchange_bytes(connection, attempt, bytes, &sender).await;
            ConnectionError::Closed
        }
        Err(_) => ConnectionError::Unreachable,
    };
    let _ = sender.send(SocketEvent::Failure { attempt, error }).await;
}

async fn exchange_bytes(
    mut connection: Box<dyn ByteStream>,
    attempt: u32,
    bytes: &[u8],
    sender: &mpsc::Sender<SocketEvent>,
) {
    if connection.write_all(bytes).await.is_err() || connection.flush().await.is_err() {
        return;
    }
    let mut buffer = vec![0; READ];
    while let Ok(length @ 1..) = connection.read(&mut buffer).await {
        let bytes = buffer.get(..length).unwrap_or_default().to_vec();
        if sender.send(SocketEvent::Bytes { attempt, bytes }).await.is_err() {
            return;
        }
    }
}

/// TCP or TLS stream.
pub(super) trait ByteStream: AsyncRead + AsyncWrite + Send + Sync + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Sync + Unpin> ByteStream for S {}

/// A connection by any transport but UDP; over TLS to the server that has this name, if any, and this key.
pub(super) async fn connect_stream(
    transport: InterfaceProtocol,
    to: SocketAddr,
    domain: Option<&str>,
    key: &[u8],
) -> io::Result<Box<dyn ByteStream>> {
    if transport == InterfaceProtocol::HTTPS {
        return Ok(Box::new(connect_tls(to, domain, key).await?));
    }
    Ok(Box::new(connect_tcp(to).await?))
}

/// A connection, unless it takes too long.
pub(super) async fn connect_tcp(to: SocketAddr) -> io::Result<TcpStream> {
    let connection = timeout(CONNECT, TcpStream::connect(to)).await??;
    connection.set_nodelay(true)?;
    Ok(connection)
}
