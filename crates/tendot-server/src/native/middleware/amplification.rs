//! Limits on UDP responses to unverified addresses, against amplification of requests with forged source addresses.
//!
//! An address is verified for a while by a message over TCP. Until then it gets at most [`MAX_UNVERIFIED_RESPONSE_BYTES`] for one
//! request, and its network in any ten seconds at most the larger of a budget and three times the bytes received. Instead of a
//! larger response it gets an error that makes clients connect over TCP. Constant memory, no locks. Applies even if
//! rate limits are disabled, because the victims are third parties.

use std::array;
use std::hash::{BuildHasher as _, RandomState};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::client_network::truncate;

/// Maximum size of the response to one request of an unverified address.
pub(crate) const MAX_UNVERIFIED_RESPONSE_BYTES: usize = 1_600;

/// Time for which a TCP connection verifies an address.
const VERIFIED_TTL: Duration = Duration::from_secs(600);

/// Seconds that count: ten full ones and the current one, so that the limit holds for any ten seconds.
const WINDOW_SECONDS: u64 = 11;

/// Seconds in a ring of counts.
const RING_LEN: u64 = 12;

/// Number of slots of networks and of verified addresses; those with one slot share it.
const NETWORK_SLOTS: usize = 1 << 15;
const ADDRESS_SLOTS: usize = 1 << 16;

/// Kind of a response, which decides how much may be sent: the rest is reserved for errors, so that clients are always answered.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ResponseKind {
    /// The response itself.
    Full,
    /// The error in its place.
    TcpRequired,
}

impl ResponseKind {
    /// Maximum of the bytes sent in the window, for the bytes received in it.
    fn max_sent(self, budget_bytes: u64, received: u64) -> u64 {
        match self {
            Self::Full => (budget_bytes / 2).max(2 * received),
            // Three times, less the eleventh second.
            Self::TcpRequired => budget_bytes.max(received * 27 / 10),
        }
    }
}

/// Limits on UDP responses to unverified addresses.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct AmplificationLimits {
    /// Response bytes in ten seconds to a network (IPv4 /24, IPv6 /56) whose addresses are not verified by TCP, unless three times
    /// the bytes received from it are more.
    pub unverified_bytes: u64,
    /// Whether loopback addresses are limited, too. No other machine can forge them.
    pub limit_loopback: bool,
}

impl Default for AmplificationLimits {
    fn default() -> Self {
        Self { unverified_bytes: 16_000, limit_loopback: false }
    }
}

/// Limiter of UDP responses to unverified addresses.
#[derive(Debug)]
pub(crate) struct AmplificationLimiter {
    limits: AmplificationLimits,
    networks: Box<[[AtomicU64; RING_LEN as usize]]>,
    verified: Box<[AtomicU64]>,
    /// Randomly seeded, so that clients cannot choose which networks share a slot.
    hash: RandomState,
    start: Instant,
}

/// Bytes sent and received in one second, and the turn of the ring, packed into a word: 8, 28 and 28 bits.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct SecondCount {
    sent: u64,
    received: u64,
}

impl SecondCount {
    const MAX_BYTES: u64 = (1 << 28) - 1;

    /// Turn of the ring in a second.
    const fn turn(second: u64) -> u64 {
        (second / RING_LEN) & 0xff
    }

    /// Counts of a second; none if the word is of another turn.
    const fn unpack(word: u64, second: u64) -> Self {
        if word >> 56 == Self::turn(second) {
            Self { sent: (word >> 28) & Self::MAX_BYTES, received: word & Self::MAX_BYTES }
        } else {
            Self { sent: 0, received: 0 }
        }
    }

    const fn pack(self, second: u64) -> u64 {
        Self::turn(second) << 56 | self.sent << 28 | self.received
    }
}

impl AmplificationLimiter {
    pub(crate) fn new(limits: AmplificationLimits) -> Self {
        Self {
            limits,
            networks: (0..NETWORK_SLOTS).map(|_| array::from_fn(|_| AtomicU64::new(0))).collect(),
            verified: (0..ADDRESS_SLOTS).map(|_| AtomicU64::new(0)).collect(),
            hash: RandomState::new(),
            start: Instant::now(),
        }
    }

    /// Marks an address as verified by a connection.
    pub(crate) fn mark_verified(&self, address: IpAddr, now: Instant) {
        let (slot, tag) = self.verified_slot(address);
        let expiry = self.second(now) + VERIFIED_TTL.as_secs();
        if let Some(slot) = slot {
            slot.store(tag << 32 | (expiry & u64::from(u32::MAX)), Ordering::Relaxed);
        }
    }

    /// Whether responses to the address are limited: it is not verified, and may be forged.
    pub(crate) fn is_limited(&self, address: IpAddr, now: Instant) -> bool {
        let is_exempt = address.is_loopback() && !self.limits.limit_loopback;
        !is_exempt && !self.is_verified(address, now)
    }

    /// Whether a connection has verified the address lately.
    fn is_verified(&self, address: IpAddr, now: Instant) -> bool {
        let (slot, tag) = self.verified_slot(address);
        let word = slot.map_or(0, |slot| slot.load(Ordering::Relaxed));
        word >> 32 == tag && word & u64::from(u32::MAX) > self.second(now)
    }

    /// Charges a response to one request of an unverified address to its network; returns whether it may be sent. The bytes
    /// received count in any case.
    pub(crate) fn charge(
        &self,
        address: IpAddr,
        kind: ResponseKind,
        received: usize,
        sent: usize,
        now: Instant,
    ) -> bool {
        let network = (address.is_ipv4(), truncate(address, 24, 56));
        let slot = self.hash.hash_one(network) as usize % self.networks.len().max(1);
        let Some(ring) = self.networks.get(slot) else { return false };
        let second = self.second(now);
        let (received, sent) = (received as u64, sent as u64);
        let mut past = SecondCount::default();
        for earlier in second + 1 - WINDOW_SECONDS..second {
            let word = word_of(ring, earlier).map_or(0, |word| word.load(Ordering::Relaxed));
            let count = SecondCount::unpack(word, earlier);
            past.sent += count.sent;
            past.received += count.received;
        }
        let Some(current) = word_of(ring, second) else { return false };
        let mut word = current.load(Ordering::Relaxed);
        loop {
            let mut count = SecondCount::unpack(word, second);
            count.received = (count.received + received).min(SecondCount::MAX_BYTES);
            let max_sent = kind.max_sent(self.limits.unverified_bytes, past.received + count.received);
            let is_allowed = sent <= MAX_UNVERIFIED_RESPONSE_BYTES as u64
                && past.sent + count.sent + sent <= max_sent
                && count.sent + sent <= SecondCount::MAX_BYTES;
            if is_allowed {
                count.sent += sent;
            }
            let exchanged =
                current.compare_exchange_weak(word, count.pack(second), Ordering::Relaxed, Ordering::Relaxed);
            match exchanged {
                Ok(_) => return is_allowed,
                Err(changed) => word = changed,
            }
        }
    }

    /// Seconds since a ring's length before the start, so that all earlier seconds exist.
    fn second(&self, now: Instant) -> u64 {
        RING_LEN + now.saturating_duration_since(self.start).as_secs()
    }

    fn verified_slot(&self, address: IpAddr) -> (Option<&AtomicU64>, u64) {
        let hash = self.hash.hash_one(address);
        (self.verified.get(hash as usize % self.verified.len().max(1)), hash >> 32)
    }
}

/// Counts of a second in a ring.
fn word_of(ring: &[AtomicU64; RING_LEN as usize], second: u64) -> Option<&AtomicU64> {
    ring.get((second % RING_LEN) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUDGET: u64 = 16_000;

    fn new_limiter() -> AmplificationLimiter {
        AmplificationLimiter::new(AmplificationLimits { unverified_bytes: BUDGET, limit_loopback: false })
    }

    /// Bytes sent and received by second.
    struct Flood {
        limiter: AmplificationLimiter,
        sent: Vec<u64>,
        received: Vec<u64>,
    }

    impl Flood {
        fn new() -> Self {
            Self { limiter: new_limiter(), sent: Vec::new(), received: Vec::new() }
        }

        /// Sends requests of one network for a second; the error replaces responses that are not allowed.
        fn second(&mut self, requests: u64, request_len: usize, response_len: usize) {
            let now = self.limiter.start + Duration::from_secs(self.sent.len() as u64);
            let (mut sent, mut received) = (0, 0);
            for request in 0..requests {
                let client = IpAddr::from([192, 0, 2, (request % 256) as u8]);
                received += request_len as u64;
                let mut charge = |kind, request_len, response_len| {
                    let is_allowed = self.limiter.charge(client, kind, request_len, response_len, now);
                    sent += if is_allowed { response_len as u64 } else { 0 };
                    is_allowed
                };
                if !charge(ResponseKind::Full, request_len, response_len) {
                    charge(ResponseKind::TcpRequired, 0, 90);
                }
            }
            self.sent.push(sent);
            self.received.push(received);
        }

        /// Asserts the limit for all ten seconds, and returns the bytes sent.
        #[track_caller]
        fn check(&self) -> u64 {
            for (sent, received) in self.sent.windows(10).zip(self.received.windows(10)) {
                let (sent, received) = (sent.iter().sum::<u64>(), received.iter().sum::<u64>());
                assert!(sent <= BUDGET.max(3 * received), "{sent} bytes for {received}");
            }
            self.sent.iter().sum()
        }
    }

    #[test]
    fn audit_f6_limits_of_a_network() {
        // Steady, in bursts, and with a pause; small and large responses.
        for response_len in [100, 400, 1_600] {
            let mut steady = Flood::new();
            (0..60).for_each(|_| steady.second(100, 72, response_len));
            assert!(steady.check() <= 3 * 60 * 100 * 72);
            let mut bursts = Flood::new();
            (0..60)
                .for_each(|second| bursts.second(if second % 7 == 0 { 1_000 } else { 0 }, 72, response_len));
            bursts.check();
            let mut slow = Flood::new();
            (0..120).for_each(|_| slow.second(1, 72, response_len));
            slow.check();
        }
    }

    /// Every request of clients gets a response or the error.
    #[test]
    fn audit_f6_clients_are_answered() {
        let limiter = new_limiter();
        let client = IpAddr::from([192, 0, 2, 1]);
        for request in 0..10_000_u64 {
            let now = limiter.start + Duration::from_millis(request * 3);
            let is_answered = limiter.charge(client, ResponseKind::Full, 72, 1_500, now)
                || limiter.charge(client, ResponseKind::TcpRequired, 0, 90, now);
            assert!(is_answered, "request {request}");
        }
    }

    #[test]
    fn networks_are_independent() {
        let limiter = new_limiter();
        let sent = |address: &str| {
            let address = address.parse().unwrap();
            (0..1_000)
                .filter(|_| limiter.charge(address, ResponseKind::Full, 0, 1_000, limiter.start))
                .count()
        };
        assert_eq!(sent("192.0.2.1"), 8);
        assert_eq!(sent("192.0.2.2"), 0);
        assert_eq!(sent("2001:db8:0:1::1"), 8);
        assert_eq!(sent("2001:db8:0:ff::1"), 0);
        assert_eq!(sent("2001:db8:0:100::1"), 8);
    }

    #[test]
    fn verified_addresses() {
        let limiter = new_limiter();
        let (address, other) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2]));
        assert!(!limiter.is_verified(address, limiter.start));
        limiter.mark_verified(address, limiter.start);
        let after = |seconds| limiter.start + Duration::from_secs(seconds);
        assert!(limiter.is_verified(address, after(599)) && !limiter.is_verified(address, after(600)));
        assert!(!limiter.is_verified(other, limiter.start));
        assert!(limiter.is_limited(other, limiter.start) && !limiter.is_limited(address, limiter.start));
        assert!(!limiter.is_limited(IpAddr::from([127, 0, 0, 1]), limiter.start));
    }
}
