//! DOIs broken across lines.

use super::incremental::MAX_LOOK_AHEAD;
use crate::ascii_case::starts_with_ignore_case;

/// Offset of the first word of the next line; `None` if the line does not end here or a blank line follows.
pub(super) fn next_line_start(text: &[u8], line_end: usize) -> Option<usize> {
    let mut breaks = 0;
    for (offset, byte) in text.get(line_end..)?.iter().take(MAX_LOOK_AHEAD / 2).enumerate() {
        match byte {
            b'\n' => breaks += 1,
            b'\r' | b' ' | b'\t' => {}
            _ => return (breaks == 1).then_some(line_end + offset),
        }
    }
    None
}

/// Whether a DOI whose line ends in `last` seems to continue with `next`.
pub(super) fn continues_on_next_line(last: u8, next: &[u8]) -> bool {
    let word = next.iter().take(MAX_LOOK_AHEAD / 2).take_while(|byte| byte.is_ascii_graphic()).count();
    let word = next.get(..word).unwrap_or_default();
    let Some(first) = word.first() else { return false };
    let has_digit = word.iter().any(u8::is_ascii_digit);
    let new_items = [&b"http"[..], b"doi", b"pmid", b"www."];
    let starts_new_item = new_items.iter().any(|start| starts_with_ignore_case(word, start))
        || word.starts_with(b"10.") && word.contains(&b'/');
    if starts_new_item {
        return false;
    }
    let is_alone = next.get(word.len()).is_none_or(|byte| matches!(byte, b'\n' | b'\r'));
    match last {
        b'-' | b'_' | b'(' => first.is_ascii_alphanumeric(),
        // A slash does not end a sentence, but the next line may start one.
        b'/' | b':' => {
            !first.is_ascii_uppercase() && (first.is_ascii_alphanumeric() || *first == b'(') || has_digit
        }
        b'.' if first.is_ascii_digit() => is_alone || !is_list_number(word),
        b'.' => {
            first.is_ascii_lowercase() && (has_digit || is_alone && word.ends_with(b"."))
                || word.starts_with(b"CO;")
        }
        _ => {
            let second = word.get(1).copied().unwrap_or(0);
            matches!(first, b'.' | b'-' | b'/' | b'_')
                && (second.is_ascii_digit() || second.is_ascii_lowercase())
        }
    }
}

/// Whether a word is the number of a reference, such as `12.`.
fn is_list_number(word: &[u8]) -> bool {
    word.len() <= 4 && word.strip_suffix(b".").is_some_and(|digits| digits.iter().all(u8::is_ascii_digit))
}
