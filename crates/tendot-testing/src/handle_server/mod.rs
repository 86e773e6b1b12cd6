//! Handle servers on loopback, in the test process: one that follows the protocol, and scripted ones that break it.
//!
//! [`TestHandleServer`] serves the records of a [`TestHandleService`] over UDP, TCP and HTTP. The scripted servers send whatever
//! a test wants. All of them run as tasks of the current Tokio runtime and end with it.
//!
//! ```
//! use tendot_testing::handle_server::{TestHandleServer, TestHandleService, site_value};
//!
//! # tendot_testing::block_on(async {
//! let service = TestHandleService::new().with_url("10.1000/182", "https://example.org/");
//! let server = TestHandleServer::start(service).await;
//! let prefix = vec![site_value(1, &server.site())];
//! let root = TestHandleServer::start(TestHandleService::new().with_record("0.NA/10.1000", prefix)).await;
//! assert_ne!(root.address, server.address);
//! assert_eq!(server.service().requests.len(), 0);
//! # });
//! ```

mod service;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tendot_proto::lookup::LookupConfig;
use tendot_proto::record::{InterfaceKind, InterfaceProtocol, ServerInterface, Site, SiteServer};
use tendot_proto::{Envelope, Fragments, Framer, HandleValue, Reassembly, tunnel};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UdpSocket};

pub use self::service::TestHandleService;
use crate::free_port;
pub use crate::handle_messages::now;

/// The transport by which a request reached the server.
pub use tendot_proto::endpoint::Transport as ServerTransport;

/// Every transport of a [`TestHandleServer`].
pub const ALL_TRANSPORTS: &[InterfaceProtocol] =
    &[InterfaceProtocol::UDP, InterfaceProtocol::TCP, InterfaceProtocol::HTTP];

/// A Handle server on loopback: UDP and TCP on one port, HTTP on another.
pub struct TestHandleServer {
    /// The address for UDP and TCP.
    pub address: SocketAddr,
    /// The address for HTTP.
    pub http: SocketAddr,
    service: Arc<Mutex<TestHandleService>>,
}

/// Faults of the network between a client and the UDP port of a server.
#[derive(Clone, Copy, Default)]
pub struct DatagramFaults {
    /// Number of requests that are lost before one is answered.
    pub dropped_requests: usize,
    /// The fragment of the first response that is lost.
    pub dropped_fragment: Option<usize>,
    /// The fragments of a response arrive in reverse order.
    pub reverse_fragments: bool,
    /// Each fragment arrives twice.
    pub duplicate_fragments: bool,
    /// Time between request and response.
    pub delay: Duration,
}

impl TestHandleServer {
    /// Starts a server in the current Tokio runtime.
    pub async fn start(service: TestHandleService) -> Self {
        Self::with_datagram_faults(service, DatagramFaults::default()).await
    }

    /// Starts a server whose datagrams are lost, delayed or reordered.
    pub async fn with_datagram_faults(service: TestHandleService, faults: DatagramFaults) -> Self {
        let (udp, tcp) = bind_udp_and_tcp().await;
        let http = bind_tcp().await;
        let address = udp.local_addr().unwrap();
        let service = Arc::new(Mutex::new(service));
        let server = Self { address, http: http.local_addr().unwrap(), service: Arc::clone(&service) };
        tokio::spawn(serve_datagrams(udp, Arc::clone(&service), faults));
        tokio::spawn(serve_streams(tcp, Arc::clone(&service), false));
        tokio::spawn(serve_streams(http, service, true));
        server
    }

    /// The service, to change its behaviour or to see what it received.
    pub fn service(&self) -> MutexGuard<'_, TestHandleService> {
        self.service.lock().unwrap()
    }

    /// This server as an entry of a site, with these transports.
    pub fn server(&self, transports: &[InterfaceProtocol]) -> SiteServer<'static> {
        let interfaces = transports.iter().map(|transport| {
            let port =
                if *transport == InterfaceProtocol::HTTP { self.http.port() } else { self.address.port() };
            ServerInterface { kind: InterfaceKind::BOTH, protocol: *transport, port: u32::from(port) }
        });
        SiteServer {
            id: 1,
            address: SiteServer::encode_address(self.address.ip()),
            public_key: self.service().public_key().to_bytes().into(),
            interfaces: interfaces.collect(),
        }
    }

    /// A primary site that consists of this server.
    pub fn site(&self) -> Site<'static> {
        site(vec![self.server(ALL_TRANSPORTS)])
    }

    /// Settings of a client that has this server as its root, and may follow records to loopback addresses.
    pub fn config(&self) -> LookupConfig {
        config(vec![self.site()])
    }
}

/// A primary site of these servers.
pub fn site(servers: Vec<SiteServer<'static>>) -> Site<'static> {
    Site { flags: Site::FLAG_PRIMARY, serial: 1, servers, ..Site::default() }
}

/// Settings of a client that has these sites as its root, and may follow records to loopback addresses.
pub fn config(root: Vec<Site<'static>>) -> LookupConfig {
    let root = root.into_iter().map(Arc::new).collect();
    LookupConfig { allow_private_addresses: true, ..LookupConfig::new(root) }
}

/// A value that describes a site, for prefix and service records.
pub fn site_value(index: u32, site: &Site<'_>) -> HandleValue<'static> {
    HandleValue::with_data(index, "HS_SITE", site.to_bytes())
}

/// The envelope of a message or datagram.
pub fn envelope(bytes: &[u8]) -> Envelope {
    Envelope::from_bytes(bytes).unwrap()
}

/// A UDP socket and a TCP listener on the same port of 127.0.0.1, which no other test uses.
pub async fn bind_udp_and_tcp() -> (UdpSocket, TcpListener) {
    let address = (Ipv4Addr::LOCALHOST, free_port());
    (UdpSocket::bind(address).await.unwrap(), TcpListener::bind(address).await.unwrap())
}

/// Its UDP port is reserved, too: requests to it fail.
async fn bind_tcp() -> TcpListener {
    TcpListener::bind((Ipv4Addr::LOCALHOST, free_port())).await.unwrap()
}

async fn serve_datagrams(
    socket: UdpSocket,
    service: Arc<Mutex<TestHandleService>>,
    mut faults: DatagramFaults,
) {
    let mut reassembly = Reassembly::new();
    let mut buffer = [0; 2_048];
    loop {
        let Ok((length, client)) = socket.recv_from(&mut buffer).await else { continue };
        let Ok(Some(request)) = reassembly.insert(now(), client, &buffer[..length]) else { continue };
        service.lock().unwrap().requests.push((InterfaceProtocol::UDP, client));
        if faults.dropped_requests > 0 {
            faults.dropped_requests -= 1;
            continue;
        }
        let messages = service.lock().unwrap().respond(&request, ServerTransport::Udp);
        let Some(response) = messages.into_iter().next() else { continue };
        if !faults.delay.is_zero() {
            // The delay is the fault that the test asks for.
            tokio::time::sleep(faults.delay).await;
        }
        let mut fragments: Vec<Vec<u8>> =
            Fragments::new(&response).unwrap().map(|fragment| fragment.to_vec()).collect();
        if let Some(dropped) = faults.dropped_fragment.take() {
            fragments.remove(dropped);
        }
        if faults.reverse_fragments {
            fragments.reverse();
        }
        for fragment in fragments {
            for _ in 0..=usize::from(faults.duplicate_fragments) {
                socket.send_to(&fragment, client).await.unwrap();
            }
        }
    }
}

async fn serve_streams(listener: TcpListener, service: Arc<Mutex<TestHandleService>>, is_http: bool) {
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        tokio::spawn(serve_stream(stream, Arc::clone(&service), is_http));
    }
}

/// Answers one request and closes the connection, as deployed servers do.
async fn serve_stream(mut stream: TcpStream, service: Arc<Mutex<TestHandleService>>, is_http: bool) {
    let Some(request) = read_request(&mut stream, is_http).await else { return };
    let transport = if is_http { InterfaceProtocol::HTTP } else { InterfaceProtocol::TCP };
    service.lock().unwrap().requests.push((transport, stream.peer_addr().unwrap()));
    let mut messages = service.lock().unwrap().respond(&request, ServerTransport::Tcp);
    if is_http {
        messages.truncate(1);
        let length = messages.iter().map(Vec::len).sum::<usize>();
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: {}\r\nContent-Length: {length}\r\n\r\n",
            tunnel::CONTENT_TYPE
        );
        let _ = stream.write_all(head.as_bytes()).await;
    }
    for message in messages {
        let _ = stream.write_all(&message).await;
    }
    let _ = stream.shutdown().await;
}

/// Reads the next request of a connection; `None` if the client closes it first.
pub async fn read_request(stream: &mut TcpStream, is_http: bool) -> Option<Vec<u8>> {
    let mut framer = Framer::new();
    let mut head = Vec::new();
    let mut in_body = !is_http;
    let mut buffer = [0; 1_024];
    loop {
        let length = stream.read(&mut buffer).await.ok().filter(|length| *length > 0)?;
        let mut bytes = &buffer[..length];
        if !in_body {
            head.extend_from_slice(bytes);
            let Some(at) = head.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
            in_body = true;
            bytes = &head[at + 4..];
        }
        framer.push(bytes);
        if let Some(message) = framer.next_message().ok()? {
            return Some(message.to_vec());
        }
    }
}

/// The socket from which a scripted UDP server replies.
#[derive(Clone, Copy, PartialEq)]
pub enum ReplySocket {
    /// The one to which the client sent its request.
    Server,
    /// Another one, on another port.
    Other,
}

/// Starts a UDP server that answers each datagram with the datagrams that `script` returns. Its TCP port is closed.
pub async fn scripted_udp_server(
    mut script: impl FnMut(&[u8]) -> Vec<(ReplySocket, Vec<u8>)> + Send + 'static,
) -> SocketAddr {
    let server = UdpSocket::bind((Ipv4Addr::LOCALHOST, free_port())).await.unwrap();
    let other = UdpSocket::bind((Ipv4Addr::LOCALHOST, free_port())).await.unwrap();
    let address = server.local_addr().unwrap();
    tokio::spawn(async move {
        let mut buffer = [0; 2_048];
        loop {
            let Ok((length, client)) = server.recv_from(&mut buffer).await else { continue };
            for (socket, reply) in script(&buffer[..length]) {
                let socket = if socket == ReplySocket::Server { &server } else { &other };
                let _ = socket.send_to(&reply, client).await;
            }
        }
    });
    address
}

/// Action of a scripted TCP server after it has received a request.
#[derive(Clone)]
pub enum StreamStep {
    /// Sends these bytes.
    Send(Vec<u8>),
    /// Sends these bytes repeatedly, until the client closes the connection.
    Flood(Vec<u8>),
    /// Sends nothing until the client closes the connection.
    Hang,
    /// Sends these bytes one at a time, at this interval.
    Trickle(Vec<u8>, Duration),
}

/// Starts a TCP or HTTP server that receives one request per connection, performs the steps that `script` returns, and closes
/// the connection. Its UDP port is closed.
pub async fn scripted_tcp_server(
    mut script: impl FnMut(&[u8]) -> Vec<StreamStep> + Send + 'static,
    is_http: bool,
) -> SocketAddr {
    let listener = bind_tcp().await;
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let Ok((mut stream, _)) = listener.accept().await else { continue };
            let Some(request) = read_request(&mut stream, is_http).await else { continue };
            let steps = script(&request);
            tokio::spawn(async move {
                for step in steps {
                    if run_step(&mut stream, step).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

async fn run_step(stream: &mut TcpStream, step: StreamStep) -> std::io::Result<()> {
    match step {
        StreamStep::Send(bytes) => stream.write_all(&bytes).await,
        StreamStep::Flood(bytes) => loop {
            stream.write_all(&bytes).await?;
        },
        StreamStep::Hang => tokio::io::copy(stream, &mut tokio::io::sink()).await.map(drop),
        StreamStep::Trickle(bytes, interval) => {
            for byte in bytes {
                stream.write_all(&[byte]).await?;
                // The slow sender is what the test asks for.
                tokio::time::sleep(interval).await;
            }
            Ok(())
        }
    }
}

/// Starts a TCP proxy in front of a server that passes each response through `change`.
pub async fn tampering_proxy(
    server: SocketAddr,
    mut change: impl FnMut(Vec<u8>) -> Vec<u8> + Send + 'static,
) -> SocketAddr {
    let listener = bind_tcp().await;
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let Ok((mut client, _)) = listener.accept().await else { continue };
            let Some(request) = read_request(&mut client, false).await else { continue };
            let mut connection = TcpStream::connect(server).await.unwrap();
            connection.write_all(&request).await.unwrap();
            let mut response = Vec::new();
            connection.read_to_end(&mut response).await.unwrap();
            let _ = client.write_all(&change(response)).await;
        }
    });
    address
}
