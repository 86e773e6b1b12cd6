//! Names that are broken at a line's end.

use super::incremental::MAX_LOOK_AHEAD;
use crate::ascii_case::starts_with_ignore_case;

/// Where the first word of the next line begins, if nothing but white space stands between and no blank line.
pub(super) fn next_line_start(text: &[u8], at: usize) -> Option<usize> {
    let mut breaks = 0;
    for (offset, byte) in text.get(at..)?.iter().take(MAX_LOOK_AHEAD / 2).enumerate() {
        match byte {
            b'\n' => breaks += 1,
            b'\r' | b' ' | b'\t' => {}
            _ => return (breaks == 1).then_some(at + offset),
        }
    }
    None
}

/// True when a name that breaks off after `last` seems to go on with `next`.
pub(super) fn continues_on_next_line(last: u8, next: &[u8]) -> bool {
    let word = next.iter().take(MAX_LOOK_AHEAD / 2).take_while(|byte| byte.is_ascii_graphic()).count();
    let word = next.get(..word).unwrap_or_default();
    let Some(first) = word.first() else { return false };
    let has_digit = word.iter().any(u8::is_ascii_digit);
    let leads = [&b"http"[..], b"doi", b"pmid", b"www."];
    let begins_anew = leads.iter().any(|lead| starts_with_ignore_case(word, lead))
        || word.starts_with(b"10.") && word.contains(&b'/');
    if begins_anew {
        return false;
    }
    let alone = next.get(word.len()).is_none_or(|byte| matches!(byte, b'\n' | b'\r'));
    match last {
        b'-' | b'_' | b'(' => first.is_ascii_alphanumeric(),
        // A slash ends no sentence, but the next line may begin one.
        b'/' | b':' => {
            !first.is_ascii_uppercase() && (first.is_ascii_alphanumeric() || *first == b'(') || has_digit
        }
        b'.' if first.is_ascii_digit() => alone || !is_list_number(word),
        b'.' => {
            first.is_ascii_lowercase() && (has_digit || alone && word.ends_with(b"."))
                || word.starts_with(b"CO;")
        }
        _ => {
            let second = word.get(1).copied().unwrap_or(0);
            matches!(first, b'.' | b'-' | b'/' | b'_')
                && (second.is_ascii_digit() || second.is_ascii_lowercase())
        }
    }
}

/// `12.`, as references are numbered.
fn is_list_number(word: &[u8]) -> bool {
    word.len() <= 4 && word.strip_suffix(b".").is_some_and(|digits| digits.iter().all(u8::is_ascii_digit))
}
