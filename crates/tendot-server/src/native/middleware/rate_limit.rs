//! Rate limits per source and per network around it, in constant memory.
//!
//! The source address of a datagram is unverified, so responses to it are limited, and with them amplification attacks on third
//! parties: a number of datagrams per second, and beyond it only responses of at most three times the size of the request. CPU
//! time is limited for all transports. As in Knot DNS, each network around an address has its own limit, lower than the sum of
//! those within it.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use ipnet::IpNet;

use crate::client_network::truncate;
use crate::gcra::{GcraTable, Rate};
use crate::native::MessageClient;

/// Limits on response datagrams and CPU time per source.
#[derive(Clone, Debug)]
pub struct NativeRateLimits {
    /// Response datagrams per address.
    pub datagrams: Rate,
    /// CPU time per second and address.
    pub cpu_per_second: Duration,
    /// Whether loopback addresses are limited, too.
    pub limit_loopback: bool,
    /// Exempt networks.
    pub exempt: Vec<IpNet>,
}

/// Maximum amplification factor of single-datagram responses that are sent beyond the rate.
pub(crate) const MAX_AMPLIFICATION: usize = 3;

/// Prefix lengths of the networks around an address, and their limits as multiples of an address's: datagrams, CPU time.
const IPV4_NETWORKS: [(u32, u64, u64); 4] = [(32, 1, 1), (24, 32, 4), (20, 256, 8), (18, 768, 16)];
const IPV6_NETWORKS: [(u32, u64, u64); 5] = [(128, 1, 1), (64, 2, 1), (56, 3, 2), (48, 4, 4), (32, 64, 16)];

/// Slots per row: 4 MiB for each of two tables.
const NATIVE_SLOTS_PER_ROW: usize = 1 << 18;

/// Seconds of unused CPU time that accumulate.
const CPU_BURST_SECONDS: u64 = 2;

/// Rate limiter for nested networks around a source address.
#[derive(Debug)]
pub(crate) struct NativeRateLimiter {
    rates: NativeRateLimits,
    responses: GcraTable,
    cpu: GcraTable,
    start: Instant,
}

impl NativeRateLimiter {
    pub(crate) fn new(rates: NativeRateLimits) -> Self {
        Self {
            responses: GcraTable::new(NATIVE_SLOTS_PER_ROW, rates.datagrams.burst_nanos()),
            cpu: GcraTable::new(NATIVE_SLOTS_PER_ROW, CPU_BURST_SECONDS * 1_000_000_000),
            start: Instant::now(),
            rates,
        }
    }

    pub(crate) fn is_exempt(&self, client: MessageClient) -> bool {
        let is_in =
            |network: &IpNet| client.address.is_some_and(|address| network.contains(&address.to_canonical()));
        client.is_loopback && !self.rates.limit_loopback || self.rates.exempt.iter().any(is_in)
    }

    /// Charges response datagrams to an address; returns whether they may be sent.
    pub(crate) fn charge_response(&self, address: IpAddr, datagrams: usize, now: Instant) -> bool {
        let cost = self.rates.datagrams.interval_nanos().saturating_mul(datagrams as u64);
        // After an idle period, a response of any length is sent; it then takes longer to recover.
        let capped = |cost: u64| cost.min(self.rates.datagrams.burst_nanos());
        let now = self.elapsed(now);
        let slots = || {
            enclosing_networks(address)
                .map(|(network, times, _)| (self.responses.slots(network), cost / times))
        };
        if slots().any(|(slots, cost)| self.responses.check(slots, now, capped(cost)).is_err()) {
            return false;
        }
        slots().for_each(|(slots, cost)| GcraTable::charge(slots, now, cost));
        true
    }

    /// Whether an address has CPU budget left.
    pub(crate) fn has_cpu_budget(&self, address: IpAddr, now: Instant) -> bool {
        let now = self.elapsed(now);
        enclosing_networks(address)
            .all(|(network, ..)| self.cpu.check(self.cpu.slots(network), now, 0).is_ok())
    }

    /// Charges CPU time in microseconds.
    pub(crate) fn charge_cpu(&self, address: IpAddr, microseconds: u32, now: Instant) {
        let per_second = u64::try_from(self.rates.cpu_per_second.as_micros()).unwrap_or(u64::MAX).max(1);
        let (now, cost) = (self.elapsed(now), u64::from(microseconds) * 1_000_000_000 / per_second);
        for (network, _, times) in enclosing_networks(address) {
            GcraTable::charge(self.cpu.slots(network), now, cost / times);
        }
    }

    fn elapsed(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.start).as_nanos()).unwrap_or(u64::MAX)
    }
}

/// Networks around an address, with their prefix length, since their first addresses may coincide.
fn enclosing_networks(address: IpAddr) -> impl Iterator<Item = ((IpAddr, u32), u64, u64)> {
    let address = address.to_canonical();
    let around: &'static [_] = if address.is_ipv4() { &IPV4_NETWORKS } else { &IPV6_NETWORKS };
    around
        .iter()
        .map(move |(bits, responses, cpu)| ((truncate(address, *bits, *bits), *bits), *responses, *cpu))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate_limiter() -> NativeRateLimiter {
        NativeRateLimiter::new(NativeRateLimits {
            datagrams: Rate { per_second: 10, burst: 20 },
            cpu_per_second: Duration::from_millis(100),
            limit_loopback: false,
            exempt: vec!["192.0.2.128/25".parse().unwrap()],
        })
    }

    #[test]
    fn exemptions() {
        let rate_limiter = rate_limiter();
        let check = |address: &str, expected| {
            let client = MessageClient::direct(address.parse().unwrap());
            assert_eq!(rate_limiter.is_exempt(client), expected);
        };
        check("127.0.0.1", true);
        check("::ffff:127.0.0.1", true);
        check("192.0.2.200", true);
        check("192.0.2.1", false);
        check("::2", false);
    }

    #[test]
    fn limits_responses() {
        let rate_limiter = rate_limiter();
        let at = |seconds: f64| rate_limiter.start + Duration::from_secs_f64(seconds);
        let sent = |address: &str, seconds, times: usize, datagrams| {
            let address = address.parse().unwrap();
            (0..times).filter(|_| rate_limiter.charge_response(address, datagrams, at(seconds))).count()
        };
        assert_eq!(sent("192.0.2.1", 0.0, 100, 1), 20);
        assert_eq!(sent("192.0.2.1", 0.5, 100, 1), 5);
        assert_eq!(sent("::ffff:192.0.2.1", 0.5, 100, 1), 0);
        // A response of 500 datagrams, then nothing for 50 seconds.
        assert_eq!(sent("192.0.2.1", 60.0, 100, 500), 1);
        assert_eq!(sent("192.0.2.1", 100.0, 100, 1), 0);
        assert_eq!(sent("192.0.2.1", 110.0, 100, 1), 20);
        // A /24 gets as much as 32 addresses.
        let all: usize = (0..=255).map(|host| sent(&format!("198.51.100.{host}"), 0.0, 20, 1)).sum();
        assert_eq!(all, 640);
        let all: usize = (0..1_000).map(|host| sent(&format!("2001:db8::{host:x}"), 0.0, 20, 1)).sum();
        assert_eq!(all, 40);
    }

    #[test]
    fn limits_cpu() {
        let rate_limiter = rate_limiter();
        let (address, at) =
            ([192, 0, 2, 1].into(), |seconds| rate_limiter.start + Duration::from_secs(seconds));
        assert!(rate_limiter.has_cpu_budget(address, at(0)));
        // CPU time is charged even beyond the budget.
        rate_limiter.charge_cpu(address, 1_000_000, at(0));
        assert!(!rate_limiter.has_cpu_budget(address, at(7)));
        assert!(rate_limiter.has_cpu_budget(address, at(8)));
        assert!(rate_limiter.has_cpu_budget([198, 51, 100, 1].into(), at(0)));
    }

    /// 100,000 sources send ten requests each within ten seconds; ten of them send a twentieth of all.
    #[test]
    fn attack_u2_a_million_datagrams() {
        let rate_limiter = rate_limiter();
        let mut state = 7_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let source = |number: u64| IpAddr::from((number as u32).wrapping_mul(0x9E37_79B1).to_be_bytes());
        let (mut greedy, mut rejected) = ([0_u32; 10], 0);
        for request in 0..1_000_000_u64 {
            let now = rate_limiter.start + Duration::from_micros(request * 10);
            if request % 20 == 0 {
                let number = random(10);
                greedy[number as usize] += u32::from(rate_limiter.charge_response(source(number), 1, now));
            } else {
                rejected += u32::from(!rate_limiter.charge_response(source(10 + random(99_990)), 1, now));
            }
        }
        // 500 datagrams per second each: ten are answered, and the initial burst.
        assert!(greedy.iter().all(|sent| (100..=130).contains(sent)), "{greedy:?}");
        assert!(rejected < 10_000, "{rejected} of 950,000");
    }
}
