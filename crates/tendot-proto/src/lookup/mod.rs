//! Client side of the protocol: resolution state machine (RFC 3652, 3.1, with Handle.Net's deviations).
//!
//! [`Lookup`] is one lookup in progress, [`LookupRequest`] (`request.rs`) its request, [`LookupConfig`] (`config.rs`) the settings
//! shared by all lookups. In reading order: `locate.rs` finds the sites of a prefix, `public_address.rs` protects from SSRF,
//! `query.rs`, `server_target.rs` and `attempt.rs` send requests, `validate.rs` validates responses, `referral.rs` handles responses
//! and follows referrals, `event.rs` has the output, `error.rs` the errors.

mod attempt;
mod config;
mod error;
mod event;
mod locate;
mod public_address;
mod query;
mod referral;
mod request;
mod server_target;
mod validate;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

use config::SiteSource;
pub use config::{LookupConfig, RttEstimates};
pub use error::{AttemptError, ConnectionError, FailedAttempt, LookupError, LookupErrorKind};
pub use event::{LookupEvent, LookupResponse, Transmit};
use locate::SiteLocator;
use query::SiteQuery;
pub use request::LookupRequest;
pub use server_target::ServerTarget;

use crate::budget::Budget;
use crate::crypto::SecureRandom;
use crate::handle::Handle;
use crate::message::{Envelope, OpFlags};
use crate::now::Now;
use crate::record::{InterfaceProtocol, Site};
use crate::transport::Reassembly;

/// State machine of one lookup. Opens no socket, reads no clock, resolves no domain name.
///
/// After creation and after each call of a `handle_` method, call [`poll_transmit`](Self::poll_transmit) and
/// [`poll`](Self::poll) until they return nothing, then wait for bytes or for [`poll_timeout`](Self::poll_timeout).
///
/// UDP is tried at all sites, then TCP, then HTTP. Without a response, the request is sent again after 500 and 1500 ms,
/// and the next site is queried in parallel, so that a dead server costs half a second. This applies only to idempotent
/// requests: resolution, site information and verification of a challenge response (opcodes 1, 2, 201). All other
/// requests go to one server, once; to another only if nothing could be sent. They use UDP only with
/// [`LookupConfig::allow_single_shot_udp`], writes never do. Whatever peers do, a lookup ends within
/// [`LookupConfig::timeout`] and [`LookupConfig::max_messages`], resolves at most [`LookupConfig::max_domains`] domain
/// names, and queries only public addresses or those of the configuration.
///
/// Send datagrams from an unpredictable port that is not used for long: port and random request id are the only
/// protection from spoofed responses. [`LookupConfig::require_signatures`] requests signatures and request digests.
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
/// let udp = ServerInterface { kind: InterfaceKind::BOTH, protocol: InterfaceProtocol::UDP, port: 2641 };
/// let address = SiteServer::encode_address("192.0.2.1".parse()?);
/// let root = Site { servers: vec![SiteServer { address, interfaces: vec![udp], ..SiteServer::default() }], ..Site::default() };
/// let config = Arc::new(LookupConfig::new(vec![Arc::new(root)]));
/// let now = Now { elapsed: Duration::ZERO, unix: 1_700_000_000 };
///
/// let mut lookup = Lookup::new(config, LookupRequest::resolve(Handle::from("0.NA/10"), &[], &[]), now);
/// let datagram = lookup.poll_transmit(now, &mut FixedRandom).unwrap();
/// assert_eq!((datagram.transport, datagram.to), (InterfaceProtocol::UDP, "192.0.2.1:2641".parse()?));
///
/// // The server's response.
/// let request = Message::from_bytes(&datagram.bytes)?;
/// let values = [HandleValue::new(1, "DESC", "ten")];
/// let data = ResponseData::Resolved { handle: Handle::from("0.NA/10"), values: WireList::from(&values[..]) };
/// let header = request.header.for_response(ResponseCode::SUCCESS, 0, now);
/// let body = MessageBody::Response(Response::new(data));
/// let credential_section = CredentialSection::Empty;
/// let response = Message { envelope: request.envelope, header, body, trailing_body: &[], credential_section };
/// let response = response.to_bytes()?;
///
/// lookup.handle_datagram(now, "192.0.2.66:2641".parse()?, &response);
/// assert!(lookup.poll().is_none(), "wrong source address");
/// lookup.handle_datagram(now, datagram.to, &response);
/// assert!(matches!(lookup.poll(), Some(LookupEvent::RttSample { .. })));
/// let Some(LookupEvent::Finished(response)) = lookup.poll() else { panic!() };
/// assert_eq!(response.message()?.header.response_code, ResponseCode::SUCCESS);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
pub struct Lookup {
    config: Arc<LookupConfig>,
    deadline: Duration,
    /// The request, and above it the requests needed first to locate its servers. Empty when the lookup has ended.
    steps: Vec<LookupStep>,
    messages_sent: u32,
    referrals: u32,
    attempts: u32,
    /// Whether UDP failed in an earlier step.
    is_udp_dead: bool,
    /// Domain names passed to the caller for resolution, with the result.
    domains: BTreeMap<String, Option<Vec<IpAddr>>>,
    reassembly: Reassembly,
    /// Budget for digests and signatures.
    budget: Budget,
    events: VecDeque<LookupEvent>,
    transmits: VecDeque<Transmit>,
}

/// Request and its progress.
struct LookupStep {
    request: LookupRequest,
    /// Number of records that led to it.
    depth: u32,
    state: StepState,
    /// Servers that sent a referral; they are not queried again.
    already_referred: Vec<ServerTarget>,
}

/// State of a step: start, locating sites, querying sites.
enum StepState {
    Start,
    Locate(SiteLocator),
    Query(SiteQuery),
}

/// Whether a step advanced or waits for input.
enum Progress {
    Made,
    Waiting,
}

/// Without message bytes, which may contain secrets.
impl fmt::Debug for Lookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lookup")
            .field("request", &self.steps.first().map(|step| &step.request))
            .field("current_handle", &self.steps.last().map(|step| step.request.handle()))
            .field("deadline", &self.deadline)
            .field("messages_sent", &self.messages_sent)
            .field("referrals", &self.referrals)
            .finish_non_exhaustive()
    }
}

impl Lookup {
    /// Memory budget for fragmented responses: a few of the largest.
    const REASSEMBLY_BUDGET_BYTES: usize = 1 << 20;

    /// Starts a lookup.
    pub fn new(config: Arc<LookupConfig>, request: LookupRequest, now: Now) -> Self {
        let mut lookup = Self {
            deadline: now.elapsed.saturating_add(config.timeout),
            config,
            steps: Vec::new(),
            messages_sent: 0,
            referrals: 0,
            attempts: 0,
            is_udp_dead: false,
            domains: BTreeMap::new(),
            reassembly: Reassembly::with_budget(Self::REASSEMBLY_BUDGET_BYTES),
            budget: Budget::PER_REQUEST,
            events: VecDeque::new(),
            transmits: VecDeque::new(),
        };
        let is_signed = lookup.config.require_signatures || request.requires_signature();
        lookup.push_step(if is_signed { request.with_signature() } else { request }, 0);
        lookup
    }

    /// Starts a lookup at known sites, for example from [`LookupEvent::SitesLocated`].
    pub fn with_sites(
        config: Arc<LookupConfig>,
        request: LookupRequest,
        sites: Vec<Arc<Site<'static>>>,
        now: Now,
    ) -> Self {
        let mut lookup = Self::new(config, request, now);
        if let Some(step) = lookup.steps.last_mut() {
            step.state = StepState::Query(SiteQuery::new(sites, SiteSource::Records));
        }
        lookup
    }

    /// Next bytes to send, if any.
    pub fn poll_transmit(&mut self, now: Now, random: &mut dyn SecureRandom) -> Option<Transmit> {
        self.handle_timeout(now);
        while self.transmits.is_empty() && !self.steps.is_empty() {
            match self.advance(now, random) {
                Ok(Progress::Made) => {}
                Ok(Progress::Waiting) => break,
                Err(kind) => self.fail(kind),
            }
        }
        self.transmits.pop_front()
    }

    /// Next event, if any.
    pub fn poll(&mut self) -> Option<LookupEvent> {
        self.events.pop_front()
    }

    /// Time of [`Now::elapsed`] at which to call [`handle_timeout`](Self::handle_timeout), unless input arrives before;
    /// none when the lookup has ended.
    pub fn poll_timeout(&self) -> Option<Duration> {
        let next = match &self.steps.last()?.state {
            StepState::Query(query) => query.next_timeout(&self.config, self.steps.last()?),
            _ => None,
        };
        Some(next.map_or(self.deadline, |next| next.min(self.deadline)))
    }

    /// Handles elapsed time; call [`poll_transmit`](Self::poll_transmit) after it.
    pub fn handle_timeout(&mut self, now: Now) {
        if now.elapsed >= self.deadline && !self.steps.is_empty() {
            self.fail(LookupErrorKind::TimedOut);
        }
    }

    /// Handles a datagram. It is ignored unless it comes from a queried server and has the request id.
    pub fn handle_datagram(&mut self, now: Now, from: SocketAddr, bytes: &[u8]) {
        let Ok(envelope) = Envelope::from_bytes(bytes) else { return };
        let from = SocketAddr::new(from.ip().to_canonical(), from.port());
        let Some(query) = self.query_mut() else { return };
        let Some(index) = query.attempts.iter().position(|attempt| {
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

    /// Handles bytes from the connection of an attempt.
    pub fn handle_stream(&mut self, now: Now, attempt: u32, bytes: &[u8]) {
        let Some(query) = self.query_mut() else { return };
        let Some(index) = query.attempts.iter().position(|candidate| candidate.id == attempt) else { return };
        let Some(known) = query.attempts.get_mut(index) else { return };
        if let Err(error) = known.push(bytes) {
            return known.fail(error);
        }
        // One by one, while the response continues and the step is the same.
        while let Some(known) = self.attempt_mut(attempt) {
            let message = match known.framer.next_message() {
                Ok(Some(message)) => message.to_vec(),
                Ok(None) => return,
                Err(_) => return known.fail(AttemptError::ResponseTooLong),
            };
            self.handle_response(now, index, &message);
        }
    }

    /// Handles the failure of an attempt: the server is unreachable, or the connection ended.
    ///
    /// Callers should time out connecting before [`LookupConfig::stream_timeout`]: after it the request counts as
    /// possibly sent, and a write is not tried elsewhere.
    pub fn handle_failure(&mut self, now: Now, attempt: u32, error: ConnectionError) {
        let Some(known) = self.attempt_mut(attempt).filter(|known| known.is_waiting) else { return };
        let (server, started_at) = (known.to.ip(), known.started_at);
        known.fail(AttemptError::Connection(error));
        // A quick refusal is not a low round-trip time.
        let rtt = now.elapsed.saturating_sub(started_at).max(self.config.stream_timeout);
        self.events.push_back(LookupEvent::RttSample { server, rtt });
    }

    /// Handles the result of [`LookupEvent::ResolveDomain`]; empty if the domain name has no addresses.
    pub fn handle_addresses(&mut self, domain: &str, addresses: &[IpAddr]) {
        let Some(known) = self.domains.get_mut(domain).filter(|known| known.is_none()) else { return };
        *known = Some(
            addresses.iter().take(SiteQuery::MAX_ADDRESSES_PER_DOMAIN).map(IpAddr::to_canonical).collect(),
        );
        if let Some(query) = self.query_mut() {
            query.targets_stale = true;
        }
    }

    fn query_mut(&mut self) -> Option<&mut SiteQuery> {
        match &mut self.steps.last_mut()?.state {
            StepState::Query(query) => Some(query),
            _ => None,
        }
    }

    fn attempt_mut(&mut self, id: u32) -> Option<&mut attempt::Attempt> {
        self.query_mut()?.attempts.iter_mut().find(|attempt| attempt.id == id)
    }

    fn push_step(&mut self, request: LookupRequest, depth: u32) {
        self.steps.push(LookupStep { request, depth, state: StepState::Start, already_referred: Vec::new() });
    }

    fn advance(&mut self, now: Now, random: &mut dyn SecureRandom) -> Result<Progress, LookupErrorKind> {
        let Some(step) = self.steps.last_mut() else { return Ok(Progress::Waiting) };
        match &mut step.state {
            StepState::Start => {
                let handle = step.request.handle();
                step.state = match self.config.known_sites(handle) {
                    Some((sites, source)) => StepState::Query(SiteQuery::new(sites.to_vec(), source)),
                    None => StepState::Locate(SiteLocator::for_prefix(
                        now,
                        handle.prefix_handle(),
                        step.depth + 1,
                    )),
                };
                Ok(Progress::Made)
            }
            StepState::Locate(locator) => match locator.pending.pop_front() {
                Some((record, depth)) => self.resolve_service_record(record, depth),
                None => self.finish_locating(now),
            },
            StepState::Query(_) => self.query(now, random),
        }
    }

    /// Starts to resolve a record for the sites in it.
    fn resolve_service_record(&mut self, record: Vec<u8>, depth: u32) -> Result<Progress, LookupErrorKind> {
        let handle = Handle::new(&record);
        if self.steps.iter().any(|step| step.request.handle().eq_ignore_case(handle)) {
            self.record_error(record, LookupErrorKind::ServiceLoop);
            return Ok(Progress::Made);
        }
        if depth > self.config.max_service_depth {
            self.record_error(record, LookupErrorKind::ServiceDepth { max: self.config.max_service_depth });
            return Ok(Progress::Made);
        }
        let Some(LookupStep { request, state: StepState::Locate(locator), .. }) = self.steps.last() else {
            return Ok(Progress::Waiting);
        };
        let mut types = locate::SITE_TYPES.to_vec();
        if locator.for_derived_prefix {
            types.extend_from_slice(locate::DERIVED_PREFIX_SITE_TYPES);
        }
        let is_signed = request.requires_signature();
        // The second resolution of a prefix is authoritative.
        let authoritative =
            if locator.is_authoritative_retry { OpFlags::AUTHORITATIVE } else { OpFlags::default() };
        let service_request =
            LookupRequest::resolve(handle, &[], &types).with_flags(OpFlags::DEFAULT | authoritative);
        self.push_step(if is_signed { service_request.with_signature() } else { service_request }, depth);
        Ok(Progress::Made)
    }

    /// Called when all records have been resolved.
    fn finish_locating(&mut self, now: Now) -> Result<Progress, LookupErrorKind> {
        let Some(step) = self.steps.last_mut() else { return Ok(Progress::Waiting) };
        let StepState::Locate(locator) = &mut step.state else { return Ok(Progress::Waiting) };
        if !locator.sites.is_empty() {
            let sites = core::mem::take(&mut locator.sites);
            if let Some(prefix_handle) = locator.prefix_handle.take() {
                let (sites, expires_at) = (sites.clone(), locator.expires_at);
                self.events.push_back(LookupEvent::SitesLocated { prefix_handle, sites, expires_at });
            }
            step.state = StepState::Query(SiteQuery::new(sites, SiteSource::Records));
            return Ok(Progress::Made);
        }
        match locator.prefix_handle.take() {
            Some(prefix) if locator.found_nothing() && !locator.is_authoritative_retry => {
                let mut retry = SiteLocator::for_prefix(now, prefix, step.depth + 1);
                retry.is_authoritative_retry = true;
                step.state = StepState::Locate(retry);
                Ok(Progress::Made)
            }
            prefix => {
                let not_found = LookupError {
                    kind: LookupErrorKind::ServiceNotFound,
                    handle: prefix.unwrap_or_else(|| step.request.handle().as_bytes().to_vec()),
                    attempts: Vec::new(),
                };
                // A missing primary site for the second resolution is not an error of the handle.
                let is_authoritative_retry = locator.is_authoritative_retry;
                let record_error = locator
                    .error
                    .take()
                    .filter(|error| !is_authoritative_retry || error.kind != LookupErrorKind::NoUsableSite);
                let error = record_error.unwrap_or(not_found);
                self.fail_step(error);
                Ok(Progress::Made)
            }
        }
    }

    /// Handles the failure of the current step: of the lookup, or of one of several records.
    fn fail(&mut self, kind: LookupErrorKind) {
        let Some(step) = self.steps.last() else { return };
        let attempts = match &step.state {
            StepState::Query(query) => {
                query.attempts.iter().map(attempt::Attempt::to_failed_attempt).collect()
            }
            _ => Vec::new(),
        };
        let handle = step.request.handle().as_bytes().to_vec();
        let error = LookupError { kind, handle, attempts };
        match kind {
            LookupErrorKind::TimedOut
            | LookupErrorKind::MessageLimit { .. }
            | LookupErrorKind::ReferralLimit { .. } => {
                self.finish(LookupEvent::Failed(error));
            }
            _ => self.fail_step(error),
        }
    }

    fn fail_step(&mut self, error: LookupError) {
        self.steps.pop();
        match self.steps.last_mut() {
            Some(LookupStep { state: StepState::Locate(locator), .. }) => locator.error = Some(error),
            _ => self.finish(LookupEvent::Failed(error)),
        }
    }

    /// Stores the error of a record that is not resolved.
    fn record_error(&mut self, handle: Vec<u8>, kind: LookupErrorKind) {
        if let Some(LookupStep { state: StepState::Locate(locator), .. }) = self.steps.last_mut() {
            locator.error = Some(LookupError { kind, handle, attempts: Vec::new() });
        }
    }

    fn finish(&mut self, event: LookupEvent) {
        self.steps.clear();
        self.transmits.clear();
        self.events.push_back(event);
    }
}
