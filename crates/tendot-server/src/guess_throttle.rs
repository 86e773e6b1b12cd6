//! Rate limits for failed authentication attempts over HTTP and the native protocol, in constant memory.
//!
//! One limiter serves both protocols, so that an attacker cannot add up their limits. Attempts are limited per client, per network
//! and per account. An account's limit alone would let a few clients lock its owner out, so each client has a reserve for each
//! account: while the account's limit is exhausted, only clients that have failed rarely there may try.

use std::net::IpAddr;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use crate::authentication_failures::{AttemptFailure, AuthenticationFailures};
use crate::client_network::{client_network, provider_network};
use crate::gcra::{GcraTable, Rate};

/// Failures per IPv4 address or IPv6 /64: a small burst, then one per second.
const CLIENT_FAILURE_RATE: Rate = Rate { per_second: 1, burst: 20 };

/// Failures per IPv4 /24 or IPv6 /48. Higher than that of ten clients, so that they cannot lock out their whole network.
const NETWORK_FAILURE_RATE: Rate = Rate { per_second: 32, burst: 640 };

/// Failures per account, from all clients.
const ACCOUNT_FAILURE_RATE: Rate = Rate { per_second: 10, burst: 200 };

/// Reserve of a client for an account whose limit is exhausted: 20 failures per hour.
const RESERVE_INTERVAL_NANOS: u64 = 180 * 1_000_000_000;
const RESERVE_BURST: u64 = 20;

/// Slots per row of the tables of clients and of accounts.
const CLIENT_SLOTS_PER_ROW: usize = 1 << 16;
const ACCOUNT_SLOTS_PER_ROW: usize = 1 << 14;

/// Sender of an authentication attempt.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum AttemptSource {
    /// Address that is proved by a connection.
    Connection(IpAddr),
    /// Source address of a datagram. It may be forged, so it is limited apart from connections, and has no reserve.
    Datagram(IpAddr),
    /// Client of a proxy that does not report it.
    Hidden,
}

/// Rate limits for failed authentication attempts, per client and per account.
#[derive(Debug)]
pub(crate) struct GuessThrottle {
    connections: ClientTables,
    datagrams: ClientTables,
    accounts: GcraTable,
    reserves: GcraTable,
    start: Instant,
    pub(crate) failures: AuthenticationFailures,
}

/// Limits per client and per network.
#[derive(Debug)]
struct ClientTables {
    clients: GcraTable,
    networks: GcraTable,
}

/// Slots of a table that an attempt is charged to, and its cost.
type Charge<'a> = ([&'a AtomicU64; 2], u64);

/// One attempt, charged and recorded as failed unless `mark_succeeded` is called, also if it is cancelled.
pub(crate) struct AuthAttempt<'a> {
    charges: [Option<Charge<'a>>; 4],
    /// Failure to record.
    pending: Option<PendingFailure<'a>>,
}

/// Failure of an attempt that is not decided yet.
struct PendingFailure<'a> {
    failures: &'a AuthenticationFailures,
    account: Box<str>,
    client: Option<IpAddr>,
}

impl AttemptSource {
    const fn address(self) -> Option<IpAddr> {
        match self {
            Self::Connection(address) | Self::Datagram(address) => Some(address),
            Self::Hidden => None,
        }
    }
}

impl ClientTables {
    fn new() -> Self {
        Self {
            clients: GcraTable::new(CLIENT_SLOTS_PER_ROW, CLIENT_FAILURE_RATE.burst_nanos()),
            networks: GcraTable::new(CLIENT_SLOTS_PER_ROW, NETWORK_FAILURE_RATE.burst_nanos()),
        }
    }

    /// Charges of an attempt, unless too many have failed.
    fn check(&self, address: IpAddr, now: u64) -> Result<[Charge<'_>; 2], Duration> {
        let client = self.clients.slots(client_network(address));
        let network = self.networks.slots(provider_network(address));
        let costs = [CLIENT_FAILURE_RATE.interval_nanos(), NETWORK_FAILURE_RATE.interval_nanos()];
        self.clients.check(client, now, costs[0])?;
        self.networks.check(network, now, costs[1])?;
        Ok([(client, costs[0]), (network, costs[1])])
    }
}

impl GuessThrottle {
    pub(crate) fn new() -> Self {
        Self {
            connections: ClientTables::new(),
            datagrams: ClientTables::new(),
            accounts: GcraTable::new(ACCOUNT_SLOTS_PER_ROW, ACCOUNT_FAILURE_RATE.burst_nanos()),
            reserves: GcraTable::new(CLIENT_SLOTS_PER_ROW, RESERVE_BURST * RESERVE_INTERVAL_NANOS),
            start: Instant::now(),
            failures: AuthenticationFailures::default(),
        }
    }

    /// Starts an attempt to authenticate as this identity, unless too many have failed; otherwise the time to wait.
    pub(crate) fn start_attempt(
        &self,
        source: AttemptSource,
        account: &str,
    ) -> Result<AuthAttempt<'_>, Duration> {
        self.start_attempt_at(source, account, Instant::now())
            .inspect_err(|_| self.failures.record(AttemptFailure::Throttled, account, source.address()))
    }

    fn start_attempt_at(
        &self,
        source: AttemptSource,
        account: &str,
        now: Instant,
    ) -> Result<AuthAttempt<'_>, Duration> {
        let now = u64::try_from(now.saturating_duration_since(self.start).as_nanos()).unwrap_or(u64::MAX);
        let pending =
            PendingFailure { failures: &self.failures, account: account.into(), client: source.address() };
        let account = account.to_ascii_uppercase();
        let clients = match source {
            AttemptSource::Connection(address) => Some(self.connections.check(address, now)?),
            AttemptSource::Datagram(address) => Some(self.datagrams.check(address, now)?),
            AttemptSource::Hidden => None,
        };
        let reserve = match source {
            AttemptSource::Connection(address) => {
                let slots = self.reserves.slots((client_network(address), &account));
                let has_reserve = self.reserves.check(slots, now, RESERVE_INTERVAL_NANOS).is_ok();
                has_reserve.then_some((slots, RESERVE_INTERVAL_NANOS))
            }
            AttemptSource::Datagram(_) | AttemptSource::Hidden => None,
        };
        let cost = ACCOUNT_FAILURE_RATE.interval_nanos();
        let slots = self.accounts.slots(&account);
        let account = match self.accounts.check(slots, now, cost) {
            Ok(()) => Some((slots, cost)),
            Err(_) if reserve.is_some() => None,
            Err(wait) => return Err(wait),
        };
        let [client, network] = clients.map_or([None; 2], |charges| charges.map(Some));
        let attempt = AuthAttempt { charges: [client, network, reserve, account], pending: Some(pending) };
        // Charged at once: many attempts may start before the first one fails.
        for (slots, cost) in attempt.charges.into_iter().flatten() {
            GcraTable::charge(slots, now, cost);
        }
        Ok(attempt)
    }
}

impl AuthAttempt<'_> {
    pub(crate) fn mark_succeeded(mut self) {
        self.pending = None;
        for (slots, cost) in self.charges.into_iter().flatten() {
            GcraTable::refund(slots, cost);
        }
    }
}

impl Drop for AuthAttempt<'_> {
    fn drop(&mut self) {
        if let Some(PendingFailure { failures, account, client }) = self.pending.take() {
            failures.record(AttemptFailure::Failed, &account, client);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection(address: &str) -> AttemptSource {
        AttemptSource::Connection(address.parse().unwrap())
    }

    /// Of 1,000 guesses per second, one client gets 20 and then one per second; another client is not affected.
    #[test]
    fn attack_a11_guessing() {
        let guess_throttle = GuessThrottle::new();
        let guess = |client: &str, account: &str, milliseconds: u64| {
            let now = guess_throttle.start + Duration::from_millis(milliseconds);
            guess_throttle.start_attempt_at(connection(client), account, now).is_ok()
        };
        let accepted = |client: &str, account: &str, from: u64| {
            (from..from + 10_000).filter(|time| guess(client, account, *time)).count()
        };
        assert_eq!(accepted("192.0.2.1", "300:10.1/a", 0), 29);
        assert!(guess("198.51.100.1", "300:10.1/a", 10_000));
        assert!(guess("198.51.100.1", "300:10.1/A", 10_000));
        // Successful attempts are not limited.
        let now = guess_throttle.start + Duration::from_secs(60);
        let valid = connection("203.0.113.1");
        assert!((0..1_000).all(|_| {
            guess_throttle.start_attempt_at(valid, "c", now).map(AuthAttempt::mark_succeeded).is_ok()
        }));
        // Concurrent ones are, as if they had failed.
        let started: Vec<_> =
            (0..1_000).filter_map(|_| guess_throttle.start_attempt_at(valid, "c", now).ok()).collect();
        assert_eq!(started.len(), 20);
        started.into_iter().for_each(AuthAttempt::mark_succeeded);
        assert!(guess_throttle.start_attempt_at(valid, "c", now).is_ok());
        // A proxy that hides its clients: all of them together may fail as often as against one account.
        let all =
            (0..1_000).filter(|_| guess_throttle.start_attempt_at(AttemptSource::Hidden, "d", now).is_ok());
        assert_eq!(all.count(), 200);
    }

    /// The limit holds for the machine itself, too: a proxy on it that sets no headers makes every client one of loopback.
    #[test]
    fn audit_f10_loopback_is_limited() {
        let guess_throttle = GuessThrottle::new();
        let now = guess_throttle.start;
        for address in ["127.0.0.1", "::1"] {
            let guesses =
                (0..1_000).filter(|_| guess_throttle.start_attempt_at(connection(address), "x", now).is_ok());
            assert_eq!(guesses.count(), 20, "{address}");
        }
    }

    /// Ten clients that guess without end exhaust the limit of the account; its owner is not locked out, and other clients of
    /// their network are not, either.
    #[test]
    fn audit_f16_ten_clients_cannot_lock_an_account() {
        let guess_throttle = GuessThrottle::new();
        let start = |client: &str, second: u64| {
            let now = guess_throttle.start + Duration::from_secs(second);
            guess_throttle.start_attempt_at(connection(client), "300:10.1/a", now)
        };
        let mut guesses = 0;
        for second in 0..3_600 {
            for attacker in 1..=10 {
                let client = format!("192.0.2.{attacker}");
                guesses += (0..10).filter(|_| start(&client, second).is_ok()).count();
            }
            // With many requests at once, and from the attackers' network.
            for owner in ["198.51.100.1", "192.0.2.99"] {
                let started: Vec<_> = (0..10).filter_map(|_| start(owner, second).ok()).collect();
                assert_eq!(started.len(), 10, "{owner} in second {second}");
                started.into_iter().for_each(AuthAttempt::mark_succeeded);
            }
        }
        // Ten per second, and the bursts.
        assert!((35_000..=36_400).contains(&guesses), "{guesses}");
    }

    /// From any number of clients an account gets ten guesses per second, and each client its reserve.
    #[test]
    fn audit_f3_many_clients_against_one_account() {
        let guess_throttle = GuessThrottle::new();
        let source = |number: u32| {
            let [_, a, b, c] = number.wrapping_mul(0x9E37_79B1).to_be_bytes();
            IpAddr::from([11, a, b, c])
        };
        let guesses = |source: &dyn Fn(u32) -> AttemptSource, account: &str| {
            (0..20_000_u32)
                .filter(|number| {
                    let (source, now) = (source(number % 100), guess_throttle.start);
                    guess_throttle.start_attempt_at(source, account, now).is_ok()
                })
                .count()
        };
        // 20 of each client: its own limit.
        assert_eq!(guesses(&|number| AttemptSource::Connection(source(number)), "a"), 2_000);
        // Forged addresses have no reserve.
        assert_eq!(guesses(&|number| AttemptSource::Datagram(source(number)), "b"), 200);
    }

    /// Datagrams with forged addresses do not use up what connections from there may fail.
    #[test]
    fn audit_f3_forged_datagrams() {
        let guess_throttle = GuessThrottle::new();
        let (victim, now) = (IpAddr::from([192, 0, 2, 1]), guess_throttle.start);
        let guesses =
            |source| (0..1_000).filter(|_| guess_throttle.start_attempt_at(source, "a", now).is_ok()).count();
        assert_eq!(guesses(AttemptSource::Datagram(victim)), 20);
        assert_eq!(guesses(AttemptSource::Connection(victim)), 20);
    }
}
