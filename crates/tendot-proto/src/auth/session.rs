use alloc::vec::Vec;
use core::fmt;

use zeroize::Zeroizing;

use super::credential::{CredentialError, add_mac, verify_message_mac};
use super::price;
use crate::crypto::{CryptoProvider, SecureRandom};
use crate::error::EncodeError;
use crate::limits;
use crate::message::{Envelope, EnvelopeFlags, MessageParts, Opcode, ResponseCode};
use crate::work::{Budget, BudgetExceeded};

/// Session key: 32 bytes for HMAC-SHA256, the first 16 also for AES-128. Zeroed on drop.
///
/// It is wiped from memory when it is dropped, and `Debug` does not show it.
#[derive(Clone)]
pub struct SessionKey(Zeroizing<[[u8; 16]; 2]>);

impl SessionKey {
    /// A key of these bytes.
    pub fn new(bytes: [u8; 32]) -> Self {
        let mut halves = Zeroizing::new([[0; 16]; 2]);
        halves.as_flattened_mut().copy_from_slice(&bytes);
        Self(halves)
    }

    /// The key that follows from what two sides computed together, which has as many bytes as the prime: zeros in front
    /// are skipped as long as 32 bytes are left, and the next 32 taken.
    pub(super) fn from_shared_secret(shared: &[u8]) -> Option<Self> {
        let spare = shared.len().checked_sub(32)?;
        let zeros = shared.iter().take(spare).take_while(|byte| **byte == 0).count();
        Some(Self::new(*shared.get(zeros..)?.first_chunk()?))
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        self.0.as_flattened()
    }

    fn cipher_key(&self) -> &[u8; 16] {
        let [first, _] = &*self.0;
        first
    }

    /// Encrypts a complete message: its envelope says so, and all that follows is an initialization vector and
    /// ciphertext (AES-128, CBC).
    pub fn encrypt(
        &self,
        message: &[u8],
        crypto: &dyn CryptoProvider,
        random: &mut dyn SecureRandom,
        work: &mut Budget,
    ) -> Result<Vec<u8>, SessionError> {
        let mut iv = [0; 16];
        random.fill(&mut iv);
        let (mut envelope, plain) = split_envelope(message, work)?;
        let cipher = crypto
            .aes128_cbc_encrypt(self.cipher_key(), &iv, plain)
            .map_err(|_| SessionError::Undecipherable)?;
        let length = iv.len() + cipher.len();
        if length > limits::MAX_MESSAGE_LEN {
            return Err(EncodeError::TooLong { length, limit: limits::MAX_MESSAGE_LEN }.into());
        }
        envelope.flags = envelope.flags.with(EnvelopeFlags::ENCRYPTED);
        envelope.length = length as u32;
        Ok([&envelope.to_bytes()[..], &iv, &cipher].concat())
    }

    /// Decrypts a complete message, which is then as it was before it was encrypted.
    ///
    /// That it decrypts does not mean that it is genuine: see [`Session::open`].
    pub fn decrypt(
        &self,
        message: &[u8],
        crypto: &dyn CryptoProvider,
        work: &mut Budget,
    ) -> Result<Vec<u8>, SessionError> {
        let (mut envelope, payload) = split_envelope(message, work)?;
        let (iv, cipher) = payload.split_first_chunk::<16>().ok_or(SessionError::Undecipherable)?;
        let plain = crypto
            .aes128_cbc_decrypt(self.cipher_key(), iv, cipher)
            .map_err(|_| SessionError::Undecipherable)?;
        envelope.flags = envelope.flags.without(EnvelopeFlags::ENCRYPTED);
        envelope.length = plain.len() as u32;
        Ok([&envelope.to_bytes()[..], &plain].concat())
    }
}

/// Envelope and payload, whose length has to be what is there.
fn split_envelope<'a>(message: &'a [u8], work: &mut Budget) -> Result<(Envelope, &'a [u8]), SessionError> {
    work.charge(price::hash(message.len()))?;
    let envelope = Envelope::from_bytes(message).map_err(|_| SessionError::Undecipherable)?;
    let payload = message.get(limits::ENVELOPE_LEN..).unwrap_or_default();
    if payload.len() != envelope.length as usize || payload.len() > limits::MAX_MESSAGE_LEN {
        return Err(SessionError::Undecipherable);
    }
    Ok((envelope, payload))
}

impl fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionKey")
    }
}

/// One side of a session: key, send counter and replay window.
#[derive(Debug)]
pub struct Session {
    id: u32,
    side: SessionRole,
    key: SessionKey,
    /// The counter of the last message that was sent.
    sent: u32,
    received: ReplayWindow,
}

/// Role in a session. Both sides share one key, so reflected messages must be rejected.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum SessionRole {
    /// Sends requests, and takes responses.
    Client,
    /// Sends responses, and takes requests.
    Server,
}

impl Session {
    pub(super) const fn new(id: u32, side: SessionRole, key: SessionKey) -> Self {
        Self { id, side, key, sent: 0, received: ReplayWindow::EMPTY }
    }

    /// The number in the envelopes of its messages.
    pub const fn id(&self) -> u32 {
        self.id
    }

    /// Its key.
    pub const fn key(&self) -> &SessionKey {
        &self.key
    }

    /// Appends a MAC to a complete message, under the next counter. A message that is sent again needs another.
    pub fn add_mac(
        &mut self,
        message: &mut Vec<u8>,
        crypto: &dyn CryptoProvider,
        work: &mut Budget,
    ) -> Result<(), SessionError> {
        // The deployed software takes counters for signed.
        let counter = self.sent.checked_add(1).filter(|counter| *counter <= i32::MAX as u32);
        let counter = counter.ok_or(SessionError::Over)?;
        let envelope = Envelope::from_bytes(message).map_err(CredentialError::from)?;
        if envelope.session_id != self.id {
            return Err(SessionError::Unknown);
        }
        add_mac(message, &self.key, counter, crypto, work)?;
        self.sent = counter;
        Ok(())
    }

    /// Checks that a message of this session comes from its other side, is genuine, and did not come before.
    ///
    /// Counter 0, which the deployed server lets pass any number of times, is refused: all clients that can make a session
    /// here count from 1.
    pub fn verify(
        &mut self,
        parts: &MessageParts<'_>,
        crypto: &dyn CryptoProvider,
        work: &mut Budget,
    ) -> Result<(), SessionError> {
        if parts.envelope.session_id != self.id {
            return Err(SessionError::Unknown);
        }
        if parts.header.is_request() != (self.side == SessionRole::Server) {
            return Err(SessionError::WrongSide);
        }
        let counter = verify_message_mac(parts, &self.key, crypto, work)?;
        // Only now: a forged message must not use up counters.
        if self.received.accept(counter) { Ok(()) } else { Err(SessionError::Replayed { counter }) }
    }

    /// Decrypts a message and checks it as [`verify`](Self::verify) does.
    ///
    /// The deployed client answers a challenge without a MAC, encrypted or not: the answer is a proof itself, and is
    /// taken only once. Such a message is taken here only while the session `is_challenged`; otherwise whoever can
    /// change a ciphertext so that it seems to be one could find out, try by try, what other messages say. For the same
    /// reason whatever else is wrong with a message is the same error.
    pub fn open(
        &mut self,
        message: &[u8],
        is_challenged: bool,
        crypto: &dyn CryptoProvider,
        work: &mut Budget,
    ) -> Result<Vec<u8>, SessionError> {
        let plain = self.key.decrypt(message, crypto, work)?;
        let verified =
            MessageParts::split(&plain).map_err(|_| SessionError::Undecipherable).and_then(|parts| {
                if is_challenged
                    && self.side == SessionRole::Server
                    && is_challenge_response_without_mac(&parts)
                {
                    return Ok(());
                }
                self.verify(&parts, crypto, work)
            });
        match verified {
            Ok(()) => Ok(plain),
            Err(error @ (SessionError::Replayed { .. } | SessionError::Exhausted(_))) => Err(error),
            Err(_) => Err(SessionError::Undecipherable),
        }
    }
}

/// Whether a message is the answer to a challenge, and has no MAC.
pub(super) fn is_challenge_response_without_mac(parts: &MessageParts<'_>) -> bool {
    let is_answer = parts.header.opcode == Opcode::CHALLENGE_RESPONSE && parts.header.is_request();
    is_answer && matches!(parts.tail, [] | [0, 0, 0, 0])
}

/// Anti-replay window of 200 message counters (as in RFC 4303, 3.4.3).
#[derive(Clone, Copy, Debug)]
struct ReplayWindow {
    highest: u32,
    /// Bit n is set if `highest - n` came.
    seen: [u64; 4],
}

impl ReplayWindow {
    const EMPTY: Self = Self { highest: 0, seen: [1, 0, 0, 0] };

    /// How far back messages are taken that others overtook.
    const SIZE: u32 = 200;

    /// Whether this counter is new; it is not afterwards.
    fn accept(&mut self, counter: u32) -> bool {
        if let Some(ahead) = counter.checked_sub(self.highest).filter(|ahead| *ahead > 0) {
            self.advance(ahead);
            self.highest = counter;
        }
        let behind = self.highest - counter;
        if behind >= Self::SIZE {
            return false;
        }
        let Some(word) = self.seen.get_mut(behind as usize / 64) else { return false };
        let bit = 1 << (behind % 64);
        let new = *word & bit == 0;
        *word |= bit;
        new
    }

    fn advance(&mut self, by: u32) {
        let wide = self.seen;
        let (words, bits) = (by as usize / 64, by % 64);
        for (at, word) in self.seen.iter_mut().enumerate() {
            let from = |back: usize| at.checked_sub(back).and_then(|at| wide.get(at)).copied().unwrap_or(0);
            *word = from(words) << bits;
            if bits > 0 {
                *word |= from(words.saturating_add(1)) >> (64 - bits);
            }
        }
    }
}

/// Session error.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// There is no such session, or no longer.
    #[error("no such session, or no longer")]
    Unknown,
    /// The other side wants something that is not done here: which.
    #[error("no session with {what}")]
    Refused {
        /// What.
        what: &'static str,
    },
    /// The message cannot be decrypted, or what comes out is not genuine.
    #[error("the message cannot be decrypted")]
    Undecipherable,
    /// The message came before, or so many after it that it is too late.
    #[error("message {counter} of the session came before, or too late")]
    Replayed {
        /// Its counter.
        counter: u32,
    },
    /// So many messages were sent that they cannot be counted any more.
    #[error("the session has no counters left")]
    Over,
    /// The message is one that this side sends, not one that it takes.
    #[error("the message comes from the wrong side of the session")]
    WrongSide,
    /// The message is not authenticated, or not by this session.
    #[error(transparent)]
    Credential(CredentialError),
    /// The message would be too long.
    #[error(transparent)]
    TooLong(#[from] EncodeError),
    /// It would cost too much.
    #[error(transparent)]
    Exhausted(#[from] BudgetExceeded),
}

impl SessionError {
    /// What a server answers.
    pub const fn response_code(&self) -> ResponseCode {
        match self {
            Self::Unknown | Self::Over => ResponseCode::SESSION_TIMEOUT,
            Self::Refused { .. } | Self::Undecipherable => ResponseCode::SESSION_FAILED,
            Self::Replayed { .. } => ResponseCode::SESSION_MESSAGE_REJECTED,
            Self::WrongSide => ResponseCode::PROTOCOL_ERROR,
            Self::Credential(CredentialError::Missing) => ResponseCode::INVALID_CREDENTIAL,
            Self::Credential(CredentialError::Malformed(_)) => ResponseCode::PROTOCOL_ERROR,
            Self::Credential(_) => ResponseCode::INVALID_SESSION_KEY,
            Self::TooLong(_) => ResponseCode::ERROR,
            Self::Exhausted(_) => ResponseCode::SERVER_TOO_BUSY,
        }
    }
}

impl From<CredentialError> for SessionError {
    fn from(error: CredentialError) -> Self {
        match error {
            CredentialError::Exhausted(exhausted) => Self::Exhausted(exhausted),
            CredentialError::TooLong(long) => Self::TooLong(long),
            error => Self::Credential(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::format;
    use std::vec::Vec;

    use super::*;

    #[test]
    fn keys() {
        let key = |shared: &[u8]| SessionKey::from_shared_secret(shared).map(|key| key.as_bytes().to_vec());
        let mut shared: Vec<u8> = (0..64).collect();
        assert_eq!(key(&shared).unwrap()[..2], [1, 2], "one zero in front");
        shared[..40].fill(0);
        assert_eq!(key(&shared).unwrap()[..9], [0, 0, 0, 0, 0, 0, 0, 0, 40], "32 bytes are kept");
        assert_eq!(key(&[0; 32]), Some(std::vec![0; 32]));
        assert_eq!(key(&[1; 31]), None);
        let key = SessionKey::new(core::array::from_fn(|n| n as u8));
        assert_eq!(key.cipher_key()[15], 15);
        assert_eq!(format!("{key:?}"), "SessionKey");
    }

    #[test]
    fn counters() {
        let mut counters = ReplayWindow::EMPTY;
        let mut check = |counter, expected| assert_eq!(counters.accept(counter), expected, "{counter}");
        check(0, false);
        check(1, true);
        check(1, false);
        check(3, true);
        check(2, true);
        check(2, false);
        check(0, false);
        check(203, true);
        check(3, false);
        check(4, true);
        check(4, false);
        check(202, true);
        check(1_000, true);
        check(800, false);
        check(801, true);
        check(801, false);
        check(u32::MAX, true);
        check(u32::MAX, false);
        check(u32::MAX - 199, true);
        check(u32::MAX - 200, false);
        check(1, false);
    }

    /// Against a set, for many orders.
    #[test]
    fn counters_as_a_set() {
        let mut state = 1_u32;
        for _ in 0..50 {
            let (mut counters, mut seen) = (ReplayWindow::EMPTY, std::collections::BTreeSet::from([0]));
            for _ in 0..2_000 {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let highest = *seen.last().unwrap();
                let counter = (highest + state % 300).saturating_sub(state >> 16 & 0xff);
                let expected = !seen.contains(&counter) && counter + 200 > highest;
                assert_eq!(counters.accept(counter), expected, "{counter} after {highest}");
                seen.insert(counter);
            }
        }
    }
}
