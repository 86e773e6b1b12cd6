//! Queries sites: targets, attempts, retransmission, next transport.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

use super::attempt::Attempt;
use super::config::{LookupConfig, SiteSource};
use super::error::{AttemptError, LookupErrorKind};
use super::public_address::is_public_address;
use super::{Lookup, LookupEvent, LookupStep, Progress, ServerTarget, StepState, Transmit};
use crate::crypto::{SecureRandom, random_id};
use crate::now::Now;
use crate::record::{InterfaceProtocol, Site};
use crate::transport::Fragments;
use crate::transport::Framer;
use crate::transport::tunnel::{self, ResponseHead};

/// Query phase of a step: targets, attempts and timers.
pub(super) struct SiteQuery {
    sites: Vec<Arc<Site<'static>>>,
    pub(super) source: SiteSource,
    /// Candidates in query order.
    targets: Vec<Candidate>,
    /// Whether `targets` must be computed, initially or after a domain name was resolved.
    pub(super) targets_stale: bool,
    /// Index of the current transport in the configuration.
    phase: usize,
    /// Time at which the next target may be queried in parallel.
    next_attempt_at: Duration,
    /// Start time, and the time left at that moment.
    phase_budget: Option<(Duration, Duration)>,
    pub(super) attempts: Vec<Attempt>,
    /// Attempt that has delivered the first part of a response.
    pub(super) streaming_attempt: Option<u32>,
}

/// Server that may be queried.
struct Candidate {
    target: ServerTarget,
    /// Bit set of the configured transports that were tried.
    tried_transports: u32,
}

impl SiteQuery {
    /// Maximum number of addresses used per domain name.
    pub(super) const MAX_ADDRESSES_PER_DOMAIN: usize = 4;

    pub(super) fn new(sites: Vec<Arc<Site<'static>>>, source: SiteSource) -> Self {
        Self {
            sites,
            source,
            targets: Vec::new(),
            targets_stale: true,
            phase: 0,
            next_attempt_at: Duration::ZERO,
            phase_budget: None,
            attempts: Vec::new(),
            streaming_attempt: None,
        }
    }

    /// Time of the next action without input.
    pub(super) fn next_timeout(&self, config: &LookupConfig, step: &LookupStep) -> Option<Duration> {
        let next = self
            .attempts
            .iter()
            .filter(|attempt| attempt.is_waiting)
            .map(|attempt| attempt.next_timeout)
            .min();
        let start = match self.next_target(config, step) {
            _ if !step.request.is_idempotent() => None,
            Some(_) => Some(self.next_attempt_at),
            None => self.phase_deadline(config).map(|end| end.max(self.next_attempt_at)),
        };
        next.into_iter().chain(start).min()
    }

    /// Time at which the next transport is tried, even if this one may still deliver a response: each gets its share of
    /// the remaining time. None for the last transport.
    fn phase_deadline(&self, config: &LookupConfig) -> Option<Duration> {
        let (phase_start, remaining) = self.phase_budget?;
        let transports = u32::try_from(config.transports.len()).ok()?;
        let share = remaining.checked_div(transports)?;
        let phase = u32::try_from(self.phase).ok().filter(|phase| phase + 1 < transports)?;
        Some(phase_start.saturating_add(share.saturating_mul(phase + 1)))
    }

    /// Next server to query over the current transport, and its port.
    fn next_target(&self, config: &LookupConfig, step: &LookupStep) -> Option<(usize, SocketAddr)> {
        let transport = *config.transports.get(self.phase)?;
        self.targets.iter().enumerate().find_map(|(index, Candidate { target, tried_transports })| {
            let to = target.address(transport, |kind| step.request.is_accepted_by(kind))?;
            let has_referred = step.already_referred.iter().any(|other| target.is_same_server(other));
            (tried_transports & phase_bit(self.phase) == 0 && !has_referred).then_some((index, to))
        })
    }
}

impl Lookup {
    /// Sends the requests that are due.
    pub(super) fn query(
        &mut self,
        now: Now,
        random: &mut dyn SecureRandom,
    ) -> Result<Progress, LookupErrorKind> {
        self.select_targets(now, random);
        if self.retransmit(now)? {
            return Ok(Progress::Made);
        }
        let Some(step) = self.steps.last_mut() else { return Ok(Progress::Waiting) };
        let is_idempotent = step.request.is_idempotent();
        let next = match &step.state {
            StepState::Query(query) => query.next_target(&self.config, step),
            _ => None,
        };
        let StepState::Query(query) = &mut step.state else { return Ok(Progress::Waiting) };
        let is_waiting = query.attempts.iter().any(|attempt| attempt.is_waiting);
        if is_waiting && !(is_idempotent && now.elapsed >= query.next_attempt_at) {
            return Ok(Progress::Waiting);
        }
        if query.streaming_attempt.is_some() && !is_waiting {
            return Err(LookupErrorKind::NoUsableResponse);
        }
        if !is_idempotent && query.attempts.iter().any(Attempt::may_have_been_received) {
            return Err(LookupErrorKind::InDoubt);
        }
        let transport = self.config.transports.get(query.phase).copied();
        let is_udp_allowed = step.request.is_udp_allowed(self.config.allow_single_shot_udp);
        let is_skipped = transport == Some(InterfaceProtocol::UDP) && (!is_udp_allowed || self.is_udp_dead);
        let is_phase_over =
            !is_waiting || query.phase_deadline(&self.config).is_some_and(|end| now.elapsed >= end);
        match (next, transport) {
            (Some((target, to)), Some(transport)) if !is_skipped => {
                self.start_attempt(target, to, transport, now, random)
            }
            _ if !is_phase_over => Ok(Progress::Waiting),
            (_, Some(transport)) => {
                let is_silent =
                    |attempt: &Attempt| matches!(attempt.error, None | Some(AttemptError::NoResponse));
                let mut sent =
                    query.attempts.iter().filter(|attempt| attempt.transport == transport).peekable();
                if transport == InterfaceProtocol::UDP && sent.peek().is_some() && sent.all(is_silent) {
                    self.is_udp_dead = true;
                }
                query.phase += 1;
                Ok(Progress::Made)
            }
            (_, None) if self.domains.values().any(Option::is_none) => Ok(Progress::Waiting),
            (_, None) if !query.attempts.is_empty() => Err(LookupErrorKind::NoUsableResponse),
            (_, None) if !step.already_referred.is_empty() && !query.targets.is_empty() => {
                Err(LookupErrorKind::ReferralLoop)
            }
            (_, None) => Err(LookupErrorKind::NoUsableSite),
        }
    }

    /// Computes the targets and their order. Domain names without an address are passed to the caller.
    fn select_targets(&mut self, now: Now, random: &mut dyn SecureRandom) {
        let Some(LookupStep { request, state: StepState::Query(query), .. }) = self.steps.last_mut() else {
            return;
        };
        if !core::mem::take(&mut query.targets_stale) {
            return;
        }
        query.phase_budget =
            query.phase_budget.or(Some((now.elapsed, self.deadline.saturating_sub(now.elapsed))));
        let mut found: Vec<(Duration, ServerTarget)> = Vec::new();
        for site in query.sites.iter().filter(|site| site.is_primary() || !request.requires_primary()) {
            let Some(server_index) = request.handle().server_index(site.hash_option, site.servers.len())
            else {
                continue;
            };
            let Some(server) = site.servers.get(server_index) else { continue };
            let mut addresses: Vec<IpAddr> = Vec::new();
            if !server.ip().is_unspecified() {
                addresses.push(server.ip());
            } else if let Some(domain) =
                site.domain(server_index).filter(|domain| is_resolvable_domain(domain))
            {
                let is_full = self.domains.len() >= self.config.max_domains as usize;
                match self.domains.get(domain) {
                    Some(known) => addresses.extend(known.iter().flatten()),
                    None if is_full => {}
                    None => {
                        self.domains.insert(domain.into(), None);
                        self.events.push_back(LookupEvent::ResolveDomain { domain: domain.into() });
                    }
                }
            }
            addresses.extend(site.alternative_address(server.id));
            // Records may name the root, too.
            let is_configured = query.source != SiteSource::Records
                || self.config.root_sites.iter().any(|root| Arc::ptr_eq(root, site));
            let is_any_address_allowed = is_configured || self.config.allow_private_addresses;
            for ip in addresses.iter().map(IpAddr::to_canonical) {
                let is_usable = !ip.is_unspecified()
                    && !ip.is_multicast()
                    && (is_any_address_allowed || is_public_address(ip));
                let queried = query.targets.iter().map(|candidate| &candidate.target);
                let known = queried.chain(found.iter().map(|(_, target)| target));
                let mut same = known.filter(|known| known.ip == ip && Arc::ptr_eq(&known.site, site));
                if !is_usable
                    || !(if ip.is_ipv4() { self.config.ipv4 } else { self.config.ipv6 })
                    || same.next().is_some()
                {
                    continue;
                }
                let times = self.config.rtt_estimates.as_deref();
                let measured = times.and_then(|times| times.rtt(ip)).unwrap_or_default();
                // Random order, so that load is spread and slow servers are retried now and then.
                let mut jitter = [0];
                random.fill(&mut jitter);
                let jitter = Duration::from_millis(u64::from(jitter[0]));
                let target = ServerTarget { site: Arc::clone(site), server_index, ip };
                found.push((measured.saturating_add(jitter), target));
            }
        }
        found.sort_by_key(|(time, _)| *time);
        let (ipv4, ipv6): (Vec<_>, Vec<_>) =
            found.into_iter().map(|(_, target)| target).partition(|t| t.ip.is_ipv4());
        // Alternates address families, so that a broken one costs little (as in RFC 8305).
        let (mut ipv4, mut ipv6) = (ipv4.into_iter(), ipv6.into_iter());
        loop {
            let pair = (ipv6.next(), ipv4.next());
            if let (None, None) = pair {
                break;
            }
            let next = pair.0.into_iter().chain(pair.1);
            query.targets.extend(next.map(|target| Candidate { target, tried_transports: 0 }));
        }
        query.phase = 0;
    }

    /// Retransmits requests without a response, and ends attempts that timed out.
    fn retransmit(&mut self, now: Now) -> Result<bool, LookupErrorKind> {
        let Some(LookupStep { request, state: StepState::Query(query), .. }) = self.steps.last_mut() else {
            return Ok(false);
        };
        for attempt in query
            .attempts
            .iter_mut()
            .filter(|attempt| attempt.is_waiting && attempt.next_timeout <= now.elapsed)
        {
            let timeout = self.config.udp_timeouts.get(attempt.times_sent);
            let can_repeat = attempt.transport == InterfaceProtocol::UDP && request.is_idempotent();
            let Some(timeout) = timeout.filter(|_| can_repeat) else {
                attempt.fail(AttemptError::NoResponse);
                let rtt = now.elapsed.saturating_sub(attempt.started_at);
                self.events.push_back(LookupEvent::RttSample { server: attempt.to.ip(), rtt });
                continue;
            };
            if self.messages_sent >= self.config.max_messages {
                return Err(LookupErrorKind::MessageLimit { sent: self.messages_sent });
            }
            self.messages_sent += 1;
            attempt.times_sent += 1;
            attempt.next_timeout = now.elapsed.saturating_add(*timeout);
            self.transmits.extend(datagram_transmits(attempt));
        }
        Ok(!self.transmits.is_empty())
    }

    fn start_attempt(
        &mut self,
        index: usize,
        to: SocketAddr,
        transport: InterfaceProtocol,
        now: Now,
        random: &mut dyn SecureRandom,
    ) -> Result<Progress, LookupErrorKind> {
        if self.messages_sent >= self.config.max_messages {
            return Err(LookupErrorKind::MessageLimit { sent: self.messages_sent });
        }
        let Some(LookupStep { request, depth, state: StepState::Query(query), .. }) = self.steps.last_mut()
        else {
            return Ok(Progress::Waiting);
        };
        let following = query
            .targets
            .iter()
            .filter(|candidate| candidate.tried_transports & phase_bit(query.phase) == 0)
            .nth(1);
        let is_other_family =
            following.is_some_and(|candidate| candidate.target.ip.is_ipv4() != to.is_ipv4());
        let Some(candidate) = query.targets.get_mut(index) else { return Ok(Progress::Waiting) };
        candidate.tried_transports |= phase_bit(query.phase);
        let target = &candidate.target;
        let request_id = random_id(random);
        let bytes = request.to_bytes(&target.site, request_id, *depth, now)?;
        let is_datagram = transport == InterfaceProtocol::UDP;
        let is_tunnel = transport == InterfaceProtocol::HTTP || transport == InterfaceProtocol::HTTPS;
        let timeout = match is_datagram {
            true if request.is_idempotent() => self.config.udp_timeouts.first().copied(),
            true => self.config.udp_timeouts.iter().copied().reduce(Duration::saturating_add),
            false => None,
        };
        let delay =
            if is_other_family { self.config.other_family_delay } else { self.config.next_site_delay };
        query.next_attempt_at = now.elapsed.saturating_add(delay);
        self.messages_sent += 1;
        self.attempts += 1;
        let attempt = Attempt {
            id: self.attempts,
            transport,
            to,
            target: target.clone(),
            request_id,
            request: bytes,
            started_at: now.elapsed,
            times_sent: 1,
            next_timeout: now.elapsed.saturating_add(timeout.unwrap_or(self.config.stream_timeout)),
            is_waiting: true,
            error: None,
            framer: Framer::new(),
            head: is_tunnel.then(ResponseHead::default),
        };
        if is_datagram {
            self.transmits.extend(datagram_transmits(&attempt));
        } else {
            let mut bytes = Vec::new();
            if is_tunnel {
                let (host, path) = attempt.target.http_host_and_path(to);
                let length = attempt.request.len();
                bytes = tunnel::request_head(&host, path, request.handle(), length).into_bytes();
            }
            bytes.extend_from_slice(&attempt.request);
            self.transmits.push_back(new_transmit(&attempt, bytes));
        }
        query.attempts.push(attempt);
        Ok(Progress::Made)
    }
}

fn datagram_transmits(attempt: &Attempt) -> impl Iterator<Item = Transmit> + '_ {
    let fragments = Fragments::new(&attempt.request).ok();
    fragments.into_iter().flatten().map(|datagram| new_transmit(attempt, datagram.to_vec()))
}

fn new_transmit(attempt: &Attempt, bytes: Vec<u8>) -> Transmit {
    let target = &attempt.target;
    Transmit {
        attempt: attempt.id,
        transport: attempt.transport,
        to: attempt.to,
        domain: target.domain().filter(|domain| is_resolvable_domain(domain)).map(String::from),
        server_key: target.public_key().to_vec(),
        bytes,
    }
}

/// Bit of a transport; all beyond 32 count as tried.
fn phase_bit(phase: usize) -> u32 {
    u32::try_from(phase).ok().and_then(|phase| 1_u32.checked_shl(phase)).unwrap_or(u32::MAX)
}

/// Whether a domain name from a record may be passed to a resolver.
fn is_resolvable_domain(name: &str) -> bool {
    (1..=253).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
}
