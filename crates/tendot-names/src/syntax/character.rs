//! Which characters a name may have: Unicode's basic type Graphic (letters, marks, numbers, punctuation,
//! symbols and spaces), by Z39.84 section 4.1 and section 2 of the 2024 draft.

use super::unicode_table::NON_GRAPHIC_RANGES;
use crate::ErrorKind;

/// Why `c` is not allowed in a DOI.
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

/// True for the 66 code points that will never be assigned.
pub(crate) fn is_noncharacter(c: char) -> bool {
    let code = u32::from(c);
    (0xFDD0..=0xFDEF).contains(&code) || code & 0xFFFE == 0xFFFE
}

/// Invisible characters that copying leaves behind: U+200B, U+2060, U+FEFF, U+00AD; never bidirectional controls.
///
/// Bidirectional controls are not among them: dropping those could change what a reader sees.
#[cfg(feature = "alloc")]
pub(crate) fn is_removable_invisible(c: char) -> bool {
    matches!(c, '\u{200B}' | '\u{2060}' | '\u{FEFF}' | '\u{AD}')
}

/// True for printable ASCII only, as nearly every name is. Eight bytes at a time, since this is most of the work of
/// reading a name.
#[inline]
pub(crate) fn is_printable_ascii(bytes: &[u8]) -> bool {
    const ONES: u64 = u64::MAX / 255;
    // The highest bit of each byte tells: not ASCII, below the space, or DEL.
    let faults =
        |word: u64| (word | word.wrapping_sub(ONES * 0x20) & !word | word.wrapping_add(ONES)) & (ONES << 7);
    let Some(last) = bytes.last_chunk::<8>() else {
        return bytes.iter().all(|byte| matches!(byte, b' '..=b'~'));
    };
    // The last eight are looked at twice where some of them are left: cheaper than a shorter read.
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
    for (at, c) in text.char_indices() {
        match character_error(c) {
            None => {}
            Some(ErrorKind::UnassignedCharacter) if allow_unassigned && !is_noncharacter(c) => {}
            Some(kind) => return Err(crate::Error::new(kind, at)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_point_has_the_fault_of_its_category() {
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
    fn eight_bytes_at_a_time_are_judged_like_each_alone() {
        for byte in 0..=255u8 {
            for len in [1, 7, 8, 9, 15, 16, 17, 33] {
                for at in 0..len {
                    let mut bytes = std::vec![b'a'; len];
                    bytes[at] = byte;
                    assert_eq!(is_printable_ascii(&bytes), matches!(byte, b' '..=b'~'));
                }
            }
        }
    }

    #[test]
    fn the_table_is_sorted_and_has_no_overlap() {
        assert!(NON_GRAPHIC_RANGES.is_sorted_by(|a, b| a.1 < b.0));
        assert_eq!(('\0'..=char::MAX).filter(|&c| is_noncharacter(c)).count(), 66);
    }
}
