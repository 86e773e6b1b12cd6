//! Duplicate detection for UDP requests: a copy of a request gets the reply to the first copy.
//!
//! Clients resend a request with the same request id until a reply arrives, and match the datagrams of replies by this id alone.
//! If each copy was executed, the client would mix fragments of different replies, or receive an error because the first copy has
//! used up the challenge or the message counter. So a copy of a request in flight is dropped, and a later copy gets the same bytes.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use tendot_proto::{Now, Reassembly};

use crate::client_network::truncate;
use crate::native::server::udp_socket::UdpPeer;

/// Lifetime of a cached reply; deployed clients resend a request for three seconds.
const REPLY_LIFETIME: Duration = Reassembly::TIMEOUT;

/// Maximum number of requests from one network (/24 of IPv4, /64 of IPv6), in flight or answered.
const MAX_REQUESTS_PER_NETWORK: usize = 64;

/// Share of one network in the memory budget.
const NETWORK_SHARE: usize = 8;

/// Memory overhead of a request: entries in two maps and a queue, which may be half empty.
const REQUEST_OVERHEAD_BYTES: usize = 512;

/// Requests of one socket that are in flight, and replies to recent ones. Clones share the replies.
///
/// Memory is bounded, in total and by network. Nothing is evicted: a request over the limit is handled without being remembered.
#[derive(Clone)]
pub(crate) struct UdpReplyCache(Arc<Mutex<ReplyTable>>);

/// Received request: the first copy, or a copy of a request that is in flight or answered.
pub(crate) enum ReceivedCopy {
    First(InFlightRequest),
    InFlight,
    Answered(Arc<[u8]>),
}

/// First copy of a request, in flight. Dropped without a reply, it is forgotten.
pub(crate) struct InFlightRequest {
    cache: UdpReplyCache,
    /// `None` if the request is not remembered.
    key: Option<RequestKey>,
}

/// Sender of a request, and SHA-256 of the message, with its request id and session id.
#[derive(Clone, Copy, Eq, Hash, PartialEq)]
struct RequestKey {
    from: UdpPeer,
    message_hash: [u8; 32],
}

enum RequestState {
    InFlight,
    Answered(Arc<[u8]>),
}

/// Requests and memory of one network.
#[derive(Clone, Copy, Default)]
struct NetworkUsage {
    requests: usize,
    bytes: usize,
}

struct ReplyTable {
    budget: usize,
    used_bytes: usize,
    requests: HashMap<RequestKey, RequestState>,
    /// Expiration times of replies, in order.
    expirations: VecDeque<(Duration, RequestKey)>,
    networks: HashMap<IpAddr, NetworkUsage>,
}

impl UdpReplyCache {
    /// Memory budget of all sockets together.
    pub(crate) const DEFAULT_BUDGET_BYTES: usize = 16 << 20;

    /// Empty cache with a budget of `budget` bytes.
    pub(crate) fn with_budget(budget: usize) -> Self {
        Self(Arc::new(Mutex::new(ReplyTable {
            budget,
            used_bytes: 0,
            requests: HashMap::new(),
            expirations: VecDeque::new(),
            networks: HashMap::new(),
        })))
    }

    /// Looks up a request; the first copy is in flight from now on.
    pub(crate) fn begin(&self, now: Now, from: UdpPeer, message: &[u8]) -> ReceivedCopy {
        let mut message_hash = [0; 32];
        message_hash.copy_from_slice(digest(&SHA256, message).as_ref());
        let key = RequestKey { from, message_hash };
        let mut table = self.lock();
        table.purge_expired(now);
        match table.requests.get(&key) {
            Some(RequestState::InFlight) => ReceivedCopy::InFlight,
            Some(RequestState::Answered(reply)) => ReceivedCopy::Answered(Arc::clone(reply)),
            None => {
                let key = table.insert(key).then_some(key);
                ReceivedCopy::First(InFlightRequest { cache: self.clone(), key })
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, ReplyTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl InFlightRequest {
    /// Caches the reply, if it fits.
    pub(crate) fn finish(mut self, now: Now, reply: &[u8]) {
        if let Some(key) = self.key.take() {
            self.cache.lock().insert_reply(now, key, reply);
        }
    }
}

impl Drop for InFlightRequest {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            self.cache.lock().remove(&key);
        }
    }
}

impl RequestKey {
    fn network(&self) -> IpAddr {
        truncate(self.from.address.ip().to_canonical(), 24, 64)
    }
}

impl ReplyTable {
    /// Adds a request in flight; returns whether it fits.
    fn insert(&mut self, key: RequestKey) -> bool {
        let fits = self.reserve(key.network(), 1, REQUEST_OVERHEAD_BYTES);
        if fits {
            self.requests.insert(key, RequestState::InFlight);
        }
        fits
    }

    /// Adds the reply to a request in flight; without room for it, the request is removed.
    fn insert_reply(&mut self, now: Now, key: RequestKey, reply: &[u8]) {
        if !self.reserve(key.network(), 0, reply.len()) {
            return self.remove(&key);
        }
        self.requests.insert(key, RequestState::Answered(reply.into()));
        self.expirations.push_back((now.elapsed + REPLY_LIFETIME, key));
    }

    /// Counts requests and bytes of a network; returns whether they fit.
    fn reserve(&mut self, network: IpAddr, requests: usize, bytes: usize) -> bool {
        let NetworkUsage { requests: used_requests, bytes: used_bytes } =
            self.networks.get(&network).copied().unwrap_or_default();
        let usage = NetworkUsage { requests: used_requests + requests, bytes: used_bytes + bytes };
        let fits = self.used_bytes + bytes <= self.budget
            && usage.bytes <= self.budget / NETWORK_SHARE
            && usage.requests <= MAX_REQUESTS_PER_NETWORK;
        if fits {
            self.used_bytes += bytes;
            self.networks.insert(network, usage);
        }
        fits
    }

    fn purge_expired(&mut self, now: Now) {
        while let Some((expires_at, key)) = self.expirations.front().copied()
            && expires_at <= now.elapsed
        {
            self.expirations.pop_front();
            self.remove(&key);
        }
    }

    fn remove(&mut self, key: &RequestKey) {
        let bytes = match self.requests.remove(key) {
            Some(RequestState::InFlight) => REQUEST_OVERHEAD_BYTES,
            Some(RequestState::Answered(reply)) => REQUEST_OVERHEAD_BYTES + reply.len(),
            None => return,
        };
        self.used_bytes -= bytes;
        let network = key.network();
        if let Some(usage) = self.networks.get_mut(&network) {
            usage.requests -= 1;
            usage.bytes -= bytes;
            if usage.requests == 0 {
                self.networks.remove(&network);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Now {
        Now { elapsed: Duration::from_secs(seconds), unix: 0 }
    }

    fn peer(address: &str) -> UdpPeer {
        UdpPeer { address: address.parse().unwrap(), local: None }
    }

    #[track_caller]
    fn first(copy: ReceivedCopy) -> InFlightRequest {
        match copy {
            ReceivedCopy::First(request) => request,
            ReceivedCopy::InFlight => panic!("in flight"),
            ReceivedCopy::Answered(_) => panic!("answered"),
        }
    }

    #[track_caller]
    fn reply(copy: ReceivedCopy) -> Vec<u8> {
        match copy {
            ReceivedCopy::Answered(reply) => reply.to_vec(),
            _ => panic!("not answered"),
        }
    }

    fn sizes(cache: &UdpReplyCache) -> [usize; 4] {
        let table = cache.lock();
        [table.used_bytes, table.requests.len(), table.expirations.len(), table.networks.len()]
    }

    #[test]
    fn copies_get_the_first_reply() {
        let cache = UdpReplyCache::with_budget(1 << 20);
        let from = peer("192.0.2.1:5000");
        let request = first(cache.begin(at(0), from, b"request"));
        // In flight for longer than replies are cached.
        for seconds in [0, 20] {
            assert!(matches!(cache.begin(at(seconds), from, b"request"), ReceivedCopy::InFlight));
        }
        request.finish(at(20), b"reply");
        for seconds in [20, 24] {
            assert_eq!(reply(cache.begin(at(seconds), from, b"request")), b"reply");
        }
        drop(first(cache.begin(at(25), from, b"request")));
        assert_eq!(sizes(&cache), [0; 4]);
    }

    #[test]
    fn other_requests_are_not_copies() {
        let cache = UdpReplyCache::with_budget(1 << 20);
        let from = peer("192.0.2.1:5000");
        first(cache.begin(at(0), from, b"request")).finish(at(0), b"reply");
        let other_local = UdpPeer { local: Some([192, 0, 2, 7].into()), ..from };
        for (from, message) in [
            (peer("192.0.2.1:5001"), b"request"),
            (peer("192.0.2.2:5000"), b"request"),
            (other_local, b"request"),
            (from, b"another"),
        ] {
            drop(first(cache.begin(at(0), from, message)));
        }
        assert_eq!(reply(cache.begin(at(0), from, b"request")), b"reply");
    }

    #[test]
    fn requests_without_reply_are_forgotten() {
        let cache = UdpReplyCache::with_budget(1 << 20);
        let from = peer("192.0.2.1:5000");
        for _ in 0..2 {
            drop(first(cache.begin(at(0), from, b"request")));
            assert_eq!(sizes(&cache), [0; 4]);
        }
    }

    /// One network cannot use up the cache; requests over the limit are handled, but not remembered.
    #[test]
    fn bounded_by_network() {
        let cache = UdpReplyCache::with_budget(1 << 20);
        let send = |from: &str, number: u32| cache.begin(at(0), peer(from), &number.to_be_bytes());
        for number in 0..100 {
            first(send("192.0.2.1:5000", number)).finish(at(0), b"reply");
        }
        assert_eq!(reply(send("192.0.2.1:5000", 63)), b"reply");
        drop(first(send("192.0.2.1:5000", 64)));
        drop(first(send("192.0.2.99:5000", 0)));
        first(send("192.0.3.1:5000", 0)).finish(at(0), b"reply");
        assert_eq!(reply(send("192.0.3.1:5000", 0)), b"reply");
        assert_eq!(sizes(&cache), [65 * (REQUEST_OVERHEAD_BYTES + 5), 65, 65, 2]);
        // A large reply of a network without others.
        first(send("192.0.4.1:5000", 0)).finish(at(0), &vec![7; (1 << 20) / NETWORK_SHARE]);
        drop(first(send("192.0.4.1:5000", 0)));
        drop(first(cache.begin(at(5), peer("192.0.4.1:5000"), b"request")));
        assert_eq!(sizes(&cache), [0; 4]);
    }

    #[test]
    fn bounded_in_total() {
        let budget = 100 * REQUEST_OVERHEAD_BYTES;
        let cache = UdpReplyCache::with_budget(budget);
        let send = |number: u32, seconds| {
            let from = UdpPeer { address: ([10, 0, number as u8, 1], 5000).into(), local: None };
            cache.begin(at(seconds), from, b"request")
        };
        let requests: Vec<_> = (0..150).map(|number| first(send(number, 0))).collect();
        assert_eq!(sizes(&cache), [budget, 100, 0, 100]);
        for request in requests {
            // There is no room for replies until requests were removed for that.
            request.finish(at(0), &[7; REQUEST_OVERHEAD_BYTES]);
            assert!(sizes(&cache)[0] <= budget);
        }
        let [_, requests, expirations, networks] = sizes(&cache);
        assert!(requests > 0 && requests == expirations && requests == networks, "{requests}");
        drop(first(send(0, 5)));
        assert_eq!(sizes(&cache), [0; 4]);
    }
}
