//! ASCII case folding and comparison.

use alloc::vec::Vec;

/// Appends `text` with its ASCII letters in upper case.
pub(crate) fn append_uppercase(out: &mut Vec<u8>, text: &[u8]) {
    let end = out.len() + text.len();
    out.reserve(text.len() + 16);
    let mut rest = text;
    while let Some((chunk, after)) = rest.split_first_chunk::<16>() {
        out.extend_from_slice(&uppercase_chunk(*chunk));
        rest = after;
    }
    match text.last_chunk::<16>() {
        // Reads the last 16 bytes again, shifts the remaining ones to the front, and truncates: a copy of constant
        // length is cheaper than one of variable length.
        Some(last) if !rest.is_empty() => {
            let remaining = u128::from_le_bytes(*last) >> (8 * (16 - rest.len()));
            out.extend_from_slice(&uppercase_chunk(remaining.to_le_bytes()));
            out.truncate(end);
        }
        _ => out.extend(rest.iter().map(u8::to_ascii_uppercase)),
    }
}

fn uppercase_chunk(mut chunk: [u8; 16]) -> [u8; 16] {
    // Constant length: compiles to a few vector instructions.
    chunk.make_ascii_uppercase();
    chunk
}

/// Whether `text` starts with `start`, ignoring ASCII case.
#[inline]
pub(crate) fn starts_with_ignore_case(text: &[u8], start: &[u8]) -> bool {
    text.get(..start.len()).is_some_and(|head| head.eq_ignore_ascii_case(start))
}

/// Whether `text` ends with `end`, ignoring ASCII case.
#[inline]
pub(crate) fn ends_with_ignore_case(text: &[u8], end: &[u8]) -> bool {
    strip_suffix_ignore_case(text, end).is_some()
}

/// `text` without `end`, ignoring ASCII case; `None` if it ends otherwise.
#[inline]
pub(crate) fn strip_suffix_ignore_case<'t>(text: &'t [u8], end: &[u8]) -> Option<&'t [u8]> {
    let (rest, tail) = text.split_at_checked(text.len().checked_sub(end.len())?)?;
    tail.eq_ignore_ascii_case(end).then_some(rest)
}

/// Offset of the first `word` in `text`, ignoring ASCII case.
#[inline]
pub(crate) fn find_ignore_case(text: &[u8], word: &[u8]) -> Option<usize> {
    text.windows(word.len()).position(|bytes| bytes.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn append_uppercase_matches_scalar() {
        let bytes: Vec<u8> = (0..=255).chain((0..=255).rev()).collect();
        for len in 0..70 {
            for text in bytes.windows(len.max(1)).map(|window| &window[..len]) {
                let mut out = alloc::vec![b'x'; 3];
                append_uppercase(&mut out, text);
                assert_eq!(out[3..], text.to_ascii_uppercase());
                assert_eq!(out[..3], *b"xxx");
            }
        }
    }
}
