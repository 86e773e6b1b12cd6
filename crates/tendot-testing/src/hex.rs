//! Hexadecimal text, as test data has it.

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};

/// The bytes as lower-case digits.
pub fn encode(bytes: &[u8]) -> String {
    HEXLOWER.encode(bytes)
}

/// The bytes of hexadecimal digits; white space is ignored.
#[track_caller]
pub fn decode(digits: &str) -> Vec<u8> {
    let digits: String = digits.split_whitespace().collect();
    HEXLOWER_PERMISSIVE.decode(digits.as_bytes()).unwrap_or_else(|error| panic!("{error}: {digits}"))
}
