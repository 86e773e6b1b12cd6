//! Rate limits for failed authentication attempts, in constant memory.

use std::net::IpAddr;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use crate::gcra::{GcraTable, Rate};
use crate::http::authentication::AuthenticationError;
use crate::http::middleware::rate_limit::{HttpRateLimiter, HttpRateLimits};
use crate::http::request::request_head::RequestHead;

/// Failures per client and per network: a small burst, then one per second.
const CLIENT_FAILURE_LIMITS: HttpRateLimits = HttpRateLimits {
    per_client: Rate { per_second: 1, burst: 20 },
    per_network: Rate { per_second: 8, burst: 160 },
    limit_loopback: false,
};

/// Failures per account, from all clients. Higher, so that a few clients cannot lock its owner out.
const ACCOUNT_FAILURE_RATE: Rate = Rate { per_second: 10, burst: 200 };

/// Slots per row of the account table.
const ACCOUNT_SLOTS_PER_ROW: usize = 1 << 14;

/// Server signatures per client and per network: each costs about as much as verifying a proof.
const SIGNATURE_LIMITS: HttpRateLimits = HttpRateLimits {
    per_client: Rate { per_second: 10, burst: 50 },
    per_network: Rate { per_second: 80, burst: 400 },
    limit_loopback: false,
};

/// Rate limits for failed authentication attempts, per client and per account.
#[derive(Debug)]
pub(crate) struct GuessThrottle {
    clients: HttpRateLimiter,
    accounts: GcraTable,
    signatures: HttpRateLimiter,
    start: Instant,
}

/// One attempt, charged as failed until `mark_succeeded` refunds it, also if it is cancelled.
pub(crate) struct AuthAttempt<'a> {
    guess_throttle: &'a GuessThrottle,
    client: Option<IpAddr>,
    account_slots: Option<[&'a AtomicU64; 2]>,
}

impl GuessThrottle {
    pub(crate) fn new() -> Self {
        let accounts = GcraTable::new(ACCOUNT_SLOTS_PER_ROW, ACCOUNT_FAILURE_RATE.burst_nanos());
        let (clients, signatures) =
            (HttpRateLimiter::new(CLIENT_FAILURE_LIMITS), HttpRateLimiter::new(SIGNATURE_LIMITS));
        Self { clients, accounts, signatures, start: Instant::now() }
    }

    /// Starts an attempt to authenticate as this identity, unless too many have failed.
    pub(crate) fn start_attempt(
        &self,
        request: &RequestHead<'_>,
        account: &str,
    ) -> Result<AuthAttempt<'_>, AuthenticationError> {
        self.start_attempt_at(request, account, Instant::now()).map_err(AuthenticationError::Throttled)
    }

    fn start_attempt_at(
        &self,
        request: &RequestHead<'_>,
        account: &str,
        now: Instant,
    ) -> Result<AuthAttempt<'_>, Duration> {
        if request.is_loopback {
            return Ok(AuthAttempt { guess_throttle: self, client: None, account_slots: None });
        }
        let (account_slots, elapsed) = (self.accounts.slots(account.to_ascii_uppercase()), self.elapsed(now));
        self.accounts.check(account_slots, elapsed, ACCOUNT_FAILURE_RATE.interval_nanos())?;
        // Charged at once: many attempts may start before the first one fails.
        if let Some(client) = request.client {
            self.clients.charge(client, now)?;
        }
        self.accounts.charge(account_slots, elapsed, ACCOUNT_FAILURE_RATE.interval_nanos());
        Ok(AuthAttempt { guess_throttle: self, client: request.client, account_slots: Some(account_slots) })
    }

    /// Whether the client may have another server signature.
    pub(crate) fn charge_signature(&self, request: &RequestHead<'_>) -> bool {
        let client = request.client.filter(|_| !request.is_loopback);
        client.is_none_or(|client| self.signatures.charge(client, Instant::now()).is_ok())
    }

    fn elapsed(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.start).as_nanos()).unwrap_or(u64::MAX)
    }
}

impl AuthAttempt<'_> {
    pub(crate) fn mark_succeeded(self) {
        if let Some(client) = self.client {
            self.guess_throttle.clients.refund(client);
        }
        if let Some(slots) = self.account_slots {
            GcraTable::refund(slots, ACCOUNT_FAILURE_RATE.interval_nanos());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use http::{HeaderMap, Version};

    use super::*;
    use crate::http::authentication::AuthenticationCell;

    /// Of 1,000 guesses per second, one client gets 20 and then one per second; another client is not affected.
    #[test]
    fn attack_a11_guessing() {
        let guess_throttle = GuessThrottle::new();
        let headers = HeaderMap::new();
        let authentication = AuthenticationCell::default();
        let request = |client: &str| RequestHead {
            query: None,
            headers: &headers,
            version: Version::HTTP_11,
            client: Some(client.parse().unwrap()),
            is_loopback: false,
            is_proxied: false,
            accepts_credentials: true,
            certificate: None,
            authentication: &authentication,
            now: SystemTime::UNIX_EPOCH,
        };
        let guess = |client: &str, account: &str, milliseconds: u64| {
            let now = guess_throttle.start + Duration::from_millis(milliseconds);
            guess_throttle.start_attempt_at(&request(client), account, now).is_ok()
        };
        let accepted = |client: &str, account: &str, from: u64| {
            (from..from + 10_000).filter(|time| guess(client, account, *time)).count()
        };
        assert_eq!(accepted("192.0.2.1", "300:10.1/a", 0), 29);
        assert!(guess("198.51.100.1", "300:10.1/a", 10_000));
        assert!(guess("198.51.100.1", "300:10.1/A", 10_000));
        // Many clients against one account.
        let accepted = (0..20_000_u32).filter(|number| {
            let [_, a, b, c] = number.wrapping_mul(0x9E37_79B1).to_be_bytes();
            guess(&format!("11.{a}.{b}.{c}"), "300:10.1/b", 20_000)
        });
        assert_eq!(accepted.count(), 200);
        let loopback = RequestHead { is_loopback: true, ..request("127.0.0.1") };
        assert!(
            (0..1_000).all(|_| guess_throttle.start_attempt_at(&loopback, "x", guess_throttle.start).is_ok())
        );
        // Successful attempts are not limited.
        let now = guess_throttle.start + Duration::from_secs(60);
        let valid = request("203.0.113.1");
        assert!((0..1_000).all(|_| {
            guess_throttle.start_attempt_at(&valid, "c", now).map(AuthAttempt::mark_succeeded).is_ok()
        }));
        // Concurrent ones are, as if they had failed.
        let started: Vec<_> =
            (0..1_000).filter_map(|_| guess_throttle.start_attempt_at(&valid, "c", now).ok()).collect();
        assert_eq!(started.len(), 20);
        started.into_iter().for_each(AuthAttempt::mark_succeeded);
        assert!(guess_throttle.start_attempt_at(&valid, "c", now).is_ok());
        // A proxy that hides its clients: all of them together may fail as often as against one account.
        let hidden = RequestHead { client: None, ..valid };
        let all = (0..1_000).filter(|_| guess_throttle.start_attempt_at(&hidden, "d", now).is_ok());
        assert_eq!(all.count(), 200);
    }
}
