//! How often somebody may guess: constant memory, however many there are.

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
const ACCOUNT: Rate = Rate { per_second: 10, burst: 200 };

/// Places of a row.
const PLACES: usize = 1 << 14;

/// Who has failed, and as whom.
#[derive(Debug)]
pub(crate) struct Attempts {
    clients: Limiter,
    accounts: Table,
    start: Instant,
}

impl Attempts {
    pub(crate) fn new() -> Self {
        let accounts = Table::new(PLACES, ACCOUNT.credit());
        Self { clients: Limiter::new(CLIENTS), accounts, start: Instant::now() }
    }

    /// Whether somebody may try to be this identity.
    pub(super) fn check(&self, request: &Request<'_>, account: &str) -> Result<(), AuthenticationError> {
        self.check_at(request, account, Instant::now()).map_err(AuthenticationError::TooOften)
    }

    fn check_at(&self, request: &Request<'_>, account: &str, now: Instant) -> Result<(), Duration> {
        let Some(client) = request.client.filter(|_| !request.is_here) else { return Ok(()) };
        self.clients.check(client, now)?;
        let places = self.accounts.places(account.to_ascii_uppercase());
        self.accounts.check(places, self.elapsed(now), ACCOUNT.cost())
    }

    /// Counts an attempt that failed, and hands back why.
    pub(super) fn failed(
        &self,
        request: &Request<'_>,
        account: &str,
        error: AuthenticationError,
    ) -> AuthenticationError {
        self.failed_at(request, account, Instant::now());
        error
    }

    fn failed_at(&self, request: &Request<'_>, account: &str, now: Instant) {
        let Some(client) = request.client.filter(|_| !request.is_here) else { return };
        // Whether it was one too many is asked before the next.
        let _ = self.clients.count(client, now);
        let places = self.accounts.places(account.to_ascii_uppercase());
        self.accounts.take(places, self.elapsed(now), ACCOUNT.cost());
    }

    fn elapsed(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.start).as_nanos()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, Version};

    use super::*;

    /// Of 1000 guesses a second, one client makes 20 and then one a second; another one is not held back for that.
    #[test]
    fn attack_a11_guessing() {
        let attempts = Attempts::new();
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
            let may = attempts.check_at(&request(client), account, now).is_ok();
            if may {
                attempts.failed_at(&request(client), account, now);
            }
            may
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
        assert!((0..1_000).all(|_| {
            attempts.failed_at(&here, "x", attempts.start);
            attempts.check_at(&here, "x", attempts.start).is_ok()
        }));
    }
}
