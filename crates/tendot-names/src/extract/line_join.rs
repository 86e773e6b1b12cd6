//! DOIs broken across lines.

use super::incremental::MAX_LOOK_AHEAD;
use crate::ascii_case::{ends_with_ignore_case, starts_with_ignore_case};

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

/// Whether a DOI whose part on this line is `line` seems to continue with `next`.
pub(super) fn continues_on_next_line(line: &[u8], next: &[u8]) -> bool {
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
    if let Some(continues) = continues_sici(line, word) {
        return continues;
    }
    let Some(last) = line.last() else { return false };
    let is_alone = next.get(word.len()).is_none_or(|byte| matches!(byte, b'\n' | b'\r'));
    match *last {
        b'-' | b'_' | b'(' => first.is_ascii_alphanumeric(),
        // A slash does not end a sentence, but the next line may start one.
        b'/' | b':' => {
            !first.is_ascii_uppercase() && (first.is_ascii_alphanumeric() || *first == b'(') || has_digit
        }
        b'.' if first.is_ascii_digit() => is_alone || !is_list_number(word),
        b'.' => first.is_ascii_lowercase() && (has_digit || is_alone && word.ends_with(b".")),
        _ => {
            let second = word.get(1).copied().unwrap_or(0);
            matches!(first, b'.' | b'-' | b'/' | b'_')
                && (second.is_ascii_digit() || second.is_ascii_lowercase())
        }
    }
}

/// Whether a SICI code that breaks off at the end of `line` continues with `word`; `None` if it is no such break.
///
/// The control segment of a SICI code (ANSI/NISO Z39.56) ends with the format `CO`, the version and a check character, as in
/// `3.0.CO;2-V`, so that `word` has to be the rest of it. Some DOIs have no check character: `2.0.CO;2`.
fn continues_sici(line: &[u8], word: &[u8]) -> Option<bool> {
    const ENDING: &[u8] = b".CO;2-";
    let ending = |len: &usize| ends_with_ignore_case(line, ENDING.get(..*len).unwrap_or_default());
    let len = (1..=ENDING.len()).rev().find(ending)?;
    let is_word_end = |offset| !word.get(offset).is_some_and(|byte: &u8| byte.is_ascii_alphanumeric());
    let rest = ENDING.get(len..).unwrap_or_default();
    let has_check_character = starts_with_ignore_case(word, rest)
        && word.get(rest.len()).is_some_and(|check| check.is_ascii_alphanumeric() || *check == b'#')
        && is_word_end(rest.len() + 1);
    let ends_with_version = rest.strip_suffix(b"2-").is_some()
        && starts_with_ignore_case(word, rest.strip_suffix(b"-").unwrap_or(rest))
        && is_word_end(rest.len() - 1)
        && word.get(rest.len() - 1) != Some(&b'-');
    match has_check_character || ends_with_version {
        true => Some(true),
        // `.`, `.C` and `.CO` may be the end of something else.
        false if len <= 3 => None,
        false => Some(false),
    }
}

/// Whether a word is the number of a reference, such as `12.`.
fn is_list_number(word: &[u8]) -> bool {
    word.len() <= 4 && word.strip_suffix(b".").is_some_and(|digits| digits.iter().all(u8::is_ascii_digit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn breaks_in_a_sici_code() {
        let code = b"30.CO;2-V";
        for split in 3..code.len() {
            let (line, next) = code.split_at(split);
            for after in ["", " and", ". Next", ", p. 3"] {
                assert!(continues_on_next_line(line, &[next, after.as_bytes()].concat()), "{split} {after}");
            }
        }
        assert!(continues_on_next_line(b"2.0.CO;", b"2, 2002"));
        assert!(continues_on_next_line(b"2.0.co", b";2"));
        for (line, next) in [
            ("3.0.CO;2-", "The next sentence"),
            ("3.0.CO;2", "-abc"),
            ("3.0.CO;", "12. Smith"),
            ("3.0.CO;", "Next"),
            ("3.0.CO;2-V", "and"),
        ] {
            assert!(!continues_on_next_line(line.as_bytes(), next.as_bytes()), "{line} {next}");
        }
    }
}
