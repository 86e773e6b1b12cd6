//! Removes labels, schemes and proxy URLs before a DOI, and queries and fragments after it.

use super::adjustment::{Adjustment, Adjustments};
use super::input_form::InputForm;
use super::urn::{check_urn, unsupported_urn};
use crate::ascii_case::starts_with_ignore_case;
use crate::{Error, ErrorKind};

/// Rest of the input after wrappers were removed; may be percent-encoded.
#[derive(Clone, Copy, Debug)]
pub(super) struct StrippedInput<'a> {
    pub(super) text: &'a str,
    /// Where `text` begins in the input.
    pub(super) offset: usize,
    pub(super) form: InputForm,
    /// It stood after `urn:eidr:`, perhaps inside an address: its first `:` stands for `/`.
    pub(super) eidr: bool,
    pub(super) notes: Adjustments,
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

/// Removes the one wrapper that strict parsing accepts.
pub(super) fn strip_strict(text: &str) -> Result<StrippedInput<'_>, Error> {
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

/// Removes every wrapper that lenient parsing accepts.
pub(super) fn strip_lenient(text: &str) -> Result<StrippedInput<'_>, Error> {
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
pub(super) fn strip_decoded(text: &str) -> Result<StrippedInput<'_>, Error> {
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
    pub(super) fn strip_query_and_fragment(self) -> Self {
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
    starts_with_ignore_case(text.as_bytes(), scheme.as_bytes()).then_some(Wrapper { form, len: scheme.len() })
}

/// Label such as `DOI 10.1000/182`.
///
/// `DOI 10.1000/182`, `DOI：10.1000/182`, `doi10.1000/182`, `URL:https://…`.
fn match_label(text: &str) -> Option<Wrapper> {
    if starts_with_ignore_case(text.as_bytes(), b"url:http") {
        return Some(Wrapper { form: InputForm::Name, len: 4 });
    }
    if starts_with_ignore_case(text.as_bytes(), b"info:hdl/") {
        return Some(Wrapper { form: InputForm::Info, len: 9 });
    }
    if !starts_with_ignore_case(text.as_bytes(), b"doi") {
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
    let (scheme_len, default_port) = if starts_with_ignore_case(text.as_bytes(), b"https://") {
        (8, Some(":443"))
    } else if starts_with_ignore_case(text.as_bytes(), b"http://") {
        (7, Some(":80"))
    } else if starts_with_ignore_case(text.as_bytes(), b"urn:") {
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

/// Whether the text starts with another scheme, such as `ftp://`.
fn has_unsupported_scheme(text: &str) -> bool {
    let rest = text.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || "+-.".contains(c));
    rest.len() < text.len() && rest.starts_with("://")
}
