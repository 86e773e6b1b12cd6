//! Characters allowed in a DOI: Unicode's basic type Graphic.
//!
//! These are letters, marks, numbers, punctuation, symbols and spaces (Z39.84 section 4.1; 2024 draft, section 2).

use super::EVERY_BYTE_ONE;
use super::unicode_table::NON_GRAPHIC_RANGES;
use crate::ErrorKind;

/// Error for a character that is not allowed in a DOI; `None` if `c` is allowed.
pub(crate) fn character_error(c: char) -> Option<ErrorKind> {
    if matches!(c, ' '..='~') {
        return None;
    }
    let code = u32::from(c);
    let found = NON_GRAPHIC_RANGES.binary_search_by(|&(first, last, _)| {
        if last < code {
            core::cmp::Ordering::Less
        } else if first > code {
            core::cmp::Ordering::Greater
        } else {
            core::cmp::Ordering::Equal
        }
    });
    found.ok().and_then(|index| NON_GRAPHIC_RANGES.get(index)).map(|&(_, _, kind)| kind)
}

/// Whether `c` is one of the 66 noncharacters, which will never be assigned.
pub(crate) fn is_noncharacter(c: char) -> bool {
    let code = u32::from(c);
    (0xFDD0..=0xFDEF).contains(&code) || code & 0xFFFE == 0xFFFE
}

/// Whether `c` is an invisible character that copying leaves behind: U+200B, U+2060, U+FEFF or U+00AD.
///
/// Bidirectional controls are not removed: that could change the displayed text.
#[cfg(feature = "alloc")]
pub(crate) fn is_removable_invisible(c: char) -> bool {
    matches!(c, '\u{200B}' | '\u{2060}' | '\u{FEFF}' | '\u{AD}')
}

/// Whether all bytes are printable ASCII, as in nearly every DOI.
///
/// Eight bytes at a time, since this is most of the work of parsing.
#[inline]
pub(crate) fn is_printable_ascii(bytes: &[u8]) -> bool {
    // High bit of a byte set: non-ASCII, control or DEL.
    let faults = |word: u64| {
        (word | word.wrapping_sub(EVERY_BYTE_ONE * 0x20) & !word | word.wrapping_add(EVERY_BYTE_ONE))
            & (EVERY_BYTE_ONE << 7)
    };
    let Some(last) = bytes.last_chunk::<8>() else {
        return bytes.iter().all(|byte| matches!(byte, b' '..=b'~'));
    };
    // Reads the last 8 bytes again: cheaper than a partial load.
    let mut found = faults(u64::from_le_bytes(*last));
    let mut rest = bytes;
    while let Some((chunk, after)) = rest.split_first_chunk::<8>() {
        found |= faults(u64::from_le_bytes(*chunk));
        rest = after;
    }
    found == 0
}

/// Checks characters from left to right.
pub(crate) fn check_characters(text: &str, allow_unassigned: bool) -> Result<(), crate::Error> {
    if is_printable_ascii(text.as_bytes()) {
        return Ok(());
    }
    for (offset, c) in text.char_indices() {
        match character_error(c) {
            None => {}
            Some(ErrorKind::UnassignedCharacter) if allow_unassigned && !is_noncharacter(c) => {}
            Some(kind) => return Err(crate::Error::new(kind, offset)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn character_errors_by_category() {
        for (c, expected) in [
            ('a', None),
            ('é', None),
            ('\u{301}', None),
            ('\u{3000}', None),
            ('🐔', None),
            ('\u{7F}', Some(ErrorKind::ControlCharacter)),
            ('\u{9F}', Some(ErrorKind::ControlCharacter)),
            ('\u{AD}', Some(ErrorKind::FormatCharacter)),
            ('\u{202E}', Some(ErrorKind::FormatCharacter)),
            ('\u{2028}', Some(ErrorKind::FormatCharacter)),
            ('\u{E000}', Some(ErrorKind::PrivateUseCharacter)),
            ('\u{10FFFD}', Some(ErrorKind::PrivateUseCharacter)),
            ('\u{378}', Some(ErrorKind::UnassignedCharacter)),
            ('\u{FFFF}', Some(ErrorKind::UnassignedCharacter)),
            ('\u{10FFFF}', Some(ErrorKind::UnassignedCharacter)),
        ] {
            assert_eq!(character_error(c), expected, "{c:?}");
        }
    }

    #[test]
    fn is_printable_ascii_matches_scalar() {
        for byte in 0..=255u8 {
            for len in [1, 7, 8, 9, 15, 16, 17, 33] {
                for index in 0..len {
                    let mut bytes = std::vec![b'a'; len];
                    bytes[index] = byte;
                    assert_eq!(is_printable_ascii(&bytes), matches!(byte, b' '..=b'~'));
                }
            }
        }
    }

    #[test]
    fn table_is_sorted_without_overlap() {
        assert!(NON_GRAPHIC_RANGES.is_sorted_by(|a, b| a.1 < b.0));
        assert_eq!(('\0'..=char::MAX).filter(|&c| is_noncharacter(c)).count(), 66);
    }
}
