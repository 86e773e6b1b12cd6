//! Messages over UDP: cut into datagrams of at most 512 bytes, and put together again.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use core::ops::Deref;
use core::time::Duration;

use crate::error::{DecodeError, DecodeErrorKind};
use crate::limits;
use crate::message::{Envelope, EnvelopeFlags};
use crate::time::Now;

/// Iterator over the UDP datagrams of one message.
///
/// A message that fits one datagram goes as it is. Of several, all but the last are full, and each has the envelope
/// with the length of the whole message, its own number, and the flag [`EnvelopeFlags::TRUNCATED`], without which the
/// deployed server does not wait for the others.
///
/// ```
/// use tendot_proto::{Envelope, Fragments, ProtocolVersion};
///
/// let envelope = Envelope { length: 1000, ..Envelope::new(ProtocolVersion::LATEST) };
/// let mut message = envelope.to_bytes().to_vec();
/// message.resize(1020, 7);
/// let datagrams: Vec<_> = Fragments::new(&message)?.collect();
/// assert_eq!(datagrams.iter().map(|datagram| datagram.len()).collect::<Vec<_>>(), [512, 512, 36]);
/// assert_eq!(Envelope::from_bytes(&datagrams[2])?.sequence, 2);
///
/// let error = Fragments::new(&message[..1019]).unwrap_err();
/// assert_eq!(error.to_string(), "message at byte 20: 1000 bytes announced, 999 there");
/// # Ok::<(), tendot_proto::DecodeError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Fragments<'a> {
    envelope: Envelope,
    /// None after the last datagram.
    rest: Option<&'a [u8]>,
}

impl<'a> Fragments<'a> {
    /// Cuts an encoded message, which must be just as long as its envelope says.
    pub fn new(message: &'a [u8]) -> Result<Self, DecodeError> {
        let envelope = Envelope::from_bytes(message)?;
        let payload = message.get(limits::ENVELOPE_LEN..).unwrap_or_default();
        let (announced, there) = (message_len(&envelope)?, payload.len());
        let error = |kind| Err(DecodeError::new("message", limits::ENVELOPE_LEN, kind));
        if there < announced {
            return error(DecodeErrorKind::Short { announced, there });
        }
        if there > announced {
            return error(DecodeErrorKind::Trailing { there: there - announced });
        }
        let flags = match announced {
            0..=limits::MAX_DATAGRAM_PAYLOAD_LEN => envelope.flags,
            _ => envelope.flags.with(EnvelopeFlags::TRUNCATED),
        };
        Ok(Self { envelope: Envelope { flags, sequence: 0, ..envelope }, rest: Some(payload) })
    }
}

impl Iterator for Fragments<'_> {
    type Item = Datagram;

    fn next(&mut self) -> Option<Datagram> {
        let rest = self.rest?;
        let (payload, after) = rest.split_at(rest.len().min(limits::MAX_DATAGRAM_PAYLOAD_LEN));
        let datagram = Datagram::new(&self.envelope, payload);
        self.envelope.sequence += 1;
        self.rest = Some(after).filter(|after| !after.is_empty());
        Some(datagram)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.rest.map_or(0, |rest| rest.len().div_ceil(limits::MAX_DATAGRAM_PAYLOAD_LEN).max(1));
        (left, Some(left))
    }
}

impl ExactSizeIterator for Fragments<'_> {}

/// UDP datagram of at most 512 bytes, stored inline.
#[derive(Clone, Copy, Debug)]
pub struct Datagram {
    bytes: [u8; limits::MAX_DATAGRAM_LEN],
    length: usize,
}

impl Datagram {
    fn new(envelope: &Envelope, payload: &[u8]) -> Self {
        let mut bytes = [0; limits::MAX_DATAGRAM_LEN];
        let (head, tail) = bytes.split_at_mut(limits::ENVELOPE_LEN);
        head.copy_from_slice(&envelope.to_bytes());
        for (to, from) in tail.iter_mut().zip(payload) {
            *to = *from;
        }
        Self { bytes, length: limits::ENVELOPE_LEN + payload.len().min(limits::MAX_DATAGRAM_PAYLOAD_LEN) }
    }
}

impl Deref for Datagram {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }
}

/// Bounded reassembly buffer for fragmented messages.
///
/// Nobody has proved where a datagram comes from, so nothing is kept for long or by announcement: memory grows by the
/// bytes that arrive, an unfinished message lives for five seconds, at most 64 of them are kept for one network (/24 of
/// IPv4, /64 of IPv6), and when the budget is used up the oldest goes. Whether a message has several datagrams is
/// decided by its length; the flag `TRUNCATED` is not asked.
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
    used: usize,
    unfinished: BTreeMap<FragmentKey, PartialMessage>,
    /// Messages by the order in which they began.
    ages: BTreeMap<u64, FragmentKey>,
    /// The same for each network.
    networks: BTreeMap<IpAddr, BTreeSet<u64>>,
    begun: u64,
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
    /// As the message has it when it is whole.
    envelope: Envelope,
    number: u64,
    began: Duration,
    pieces: BTreeMap<u32, Box<[u8]>>,
}

impl Reassembly {
    /// Bytes that are used at most, unless told otherwise.
    pub const DEFAULT_BUDGET_BYTES: usize = 8 << 20;

    /// How long a message may take to arrive.
    pub const TIMEOUT: Duration = Duration::from_secs(5);

    /// Unfinished messages of one network.
    pub const MAX_MESSAGES_PER_NETWORK: usize = 64;

    /// What an unfinished message costs beyond its datagrams: its places in all four maps, whose nodes may be half
    /// empty.
    const MESSAGE_OVERHEAD_BYTES: usize = 1024;

    /// What a datagram costs beyond its bytes.
    const FRAGMENT_OVERHEAD_BYTES: usize = 64;

    /// Nothing yet, in at most [`Reassembly::DEFAULT_BUDGET_BYTES`] bytes.
    pub const fn new() -> Self {
        Self::with_budget(Self::DEFAULT_BUDGET_BYTES)
    }

    /// Nothing yet, in at most `budget` bytes.
    pub const fn with_budget(budget: usize) -> Self {
        Self {
            budget,
            used: 0,
            unfinished: BTreeMap::new(),
            ages: BTreeMap::new(),
            networks: BTreeMap::new(),
            begun: 0,
        }
    }

    /// Takes a datagram and gives the message that is now whole, if one is: as [`Fragments`] got it.
    ///
    /// A message of one datagram is that datagram, neither copied nor looked into. An error means that the datagram was
    /// dropped, and with it whatever had arrived of its message. A datagram that contradicts what arrived before it
    /// begins anew.
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
            return Err(FragmentError::Sequence { sequence, count });
        }
        if count == 1 {
            return Ok(Some(Cow::Borrowed(datagram)));
        }
        let payload = datagram.get(limits::ENVELOPE_LEN..).unwrap_or_default();
        let announced = (length - sequence as usize * limits::MAX_DATAGRAM_PAYLOAD_LEN)
            .min(limits::MAX_DATAGRAM_PAYLOAD_LEN);
        if payload.len() != announced {
            self.remove(&key);
            return Err(FragmentError::Size { sequence, announced, there: payload.len() });
        }
        let flags = envelope.flags.without(EnvelopeFlags::TRUNCATED);
        let envelope = Envelope { flags, sequence: 0, ..envelope };
        if let Some(unfinished) = self.unfinished.get(&key) {
            match unfinished.pieces.get(&sequence) {
                Some(piece) if **piece == *payload && unfinished.envelope == envelope => return Ok(None),
                None if unfinished.envelope == envelope => {}
                // Another message under the same number, as an answer that is sent again with a later date; what there
                // was of the first will not become whole any more.
                _ => drop(self.remove(&key)),
            }
        }
        self.evict_for(&key, payload.len())?;
        self.insert_fragment(now, key, envelope, sequence, payload);
        if self.unfinished.get(&key).is_some_and(|message| message.pieces.len() == count as usize) {
            return Ok(self.remove(&key).map(|message| Cow::Owned(message.into_message(length))));
        }
        Ok(None)
    }

    /// Forgets what has been unfinished for too long. [`insert`](Self::insert) does so by itself.
    pub fn purge_expired(&mut self, now: Now) {
        while let Some((_, key)) = self.ages.first_key_value() {
            let key = *key;
            match self.unfinished.get(&key) {
                Some(message) if now.elapsed.saturating_sub(message.began) < Self::TIMEOUT => break,
                _ => self.remove(&key),
            };
        }
    }

    /// Bytes in use, with all that is needed to find them.
    pub const fn used_bytes(&self) -> usize {
        self.used
    }

    /// Messages of which something is still awaited.
    pub fn pending_messages(&self) -> usize {
        self.unfinished.len()
    }

    /// Drops the oldest until a piece of this message fits.
    fn evict_for(&mut self, key: &FragmentKey, length: usize) -> Result<(), FragmentError> {
        if !self.unfinished.contains_key(key) {
            let network = self
                .networks
                .get(&client_network(key.from))
                .filter(|of| of.len() >= Self::MAX_MESSAGES_PER_NETWORK);
            let oldest = network.and_then(|of| of.first()).and_then(|oldest| self.ages.get(oldest)).copied();
            if let Some(oldest) = oldest {
                self.remove(&oldest);
            }
        }
        loop {
            // Asked each time, since the oldest may be the message itself.
            let message = if self.unfinished.contains_key(key) { 0 } else { Self::MESSAGE_OVERHEAD_BYTES };
            let needed = Self::FRAGMENT_OVERHEAD_BYTES + length + message;
            if self.used + needed <= self.budget {
                return Ok(());
            }
            let Some(oldest) = self.ages.first_key_value().map(|(_, key)| *key) else {
                return Err(FragmentError::Budget { needed, budget: self.budget });
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
        let message = self.unfinished.entry(key).or_insert_with(|| {
            let number = self.begun;
            self.begun += 1;
            self.used += Self::MESSAGE_OVERHEAD_BYTES;
            self.ages.insert(number, key);
            self.networks.entry(client_network(key.from)).or_default().insert(number);
            PartialMessage { envelope, number, began: now.elapsed, pieces: BTreeMap::new() }
        });
        message.pieces.insert(sequence, payload.into());
        self.used += Self::FRAGMENT_OVERHEAD_BYTES + payload.len();
    }

    fn remove(&mut self, key: &FragmentKey) -> Option<PartialMessage> {
        let message = self.unfinished.remove(key)?;
        self.ages.remove(&message.number);
        let network = client_network(key.from);
        if let Some(of) = self.networks.get_mut(&network) {
            of.remove(&message.number);
            if of.is_empty() {
                self.networks.remove(&network);
            }
        }
        let pieces: usize =
            message.pieces.values().map(|piece| Self::FRAGMENT_OVERHEAD_BYTES + piece.len()).sum();
        self.used -= Self::MESSAGE_OVERHEAD_BYTES + pieces;
        Some(message)
    }
}

impl Default for Reassembly {
    fn default() -> Self {
        Self::new()
    }
}

impl PartialMessage {
    /// The whole message; all of its `length` bytes are there.
    fn into_message(self, length: usize) -> Vec<u8> {
        let mut message = Vec::with_capacity(limits::ENVELOPE_LEN + length);
        message.extend_from_slice(&self.envelope.to_bytes());
        for piece in self.pieces.values() {
            message.extend_from_slice(piece);
        }
        message
    }
}

/// Reason for which a datagram was dropped.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum FragmentError {
    /// It has no envelope, or one that announces too much.
    #[error(transparent)]
    Envelope(#[from] DecodeError),
    /// Its message has no datagram of this number.
    #[error("datagram number {sequence} of a message of {count}")]
    Sequence {
        /// The number.
        sequence: u32,
        /// How many datagrams the message has.
        count: u32,
    },
    /// It is not as long as the datagram of this number is.
    #[error("datagram number {sequence} carries {there} bytes instead of {announced}")]
    Size {
        /// The number.
        sequence: u32,
        /// How many bytes it should carry.
        announced: usize,
        /// How many it carries.
        there: usize,
    },
    /// It does not belong to what has arrived of its message: another version or session, or other bytes in the same
    /// It is more than may ever be kept.
    #[error("{needed} bytes of memory needed, {budget} allowed")]
    Budget {
        /// What it would take.
        needed: usize,
        /// What there is.
        budget: usize,
    },
}

/// The length of the message, if any message may be so long.
fn message_len(envelope: &Envelope) -> Result<usize, DecodeError> {
    match envelope.length as usize {
        announced if announced > limits::MAX_MESSAGE_LEN => {
            let kind = DecodeErrorKind::TooLong { announced, limit: limits::MAX_MESSAGE_LEN };
            Err(DecodeError::new("message", limits::ENVELOPE_LEN, kind))
        }
        announced => Ok(announced),
    }
}

/// What one owner may well have all addresses of.
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
    fn sizes() {
        check(0, &[20]);
        check(24, &[44]);
        check(492, &[512]);
        check(493, &[512, 21]);
        check(984, &[512, 512]);
        check(1000, &[512, 512, 36]);
    }

    #[track_caller]
    fn check(length: u32, sizes: &[usize]) {
        let message = message(length);
        let datagrams: Vec<_> = Fragments::new(&message).unwrap().collect();
        assert_eq!(datagrams.iter().map(|datagram| datagram.len()).collect::<Vec<_>>(), sizes, "{length}");
        assert_eq!(Fragments::new(&message).unwrap().len(), sizes.len());
        for (number, datagram) in datagrams.iter().enumerate() {
            let envelope = Envelope::from_bytes(datagram).unwrap();
            assert_eq!(
                (envelope.sequence as usize, envelope.length, envelope.request_id),
                (number, length, 5)
            );
            assert_eq!(envelope.flags.has(EnvelopeFlags::TRUNCATED), sizes.len() > 1);
        }
    }

    #[test]
    fn time_and_the_flag() {
        let from = "192.0.2.1:9".parse().unwrap();
        let whole = message(600);
        let mut datagrams: Vec<Vec<u8>> = Fragments::new(&whole).unwrap().map(|one| one.to_vec()).collect();
        // The flag is not relied upon.
        datagrams[0][2] &= 0x1f;
        let mut reassembly = Reassembly::new();
        assert_eq!(reassembly.insert(at(1), from, &datagrams[1]), Ok(None));
        assert_eq!(reassembly.insert(at(5), from, &datagrams[0]).unwrap().as_deref(), Some(&*whole));
        assert_eq!((reassembly.used_bytes(), reassembly.pending_messages()), (0, 0));
        assert_eq!(reassembly.insert(at(6), from, &datagrams[1]), Ok(None));
        assert_eq!(reassembly.insert(at(11), from, &datagrams[0]), Ok(None), "the first is too old");
        assert_eq!(reassembly.pending_messages(), 1);
        reassembly.purge_expired(at(16));
        assert_eq!((reassembly.used_bytes(), reassembly.networks.len(), reassembly.ages.len()), (0, 0, 0));
    }

    #[test]
    fn a_budget_for_less_than_the_message() {
        let from = "192.0.2.1:9".parse().unwrap();
        let whole = message(2000);
        let mut reassembly = Reassembly::with_budget(2500);
        for datagram in Fragments::new(&whole).unwrap() {
            assert_eq!(reassembly.insert(at(0), from, &datagram), Ok(None));
            assert!(reassembly.used_bytes() <= 2500);
        }
        let first = Fragments::new(&whole).unwrap().next().unwrap();
        let error = Reassembly::with_budget(100).insert(at(0), from, &first);
        assert_eq!(error, Err(FragmentError::Budget { needed: 1580, budget: 100 }));
    }

    #[test]
    fn networks() {
        let same = |one: &str, two: &str| {
            client_network(SocketAddr::new(one.parse().unwrap(), 1))
                == client_network(SocketAddr::new(two.parse().unwrap(), 2))
        };
        assert!(same("192.0.2.1", "192.0.2.255"));
        assert!(!same("192.0.2.1", "192.0.3.1"));
        assert!(same("::ffff:192.0.2.1", "192.0.2.9"));
        assert!(same("2001:db8::1", "2001:db8::ffff:0:0:9"));
        assert!(!same("2001:db8::1", "2001:db8:0:1::1"));
    }
}
