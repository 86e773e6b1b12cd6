//! Rate limits per client and per network, in constant memory.
//!
//! The generic cell rate algorithm (GCRA) needs one number per client: the time at which its debt is paid off. Clients share
//! the slots of a fixed table by two independent hashes, and the lower debt counts: a client is limited for others only if both
//! of its slots are also those of heavy clients.

use std::hash::{BuildHasher as _, Hash, RandomState};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::http::middleware::client_address::{client_network, provider_network};

/// Slots per row.
const PLACES: usize = 1 << 16;

/// Sustained rate per second and burst.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Rate {
    /// Sustained requests per second.
    pub per_second: u32,
    /// Requests at once after an idle period.
    pub burst: u32,
}

/// Rate limits per client and per network.
#[derive(Clone, Copy, Debug)]
pub struct HttpRateLimits {
    /// Rate per IPv4 address or IPv6 /64 network.
    pub client: Rate,
    /// Rate per IPv4 /24 or IPv6 /48 network.
    pub network: Rate,
    /// Whether loopback addresses are limited, too.
    pub loopback: bool,
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
            clients: GcraTable::new(PLACES, rates.client.burst_nanos()),
            networks: GcraTable::new(PLACES, rates.network.burst_nanos()),
            start: Instant::now(),
        }
    }

    pub(crate) const fn is_loopback_exempt(&self) -> bool {
        !self.rates.loopback
    }

    /// Whether the next request would be accepted; otherwise the time to wait.
    pub(crate) fn check(&self, address: IpAddr, now: Instant) -> Result<(), Duration> {
        let now = self.elapsed(now);
        self.clients.check(
            self.clients.slots(client_network(address)),
            now,
            self.rates.client.interval_nanos(),
        )?;
        self.networks.check(
            self.networks.slots(provider_network(address)),
            now,
            self.rates.network.interval_nanos(),
        )
    }

    /// Charges a request; if it exceeds the limit, returns the time to wait and charges nothing.
    pub(crate) fn charge(&self, address: IpAddr, now: Instant) -> Result<(), Duration> {
        self.check(address, now)?;
        let now = self.elapsed(now);
        self.clients.charge(
            self.clients.slots(client_network(address)),
            now,
            self.rates.client.interval_nanos(),
        );
        self.networks.charge(
            self.networks.slots(provider_network(address)),
            now,
            self.rates.network.interval_nanos(),
        );
        Ok(())
    }

    /// Refunds a charged request.
    pub(crate) fn refund(&self, address: IpAddr) {
        GcraTable::refund(self.clients.slots(client_network(address)), self.rates.client.interval_nanos());
        GcraTable::refund(
            self.networks.slots(provider_network(address)),
            self.rates.network.interval_nanos(),
        );
    }

    fn elapsed(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.start).as_nanos()).unwrap_or(u64::MAX)
    }
}

impl Rate {
    /// Cost of a request in nanoseconds.
    pub(crate) fn interval_nanos(self) -> u64 {
        1_000_000_000 / u64::from(self.per_second.max(1))
    }

    /// Maximum debt in nanoseconds.
    pub(crate) fn burst_nanos(self) -> u64 {
        self.interval_nanos() * u64::from(self.burst.max(1))
    }
}

/// Generic cell rate algorithm (GCRA) for any number of keys in constant memory.
#[derive(Debug)]
pub(crate) struct GcraTable {
    /// Maximum debt in nanoseconds.
    credit: u64,
    /// Two rows of slots.
    places: Box<[AtomicU64]>,
    /// Randomly seeded, so that clients cannot choose with whom they share slots.
    hash: RandomState,
}

impl GcraTable {
    /// Creates a table with `places` eight-byte slots in each of two rows.
    pub(crate) fn new(places: usize, credit: u64) -> Self {
        let places = (0..2 * places).map(|_| AtomicU64::new(0)).collect();
        Self { credit, places, hash: RandomState::new() }
    }

    pub(crate) fn slots(&self, of: impl Hash) -> [&AtomicU64; 2] {
        let hash = self.hash.hash_one(of);
        let row = self.places.len() / 2;
        let (first, second) = (hash as usize % row, (hash >> 32) as usize % row);
        [&self.places[first], &self.places[row + second]]
    }

    /// Debt in nanoseconds from now.
    fn debt(places: [&AtomicU64; 2], now: u64) -> u64 {
        let [one, two] = places.map(|place| place.load(Ordering::Relaxed));
        one.min(two).saturating_sub(now)
    }

    /// Whether `cost` can be added to the debt; otherwise the time to wait.
    pub(crate) fn check(&self, places: [&AtomicU64; 2], now: u64, cost: u64) -> Result<(), Duration> {
        let owed = Self::debt(places, now) + cost;
        if owed <= self.credit { Ok(()) } else { Err(Duration::from_nanos(owed - self.credit)) }
    }

    pub(crate) fn charge(&self, places: [&AtomicU64; 2], now: u64, cost: u64) {
        let until = now + Self::debt(places, now) + cost;
        for place in places {
            place.fetch_max(until, Ordering::Relaxed);
        }
    }

    /// Subtracts a refunded cost.
    pub(crate) fn refund(places: [&AtomicU64; 2], cost: u64) {
        for place in places {
            let _ = place.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |until| until.checked_sub(cost));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    const RATES: HttpRateLimits = HttpRateLimits {
        client: Rate { per_second: 10, burst: 20 },
        network: Rate { per_second: 50, burst: 100 },
        loopback: false,
    };

    #[test]
    fn one_client() {
        let rate_limiter = HttpRateLimiter::new(RATES);
        let (address, start) = (IpAddr::from([192, 0, 2, 1]), rate_limiter.start);
        let taken = |after: f64, times: usize| {
            let now = start + Duration::from_secs_f64(after);
            (0..times).filter(|_| rate_limiter.charge(address, now).is_ok()).count()
        };
        assert_eq!(taken(0.0, 100), 20);
        assert_eq!(taken(0.5, 100), 5);
        assert_eq!(taken(60.0, 100), 20);
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
    fn attack_a_few_among_many() {
        let rate_limiter = HttpRateLimiter::new(RATES);
        let mut state = 7_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let source = |number: u64| IpAddr::from((number as u32).wrapping_mul(0x9E37_79B1).to_be_bytes());
        let (mut greedy, mut held_back) = (HashMap::<u64, u64>::new(), 0);
        let size = rate_limiter.clients.places.len();
        for request in 0..1_000_000_u64 {
            let now = rate_limiter.start + Duration::from_micros(request * 100);
            if request % 2 == 0 {
                let number = random(20);
                *greedy.entry(number).or_default() +=
                    u64::from(rate_limiter.charge(source(number), now).is_ok());
            } else {
                held_back += u64::from(rate_limiter.charge(source(20 + random(99_980)), now).is_err());
            }
        }
        // 250 requests per second each: ten are accepted, and the initial burst.
        for (number, taken) in &greedy {
            assert!((900..=1_030).contains(taken), "{number}: {taken}");
        }
        // Five requests each within 100 seconds: only the few that share both slots with heavy clients are limited.
        assert!(held_back <= 50, "{held_back} of 500,000");
        assert_eq!(rate_limiter.clients.places.len(), size);
    }
}
