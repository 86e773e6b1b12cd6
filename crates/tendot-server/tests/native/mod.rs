//! A service with the native protocol, inside of the test, and a client that says exactly what it is told.

#![allow(dead_code, reason = "each file of tests uses its own part")]

#[path = "../../../tendot-registry/tests/store/mod.rs"]
pub(crate) mod store;

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use store::Kept;
use tendot_proto::auth::{Credentials, Policy, PrivateKey};
use tendot_proto::crypto::{AwsLc, SystemRandom};
use tendot_proto::endpoint::Transport;
use tendot_proto::record::{Admin, AdminPermissions, Record, Site};
use tendot_proto::{
    Body, Envelope, Fragments, Framer, Handle, Message, Now, Opcode, Outcome, Parts, Reassembly, Reference,
    Request, Response, ResponseCode, Value, Work, tunnel,
};
use tendot_registry::{Registry, Settings};
use tendot_server::Tally;
use tendot_server::http::{Http, listen};
use tendot_server::native::{self, Limits, Native, NativeSockets, OwnSite, Rates};
use tendot_store::{Change, Edit, Expect, Key, Store};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The operator's.
pub(crate) const TOKEN: &str = "the-operator-s-token";

pub(crate) fn vectors() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../conformance/vectors/handle-net")
}

/// A private key of the recordings.
pub(crate) fn private_key(file: &str) -> PrivateKey {
    let bytes = std::fs::read(vectors().join(file)).unwrap();
    PrivateKey::from_file(&bytes, None, &AwsLc, &mut { Work::REQUEST }).unwrap()
}

/// Who the recorded server was.
pub(crate) fn site() -> OwnSite {
    let json = std::fs::read(vectors().join("siteinfo.json")).unwrap();
    OwnSite::new(Site::from_json(&json).unwrap(), &private_key("privkey.bin")).unwrap()
}

/// What is tried out.
pub(crate) struct Setting {
    pub(crate) limits: Limits,
    pub(crate) rates: Option<Rates>,
    pub(crate) full_access: bool,
    /// Whether another program has made the sockets.
    pub(crate) is_handed: bool,
    /// What counts resolutions.
    pub(crate) tally: Option<Arc<Tally>>,
}

impl Default for Setting {
    fn default() -> Self {
        Self { limits: Limits::default(), rates: None, full_access: true, is_handed: false, tally: None }
    }
}

pub(crate) struct Service<S = Kept> {
    pub(crate) runtime: Runtime,
    pub(crate) native: SocketAddr,
    pub(crate) http: SocketAddr,
    pub(crate) registry: Arc<Registry<S>>,
    pub(crate) end: watch::Sender<bool>,
    pub(crate) served: Option<JoinHandle<()>>,
}

/// With the records of the recorded server, whose administrator was `300:0.NA/10.5555`.
pub(crate) fn start(setting: Setting) -> Service {
    start_over(store::new(), setting)
}

/// The same over a store of its own.
pub(crate) fn start_over<S: Store + 'static>(store: S, setting: Setting) -> Service<S> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut edits: Vec<Edit> =
        ["0.NA", "10.5555", "10.5556", "10.5557"].map(|prefix| Edit::Home { prefix: prefix.into() }).into();
    for line in std::fs::read_to_string(vectors().join("records.jsonl")).unwrap().lines() {
        let record = Record::from_json(line.as_bytes()).unwrap();
        let name = String::from_utf8(record.handle.into_owned()).unwrap().into();
        edits.push(Edit::Put { name, values: record.values, expect: Expect::Any });
    }
    let settings = Settings {
        server_admins: vec![Reference::parse("300:0.NA/10.5555")],
        server_admins_full_access: setting.full_access,
        ..Settings::default()
    };
    let registry = Arc::new(Registry::new(store, settings));
    let mut own = Native::new(Arc::clone(&registry), site());
    if let Some(rates) = setting.rates {
        own = own.rates(rates);
    }
    if let Some(tally) = &setting.tally {
        own = own.tally(Arc::clone(tally));
    }
    let own = Arc::new(own);
    let (end, ended) = watch::channel(false);
    let is_ended = move || {
        let mut ended = ended.clone();
        async move { drop(ended.wait_for(|ended| *ended).await) }
    };
    let mut http = Http::new(Arc::clone(&registry)).native(Arc::clone(&own)).operator_token(TOKEN);
    if let Some(tally) = setting.tally {
        http = http.tally(tally);
    }
    let http = Arc::new(http);
    let (native, http, served) = runtime.block_on(async {
        registry.store().commit(Change { by: "test".into(), at: 0, edits }).await.unwrap();
        let mut sockets = NativeSockets::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        if setting.is_handed {
            let address = sockets.address().unwrap();
            drop(sockets);
            let tcp = std::net::TcpListener::bind(address).unwrap();
            sockets = NativeSockets::handed(tcp, UdpSocket::bind(address).unwrap()).unwrap();
        }
        let address = sockets.address().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let http_address = listener.local_addr().unwrap();
        let (limits, end) = (setting.limits, is_ended());
        let served = tokio::spawn(async move { native::listen(sockets, own, limits, end).await.unwrap() });
        tokio::spawn(listen(listener, http, tendot_server::http::Limits::default(), is_ended()));
        (address, http_address, served)
    });
    Service { runtime, native, http, registry, end, served: Some(served) }
}

pub(crate) fn now() -> Now {
    let unix = std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH).unwrap();
    Now { elapsed: Duration::ZERO, unix: unix.as_secs() }
}

/// How long an answer is waited for that is to come.
const LONG: Duration = Duration::from_secs(20);

/// How long one is waited for that is not to come.
pub(crate) const SHORT: Duration = Duration::from_millis(300);

impl<S: Store> Service<S> {
    /// All messages of the answer to a message.
    pub(crate) fn ask(&self, transport: Transport, message: &[u8]) -> Vec<Vec<u8>> {
        match transport {
            Transport::Udp => self.ask_udp(message, LONG).into_iter().collect(),
            Transport::Tcp => cut(&self.say(message)),
            Transport::Http => {
                let answer = self.post(message, tunnel::CONTENT_TYPE);
                let at = tunnel::response_body(&answer).unwrap().unwrap();
                cut(&answer[at..])
            }
        }
    }

    /// The answer to a message in datagrams; none if none comes.
    pub(crate) fn ask_udp(&self, message: &[u8], wait: Duration) -> Option<Vec<u8>> {
        let socket = self.udp();
        match Fragments::new(message) {
            Ok(datagrams) => datagrams.for_each(|datagram| assert!(socket.send(&datagram).is_ok())),
            Err(_) => assert!(socket.send(message).is_ok()),
        }
        receive(&socket, wait)
    }

    pub(crate) fn udp(&self) -> UdpSocket {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(self.native).unwrap();
        socket
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.native).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream.set_nodelay(true).unwrap();
        stream
    }

    /// All that comes over a connection after these bytes, which are the last.
    pub(crate) fn say(&self, bytes: &[u8]) -> Vec<u8> {
        let mut stream = self.connect();
        // It may be closed before all was said.
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        rest(&mut stream)
    }

    pub(crate) fn post(&self, body: &[u8], kind: &str) -> Vec<u8> {
        let mut stream = TcpStream::connect(self.http).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        let head = format!(
            "POST /10.1%2F1 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAccept: {kind}\r\n\
             Accept-Encoding: gzip\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(&[head.as_bytes(), body].concat()).unwrap();
        rest(&mut stream)
    }

    pub(crate) fn get(&self, target: &str) -> String {
        let mut stream = TcpStream::connect(self.http).unwrap();
        write!(stream, "GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
        String::from_utf8_lossy(&rest(&mut stream)).into_owned()
    }

    /// A number of `/metrics`.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let metrics = self.get("/metrics");
        let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.map_or(0, |number| number.trim().parse::<f64>().unwrap() as u64)
    }

    pub(crate) fn commit(&self, edit: Edit) {
        let change = Change { by: "test".into(), at: 0, edits: vec![edit] };
        self.runtime.block_on(self.registry.store().commit(change)).unwrap();
    }

    /// Puts a record past all rules.
    pub(crate) fn put(&self, name: &str, values: Vec<Value<'static>>) {
        self.commit(Edit::Put { name: name.into(), values, expect: Expect::Any });
    }

    pub(crate) fn values(&self, name: &str) -> Option<Vec<Value<'static>>> {
        let entry = self.runtime.block_on(self.registry.store().get(&Key::new(name).unwrap())).unwrap();
        entry.map(|entry| entry.values)
    }

    /// How many changes there were.
    pub(crate) fn changes(&self) -> usize {
        self.runtime.block_on(self.registry.store().changes(0, 100_000)).unwrap().len()
    }

    /// The code of the answer to a request; 0 if there is none.
    pub(crate) fn code(&self, transport: Transport, request: &Message<'_>) -> u32 {
        self.code_of(transport, &request.to_bytes().unwrap())
    }

    pub(crate) fn code_of(&self, transport: Transport, request: &[u8]) -> u32 {
        self.ask(transport, request).first().map_or(0, |answer| code(answer))
    }

    /// The code of the answer once who asks has proved to be `who` by these credentials.
    pub(crate) fn prove(&self, request: &Message<'_>, who: &str, credentials: Credentials<'_>) -> u32 {
        code(&self.proved(request, who, credentials))
    }

    /// The same, and the whole answer.
    pub(crate) fn proved(&self, request: &Message<'_>, who: &str, credentials: Credentials<'_>) -> Vec<u8> {
        let request = request.to_bytes().unwrap();
        let challenge = self.ask(Transport::Tcp, &request).remove(0);
        if code(&challenge) != ResponseCode::AUTHENTICATION_NEEDED.0 {
            return challenge;
        }
        self.ask(Transport::Tcp, &answer_to(&request, &challenge, who, credentials, 99)).remove(0)
    }
}

/// The answer to a challenge.
pub(crate) fn answer_to(
    request: &[u8],
    challenge: &[u8],
    who: &str,
    credentials: Credentials<'_>,
    request_id: u32,
) -> Vec<u8> {
    let challenge = Message::from_bytes(challenge).unwrap();
    let parts = Parts::split(request).unwrap();
    let work = &mut { Work::REQUEST };
    let proof =
        credentials.answer(&parts, &challenge, &Policy::default(), &AwsLc, &mut SystemRandom, work).unwrap();
    let who = Reference::parse(who);
    let answer = Request::ChallengeAnswer {
        auth_type: credentials.auth_type(),
        key_handle: who.handle(),
        key_index: who.index,
        answer: &proof,
    };
    let mut answer = Message::request(Opcode::CHALLENGE_RESPONSE, answer, request_id, now());
    answer.envelope.session_id = challenge.envelope.session_id;
    answer.to_bytes().unwrap()
}

pub(crate) fn receive(socket: &UdpSocket, wait: Duration) -> Option<Vec<u8>> {
    socket.set_read_timeout(Some(wait)).unwrap();
    let (mut reassembly, mut room) = (Reassembly::new(), [0; 1024]);
    let from = socket.peer_addr().unwrap();
    while let Ok(length) = socket.recv(&mut room) {
        assert!(length <= 512);
        if let Some(message) = reassembly.insert(now(), from, &room[..length]).unwrap() {
            return Some(message.into_owned());
        }
    }
    None
}

/// What comes until the connection is closed, one way or another.
pub(crate) fn rest(stream: &mut TcpStream) -> Vec<u8> {
    let (mut found, mut piece) = (Vec::new(), [0; 64 << 10]);
    while let Ok(read) = stream.read(&mut piece)
        && read > 0
    {
        found.extend_from_slice(&piece[..read]);
    }
    found
}

/// One message of a connection that stays.
pub(crate) fn next(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut message = vec![0; 20];
    stream.read_exact(&mut message).ok()?;
    let length = Envelope::from_bytes(&message).unwrap().length as usize;
    message.resize(20 + length, 0);
    stream.read_exact(&mut message[20..]).ok()?;
    Some(message)
}

/// The messages in a stream.
pub(crate) fn cut(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut framer = Framer::new();
    framer.push(bytes);
    let mut messages = Vec::new();
    while let Some(message) = framer.next_message().unwrap() {
        messages.push(message.to_vec());
    }
    assert!(!framer.is_amid_message());
    messages
}

pub(crate) fn code(answer: &[u8]) -> u32 {
    Message::from_bytes(answer).unwrap().header.response_code.0
}

/// What an error says in words.
pub(crate) fn words(answer: &[u8]) -> String {
    match Message::from_bytes(answer).unwrap().body {
        Body::Response(Response { outcome: Outcome::Failed { message: Some(words) }, .. }) => {
            String::from_utf8(words.to_vec()).unwrap()
        }
        _ => String::new(),
    }
}

pub(crate) fn resolution(handle: &str) -> Message<'_> {
    Message::resolution(Handle::from(handle), 7, now())
}

pub(crate) fn url(index: u32, address: &'static str) -> Value<'static> {
    Value::new(index, "URL", address)
}

pub(crate) fn admin(index: u32, bits: u16, who: &str) -> Value<'static> {
    let permissions = AdminPermissions(bits);
    let admin = Admin { permissions, reference: Reference::parse(who), legacy_byte_length: false };
    Value::with_data(index, "HS_ADMIN", admin.to_bytes())
}
