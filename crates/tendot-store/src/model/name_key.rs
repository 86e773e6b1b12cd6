//! Comparison key and storage key of names.

use std::borrow::Cow;
use std::fmt;

use tendot_proto::Handle;
use tendot_proto::crypto::{AwsLcProvider, CryptoProvider as _, HashAlgorithm};

/// Comparison key of a name: ASCII letters in upper case, all other bytes unchanged.
///
/// ASCII letters in upper case, everything else as it is.
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
    /// The longest name that is kept, in bytes. Handles of the protocol have at most half of it.
    pub const MAX_LEN: usize = 4096;

    /// The longest prefix that can be homed, in bytes. Names under longer ones are kept, but not listed.
    pub const MAX_PREFIX_LEN: usize = 255;

    /// The longest key of a note, in bytes.
    pub const MAX_KEY_LEN: usize = 512;

    /// The key of a name.
    pub fn new(name: &str) -> Result<Self, NameKeyError> {
        Self::validate(name)?;
        let mut key: Box<[u8]> = name.as_bytes().into();
        key.make_ascii_uppercase();
        Ok(Self(key))
    }

    /// Whether a name has a key.
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

    /// Whether a note can have this key.
    pub(crate) const fn is_valid_key(key: &[u8]) -> bool {
        !key.is_empty() && key.len() <= Self::MAX_KEY_LEN
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// What stands before the first slash, or all of it.
    pub fn prefix(&self) -> &[u8] {
        Handle::new(&self.0).prefix()
    }
}

impl fmt::Display for NameKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Handle::new(&self.0).fmt(f)
    }
}

impl fmt::Debug for NameKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({self})")
    }
}

/// Reason why a text cannot be a record name or a prefix.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum NameKeyError {
    /// There is none.
    #[error("the name is empty")]
    Empty,
    /// It is longer than [`NameKey::MAX_LEN`].
    #[error("the name has {length} bytes, at most {max} are kept", max = NameKey::MAX_LEN)]
    TooLong {
        /// Its bytes.
        length: usize,
    },
    /// It is longer than [`NameKey::MAX_PREFIX_LEN`].
    #[error("the prefix has {length} bytes, at most {max} are kept", max = NameKey::MAX_PREFIX_LEN)]
    PrefixTooLong {
        /// Its bytes.
        length: usize,
    },
}

/// Names up to this length are their own key.
const MAX_PLAIN_KEY_LEN: usize = 1_900;

/// So much of a longer name stands in its key.
const HASHED_KEY_PREFIX_LEN: usize = 1_880;

/// In no UTF-8 text, so that no name has the key of a longer one.
const HASHED_KEY_SEPARATOR: u8 = 0xff;

/// The key of a record.
pub(crate) fn storage_key(key: &NameKey) -> Cow<'_, [u8]> {
    let name = key.as_bytes();
    if name.len() <= MAX_PLAIN_KEY_LEN {
        return name.into();
    }
    let mut short = name[..HASHED_KEY_PREFIX_LEN].to_vec();
    short.push(HASHED_KEY_SEPARATOR);
    // Of a hash that nobody finds two names for; the provider always has this one.
    let hash = AwsLcProvider.hash(HashAlgorithm::Sha256, &[name]);
    short.extend(hash.iter().flat_map(|hash| hash.iter().take(16)));
    short.into()
}

/// Whether a key has only the beginning of its name.
pub(crate) fn is_hashed_key(record_key: &[u8]) -> bool {
    record_key.get(HASHED_KEY_PREFIX_LEN) == Some(&HASHED_KEY_SEPARATOR)
}
