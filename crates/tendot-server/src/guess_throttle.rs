//! Rate limits for failed authentication attempts over HTTP and the native protocol, in constant memory.
//!
//! One limiter serves both protocols, so that an attacker cannot add up their limits. Attempts are limited per client, per network
//! and per account. An account's limit alone would let a few clients lock its owner out, so each client has a reserve for each
//! account: while the account's limit is exhausted, only clients that have failed rarely there may try.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use tendot_proto::ValueReference;

use crate::authenticated_key::canonical_handle;
use crate::authentication_failures::{AttemptFailure, AuthenticationFailures};
use crate::client_network::{client_network, provider_network};
use crate::gcra::{GcraReservation, GcraTable, Rate};

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

/// Account whose credentials an attempt presents.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ThrottledAccount<'a> {
    /// All API tokens.
    Tokens,
    /// Identity of a handle, by any of its keys.
    Identity(&'a ValueReference<'a>),
}

impl ThrottledAccount<'_> {
    /// Name in the log: the identity as it was claimed.
    fn to_log_name(self) -> Box<str> {
        match self {
            Self::Tokens => "operator".into(),
            Self::Identity(claim) => claim.to_string().into(),
        }
    }

    /// Key of the limits: the handle in its canonical form, without the index, since one key can be claimed by several indexes
    /// (0 stands for any). No handle has the key of the tokens.
    fn to_limit_key(self) -> String {
        match self {
            Self::Tokens => String::new(),
            Self::Identity(claim) => canonical_handle(claim.handle()),
        }
    }
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

/// One attempt, charged and recorded as failed unless `mark_succeeded` is called, even if it is cancelled.
pub(crate) struct AuthAttempt<'a> {
    reservations: Vec<GcraReservation<'a>>,
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

    /// Reserves an attempt, unless too many have failed.
    fn reserve<'t>(
        &'t self,
        address: IpAddr,
        now: u64,
        reservations: &mut Vec<GcraReservation<'t>>,
    ) -> Result<(), Duration> {
        let client = self.clients.slots(client_network(address));
        let network = self.networks.slots(provider_network(address));
        reservations.push(self.clients.reserve(client, now, CLIENT_FAILURE_RATE.interval_nanos())?);
        reservations.push(self.networks.reserve(network, now, NETWORK_FAILURE_RATE.interval_nanos())?);
        Ok(())
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
        account: ThrottledAccount<'_>,
    ) -> Result<AuthAttempt<'_>, Duration> {
        self.start_attempt_at(source, account, Instant::now()).inspect_err(|_| {
            self.failures.record(AttemptFailure::Throttled, &account.to_log_name(), source.address());
        })
    }

    fn start_attempt_at(
        &self,
        source: AttemptSource,
        account: ThrottledAccount<'_>,
        now: Instant,
    ) -> Result<AuthAttempt<'_>, Duration> {
        let now = u64::try_from(now.saturating_duration_since(self.start).as_nanos()).unwrap_or(u64::MAX);
        // Reserved at once: many attempts may start before the first one fails.
        let mut reservations = Vec::with_capacity(4);
        match self.reserve_attempt(source, &account.to_limit_key(), now, &mut reservations) {
            Ok(()) => {
                let (account, client) = (account.to_log_name(), source.address());
                let pending = PendingFailure { failures: &self.failures, account, client };
                Ok(AuthAttempt { reservations, pending: Some(pending) })
            }
            Err(wait) => {
                reservations.into_iter().for_each(GcraReservation::cancel);
                Err(wait)
            }
        }
    }

    /// Reserves an attempt at every limit that applies.
    fn reserve_attempt<'t>(
        &'t self,
        source: AttemptSource,
        account: &str,
        now: u64,
        reservations: &mut Vec<GcraReservation<'t>>,
    ) -> Result<(), Duration> {
        match source {
            AttemptSource::Connection(address) => self.connections.reserve(address, now, reservations)?,
            AttemptSource::Datagram(address) => self.datagrams.reserve(address, now, reservations)?,
            AttemptSource::Hidden => {}
        }
        let reserve = match source {
            AttemptSource::Connection(address) => {
                let slots = self.reserves.slots((client_network(address), account));
                self.reserves.reserve(slots, now, RESERVE_INTERVAL_NANOS).ok()
            }
            AttemptSource::Datagram(_) | AttemptSource::Hidden => None,
        };
        let has_reserve = reserve.is_some();
        reservations.extend(reserve);
        let slots = self.accounts.slots(account);
        match self.accounts.reserve(slots, now, ACCOUNT_FAILURE_RATE.interval_nanos()) {
            Ok(reservation) => reservations.push(reservation),
            Err(_) if has_reserve => {}
            Err(wait) => return Err(wait),
        }
        Ok(())
    }
}

impl AuthAttempt<'_> {
    pub(crate) fn mark_succeeded(mut self) {
        self.pending = None;
        std::mem::take(&mut self.reservations).into_iter().for_each(GcraReservation::cancel);
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

    impl GuessThrottle {
        fn try_at(
            &self,
            source: AttemptSource,
            account: &str,
            now: Instant,
        ) -> Result<AuthAttempt<'_>, Duration> {
            self.start_attempt_at(source, ThrottledAccount::Identity(&ValueReference::parse(account)), now)
        }
    }

    /// Of 1,000 guesses per second, one client gets 20 and then one per second; another client is not affected.
    #[test]
    fn attack_a11_guessing() {
        let guess_throttle = GuessThrottle::new();
        let guess = |client: &str, account: &str, milliseconds: u64| {
            let now = guess_throttle.start + Duration::from_millis(milliseconds);
            guess_throttle.try_at(connection(client), account, now).is_ok()
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
        assert!(
            (0..1_000)
                .all(|_| { guess_throttle.try_at(valid, "c", now).map(AuthAttempt::mark_succeeded).is_ok() })
        );
        // Concurrent ones are, as if they had failed.
        let started: Vec<_> =
            (0..1_000).filter_map(|_| guess_throttle.try_at(valid, "c", now).ok()).collect();
        assert_eq!(started.len(), 20);
        started.into_iter().for_each(AuthAttempt::mark_succeeded);
        assert!(guess_throttle.try_at(valid, "c", now).is_ok());
        // A proxy that hides its clients: all of them together may fail as often as against one account.
        let all = (0..1_000).filter(|_| guess_throttle.try_at(AttemptSource::Hidden, "d", now).is_ok());
        assert_eq!(all.count(), 200);
    }

    /// The limit holds for the machine itself, too: a proxy on it that sets no headers makes every client one of loopback.
    #[test]
    fn audit_f10_loopback_is_limited() {
        let guess_throttle = GuessThrottle::new();
        let now = guess_throttle.start;
        for address in ["127.0.0.1", "::1"] {
            let guesses = (0..1_000).filter(|_| guess_throttle.try_at(connection(address), "x", now).is_ok());
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
            guess_throttle.try_at(connection(client), "300:10.1/a", now)
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
                    guess_throttle.try_at(source, account, now).is_ok()
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
        let guesses = |source| (0..1_000).filter(|_| guess_throttle.try_at(source, "a", now).is_ok()).count();
        assert_eq!(guesses(AttemptSource::Datagram(victim)), 20);
        assert_eq!(guesses(AttemptSource::Connection(victim)), 20);
    }

    /// All claims of one handle share its limits: with any index, in any case, and as a prefix without `0.NA/`.
    #[test]
    fn audit_f3_one_account_per_identity_handle() {
        for names in [
            ["0:10.1/a", "300:10.1/a", "+301:10.1/A", "10.1/a"],
            ["0:10.1", "1:0.NA/10.1", "2:0.na/10.1", "10.1"],
        ] {
            let guess_throttle = GuessThrottle::new();
            let client = connection("192.0.2.1");
            let guesses = (0..1_000)
                .filter(|number| {
                    guess_throttle
                        .try_at(AttemptSource::Hidden, names[number % names.len()], guess_throttle.start)
                        .is_ok()
                })
                .count();
            assert_eq!(guesses, 200, "{names:?}");
            // The reserve of a client is one for all names, too.
            let guesses = (0..1_000).filter(|number| {
                guess_throttle.try_at(client, names[number % names.len()], guess_throttle.start).is_ok()
            });
            assert_eq!(guesses.count(), 20, "{names:?}");
        }
        let guess_throttle = GuessThrottle::new();
        let now = guess_throttle.start;
        while guess_throttle.start_attempt_at(AttemptSource::Hidden, ThrottledAccount::Tokens, now).is_ok() {}
        assert!(guess_throttle.try_at(AttemptSource::Hidden, "operator", now).is_ok());
    }
}
