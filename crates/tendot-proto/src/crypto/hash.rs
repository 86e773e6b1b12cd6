//! Hash algorithms and hash outputs.

use core::fmt;
use core::ops::Deref;

use data_encoding::HEXLOWER;

/// Hash algorithm of the protocol.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[expect(missing_docs, reason = "names of standard algorithms")]
pub enum HashAlgorithm {
    Md5,
    Sha1,
    Sha256,
    Sha384,
    Sha512,
}

impl HashAlgorithm {
    /// Algorithm by its name, for example `SHA-256` or `SHA256`.
    ///
    /// ```
    /// use tendot_proto::crypto::HashAlgorithm;
    ///
    /// assert_eq!(HashAlgorithm::from_name(b"SHA256"), Some(HashAlgorithm::Sha256));
    /// assert_eq!(HashAlgorithm::Sha256.name(), "SHA-256");
    /// assert_eq!(HashAlgorithm::from_name(b"SHA-3"), None);
    /// ```
    pub const fn from_name(name: &[u8]) -> Option<Self> {
        match name {
            b"MD5" => Some(Self::Md5),
            b"SHA-1" | b"SHA1" => Some(Self::Sha1),
            b"SHA-256" | b"SHA256" => Some(Self::Sha256),
            b"SHA-384" | b"SHA384" => Some(Self::Sha384),
            b"SHA-512" | b"SHA512" => Some(Self::Sha512),
            _ => None,
        }
    }

    /// Name in messages and streams, as Handle.Net writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Md5 => "MD5",
            Self::Sha1 => "SHA1",
            Self::Sha256 => "SHA-256",
            Self::Sha384 => "SHA-384",
            Self::Sha512 => "SHA-512",
        }
    }
}

/// Hash output of at most 64 bytes.
#[derive(Clone, Copy, Eq, PartialEq)]
pub struct Digest {
    bytes: [u8; 64],
    length: u8,
}

impl Digest {
    /// Copies a digest, at most 64 bytes.
    pub fn new(digest: &[u8]) -> Self {
        let mut bytes = [0; 64];
        let mut length = 0;
        for (to, from) in bytes.iter_mut().zip(digest) {
            *to = *from;
            length += 1;
        }
        Self { bytes, length }
    }
}

impl Deref for Digest {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.length)).unwrap_or_default()
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(self))
    }
}
