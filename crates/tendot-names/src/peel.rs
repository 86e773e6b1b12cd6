//! Taking labels, schemes and proxy addresses off the front of a name, and queries and fragments off its end.

use crate::character::is_printable_ascii;
use crate::escape::{InvalidTriplet, UnencodedSet, percent_decode};
use crate::notes::{Adjustment, Adjustments};
use crate::read::InputForm;
use crate::{Error, ErrorKind};

/// Rest of the input after wrappers were removed; may be percent-encoded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StrippedInput<'a> {
    pub(crate) text: &'a str,
    /// Where `text` begins in the input.
    pub(crate) offset: usize,
    pub(crate) form: InputForm,
    /// It stood after `urn:eidr:`, perhaps inside an address: its first `:` stands for `/`.
    pub(crate) eidr: bool,
    pub(crate) notes: Adjustments,
}

/// Label, scheme or proxy URL before a DOI: its form and length.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Wrapper {
    form: InputForm,
    len: usize,
}

/// The hosts that resolve DOI names. Compared exactly: `evil-doi.org` and `doi.org.example` are others.
const PROXY_HOSTS: [(&str, InputForm); 4] = [
    ("doi.org", InputForm::ProxyUrl),
    ("dx.doi.org", InputForm::ProxyUrl),
    ("www.doi.org", InputForm::ProxyUrl),
    ("hdl.handle.net", InputForm::HandleUrl),
];

/// Input that strict and lenient parsing treat alike: printable ASCII, bare or after `doi:`, `urn:doi:` or a proxy URL.
pub(crate) struct FastPathInput<'a> {
    pub(crate) name: &'a str,
    pub(crate) form: InputForm,
    /// Whether something in it may be percent-encoded.
    pub(crate) encoded: bool,
}

/// Takes such an input apart, if it is one.
#[inline]
pub(crate) fn match_fast_path(text: &str) -> Option<FastPathInput<'_>> {
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

/// Removes the one wrapper that strict parsing accepts.
pub(crate) fn strip_strict(text: &str) -> Result<StrippedInput<'_>, Error> {
    let bare =
        StrippedInput { text, offset: 0, form: InputForm::Name, eidr: false, notes: Adjustments::default() };
    if text.starts_with("10.") {
        return Ok(bare);
    }
    if let Some(lead) = match_scheme(text) {
        let peeled = bare.strip_wrapper(lead);
        return if matches!(lead.form, InputForm::Urn | InputForm::UrnEidr) {
            check_urn(peeled)
        } else {
            Ok(peeled.strip_query_and_fragment())
        };
    }
    match match_proxy_url(text)? {
        Some(address) if !address.port && address.scheme => {
            Ok(bare.strip_wrapper(address.lead).strip_slash().strip_api_path().strip_query_and_fragment())
        }
        Some(ProxyUrl { port: true, scheme: true, lead }) => {
            Err(Error::new(ErrorKind::UnknownForm, lead.len))
        }
        _ => Ok(bare),
    }
}

/// Checks a URN (RFC 8141) and cuts its r-, q- and f-components.
fn check_urn(peeled: StrippedInput<'_>) -> Result<StrippedInput<'_>, Error> {
    let name = peeled.strip_query_and_fragment();
    let bad = |at: usize| Error::new(ErrorKind::BadUrn, peeled.offset + at);
    if let Some(at) = name.text.bytes().position(|byte| !is_urn_byte(byte)) {
        return Err(bad(at));
    }
    let components = peeled.text.get(name.text.len()..).unwrap_or_default();
    let mut at = name.text.len();
    let (resolution_and_query, fragment) = components.split_once('#').unwrap_or((components, ""));
    if !resolution_and_query.is_empty() {
        let (resolution, query) = match resolution_and_query.strip_prefix("?+") {
            Some(rest) => rest.split_once("?=").map_or((Some(rest), None), |(r, q)| (Some(r), Some(q))),
            None => (None, resolution_and_query.strip_prefix("?=")),
        };
        if resolution.is_none() && query.is_none() {
            return Err(bad(at));
        }
        for component in [resolution, query].into_iter().flatten() {
            at += 2;
            check_urn_component(component).map_err(|error| error.shifted_by(peeled.offset + at))?;
            if component.is_empty() || component.starts_with(['/', '?']) {
                return Err(bad(at));
            }
            at += component.len();
        }
    }
    check_urn_component(fragment).map_err(|error| error.shifted_by(peeled.offset + at + 1))?;
    Ok(name)
}

/// What may stand in an r-, q- or f-component, percent-encoding well formed.
fn check_urn_component(text: &str) -> Result<(), Error> {
    if let Some(at) = text.bytes().position(|byte| !is_urn_byte(byte) && byte != b'?') {
        return Err(Error::new(ErrorKind::BadUrn, at));
    }
    percent_decode(text, InvalidTriplet::Refuse)
        .map(|_| ())
        .map_err(|error| Error::new(ErrorKind::BadPercentEncoding, error.offset()))
}

/// `pchar` of RFC 3986 and the slash.
fn is_urn_byte(byte: u8) -> bool {
    UnencodedSet::URN.contains(byte)
}

/// Removes every wrapper that lenient parsing accepts.
pub(crate) fn strip_lenient(text: &str) -> Result<StrippedInput<'_>, Error> {
    let mut peeled =
        StrippedInput { text, offset: 0, form: InputForm::Name, eidr: false, notes: Adjustments::default() };
    loop {
        let before = peeled.text.len();
        peeled = peeled.trim_whitespace().strip_delimiters();
        if peeled.text.starts_with("10.") {
            break;
        }
        if peeled.text.len() < before {
            continue;
        }
        if let Some(lead) = match_scheme(peeled.text) {
            peeled = peeled.strip_wrapper(lead);
            continue;
        }
        if let Some(lead) = match_label(peeled.text) {
            peeled = peeled.strip_wrapper(lead);
            peeled.notes = peeled.notes.with(Adjustment::LabelDropped);
            continue;
        }
        let is_first_address = !peeled.form.is_url();
        let Some(address) = match_proxy_url(peeled.text).map_err(|error| error.shifted_by(peeled.offset))?
        else {
            break;
        };
        peeled = peeled.strip_wrapper(address.lead);
        for (happened, note) in [
            (!is_first_address, Adjustment::DoubledAddress),
            (!address.scheme, Adjustment::SchemeMissing),
            (address.port, Adjustment::DefaultPort),
        ] {
            if happened {
                peeled.notes = peeled.notes.with(note);
            }
        }
        peeled = peeled.strip_slash().strip_extra_slashes().strip_api_path();
    }
    let whole = peeled;
    peeled = peeled.strip_query_and_fragment();
    if peeled.form == InputForm::Urn || peeled.form == InputForm::UrnEidr {
        let tail = whole.text.get(peeled.text.len()..).unwrap_or_default();
        if tail.starts_with('?') && !tail.starts_with("?+") && !tail.starts_with("?=") {
            peeled.notes = peeled.notes.with(Adjustment::QueryCut);
        } else if check_urn(whole).is_err() {
            peeled.notes = peeled.notes.with(Adjustment::RawInUrn);
        }
    }
    Ok(peeled)
}

/// Removes wrappers that appear only after percent-decoding: `doi%3A10.1000%2F182`.
///
/// `doi%3A10.1000%2F182`. Nothing is trimmed, since what was encoded is data.
pub(crate) fn strip_decoded(text: &str) -> Result<StrippedInput<'_>, Error> {
    let mut peeled =
        StrippedInput { text, offset: 0, form: InputForm::Name, eidr: false, notes: Adjustments::default() };
    while !peeled.text.starts_with("10.") {
        if let Some(lead) = match_scheme(peeled.text) {
            peeled = peeled.strip_wrapper(lead);
        } else if let Some(ProxyUrl { lead, scheme: true, .. }) =
            match_proxy_url(peeled.text).map_err(|error| error.shifted_by(peeled.offset))?
        {
            peeled = peeled.strip_wrapper(lead).strip_slash();
        } else {
            break;
        }
    }
    Ok(peeled)
}

impl<'a> StrippedInput<'a> {
    fn strip_wrapper(self, lead: Wrapper) -> Self {
        let mut notes = self.notes;
        let is_second = self.form != InputForm::Name;
        if is_second && !(self.form.is_url() && lead.form.is_url()) {
            notes = notes.with(Adjustment::LabelDropped);
        }
        let eidr = self.eidr || lead.form == InputForm::UrnEidr;
        Self { form: self.form.more_specific(lead.form), eidr, notes, ..self.skip(lead.len) }
    }

    fn skip(self, at: usize) -> Self {
        Self { text: self.text.get(at..).unwrap_or_default(), offset: self.offset + at, ..self }
    }

    fn trim_whitespace(self) -> Self {
        // White space is at most this in ASCII, or outside it.
        let may_be_space = |byte: Option<&u8>| byte.is_some_and(|byte| *byte <= b' ' || *byte >= 0x80);
        let bytes = self.text.as_bytes();
        if !may_be_space(bytes.first()) && !may_be_space(bytes.last()) {
            return self;
        }
        let text = self.text.trim_start();
        let dropped = self.text.len() - text.len();
        let trimmed = Self { text: text.trim_end(), offset: self.offset + dropped, ..self };
        if trimmed.text.len() == self.text.len() {
            return self;
        }
        Self { notes: self.notes.with(Adjustment::Trimmed), ..trimmed }
    }

    /// Drops `<…>` and quotes around the whole, with a colon after them, and a colon that has lost its label.
    fn strip_delimiters(self) -> Self {
        const DELIMITER_PAIRS: [(char, char); 11] = [
            ('<', '>'),
            ('"', '"'),
            ('\'', '\''),
            ('`', '`'),
            ('“', '”'),
            ('„', '“'),
            ('‘', '’'),
            ('«', '»'),
            ('‹', '›'),
            ('「', '」'),
            ('『', '』'),
        ];
        if self.text.starts_with(|c: char| c.is_ascii_alphanumeric()) {
            return self;
        }
        let noted = self.notes.with(Adjustment::Unwrapped);
        if let Some(rest) = self.text.strip_prefix(':').filter(|_| !self.eidr) {
            return Self { text: rest, offset: self.offset + 1, notes: noted, ..self };
        }
        let without_colon = self.text.strip_suffix(':').unwrap_or(self.text).trim_end();
        for (open, close) in DELIMITER_PAIRS {
            for text in [self.text, without_colon] {
                if let Some(inner) = text.strip_prefix(open).and_then(|rest| rest.strip_suffix(close)) {
                    let offset = self.offset + open.len_utf8();
                    return Self { text: inner, offset, notes: noted, ..self };
                }
            }
        }
        self
    }

    fn strip_slash(self) -> Self {
        if self.text.starts_with('/') { self.skip(1) } else { self }
    }

    fn strip_extra_slashes(self) -> Self {
        let extra = self.text.len() - self.text.trim_start_matches('/').len();
        if extra == 0 {
            return self;
        }
        Self { notes: self.notes.with(Adjustment::ExtraSlashes), ..self.skip(extra) }
    }

    /// 2024 draft, section 3: records are asked for under `/api/handles/`.
    fn strip_api_path(self) -> Self {
        const API_PATH: &str = "api/handles/";
        if self.text.starts_with(API_PATH) { self.skip(API_PATH.len()) } else { self }
    }

    /// Cuts off what is not part of the name: query and fragment of an address, the components of a URN, the
    /// fragment of an info URI. After `doi:` and `hdl:` and in a bare name, `?` and `#` are data: a `doi` URI has
    /// neither query nor fragment (2024 draft, section 2).
    fn strip_query_and_fragment(self) -> Self {
        let end = match self.form {
            InputForm::ProxyUrl | InputForm::HandleUrl | InputForm::Urn | InputForm::UrnEidr => {
                self.text.bytes().position(|byte| matches!(byte, b'?' | b'#'))
            }
            InputForm::Info => self.text.find('#'),
            InputForm::Name | InputForm::Doi | InputForm::Hdl => None,
        };
        let Some(end) = end else { return self };
        Self { text: self.text.get(..end).unwrap_or_default(), ..self }
    }
}

impl InputForm {
    const fn is_url(self) -> bool {
        matches!(self, Self::ProxyUrl | Self::HandleUrl)
    }
}

/// Scheme or URN namespace at the start.
fn match_scheme(text: &str) -> Option<Wrapper> {
    let (scheme, form) = match text.as_bytes() {
        [b'd' | b'D', ..] => ("doi:", InputForm::Doi),
        [b'u' | b'U', _, _, _, b'd' | b'D', ..] => ("urn:doi:", InputForm::Urn),
        [b'u' | b'U', ..] => ("urn:eidr:", InputForm::UrnEidr),
        [b'i' | b'I', ..] => ("info:doi/", InputForm::Info),
        [b'h' | b'H', b'd' | b'D', ..] => ("hdl:", InputForm::Hdl),
        _ => return None,
    };
    starts_with_ignore_case(text, scheme).then_some(Wrapper { form, len: scheme.len() })
}

/// Label such as `DOI 10.1000/182`.
///
/// `DOI 10.1000/182`, `DOI：10.1000/182`, `doi10.1000/182`, `URL:https://…`.
fn match_label(text: &str) -> Option<Wrapper> {
    if starts_with_ignore_case(text, "url:http") {
        return Some(Wrapper { form: InputForm::Name, len: 4 });
    }
    if starts_with_ignore_case(text, "info:hdl/") {
        return Some(Wrapper { form: InputForm::Info, len: 9 });
    }
    if !starts_with_ignore_case(text, "doi") {
        return None;
    }
    let rest = text.get(3..)?;
    let len = match rest.chars().next()? {
        '：' => 3 + '：'.len_utf8(),
        c if c.is_whitespace() => 3,
        _ if rest.starts_with("10.") => 3,
        _ => return None,
    };
    Some(Wrapper { form: InputForm::Doi, len })
}

/// Proxy URL at the start of the input.
struct ProxyUrl {
    lead: Wrapper,
    scheme: bool,
    port: bool,
}

/// Proxy URL at the start; URLs of other hosts are an error.
///
/// An address of another host is refused; other text is none at all.
fn match_proxy_url(text: &str) -> Result<Option<ProxyUrl>, Error> {
    let unknown = |at| Err(Error::new(ErrorKind::UnknownForm, at));
    let (scheme_len, default_port) = if starts_with_ignore_case(text, "https://") {
        (8, Some(":443"))
    } else if starts_with_ignore_case(text, "http://") {
        (7, Some(":80"))
    } else if starts_with_ignore_case(text, "urn:") {
        return Err(unsupported_urn(text));
    } else if has_unsupported_scheme(text) {
        return unknown(0);
    } else {
        (0, None)
    };
    let after_scheme = text.get(scheme_len..).unwrap_or_default();
    let authority_len = after_scheme
        .bytes()
        .position(|byte| matches!(byte, b'/' | b'?' | b'#'))
        .unwrap_or(after_scheme.len());
    let authority = after_scheme.get(..authority_len).unwrap_or_default();
    let (host, port) = match default_port.and_then(|port| authority.strip_suffix(port)) {
        Some(host) => (host, true),
        None => (authority, false),
    };
    let known = PROXY_HOSTS
        .into_iter()
        .find(|(known, _)| host.len() == known.len() && host.eq_ignore_ascii_case(known));
    match known {
        Some((_, form)) if default_port.is_some() || after_scheme.len() > authority_len => {
            let lead = Wrapper { form, len: scheme_len + authority_len };
            Ok(Some(ProxyUrl { lead, scheme: default_port.is_some(), port }))
        }
        None if default_port.is_some() => unknown(scheme_len),
        _ => Ok(None),
    }
}

/// Error for a URN of another namespace.
fn unsupported_urn(text: &str) -> Error {
    let namespace = text.split(':').nth(1).unwrap_or_default();
    let is_namespace =
        namespace.len() >= 2 && namespace.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if is_namespace { Error::new(ErrorKind::UnknownForm, 4) } else { Error::new(ErrorKind::BadUrn, 4) }
}

/// Whether the text starts with another scheme, such as `ftp://`.
fn has_unsupported_scheme(text: &str) -> bool {
    let rest = text.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || "+-.".contains(c));
    rest.len() < text.len() && rest.starts_with("://")
}

fn starts_with_ignore_case(text: &str, lead: &str) -> bool {
    text.as_bytes().get(..lead.len()).is_some_and(|start| start.eq_ignore_ascii_case(lead.as_bytes()))
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
