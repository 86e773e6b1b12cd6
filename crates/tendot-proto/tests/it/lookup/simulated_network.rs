//! Simulated network with virtual time: datagrams are lost, delayed, duplicated and reordered; servers are silent or send invalid
//! responses.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tendot_proto::auth::{AuthPolicy, ComputedDigest, sign_message};
use tendot_proto::crypto::{HashAlgorithm, SigningKey};
use tendot_proto::lookup::{
    ConnectionError, Lookup, LookupConfig, LookupError, LookupEvent, LookupRequest, LookupResponse, Transmit,
};
use tendot_proto::record::{HashOption, InterfaceKind, InterfaceProtocol, ServerInterface, Site, SiteServer};
use tendot_proto::wire::WireList;
use tendot_proto::{
    Credential, CredentialSection, Envelope, Fragments, Handle, HandleValue, Message, MessageBody,
    MessageHeader, MessageParts, Now, OpFlags, ProtocolVersion, Reassembly, Request, Response, ResponseCode,
    ResponseData, limits, tunnel,
};
use tendot_testing::{SeededRng, auth_context};

use crate::support::budget;

pub(super) const START_UNIX_SECS: u64 = 1_700_000_000;

const CLIENT_ADDR: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1)), 40_000);

/// Behaviour of a simulated server.
#[derive(Clone, Default)]
pub(super) struct SimulatedServer {
    pub(super) records: BTreeMap<String, Vec<HandleValue<'static>>>,
    /// Lost datagrams in percent, in each direction.
    pub(super) loss_percent: usize,
    pub(super) duplicate_percent: usize,
    pub(super) max_delay_ms: usize,
    pub(super) tcp: TcpBehavior,
    pub(super) fault: Fault,
    /// Handle that an on-path attacker puts into each request instead of the requested one.
    pub(super) substituted_handle: Option<&'static str>,
    /// Key that signs responses on request.
    pub(super) key: Option<Arc<dyn SigningKey>>,
    /// Requests received.
    pub(super) request_count: usize,
}

impl SimulatedServer {
    /// Response code and data for a request, without faults.
    fn response_data<'r>(&self, request: &Message<'r>) -> (ResponseCode, ResponseData<'r>) {
        let failed = ResponseData::Error { message: Some(b"") };
        let MessageBody::Request(body) = request.body else { panic!("a request has the code 0") };
        let handle = body.handle().unwrap_or(Handle::from("10.1/X"));
        let name = String::from_utf8(handle.canonical().into_owned()).unwrap();
        let Some(values) = self.records.get(&name) else { return (ResponseCode::HANDLE_NOT_FOUND, failed) };
        let data = match body {
            Request::Resolve { types, .. } => {
                let is_selected = |value: &&HandleValue<'_>| {
                    types.is_empty() || types.iter().any(|filter| value.matches_type_filter(filter))
                };
                let selected: Vec<HandleValue<'static>> =
                    values.iter().filter(is_selected).cloned().collect();
                if selected.is_empty() {
                    return (ResponseCode::VALUES_NOT_FOUND, failed);
                }
                ResponseData::Resolved { handle, values: WireList::from(&*selected.leak()) }
            }
            Request::SessionSetup(setup) => ResponseData::SessionSetup { mode: setup.mode, data: &[] },
            _ => ResponseData::Empty,
        };
        (ResponseCode::SUCCESS, data)
    }
}

/// TCP behaviour.
#[derive(Clone, Copy, Default, PartialEq)]
pub(super) enum TcpBehavior {
    #[default]
    Accepts,
    Refuses,
    Silent,
}

/// Fault injected into responses.
#[derive(Clone, Default)]
pub(super) enum Fault {
    #[default]
    None,
    ResponseCode(ResponseCode),
    Referral(ResponseCode, &'static str, Vec<HandleValue<'static>>),
    RequestId,
    SourcePort,
    OtherHandle,
    Expired,
    Digest,
    /// Changed after signing.
    Tampered,
    /// Random bytes changed, or the end cut off.
    Corrupted,
    Serial(u16),
    Version(ProtocolVersion),
    /// A list in this many messages, all but the last with the flag `CONTINUOUS`.
    List(usize),
}

impl Fault {
    /// Changes a response before it is encoded; returns the number of messages that it is sent in.
    fn apply<'f>(
        &'f self,
        envelope: &mut Envelope,
        header: &mut MessageHeader,
        data: &mut ResponseData<'f>,
        now: Now,
    ) -> usize {
        match self {
            Self::None | Self::SourcePort | Self::Digest | Self::Tampered | Self::Corrupted => {}
            Self::ResponseCode(code) => {
                header.response_code = *code;
                *data = ResponseData::Error { message: Some(b"no") };
            }
            Self::Referral(code, handle, values) => {
                header.response_code = *code;
                let values = (!values.is_empty()).then(|| WireList::from(&**values));
                *data = ResponseData::Referral { handle: Handle::from(*handle), values };
            }
            Self::RequestId => envelope.request_id ^= 1,
            Self::OtherHandle => {
                let values: &[HandleValue<'_>] = &[];
                *data = ResponseData::Resolved {
                    handle: Handle::from("10.5/other"),
                    values: WireList::from(values),
                };
            }
            Self::Expired => header.expiration = now.unix_u32() - 1,
            Self::Serial(serial) => header.site_serial = *serial,
            Self::Version(version) => envelope.version = *version,
            Self::List(part_count) => {
                let handles: &[&[u8]] = &[b"10.1/A", b"10.1/B"];
                *data = ResponseData::Handles(WireList::from(handles));
                return *part_count;
            }
        }
        1
    }
}

/// Changes up to three bytes, and sometimes cuts off the end.
fn corrupt(bytes: &mut Vec<u8>, random: &mut SeededRng) {
    for _ in 0..random.below(4) {
        let offset = random.below(bytes.len());
        bytes[offset] = random.next_u64() as u8;
    }
    if random.percent(10) {
        bytes.truncate(random.below(bytes.len()));
    }
}

/// Simulated network with virtual time.
pub(super) struct SimulatedNetwork {
    pub(super) random: SeededRng,
    pub(super) servers: BTreeMap<IpAddr, SimulatedServer>,
    /// Scheduled deliveries by time and sequence number.
    in_flight: BTreeMap<(u64, u64), Delivery>,
    sequence: u64,
    pub(super) now_ms: u64,
    /// Reassembly at the servers.
    reassembly: Reassembly,
    pub(super) domains: BTreeMap<String, Vec<IpAddr>>,
    pub(super) dns_lookup_count: usize,
    /// Messages of the client by attempt and time; the fragments of one are one.
    pub(super) messages: BTreeSet<(u32, u64)>,
    /// Transport of each message or fragment of the client.
    pub(super) transports: Vec<InterfaceProtocol>,
    /// Deliveries at the same time happen in reverse order.
    pub(super) reverse_order: bool,
}

impl SimulatedNetwork {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            random: SeededRng::new(seed),
            servers: BTreeMap::new(),
            in_flight: BTreeMap::new(),
            sequence: 0,
            now_ms: 0,
            reassembly: Reassembly::new(),
            domains: BTreeMap::new(),
            dns_lookup_count: 0,
            messages: BTreeSet::new(),
            transports: Vec::new(),
            reverse_order: false,
        }
    }

    pub(super) fn now(&self) -> Now {
        Now { elapsed: Duration::from_millis(self.now_ms), unix: START_UNIX_SECS + self.now_ms / 1000 }
    }

    pub(super) fn server(&mut self, ip: &str) -> &mut SimulatedServer {
        self.servers.entry(ip.parse().unwrap()).or_default()
    }

    fn schedule(&mut self, delay: u64, delivery: Delivery) {
        self.sequence += 1;
        let sequence = if self.reverse_order { u64::MAX - self.sequence } else { self.sequence };
        self.in_flight.insert((self.now_ms + delay, sequence), delivery);
    }

    fn send(&mut self, sent: Transmit) {
        self.transports.push(sent.transport);
        self.messages.insert((sent.attempt, self.now_ms));
        let Some(server) = self.servers.get(&sent.to.ip()).cloned() else { return };
        let mut delay = self.random_delay(&server);
        if sent.transport == InterfaceProtocol::UDP {
            assert!(sent.bytes.len() <= limits::MAX_DATAGRAM_LEN, "{} bytes", sent.bytes.len());
            for delay in self.delivery_delays(&server) {
                let datagram = sent.bytes.clone();
                self.schedule(delay, Delivery::ToServer { from: CLIENT_ADDR, to: sent.to, datagram });
            }
            return;
        }
        match server.tcp {
            TcpBehavior::Refuses => {
                let error = ConnectionError::Unreachable;
                self.schedule(delay, Delivery::Failure { attempt: sent.attempt, error });
            }
            TcpBehavior::Silent => {}
            TcpBehavior::Accepts => {
                let mut request = &sent.bytes[..];
                let mut stream = Vec::new();
                if sent.transport == InterfaceProtocol::HTTP {
                    let head_end = request.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
                    request = &request[head_end..];
                    let content_type = tunnel::CONTENT_TYPE;
                    stream.extend(
                        format!("HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\n\r\n\r\n").bytes(),
                    );
                }
                stream.extend(self.responses(sent.to, request).concat());
                while !stream.is_empty() {
                    let rest = stream.split_off((1 + self.random.below(700)).min(stream.len()));
                    self.schedule(delay, Delivery::Stream { attempt: sent.attempt, bytes: stream });
                    stream = rest;
                    delay += 1;
                }
                let error = ConnectionError::Closed;
                self.schedule(delay + 1, Delivery::Failure { attempt: sent.attempt, error });
            }
        }
    }

    fn random_delay(&mut self, server: &SimulatedServer) -> u64 {
        1 + self.random.below(server.max_delay_ms + 1) as u64
    }

    /// Delays of the copies of a datagram that arrive: none, one or two.
    fn delivery_delays(&mut self, server: &SimulatedServer) -> Vec<u64> {
        let copies = if self.random.percent(server.duplicate_percent) { 2 } else { 1 };
        (0..copies)
            .filter_map(|_| {
                let delay = self.random_delay(server);
                (!self.random.percent(server.loss_percent)).then_some(delay)
            })
            .collect()
    }

    /// Responses of the server at an address to a request.
    fn responses(&mut self, to: SocketAddr, request: &[u8]) -> Vec<Vec<u8>> {
        let now = self.now();
        let server = self.servers.get_mut(&to.ip()).unwrap();
        server.request_count += 1;
        let mut request = request.to_vec();
        if let Some(name) = server.substituted_handle {
            let Message { envelope, header, .. } = Message::from_bytes(&request).unwrap();
            let other = Message::resolution(Handle::from(name), envelope.request_id, now);
            request = Message { envelope, header, ..other }.to_bytes().unwrap();
        }
        let parts = MessageParts::split(&request).unwrap();
        let request = Message::from_parts(&parts).unwrap();
        let (code, mut data) = server.response_data(&request);
        let mut envelope = request.envelope;
        let mut header = request.header.for_response(code, request.header.site_serial, now);
        let part_count = server.fault.apply(&mut envelope, &mut header, &mut data, now);
        let has_digest = header.flags.contains(OpFlags::REQUEST_DIGEST);
        let digest =
            has_digest.then(|| request_digest(parts.header_and_body, envelope.version, &server.fault));
        (1..=part_count)
            .map(|part| {
                let more = if part < part_count { OpFlags::CONTINUOUS } else { OpFlags::default() };
                let header = MessageHeader { flags: header.flags | more, ..header };
                let digest = digest.as_ref().map(ComputedDigest::as_request_digest);
                let body = MessageBody::Response(Response { digest, data });
                let message = Message {
                    envelope,
                    header,
                    body,
                    trailing_body: &[],
                    credential_section: CredentialSection::Absent,
                };
                let mut bytes = message.to_bytes().unwrap();
                if let (true, Some(key)) = (header.flags.contains(OpFlags::CERTIFY), &server.key) {
                    sign(&mut bytes, &**key);
                }
                match server.fault {
                    Fault::Tampered => {
                        // In the URL of the last value.
                        let offset = bytes.windows(4).rposition(|window| window == b"org/").unwrap();
                        bytes[offset] ^= 1;
                    }
                    Fault::Corrupted => corrupt(&mut bytes, &mut self.random),
                    _ => {}
                }
                bytes
            })
            .collect()
    }

    fn deliver(&mut self, delivery: Delivery, lookup: &mut Lookup) {
        let now = self.now();
        match delivery {
            Delivery::ToServer { from, to, datagram } => {
                let Ok(Some(request)) = self.reassembly.insert(now, from, &datagram) else { return };
                let server = self.servers[&to.ip()].clone();
                let source = match server.fault {
                    Fault::SourcePort => SocketAddr::new(to.ip(), to.port() + 1),
                    _ => to,
                };
                for response in self.responses(to, &request) {
                    // A corrupted response may not be a message; it is sent as one datagram.
                    let datagrams = match Fragments::new(&response) {
                        Ok(fragments) => fragments.map(|datagram| datagram.to_vec()).collect(),
                        Err(_) => vec![response],
                    };
                    for datagram in datagrams {
                        for delay in self.delivery_delays(&server) {
                            let delivery = Delivery::ToClient { from: source, datagram: datagram.clone() };
                            self.schedule(delay, delivery);
                        }
                    }
                }
            }
            Delivery::ToClient { from, datagram } => lookup.handle_datagram(now, from, &datagram),
            Delivery::Stream { attempt, bytes } => lookup.handle_stream(now, attempt, &bytes),
            Delivery::Failure { attempt, error } => lookup.handle_failure(now, attempt, error),
        }
    }

    /// Runs a lookup to its end, and checks that it stays within its limits.
    pub(super) fn run(
        &mut self,
        mut lookup: Lookup,
        config: &LookupConfig,
    ) -> (Result<LookupResponse, LookupError>, Vec<LookupEvent>) {
        let started_at = self.now_ms;
        let mut random = SeededRng::new(self.random.next_u64());
        let mut events = Vec::new();
        for _ in 0..20_000 {
            while let Some(sent) = lookup.poll_transmit(self.now(), &mut random) {
                self.send(sent);
            }
            while let Some(event) = lookup.poll() {
                let end = match event {
                    LookupEvent::Finished(response) => Ok(response),
                    LookupEvent::Failed(error) => Err(error),
                    LookupEvent::ResolveDomain { domain } => {
                        self.dns_lookup_count += 1;
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
                assert!(
                    self.messages.len() <= config.max_messages as usize,
                    "{} messages",
                    self.messages.len()
                );
                assert!(
                    Duration::from_millis(self.now_ms - started_at) <= config.timeout,
                    "{} ms",
                    self.now_ms - started_at
                );
                return (end, events);
            }
            // Events may lead to further messages.
            if let Some(sent) = lookup.poll_transmit(self.now(), &mut random) {
                self.send(sent);
                continue;
            }
            let Some(timeout) = lookup.poll_timeout() else { continue };
            let timeout = timeout.as_micros().div_ceil(1000) as u64;
            assert!(timeout > self.now_ms, "a timeout must be in the future");
            match self.in_flight.first_key_value().map(|(key, _)| *key) {
                Some(key) if key.0 <= timeout => {
                    let delivery = self.in_flight.remove(&key).unwrap();
                    self.now_ms = key.0;
                    self.deliver(delivery, &mut lookup);
                }
                _ => {
                    self.now_ms = timeout;
                    lookup.handle_timeout(self.now());
                }
            }
        }
        panic!("the lookup does not terminate");
    }

    pub(super) fn resolve(
        &mut self,
        config: &Arc<LookupConfig>,
        handle: &str,
    ) -> Result<LookupResponse, LookupError> {
        let lookup_request = LookupRequest::resolve(Handle::from(handle), &[], &[]);
        let lookup = Lookup::new(Arc::clone(config), lookup_request, self.now());
        self.run(lookup, config).0
    }
}

/// Scheduled delivery.
enum Delivery {
    ToServer { from: SocketAddr, to: SocketAddr, datagram: Vec<u8> },
    ToClient { from: SocketAddr, datagram: Vec<u8> },
    Stream { attempt: u32, bytes: Vec<u8> },
    Failure { attempt: u32, error: ConnectionError },
}

/// Digest of a request, or with the fault `Digest` of another one.
fn request_digest(header_and_body: &[u8], version: ProtocolVersion, fault: &Fault) -> ComputedDigest {
    let digested = if matches!(fault, Fault::Digest) { b"another request" } else { header_and_body };
    let policy = AuthPolicy { allow_sha1: true, ..AuthPolicy::default() };
    ComputedDigest::for_request(digested, version, auth_context!(policy)).unwrap()
}

/// Signs like a server; with SHA-256 also in versions that would sign with SHA-1, which the provider does not do.
fn sign(message: &mut Vec<u8>, key: &dyn SigningKey) {
    let unsigned = message.clone();
    let parts = MessageParts::split(&unsigned).unwrap();
    if parts.envelope.version >= ProtocolVersion::SHA256 {
        return sign_message(message, key, &mut budget()).unwrap();
    }
    let signature = key.sign(HashAlgorithm::Sha256, parts.header_and_body).unwrap();
    let credential_section = CredentialSection::Present(Credential {
        version_and_options: 0,
        signer: &[],
        counter: 0,
        credential_type: Credential::TYPE_SIGNED,
        algorithm: b"SHA-256",
        signature: &signature,
    });
    *message = Message { credential_section, ..Message::from_parts(&parts).unwrap() }.to_bytes().unwrap();
}

pub(super) fn site(addresses: &[&str]) -> Site<'static> {
    let interface = |protocol, port| ServerInterface { kind: InterfaceKind::BOTH, protocol, port };
    let server = |(id, address): (usize, &&str)| SiteServer {
        id: id as u32 + 1,
        address: SiteServer::encode_address(address.parse().unwrap()),
        interfaces: vec![
            interface(InterfaceProtocol::UDP, 2641),
            interface(InterfaceProtocol::TCP, 2641),
            interface(InterfaceProtocol::HTTP, 8000),
        ],
        ..SiteServer::default()
    };
    Site {
        flags: Site::FLAG_PRIMARY,
        serial: 3,
        hash_option: HashOption::WHOLE,
        servers: addresses.iter().enumerate().map(server).collect(),
        ..Site::default()
    }
}

pub(super) fn site_value(index: u32, addresses: &[&str]) -> HandleValue<'static> {
    HandleValue::with_data(index, "HS_SITE", site(addresses).to_bytes())
}

pub(super) fn urls(count: u32) -> Vec<HandleValue<'static>> {
    (1..=count).map(|index| HandleValue::new(index, "URL", format!("https://example.org/{index}"))).collect()
}

pub(super) fn values(response: &LookupResponse) -> Vec<HandleValue<'_>> {
    let message = response.message().unwrap();
    assert_eq!(message.header.response_code, ResponseCode::SUCCESS);
    let MessageBody::Response(Response { data: ResponseData::Resolved { values, .. }, .. }) = message.body
    else {
        panic!()
    };
    values.iter().collect()
}

/// Root at 192.0.2.1 with the sites of 10.1, which are at 192.0.2.11 and 192.0.2.12 and store 10.1/X.
pub(super) fn small_network() -> (SimulatedNetwork, Arc<LookupConfig>) {
    let mut network = SimulatedNetwork::new(1);
    let sites = vec![site_value(1, &["192.0.2.11"]), site_value(2, &["192.0.2.12"])];
    network.server("192.0.2.1").records.insert("0.NA/10.1".into(), sites);
    for address in ["192.0.2.11", "192.0.2.12"] {
        network.server(address).records.insert("10.1/X".into(), urls(2));
    }
    let mut config = LookupConfig::new(vec![Arc::new(site(&["192.0.2.1"]))]);
    config.ipv6 = false;
    (network, Arc::new(config))
}
