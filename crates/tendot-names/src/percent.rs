//! Percent-encoding and decoding (RFC 3986).

use core::fmt;

/// Set of ASCII characters that an output form writes without percent-encoding.
///
/// All other bytes, and every byte of a non-ASCII character, are percent-encoded.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct UnencodedSet(u128);

impl UnencodedSet {
    /// Letters, digits and `-._~` (RFC 3986 section 2.3).
    const UNRESERVED: Self = Self::from_bytes(b"-._~").with_alphanumeric();

    /// June 2024 draft, section 2, step 2: unreserved and `/`. Also used for `urn:doi:`, where it meets the intent of
    /// the registration.
    pub(crate) const URI: Self = Self::UNRESERVED.with(b"/");

    /// Scheme as published in November 2024: characters of a path segment (RFC 3986 section 3.3).
    ///
    /// Slashes inside the suffix are encoded; the slash after the prefix is not.
    pub(crate) const URI_2024_11: Self = Self::UNRESERVED.with(b"!$&'()*+,;=:@");

    /// Canonical form of the 2003 draft: characters allowed in a URI by RFC 2396, without `? & = #`, which the 2002
    /// draft reserves (section 2.2).
    pub(crate) const URI_2003: Self = Self::from_bytes(b"-_.!~*'();/:@+$,").with_alphanumeric();

    /// All but table 1 of Z39.84 appendix E, and `?`, which would start a query.
    pub(crate) const URL_MINIMAL: Self = Self::printable_ascii().without(b"%\"# ?");

    /// All but tables 1 and 2 of Z39.84 appendix E, and `?`. The row `' (%6o)` of table 2 means the grave accent (`%60`).
    pub(crate) const URL: Self = Self::URL_MINIMAL.without(b"<>{}^[]`|\\");

    /// Characters of a URN (RFC 8141 section 2): path characters, slashes, and percent-encoding.
    #[cfg(feature = "alloc")]
    pub(crate) const URN: Self = Self::URI_2024_11.with(b"/%");

    /// `urn:eidr:` (RFC 7972), which uses the older URN syntax without slash.
    pub(crate) const EIDR: Self = Self::UNRESERVED;

    const fn from_bytes(bytes: &[u8]) -> Self {
        Self(0).with(bytes)
    }

    const fn printable_ascii() -> Self {
        let mut set = 0;
        let mut byte = b' ';
        while byte <= b'~' {
            set |= 1 << byte;
            byte += 1;
        }
        Self(set)
    }

    const fn with(self, bytes: &[u8]) -> Self {
        Self(self.0 | bit_mask(bytes))
    }

    const fn without(self, bytes: &[u8]) -> Self {
        Self(self.0 & !bit_mask(bytes))
    }

    const fn with_alphanumeric(self) -> Self {
        self.with(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789")
    }

    /// Whether the byte is written unencoded.
    pub(crate) const fn contains(self, byte: u8) -> bool {
        // Two 64-bit halves: a 128-bit shift takes several instructions.
        let half = if byte < 64 { self.0 as u64 } else { (self.0 >> 64) as u64 };
        byte < 128 && half >> (byte & 63) & 1 == 1
    }
}

const fn bit_mask(mut bytes: &[u8]) -> u128 {
    let mut mask = 0;
    while let [byte, rest @ ..] = bytes {
        mask |= 1 << *byte;
        bytes = rest;
    }
    mask
}

/// Writes `text` percent-encoded except for the bytes in `unencoded`.
pub(crate) fn write_percent_encoded(
    out: &mut impl fmt::Write,
    text: &str,
    unencoded: UnencodedSet,
) -> fmt::Result {
    let mut rest = text;
    while let Some(plain_len) = rest.bytes().position(|byte| !unencoded.contains(byte)) {
        let (plain, from) = rest.split_at(plain_len);
        out.write_str(plain)?;
        let mut characters = from.chars();
        let Some(encoded) = characters.next() else { break };
        for byte in encoded.encode_utf8(&mut [0; 4]).bytes() {
            write_triplet(out, byte)?;
        }
        rest = characters.as_str();
    }
    out.write_str(rest)
}

fn write_triplet(out: &mut impl fmt::Write, byte: u8) -> fmt::Result {
    let digit = |value: u8| char::from(if value < 10 { b'0' + value } else { b'A' + value - 10 });
    out.write_char('%')?;
    out.write_char(digit(byte >> 4))?;
    out.write_char(digit(byte & 15))
}

/// `fmt::Write` adapter that writes ASCII letters in upper case.
pub(crate) struct AsciiUppercaseWriter<W>(pub(crate) W);

impl<W: fmt::Write> fmt::Write for AsciiUppercaseWriter<W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text;
        while let Some(plain_len) = rest.bytes().position(|byte| byte.is_ascii_lowercase()) {
            let (upper, from) = rest.split_at(plain_len);
            self.0.write_str(upper)?;
            let mut characters = from.chars();
            if let Some(lower) = characters.next() {
                self.0.write_char(lower.to_ascii_uppercase())?;
            }
            rest = characters.as_str();
        }
        self.0.write_str(rest)
    }
}

#[cfg(feature = "alloc")]
pub(crate) use decode::{
    InvalidTriplet, LayeredByte, decode_layered, decode_layered_at_end, encoded_offset, hex_value,
    invalid_triplet_offset, percent_decode,
};

#[cfg(feature = "alloc")]
mod decode {
    use alloc::borrow::Cow;
    use alloc::string::String;
    use alloc::vec::Vec;

    use crate::{Error, ErrorKind};

    /// Handling of a `%` that is not followed by two hexadecimal digits.
    #[derive(Clone, Copy, Debug, Eq, PartialEq)]
    pub(crate) enum InvalidTriplet {
        Reject,
        /// Keep the `%` as a literal.
        Keep,
    }

    /// Percent-decoded text.
    #[derive(Debug)]
    pub(crate) struct PercentDecoded<'a> {
        pub(crate) text: Cow<'a, str>,
        /// Whether an invalid `%` was read as a literal.
        pub(crate) has_literal_percent: bool,
    }

    /// Percent-decodes once; `+` is not a space.
    pub(crate) fn percent_decode(
        text: &str,
        invalid_triplet: InvalidTriplet,
    ) -> Result<PercentDecoded<'_>, Error> {
        let Some(first_percent) = text.bytes().position(|byte| byte == b'%') else {
            return Ok(PercentDecoded { text: Cow::Borrowed(text), has_literal_percent: false });
        };
        let mut bytes = Vec::with_capacity(text.len());
        let mut rest = text.as_bytes();
        let mut plain_len = first_percent;
        let mut has_literal_percent = false;
        loop {
            let (plain, from) = rest.split_at_checked(plain_len).unwrap_or((rest, &[]));
            bytes.extend_from_slice(plain);
            if from.is_empty() {
                break;
            }
            let len = match decode_triplet(from) {
                Some(decoded) => {
                    bytes.push(decoded);
                    3
                }
                None if invalid_triplet == InvalidTriplet::Reject => {
                    return Err(Error::new(ErrorKind::BadPercentEncoding, text.len() - from.len()));
                }
                None => {
                    has_literal_percent = true;
                    bytes.push(b'%');
                    1
                }
            };
            rest = from.get(len..).unwrap_or_default();
            plain_len = rest.iter().position(|byte| *byte == b'%').unwrap_or(rest.len());
        }
        match String::from_utf8(bytes) {
            Ok(decoded) => Ok(PercentDecoded { text: Cow::Owned(decoded), has_literal_percent }),
            Err(error) => {
                let offset = encoded_offset(text, error.utf8_error().valid_up_to());
                Err(Error::new(ErrorKind::InvalidUtf8, offset))
            }
        }
    }

    /// Maps an offset in the decoded text to the encoded text.
    pub(crate) fn encoded_offset(encoded: &str, decoded_offset: usize) -> usize {
        let mut rest = encoded.as_bytes();
        for _ in 0..decoded_offset {
            let len = if decode_triplet(rest).is_some() { 3 } else { 1 };
            rest = rest.get(len..).unwrap_or_default();
        }
        encoded.len() - rest.len()
    }

    /// Decodes the percent-encoded triplet at the start of `bytes`.
    fn decode_triplet(bytes: &[u8]) -> Option<u8> {
        match bytes {
            [b'%', high, low, ..] => Some(hex_value(*high)? << 4 | hex_value(*low)?),
            _ => None,
        }
    }

    /// Offset of the first `%` that is not followed by two hexadecimal digits; the encoded octets are not decoded.
    pub(crate) fn invalid_triplet_offset(text: &str) -> Option<usize> {
        let bytes = text.as_bytes();
        let is_invalid = |offset: &usize| {
            bytes.get(*offset) == Some(&b'%')
                && bytes.get(*offset..).is_none_or(|rest| decode_triplet(rest).is_none())
        };
        (0..bytes.len()).find(is_invalid)
    }

    /// Byte that is percent-encoded once (`%2F`) or more than once (`%252F`).
    #[derive(Clone, Copy, Debug, Eq, PartialEq)]
    pub(crate) struct LayeredByte {
        pub(crate) byte: u8,
        /// Number of bytes that encode it.
        pub(crate) len: usize,
        /// How often it is encoded.
        pub(crate) layers: u8,
    }

    /// Maximum number of layers of percent-encoding that are recognized.
    const MAX_LAYERS: u8 = 3;

    /// Decodes the byte at the start of `text`, encoded once or more.
    pub(crate) fn decode_layered(text: &[u8]) -> Option<LayeredByte> {
        let mut digits = text.strip_prefix(b"%")?;
        let mut layers = 1;
        while layers < MAX_LAYERS
            && let Some(inner @ [high, low, ..]) = digits.strip_prefix(b"25")
            && hex_value(*high).and(hex_value(*low)).is_some()
        {
            digits = inner;
            layers += 1;
        }
        let [high, low, ..] = digits else { return None };
        let byte = hex_value(*high)? << 4 | hex_value(*low)?;
        Some(LayeredByte { byte, len: text.len() - digits.len() + 2, layers })
    }

    /// Decodes the byte at the end of `text`, encoded once or more.
    pub(crate) fn decode_layered_at_end(text: &[u8]) -> Option<LayeredByte> {
        let (mut before, [high, low]) = text.split_last_chunk::<2>()?;
        let byte = hex_value(*high)? << 4 | hex_value(*low)?;
        let mut layers = 1;
        while layers < MAX_LAYERS
            && let Some(outer) = before.strip_suffix(b"25")
        {
            before = outer;
            layers += 1;
        }
        let before = before.strip_suffix(b"%")?;
        Some(LayeredByte { byte, len: text.len() - before.len(), layers })
    }

    /// Value of a hexadecimal digit.
    pub(crate) fn hex_value(digit: u8) -> Option<u8> {
        match digit {
            b'0'..=b'9' => Some(digit - b'0'),
            b'A'..=b'F' => Some(digit - b'A' + 10),
            b'a'..=b'f' => Some(digit - b'a' + 10),
            _ => None,
        }
    }
}

#[cfg(all(test, feature = "alloc"))]
mod tests {
    use super::*;

    #[test]
    fn layers_of_percent_encoding() {
        let check = |text: &str, expected: Option<(u8, usize, u8)>| {
            let start = decode_layered(text.as_bytes()).map(|found| (found.byte, found.len, found.layers));
            assert_eq!(start, expected, "{text}");
            if let Some((_, len, _)) = expected {
                let whole = &text.as_bytes()[..len];
                let end = decode_layered_at_end(whole).map(|found| (found.byte, found.len, found.layers));
                assert_eq!(end, expected, "{text}");
            }
        };
        check("%2F10", Some((b'/', 3, 1)));
        check("%252f10", Some((b'/', 5, 2)));
        check("%25252Fx", Some((b'/', 7, 3)));
        check("%25x", Some((b'%', 3, 1)));
        check("%2", None);
        check("%2G", None);
        check("25", None);
        assert_eq!(decode_layered_at_end(b"252F"), None);
    }

    #[test]
    fn invalid_triplets() {
        assert_eq!(invalid_triplet_offset("a%C3%28"), None);
        assert_eq!(invalid_triplet_offset("a%C3%2"), Some(4));
        assert_eq!(invalid_triplet_offset("%"), Some(0));
    }
}
