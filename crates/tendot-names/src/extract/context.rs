//! Text before a candidate.

use crate::ascii_case::{ends_with_ignore_case, find_ignore_case};
use crate::percent::decode_triplet;

/// Maximum look-back in bytes: from a candidate to the start of its URL or label, and from there to an opening bracket or quote.
pub(super) const MAX_LOOK_BACK: usize = 256;

/// Maximum look-back in bytes for a label that makes a short registrant code acceptable.
const LABEL_LOOK_BACK: usize = 24;

/// Context of a candidate: label or URL before it, opening bracket or quote.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CandidateContext {
    /// Start of the URL or label attached to the candidate, or of the candidate itself.
    pub(super) wrapper_start: usize,
    /// Byte before `wrapper_start`: possibly an opening quote or bracket.
    pub(super) opener: u8,
    /// Whether the candidate is in a URL: `?` and `#` end the DOI.
    pub(super) is_url: bool,
    /// Whether the candidate is in the query of a URL: `&` ends the DOI too.
    pub(super) is_query: bool,
    /// Whether the URL is itself percent-encoded, and so are the delimiters that end the DOI.
    pub(super) is_encoded_url: bool,
    /// Whether the candidate is in a URN or info URI: `#` ends the DOI.
    pub(super) ends_at_fragment: bool,
}

impl CandidateContext {
    /// Looks back from `start`, but not before `look_back_limit`.
    pub(super) fn look_back(text: &[u8], look_back_limit: usize, start: usize) -> Self {
        let look_back_start = look_back_limit.max(start.saturating_sub(MAX_LOOK_BACK));
        let behind = text.get(look_back_start..start).unwrap_or_default();
        let mut rest = behind;
        while let [before @ .., byte] = rest
            && (is_url_byte(*byte) || is_url_escape(behind, before.len()))
        {
            rest = before;
        }
        let attached = behind.get(rest.len()..).unwrap_or_default();
        let mut context = Self {
            wrapper_start: look_back_start + rest.len(),
            opener: rest.last().copied().unwrap_or(0),
            ..Self::default()
        };
        if attached.is_empty() {
            return context;
        }
        let before = attached.last_chunk::<3>().and_then(|bytes| decode_triplet(bytes));
        let is_encoded = before.is_some_and(|byte| b"/:=\"'([,;| ".contains(&byte));
        let is_urn = ends_with_ignore_case(attached, b"urn:doi:");
        context.ends_at_fragment = is_urn || ends_with_ignore_case(attached, b"info:doi/");
        context.is_encoded_url = is_encoded;
        context.is_url = is_encoded || is_urn || is_url(attached);
        context.is_query = attached.contains(&b'?') || attached.contains(&b'&') && attached.contains(&b'=');
        if let Some(first @ (b'_' | b'*' | b'~' | b'\'' | b'=')) = attached.first() {
            context.opener = *first;
        }
        if let Some(quote @ (b'"' | b'\'')) = before {
            context.opener = quote;
        }
        context
    }
}

/// Whether the byte at `offset` belongs to an escaped URL character: `&amp;`, `\/`, `\u0026`.
fn is_url_escape(behind: &[u8], offset: usize) -> bool {
    let (before, from) = behind.split_at_checked(offset).unwrap_or_default();
    match from {
        [b';', ..] => {
            [&b"&amp"[..], b"&#38", b"&#x26"].iter().any(|entity| ends_with_ignore_case(before, entity))
        }
        [b'\\', after @ ..] => {
            after.starts_with(b"/") || after.starts_with(b"&") || after.starts_with(b"u0026")
        }
        _ => false,
    }
}

/// Whether a byte can be part of a URL before the DOI; not brackets and quotes, which may open something.
fn is_url_byte(byte: u8) -> bool {
    byte.is_ascii_graphic() && !b"\"<>()[]{}|\\^`,;".contains(&byte)
}

/// Whether the text attached to a candidate is a URL, perhaps escaped.
fn is_url(attached: &[u8]) -> bool {
    ends_with_ignore_case(attached, b"doi.org/")
        || ends_with_ignore_case(attached, b"handle.net/")
        || starts_with_host(attached)
        || attached.windows(3).any(|bytes| bytes == b"://")
        || attached.windows(5).any(|bytes| bytes == br":\/\/")
        || find_ignore_case(attached, b"%3A%2F%2F").is_some()
}

/// Whether the text starts with a host name: a URL without scheme, such as `tandfonline.com/doi/`.
fn starts_with_host(attached: &[u8]) -> bool {
    let Some(end) = attached.iter().position(|byte| *byte == b'/') else { return false };
    let host = attached.get(..end).unwrap_or_default();
    let top = host.iter().rev().take_while(|byte| byte.is_ascii_alphabetic()).count();
    top >= 2 && host.len() > top && host.get(host.len() - top - 1) == Some(&b'.')
}

/// Whether a label or proxy URL precedes the candidate; then a short registrant code is accepted.
pub(super) fn has_label(text: &[u8], start: usize) -> bool {
    let behind = text.get(start.saturating_sub(LABEL_LOOK_BACK)..start).unwrap_or_default();
    if [&b"doi.org/"[..], b"handle.net/", b"doi.org%2F", br"doi.org\/", b"/doi/", b"info:doi/"]
        .iter()
        .any(|label| ends_with_ignore_case(behind, label))
    {
        return true;
    }
    let attached = behind.rsplit(|byte| !is_url_byte(*byte)).next().unwrap_or_default();
    if find_ignore_case(attached, b"/doi/").is_some() || ends_with_ignore_case(attached, b"?id=") {
        return true;
    }
    let mut rest = behind;
    while let [before @ .., byte] = rest
        && (b" \t\":={('".contains(byte) || *byte == 0x9A)
    {
        // 0x9A is the last byte of the fullwidth colon.
        rest = if *byte == 0x9A { before.strip_suffix(b"\xEF\xBC").unwrap_or(before) } else { before };
    }
    let encoded_colon = rest.strip_suffix(b"%3A").or(rest.strip_suffix(b"%3a")).unwrap_or(rest);
    ends_with_ignore_case(encoded_colon, b"doi") || ends_with_ignore_case(encoded_colon, b"hdl")
}

/// Whether an opening bracket before `wrapper_start` in the same line is still unclosed.
pub(super) fn is_bracket_open(
    text: &[u8],
    look_back_limit: usize,
    wrapper_start: usize,
    open: u8,
    close: u8,
) -> bool {
    let look_back_start = look_back_limit.max(wrapper_start.saturating_sub(MAX_LOOK_BACK));
    let mut closed = 0usize;
    for &byte in text.get(look_back_start..wrapper_start).unwrap_or_default().iter().rev() {
        match byte {
            b'\n' => return false,
            _ if byte == open && closed == 0 => return true,
            _ if byte == open => closed -= 1,
            _ if byte == close => closed += 1,
            _ => {}
        }
    }
    false
}

/// Whether a double quote is open at `wrapper_start`, counted in its line; false if the line starts too far back.
pub(super) fn is_quote_open(text: &[u8], look_back_limit: usize, wrapper_start: usize) -> bool {
    let look_back_start = look_back_limit.max(wrapper_start.saturating_sub(MAX_LOOK_BACK));
    let line = text.get(look_back_start..wrapper_start).unwrap_or_default();
    let has_line_start = wrapper_start - look_back_start < MAX_LOOK_BACK;
    let mut open = false;
    for &byte in line.iter().rev() {
        match byte {
            b'\n' => return open,
            b'"' => open = !open,
            _ => {}
        }
    }
    open && has_line_start
}
