//! Rate limits of HTTP requests, per client and per network.

use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use http::StatusCode;
use http::header::{self, HeaderValue};

use crate::client_network::{client_network, provider_network};
use crate::gcra::{GcraTable, Rate};
use crate::http::HttpServer;
use crate::http::middleware::client_address::RemoteClient;
use crate::http::middleware::metrics::RequestKind;
use crate::http::response::reply::{Reply, TEXT, reply};

/// Slots per row of each table.
const HTTP_SLOTS_PER_ROW: usize = 1 << 16;

/// Rate limits per client and per network.
#[derive(Clone, Copy, Debug)]
pub struct HttpRateLimits {
    /// Rate per IPv4 address or IPv6 /64 network.
    pub per_client: Rate,
    /// Rate per IPv4 /24 or IPv6 /48 network.
    pub per_network: Rate,
    /// Whether loopback addresses are limited, too.
    pub limit_loopback: bool,
}

/// Rate limiter for HTTP requests.
#[derive(Debug)]
pub(crate) struct HttpRateLimiter {
    rates: HttpRateLimits,
    clients: GcraTable,
    networks: GcraTable,
    start: Instant,
}

impl HttpRateLimiter {
    pub(crate) fn new(rates: HttpRateLimits) -> Self {
        Self {
            rates,
            clients: GcraTable::new(HTTP_SLOTS_PER_ROW, rates.per_client.burst_nanos()),
            networks: GcraTable::new(HTTP_SLOTS_PER_ROW, rates.per_network.burst_nanos()),
            start: Instant::now(),
        }
    }

    pub(crate) const fn is_loopback_exempt(&self) -> bool {
        !self.rates.limit_loopback
    }

    /// Whether the next request would be accepted; otherwise the time to wait.
    pub(crate) fn check(&self, address: IpAddr, now: Instant) -> Result<(), Duration> {
        let now = self.elapsed(now);
        self.clients.check(
            self.clients.slots(client_network(address)),
            now,
            self.rates.per_client.interval_nanos(),
        )?;
        self.networks.check(
            self.networks.slots(provider_network(address)),
            now,
            self.rates.per_network.interval_nanos(),
        )
    }

    /// Charges a request; if it exceeds the limit, returns the time to wait and charges nothing.
    pub(crate) fn charge(&self, address: IpAddr, now: Instant) -> Result<(), Duration> {
        self.check(address, now)?;
        let now = self.elapsed(now);
        GcraTable::charge(
            self.clients.slots(client_network(address)),
            now,
            self.rates.per_client.interval_nanos(),
        );
        GcraTable::charge(
            self.networks.slots(provider_network(address)),
            now,
            self.rates.per_network.interval_nanos(),
        );
        Ok(())
    }

    fn elapsed(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.start).as_nanos()).unwrap_or(u64::MAX)
    }
}

impl HttpServer {
    /// Reply to a client that exceeds its rate limit. Health checks are exempt.
    pub(crate) fn check_rate_limit(
        &self,
        client: &RemoteClient,
        kind: RequestKind,
        now: Instant,
    ) -> Option<Reply> {
        let rate_limiter = self
            .rate_limiter
            .as_ref()
            .filter(|rate_limiter| !(client.is_loopback && rate_limiter.is_loopback_exempt()))?;
        // A proxy that hides its clients would be limited for all of them together.
        if kind == RequestKind::Operations || self.is_client_hidden(client) {
            return None;
        }
        let wait = rate_limiter.charge(client.address, now).err()?;
        self.metrics.rate_limited.fetch_add(1, Ordering::Relaxed);
        Some(too_many_requests(wait))
    }

    /// Whether the request came through a trusted proxy that does not report its client.
    pub(crate) fn is_client_hidden(&self, client: &RemoteClient) -> bool {
        client.is_proxied && self.proxy_trust.is_trusted_proxy(client.address)
    }
}

/// Reply 429 with `Retry-After`.
pub(crate) fn too_many_requests(wait: Duration) -> Reply {
    let mut response = reply(
        StatusCode::TOO_MANY_REQUESTS,
        TEXT,
        "too many requests; retry after the time in Retry-After\n",
    );
    let seconds = wait.as_secs() + 1;
    response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    const RATES: HttpRateLimits = HttpRateLimits {
        per_client: Rate { per_second: 10, burst: 20 },
        per_network: Rate { per_second: 50, burst: 100 },
        limit_loopback: false,
    };

    #[test]
    fn limits_one_client() {
        let rate_limiter = HttpRateLimiter::new(RATES);
        let (address, start) = (IpAddr::from([192, 0, 2, 1]), rate_limiter.start);
        let accepted = |after: f64, times: usize| {
            let now = start + Duration::from_secs_f64(after);
            (0..times).filter(|_| rate_limiter.charge(address, now).is_ok()).count()
        };
        assert_eq!(accepted(0.0, 100), 20);
        assert_eq!(accepted(0.5, 100), 5);
        assert_eq!(accepted(60.0, 100), 20);
        let wait = rate_limiter.charge(address, start + Duration::from_secs(60)).unwrap_err();
        assert_eq!(wait, Duration::from_millis(100));
        // Another client, and the whole network.
        assert!(rate_limiter.charge([192, 0, 2, 2].into(), start + Duration::from_secs(60)).is_ok());
        let now = start + Duration::from_secs(120);
        let all = (0..=255).flat_map(|host| [IpAddr::from([192, 0, 2, host]); 10]);
        assert_eq!(all.filter(|address| rate_limiter.charge(*address, now).is_ok()).count(), 100);
        let all = (0..100_u16).map(|host| IpAddr::from([0x2001, 0xdb8, 0, 0, host, 0, 0, 1]));
        assert_eq!(all.filter(|address| rate_limiter.charge(*address, now).is_ok()).count(), 20);
    }

    /// One million requests of 100,000 sources within 100 seconds; 20 sources send half of them.
    #[test]
    fn attack_heavy_clients_among_many() {
        let rate_limiter = HttpRateLimiter::new(RATES);
        let mut state = 7_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let source = |number: u64| IpAddr::from((number as u32).wrapping_mul(0x9E37_79B1).to_be_bytes());
        let (mut greedy, mut rejected) = (HashMap::<u64, u64>::new(), 0);
        let size = rate_limiter.clients.slots.len();
        for request in 0..1_000_000_u64 {
            let now = rate_limiter.start + Duration::from_micros(request * 100);
            if request % 2 == 0 {
                let number = random(20);
                *greedy.entry(number).or_default() +=
                    u64::from(rate_limiter.charge(source(number), now).is_ok());
            } else {
                rejected += u64::from(rate_limiter.charge(source(20 + random(99_980)), now).is_err());
            }
        }
        // 250 requests per second each: ten are accepted, and the initial burst.
        for (number, accepted) in &greedy {
            assert!((900..=1_030).contains(accepted), "{number}: {accepted}");
        }
        // Five requests each within 100 seconds: only the few that share both slots with heavy clients are limited.
        assert!(rejected <= 50, "{rejected} of 500,000");
        assert_eq!(rate_limiter.clients.slots.len(), size);
    }
}
