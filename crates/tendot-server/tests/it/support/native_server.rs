//! Server with the native protocol and HTTP in the test process, and a client that sends raw messages.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;

use socket2::{Domain, Socket, Type};
use tendot_proto::auth::ClientKey;
use tendot_proto::endpoint::Transport;
use tendot_proto::record::{HandleRecord, Site};
use tendot_proto::{Envelope, HandleValue, Message, ResponseCode, ValueReference, tunnel};
use tendot_registry::{Registry, RegistrySettings};
use tendot_server::ResolutionCounter;
use tendot_server::http::{HttpServer, ProxyTrust, serve};
use tendot_server::native::{
    self, AmplificationLimits, NativeLimits, NativeRateLimits, NativeServer, NativeSockets, OwnSite,
};
use tendot_store::{AnyStore, Edit, MemoryStore, NameKey, Store as _};
use tendot_testing::handle_keys::{handle_net_file, private_key};
pub(crate) use tendot_testing::handle_messages::*;
use tendot_testing::http::{HttpRequest, HttpResponse, read_to_close};
use tendot_testing::{WAIT_TIMEOUT, block_on};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::edits::{self, home_edit, put_edit};

/// Token of the operator in the HTTP API.
pub(crate) const OPERATOR_TOKEN: &str = "the-operator-s-token";

/// Server administrator; `admpriv.bin` has the key.
pub(crate) const SERVER_ADMIN: &str = "300:0.NA/10.5555";

/// Site record and key of the recorded Handle.Net server.
pub(crate) fn recorded_site() -> OwnSite {
    let site = Site::from_json(&handle_net_file("siteinfo.json")).unwrap();
    OwnSite::new(site, &private_key("privkey.bin")).unwrap()
}

pub(crate) struct NativeServerOptions {
    pub(crate) limits: NativeLimits,
    pub(crate) rates: Option<NativeRateLimits>,
    pub(crate) amplification: AmplificationLimits,
    pub(crate) proxy_trust: ProxyTrust,
    /// Whether [`SERVER_ADMIN`] has all permissions on every record.
    pub(crate) full_access: bool,
    /// Whether the sockets were opened elsewhere, as with systemd's socket activation.
    pub(crate) has_inherited_sockets: bool,
    pub(crate) resolution_counter: Option<Arc<ResolutionCounter>>,
    /// Whether SHA-1 proofs are accepted in `VERIFY_CHALLENGE`.
    pub(crate) allow_sha1: bool,
}

impl Default for NativeServerOptions {
    fn default() -> Self {
        Self {
            limits: NativeLimits::default(),
            rates: None,
            amplification: AmplificationLimits::default(),
            proxy_trust: ProxyTrust::default(),
            full_access: true,
            has_inherited_sockets: false,
            resolution_counter: None,
            allow_sha1: false,
        }
    }
}

/// A server with the records of the recorded Handle.Net server; stops on drop.
pub(crate) struct NativeTestServer {
    pub(crate) native: SocketAddr,
    pub(crate) http: SocketAddr,
    pub(crate) registry: Arc<Registry>,
    pub(crate) store: Arc<AnyStore>,
    pub(crate) shutdown: watch::Sender<bool>,
    /// Ends when the native listener has drained.
    pub(crate) listener: Option<JoinHandle<()>>,
}

impl NativeTestServer {
    /// Starts a server over an empty memory store.
    pub(crate) fn start(options: NativeServerOptions) -> Self {
        Self::start_over(MemoryStore::new(), options)
    }

    /// Starts a server over the given store, and puts the recorded records into it.
    pub(crate) fn start_over(store: impl Into<AnyStore>, options: NativeServerOptions) -> Self {
        let settings = RegistrySettings {
            server_admins: vec![ValueReference::parse(SERVER_ADMIN)],
            server_admins_full_access: options.full_access,
            ..RegistrySettings::default()
        };
        let store = Arc::new(store.into());
        let registry = Arc::new(Registry::with_shared_store(Arc::clone(&store), settings));
        block_on(edits::commit(&store, recorded_records()));
        let mut native = NativeServer::new(Arc::clone(&registry), recorded_site())
            .allow_sha1(options.allow_sha1)
            .amplification_limits(options.amplification);
        if let Some(rates) = options.rates {
            native = native.rate_limits(rates);
        }
        if let Some(counter) = &options.resolution_counter {
            native = native.resolution_counter(Arc::clone(counter));
        }
        let native = Arc::new(native);
        let mut http = HttpServer::new(Arc::clone(&registry))
            .native_server(Arc::clone(&native))
            .proxy_trust(options.proxy_trust)
            .operator_token(OPERATOR_TOKEN);
        if let Some(counter) = options.resolution_counter {
            http = http.resolution_counter(counter);
        }
        let http = Arc::new(http);
        let (shutdown, is_shut_down) = watch::channel(false);
        // Dropping the sender is a shutdown, too.
        let ended = move || {
            let mut is_shut_down = is_shut_down.clone();
            async move { drop(is_shut_down.wait_for(|is_shut_down| *is_shut_down).await) }
        };
        let limits = options.limits;
        block_on(async {
            let sockets = bind(options.has_inherited_sockets);
            let address = sockets.address().unwrap();
            let http_socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let http_address = http_socket.local_addr().unwrap();
            let native_end = ended();
            let listener = tokio::spawn(async move {
                native::serve(sockets, native, limits, native_end).await.unwrap();
            });
            tokio::spawn(serve(http_socket, http, tendot_server::http::HttpLimits::default(), ended()));
            Self { native: address, http: http_address, registry, store, shutdown, listener: Some(listener) }
        })
    }

    /// Sends a message and returns all messages of the response.
    pub(crate) fn exchange(&self, transport: Transport, message: &[u8]) -> Vec<Vec<u8>> {
        match transport {
            Transport::Udp => self.exchange_udp(message).into_iter().collect(),
            Transport::Tcp => split_messages(&self.send_raw(message)),
            Transport::Http => split_messages(&self.post(message, tunnel::CONTENT_TYPE).body),
        }
    }

    /// Sends a message in as many datagrams as it needs and returns the response; `None` after [`WAIT_TIMEOUT`].
    pub(crate) fn exchange_udp(&self, message: &[u8]) -> Option<Vec<u8>> {
        let socket = self.udp_socket();
        send_udp(&socket, message);
        receive_udp(&socket, WAIT_TIMEOUT)
    }

    /// Asserts that datagrams get no response: the first response is to a request sent after them.
    #[track_caller]
    pub(crate) fn assert_no_udp_reply(&self, socket: &UdpSocket, datagrams: &[&[u8]]) {
        for datagram in datagrams {
            socket.send(datagram).unwrap();
        }
        // Datagrams from one port reach one worker of the server, which takes them in order.
        let mut marker = resolution("10.5555/ONE");
        marker.envelope.request_id = 0x4d41_524b;
        socket.send(&marker.to_bytes().unwrap()).unwrap();
        let response = receive_udp(socket, WAIT_TIMEOUT).expect("no response to the marker");
        let request_id = Envelope::from_bytes(&response).unwrap().request_id;
        assert_eq!(
            request_id,
            marker.envelope.request_id,
            "unexpected response with code {}",
            response_code(&response)
        );
    }

    pub(crate) fn udp_socket(&self) -> UdpSocket {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(self.native).unwrap();
        socket
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.native).unwrap();
        stream.set_read_timeout(Some(WAIT_TIMEOUT)).unwrap();
        stream.set_nodelay(true).unwrap();
        stream
    }

    /// Sends bytes on a new TCP connection, shuts down the sending side, and reads until the end. The server may close
    /// the connection before it has read everything.
    pub(crate) fn send_raw(&self, bytes: &[u8]) -> Vec<u8> {
        let mut stream = self.connect();
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        read_to_close(&stream)
    }

    /// Sends a message over TCP from this loopback address, and returns the first message of the response.
    pub(crate) fn exchange_from(&self, client: Ipv4Addr, message: &[u8]) -> Vec<u8> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from((client, 0)).into()).unwrap();
        socket.connect(&self.native.into()).unwrap();
        let mut stream = TcpStream::from(socket);
        stream.write_all(message).unwrap();
        split_messages(&read_to_close(&stream)).remove(0)
    }

    /// Sends a message in an HTTP request, as Handle.Net's client does.
    pub(crate) fn post(&self, body: &[u8], media_type: &str) -> HttpResponse {
        HttpRequest::new("POST", "/10.1%2F1")
            .header(&format!("Accept: {media_type}"))
            .header("Accept-Encoding: gzip")
            .header(&format!("Content-Type: {media_type}"))
            .body(body)
            .send(self.http)
    }

    pub(crate) fn get(&self, target: &str) -> HttpResponse {
        HttpRequest::get(target).send(self.http)
    }

    /// The value of a metric in `/metrics`; 0 if there is none.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        self.get("/metrics").metric(name).map_or(0, |value| value as u64)
    }

    /// How many datagrams or responses were dropped for a reason.
    pub(crate) fn dropped(&self, reason: &str) -> u64 {
        self.metric(&format!("tendot_native_dropped_total{{reason=\"{reason}\"}}"))
    }

    /// How many requests ended with a response code.
    pub(crate) fn request_count(&self, transport: &str, operation: &str, code: u32) -> u64 {
        self.metric(&format!(
            "tendot_native_requests_total{{transport=\"{transport}\",operation=\"{operation}\",code=\"{code}\"}}"
        ))
    }

    pub(crate) fn commit(&self, edit: Edit) {
        self.commit_all(vec![edit]);
    }

    pub(crate) fn commit_all(&self, edits: Vec<Edit>) {
        block_on(edits::commit(&self.store, edits));
    }

    /// Puts a record into the store, without authorization.
    pub(crate) fn put(&self, name: &str, values: Vec<HandleValue<'static>>) {
        self.commit(put_edit(name, values));
    }

    pub(crate) fn values(&self, name: &str) -> Option<Vec<HandleValue<'static>>> {
        let entry = block_on(self.store.get(&NameKey::new(name).unwrap())).unwrap();
        entry.map(|entry| entry.values)
    }

    pub(crate) fn change_count(&self) -> usize {
        block_on(self.store.read_log(0, 100_000)).unwrap().len()
    }

    /// The response code to a request; 0 if there is no response.
    pub(crate) fn code(&self, transport: Transport, request: &Message<'_>) -> u32 {
        self.code_for_bytes(transport, &request.to_bytes().unwrap())
    }

    /// The response code to the bytes of a request; 0 if there is no response.
    pub(crate) fn code_for_bytes(&self, transport: Transport, request: &[u8]) -> u32 {
        self.exchange(transport, request).first().map_or(0, |response| response_code(response))
    }

    /// The response code to a request that is authenticated with these credentials.
    pub(crate) fn authenticated_code(
        &self,
        request: &Message<'_>,
        identity: &str,
        credentials: ClientKey<'_>,
    ) -> u32 {
        response_code(&self.authenticated_response(request, identity, credentials))
    }

    /// The response to a request that is authenticated with these credentials if the server sends a challenge.
    pub(crate) fn authenticated_response(
        &self,
        request: &Message<'_>,
        identity: &str,
        credentials: ClientKey<'_>,
    ) -> Vec<u8> {
        let request = request.to_bytes().unwrap();
        let challenge = self.exchange(Transport::Tcp, &request).remove(0);
        if response_code(&challenge) != ResponseCode::AUTHENTICATION_NEEDED.0 {
            return challenge;
        }
        let proof = challenge_response(&request, &challenge, identity, credentials, 99);
        self.exchange(Transport::Tcp, &proof).remove(0)
    }
}

/// Homed prefixes and records of the recorded Handle.Net server.
fn recorded_records() -> Vec<Edit> {
    let prefixes = ["0.NA", "10.5555", "10.5556", "10.5557"];
    let mut edits: Vec<Edit> = prefixes.map(home_edit).into();
    for line in String::from_utf8(handle_net_file("records.jsonl")).unwrap().lines() {
        let record = HandleRecord::from_json(line.as_bytes()).unwrap();
        edits.push(put_edit(std::str::from_utf8(&record.handle).unwrap(), record.values));
    }
    edits
}

fn bind(has_inherited_sockets: bool) -> NativeSockets {
    let sockets = NativeSockets::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    if !has_inherited_sockets {
        return sockets;
    }
    let address = sockets.address().unwrap();
    drop(sockets);
    let tcp = std::net::TcpListener::bind(address).unwrap();
    NativeSockets::from_inherited(tcp, UdpSocket::bind(address).unwrap()).unwrap()
}

/// Reads until the server closes or resets a connection; panics if it stays open for [`WAIT_TIMEOUT`].
#[track_caller]
pub(crate) fn read_until_closed(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Err(error) if error.kind() != ErrorKind::ConnectionReset => panic!("still open: {error}"),
        _ => bytes,
    }
}
