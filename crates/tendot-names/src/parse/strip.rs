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
    /// Offset of `text` in the input.
    pub(super) offset: usize,
    pub(super) form: InputForm,
    /// Whether it followed `urn:eidr:`, perhaps inside a URL: its first `:` stands for `/`.
    pub(super) is_eidr: bool,
    pub(super) adjustments: Adjustments,
}

/// Label, scheme or proxy URL before a DOI: its form and length.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Wrapper {
    form: InputForm,
    len: usize,
}

/// Hosts of the DOI and Handle proxies; matched exactly, so `evil-doi.org` and `doi.org.example` are rejected.
pub(crate) const PROXY_HOSTS: [(&str, InputForm); 4] = [
    ("doi.org", InputForm::ProxyUrl),
    ("dx.doi.org", InputForm::ProxyUrl),
    ("www.doi.org", InputForm::ProxyUrl),
    ("hdl.handle.net", InputForm::HandleProxyUrl),
];

/// Removes the one wrapper that strict parsing accepts.
pub(super) fn strip_strict(text: &str) -> Result<StrippedInput<'_>, Error> {
    let bare = StrippedInput {
        text,
        offset: 0,
        form: InputForm::Bare,
        is_eidr: false,
        adjustments: Adjustments::default(),
    };
    if text.starts_with("10.") {
        return Ok(bare);
    }
    if let Some(wrapper) = match_scheme(text) {
        let stripped = bare.strip_wrapper(wrapper);
        return if matches!(wrapper.form, InputForm::Urn | InputForm::UrnEidr) {
            check_urn(stripped)
        } else {
            Ok(stripped.strip_query_and_fragment())
        };
    }
    match match_proxy_url(text)? {
        Some(url) if !url.has_default_port && url.has_scheme => {
            Ok(bare.strip_wrapper(url.wrapper).strip_slash().strip_api_path().strip_query_and_fragment())
        }
        Some(ProxyUrl { has_default_port: true, has_scheme: true, wrapper }) => {
            Err(Error::new(ErrorKind::UnknownForm, wrapper.len))
        }
        _ => Ok(bare),
    }
}

/// Removes every wrapper that lenient parsing accepts.
pub(super) fn strip_lenient(text: &str) -> Result<StrippedInput<'_>, Error> {
    let mut stripped = StrippedInput {
        text,
        offset: 0,
        form: InputForm::Bare,
        is_eidr: false,
        adjustments: Adjustments::default(),
    };
    loop {
        let before = stripped.text.len();
        stripped = stripped.trim_whitespace().strip_delimiters();
        if stripped.text.starts_with("10.") {
            break;
        }
        if stripped.text.len() < before {
            continue;
        }
        if let Some(wrapper) = match_scheme(stripped.text) {
            stripped = stripped.strip_wrapper(wrapper);
            continue;
        }
        if let Some(wrapper) = match_label(stripped.text) {
            stripped = stripped.strip_wrapper(wrapper);
            stripped.adjustments = stripped.adjustments.with(Adjustment::LabelRemoved);
            continue;
        }
        let is_first_url = !stripped.form.is_url();
        let Some(url) = match_proxy_url(stripped.text).map_err(|error| error.shifted_by(stripped.offset))?
        else {
            break;
        };
        stripped = stripped.strip_wrapper(url.wrapper);
        for (applies, adjustment) in [
            (!is_first_url, Adjustment::DuplicateUrl),
            (!url.has_scheme, Adjustment::MissingScheme),
            (url.has_default_port, Adjustment::DefaultPort),
        ] {
            stripped.adjustments.insert_if(adjustment, applies);
        }
        stripped = stripped.strip_slash().strip_extra_slashes().strip_api_path();
    }
    let with_components = stripped;
    stripped = stripped.strip_query_and_fragment();
    if stripped.form == InputForm::Urn || stripped.form == InputForm::UrnEidr {
        let tail = with_components.text.get(stripped.text.len()..).unwrap_or_default();
        if tail.starts_with('?') && !tail.starts_with("?+") && !tail.starts_with("?=") {
            stripped.adjustments = stripped.adjustments.with(Adjustment::QueryRemoved);
        } else if check_urn(with_components).is_err() {
            stripped.adjustments = stripped.adjustments.with(Adjustment::UnencodedInUrn);
        }
    }
    Ok(stripped)
}

/// Removes wrappers that appear only after percent-decoding: `doi%3A10.1000%2F182`.
///
/// Nothing is trimmed, since encoded characters are data.
pub(super) fn strip_decoded(text: &str) -> Result<StrippedInput<'_>, Error> {
    let mut stripped = StrippedInput {
        text,
        offset: 0,
        form: InputForm::Bare,
        is_eidr: false,
        adjustments: Adjustments::default(),
    };
    while !stripped.text.starts_with("10.") {
        if let Some(wrapper) = match_scheme(stripped.text) {
            stripped = stripped.strip_wrapper(wrapper);
        } else if let Some(ProxyUrl { wrapper, has_scheme: true, .. }) =
            match_proxy_url(stripped.text).map_err(|error| error.shifted_by(stripped.offset))?
        {
            stripped = stripped.strip_wrapper(wrapper).strip_slash();
        } else {
            break;
        }
    }
    Ok(stripped)
}

impl<'a> StrippedInput<'a> {
    /// Removes a wrapper; a second one that is not a repeated URL counts as a label.
    fn strip_wrapper(self, wrapper: Wrapper) -> Self {
        let mut adjustments = self.adjustments;
        let is_second = self.form != InputForm::Bare;
        if is_second && !(self.form.is_url() && wrapper.form.is_url()) {
            adjustments = adjustments.with(Adjustment::LabelRemoved);
        }
        let is_eidr = self.is_eidr || wrapper.form == InputForm::UrnEidr;
        Self { form: self.form.more_specific(wrapper.form), is_eidr, adjustments, ..self.skip(wrapper.len) }
    }

    /// Removes the first `bytes` bytes.
    fn skip(self, bytes: usize) -> Self {
        Self { text: self.text.get(bytes..).unwrap_or_default(), offset: self.offset + bytes, ..self }
    }

    fn trim_whitespace(self) -> Self {
        // First bytes of white space: up to U+0020, or non-ASCII.
        let may_be_space = |byte: Option<&u8>| byte.is_some_and(|byte| *byte <= b' ' || *byte >= 0x80);
        let bytes = self.text.as_bytes();
        if !may_be_space(bytes.first()) && !may_be_space(bytes.last()) {
            return self;
        }
        let text = self.text.trim_start();
        let leading = self.text.len() - text.len();
        let trimmed = Self { text: text.trim_end(), offset: self.offset + leading, ..self };
        if trimmed.text.len() == self.text.len() {
            return self;
        }
        Self { adjustments: self.adjustments.with(Adjustment::WhitespaceTrimmed), ..trimmed }
    }

    /// Removes `<…>` or quotes around the input, also before a trailing colon, and a leading colon left by a label.
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
        let adjustments = self.adjustments.with(Adjustment::DelimitersRemoved);
        if let Some(rest) = self.text.strip_prefix(':').filter(|_| !self.is_eidr) {
            return Self { text: rest, offset: self.offset + 1, adjustments, ..self };
        }
        let without_colon = self.text.strip_suffix(':').unwrap_or(self.text).trim_end();
        for (open, close) in DELIMITER_PAIRS {
            for text in [self.text, without_colon] {
                if let Some(inner) = text.strip_prefix(open).and_then(|rest| rest.strip_suffix(close)) {
                    let offset = self.offset + open.len_utf8();
                    return Self { text: inner, offset, adjustments, ..self };
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
        Self { adjustments: self.adjustments.with(Adjustment::ExtraSlashes), ..self.skip(extra) }
    }

    /// Removes the path of the record API (2024 draft, section 3).
    fn strip_api_path(self) -> Self {
        const API_PATH: &str = "api/handles/";
        if self.text.starts_with(API_PATH) { self.skip(API_PATH.len()) } else { self }
    }

    /// Removes the query and fragment of a URL, the components of a URN, or the fragment of an info URI.
    ///
    /// After `doi:` and `hdl:` and in a bare DOI, `?` and `#` are data: a `doi` URI has neither query nor fragment
    /// (2024 draft, section 2).
    pub(super) fn strip_query_and_fragment(self) -> Self {
        let end = match self.form {
            InputForm::ProxyUrl | InputForm::HandleProxyUrl | InputForm::Urn | InputForm::UrnEidr => {
                self.text.bytes().position(|byte| matches!(byte, b'?' | b'#'))
            }
            InputForm::InfoUri => self.text.find('#'),
            InputForm::Bare | InputForm::DoiUri | InputForm::HdlUri => None,
        };
        let Some(end) = end else { return self };
        Self { text: self.text.get(..end).unwrap_or_default(), ..self }
    }
}

/// Scheme or URN namespace at the start.
fn match_scheme(text: &str) -> Option<Wrapper> {
    let (scheme, form) = match text.as_bytes() {
        [b'd' | b'D', ..] => ("doi:", InputForm::DoiUri),
        [b'u' | b'U', _, _, _, b'd' | b'D', ..] => ("urn:doi:", InputForm::Urn),
        [b'u' | b'U', ..] => ("urn:eidr:", InputForm::UrnEidr),
        [b'i' | b'I', ..] => ("info:doi/", InputForm::InfoUri),
        [b'h' | b'H', b'd' | b'D', ..] => ("hdl:", InputForm::HdlUri),
        _ => return None,
    };
    starts_with_ignore_case(text.as_bytes(), scheme.as_bytes()).then_some(Wrapper { form, len: scheme.len() })
}

/// Label at the start: `DOI 10.1000/182`, `DOI：10.1000/182`, `doi10.1000/182`, `URL:https://…`.
fn match_label(text: &str) -> Option<Wrapper> {
    if starts_with_ignore_case(text.as_bytes(), b"url:http") {
        return Some(Wrapper { form: InputForm::Bare, len: 4 });
    }
    if starts_with_ignore_case(text.as_bytes(), b"info:hdl/") {
        return Some(Wrapper { form: InputForm::InfoUri, len: 9 });
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
    Some(Wrapper { form: InputForm::DoiUri, len })
}

/// Proxy URL at the start of the input.
struct ProxyUrl {
    wrapper: Wrapper,
    has_scheme: bool,
    has_default_port: bool,
}

/// Proxy URL at the start; `None` if the text is not a URL. URLs of other hosts are an error.
fn match_proxy_url(text: &str) -> Result<Option<ProxyUrl>, Error> {
    let unknown = |offset| Err(Error::new(ErrorKind::UnknownForm, offset));
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
    let (host, has_default_port) = match default_port.and_then(|port| authority.strip_suffix(port)) {
        Some(host) => (host, true),
        None => (authority, false),
    };
    let proxy =
        PROXY_HOSTS.into_iter().find(|(name, _)| host.len() == name.len() && host.eq_ignore_ascii_case(name));
    match proxy {
        Some((_, form)) if default_port.is_some() || after_scheme.len() > authority_len => {
            let wrapper = Wrapper { form, len: scheme_len + authority_len };
            Ok(Some(ProxyUrl { wrapper, has_scheme: default_port.is_some(), has_default_port }))
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
