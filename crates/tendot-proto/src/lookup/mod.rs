//! The asking side: from a name to those who keep it, and to their answer (RFC 3652, 3.1, as deployed).
//!
//! [`Lookup`] is one question under way. What is asked is a [`LookupRequest`], what all questions have in common a
//! [`LookupConfig`]. `gather.rs` finds out who to ask, `address.rs` whether records may send us there, `ask.rs` asks them,
//! `check.rs` decides whom to believe, and `accept.rs` what follows from an answer.

mod accept;
mod address;
mod ask;
mod attempt;
mod check;
mod config;
mod debug;
mod error;
mod gather;
mod question;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

use ask::SiteQuery;
use config::SiteSource;
pub use config::{LookupConfig, RttEstimates};
pub use error::{AttemptError, ConnectionError, FailedAttempt, LookupError, LookupErrorKind};
use gather::SiteLocator;
pub use question::LookupRequest;

use crate::crypto::SecureRandom;
use crate::error::DecodeError;
use crate::fragment::Reassembly;
use crate::handle::Handle;
use crate::message::{Envelope, Message, OpFlags};
use crate::record::{InterfaceProtocol, Site};
use crate::time::Now;
use crate::work::Budget;

/// State machine of one lookup. Opens no socket, reads no clock, resolves no domain name.
///
/// Opens no socket, reads no clock, resolves no domain name.
///
/// After creation and after each call that gives it something, call [`poll_transmit`](Self::poll_transmit) and
/// [`poll`](Self::poll) until they give nothing more, then wait for bytes or for [`poll_timeout`](Self::poll_timeout).
///
/// UDP is tried at all sites, then TCP at all, then HTTP. A server that does not answer is asked again after 500 and
/// 1500 ms, and the next site is tried beside it, so that a dead one costs half a second. Only resolution, site
/// information and the verification of an answer (opcodes 1, 2, 201) are asked for like this. All else goes to one
/// server, once: to another only if nothing could be sent, and over UDP only with [`LookupConfig::single_datagrams`], and
/// changes never. Whatever peers do, it ends within [`LookupConfig::time`] and [`LookupConfig::messages`],
/// after at most [`LookupConfig::domains`] names to resolve, and asks at public addresses only, or at those of the `Config`.
///
/// Datagrams should leave from a port that nobody can guess, and one that is not used for long: with the random request
/// id that is all that keeps strangers from answering. [`LookupConfig::certify`] asks for signatures, and for digests of what
/// was asked.
///
/// ```
/// use core::time::Duration;
/// use std::sync::Arc;
/// use tendot_proto::crypto::SecureRandom;
/// use tendot_proto::lookup::{LookupConfig, LookupEvent, Lookup, LookupRequest};
/// use tendot_proto::record::{ServerInterface, InterfaceKind, SiteServer, Site, InterfaceProtocol};
/// use tendot_proto::wire::WireList;
/// use tendot_proto::{MessageBody, Handle, Message, Now, ResponseData, Response, ResponseCode, CredentialSection, HandleValue};
///
/// struct FixedRandom;
/// impl SecureRandom for FixedRandom {
///     fn fill(&mut self, out: &mut [u8]) {
///         out.fill(7);
///     }
/// }
///
/// let udp = ServerInterface { kind: InterfaceKind::BOTH, transport: InterfaceProtocol::UDP, port: 2641 };
/// let address = SiteServer::encode_address("192.0.2.1".parse()?);
/// let root = Site { servers: vec![SiteServer { address, interfaces: vec![udp], ..SiteServer::default() }], ..Site::default() };
/// let config = Arc::new(LookupConfig::new(vec![Arc::new(root)]));
/// let now = Now { elapsed: Duration::ZERO, unix: 1_700_000_000 };
///
/// let mut lookup = Lookup::new(config, LookupRequest::resolve(Handle::from("0.NA/10"), &[], &[]), now);
/// let datagram = lookup.poll_transmit(now, &mut FixedRandom).unwrap();
/// assert_eq!((datagram.transport, datagram.to), (InterfaceProtocol::UDP, "192.0.2.1:2641".parse()?));
///
/// // The server's answer.
/// let request = Message::from_bytes(&datagram.bytes)?;
/// let values = [HandleValue::new(1, "DESC", "ten")];
/// let outcome = ResponseData::Resolved { handle: Handle::from("0.NA/10"), values: WireList::from(&values[..]) };
/// let header = request.header.for_response(ResponseCode::SUCCESS, 0, now);
/// let body = MessageBody::Response(Response::new(outcome));
/// let response = Message { envelope: request.envelope, header, body, body_rest: &[], tail: CredentialSection::Empty }.to_bytes()?;
///
/// lookup.handle_datagram(now, "192.0.2.66:2641".parse()?, &response);
/// assert!(lookup.poll().is_none(), "that was somebody else");
/// lookup.handle_datagram(now, datagram.to, &response);
/// assert!(matches!(lookup.poll(), Some(LookupEvent::Measured { .. })));
/// let Some(LookupEvent::Finished(answer)) = lookup.poll() else { panic!() };
/// assert_eq!(answer.message()?.header.response_code, ResponseCode::SUCCESS);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
pub struct Lookup {
    config: Arc<LookupConfig>,
    deadline: Duration,
    /// The question, and above it what has to be known before it can be asked. None when all is over.
    steps: Vec<LookupStep>,
    sent: u32,
    referrals: u32,
    attempts: u32,
    /// Whether UDP got nowhere at an earlier step.
    no_datagrams: bool,
    /// Names that the caller was asked to resolve, and what came of it.
    domains: BTreeMap<String, Option<Vec<IpAddr>>>,
    reassembly: Reassembly,
    /// For digests and signatures.
    work: Budget,
    events: VecDeque<LookupEvent>,
    outgoing: VecDeque<Transmit>,
}

/// A question, and how far it got.
struct LookupStep {
    question: LookupRequest,
    /// How many records led to it.
    depth: u32,
    stage: StepState,
    /// Servers that have referred to others; they are not asked again.
    referred: Vec<attempt::ServerTarget>,
}

enum StepState {
    Start,
    Gather(SiteLocator),
    Ask(SiteQuery),
}

/// Whether something can be done now.
enum Progress {
    Made,
    Waiting,
}

/// Bytes to send, with destination and transport.
#[derive(Clone, Eq, PartialEq)]
pub struct Transmit {
    /// The attempt that they belong to. A connection is opened for each, and all that comes over it is given back with
    /// this number.
    pub attempt: u32,
    /// How: UDP, TCP, HTTP (which is TCP, too) or HTTPS (TLS).
    pub transport: InterfaceProtocol,
    /// Where to.
    pub to: SocketAddr,
    /// The name of the server in the DNS, if it has one, for TLS.
    pub domain: Option<String>,
    /// The server's public key as its site has it, against which that of a TLS connection is to be compared.
    pub server_key: Vec<u8>,
    /// What: a datagram, a message, or an HTTP request with a message in it.
    pub bytes: Vec<u8>,
}

/// Event of a lookup.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum LookupEvent {
    /// The answer, whatever its code: all is over.
    Finished(LookupResponse),
    /// There will be no answer: all is over.
    Failed(LookupError),
    /// The first messages of an answer that has several.
    Part(LookupResponse),
    /// The addresses of this name are needed: see [`Lookup::handle_addresses`].
    Resolve {
        /// The name.
        domain: String,
    },
    /// A server answered, or did not, after this time: see [`RttEstimates`].
    Measured {
        /// Where it was asked.
        server: IpAddr,
        /// How long it took, or was waited for.
        time: Duration,
    },
    /// The sites of a prefix were found, and may be kept for [`Lookup::with_sites`].
    Located {
        /// The prefix handle, as `0.NA/10.1000`.
        prefix_handle: Vec<u8>,
        /// The sites.
        sites: Vec<Arc<Site<'static>>>,
        /// Until when, in seconds since 1970.
        until: u64,
    },
    /// The root has changed: its sites have a larger serial number than [`LookupConfig::root`] has, or say so.
    RootChanged,
}

/// Response of a server, with its origin.
#[derive(Clone)]
pub struct LookupResponse {
    /// The message.
    pub bytes: Vec<u8>,
    /// How it came.
    pub transport: InterfaceProtocol,
    /// From where it came.
    pub from: SocketAddr,
    /// The site of the server that answered.
    pub site: Arc<Site<'static>>,
    /// Which of the site's servers answered.
    pub place: usize,
}

impl LookupResponse {
    /// The message, read.
    pub fn message(&self) -> Result<Message<'_>, DecodeError> {
        Message::from_bytes(&self.bytes)
    }
}

impl Lookup {
    /// What may be kept of answers in several datagrams: a few of the largest.
    const REASSEMBLY_BUDGET_BYTES: usize = 1 << 20;

    /// Begins to ask.
    pub fn new(config: Arc<LookupConfig>, question: LookupRequest, now: Now) -> Self {
        let mut lookup = Self {
            deadline: now.elapsed.saturating_add(config.time),
            config,
            steps: Vec::new(),
            sent: 0,
            referrals: 0,
            attempts: 0,
            no_datagrams: false,
            domains: BTreeMap::new(),
            reassembly: Reassembly::with_budget(Self::REASSEMBLY_BUDGET_BYTES),
            work: Budget::PER_REQUEST,
            events: VecDeque::new(),
            outgoing: VecDeque::new(),
        };
        let is_certified = lookup.config.certify || question.requires_signature();
        lookup.push_step(if is_certified { question.with_signature() } else { question }, 0);
        lookup
    }

    /// Begins to ask sites that are known, as from [`ReplicationEvent::Located`].
    pub fn with_sites(
        config: Arc<LookupConfig>,
        question: LookupRequest,
        sites: Vec<Arc<Site<'static>>>,
        now: Now,
    ) -> Self {
        let mut lookup = Self::new(config, question, now);
        if let Some(step) = lookup.steps.last_mut() {
            step.stage = StepState::Ask(SiteQuery::new(sites, SiteSource::Records));
        }
        lookup
    }

    /// Bytes to be sent now, if there are any.
    pub fn poll_transmit(&mut self, now: Now, random: &mut dyn SecureRandom) -> Option<Transmit> {
        self.handle_timeout(now);
        while self.outgoing.is_empty() && !self.steps.is_empty() {
            match self.advance(now, random) {
                Ok(Progress::Made) => {}
                Ok(Progress::Waiting) => break,
                Err(kind) => self.fail(kind),
            }
        }
        self.outgoing.pop_front()
    }

    /// What there is to tell.
    pub fn poll(&mut self) -> Option<LookupEvent> {
        self.events.pop_front()
    }

    /// When to call [`handle_timeout`](Self::handle_timeout) if nothing comes before, on the clock
    /// [`Now::elapsed`]; none when all is over.
    pub fn poll_timeout(&self) -> Option<Duration> {
        let next = match &self.steps.last()?.stage {
            StepState::Ask(ask) => ask.next_timeout(&self.config, self.steps.last()?),
            _ => None,
        };
        Some(next.map_or(self.deadline, |next| next.min(self.deadline)))
    }

    /// Time has passed; what that changes [`poll_transmit`](Self::poll_transmit) tells.
    pub fn handle_timeout(&mut self, now: Now) {
        if now.elapsed >= self.deadline && !self.steps.is_empty() {
            self.fail(LookupErrorKind::Time);
        }
    }

    /// A datagram came. It is ignored unless it is from a server that was asked, and has the number of the request.
    pub fn handle_datagram(&mut self, now: Now, from: SocketAddr, bytes: &[u8]) {
        let Ok(envelope) = Envelope::from_bytes(bytes) else { return };
        let from = SocketAddr::new(from.ip().to_canonical(), from.port());
        let Some(ask) = self.query_mut() else { return };
        let Some(index) = ask.attempts.iter().position(|attempt| {
            attempt.transport == InterfaceProtocol::UDP
                && attempt.to == from
                && attempt.request_id == envelope.request_id
        }) else {
            return;
        };
        if let Ok(Some(message)) = self.reassembly.insert(now, from, bytes) {
            self.handle_response(now, index, &message);
        }
    }

    /// Bytes came over the connection of an attempt.
    pub fn handle_stream(&mut self, now: Now, attempt: u32, bytes: &[u8]) {
        let Some(ask) = self.query_mut() else { return };
        let Some(index) = ask.attempts.iter().position(|known| known.id == attempt) else { return };
        let Some(known) = ask.attempts.get_mut(index) else { return };
        if let Err(error) = known.push(bytes) {
            return known.fail(error);
        }
        // One after the other, as long as the answer goes on and the step is the same.
        while let Some(known) = self.attempt_mut(attempt) {
            let message = match known.framer.next_message() {
                Ok(Some(message)) => message.to_vec(),
                Ok(None) => return,
                Err(_) => return known.fail(AttemptError::TooLong),
            };
            self.handle_response(now, index, &message);
        }
    }

    /// An attempt came to nothing: the server cannot be reached, or the connection ended.
    ///
    /// Whoever waits for a connection should give up before [`LookupConfig::stream_wait`]: after that it is not known whether
    /// anything was sent, and a change is asked for nowhere else.
    pub fn handle_failure(&mut self, now: Now, attempt: u32, error: ConnectionError) {
        let Some(known) = self.attempt_mut(attempt).filter(|known| known.waiting) else { return };
        let (server, started) = (known.to.ip(), known.started);
        known.fail(AttemptError::Connection(error));
        // A server that refuses quickly is not a quick one.
        let time = now.elapsed.saturating_sub(started).max(self.config.stream_wait);
        self.events.push_back(LookupEvent::Measured { server, time });
    }

    /// The addresses of a name that [`ReplicationEvent::Resolve`] asked for; none if it has none.
    pub fn handle_addresses(&mut self, domain: &str, addresses: &[IpAddr]) {
        let Some(known) = self.domains.get_mut(domain).filter(|known| known.is_none()) else { return };
        *known = Some(
            addresses.iter().take(SiteQuery::MAX_ADDRESSES_PER_DOMAIN).map(IpAddr::to_canonical).collect(),
        );
        if let Some(ask) = self.query_mut() {
            ask.has_news = true;
        }
    }

    fn query_mut(&mut self) -> Option<&mut SiteQuery> {
        match &mut self.steps.last_mut()?.stage {
            StepState::Ask(ask) => Some(ask),
            _ => None,
        }
    }

    fn attempt_mut(&mut self, id: u32) -> Option<&mut attempt::Attempt> {
        self.query_mut()?.attempts.iter_mut().find(|attempt| attempt.id == id)
    }

    fn push_step(&mut self, question: LookupRequest, depth: u32) {
        self.steps.push(LookupStep { question, depth, stage: StepState::Start, referred: Vec::new() });
    }

    fn advance(&mut self, now: Now, random: &mut dyn SecureRandom) -> Result<Progress, LookupErrorKind> {
        let Some(step) = self.steps.last_mut() else { return Ok(Progress::Waiting) };
        match &mut step.stage {
            StepState::Start => {
                let handle = step.question.handle();
                step.stage = match self.config.known_sites(handle) {
                    Some((sites, origin)) => StepState::Ask(SiteQuery::new(sites.to_vec(), origin)),
                    None => StepState::Gather(SiteLocator::for_prefix(
                        now,
                        handle.prefix_handle(),
                        step.depth + 1,
                    )),
                };
                Ok(Progress::Made)
            }
            StepState::Gather(gather) => match gather.pending.pop_front() {
                Some((record, depth)) => self.resolve_service_record(record, depth),
                None => self.finish_locating(now),
            },
            StepState::Ask(_) => self.query(now, random),
        }
    }

    /// Begins to resolve a record for the sites in it.
    fn resolve_service_record(&mut self, record: Vec<u8>, depth: u32) -> Result<Progress, LookupErrorKind> {
        let handle = Handle::new(&record);
        if self.steps.iter().any(|step| step.question.handle().eq_ignore_case(handle)) {
            self.record_error(record, LookupErrorKind::ServiceLoop);
            return Ok(Progress::Made);
        }
        if depth > self.config.service_depth {
            self.record_error(record, LookupErrorKind::ServiceDepth { limit: self.config.service_depth });
            return Ok(Progress::Made);
        }
        let Some(LookupStep { question, stage: StepState::Gather(gather), .. }) = self.steps.last() else {
            return Ok(Progress::Waiting);
        };
        let mut types = gather::SITE_TYPES.to_vec();
        if gather.derived {
            types.extend_from_slice(gather::DERIVED_PREFIX_SITE_TYPES);
        }
        let is_certified = question.requires_signature();
        // The second time around a prefix is asked for where it is certain.
        let authoritative = if gather.is_second { OpFlags::AUTHORITATIVE } else { OpFlags::default() };
        let on_the_way =
            LookupRequest::resolve(handle, &[], &types).with_flags(OpFlags::DEFAULT.with(authoritative));
        self.push_step(if is_certified { on_the_way.with_signature() } else { on_the_way }, depth);
        Ok(Progress::Made)
    }

    /// All records have been looked into.
    fn finish_locating(&mut self, now: Now) -> Result<Progress, LookupErrorKind> {
        let Some(step) = self.steps.last_mut() else { return Ok(Progress::Waiting) };
        let StepState::Gather(gather) = &mut step.stage else { return Ok(Progress::Waiting) };
        if !gather.sites.is_empty() {
            let sites = core::mem::take(&mut gather.sites);
            if let Some(prefix_handle) = gather.prefix.take() {
                let (sites, until) = (sites.clone(), gather.until);
                self.events.push_back(LookupEvent::Located { prefix_handle, sites, until });
            }
            step.stage = StepState::Ask(SiteQuery::new(sites, SiteSource::Records));
            return Ok(Progress::Made);
        }
        match gather.prefix.take() {
            Some(prefix) if gather.found_nothing() && !gather.is_second => {
                let mut again = SiteLocator::for_prefix(now, prefix, step.depth + 1);
                again.is_second = true;
                step.stage = StepState::Gather(again);
                Ok(Progress::Made)
            }
            prefix => {
                let unknown = LookupError {
                    kind: LookupErrorKind::ServiceNotFound,
                    handle: prefix.unwrap_or_else(|| step.question.handle().as_bytes().to_vec()),
                    attempts: Vec::new(),
                };
                // That there is no primary site to ask again says nothing about the name.
                let is_second = gather.is_second;
                let of_record =
                    gather.error.take().filter(|error| !is_second || error.kind != LookupErrorKind::NoSite);
                let error = of_record.unwrap_or(unknown);
                self.fail_step(error);
                Ok(Progress::Made)
            }
        }
    }

    /// What goes wrong with the current step: that may be all, or only one of several ways.
    fn fail(&mut self, kind: LookupErrorKind) {
        let Some(step) = self.steps.last() else { return };
        let attempts = match &step.stage {
            StepState::Ask(ask) => ask.attempts.iter().map(attempt::Attempt::to_failed_attempt).collect(),
            _ => Vec::new(),
        };
        let handle = step.question.handle().as_bytes().to_vec();
        let error = LookupError { kind, handle, attempts };
        match kind {
            LookupErrorKind::Time | LookupErrorKind::Messages { .. } | LookupErrorKind::Referrals { .. } => {
                self.finish(LookupEvent::Failed(error));
            }
            _ => self.fail_step(error),
        }
    }

    fn fail_step(&mut self, error: LookupError) {
        self.steps.pop();
        match self.steps.last_mut() {
            Some(LookupStep { stage: StepState::Gather(gather), .. }) => gather.error = Some(error),
            _ => self.finish(LookupEvent::Failed(error)),
        }
    }

    /// Remembers why a record is not looked into.
    fn record_error(&mut self, handle: Vec<u8>, kind: LookupErrorKind) {
        if let Some(LookupStep { stage: StepState::Gather(gather), .. }) = self.steps.last_mut() {
            gather.error = Some(LookupError { kind, handle, attempts: Vec::new() });
        }
    }

    fn finish(&mut self, event: LookupEvent) {
        self.steps.clear();
        self.outgoing.clear();
        self.events.push_back(event);
    }
}
