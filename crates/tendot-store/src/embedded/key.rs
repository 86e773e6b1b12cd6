//! Under which key a name is found: see `docs/storage-format.md`.

use tendot_proto::crypto::{AwsLcProvider, CryptoProvider as _, HashAlgorithm};

use crate::NameKey;

/// Names up to this length are their own key.
const MAX_PLAIN_KEY_LEN: usize = 1_900;

/// So much of a longer name stands in its key.
const HASHED_KEY_PREFIX_LEN: usize = 1_880;

/// In no UTF-8 text, so that no name has the key of a longer one.
const HASHED_KEY_SEPARATOR: u8 = 0xff;

/// The key of a record.
pub(crate) fn storage_key(key: &NameKey) -> std::borrow::Cow<'_, [u8]> {
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
pub(super) fn is_hashed_key(record_key: &[u8]) -> bool {
    record_key.get(HASHED_KEY_PREFIX_LEN) == Some(&HASHED_KEY_SEPARATOR)
}
