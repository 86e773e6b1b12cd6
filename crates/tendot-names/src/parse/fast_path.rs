//! Fast path for plain ASCII input.

use alloc::borrow::Cow;

use super::adjustment::Adjustments;
use super::input_form::InputForm;
use super::parsed::ParsedName;
use super::urn::is_urn_byte;
use crate::percent::{InvalidTriplet, percent_decode};
use crate::syntax::character::is_printable_ascii;
use crate::{Doi, DoiBuf, SyntaxRules};

/// Parses plain input; `None` leaves it to the full parser, errors included.
#[inline]
pub(super) fn parse_fast_path(text: &str, rules: SyntaxRules) -> Option<ParsedName<'_>> {
    let FastPathInput { doi, form, may_be_encoded } = match_fast_path(text)?;
    if !may_be_encoded {
        rules.check_structure(doi).ok()?;
        return Some(ParsedName::from_doi(
            Cow::Borrowed(Doi::new_unchecked(doi)),
            form,
            Adjustments::default(),
        ));
    }
    let Cow::Owned(doi) = percent_decode(doi, InvalidTriplet::Reject).ok()?.text else { return None };
    rules.check(&doi, false).ok()?;
    Some(ParsedName::from_doi(Cow::Owned(DoiBuf::from_validated(doi)), form, Adjustments::default()))
}

/// Input that strict and lenient parsing treat alike: printable ASCII, bare or after `doi:`, `urn:doi:` or a proxy URL.
struct FastPathInput<'a> {
    doi: &'a str,
    form: InputForm,
    /// Whether it contains `%` in a form that is percent-decoded.
    may_be_encoded: bool,
}

/// Matches input of the fast path; `None` for all other input.
#[inline]
fn match_fast_path(text: &str) -> Option<FastPathInput<'_>> {
    let (doi, form) = match text.as_bytes().first()? {
        b'1' => (text, InputForm::Bare),
        b'd' => (text.strip_prefix("doi:")?, InputForm::DoiUri),
        b'h' => {
            let rest = text.strip_prefix("http")?;
            let rest = rest.strip_prefix('s').unwrap_or(rest).strip_prefix("://")?;
            let rest = rest.strip_prefix("dx.").or_else(|| rest.strip_prefix("www.")).unwrap_or(rest);
            (rest.strip_prefix("doi.org/")?, InputForm::ProxyUrl)
        }
        b'u' => (text.strip_prefix("urn:doi:")?, InputForm::Urn),
        _ => return None,
    };
    // Lenient parsing trims a trailing space.
    if !doi.starts_with("10.") || doi.ends_with(' ') {
        return None;
    }
    let bytes = doi.as_bytes();
    let (is_plain, may_be_encoded) = match form {
        InputForm::Bare => (is_printable_ascii(bytes), false),
        InputForm::Urn => (bytes.iter().all(|byte| is_urn_byte(*byte)), bytes.contains(&b'%')),
        _ => {
            let ByteClasses { is_printable, has_percent, has_query_or_fragment } = classify_bytes(bytes);
            (is_printable && !(has_query_or_fragment && form == InputForm::ProxyUrl), has_percent)
        }
    };
    is_plain.then_some(FastPathInput { doi, form, may_be_encoded })
}

/// Byte classes that occur in a text.
struct ByteClasses {
    /// Whether all bytes are printable ASCII.
    is_printable: bool,
    has_percent: bool,
    has_query_or_fragment: bool,
}

/// Classifies all bytes, 16 at a time (vectorized).
#[inline]
fn classify_bytes(bytes: &[u8]) -> ByteClasses {
    const UNPRINTABLE: u8 = 1;
    const PERCENT: u8 = 2;
    const QUERY_OR_FRAGMENT: u8 = 4;
    let classify = |byte: u8| {
        let unprintable = u8::from(byte.wrapping_sub(b' ') > b'~' - b' ') * UNPRINTABLE;
        let percent = u8::from(byte == b'%') * PERCENT;
        let query_or_fragment = u8::from((byte == b'?') | (byte == b'#')) * QUERY_OR_FRAGMENT;
        unprintable | percent | query_or_fragment
    };
    // One accumulator per lane, so the loop is vectorized.
    let mut lanes = [0u8; 16];
    let mut accumulate = |chunk: &[u8; 16]| {
        for (lane, byte) in lanes.iter_mut().zip(chunk) {
            *lane |= classify(*byte);
        }
    };
    let found = match bytes.last_chunk::<16>() {
        Some(last) => {
            let mut rest = bytes;
            while let Some((chunk, after)) = rest.split_first_chunk::<16>() {
                accumulate(chunk);
                rest = after;
            }
            // Reads the last 16 bytes again: cheaper than a partial load.
            accumulate(last);
            lanes.iter().fold(0, |found, lane| found | lane)
        }
        None => bytes.iter().fold(0, |found, byte| found | classify(*byte)),
    };
    ByteClasses {
        is_printable: found & UNPRINTABLE == 0,
        has_percent: found & PERCENT != 0,
        has_query_or_fragment: found & QUERY_OR_FRAGMENT != 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classify_bytes_matches_scalar() {
        for byte in 0..=255u8 {
            for len in [1, 7, 8, 9, 15, 16, 17, 33] {
                for index in 0..len {
                    let mut bytes = alloc::vec![b'a'; len];
                    bytes[index] = byte;
                    let found = classify_bytes(&bytes);
                    assert_eq!(found.is_printable, matches!(byte, b' '..=b'~'));
                    assert_eq!(found.has_percent, byte == b'%');
                    assert_eq!(found.has_query_or_fragment, b"?#".contains(&byte));
                }
            }
        }
    }
}
