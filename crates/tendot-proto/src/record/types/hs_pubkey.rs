//! `HS_PUBKEY`: public keys.

use alloc::borrow::Cow;
use alloc::vec::Vec;

use crate::error::{DecodeError, DecodeErrorKind};
use crate::wire::{WireReader, WireWriter};

/// Public key in Handle.Net's encoding: RSA, DSA or Diffie-Hellman. Re-encodes to the same bytes.
///
/// Handle.Net compares keys byte by byte in many places, so a decoded key is encoded unchanged.
///
/// ```
/// use tendot_proto::record::{KeyComponents, PublicKey};
///
/// let key = PublicKey::rsa(&[0xc1, 0, 1], &[1, 0, 1]);
/// let bytes = key.to_bytes();
/// assert_eq!(bytes[..15], *b"\0\0\0\x0bRSA_PUB_KEY");
/// assert_eq!(bytes[bytes.len() - 4..], [0; 4], "as Handle.Net always writes");
/// assert_eq!(PublicKey::from_bytes(&bytes)?, key);
/// assert!(matches!(key.components(), KeyComponents::Rsa { exponent: &[1, 0, 1], .. }));
/// # Ok::<(), tendot_proto::DecodeError>(())
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PublicKey<'a> {
    algorithm: KeyAlgorithm,
    /// Reserved; always 0 in practice.
    reserved: u16,
    /// Integers in wire order: two for RSA, four for DSA, three for Diffie-Hellman; the rest is empty.
    integers: [Cow<'a, [u8]>; 4],
    /// Trailing bytes after the integers.
    rest: Cow<'a, [u8]>,
}

/// Algorithm of a public key.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum KeyAlgorithm {
    Rsa,
    Dsa,
    DiffieHellman,
}

/// Algorithm and integers of a [`PublicKey`], big-endian without leading zeros.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(missing_docs, reason = "standard parameter letters")]
pub enum KeyComponents<'k> {
    /// RSA signature key.
    Rsa { exponent: &'k [u8], modulus: &'k [u8] },
    /// DSA signature key.
    Dsa { q: &'k [u8], p: &'k [u8], g: &'k [u8], y: &'k [u8] },
    /// Diffie-Hellman public value.
    DiffieHellman { y: &'k [u8], p: &'k [u8], g: &'k [u8] },
}

const RSA_KEY_TYPE: &[u8] = b"RSA_PUB_KEY";
const DSA_KEY_TYPE: &[u8] = b"DSA_PUB_KEY";
const DH_KEY_TYPE: &[u8] = b"DH_PUB_KEY";

impl<'a> PublicKey<'a> {
    /// RSA key from big-endian integers.
    pub fn rsa(modulus: &[u8], exponent: &[u8]) -> Self {
        Self {
            algorithm: KeyAlgorithm::Rsa,
            reserved: 0,
            integers: [to_signed_be(exponent), to_signed_be(modulus), Cow::default(), Cow::default()],
            rest: Cow::Borrowed(&[0; 4]),
        }
    }

    /// DSA key from big-endian integers.
    pub fn dsa(q: &[u8], p: &[u8], g: &[u8], y: &[u8]) -> Self {
        let integers = [to_signed_be(q), to_signed_be(p), to_signed_be(g), to_signed_be(y)];
        Self { algorithm: KeyAlgorithm::Dsa, reserved: 0, integers, rest: Cow::default() }
    }

    /// Diffie-Hellman key from big-endian integers.
    pub fn diffie_hellman(y: &[u8], p: &[u8], g: &[u8]) -> Self {
        let integers = [to_signed_be(y), to_signed_be(p), to_signed_be(g), Cow::default()];
        Self { algorithm: KeyAlgorithm::DiffieHellman, reserved: 0, integers, rest: Cow::default() }
    }

    /// Decodes a key. Trailing bytes are preserved.
    pub fn from_bytes(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        Self::decode(WireReader::new(bytes))
    }

    pub(crate) fn decode(mut reader: WireReader<'a>) -> Result<Self, DecodeError> {
        let start = reader;
        let algorithm = match reader.bytes("key type")? {
            RSA_KEY_TYPE => KeyAlgorithm::Rsa,
            DSA_KEY_TYPE => KeyAlgorithm::Dsa,
            DH_KEY_TYPE => KeyAlgorithm::DiffieHellman,
            _ => return Err(start.error("key type", DecodeErrorKind::Invalid)),
        };
        let reserved = reader.u16("key flags")?;
        let mut integers = [const { Cow::Borrowed(&[] as &[u8]) }; 4];
        for (integer, field) in integers.iter_mut().zip(algorithm.field_names()) {
            *integer = Cow::Borrowed(reader.bytes(field)?);
        }
        Ok(Self { algorithm, reserved, integers, rest: Cow::Borrowed(reader.remaining()) })
    }

    /// Encodes the key as in values and messages.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.encode(&mut WireWriter::new(&mut out));
        out
    }

    pub(crate) fn encode(&self, writer: &mut WireWriter<'_>) {
        writer.bytes(match self.algorithm {
            KeyAlgorithm::Rsa => RSA_KEY_TYPE,
            KeyAlgorithm::Dsa => DSA_KEY_TYPE,
            KeyAlgorithm::DiffieHellman => DH_KEY_TYPE,
        });
        writer.u16(self.reserved);
        for (integer, _) in self.integers.iter().zip(self.algorithm.field_names()) {
            writer.bytes(integer);
        }
        writer.raw(&self.rest);
    }

    /// Algorithm and integers.
    pub fn components(&self) -> KeyComponents<'_> {
        let [first, second, third, fourth] = &self.integers;
        match self.algorithm {
            KeyAlgorithm::Rsa => KeyComponents::Rsa {
                exponent: strip_leading_zeros(first),
                modulus: strip_leading_zeros(second),
            },
            KeyAlgorithm::Dsa => KeyComponents::Dsa {
                q: strip_leading_zeros(first),
                p: strip_leading_zeros(second),
                g: strip_leading_zeros(third),
                y: strip_leading_zeros(fourth),
            },
            KeyAlgorithm::DiffieHellman => KeyComponents::DiffieHellman {
                y: strip_leading_zeros(first),
                p: strip_leading_zeros(second),
                g: strip_leading_zeros(third),
            },
        }
    }

    /// Whether the encoding is the one that Handle.Net produces for these integers.
    pub(in crate::record) fn is_canonical(&self) -> bool {
        let used = self.algorithm.field_names().len();
        let rest: &[u8] = if self.algorithm == KeyAlgorithm::Rsa { &[0; 4] } else { &[] };
        let is_minimal = |integer: &[u8]| match integer {
            [0] => true,
            [0, next, ..] => *next >= 0x80,
            [first, ..] => *first < 0x80,
            [] => false,
        };
        self.reserved == 0
            && *self.rest == *rest
            && self.integers.iter().take(used).all(|integer| is_minimal(integer))
    }

    /// Copies all borrowed data.
    pub fn into_owned(self) -> PublicKey<'static> {
        PublicKey {
            algorithm: self.algorithm,
            reserved: self.reserved,
            integers: self.integers.map(|integer| Cow::Owned(integer.into_owned())),
            rest: Cow::Owned(self.rest.into_owned()),
        }
    }
}

impl KeyAlgorithm {
    const fn field_names(self) -> &'static [&'static str] {
        match self {
            Self::Rsa => &["RSA exponent", "RSA modulus"],
            Self::Dsa => &["DSA q", "DSA p", "DSA g", "DSA y"],
            Self::DiffieHellman => &["Diffie-Hellman y", "Diffie-Hellman p", "Diffie-Hellman g"],
        }
    }
}

/// Integer as Handle.Net encodes it, signed: without leading zeros, except one if the top bit is set.
fn to_signed_be(integer: &[u8]) -> Cow<'static, [u8]> {
    let integer = strip_leading_zeros(integer);
    let mut bytes = Vec::with_capacity(integer.len() + 1);
    if integer.first().is_none_or(|first| *first >= 0x80) {
        bytes.push(0);
    }
    bytes.extend_from_slice(integer);
    Cow::Owned(bytes)
}

/// Strips leading zeros.
fn strip_leading_zeros(integer: &[u8]) -> &[u8] {
    let zeros = integer.iter().take_while(|byte| **byte == 0).count();
    integer.get(zeros..).unwrap_or_default()
}
