//! CRC-32C over key and value, appended to every stored value.

use crate::StoreError;

/// Appends the checksum of key and value.
pub(crate) fn append(key: &[u8], value: &mut Vec<u8>) {
    let sum = checksum(key, value);
    value.extend(sum.to_le_bytes());
}

/// Copies a value and appends the checksum of key and value.
pub(crate) fn with_checksum(key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(value.len() + 4);
    bytes.extend_from_slice(value);
    append(key, &mut bytes);
    bytes
}

/// Verifies the checksum of a value and returns the value without it.
#[inline]
pub(crate) fn verify_and_strip<'a>(key: &[u8], value: &'a [u8], item: &str) -> Result<&'a [u8], StoreError> {
    match value.split_last_chunk::<4>() {
        Some((body, sum)) if checksum(key, body) == u32::from_le_bytes(*sum) => Ok(body),
        _ => Err(corrupt(key, item, "checksum mismatch")),
    }
}

#[cold]
pub(crate) fn corrupt(key: &[u8], item: &str, fault: &str) -> StoreError {
    StoreError::Corrupt { detail: format!("{item} `{}`: {fault}", key.escape_ascii()) }
}

fn checksum(key: &[u8], value: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(key), value)
}
