//! Servers to ask: `service.rs` has the rules of a small one, put together of the parts of `tendot-proto`; here are its
//! sockets, and sockets without any rules.

#![allow(dead_code, reason = "each test uses a part of it")]
#![allow(unreachable_pub, reason = "it is a part of a test")]

pub mod service;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime};

use service::Service;
use tendot_client::native::Root;
use tendot_proto::auth::PrivateKey;
use tendot_proto::crypto::AwsLc;
use tendot_proto::endpoint::Transport as Door;
use tendot_proto::lookup::Config;
use tendot_proto::record::{Interface, InterfaceKind, PublicKey, Server, Site, Transport};
use tendot_proto::{Envelope, Fragments, Framer, Now, Reassembly, Value, Work, tunnel};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UdpSocket};

/// A server on loopback: UDP and TCP at the same port, HTTP at another.
pub struct Peer {
    pub address: SocketAddr,
    pub http: SocketAddr,
    service: Arc<Mutex<Service>>,
}

/// What becomes of datagrams at a peer.
#[derive(Clone, Copy, Default)]
pub struct Datagrams {
    /// Requests that are lost before one is answered.
    pub lost: usize,
    /// The piece of an answer that is lost the first time.
    pub lost_piece: Option<usize>,
    /// Pieces of an answer come last first.
    pub backwards: bool,
    /// Each piece comes twice.
    pub doubled: bool,
    /// So long after the request.
    pub late: Duration,
}

impl Peer {
    pub async fn start(service: Service) -> Self {
        Self::with_datagrams(service, Datagrams::default()).await
    }

    pub async fn with_datagrams(service: Service, datagrams: Datagrams) -> Self {
        let (udp, tcp) = both().await;
        let http = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = udp.local_addr().unwrap();
        let service = Arc::new(Mutex::new(service));
        let peer = Self { address, http: http.local_addr().unwrap(), service: Arc::clone(&service) };
        tokio::spawn(answer_datagrams(udp, Arc::clone(&service), datagrams));
        tokio::spawn(accept(tcp, Arc::clone(&service), false));
        tokio::spawn(accept(http, service, true));
        peer
    }

    pub fn service(&self) -> MutexGuard<'_, Service> {
        self.service.lock().unwrap()
    }

    /// This peer as a server of a site, with these ways to it.
    pub fn server(&self, transports: &[Transport]) -> Server<'static> {
        let interfaces = transports.iter().map(|transport| {
            let port = if *transport == Transport::HTTP { self.http.port() } else { self.address.port() };
            Interface { kind: InterfaceKind::BOTH, transport: *transport, port: u32::from(port) }
        });
        Server {
            id: 1,
            address: Server::address_of(self.address.ip()),
            public_key: self.service().public_key().to_bytes().into(),
            interfaces: interfaces.collect(),
        }
    }

    /// A primary site of this peer alone.
    pub fn site(&self) -> Site<'static> {
        site(vec![self.server(ALL)])
    }

    /// Settings that begin here and go wherever records lead.
    pub fn config(&self) -> Config {
        config(vec![self.site()])
    }
}

pub const ALL: &[Transport] = &[Transport::UDP, Transport::TCP, Transport::HTTP];

pub fn site(servers: Vec<Server<'static>>) -> Site<'static> {
    Site { flags: Site::PRIMARY, serial: 1, servers, ..Site::default() }
}

/// Settings with these sites as root.
pub fn config(root: Vec<Site<'static>>) -> Config {
    let root = root.into_iter().map(Arc::new).collect();
    Config { private_addresses: true, ..Config::new(root) }
}

/// A root at an address without any rules.
pub fn config_at(address: SocketAddr) -> Config {
    Config { private_addresses: true, ..Root::at(&[address], None).config() }
}

/// A value that names a site.
pub fn site_value(index: u32, site: &Site<'_>) -> Value<'static> {
    Value::with_data(index, "HS_SITE", site.to_bytes())
}

pub fn private_key(file: &str) -> PrivateKey {
    PrivateKey::from_file(&vector(file), None, &AwsLc, &mut { Work::REQUEST }).unwrap()
}

pub fn public_key(file: &str) -> PublicKey<'static> {
    PublicKey::from_bytes(&vector(file)).unwrap().into_owned()
}

fn vector(file: &str) -> Vec<u8> {
    let folder =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/vectors/handle-net");
    std::fs::read(folder.join(file)).unwrap()
}

pub fn now() -> Now {
    static START: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);
    let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    Now { elapsed: START.elapsed(), unix }
}

/// UDP and TCP at the same port.
pub async fn both() -> (UdpSocket, TcpListener) {
    loop {
        let udp = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        if let Ok(tcp) = TcpListener::bind(udp.local_addr().unwrap()).await {
            return (udp, tcp);
        }
    }
}

async fn answer_datagrams(socket: UdpSocket, service: Arc<Mutex<Service>>, mut datagrams: Datagrams) {
    let mut reassembly = Reassembly::new();
    let mut buffer = [0; 2_048];
    loop {
        let Ok((length, from)) = socket.recv_from(&mut buffer).await else { continue };
        let Ok(Some(request)) = reassembly.insert(now(), from, &buffer[..length]) else { continue };
        service.lock().unwrap().heard.push((Transport::UDP, from));
        if datagrams.lost > 0 {
            datagrams.lost -= 1;
            continue;
        }
        let Some(response) = service.lock().unwrap().answer(&request, Door::Udp).into_iter().next() else {
            continue;
        };
        tokio::time::sleep(datagrams.late).await;
        let mut pieces: Vec<Vec<u8>> =
            Fragments::new(&response).unwrap().map(|piece| piece.to_vec()).collect();
        if let Some(lost) = datagrams.lost_piece.take() {
            pieces.remove(lost);
        }
        if datagrams.backwards {
            pieces.reverse();
        }
        for piece in pieces {
            for _ in 0..=usize::from(datagrams.doubled) {
                socket.send_to(&piece, from).await.unwrap();
            }
        }
    }
}

async fn accept(listener: TcpListener, service: Arc<Mutex<Service>>, is_tunnel: bool) {
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        tokio::spawn(answer_stream(stream, Arc::clone(&service), is_tunnel));
    }
}

/// One request and its answer, and the connection is closed, as the deployed servers do.
async fn answer_stream(mut stream: TcpStream, service: Arc<Mutex<Service>>, is_tunnel: bool) {
    let Some(request) = request(&mut stream, is_tunnel).await else { return };
    let transport = if is_tunnel { Transport::HTTP } else { Transport::TCP };
    service.lock().unwrap().heard.push((transport, stream.peer_addr().unwrap()));
    let mut answers = service.lock().unwrap().answer(&request, Door::Tcp);
    if is_tunnel {
        answers.truncate(1);
        let length = answers.iter().map(Vec::len).sum::<usize>();
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: {}\r\nContent-Length: {length}\r\n\r\n",
            tunnel::CONTENT_TYPE
        );
        let _ = stream.write_all(head.as_bytes()).await;
    }
    for answer in answers {
        let _ = stream.write_all(&answer).await;
    }
    let _ = stream.shutdown().await;
}

/// The next request of a connection.
pub async fn request(stream: &mut TcpStream, is_tunnel: bool) -> Option<Vec<u8>> {
    let mut framer = Framer::new();
    let mut head = Vec::new();
    let mut in_body = !is_tunnel;
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

/// A peer over UDP without any rules: what it is sent it answers with whatever the closure says, from another port if that
/// says so. TCP is refused.
pub async fn rogue_datagrams(
    mut answers: impl FnMut(&[u8]) -> Vec<(Sender, Vec<u8>)> + Send + 'static,
) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let stranger = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    tokio::spawn(async move {
        let mut buffer = [0; 2_048];
        loop {
            let Ok((length, from)) = socket.recv_from(&mut buffer).await else { continue };
            for (sender, answer) in answers(&buffer[..length]) {
                let sender = if sender == Sender::Server { &socket } else { &stranger };
                let _ = sender.send_to(&answer, from).await;
            }
        }
    });
    address
}

#[derive(Clone, Copy, PartialEq)]
pub enum Sender {
    Server,
    Stranger,
}

/// Somebody on the way to a server over TCP, who changes its answers.
pub async fn between(
    server: SocketAddr,
    mut change: impl FnMut(Vec<u8>) -> Vec<u8> + Send + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let Ok((mut client, _)) = listener.accept().await else { continue };
            let Some(request) = request(&mut client, false).await else { continue };
            let mut connection = TcpStream::connect(server).await.unwrap();
            connection.write_all(&request).await.unwrap();
            let mut response = Vec::new();
            connection.read_to_end(&mut response).await.unwrap();
            let _ = client.write_all(&change(response)).await;
        }
    });
    address
}

/// What a peer over TCP without any rules does with a connection.
#[derive(Clone)]
pub enum Step {
    Send(Vec<u8>),
    /// The same bytes again and again, for as long as they are taken.
    Flood(Vec<u8>),
    Wait(Duration),
    /// Byte by byte, with so long between them.
    Trickle(Vec<u8>, Duration),
}

/// A peer over TCP that takes a request, does these steps and closes. It takes no datagrams, but is there.
pub async fn rogue_stream(
    mut steps: impl FnMut(&[u8]) -> Vec<Step> + Send + 'static,
    is_tunnel: bool,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let Ok((mut stream, _)) = listener.accept().await else { continue };
            let Some(request) = request(&mut stream, is_tunnel).await else { continue };
            let steps = steps(&request);
            tokio::spawn(async move {
                for step in steps {
                    if play(&mut stream, step).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

async fn play(stream: &mut TcpStream, step: Step) -> std::io::Result<()> {
    match step {
        Step::Send(bytes) => stream.write_all(&bytes).await,
        Step::Flood(bytes) => loop {
            stream.write_all(&bytes).await?;
        },
        Step::Wait(time) => {
            tokio::time::sleep(time).await;
            Ok(())
        }
        Step::Trickle(bytes, between) => {
            for byte in bytes {
                stream.write_all(&[byte]).await?;
                tokio::time::sleep(between).await;
            }
            Ok(())
        }
    }
}

/// The envelope of a message or datagram.
pub fn envelope(bytes: &[u8]) -> Envelope {
    Envelope::from_bytes(bytes).unwrap()
}
