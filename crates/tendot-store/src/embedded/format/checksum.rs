//! CRC-32C at the end of every value, over the key and all that stands before it.

use crate::StoreError;

/// Appends the checksum of a value under its key.
pub(crate) fn append(key: &[u8], value: &mut Vec<u8>) {
    let sum = checksum(key, value);
    value.extend(sum.to_le_bytes());
}

/// A value without its checksum, if that is right.
#[inline]
pub(crate) fn verify_and_strip<'a>(key: &[u8], value: &'a [u8], what: &str) -> Result<&'a [u8], StoreError> {
    match value.split_last_chunk::<4>() {
        Some((body, sum)) if checksum(key, body) == u32::from_le_bytes(*sum) => Ok(body),
        _ => Err(corrupt(key, what, "its checksum is wrong")),
    }
}

#[cold]
pub(crate) fn corrupt(key: &[u8], what: &str, how: &str) -> StoreError {
    StoreError::Damaged { what: format!("{what} `{}`: {how}", key.escape_ascii()) }
}

fn checksum(key: &[u8], value: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(key), value)
}
