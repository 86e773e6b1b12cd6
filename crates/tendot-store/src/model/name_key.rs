//! Comparison key and storage key of names.

use std::borrow::{Borrow, Cow};
use std::fmt;

use tendot_proto::Handle;

use super::sha256::sha256;

/// Comparison key of a name: ASCII letters in upper case, all other bytes unchanged.
///
/// ```
/// use tendot_store::{NameKey, NameKeyError};
///
/// assert_eq!(NameKey::new("10.1000/abc")?, NameKey::new("10.1000/ABC")?);
/// assert_ne!(NameKey::new("10.1000/é")?, NameKey::new("10.1000/É")?);
/// assert_eq!(NameKey::new(""), Err(NameKeyError::Empty));
/// # Ok::<(), NameKeyError>(())
/// ```
#[derive(Clone, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct NameKey(Box<[u8]>);

impl NameKey {
    /// Maximum length of a name in bytes; twice that of a handle in the protocol.
    pub const MAX_LEN: usize = 4096;

    /// Maximum length of a homed prefix in bytes. Names under longer prefixes are stored, but not listed.
    pub const MAX_PREFIX_LEN: usize = 255;

    /// Maximum length in bytes up to which names are stored in the order of their keys; longer ones are stored by their first
    /// bytes and a hash.
    pub const MAX_SEEK_LEN: usize = HASHED_KEY_PREFIX_LEN;

    /// Builds the comparison key of a name.
    pub fn new(name: &str) -> Result<Self, NameKeyError> {
        Self::validate(name)?;
        let mut key: Box<[u8]> = name.as_bytes().into();
        key.make_ascii_uppercase();
        Ok(Self(key))
    }

    /// Checks that a name can be stored.
    pub(crate) const fn validate(name: &str) -> Result<(), NameKeyError> {
        match name.len() {
            0 => Err(NameKeyError::Empty),
            length if length > Self::MAX_LEN => Err(NameKeyError::TooLong { length }),
            _ => Ok(()),
        }
    }

    /// Builds the comparison key of a prefix that is to be homed.
    pub fn from_prefix(prefix: &str) -> Result<Self, NameKeyError> {
        match prefix.len() {
            length if length > Self::MAX_PREFIX_LEN => Err(NameKeyError::PrefixTooLong { length }),
            _ => Self::new(prefix),
        }
    }

    /// Bytes of the key.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Part before the first slash, or the whole key.
    pub fn prefix(&self) -> &[u8] {
        Handle::new(&self.0).prefix()
    }
}

// Compares, orders and hashes as its bytes.
impl Borrow<[u8]> for NameKey {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for NameKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Handle::new(&self.0).fmt(f)
    }
}

impl fmt::Debug for NameKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NameKey({self})")
    }
}

/// Reason why a text cannot be a record name or a prefix.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum NameKeyError {
    /// The name is empty.
    #[error("empty name")]
    Empty,
    /// The name is longer than [`NameKey::MAX_LEN`].
    #[error("name too long: {length} bytes, limit {max}", max = NameKey::MAX_LEN)]
    TooLong {
        /// Length in bytes.
        length: usize,
    },
    /// The prefix is longer than [`NameKey::MAX_PREFIX_LEN`].
    #[error("prefix too long: {length} bytes, limit {max}", max = NameKey::MAX_PREFIX_LEN)]
    PrefixTooLong {
        /// Length in bytes.
        length: usize,
    },
}

/// Names up to this length are their own storage key.
const MAX_PLAIN_KEY_LEN: usize = 1_900;

/// Number of leading bytes of a longer name in its storage key.
const HASHED_KEY_PREFIX_LEN: usize = 1_880;

/// Never occurs in UTF-8, so no name is the storage key of a longer one.
const HASHED_KEY_SEPARATOR: u8 = 0xff;

/// Storage key of a name: the comparison key, or for a long name its start and a hash.
pub(crate) fn storage_key(key: &NameKey) -> Cow<'_, [u8]> {
    let name = key.as_bytes();
    if name.len() <= MAX_PLAIN_KEY_LEN {
        return name.into();
    }
    let mut hashed = name[..HASHED_KEY_PREFIX_LEN].to_vec();
    hashed.push(HASHED_KEY_SEPARATOR);
    // Half of SHA-256 is still collision-resistant.
    hashed.extend(&sha256(name)[..16]);
    hashed.into()
}

/// Whether a storage key has only the start of its name, and a hash.
pub(crate) fn is_hashed_key(storage_key: &[u8]) -> bool {
    storage_key.get(HASHED_KEY_PREFIX_LEN) == Some(&HASHED_KEY_SEPARATOR)
}
