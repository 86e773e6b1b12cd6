//! Text before a candidate.

use super::preceding_char::{preceding_char, strip_preceding};
use crate::InputForm;
use crate::ascii_case::{
    ends_with_ignore_case, find_ignore_case, starts_with_ignore_case, strip_suffix_ignore_case,
};
use crate::parse::PROXY_HOSTS;

/// Maximum look-back in bytes: from a candidate to the start of its URL or label, and from there to an opening bracket or quote.
pub(super) const MAX_LOOK_BACK: usize = 256;

/// Maximum look-back in bytes for a label that makes a short registrant code acceptable.
const LABEL_LOOK_BACK: usize = 24;

/// Context of a candidate: label or URL before it, opening bracket or quote.
#[derive(Clone, Copy, Debug)]
pub(super) struct CandidateContext {
    /// Start of the URL or label attached to the candidate, or of the candidate itself.
    pub(super) wrapper_start: usize,
    /// Byte before `wrapper_start`: possibly an opening quote or bracket.
    pub(super) opener: u8,
    /// Input form, if the candidate immediately follows the label, scheme or proxy URL of one that strict parsing accepts;
    /// otherwise bare. In such a form, everything up to the end of the candidate is the DOI.
    pub(super) form: InputForm,
    /// Whether the candidate is in a URL: `?` and `#` end the DOI.
    pub(super) is_url: bool,
    /// Whether the candidate is in the query of a URL: `&` ends the DOI too.
    pub(super) is_query: bool,
    /// How often the text around the candidate is percent-encoded: once for a URL in the query of another. The delimiters that
    /// end the DOI are encoded too.
    pub(super) encoding_layers: u8,
    /// Whether the encoded text is a URI, which has one more layer of percent-encoding, its own.
    pub(super) is_encoded_uri: bool,
    /// Whether the encoded text is a URL with a query, so that an encoded `&` ends the DOI.
    pub(super) is_encoded_query: bool,
    /// Whether the candidate is in a URN or info URI: `#` ends the DOI.
    pub(super) ends_at_fragment: bool,
    /// Delimiter of MARC subfields, if the candidate is in one; ends the DOI.
    pub(super) subfield_delimiter: Option<char>,
}

impl CandidateContext {
    /// Context of a candidate without label or URL.
    const fn bare(wrapper_start: usize, opener: u8) -> Self {
        Self {
            wrapper_start,
            opener,
            form: InputForm::Bare,
            is_url: false,
            is_query: false,
            encoding_layers: 0,
            is_encoded_uri: false,
            is_encoded_query: false,
            ends_at_fragment: false,
            subfield_delimiter: None,
        }
    }

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
        let mut context = Self::bare(look_back_start + rest.len(), rest.last().copied().unwrap_or(0));
        context.subfield_delimiter = subfield_delimiter(rest, attached);
        let Some(last) = preceding_char(attached) else { return context };
        context.form = attached_form(attached);
        if last.encoding_layers > 0 && b"/:=\"'([,;| ".contains(&last.byte) {
            context.encoding_layers = last.encoding_layers;
            context.is_encoded_uri = matches!(last.byte, b'/' | b':');
            context.is_encoded_query = [&b"%3D"[..], b"%253D", b"%25253D"]
                .iter()
                .any(|equals_sign| find_ignore_case(attached, equals_sign).is_some());
        }
        context.ends_at_fragment =
            matches!(context.form, InputForm::Urn | InputForm::UrnEidr | InputForm::InfoUri);
        context.is_url = context.encoding_layers > 0
            || !matches!(
                context.form,
                InputForm::Bare | InputForm::DoiUri | InputForm::HdlUri | InputForm::InfoUri
            )
            || is_url(attached);
        // A parameter that is percent-encoded itself needs no `?` or `&` before it.
        context.is_query = attached.contains(&b'?')
            || attached.contains(&b'=') && (attached.contains(&b'&') || context.encoding_layers > 0);
        if let Some(first @ (b'_' | b'*' | b'~' | b'\'' | b'=')) = attached.first() {
            context.opener = *first;
        }
        if context.encoding_layers > 0 && matches!(last.byte, b'"' | b'\'') {
            context.opener = last.byte;
        }
        context
    }
}

#[cfg(test)]
impl Default for CandidateContext {
    fn default() -> Self {
        Self::bare(0, 0)
    }
}

/// Input form whose label, scheme or proxy URL ends `attached`; bare if strict parsing accepts none with this ending.
fn attached_form(attached: &[u8]) -> InputForm {
    if let Some(rest) = strip_preceding(attached, b'/') {
        if let Some(scheme) =
            strip_suffix_ignore_case(rest, b"doi").and_then(|rest| strip_preceding(rest, b':'))
            && let Some(before) = strip_suffix_ignore_case(scheme, b"info")
        {
            return if starts_scheme(before) { InputForm::InfoUri } else { InputForm::Bare };
        }
        let host = strip_suffix_ignore_case(rest, b"handles")
            .and_then(|rest| strip_preceding(rest, b'/'))
            .and_then(|rest| strip_suffix_ignore_case(rest, b"api"))
            .and_then(|rest| strip_preceding(rest, b'/'))
            .unwrap_or(rest);
        let form = PROXY_HOSTS.into_iter().find_map(|(name, form)| {
            strip_suffix_ignore_case(host, name.as_bytes()).filter(|before| starts_host(before)).map(|_| form)
        });
        return form.unwrap_or(InputForm::Bare);
    }
    let Some(rest) = strip_preceding(attached, b':') else { return InputForm::Bare };
    let (before, form) = if let Some(before) = strip_suffix_ignore_case(rest, b"doi") {
        (before, InputForm::DoiUri)
    } else if let Some(before) = strip_suffix_ignore_case(rest, b"hdl") {
        (before, InputForm::HdlUri)
    } else if let Some(before) = strip_suffix_ignore_case(rest, b"eidr") {
        (before, InputForm::UrnEidr)
    } else {
        return InputForm::Bare;
    };
    let urn = strip_preceding(before, b':').and_then(|before| strip_suffix_ignore_case(before, b"urn"));
    match (form, urn) {
        (InputForm::DoiUri, Some(before)) if starts_scheme(before) => InputForm::Urn,
        (InputForm::UrnEidr, Some(before)) if starts_scheme(before) => InputForm::UrnEidr,
        (InputForm::DoiUri | InputForm::HdlUri, _) if starts_scheme(before) => form,
        _ => InputForm::Bare,
    }
}

/// Whether a host name may start after `before`: after `//`, or without a scheme after what is not part of a URL.
fn starts_host(before: &[u8]) -> bool {
    match preceding_char(before) {
        None => true,
        Some(last) if last.byte == b'/' => {
            strip_preceding(before, b'/').is_some_and(|rest| strip_preceding(rest, b'/').is_some())
        }
        Some(last) => !last.byte.is_ascii_alphanumeric() && !b"-.@%".contains(&last.byte),
    }
}

/// Whether a scheme may start after `before`: not inside a word, and not in the path of a URL other than the proxy's.
fn starts_scheme(before: &[u8]) -> bool {
    match preceding_char(before) {
        None => true,
        Some(last) if last.byte == b'/' => {
            let host = strip_preceding(before, b'/').unwrap_or_default();
            let mut hosts = PROXY_HOSTS.into_iter();
            hosts.any(|(name, _)| strip_suffix_ignore_case(host, name.as_bytes()).is_some_and(starts_host))
        }
        Some(last) => !last.byte.is_ascii_alphanumeric() && !b"-.+%".contains(&last.byte),
    }
}

/// Delimiter of MARC subfields, if the candidate with the text `attached` to it is in one: `$a10.1000/182$2doi`.
///
/// `behind` is the text before `attached`. U+001F, the delimiter in files, and `|` end every DOI.
fn subfield_delimiter(behind: &[u8], attached: &[u8]) -> Option<char> {
    let (behind, field) = match attached {
        // A space may follow the code.
        [] => (behind.strip_suffix(b" ")?, attached),
        _ => (behind, attached),
    };
    let is_value = |value: &[u8]| {
        value.is_empty()
            || [&b"http"[..], b"doi", b"info:", b"urn:", b"hdl:"]
                .iter()
                .any(|start| starts_with_ignore_case(value, start))
    };
    let is_code = |code: &u8| code.is_ascii_lowercase() || code.is_ascii_digit();
    match field {
        [b'$', code, value @ ..] | [b'$', b'$', code, value @ ..] if is_code(code) && is_value(value) => {
            return Some('$');
        }
        [code, value @ ..] if is_code(code) && is_value(value) => {
            return ['‡', 'ǂ'].into_iter().find(|delimiter| ends_with_char(behind, *delimiter));
        }
        [] => {}
        _ => return None,
    }
    // The code is separated from the DOI by a space.
    let [before @ .., code] = behind else { return None };
    let is_identifier_code = matches!(code, b'a' | b'z');
    ['$', '‡', 'ǂ'].into_iter().find(|delimiter| is_identifier_code && ends_with_char(before, *delimiter))
}

fn ends_with_char(text: &[u8], character: char) -> bool {
    text.ends_with(character.encode_utf8(&mut [0; 4]).as_bytes())
}

/// Whether the byte at `offset` belongs to an escaped URL character: `&amp;`, `&#x2F;`, `\/`, `\u0026`.
fn is_url_escape(behind: &[u8], offset: usize) -> bool {
    let (before, from) = behind.split_at_checked(offset).unwrap_or_default();
    match from {
        [b';', ..] => {
            const ENTITIES: [&[u8]; 9] =
                [b"&amp", b"&#38", b"&#x26", b"&#47", b"&#x2F", b"&sol", b"&#58", b"&#x3A", b"&colon"];
            ENTITIES.iter().any(|entity| ends_with_ignore_case(before, entity))
        }
        [b'\\', after @ ..] => {
            [&b"/"[..], b"&", b"u0026", b"u002F"].iter().any(|escape| starts_with_ignore_case(after, escape))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_attached_text() {
        for (attached, form) in [
            ("https://doi.org/", InputForm::ProxyUrl),
            ("HTTP://DX.DOI.ORG/", InputForm::ProxyUrl),
            ("www.doi.org/", InputForm::ProxyUrl),
            ("https://doi.org/api/handles/", InputForm::ProxyUrl),
            ("https://hdl.handle.net/", InputForm::HandleProxyUrl),
            (r"https:\/\/doi.org\/", InputForm::ProxyUrl),
            (r"https:\u002F\u002Fdoi.org\u002F", InputForm::ProxyUrl),
            ("https:&#x2F;&#x2F;doi.org&#x2F;", InputForm::ProxyUrl),
            ("https://x.example/?url=https%3A%2F%2Fdoi.org%2F", InputForm::ProxyUrl),
            ("https://x.example/?url=doi.org/", InputForm::ProxyUrl),
            ("doi:", InputForm::DoiUri),
            ("DOI:", InputForm::DoiUri),
            ("https://doi.org/doi:", InputForm::DoiUri),
            ("https://x.example/?id=doi%3A", InputForm::DoiUri),
            ("urn:doi:", InputForm::Urn),
            ("urn:eidr:", InputForm::UrnEidr),
            ("info:doi/", InputForm::InfoUri),
            ("rft_id=info%3Adoi%2F", InputForm::InfoUri),
            ("hdl:", InputForm::HdlUri),
            ("", InputForm::Bare),
            ("https://evil-doi.org/", InputForm::Bare),
            ("https://doi.org.example/", InputForm::Bare),
            ("https://x.example/doi.org/", InputForm::Bare),
            ("https://user@doi.org/", InputForm::Bare),
            ("https://x.example/doi/", InputForm::Bare),
            ("https://x.example/doi:", InputForm::Bare),
            ("https://doi.org/abs/", InputForm::Bare),
            ("mydoi:", InputForm::Bare),
            ("eidr:", InputForm::Bare),
        ] {
            assert_eq!(attached_form(attached.as_bytes()), form, "{attached}");
        }
    }

    #[test]
    fn encoding_layers() {
        for (before, layers, is_uri) in [
            ("https://x.example/?url=https://doi.org/", 0, false),
            ("https://x.example/?url=https%3A%2F%2Fdoi.org%2F", 1, true),
            ("https://x.example/?url=https%253A%252F%252Fdoi.org%252F", 2, true),
            ("https://x.example/?q=doi%3A", 1, true),
            ("https://x.example/?q=%22", 1, false),
        ] {
            let text = [before, "10.1000/182"].concat();
            let context = CandidateContext::look_back(text.as_bytes(), 0, before.len());
            assert_eq!((context.encoding_layers, context.is_encoded_uri), (layers, is_uri), "{before}");
        }
    }

    #[test]
    fn subfield_delimiters() {
        for (before, delimiter) in [
            ("=024  7\\$a", Some('$')),
            ("024 7# $a ", Some('$')),
            ("$uhttps://doi.org/", Some('$')),
            ("‡a", Some('‡')),
            ("‡a ", Some('‡')),
            ("ǂuhttps://doi.org/", Some('ǂ')),
            ("$base/", None),
            ("a ", None),
            ("", None),
        ] {
            let text = [before, "10.1000/182"].concat();
            let context = CandidateContext::look_back(text.as_bytes(), 0, before.len());
            assert_eq!(context.subfield_delimiter, delimiter, "{before}");
        }
    }
}
