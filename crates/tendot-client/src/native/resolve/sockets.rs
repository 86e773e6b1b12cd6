//! Sockets of one lookup: each attempt has its own, and all close with the lookup.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;

use tendot_proto::lookup::{ConnectionError, Transmit};
use tendot_proto::record::InterfaceProtocol;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UdpSocket;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{Instant, timeout, timeout_at};

use crate::native::stream::{ByteStream, CONNECT_TIMEOUT, READ_BUFFER_BYTES, connect_stream};

/// Capacity of the event queue; senders wait while it is full (back-pressure).
const MAX_QUEUED_EVENTS: usize = 16;

/// Size of the receive buffer; longer datagrams are truncated and then fail to decode.
const DATAGRAM_BUFFER_BYTES: usize = 2_048;

/// Input for a lookup: datagram, stream bytes, failure or DNS result.
pub(super) enum SocketEvent {
    Datagram { from: SocketAddr, bytes: Vec<u8> },
    StreamBytes { attempt: u32, bytes: Vec<u8> },
    AttemptFailed { attempt: u32, error: ConnectionError },
    DomainResolved { domain: String, addresses: Vec<IpAddr> },
}

impl SocketEvent {
    /// Number of received bytes in the event.
    pub(super) fn received_bytes(&self) -> usize {
        match self {
            Self::Datagram { bytes, .. } | Self::StreamBytes { bytes, .. } => bytes.len(),
            _ => 0,
        }
    }
}

/// Sockets and DNS queries of one lookup; all end when it is dropped.
pub(super) struct LookupSockets {
    tasks: JoinSet<()>,
    /// By attempt.
    udp_sockets: HashMap<u32, Arc<UdpSocket>>,
    sender: mpsc::Sender<SocketEvent>,
    events: mpsc::Receiver<SocketEvent>,
}

impl LookupSockets {
    pub(super) fn new() -> Self {
        let (sender, events) = mpsc::channel(MAX_QUEUED_EVENTS);
        Self { tasks: JoinSet::new(), udp_sockets: HashMap::new(), sender, events }
    }

    /// Next event; `None` at the deadline.
    pub(super) async fn next_event(&mut self, deadline: Instant) -> Option<SocketEvent> {
        timeout_at(deadline, self.events.recv()).await.ok().flatten()
    }

    /// Sends a message; an immediate failure is returned as an event.
    pub(super) async fn send(&mut self, transmit: Transmit) -> Option<SocketEvent> {
        if transmit.transport != InterfaceProtocol::UDP {
            self.tasks.spawn(run_stream(transmit, self.sender.clone()));
            return None;
        }
        let attempt = transmit.attempt;
        match self.send_datagram(transmit).await {
            Ok(()) => None,
            Err(_) => Some(SocketEvent::AttemptFailed { attempt, error: ConnectionError::Unreachable }),
        }
    }

    /// Sends a datagram. Each attempt has its own socket on a random port, connected to its server.
    async fn send_datagram(&mut self, transmit: Transmit) -> io::Result<()> {
        let socket = match self.udp_sockets.get(&transmit.attempt) {
            Some(socket) => Arc::clone(socket),
            None => {
                let unspecified: IpAddr = match transmit.to {
                    SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
                    SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
                };
                let socket = UdpSocket::bind((unspecified, 0)).await?;
                socket.connect(transmit.to).await?;
                let socket = Arc::new(socket);
                self.udp_sockets.insert(transmit.attempt, Arc::clone(&socket));
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

    /// Resolves a domain name on a blocking thread; `threads` limits their number.
    ///
    /// The system call cannot be cancelled, so the thread holds its permit until it returns. After a timeout, also of waiting
    /// for a permit, the list of addresses is empty.
    pub(super) fn resolve_domain(&mut self, domain: String, threads: Arc<Semaphore>) {
        let sender = self.sender.clone();
        self.tasks.spawn(async move {
            let name = domain.clone();
            let addresses = async {
                let permit = threads.acquire_owned().await.ok()?;
                let addresses = spawn_blocking(move || {
                    let _permit = permit;
                    (name, 0)
                        .to_socket_addrs()
                        .ok()
                        .map(|addresses| addresses.map(|address| address.ip()).collect())
                });
                addresses.await.ok().flatten()
            };
            let addresses = timeout(CONNECT_TIMEOUT, addresses).await.ok().flatten().unwrap_or_default();
            let _ = sender.send(SocketEvent::DomainResolved { domain, addresses }).await;
        });
    }
}

/// Passes received datagrams on as events until the socket fails or the lookup ends.
async fn receive_datagrams(
    attempt: u32,
    from: SocketAddr,
    socket: Arc<UdpSocket>,
    sender: mpsc::Sender<SocketEvent>,
) {
    let mut buffer = [0; DATAGRAM_BUFFER_BYTES];
    loop {
        let event = match socket.recv(&mut buffer).await {
            Ok(length) => {
                SocketEvent::Datagram { from, bytes: buffer.get(..length).unwrap_or_default().to_vec() }
            }
            Err(_) => SocketEvent::AttemptFailed { attempt, error: ConnectionError::Unreachable },
        };
        let has_failed = matches!(event, SocketEvent::AttemptFailed { .. });
        if sender.send(event).await.is_err() || has_failed {
            return;
        }
    }
}

/// Sends a message over a new stream and passes received bytes on as events, then the end of the stream.
async fn run_stream(transmit: Transmit, sender: mpsc::Sender<SocketEvent>) {
    let attempt = transmit.attempt;
    let Transmit { transport, to, domain, server_key, bytes, .. } = &transmit;
    let error = match connect_stream(*transport, *to, domain.as_deref(), server_key).await {
        Ok(stream) => {
            exchange_bytes(stream, attempt, bytes, &sender).await;
            ConnectionError::Closed
        }
        Err(_) => ConnectionError::Unreachable,
    };
    let _ = sender.send(SocketEvent::AttemptFailed { attempt, error }).await;
}

async fn exchange_bytes(
    mut stream: Box<dyn ByteStream>,
    attempt: u32,
    bytes: &[u8],
    sender: &mpsc::Sender<SocketEvent>,
) {
    if stream.write_all(bytes).await.is_err() || stream.flush().await.is_err() {
        return;
    }
    let mut buffer = vec![0; READ_BUFFER_BYTES];
    while let Ok(length @ 1..) = stream.read(&mut buffer).await {
        let bytes = buffer.get(..length).unwrap_or_default().to_vec();
        if sender.send(SocketEvent::StreamBytes { attempt, bytes }).await.is_err() {
            return;
        }
    }
}
