//! Lookups in a network that is pretended, with its time: datagrams are lost, late, doubled and out of order, servers
//! are dead or lie, and every lookup ends within its bounds, with the right answer whenever there is a way to it.

#![cfg(feature = "crypto")]

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tendot_proto::auth::{AuthError, CredentialError, OwnedDigest, Policy, sign_message};
use tendot_proto::crypto::{Hash, Random, SigningKey};
use tendot_proto::lookup::{
    Answer, AttemptError, Config, ConnectionError, Event, Lookup, LookupError, LookupErrorKind, Question,
    ResponseTimes,
};
use tendot_proto::message::{KeyExchangeMode, SessionKeyPart, SessionSetup};
use tendot_proto::record::{Attribute, HashOption, Interface, InterfaceKind, Server, Site, Transport};
use tendot_proto::wire::List;
use tendot_proto::{
    Body, Credential, Fragments, Handle, Message, Now, OpFlags, Opcode, Outcome, Parts, Reassembly, Request,
    Response, ResponseCode, Tail, Value, Version, Work, limits, tunnel,
};

const UNIX: u64 = 1_700_000_000;

/// Numbers that look random and are the same every time (splitmix64).
struct Seeded(u64);

impl Seeded {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

impl Random for Seeded {
    fn fill(&mut self, out: &mut [u8]) {
        for byte in out {
            *byte = self.next() as u8;
        }
    }
}

/// What a pretended server does with a request.
#[derive(Clone, Default)]
struct Pretended {
    records: BTreeMap<String, Vec<Value<'static>>>,
    /// Of a hundred datagrams so many are lost, each way.
    loss: u64,
    doubled: u64,
    slowest: u64,
    tcp: Tcp,
    lie: Lie,
    /// Who is on the way to it asks for this name instead, under the number of the request, and passes the answer on.
    asked_instead: Option<&'static str>,
    /// What it signs with, when asked to.
    key: Option<Arc<dyn SigningKey>>,
    /// How often it was asked.
    asked: usize,
}

#[derive(Clone, Copy, Default, PartialEq)]
enum Tcp {
    #[default]
    Works,
    Refused,
    Silent,
}

#[derive(Clone, Default)]
enum Lie {
    #[default]
    None,
    Code(ResponseCode),
    Refer(ResponseCode, &'static str, Vec<Value<'static>>),
    RequestId,
    Source,
    OtherName,
    Expired,
    Digest,
    /// Changed after it was signed.
    Forged,
    /// Any bytes of it changed, or cut off.
    Garbled,
    Serial(u16),
    Version(Version),
    /// Pieces of a list, all but the last with the flag for more.
    List(usize),
}

struct Network {
    random: Seeded,
    servers: BTreeMap<IpAddr, Pretended>,
    on_the_way: BTreeMap<(u64, u64), Arrival>,
    number: u64,
    at: u64,
    /// At servers.
    reassembly: Reassembly,
    domains: BTreeMap<String, Vec<IpAddr>>,
    /// How many names were to be resolved.
    resolved: usize,
    messages: BTreeSet<(u32, u64)>,
    transports: Vec<Transport>,
    backwards: bool,
}

enum Arrival {
    AtServer { from: SocketAddr, to: SocketAddr, datagram: Vec<u8> },
    AtClient { from: SocketAddr, datagram: Vec<u8> },
    Stream { attempt: u32, bytes: Vec<u8> },
    Failure { attempt: u32, error: ConnectionError },
}

const CLIENT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1)), 40_000);

impl Network {
    fn new(seed: u64) -> Self {
        Self {
            random: Seeded(seed),
            servers: BTreeMap::new(),
            on_the_way: BTreeMap::new(),
            number: 0,
            at: 0,
            reassembly: Reassembly::new(),
            domains: BTreeMap::new(),
            resolved: 0,
            messages: BTreeSet::new(),
            transports: Vec::new(),
            backwards: false,
        }
    }

    fn now(&self) -> Now {
        Now { elapsed: Duration::from_millis(self.at), unix: UNIX + self.at / 1000 }
    }

    fn server(&mut self, ip: &str) -> &mut Pretended {
        self.servers.entry(ip.parse().unwrap()).or_default()
    }

    fn arrive(&mut self, delay: u64, arrival: Arrival) {
        self.number += 1;
        // Later ones first, for the reply in fragments.
        let number = if self.backwards { u64::MAX - self.number } else { self.number };
        self.on_the_way.insert((self.at + delay, number), arrival);
    }

    fn send(&mut self, sent: tendot_proto::lookup::Transmit) {
        self.transports.push(sent.transport);
        self.messages.insert((sent.attempt, self.at));
        let Some(server) = self.servers.get(&sent.to.ip()).cloned() else { return };
        let delay = 1 + self.random.below(server.slowest + 1);
        if sent.transport == Transport::UDP {
            assert!(sent.bytes.len() <= limits::DATAGRAM, "{} bytes", sent.bytes.len());
            for delay in self.fate(&server) {
                let datagram = sent.bytes.clone();
                self.arrive(delay, Arrival::AtServer { from: CLIENT, to: sent.to, datagram });
            }
            return;
        }
        match server.tcp {
            Tcp::Refused => {
                let error = ConnectionError::Unreachable;
                self.arrive(delay, Arrival::Failure { attempt: sent.attempt, error });
            }
            Tcp::Silent => {}
            Tcp::Works => {
                let is_tunnel = sent.transport == Transport::HTTP;
                let at = if is_tunnel {
                    sent.bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4
                } else {
                    0
                };
                let mut stream = Vec::new();
                if is_tunnel {
                    let text =
                        format!("HTTP/1.1 200 OK\r\nContent-Type: {}\r\n\r\n\r\n", tunnel::CONTENT_TYPE);
                    stream.extend(text.into_bytes());
                }
                for answer in self.answers(sent.to, &sent.bytes[at..]) {
                    stream.extend(answer);
                }
                let mut delay = delay;
                while !stream.is_empty() {
                    let rest = stream.split_off((1 + self.random.below(700) as usize).min(stream.len()));
                    self.arrive(delay, Arrival::Stream { attempt: sent.attempt, bytes: stream });
                    stream = rest;
                    delay += 1;
                }
                let error = ConnectionError::Closed;
                self.arrive(delay + 1, Arrival::Failure { attempt: sent.attempt, error });
            }
        }
    }

    /// When a datagram arrives: never, once or twice.
    fn fate(&mut self, server: &Pretended) -> Vec<u64> {
        let copies = if self.random.percent(server.doubled) { 2 } else { 1 };
        (0..copies)
            .filter_map(|_| {
                let delay = 1 + self.random.below(server.slowest + 1);
                (!self.random.percent(server.loss)).then_some(delay)
            })
            .collect()
    }

    /// What the server at an address says to a request.
    fn answers(&mut self, to: SocketAddr, request: &[u8]) -> Vec<Vec<u8>> {
        let now = self.now();
        let server = self.servers.get_mut(&to.ip()).unwrap();
        server.asked += 1;
        let mut request = request.to_vec();
        if let Some(name) = server.asked_instead {
            let Message { envelope, header, .. } = Message::from_bytes(&request).unwrap();
            let other = Message::resolution(Handle::from(name), envelope.request_id, now);
            request = Message { envelope, header, ..other }.to_bytes().unwrap();
        }
        let parts = Parts::split(&request).unwrap();
        let request = Message::from_parts(&parts).unwrap();
        let Body::Request(asked) = request.body else { panic!() };
        let handle = asked.handle().unwrap_or(Handle::from("10.1/X"));
        let nothing: &[Value<'_>] = &[];
        let mut code = ResponseCode::SUCCESS;
        let name = String::from_utf8(handle.folded().into_owned()).unwrap();
        let mut outcome = match (server.records.get(&name), asked) {
            (Some(values), Request::Resolve { types, .. }) => {
                let selected: Vec<Value<'static>> = (values.iter())
                    .filter(|value| types.is_empty() || types.iter().any(|of| value.is_selected_by(of)))
                    .cloned()
                    .collect();
                if selected.is_empty() {
                    code = ResponseCode::VALUES_NOT_FOUND;
                    Outcome::Failed { message: Some(b"") }
                } else {
                    Outcome::Resolved { handle, values: List::from(&*selected.leak()) }
                }
            }
            (Some(_), Request::SessionSetup(setup)) => Outcome::Session { mode: setup.mode, data: &[] },
            (Some(_), _) => Outcome::Done,
            (None, _) => {
                code = ResponseCode::HANDLE_NOT_FOUND;
                Outcome::Failed { message: Some(b"") }
            }
        };
        let mut envelope = request.envelope;
        let mut header = request.header.response(code, request.header.site_serial, now);
        let mut copies = 1;
        match &server.lie {
            Lie::None | Lie::Source | Lie::Digest | Lie::Forged | Lie::Garbled => {}
            Lie::Code(code) => {
                header.response_code = *code;
                outcome = Outcome::Failed { message: Some(b"no") };
            }
            Lie::Refer(code, handle, values) => {
                header.response_code = *code;
                let values = (!values.is_empty()).then(|| List::from(&**values));
                outcome = Outcome::Referral { handle: Handle::from(*handle), values };
            }
            Lie::RequestId => envelope.request_id ^= 1,
            Lie::OtherName => {
                outcome =
                    Outcome::Resolved { handle: Handle::from("10.5/other"), values: List::from(nothing) };
            }
            Lie::Expired => header.expiration = now.unix32() - 1,
            Lie::Serial(serial) => header.site_serial = *serial,
            Lie::Version(version) => envelope.version = *version,
            Lie::List(parts) => {
                copies = *parts;
                let names: &[&[u8]] = &[b"10.1/A", b"10.1/B"];
                outcome = Outcome::Handles(List::from(names));
            }
        }
        let is_digested = header.flags.has(OpFlags::REQUEST_DIGEST);
        let digest = is_digested.then(|| digest_of(parts.header_and_body, envelope.version, &server.lie));
        (1..=copies)
            .map(|part| {
                let more = if part < copies { OpFlags::CONTINUOUS } else { OpFlags::default() };
                let header = tendot_proto::Header { flags: header.flags.with(more), ..header };
                let digest = digest.as_ref().map(OwnedDigest::as_request_digest);
                let body = Body::Response(Response { digest, outcome });
                let message = Message { envelope, header, body, body_rest: &[], tail: Tail::Absent };
                let mut bytes = message.to_bytes().unwrap();
                if let (true, Some(key)) = (header.flags.has(OpFlags::CERTIFY), &server.key) {
                    sign(&mut bytes, &**key);
                }
                if matches!(server.lie, Lie::Forged) {
                    // The last byte of the last value's text.
                    let at = bytes.windows(4).rposition(|four| four == b"org/").unwrap();
                    bytes[at] ^= 1;
                }
                if matches!(server.lie, Lie::Garbled) {
                    for _ in 0..self.random.below(4) {
                        let at = self.random.below(bytes.len() as u64) as usize;
                        bytes[at] = self.random.next() as u8;
                    }
                    if self.random.percent(10) {
                        bytes.truncate(self.random.below(bytes.len() as u64) as usize);
                    }
                }
                bytes
            })
            .collect()
    }

    fn deliver(&mut self, arrival: Arrival, lookup: &mut Lookup) {
        let now = self.now();
        match arrival {
            Arrival::AtServer { from, to, datagram } => {
                let Ok(Some(request)) = self.reassembly.insert(now, from, &datagram) else { return };
                let server = self.servers[&to.ip()].clone();
                let source = match server.lie {
                    Lie::Source => SocketAddr::new(to.ip(), to.port() + 1),
                    _ => to,
                };
                for answer in self.answers(to, &request) {
                    // What is garbled may not be a message; it goes out in one piece.
                    let datagrams = match Fragments::new(&answer) {
                        Ok(fragments) => fragments.map(|datagram| datagram.to_vec()).collect(),
                        Err(_) => vec![answer],
                    };
                    for datagram in datagrams {
                        for delay in self.fate(&server) {
                            let arrival = Arrival::AtClient { from: source, datagram: datagram.clone() };
                            self.arrive(delay, arrival);
                        }
                    }
                }
            }
            Arrival::AtClient { from, datagram } => lookup.handle_datagram(now, from, &datagram),
            Arrival::Stream { attempt, bytes } => lookup.handle_stream(now, attempt, &bytes),
            Arrival::Failure { attempt, error } => lookup.handle_failure(now, attempt, error),
        }
    }

    /// Runs a lookup to its end.
    fn run(&mut self, mut lookup: Lookup, config: &Config) -> (Result<Answer, LookupError>, Vec<Event>) {
        let begun = self.at;
        let mut random = Seeded(self.random.next());
        let mut events = Vec::new();
        for _ in 0..20_000 {
            while let Some(sent) = lookup.poll_transmit(self.now(), &mut random) {
                self.send(sent);
            }
            while let Some(event) = lookup.poll() {
                let end = match event {
                    Event::Finished(answer) => Ok(answer),
                    Event::Failed(error) => Err(error),
                    Event::Resolve { domain } => {
                        self.resolved += 1;
                        let addresses = self.domains.get(&domain).cloned().unwrap_or_default();
                        lookup.handle_addresses(&domain, &addresses);
                        continue;
                    }
                    other => {
                        events.push(other);
                        continue;
                    }
                };
                assert!(lookup.poll_timeout().is_none() && lookup.poll().is_none());
                assert!(lookup.poll_transmit(self.now(), &mut random).is_none());
                assert!(self.messages.len() <= config.messages as usize, "{} messages", self.messages.len());
                assert!(Duration::from_millis(self.at - begun) <= config.time, "{} ms", self.at - begun);
                return (end, events);
            }
            // Events may have led to something to send.
            if let Some(sent) = lookup.poll_transmit(self.now(), &mut random) {
                self.send(sent);
                continue;
            }
            let Some(timeout) = lookup.poll_timeout() else { continue };
            let timeout = timeout.as_micros().div_ceil(1000) as u64;
            assert!(timeout > self.at, "it must not wait for what has passed");
            match self.on_the_way.first_key_value().map(|(key, _)| *key) {
                Some(key) if key.0 <= timeout => {
                    let arrival = self.on_the_way.remove(&key).unwrap();
                    self.at = key.0;
                    self.deliver(arrival, &mut lookup);
                }
                _ => {
                    self.at = timeout;
                    lookup.handle_timeout(self.now());
                }
            }
        }
        panic!("it does not end");
    }

    fn resolve(&mut self, config: &Arc<Config>, handle: &str) -> Result<Answer, LookupError> {
        let question = Question::resolve(Handle::from(handle), &[], &[]);
        let lookup = Lookup::new(Arc::clone(config), question, self.now());
        self.run(lookup, config).0
    }
}

fn site(addresses: &[&str]) -> Site<'static> {
    let of = |transport, port| Interface { kind: InterfaceKind::BOTH, transport, port };
    let server = |(id, address): (usize, &&str)| Server {
        id: id as u32 + 1,
        address: Server::address_of(address.parse().unwrap()),
        interfaces: vec![of(Transport::UDP, 2641), of(Transport::TCP, 2641), of(Transport::HTTP, 8000)],
        ..Server::default()
    };
    Site {
        flags: Site::PRIMARY,
        serial: 3,
        hash_option: HashOption::WHOLE,
        servers: addresses.iter().enumerate().map(server).collect(),
        ..Site::default()
    }
}

fn site_value(index: u32, addresses: &[&str]) -> Value<'static> {
    Value::with_data(index, "HS_SITE", site(addresses).to_bytes())
}

fn urls(count: u32) -> Vec<Value<'static>> {
    (1..=count).map(|index| Value::new(index, "URL", format!("https://example.org/{index}"))).collect()
}

fn values(answer: &Answer) -> Vec<Value<'_>> {
    let message = answer.message().unwrap();
    assert_eq!(message.header.response_code, ResponseCode::SUCCESS);
    let Body::Response(Response { outcome: Outcome::Resolved { values, .. }, .. }) = message.body else {
        panic!()
    };
    values.iter().collect()
}

/// A root at 192.0.2.1, which says that 10.1 is at 192.0.2.11 and 192.0.2.12, who keep 10.1/X.
fn small() -> (Network, Arc<Config>) {
    let mut network = Network::new(1);
    let sites = vec![site_value(1, &["192.0.2.11"]), site_value(2, &["192.0.2.12"])];
    network.server("192.0.2.1").records.insert("0.NA/10.1".into(), sites);
    for address in ["192.0.2.11", "192.0.2.12"] {
        network.server(address).records.insert("10.1/X".into(), urls(2));
    }
    let mut config = Config::new(vec![Arc::new(site(&["192.0.2.1"]))]);
    config.ipv6 = false;
    (network, Arc::new(config))
}

#[test]
fn straight() {
    let (mut network, config) = small();
    let answer = network.resolve(&config, "10.1/x").unwrap();
    assert_eq!(values(&answer), urls(2));
    assert_eq!(answer.transport, Transport::UDP);
    assert_eq!(network.messages.len(), 2);
    assert!(network.at < 100);
}

#[test]
fn all_datagrams_lost() {
    let (mut network, config) = small();
    for server in network.servers.values_mut() {
        server.loss = 100;
    }
    let answer = network.resolve(&config, "10.1/X").unwrap();
    assert_eq!(values(&answer), urls(2));
    assert_eq!(answer.transport, Transport::TCP);
    // Three times to the root, then nobody is bothered with datagrams any more.
    use Transport as T;
    assert_eq!(network.transports, [T::UDP, T::UDP, T::UDP, T::TCP, T::TCP]);
    assert!((3000..4000).contains(&network.at), "{}", network.at);
}

#[test]
fn only_http() {
    let (mut network, config) = small();
    let config = Arc::new(Config { transports: vec![Transport::HTTP], ..(*config).clone() });
    let answer = network.resolve(&config, "10.1/X").unwrap();
    assert_eq!((values(&answer), answer.from.port()), (urls(2), 8000));
}

#[test]
fn one_site_dead() {
    for dead in ["192.0.2.11", "192.0.2.12"] {
        let (mut network, config) = small();
        network.servers.remove(&dead.parse().unwrap());
        let answer = network.resolve(&config, "10.1/X").unwrap();
        assert_eq!(values(&answer), urls(2));
        assert!(network.at < 600, "half a second at most: {}", network.at);
    }
}

#[test]
fn nobody_there() {
    let (mut network, config) = small();
    network.servers.remove(&"192.0.2.1".parse().unwrap());
    let error = network.resolve(&config, "10.1/X").unwrap_err();
    assert_eq!((error.kind, &error.handle[..]), (LookupErrorKind::Time, &b"0.NA/10.1"[..]));
    let shown = error.to_string();
    assert!(
        shown.starts_with("0.NA/10.1: no answer in time; 192.0.2.1:2641 over UDP: no answer; "),
        "{shown}"
    );

    let (mut network, config) = small();
    for server in network.servers.values_mut() {
        (server.loss, server.tcp) = (100, Tcp::Refused);
    }
    let error = network.resolve(&config, "10.1/X").unwrap_err();
    assert_eq!(error.kind, LookupErrorKind::NoAnswer);
    let refused = AttemptError::Connection(ConnectionError::Unreachable);
    assert_eq!(error.attempts.iter().filter(|attempt| attempt.error == refused).count(), 2);
}

#[test]
fn codes() {
    let (mut network, config) = small();
    let answer = network.resolve(&config, "10.1/Y").unwrap();
    assert_eq!(answer.message().unwrap().header.response_code, ResponseCode::HANDLE_NOT_FOUND);

    // A failed server sends us to the next, any other code is an answer.
    for failing in ["192.0.2.11", "192.0.2.12"] {
        let (mut network, config) = small();
        network.server(failing).lie = Lie::Code(ResponseCode::ERROR);
        assert_eq!(values(&network.resolve(&config, "10.1/X").unwrap()), urls(2));
    }
    let (mut network, config) = small();
    for address in ["192.0.2.11", "192.0.2.12"] {
        network.server(address).lie = Lie::Code(ResponseCode::SERVER_NOT_RESPONSIBLE);
    }
    let answer = network.resolve(&config, "10.1/X").unwrap();
    assert_eq!(answer.message().unwrap().header.response_code, ResponseCode::SERVER_NOT_RESPONSIBLE);
}

#[test]
fn an_unknown_prefix_is_asked_for_twice() {
    let (mut network, config) = small();
    let error = network.resolve(&config, "10.2/X").unwrap_err();
    assert_eq!((error.kind, &error.handle[..]), (LookupErrorKind::ServiceNotFound, &b"0.NA/10.2"[..]));
    assert_eq!(network.server("192.0.2.1").asked, 2);
    // No primary site to ask again.
    let mirror = Site { flags: 0, ..site(&["192.0.2.1"]) };
    let config = Arc::new(Config { root: vec![Arc::new(mirror)], ..(*config).clone() });
    let error = network.resolve(&config, "10.2/X").unwrap_err();
    assert_eq!(error.kind, LookupErrorKind::ServiceNotFound);
}

#[test]
fn services_are_followed() {
    let (mut network, config) = small();
    let root = network.server("192.0.2.1");
    let service = |index, handle: &'static str| Value::new(index, "HS_SERV", handle);
    root.records.insert("0.NA/10.3".into(), vec![service(1, "0.SERV/A"), service(2, "0.serv/b")]);
    root.records.insert("0.SERV/A".into(), vec![service(1, "0.SERV/B"), service(2, "0.SERV/A")]);
    root.records.insert("0.SERV/B".into(), vec![site_value(5, &["192.0.2.11"])]);
    root.records.insert("0.NA/10.4".into(), vec![service(1, "0.NA/0.NA")]);
    root.records.insert("10.4/X".into(), urls(4));
    root.records.insert("0.NA/10.5".into(), vec![service(1, "10.5/SERV")]);
    root.records.insert("0.NA/10.6".into(), vec![service(1, "10.1/SERV")]);
    network.server("192.0.2.11").records.insert("10.3/X".into(), urls(3));
    for address in ["192.0.2.11", "192.0.2.12"] {
        network.server(address).records.insert("10.1/SERV".into(), vec![site_value(7, &["192.0.2.11"])]);
        network.server(address).records.insert("10.6/X".into(), urls(6));
    }
    assert_eq!(values(&network.resolve(&config, "10.3/X").unwrap()), urls(3));
    assert_eq!(network.messages.len(), 4, "each record once");
    network.messages.clear();
    assert_eq!(values(&network.resolve(&config, "10.4/X").unwrap()), urls(4));
    network.messages.clear();
    assert_eq!(values(&network.resolve(&config, "10.6/X").unwrap()), urls(6));
    network.messages.clear();
    let error = network.resolve(&config, "10.5/X").unwrap_err();
    assert_eq!(error.kind, LookupErrorKind::ServiceLoop);
    assert!(network.messages.len() < 4);
}

/// Each service leads to the next, for ever.
#[test]
fn services_without_end() {
    let (mut network, config) = small();
    let root = network.server("192.0.2.1");
    root.records.insert("0.NA/10.3".into(), vec![Value::new(1, "HS_SERV", "0.SERV/0")]);
    for number in 0..50 {
        let next = Value::new(1, "HS_SERV", format!("0.SERV/{}", number + 1));
        root.records.insert(format!("0.SERV/{number}"), vec![next]);
    }
    let error = network.resolve(&config, "10.3/X").unwrap_err();
    assert_eq!(error.kind, LookupErrorKind::ServiceDepth { limit: 20 });
    assert_eq!(network.messages.len(), 20);
}

#[test]
fn referrals() {
    let refer = |to: &[&str]| Lie::Refer(ResponseCode::SERVICE_REFERRAL, "", vec![site_value(1, to)]);
    let (mut network, config) = small();
    network.server("192.0.2.11").lie = refer(&["192.0.2.21"]);
    network.server("192.0.2.12").lie = refer(&["192.0.2.21"]);
    network.server("192.0.2.21").records.insert("10.1/X".into(), urls(7));
    assert_eq!(values(&network.resolve(&config, "10.1/X").unwrap()), urls(7));

    // By the handle of a service, and to the root.
    let by_handle = |handle| Lie::Refer(ResponseCode::SERVICE_REFERRAL, handle, vec![]);
    for (handle, expected) in [("0.SERV/A", 7), ("0.NA/0.NA", 8)] {
        network.server("192.0.2.1").records.insert("0.SERV/A".into(), vec![site_value(1, &["192.0.2.21"])]);
        network.server("192.0.2.1").records.insert("10.1/X".into(), urls(8));
        network.server("192.0.2.11").lie = by_handle(handle);
        network.server("192.0.2.12").lie = by_handle(handle);
        network.messages.clear();
        assert_eq!(values(&network.resolve(&config, "10.1/X").unwrap()), urls(expected));
    }

    // In a circle.
    network.messages.clear();
    network.server("192.0.2.11").lie = refer(&["192.0.2.12"]);
    network.server("192.0.2.12").lie = refer(&["192.0.2.11"]);
    let error = network.resolve(&config, "10.1/X").unwrap_err();
    assert_eq!(error.kind, LookupErrorKind::ReferralLoop);
    assert_eq!(network.messages.len(), 3);

    // Nowhere.
    network.server("192.0.2.11").lie = by_handle("");
    network.server("192.0.2.12").lie = by_handle("");
    network.messages.clear();
    assert_eq!(network.resolve(&config, "10.1/X").unwrap_err().kind, LookupErrorKind::ServiceNotFound);
}

#[test]
fn referrals_without_end() {
    let (mut network, config) = small();
    for number in 0..60_u8 {
        let next = format!("203.0.113.{}", number + 1);
        let values = vec![site_value(1, &[&next])];
        let server = network.server(&format!("203.0.113.{number}"));
        server.lie = Lie::Refer(ResponseCode::SERVICE_REFERRAL, "", values);
    }
    let root = network.server("192.0.2.1");
    root.records.insert("0.NA/10.3".into(), vec![site_value(1, &["203.0.113.0"])]);
    let error = network.resolve(&config, "10.3/X").unwrap_err();
    assert_eq!(error.kind, LookupErrorKind::Referrals { limit: 40 });
}

#[test]
fn prefix_referrals() {
    let (mut network, config) = small();
    let derived = Value::with_data(1, "HS_SITE.PREFIX", site(&["192.0.2.21"]).to_bytes());
    let values_of_parent = vec![derived, site_value(2, &["192.0.2.1"])];
    network.server("192.0.2.1").lie = Lie::Refer(ResponseCode::PREFIX_REFERRAL, "", values_of_parent);
    let here = vec![site_value(1, &["192.0.2.11"])];
    network.server("192.0.2.21").records.insert("0.NA/10.1.9".into(), here.clone());
    network.server("192.0.2.11").records.insert("10.1.9/X".into(), urls(9));
    assert_eq!(values(&network.resolve(&config, "10.1.9/X").unwrap()), urls(9));
    network.messages.clear();
    assert_eq!(values(&network.resolve(&config, "0.NA/10.1.9").unwrap()), here);

    // Only prefixes are referred so; for another name it is an answer like any other.
    let lie = Lie::Refer(ResponseCode::PREFIX_REFERRAL, "", vec![site_value(1, &["192.0.2.12"])]);
    network.server("192.0.2.11").lie = lie;
    network.messages.clear();
    let answer = network.resolve(&config, "10.1.9/X").unwrap();
    assert_eq!(answer.message().unwrap().header.response_code, ResponseCode::PREFIX_REFERRAL);
}

/// Whatever one site says that cannot be believed, the other is asked and believed.
#[test]
fn lies() {
    for lie in [Lie::RequestId, Lie::Source, Lie::OtherName, Lie::Expired] {
        for liar in ["192.0.2.11", "192.0.2.12"] {
            let (mut network, config) = small();
            network.server(liar).lie = lie.clone();
            let answer = network.resolve(&config, "10.1/X").unwrap();
            assert_eq!(values(&answer), urls(2));
            assert_ne!(answer.from.ip().to_string(), liar);
        }
    }
}

/// If both lie, nothing is believed, and the error says why.
#[test]
fn attack_c6_and_c7_only_lies() {
    check_lie(Lie::OtherName, |error| *error == AttemptError::OtherHandle);
    check_lie(Lie::Expired, |error| matches!(error, AttemptError::Expired { late: 1, .. }));
    // Over UDP those are not even looked at; over a connection they are an error.
    check_lie(Lie::RequestId, |error| matches!(error, AttemptError::RequestId { .. } | AttemptError::Silent));
    let (mut network, config) = small();
    for address in ["192.0.2.11", "192.0.2.12"] {
        (network.server(address).lie, network.server(address).tcp) = (Lie::Source, Tcp::Refused);
    }
    assert_eq!(network.resolve(&config, "10.1/X").unwrap_err().kind, LookupErrorKind::NoAnswer);
}

#[track_caller]
fn check_lie(lie: Lie, expected: impl Fn(&AttemptError) -> bool) {
    let (mut network, config) = small();
    for address in ["192.0.2.11", "192.0.2.12"] {
        network.server(address).lie = lie.clone();
    }
    let error = network.resolve(&config, "10.1/X").unwrap_err();
    assert_eq!((error.kind, &error.handle[..]), (LookupErrorKind::NoAnswer, &b"10.1/X"[..]));
    assert!(error.attempts.iter().all(|attempt| expected(&attempt.error)), "{error}");
}

/// What a server makes of a request, or of another one.
fn digest_of(header_and_body: &[u8], version: Version, lie: &Lie) -> OwnedDigest {
    let of = if matches!(lie, Lie::Digest) { b"another request" } else { header_and_body };
    let policy = Policy { sha1: true, ..Policy::default() };
    let crypto = tendot_proto::crypto::AwsLc;
    OwnedDigest::of_request(of, version, &policy, &crypto, &mut { Work::REQUEST }).unwrap()
}

/// Signs as a server does; in versions that sign with SHA-1, which is not made here, as it would with SHA-256.
fn sign(message: &mut Vec<u8>, key: &dyn SigningKey) {
    let unsigned = message.clone();
    let parts = Parts::split(&unsigned).unwrap();
    if parts.envelope.version >= Version::SHA256 {
        return sign_message(message, key, &mut { Work::REQUEST }).unwrap();
    }
    let signature = key.sign(Hash::Sha256, parts.header_and_body).unwrap();
    let tail = Tail::Credential(Credential {
        options: 0,
        signer: &[],
        counter: 0,
        credential_type: Credential::SIGNED,
        algorithm: b"SHA-256",
        signature: &signature,
    });
    *message = Message { tail, ..Message::from_parts(&parts).unwrap() }.to_bytes().unwrap();
}

/// The network in which all servers sign with the key of the recorded server, and sites say so.
fn signed() -> (Network, Arc<Config>) {
    use tendot_proto::auth::PrivateKey;
    use tendot_proto::crypto::AwsLc;

    let file = include_bytes!("../../../conformance/vectors/handle-net/privkey.bin");
    let private = PrivateKey::from_file(file, None, &AwsLc, &mut { Work::REQUEST }).unwrap();
    let key: Arc<dyn SigningKey> = Arc::from(private.signing_key(&AwsLc).unwrap());
    let public = private.public_key().unwrap().to_bytes();
    let of = |address: &str| {
        let mut site = site(&[address]);
        site.servers[0].public_key = public.clone().into();
        site
    };
    let (mut network, config) = small();
    for server in network.servers.values_mut() {
        server.key = Some(Arc::clone(&key));
    }
    let sites =
        ["192.0.2.11", "192.0.2.12"].map(|address| Value::with_data(1, "HS_SITE", of(address).to_bytes()));
    network.server("192.0.2.1").records.insert("0.NA/10.1".into(), sites.to_vec());
    let root = vec![Arc::new(of("192.0.2.1"))];
    let config = Config { root, certify: true, crypto: Some(Arc::new(AwsLc)), ..(*config).clone() };
    (network, Arc::new(config))
}

#[test]
fn signed_answers() {
    let (mut network, config) = signed();
    assert_eq!(values(&network.resolve(&config, "10.1/X").unwrap()), urls(2));

    // One who does not sign, and one whose answer was changed on the way.
    for liar in ["192.0.2.11", "192.0.2.12"] {
        for lie in [Lie::None, Lie::Forged] {
            let (mut network, config) = signed();
            if let Lie::None = lie {
                network.server(liar).key = None;
            }
            network.server(liar).lie = lie;
            let answer = network.resolve(&config, "10.1/X").unwrap();
            assert_eq!(values(&answer), urls(2));
            assert_ne!(answer.from.ip().to_string(), liar);
        }
    }
    check_signed(Lie::Forged, true, AttemptError::Signature(CredentialError::Wrong));
    check_signed(Lie::None, false, AttemptError::Signature(CredentialError::Missing));

    // Without cryptography nothing can be certain.
    let (mut network, config) = signed();
    let config = Arc::new(Config { crypto: None, ..(*config).clone() });
    let error = network.resolve(&config, "10.1/X").unwrap_err();
    assert_eq!(&error.handle[..], b"0.NA/10.1");
    assert!(error.attempts.iter().all(|attempt| attempt.error == AttemptError::Unchecked), "{error}");
}

#[track_caller]
fn check_signed(lie: Lie, signs: bool, expected: AttemptError) {
    let (mut network, config) = signed();
    for address in ["192.0.2.11", "192.0.2.12"] {
        let server = network.server(address);
        server.lie = lie.clone();
        server.key = server.key.take().filter(|_| signs);
    }
    let error = network.resolve(&config, "10.1/X").unwrap_err();
    assert_eq!((error.kind, &error.handle[..]), (LookupErrorKind::NoAnswer, &b"10.1/X"[..]));
    assert!(error.attempts.iter().all(|attempt| attempt.error == expected), "{error}");
}

/// Somebody on the way asks an honest server for a name of his own, under the number of our request, and passes on the
/// answer, which is signed. Codes of answers that do not have the name in them.
#[test]
fn attack_c7_signed_answers_to_other_questions() {
    let elsewhere = || vec![site_value(1, &["203.0.113.66"])];
    for (lie, name) in [
        (Lie::None, "0.NA/10.66.NOT.THERE"),
        (Lie::None, "0.NA/10.66"),
        (Lie::Refer(ResponseCode::SERVICE_REFERRAL, "", elsewhere()), "0.NA/10.66"),
        (Lie::Refer(ResponseCode::PREFIX_REFERRAL, "", elsewhere()), "0.NA/10.66"),
        (Lie::Code(ResponseCode::SERVER_NOT_RESPONSIBLE), "0.NA/10.66"),
    ] {
        let (mut network, config) = signed();
        let root = network.server("192.0.2.1");
        root.records.insert("0.NA/10.66".into(), urls(1));
        (root.lie, root.asked_instead) = (lie, Some(name));
        let flags = OpFlags::DEFAULT.with(OpFlags::CERTIFY);
        let by_flag = Question::resolve(Handle::from("10.1/X"), &[], &[]).with_flags(flags);
        let only_flag = Config { certify: false, ..(*config).clone() };
        for (config, question) in [
            ((*config).clone(), Question::resolve(Handle::from("10.1/X"), &[], &[])),
            ((*config).clone(), Question::resolve(Handle::from("0.NA/10.1"), &[], &[b"HS_SITE"])),
            (only_flag, by_flag),
        ] {
            network.messages.clear();
            let lookup = Lookup::new(Arc::new(config.clone()), question, network.now());
            let error = network.run(lookup, &config).0.unwrap_err();
            let other = AttemptError::Digest(AuthError::OtherRequest);
            assert_eq!((error.kind, &error.handle[..]), (LookupErrorKind::NoAnswer, &b"0.NA/10.1"[..]));
            assert!(error.attempts.iter().all(|attempt| attempt.error == other), "{error}");
        }
        assert!(!network.servers.contains_key(&"203.0.113.66".parse().unwrap()));
    }
}

/// Who knows SHA-256 is not believed when he does not use it, whatever else is allowed.
#[test]
fn signed_answers_in_old_versions() {
    let (old, new) = (Version::new(2, 4), Version::OURS);
    let resolve = |of_site: Version, of_answer: Version| {
        let (mut network, config) = signed();
        network.server("192.0.2.1").lie = Lie::Version(of_answer);
        let of_root = Site {
            protocol_major: of_site.major,
            protocol_minor: of_site.minor,
            ..Site::clone(&config.root[0])
        };
        let policy = Policy { sha1: true, md5: true, ..Policy::default() };
        let config = Arc::new(Config { root: vec![Arc::new(of_root)], policy, ..(*config).clone() });
        network.resolve(&config, "0.NA/10.1").map_err(|error| error.attempts[0].error)
    };
    assert!(resolve(new, Version::SHA256).is_ok());
    // A site of which less is known than its servers can do.
    assert!(resolve(old, new).is_ok());
    // Without it no server here makes a digest by SHA-1.
    if cfg!(not(feature = "legacy")) {
        return;
    }
    assert_eq!(resolve(new, old).unwrap_err(), AttemptError::Version { found: old, site: new });
    let sha1 = AttemptError::Digest(AuthError::NotAllowed { algorithm: "SHA-1" });
    assert_eq!(resolve(old, old).unwrap_err(), sha1);
}

#[test]
fn digests_of_requests() {
    for (lie, is_right) in [(Lie::None, true), (Lie::Digest, false)] {
        let (mut network, config) = signed();
        for address in ["192.0.2.11", "192.0.2.12"] {
            network.server(address).lie = lie.clone();
        }
        let flags = OpFlags::DEFAULT.with(OpFlags::REQUEST_DIGEST);
        let question = Question::resolve(Handle::from("10.1/X"), &[], &[]).with_flags(flags);
        let lookup = Lookup::new(Arc::clone(&config), question, network.now());
        match network.run(lookup, &config).0 {
            Ok(answer) => assert!(is_right && values(&answer) == urls(2)),
            Err(error) => {
                let other = AttemptError::Digest(AuthError::OtherRequest);
                assert!(!is_right && error.attempts.iter().all(|attempt| attempt.error == other), "{error}");
            }
        }
    }
}

#[test]
fn a_reply_in_fragments_in_any_order() {
    for seed in 0..50 {
        let (mut network, config) = small();
        network.random = Seeded(seed);
        network.backwards = seed == 0;
        for address in ["192.0.2.11", "192.0.2.12"] {
            let server = network.server(address);
            server.records.insert("10.1/X".into(), urls(200));
            (server.slowest, server.doubled) = (if seed == 0 { 0 } else { 200 }, 30);
        }
        let answer = network.resolve(&config, "10.1/X").unwrap();
        assert_eq!((values(&answer), answer.transport), (urls(200), Transport::UDP));
    }
}

/// A name so long that the question itself needs several datagrams.
#[test]
fn a_question_in_fragments() {
    let (mut network, config) = small();
    let name = format!("10.1/{}", "X".repeat(2000));
    for address in ["192.0.2.11", "192.0.2.12"] {
        network.server(address).records.insert(name.clone(), urls(1));
    }
    let answer = network.resolve(&config, &name).unwrap();
    assert_eq!((values(&answer), answer.transport), (urls(1), Transport::UDP));
    assert_eq!(network.messages.len(), 2);
}

#[test]
fn the_right_server_of_a_site() {
    let (mut network, config) = small();
    let addresses = ["192.0.2.31", "192.0.2.32", "192.0.2.33"];
    network.server("192.0.2.1").records.insert("0.NA/10.1000".into(), vec![site_value(1, &addresses)]);
    network.server("192.0.2.33").records.insert("10.1000/1".into(), urls(1));
    network.server("192.0.2.32").records.insert("10.1000/ABC".into(), urls(2));
    assert_eq!(values(&network.resolve(&config, "10.1000/1").unwrap()), urls(1));
    network.messages.clear();
    assert_eq!(values(&network.resolve(&config, "10.1000/abc").unwrap()), urls(2));
}

#[test]
fn changes_go_to_one_primary_over_a_connection() {
    let (mut network, config) = small();
    let mirror = Site { flags: 0, ..site(&["192.0.2.11"]) }.to_bytes();
    let sites = vec![Value::with_data(1, "HS_SITE", mirror), site_value(2, &["192.0.2.12"])];
    network.server("192.0.2.1").records.insert("0.NA/10.1".into(), sites);
    let handle = Handle::from("10.1/X");
    let lookup = Lookup::new(Arc::clone(&config), delete(), network.now());
    let (answer, _) = network.run(lookup, &config);
    let answer = answer.unwrap();
    assert_eq!((answer.transport, answer.from.to_string()), (Transport::TCP, "192.0.2.12:2641".into()));
    assert_eq!((network.server("192.0.2.11").asked, network.server("192.0.2.12").asked), (0, 1));

    // And so does a question that wants to be certain.
    let flags = OpFlags::DEFAULT.with(OpFlags::AUTHORITATIVE);
    let question = Question::resolve(handle, &[], &[]).with_flags(flags);
    let lookup = Lookup::new(Arc::clone(&config), question, network.now());
    network.messages.clear();
    let answer = network.run(lookup, &config).0.unwrap();
    assert_eq!(answer.from.to_string(), "192.0.2.12:2641");
}

/// What must not be repeated is asked of one server, unless it is certain that it did not get it.
#[test]
fn changes_are_not_repeated() {
    let first = |network: &mut Network, config: &Arc<Config>, question: &Question| {
        let lookup = Lookup::new(Arc::clone(config), question.clone(), network.now());
        let result = network.run(lookup, config).0;
        let asked = ["192.0.2.11", "192.0.2.12"].map(|address| network.server(address).asked);
        (result, asked.iter().sum::<usize>())
    };
    for question in [delete(), session()] {
        // Neither says that it was done; which is asked first is left to chance.
        for (tcp, lie) in [(Tcp::Silent, Lie::None), (Tcp::Works, Lie::Expired), (Tcp::Works, Lie::RequestId)]
        {
            let (mut network, config) = small();
            for address in ["192.0.2.11", "192.0.2.12"] {
                (network.server(address).tcp, network.server(address).lie) = (tcp, lie.clone());
            }
            let (result, asked) = first(&mut network, &config, &question);
            let error = result.unwrap_err();
            assert_eq!((error.kind, error.attempts.len()), (LookupErrorKind::Uncertain, 1), "{error}");
            assert_eq!(asked, usize::from(tcp == Tcp::Works));
        }
        let (mut network, config) = small();
        for address in ["192.0.2.11", "192.0.2.12"] {
            network.server(address).lie = Lie::Code(ResponseCode::ERROR);
        }
        let (result, asked) = first(&mut network, &config, &question);
        assert_eq!(result.unwrap().message().unwrap().header.response_code, ResponseCode::ERROR);
        assert_eq!(asked, 1);

        for refusing in ["192.0.2.11", "192.0.2.12"] {
            let (mut network, config) = small();
            network.server(refusing).tcp = Tcp::Refused;
            let (result, asked) = first(&mut network, &config, &question);
            assert_eq!((result.unwrap().transport, asked), (Transport::TCP, 1));
        }
    }
}

/// A session is set up over a connection; over UDP, where that is wanted, by one message to one server.
#[test]
fn sessions_over_udp() {
    for (question, single_datagrams, expected) in [
        (session(), false, Transport::TCP),
        (session(), true, Transport::UDP),
        (delete(), true, Transport::TCP),
    ] {
        let (mut network, config) = small();
        let config = Arc::new(Config { single_datagrams, ..(*config).clone() });
        let lookup = Lookup::new(Arc::clone(&config), question, network.now());
        assert_eq!(network.run(lookup, &config).0.unwrap().transport, expected);
    }
    let (mut network, config) = small();
    for address in ["192.0.2.11", "192.0.2.12"] {
        network.server(address).loss = 100;
    }
    let config = Arc::new(Config { single_datagrams: true, ..(*config).clone() });
    let lookup = Lookup::new(Arc::clone(&config), session(), network.now());
    let error = network.run(lookup, &config).0.unwrap_err();
    assert_eq!((error.kind, error.attempts.len()), (LookupErrorKind::Uncertain, 1), "{error}");
    assert_eq!(network.transports, [Transport::UDP; 2], "one to the root, and one to one of the sites");
    assert!((3000..3100).contains(&network.at), "{}", network.at);
}

fn delete() -> Question {
    let handle = Handle::from("10.1/X");
    Question::new(handle, Opcode::DELETE_HANDLE, &Request::Named { handle })
}

fn session() -> Question {
    let setup = SessionSetup {
        mode: KeyExchangeMode::DIFFIE_HELLMAN,
        timeout: 60,
        identity_handle: Handle::from(""),
        identity_index: SessionSetup::ANONYMOUS,
        key: SessionKeyPart::PublicKey(b"key"),
    };
    Question::new(Handle::from("10.1/X"), Opcode::SESSION_SETUP, &Request::SessionSetup(setup))
}

#[test]
fn a_list_in_parts() {
    let (mut network, config) = small();
    for address in ["192.0.2.11", "192.0.2.12"] {
        network.server(address).lie = Lie::List(3);
    }
    let handle = Handle::from("0.NA/10.1");
    let request = Request::Named { handle };
    let question = Question::new(Handle::from("10.1/X"), Opcode::LIST_HANDLES, &request);
    let lookup = Lookup::new(Arc::clone(&config), question, network.now());
    let (answer, events) = network.run(lookup, &config);
    assert!(answer.is_ok());
    assert_eq!(events.iter().filter(|event| matches!(event, Event::Part(_))).count(), 2);
}

#[test]
fn a_server_known_by_name() {
    let (mut network, config) = small();
    let attribute = |name: &'static str, value: &'static str| Attribute {
        name: name.as_bytes().into(),
        value: value.as_bytes().into(),
    };
    let attributes = vec![attribute("domain", "one.example.org"), attribute("path", "/handles")];
    let named = Site { attributes, ..site(&["0.0.0.0"]) };
    let values_of_prefix = vec![Value::with_data(1, "HS_SITE", named.to_bytes())];
    network.server("192.0.2.1").records.insert("0.NA/10.1".into(), values_of_prefix);
    network.domains.insert("one.example.org".into(), vec!["192.0.2.12".parse().unwrap()]);
    let answer = network.resolve(&config, "10.1/X").unwrap();
    assert_eq!((values(&answer), answer.from.ip().to_string()), (urls(2), "192.0.2.12".into()));
    network.domains.clear();
    network.messages.clear();
    assert_eq!(network.resolve(&config, "10.1/X").unwrap_err().kind, LookupErrorKind::NoSite);
}

/// Each of forty referrals names 63 servers that have only a name: few names are resolved for all that.
#[test]
fn attack_c6_names_without_end() {
    let (mut network, config) = small();
    for number in 0..60_u32 {
        let named = (0..63).map(|other| {
            let domain = format!("{other}.{number}.example.org").into_bytes();
            let attributes = vec![Attribute { name: b"domain"[..].into(), value: domain.into() }];
            let servers = vec![Server { id: other, ..site(&["0.0.0.0"]).servers.remove(0) }];
            Value::with_data(other + 2, "HS_SITE", Site { attributes, servers, ..site(&[]) }.to_bytes())
        });
        let next = site_value(1, &[&format!("203.0.113.{}", number + 1)]);
        let values = [next].into_iter().chain(named).collect();
        let server = network.server(&format!("203.0.113.{number}"));
        server.lie = Lie::Refer(ResponseCode::SERVICE_REFERRAL, "", values);
    }
    let root = network.server("192.0.2.1");
    root.records.insert("0.NA/10.3".into(), vec![site_value(1, &["203.0.113.0"])]);
    let error = network.resolve(&config, "10.3/X").unwrap_err();
    assert_eq!(error.kind, LookupErrorKind::Referrals { limit: 40 });
    assert_eq!(network.resolved, 8);
}

/// A record cannot send us into the network that we are in, but for those who say that it may.
#[test]
fn records_lead_to_public_addresses_only() {
    for address in ["127.0.0.1", "10.0.0.1", "169.254.169.254", "100.64.0.1", "::1", "fe80::1", "fc00::1"] {
        check_private(address, address);
    }
    // In disguise: IPv4 in IPv6, which would arrive where the first says.
    check_private("127.0.0.1", "::ffff:127.0.0.1");
    check_private("64:ff9b::7f00:1", "64:ff9b::127.0.0.1");
}

#[track_caller]
fn check_private(address: &str, written: &str) {
    let attribute = |name: &'static str, value: &str| {
        vec![Attribute { name: name.as_bytes().into(), value: value.as_bytes().to_vec().into() }]
    };
    let (mut network, config) = small();
    let config = Config { ipv6: true, ..(*config).clone() };
    network.domains.insert("one.example.org".into(), vec![written.parse().unwrap()]);
    // ::1 in the place for an address of a site is 0.0.0.1.
    let direct = site(&[written]);
    let places = [address, &direct.servers[0].ip().to_string()].map(String::from);
    for place in &places {
        network.server(place).records.insert("10.1/X".into(), urls(3));
    }
    let named = Site { attributes: attribute("domain", "one.example.org"), ..site(&["0.0.0.0"]) };
    let second = Site { attributes: attribute("alt_addr", written), ..site(&["0.0.0.0"]) };
    for site in [direct.clone(), named, second] {
        let value = Value::with_data(1, "HS_SITE", site.to_bytes());
        network.server("192.0.2.1").records.insert("0.NA/10.1".into(), vec![value]);
        let sites = vec![Arc::new(site)];
        for place in &places {
            network.server(place).asked = 0;
        }
        let question = Question::resolve(Handle::from("10.1/X"), &[], &[]);
        let again = Lookup::with_sites(Arc::new(config.clone()), question, sites.clone(), network.now());
        for result in [network.resolve(&Arc::new(config.clone()), "10.1/X"), network.run(again, &config).0] {
            assert_eq!(result.unwrap_err().kind, LookupErrorKind::NoSite, "{written}");
        }
        assert!(places.iter().all(|place| network.server(place).asked == 0), "{written}");

        let overrides = BTreeMap::from([(b"10.1".to_vec(), sites)]);
        let allowed = Config { private_addresses: true, ..config.clone() };
        for config in [allowed, Config { overrides, ..config.clone() }] {
            network.messages.clear();
            assert_eq!(values(&network.resolve(&Arc::new(config), "10.1/X").unwrap()), urls(3), "{written}");
        }
        network.messages.clear();
    }
    // A root there is the caller's own choice, even if a record leads to it.
    let service = Value::new(1, "HS_SERV", "0.NA/0.NA");
    for place in &places {
        network.server(place).records.insert("0.NA/10.1".into(), vec![service.clone()]);
    }
    let config = Arc::new(Config { root: vec![Arc::new(direct)], ..config });
    assert_eq!(values(&network.resolve(&config, "10.1/X").unwrap()), urls(3), "{written}");
}

/// Whatever the caller has measured.
#[test]
fn response_times_without_end() {
    #[derive(Debug)]
    struct Slowest;
    impl ResponseTimes for Slowest {
        fn of(&self, _: IpAddr) -> Option<Duration> {
            Some(Duration::MAX)
        }
    }

    let (mut network, config) = small();
    let config = Arc::new(Config { response_times: Some(Arc::new(Slowest)), ..(*config).clone() });
    assert_eq!(values(&network.resolve(&config, "10.1/X").unwrap()), urls(2));
}

/// Bytes of messages are not in what `Debug` shows, which ends in logs.
#[test]
fn nothing_secret_is_shown() {
    let (mut network, config) = small();
    let handle = Handle::from("0.NA/10.1");
    // As in a request that holds a secret key.
    let secret = [Value::new(3, "HS_SECKEY", "opensesame")];
    let request = Request::Values { handle, values: List::from(&secret[..]) };
    let question = Question::new(handle, Opcode::CREATE_HANDLE, &request);
    let mut shown = format!("{question:?}");
    let mut lookup = Lookup::new(config, question, network.now());
    shown += &format!("{lookup:?}");
    let sent = lookup.poll_transmit(network.now(), &mut Seeded(1)).unwrap();
    assert!(sent.bytes.windows(10).any(|ten| ten == b"opensesame"));
    shown += &format!("{sent:?}{lookup:?}");
    network.server("192.0.2.1").records.insert("0.NA/10.1".into(), secret.to_vec());
    let (bytes, transport, from) = (sent.bytes, sent.transport, sent.to);
    let answer = Answer { bytes, transport, from, site: Arc::default(), place: 0 };
    shown += &format!("{answer:?}{:?}", Event::Finished(answer.clone()));
    let secret = format!("{:?}", b"opensesame");
    let secret = secret.trim_matches(['[', ']']);
    assert!(!shown.contains(secret) && !shown.contains("opensesame"), "{shown}");
    assert!(shown.contains("0.NA/10.1") && shown.contains("192.0.2.1:2641"), "{shown}");
}

/// The second address of a server, and the two families in turn.
#[test]
fn families() {
    let (mut network, config) = small();
    let config = Arc::new(Config { ipv6: true, ..(*config).clone() });
    let attributes = vec![Attribute { name: b"alt_addr"[..].into(), value: b"2001:db8::12"[..].into() }];
    let both = Site { attributes, ..site(&["192.0.2.12"]) };
    let values_of_prefix = vec![Value::with_data(1, "HS_SITE", both.to_bytes())];
    network.server("192.0.2.1").records.insert("0.NA/10.1".into(), values_of_prefix);
    let answer = network.resolve(&config, "10.1/X").unwrap();
    assert_eq!(answer.from.ip().to_string(), "192.0.2.12");
    assert!((300..400).contains(&network.at), "{}", network.at);
    *network.server("2001:db8::12") = network.server("192.0.2.12").clone();
    network.messages.clear();
    let answer = network.resolve(&config, "10.1/X").unwrap();
    assert_eq!(answer.from.ip().to_string(), "2001:db8::12");
}

#[test]
fn what_is_known_is_not_asked_for() {
    let (mut network, config) = small();
    let question = Question::resolve(Handle::from("10.1/X"), &[], &[]);
    let lookup = Lookup::new(Arc::clone(&config), question.clone(), network.now());
    let (_, events) = network.run(lookup, &config);
    let located = events.into_iter().find_map(|event| match event {
        Event::Located { prefix_handle, sites, until } => Some((prefix_handle, sites, until)),
        _ => None,
    });
    let (prefix_handle, sites, until) = located.unwrap();
    assert_eq!((&prefix_handle[..], sites.len(), until), (&b"0.NA/10.1"[..], 2, UNIX + 86_400));

    network.servers.remove(&"192.0.2.1".parse().unwrap());
    network.messages.clear();
    let lookup = Lookup::with_sites(Arc::clone(&config), question, sites.clone(), network.now());
    assert_eq!(values(&network.run(lookup, &config).0.unwrap()), urls(2));
    assert_eq!(network.messages.len(), 1);

    let overrides = BTreeMap::from([(b"10.1".to_vec(), sites)]);
    let config = Arc::new(Config { overrides, ..(*config).clone() });
    assert_eq!(values(&network.resolve(&config, "10.1/X").unwrap()), urls(2));
}

/// A root that knows a newer form of itself makes it known; an older one is ignored, and so is an older form of a site.
#[test]
fn attack_c8_serial_numbers() {
    for (serial, is_news) in [(2, false), (3, false), (4, true), (0xffff, false)] {
        let (mut network, config) = small();
        network.server("192.0.2.1").lie = Lie::Serial(serial);
        let question = Question::resolve(Handle::from("10.1/X"), &[], &[]);
        let lookup = Lookup::new(Arc::clone(&config), question, network.now());
        let (answer, events) = network.run(lookup, &config);
        assert_eq!(values(&answer.unwrap()), urls(2));
        assert_eq!(events.iter().any(|event| matches!(event, Event::RootChanged)), is_news, "{serial}");
    }
    for order in [[1, 9], [9, 1]] {
        let (mut network, config) = small();
        let of = |serial| {
            Value::with_data(
                u32::from(serial),
                "HS_SITE",
                Site { serial, ..site(&["192.0.2.12"]) }.to_bytes(),
            )
        };
        network.server("192.0.2.1").records.insert("0.NA/10.1".into(), order.map(of).to_vec());
        let answer = network.resolve(&config, "10.1/X").unwrap();
        assert_eq!(answer.site.serial, 9);
    }
}

/// A prefix that names 300 sites, all dead: the messages are bounded.
#[test]
fn attack_c6_more_sites_than_can_be_asked() {
    let (mut network, config) = small();
    let many = (0..=255).map(|number| site_value(number + 1, &[&format!("203.0.113.{number}")])).collect();
    network.server("192.0.2.1").records.insert("0.NA/10.1".into(), many);
    let config = Arc::new(Config { messages: 20, ..(*config).clone() });
    let error = network.resolve(&config, "10.1/X").unwrap_err();
    assert_eq!(error.kind, LookupErrorKind::Messages { sent: 20 });
    assert_eq!(network.messages.len(), 20);
}

/// Answers of which any bytes are changed or missing: it ends, within its bounds.
#[test]
fn garbled_answers() {
    let mut answered = 0;
    for seed in 0..500 {
        let (mut network, config) = small();
        network.random = Seeded(seed);
        for server in network.servers.values_mut() {
            (server.lie, server.slowest) = (Lie::Garbled, 100);
            server.loss = [0, 100][seed as usize % 2];
        }
        answered += usize::from(network.resolve(&config, "10.1/X").is_ok());
    }
    assert!(answered > 100, "{answered}");
}

/// Any network: it ends within its bounds, what it says is right, and where TCP works at one site of each step it
/// says it.
#[test]
fn any_network() {
    let (mut answered, mut failed) = (0, 0);
    for seed in 0..500 {
        let mut random = Seeded(seed);
        let mut network = Network::new(seed ^ 0xdead);
        let count = 1 + random.below(300) as u32;
        let roots = ["192.0.2.1", "192.0.2.2"];
        let services = ["192.0.2.11", "192.0.2.12", "2001:db8::13"];
        let of_service: Vec<_> =
            (1..).zip(services).map(|(index, address)| site_value(index, &[address])).collect();
        let is_indirect = random.percent(30);
        let mut is_reachable = true;
        for step in [&roots[..], &services[..]] {
            let mut any = false;
            for address in step {
                let tcp = [Tcp::Works, Tcp::Refused, Tcp::Silent][random.below(3) as usize];
                let loss = [0, 0, 10, 40, 90, 100][random.below(6) as usize];
                let slowest = [0, 50, 300, 900][random.below(4) as usize];
                let lie = match random.below(8) {
                    0 => Lie::Code(ResponseCode::ERROR),
                    1 => Lie::Expired,
                    2 => Lie::RequestId,
                    _ => Lie::None,
                };
                any |= tcp == Tcp::Works && matches!(lie, Lie::None) && slowest <= 300;
                let mut records = BTreeMap::new();
                if step.len() == 2 && is_indirect {
                    records.insert("0.NA/10.1".into(), vec![Value::new(1, "HS_SERV", "0.SERV/A")]);
                    records.insert("0.SERV/A".into(), of_service.clone());
                } else if step.len() == 2 {
                    records.insert("0.NA/10.1".into(), of_service.clone());
                } else {
                    records.insert("10.1/X".into(), urls(count));
                }
                let doubled = random.below(50);
                *network.server(address) =
                    Pretended { records, loss, doubled, slowest, tcp, lie, ..Pretended::default() };
            }
            is_reachable &= any;
        }
        let config = Arc::new(Config::new(roots.map(|address| Arc::new(site(&[address]))).to_vec()));
        match network.resolve(&config, "10.1/x") {
            Ok(answer) => {
                answered += 1;
                assert_eq!(values(&answer), urls(count), "seed {seed}");
            }
            Err(error) => {
                failed += 1;
                assert!(!is_reachable, "seed {seed}: {error}");
            }
        }
    }
    assert!(answered > 200 && failed > 20, "{answered} answered, {failed} failed");
}
