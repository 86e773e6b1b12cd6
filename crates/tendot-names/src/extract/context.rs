//! What stands before a candidate.

use crate::ascii_case::ends_with_ignore_case;
use crate::percent::decode_triplet;

/// How far back from a candidate its address or label is looked for, and from there whatever was opened before.
pub(super) const MAX_LOOK_BACK: usize = 256;

/// Context of a candidate: label or URL before it, opening bracket or quote.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CandidateContext {
    /// Where the address or label begins that is attached to the candidate; its own beginning otherwise.
    pub(super) lead: usize,
    /// The byte before that: perhaps a quote or bracket that was opened for the candidate.
    pub(super) opener: u8,
    /// In an address: `?` and `#` end the name.
    pub(super) url: bool,
    /// In the query of an address: `&` ends it too.
    pub(super) query: bool,
    /// In an address that is itself percent-encoded: so are the characters that end the name.
    pub(super) encoded: bool,
    /// In a URN, or an info URI: `#` ends the name.
    pub(super) fragment: bool,
}

impl CandidateContext {
    /// Looks back from `start`, but not before `floor`.
    pub(super) fn look_back(text: &[u8], floor: usize, start: usize) -> Self {
        let bottom = floor.max(start.saturating_sub(MAX_LOOK_BACK));
        let behind = text.get(bottom..start).unwrap_or_default();
        let mut rest = behind;
        while let [before @ .., byte] = rest
            && (is_url_byte(*byte) || is_url_escape(behind, before.len()))
        {
            rest = before;
        }
        let attached = behind.get(rest.len()..).unwrap_or_default();
        let mut context =
            Self { lead: bottom + rest.len(), opener: rest.last().copied().unwrap_or(0), ..Self::default() };
        if attached.is_empty() {
            return context;
        }
        let before = attached.last_chunk::<3>().and_then(|bytes| decode_triplet(bytes));
        let encoded = before.is_some_and(|byte| b"/:=\"'([,;| ".contains(&byte));
        let urn = ends_with_ignore_case(attached, b"urn:doi:");
        context.fragment = urn || ends_with_ignore_case(attached, b"info:doi/");
        context.encoded = encoded;
        context.url = encoded || urn || is_url(attached);
        context.query = attached.contains(&b'?') || attached.contains(&b'&') && attached.contains(&b'=');
        if let Some(first @ (b'_' | b'*' | b'~' | b'\'' | b'=')) = attached.first() {
            context.opener = *first;
        }
        if let Some(quote @ (b'"' | b'\'')) = before {
            context.opener = quote;
        }
        context
    }
}

/// True when the byte at `at` belongs to an escape of something that an address may contain: `&amp;`, `\/`, `\u0026`.
fn is_url_escape(behind: &[u8], at: usize) -> bool {
    let (before, from) = behind.split_at_checked(at).unwrap_or_default();
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

/// True for what can be part of an address before the name. Brackets and quotes are left out: they open something.
fn is_url_byte(byte: u8) -> bool {
    byte.is_ascii_graphic() && !b"\"<>()[]{}|\\^`,;".contains(&byte)
}

fn is_url(attached: &[u8]) -> bool {
    ends_with_ignore_case(attached, b"doi.org/")
        || ends_with_ignore_case(attached, b"handle.net/")
        || starts_with_host(attached)
        || attached.windows(3).any(|bytes| bytes == b"://")
        || attached.windows(5).any(|bytes| bytes == br":\/\/")
        || attached.windows(9).any(|bytes| bytes.eq_ignore_ascii_case(b"%3A%2F%2F"))
}

/// `tandfonline.com/doi/`: an address without scheme.
fn starts_with_host(attached: &[u8]) -> bool {
    let Some(end) = attached.iter().position(|byte| *byte == b'/') else { return false };
    let host = attached.get(..end).unwrap_or_default();
    let top = host.iter().rev().take_while(|byte| byte.is_ascii_alphabetic()).count();
    top >= 2 && host.len() > top && host.get(host.len() - top - 1) == Some(&b'.')
}

/// Whether a label or proxy URL precedes the candidate; then a short registrant code is accepted.
pub(super) fn has_label(text: &[u8], start: usize) -> bool {
    let behind = text.get(start.saturating_sub(24)..start).unwrap_or_default();
    if [&b"doi.org/"[..], b"handle.net/", b"doi.org%2F", br"doi.org\/", b"/doi/", b"info:doi/"]
        .iter()
        .any(|lead| ends_with_ignore_case(behind, lead))
    {
        return true;
    }
    let attached = behind.rsplit(|byte| !is_url_byte(*byte)).next().unwrap_or_default();
    if attached.windows(5).any(|bytes| bytes.eq_ignore_ascii_case(b"/doi/"))
        || ends_with_ignore_case(attached, b"?id=")
    {
        return true;
    }
    let mut rest = behind;
    while let [before @ .., byte] = rest
        && (b" \t\":={('".contains(byte) || *byte == 0x9A)
    {
        // 0x9A ends the fullwidth colon.
        rest = if *byte == 0x9A { before.strip_suffix(b"\xEF\xBC").unwrap_or(before) } else { before };
    }
    let encoded_colon = rest.strip_suffix(b"%3A").or(rest.strip_suffix(b"%3a")).unwrap_or(rest);
    ends_with_ignore_case(encoded_colon, b"doi") || ends_with_ignore_case(encoded_colon, b"hdl")
}

/// True when a bracket that `close` would close was opened before `lead`, in the same line.
pub(super) fn is_bracket_open(text: &[u8], floor: usize, lead: usize, open: u8, close: u8) -> bool {
    let bottom = floor.max(lead.saturating_sub(MAX_LOOK_BACK));
    let mut closed = 0usize;
    for &byte in text.get(bottom..lead).unwrap_or_default().iter().rev() {
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

/// True when a double quote was opened before `lead`, in the same line; not known when the line begins too far
/// back.
pub(super) fn is_quote_open(text: &[u8], floor: usize, lead: usize) -> bool {
    let bottom = floor.max(lead.saturating_sub(MAX_LOOK_BACK));
    let line = text.get(bottom..lead).unwrap_or_default();
    let is_known = lead - bottom < MAX_LOOK_BACK;
    let mut open = false;
    for &byte in line.iter().rev() {
        match byte {
            b'\n' => return open,
            b'"' => open = !open,
            _ => {}
        }
    }
    open && is_known
}
