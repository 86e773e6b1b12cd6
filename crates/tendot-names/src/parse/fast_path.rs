//! Fast path for plain ASCII input.

use super::input_form::InputForm;
use super::urn::is_urn_byte;
use crate::syntax::character::is_printable_ascii;

/// Input that strict and lenient parsing treat alike: printable ASCII, bare or after `doi:`, `urn:doi:` or a proxy URL.
pub(super) struct FastPathInput<'a> {
    pub(super) name: &'a str,
    pub(super) form: InputForm,
    /// Whether something in it may be percent-encoded.
    pub(super) encoded: bool,
}

/// Takes such an input apart, if it is one.
#[inline]
pub(super) fn match_fast_path(text: &str) -> Option<FastPathInput<'_>> {
    let (name, form) = match text.as_bytes().first()? {
        b'1' => (text, InputForm::Name),
        b'd' => (text.strip_prefix("doi:")?, InputForm::Doi),
        b'h' => {
            let rest = text.strip_prefix("http")?;
            let rest = rest.strip_prefix('s').unwrap_or(rest).strip_prefix("://")?;
            let rest = rest.strip_prefix("dx.").or_else(|| rest.strip_prefix("www.")).unwrap_or(rest);
            (rest.strip_prefix("doi.org/")?, InputForm::ProxyUrl)
        }
        b'u' => (text.strip_prefix("urn:doi:")?, InputForm::Urn),
        _ => return None,
    };
    // A space at the end is dropped by a lenient reading.
    if !name.starts_with("10.") || name.ends_with(' ') {
        return None;
    }
    let bytes = name.as_bytes();
    let (fits, encoded) = match form {
        InputForm::Name => (is_printable_ascii(bytes), false),
        InputForm::Urn => (bytes.iter().all(|byte| is_urn_byte(*byte)), bytes.contains(&b'%')),
        _ => {
            let ByteClasses { printable, percent, query_or_fragment } = classify_bytes(bytes);
            (printable && !(query_or_fragment && form == InputForm::ProxyUrl), percent)
        }
    };
    fits.then_some(FastPathInput { name, form, encoded })
}

/// Byte classes that occur in a text.
struct ByteClasses {
    /// All are printable ASCII.
    printable: bool,
    percent: bool,
    query_or_fragment: bool,
}

/// Classifies all bytes, 16 at a time (vectorized).
#[inline]
fn classify_bytes(bytes: &[u8]) -> ByteClasses {
    const UNPRINTABLE: u8 = 1;
    const PERCENT: u8 = 2;
    const QUERY_OR_FRAGMENT: u8 = 4;
    let judge = |byte: u8| {
        let unprintable = u8::from(byte.wrapping_sub(b' ') > b'~' - b' ') * UNPRINTABLE;
        let percent = u8::from(byte == b'%') * PERCENT;
        let end = u8::from((byte == b'?') | (byte == b'#')) * QUERY_OR_FRAGMENT;
        unprintable | percent | end
    };
    // Each of sixteen places collects what was found there, which is vectorized.
    let mut places = [0u8; 16];
    let mut look = |chunk: &[u8; 16]| {
        for (place, byte) in places.iter_mut().zip(chunk) {
            *place |= judge(*byte);
        }
    };
    let found = match bytes.last_chunk::<16>() {
        Some(last) => {
            let mut rest = bytes;
            while let Some((chunk, after)) = rest.split_first_chunk::<16>() {
                look(chunk);
                rest = after;
            }
            // The last sixteen again, since some of them may be left: cheaper than a shorter read.
            look(last);
            places.iter().fold(0, |found, place| found | place)
        }
        None => bytes.iter().fold(0, |found, byte| found | judge(*byte)),
    };
    ByteClasses {
        printable: found & UNPRINTABLE == 0,
        percent: found & PERCENT != 0,
        query_or_fragment: found & QUERY_OR_FRAGMENT != 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sixteen_bytes_at_a_time_are_judged_like_each_alone() {
        for byte in 0..=255u8 {
            for len in [1, 7, 8, 9, 15, 16, 17, 33] {
                for at in 0..len {
                    let mut bytes = alloc::vec![b'a'; len];
                    bytes[at] = byte;
                    let found = classify_bytes(&bytes);
                    assert_eq!(found.printable, matches!(byte, b' '..=b'~'));
                    assert_eq!(found.percent, byte == b'%');
                    assert_eq!(found.query_or_fragment, b"?#".contains(&byte));
                }
            }
        }
    }
}
