//! UDP reassembly: joins the datagrams of a message within fixed memory limits.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

use super::fragment::message_len;
use crate::error::DecodeError;
use crate::limits;
use crate::message::{Envelope, EnvelopeFlags};
use crate::now::Now;

/// Bounded reassembly buffer for fragmented messages.
///
/// Source addresses of datagrams are not verified, so memory is bounded: it grows with the received bytes, never by an
/// announced length; a partial message expires after five seconds; one network (/24 of IPv4, /64 of IPv6) has at most
/// 64 partial messages; over the budget the oldest is evicted. The message length decides whether a message has several
/// datagrams; the flag `TRUNCATED` is ignored.
///
/// ```
/// use core::time::Duration;
/// use tendot_proto::{Envelope, Fragments, Now, Reassembly, ProtocolVersion};
///
/// let mut message = Envelope { length: 600, ..Envelope::new(ProtocolVersion::LATEST) }.to_bytes().to_vec();
/// message.resize(620, 7);
/// let datagrams: Vec<_> = Fragments::new(&message)?.collect();
///
/// let mut reassembly = Reassembly::new();
/// let now = Now { elapsed: Duration::ZERO, unix: 1_700_000_000 };
/// let from = "192.0.2.1:2641".parse()?;
/// assert_eq!(reassembly.insert(now, from, &datagrams[1])?, None);
/// assert_eq!(reassembly.insert(now, from, &datagrams[0])?.as_deref(), Some(&*message));
/// assert!(reassembly.insert(now, from, b"noise").is_err());
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Reassembly {
    budget: usize,
    used_bytes: usize,
    partial: BTreeMap<FragmentKey, PartialMessage>,
    /// Partial messages in order of arrival.
    by_age: BTreeMap<u64, FragmentKey>,
    /// Partial messages by source network, in order of arrival.
    by_network: BTreeMap<IpAddr, BTreeSet<u64>>,
    next_arrival: u64,
}

/// Source address, request id and length that identify a fragmented message.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct FragmentKey {
    from: SocketAddr,
    request_id: u32,
    length: u32,
}

/// Fragments of one message received so far.
#[derive(Debug)]
struct PartialMessage {
    /// Envelope of the complete message.
    envelope: Envelope,
    arrival: u64,
    started_at: Duration,
    fragments: BTreeMap<u32, Box<[u8]>>,
}

impl Reassembly {
    /// Default memory budget in bytes.
    pub const DEFAULT_BUDGET_BYTES: usize = 8 << 20;

    /// Time after which a partial message is dropped.
    pub const TIMEOUT: Duration = Duration::from_secs(5);

    /// Maximum number of partial messages from one network.
    pub const MAX_MESSAGES_PER_NETWORK: usize = 64;

    /// Memory overhead of a partial message: entries in four maps, whose nodes may be half empty.
    const MESSAGE_OVERHEAD_BYTES: usize = 1024;

    /// Memory overhead of a datagram.
    const FRAGMENT_OVERHEAD_BYTES: usize = 64;

    /// Empty buffer with a budget of [`Reassembly::DEFAULT_BUDGET_BYTES`].
    pub const fn new() -> Self {
        Self::with_budget(Self::DEFAULT_BUDGET_BYTES)
    }

    /// Empty buffer with a budget of `budget` bytes.
    pub const fn with_budget(budget: usize) -> Self {
        Self {
            budget,
            used_bytes: 0,
            partial: BTreeMap::new(),
            by_age: BTreeMap::new(),
            by_network: BTreeMap::new(),
            next_arrival: 0,
        }
    }

    /// Adds a datagram; returns the message if it is now complete.
    ///
    /// A message of one datagram is returned without copying or decoding. On an error the datagram is dropped, with all
    /// fragments of its message. A datagram that contradicts earlier fragments restarts the message.
    pub fn insert<'a>(
        &mut self,
        now: Now,
        from: SocketAddr,
        datagram: &'a [u8],
    ) -> Result<Option<Cow<'a, [u8]>>, FragmentError> {
        self.purge_expired(now);
        let envelope = Envelope::from_bytes(datagram)?;
        let length = message_len(&envelope)?;
        let count =
            u32::try_from(length.div_ceil(limits::MAX_DATAGRAM_PAYLOAD_LEN).max(1)).unwrap_or(u32::MAX);
        let key = FragmentKey { from, request_id: envelope.request_id, length: envelope.length };
        let sequence = envelope.sequence;
        if sequence >= count {
            self.remove(&key);
            return Err(FragmentError::InvalidSequence { sequence, count });
        }
        if count == 1 {
            return Ok(Some(Cow::Borrowed(datagram)));
        }
        let payload = datagram.get(limits::ENVELOPE_LEN..).unwrap_or_default();
        let expected = (length - sequence as usize * limits::MAX_DATAGRAM_PAYLOAD_LEN)
            .min(limits::MAX_DATAGRAM_PAYLOAD_LEN);
        if payload.len() != expected {
            self.remove(&key);
            return Err(FragmentError::WrongSize { sequence, expected, actual: payload.len() });
        }
        let flags = envelope.flags - EnvelopeFlags::TRUNCATED;
        let envelope = Envelope { flags, sequence: 0, ..envelope };
        if let Some(partial) = self.partial.get(&key) {
            match partial.fragments.get(&sequence) {
                Some(fragment) if **fragment == *payload && partial.envelope == envelope => return Ok(None),
                None if partial.envelope == envelope => {}
                // Another message with the same request id, for example a response that was sent again with a later
                // expiration; the first can no longer be completed.
                _ => drop(self.remove(&key)),
            }
        }
        self.evict_for(&key, payload.len())?;
        self.insert_fragment(now, key, envelope, sequence, payload);
        if self.partial.get(&key).is_some_and(|message| message.fragments.len() == count as usize) {
            return Ok(self.remove(&key).map(|message| Cow::Owned(message.into_message(length))));
        }
        Ok(None)
    }

    /// Drops expired partial messages. [`insert`](Self::insert) does this, too.
    pub fn purge_expired(&mut self, now: Now) {
        while let Some((_, key)) = self.by_age.first_key_value() {
            let key = *key;
            match self.partial.get(&key) {
                Some(message) if now.elapsed.saturating_sub(message.started_at) < Self::TIMEOUT => break,
                _ => self.remove(&key),
            };
        }
    }

    /// Memory in use, in bytes, with overhead.
    pub const fn used_bytes(&self) -> usize {
        self.used_bytes
    }

    /// Number of partial messages.
    pub fn pending_messages(&self) -> usize {
        self.partial.len()
    }

    /// Evicts the oldest messages until a fragment of `length` bytes fits.
    fn evict_for(&mut self, key: &FragmentKey, length: usize) -> Result<(), FragmentError> {
        if !self.partial.contains_key(key) {
            let network = self
                .by_network
                .get(&client_network(key.from))
                .filter(|arrivals| arrivals.len() >= Self::MAX_MESSAGES_PER_NETWORK);
            let oldest = network
                .and_then(|arrivals| arrivals.first())
                .and_then(|oldest| self.by_age.get(oldest))
                .copied();
            if let Some(oldest) = oldest {
                self.remove(&oldest);
            }
        }
        loop {
            // Computed in each iteration: the evicted message may be the one of this fragment.
            let message = if self.partial.contains_key(key) { 0 } else { Self::MESSAGE_OVERHEAD_BYTES };
            let required = Self::FRAGMENT_OVERHEAD_BYTES + length + message;
            if self.used_bytes + required <= self.budget {
                return Ok(());
            }
            let Some(oldest) = self.by_age.first_key_value().map(|(_, key)| *key) else {
                return Err(FragmentError::OverBudget { required, budget: self.budget });
            };
            self.remove(&oldest);
        }
    }

    fn insert_fragment(
        &mut self,
        now: Now,
        key: FragmentKey,
        envelope: Envelope,
        sequence: u32,
        payload: &[u8],
    ) {
        let message = self.partial.entry(key).or_insert_with(|| {
            let arrival = self.next_arrival;
            self.next_arrival += 1;
            self.used_bytes += Self::MESSAGE_OVERHEAD_BYTES;
            self.by_age.insert(arrival, key);
            self.by_network.entry(client_network(key.from)).or_default().insert(arrival);
            PartialMessage { envelope, arrival, started_at: now.elapsed, fragments: BTreeMap::new() }
        });
        message.fragments.insert(sequence, payload.into());
        self.used_bytes += Self::FRAGMENT_OVERHEAD_BYTES + payload.len();
    }

    fn remove(&mut self, key: &FragmentKey) -> Option<PartialMessage> {
        let message = self.partial.remove(key)?;
        self.by_age.remove(&message.arrival);
        let network = client_network(key.from);
        if let Some(arrivals) = self.by_network.get_mut(&network) {
            arrivals.remove(&message.arrival);
            if arrivals.is_empty() {
                self.by_network.remove(&network);
            }
        }
        let fragments: usize =
            message.fragments.values().map(|fragment| Self::FRAGMENT_OVERHEAD_BYTES + fragment.len()).sum();
        self.used_bytes -= Self::MESSAGE_OVERHEAD_BYTES + fragments;
        Some(message)
    }
}

impl Default for Reassembly {
    fn default() -> Self {
        Self::new()
    }
}

impl PartialMessage {
    /// Joins the fragments; all of the `length` bytes must be present.
    fn into_message(self, length: usize) -> Vec<u8> {
        let mut message = Vec::with_capacity(limits::ENVELOPE_LEN + length);
        message.extend_from_slice(&self.envelope.to_bytes());
        for fragment in self.fragments.values() {
            message.extend_from_slice(fragment);
        }
        message
    }
}

/// Reason for which a datagram was dropped.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum FragmentError {
    /// No envelope, or an announced length over the limit.
    #[error(transparent)]
    Envelope(#[from] DecodeError),
    /// The sequence number is not below the number of datagrams of the message.
    #[error("invalid fragment {sequence}: message has {count} fragments")]
    InvalidSequence {
        /// Sequence number.
        sequence: u32,
        /// Number of datagrams of the message.
        count: u32,
    },
    /// The payload does not have the length that the sequence number requires.
    #[error("fragment {sequence} has {actual} bytes, expected {expected}")]
    WrongSize {
        /// Sequence number.
        sequence: u32,
        /// Required length of the payload.
        expected: usize,
        /// Actual length of the payload.
        actual: usize,
    },
    /// The message would exceed the memory budget by itself.
    #[error("fragment needs {required} bytes, reassembly budget is {budget}")]
    OverBudget {
        /// Required memory in bytes.
        required: usize,
        /// Memory budget in bytes.
        budget: usize,
    },
}

/// Network of an address whose addresses one owner may control: /24 or /64.
fn client_network(from: SocketAddr) -> IpAddr {
    match from.ip().to_canonical() {
        IpAddr::V4(address) => IpAddr::V4((address.to_bits() & !0xff).into()),
        IpAddr::V6(address) => IpAddr::V6((address.to_bits() & !0u128 << 64).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::ProtocolVersion;
    use crate::transport::fragment::Fragments;

    fn message(length: u32) -> Vec<u8> {
        let mut message =
            Envelope { request_id: 5, length, ..Envelope::new(ProtocolVersion::LATEST) }.to_bytes().to_vec();
        message.extend((0..length).map(|byte| byte as u8));
        message
    }

    fn at(seconds: u64) -> Now {
        Now { elapsed: Duration::from_secs(seconds), unix: 0 }
    }

    #[test]
    fn timeout_and_truncated_flag() {
        let from = "192.0.2.1:9".parse().unwrap();
        let complete = message(600);
        let mut datagrams: Vec<Vec<u8>> = Fragments::new(&complete).unwrap().map(|a| a.to_vec()).collect();
        // The flag is ignored.
        datagrams[0][2] &= 0x1f;
        let mut reassembly = Reassembly::new();
        assert_eq!(reassembly.insert(at(1), from, &datagrams[1]), Ok(None));
        assert_eq!(reassembly.insert(at(5), from, &datagrams[0]).unwrap().as_deref(), Some(&*complete));
        assert_eq!((reassembly.used_bytes(), reassembly.pending_messages()), (0, 0));
        assert_eq!(reassembly.insert(at(6), from, &datagrams[1]), Ok(None));
        assert_eq!(
            reassembly.insert(at(11), from, &datagrams[0]),
            Ok(None),
            "the first fragment has expired"
        );
        assert_eq!(reassembly.pending_messages(), 1);
        reassembly.purge_expired(at(16));
        assert_eq!(
            (reassembly.used_bytes(), reassembly.by_network.len(), reassembly.by_age.len()),
            (0, 0, 0)
        );
    }

    #[test]
    fn budget_smaller_than_message() {
        let from = "192.0.2.1:9".parse().unwrap();
        let complete = message(2000);
        let mut reassembly = Reassembly::with_budget(2500);
        for datagram in Fragments::new(&complete).unwrap() {
            assert_eq!(reassembly.insert(at(0), from, &datagram), Ok(None));
            assert!(reassembly.used_bytes() <= 2500);
        }
        let first = Fragments::new(&complete).unwrap().next().unwrap();
        let error = Reassembly::with_budget(100).insert(at(0), from, &first);
        assert_eq!(error, Err(FragmentError::OverBudget { required: 1580, budget: 100 }));
    }

    #[test]
    fn client_networks() {
        let is_same = |a: &str, b: &str| {
            client_network(SocketAddr::new(a.parse().unwrap(), 1))
                == client_network(SocketAddr::new(b.parse().unwrap(), 2))
        };
        assert!(is_same("192.0.2.1", "192.0.2.255"));
        assert!(!is_same("192.0.2.1", "192.0.3.1"));
        assert!(is_same("::ffff:192.0.2.1", "192.0.2.9"));
        assert!(is_same("2001:db8::1", "2001:db8::ffff:0:0:9"));
        assert!(!is_same("2001:db8::1", "2001:db8:0:1::1"));
    }
}
