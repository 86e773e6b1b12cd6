//! Hash algorithms and hash outputs.

use core::fmt;
use core::ops::Deref;

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
        for byte in &**self {
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}
