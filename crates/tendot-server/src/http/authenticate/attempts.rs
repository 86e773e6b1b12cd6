//! How often somebody may guess: constant memory, however many there are.

use std::net::IpAddr;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use super::AuthenticationError;
use crate::http::rate::{Limiter, Rate, Rates, Table};
use crate::http::request::Request;

/// Failures of one client, and of the network around it: a few at once, and then one a second.
const CLIENTS: Rates = Rates {
    client: Rate { per_second: 1, burst: 20 },
    network: Rate { per_second: 8, burst: 160 },
    loopback: false,
};

/// Failures against one identity, from wherever. More, so that a few clients cannot keep its owner out.
const ACCOUNT_FAILURE_RATE: Rate = Rate { per_second: 10, burst: 200 };

/// Places of a row.
const PLACES: usize = 1 << 14;

/// Signatures for one client, and for the network around it: each takes about as long as a proof.
const SIGNATURES: Rates = Rates {
    client: Rate { per_second: 10, burst: 50 },
    network: Rate { per_second: 80, burst: 400 },
    loopback: false,
};

/// Who has failed, and as whom.
#[derive(Debug)]
pub(crate) struct GuessThrottle {
    clients: Limiter,
    accounts: Table,
    signatures: Limiter,
    start: Instant,
}

/// An attempt to be somebody. It has failed, also if nobody waits for it any more, unless it has succeeded.
pub(crate) struct Attempt<'a> {
    attempts: &'a GuessThrottle,
    client: Option<IpAddr>,
    places: Option<[&'a AtomicU64; 2]>,
}

impl GuessThrottle {
    pub(crate) fn new() -> Self {
        let accounts = Table::new(PLACES, ACCOUNT_FAILURE_RATE.credit());
        let (clients, signatures) = (Limiter::new(CLIENTS), Limiter::new(SIGNATURES));
        Self { clients, accounts, signatures, start: Instant::now() }
    }

    /// Lets somebody try to be this identity, unless too many have failed.
    pub(crate) fn begin(
        &self,
        request: &Request<'_>,
        account: &str,
    ) -> Result<Attempt<'_>, AuthenticationError> {
        self.begin_at(request, account, Instant::now()).map_err(AuthenticationError::TooOften)
    }

    fn begin_at(&self, request: &Request<'_>, account: &str, now: Instant) -> Result<Attempt<'_>, Duration> {
        if request.is_here {
            return Ok(Attempt { attempts: self, client: None, places: None });
        }
        let (places, elapsed) = (self.accounts.places(account.to_ascii_uppercase()), self.elapsed(now));
        self.accounts.check(places, elapsed, ACCOUNT_FAILURE_RATE.cost())?;
        // Counted at once: many may come before the first of them has failed.
        if let Some(client) = request.client {
            self.clients.count(client, now)?;
        }
        self.accounts.take(places, elapsed, ACCOUNT_FAILURE_RATE.cost());
        Ok(Attempt { attempts: self, client: request.client, places: Some(places) })
    }

    /// Whether something is signed for a client.
    pub(super) fn charge_signature(&self, request: &Request<'_>) -> bool {
        let client = request.client.filter(|_| !request.is_here);
        client.is_none_or(|client| self.signatures.count(client, Instant::now()).is_ok())
    }

    fn elapsed(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.start).as_nanos()).unwrap_or(u64::MAX)
    }
}

impl Attempt<'_> {
    pub(crate) fn succeeded(self) {
        if let Some(client) = self.client {
            self.attempts.clients.give_back(client);
        }
        if let Some(places) = self.places {
            Table::give_back(places, ACCOUNT_FAILURE_RATE.cost());
        }
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, Version};

    use super::*;

    /// Of 1000 guesses a second, one client makes 20 and then one a second; another one is not held back for that.
    #[test]
    fn attack_a11_guessing() {
        let attempts = GuessThrottle::new();
        let headers = HeaderMap::new();
        let request = |client: &str| Request {
            query: None,
            headers: &headers,
            version: Version::HTTP_11,
            client: Some(client.parse().unwrap()),
            is_here: false,
            takes_credentials: true,
            certificate: None,
        };
        let guess = |client: &str, account: &str, milliseconds: u64| {
            let now = attempts.start + Duration::from_millis(milliseconds);
            attempts.begin_at(&request(client), account, now).is_ok()
        };
        let all = |client: &str, account: &str, from: u64| {
            (from..from + 10_000).filter(|at| guess(client, account, *at)).count()
        };
        assert_eq!(all("192.0.2.1", "300:10.1/a", 0), 29);
        assert!(guess("198.51.100.1", "300:10.1/a", 10_000));
        assert!(guess("198.51.100.1", "300:10.1/A", 10_000));
        // Many clients together, against one.
        let tries = (0..20_000_u32).filter(|number| {
            let [_, a, b, c] = number.wrapping_mul(0x9E37_79B1).to_be_bytes();
            guess(&format!("11.{a}.{b}.{c}"), "300:10.1/b", 20_000)
        });
        assert_eq!(tries.count(), 200);
        let here = Request { is_here: true, ..request("127.0.0.1") };
        assert!((0..1_000).all(|_| attempts.begin_at(&here, "x", attempts.start).is_ok()));
        // Who does not fail is not held back.
        let now = attempts.start + Duration::from_secs(60);
        let right = request("203.0.113.1");
        assert!((0..1_000).all(|_| attempts.begin_at(&right, "c", now).map(Attempt::succeeded).is_ok()));
        // All at the same time are, as if they had failed.
        let begun: Vec<_> = (0..1_000).filter_map(|_| attempts.begin_at(&right, "c", now).ok()).collect();
        assert_eq!(begun.len(), 20);
        begun.into_iter().for_each(Attempt::succeeded);
        assert!(attempts.begin_at(&right, "c", now).is_ok());
        // A proxy that does not say whom it asks for: all of them may fail as often as against one identity.
        let unknown = Request { client: None, ..right };
        let all = (0..1_000).filter(|_| attempts.begin_at(&unknown, "d", now).is_ok());
        assert_eq!(all.count(), 200);
    }
}
