//! Handles of any prefix in a written form.

use alloc::borrow::Cow;
use alloc::string::String;

use super::input_form::InputForm;
use super::parser::Parser;
use super::strip::{strip_decoded, strip_lenient};
use crate::ascii_case::starts_with_ignore_case;
use crate::percent::{InvalidTriplet, percent_decode};
use crate::{Error, ErrorKind};

/// Handle in a written form: its name, decoded, and the form.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ParsedHandle<'a> {
    name: Cow<'a, str>,
    input_form: InputForm,
}

impl<'a> ParsedHandle<'a> {
    /// Name of the handle, decoded.
    pub fn as_str(&self) -> &str {
        &self.name
    }

    /// Converts the result to the name.
    pub fn into_name(self) -> Cow<'a, str> {
        self.name
    }

    /// Input form; [`InputForm::Bare`] for a name as it is.
    pub const fn input_form(&self) -> InputForm {
        self.input_form
    }
}

/// Parses a handle of any prefix in any written form.
///
/// A DOI is parsed by [`Parser::lenient`]. Of any other handle, the scheme (`doi:`, `urn:doi:`, `hdl:`, `info:hdl/` …) or the
/// URL of a proxy is removed, and the rest percent-decoded once. Without one, the text is the name as it stands.
///
/// ```
/// use tendot_names::{ErrorKind, parse_handle};
///
/// assert_eq!(parse_handle("doi:alpha-beta/msws")?.as_str(), "alpha-beta/msws");
/// assert_eq!(parse_handle("DOI:dk/P%C3%A6dagogi%2037(2),%20562")?.as_str(), "dk/Pædagogi 37(2), 562");
/// assert_eq!(parse_handle("20.500.12345/a%20b")?.as_str(), "20.500.12345/a%20b");
/// let error = parse_handle("doi:dk/caf%E9").unwrap_err();
/// assert_eq!((error.kind(), error.offset()), (ErrorKind::InvalidUtf8, 10));
/// # Ok::<(), tendot_names::Error>(())
/// ```
///
/// # Errors
///
/// For an empty name, text that is not UTF-8 after percent-decoding, and URLs and URNs of other services.
pub fn parse_handle(text: &str) -> Result<ParsedHandle<'_>, Error> {
    if let Ok(parsed) = Parser::lenient().parse(text) {
        let input_form = parsed.input_form();
        return Ok(ParsedHandle { name: Cow::Owned(parsed.into_identifier().as_str().into()), input_form });
    }
    let (encoded, offset, input_form) = strip_encoded(text)?;
    if encoded.is_empty() {
        return Err(Error::new(ErrorKind::Empty, offset));
    }
    if input_form == InputForm::Bare {
        return Ok(ParsedHandle { name: Cow::Borrowed(encoded), input_form });
    }
    let decoded =
        percent_decode(encoded, InvalidTriplet::Keep).map_err(|error| error.shifted_by(offset))?.text;
    let decoded = if input_form.is_url() { strip_inner_scheme(decoded) } else { decoded };
    Ok(ParsedHandle { name: with_slash(decoded, input_form), input_form })
}

/// Removes the scheme or proxy URL before a handle of any prefix in text that has been percent-decoded, such as the path of a
/// request.
///
/// Unlike [`parse_handle`], it decodes and repairs nothing: each character that is left is part of the name. Text in another
/// form is returned as it is.
///
/// ```
/// use tendot_names::strip_handle_form;
///
/// assert_eq!(strip_handle_form("doi:alpha-beta/a%23b"), "alpha-beta/a%23b");
/// assert_eq!(strip_handle_form("urn:doi:10.1000:182"), "10.1000/182");
/// assert_eq!(strip_handle_form("20.500.1/x?y"), "20.500.1/x?y");
/// ```
pub fn strip_handle_form(decoded: &str) -> Cow<'_, str> {
    let (rest, form) = match strip_handle_scheme(decoded) {
        Some((rest, form)) => (rest, form),
        None => match strip_decoded(decoded) {
            Ok(stripped) => (stripped.text, stripped.form),
            // A URL or URN of another service.
            Err(_) => (decoded, InputForm::Bare),
        },
    };
    let rest = if form == InputForm::Bare { rest } else { rest.trim_start() };
    with_slash(Cow::Borrowed(rest), form)
}

/// Name in which the first colon of a URN, which may stand for the slash, is a slash.
fn with_slash(name: Cow<'_, str>, form: InputForm) -> Cow<'_, str> {
    let is_urn = matches!(form, InputForm::Urn | InputForm::UrnEidr);
    match name.find([':', '/']).filter(|_| is_urn) {
        Some(at) if name.get(at..).is_some_and(|rest| rest.starts_with(':')) => {
            let mut slashed = String::from(name);
            slashed.replace_range(at..=at, "/");
            Cow::Owned(slashed)
        }
        _ => name,
    }
}

/// Removes a scheme that was percent-encoded in the path of a proxy URL: `https://doi.org/doi%3Aalpha%2Fx`.
fn strip_inner_scheme(decoded: Cow<'_, str>) -> Cow<'_, str> {
    match strip_decoded(&decoded) {
        Ok(inner) if inner.offset > 0 => Cow::Owned(inner.text.into()),
        _ => decoded,
    }
}

/// Schemes of handles that DOIs do not have.
const HANDLE_SCHEMES: [(&str, InputForm); 2] =
    [("urn:hdl:", InputForm::Urn), ("info:hdl/", InputForm::InfoUri)];

/// Rest of the text after a scheme that only handles have.
fn strip_handle_scheme(text: &str) -> Option<(&str, InputForm)> {
    HANDLE_SCHEMES.into_iter().find_map(|(scheme, form)| {
        let rest = text.get(scheme.len()..)?;
        starts_with_ignore_case(text.as_bytes(), scheme.as_bytes()).then_some((rest, form))
    })
}

/// Rest of the text after its scheme or proxy URL, its offset, and the form.
fn strip_encoded(text: &str) -> Result<(&str, usize, InputForm), Error> {
    let trimmed = text.trim();
    let leading = text.len() - text.trim_start().len();
    if let Some((rest, InputForm::Urn)) = strip_handle_scheme(trimmed) {
        let end = rest.find(['?', '#']).unwrap_or(rest.len());
        let offset = leading + trimmed.len() - rest.len();
        return Ok((rest.get(..end).unwrap_or_default(), offset, InputForm::Urn));
    }
    let stripped = strip_lenient(text)?;
    if stripped.form == InputForm::Bare {
        return Ok((trimmed, leading, InputForm::Bare));
    }
    Ok((stripped.text, stripped.offset, stripped.form))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is decoded already is neither decoded again nor cut.
    #[test]
    fn decoded_handles() {
        for (text, expected) in [
            ("10.1000/182", "10.1000/182"),
            ("doi:10.1000/a%2523b?c#d", "10.1000/a%2523b?c#d"),
            ("hdl:20.500.1/x", "20.500.1/x"),
            ("INFO:HDL/20.500.1/x", "20.500.1/x"),
            ("urn:hdl:20.500:x?+a#b", "20.500/x?+a#b"),
            ("urn:eidr:10.5240:7791-8534", "10.5240/7791-8534"),
            ("https://doi.org/10.1000/182?x", "10.1000/182?x"),
            ("https://example.org/10.1000/182", "https://example.org/10.1000/182"),
            ("urn:isbn:1", "urn:isbn:1"),
            ("doi", "doi"),
            (" x", " x"),
            ("", ""),
        ] {
            assert_eq!(strip_handle_form(text), expected, "{text}");
        }
    }

    #[test]
    fn handles() {
        let check = |text: &str, expected: Result<&str, (ErrorKind, usize)>| {
            let found = parse_handle(text);
            let found = found.as_ref().map(ParsedHandle::as_str);
            assert_eq!(found.map_err(|error| (error.kind(), error.offset())), expected, "{text}");
        };
        check("10.1000/182", Ok("10.1000/182"));
        check("https://doi.org/10.1000%2F182", Ok("10.1000/182"));
        check("doi:10.1000/456%23789", Ok("10.1000/456#789"));
        check("doi:10.abc/ab/cd", Ok("10.abc/ab/cd"));
        check("urn:doi:20.500.12345/x", Ok("20.500.12345/x"));
        check("URN:DOI:20.500.12345:x", Ok("20.500.12345/x"));
        check("urn:doi:10.1000:182", Ok("10.1000/182"));
        check("urn:hdl:20.500:x?+a#b", Ok("20.500/x"));
        check("hdl:20.500.1/a%20b", Ok("20.500.1/a b"));
        check("info:hdl/20.500.1/x", Ok("20.500.1/x"));
        check("https://hdl.handle.net/20.500.1/x?noredirect", Ok("20.500.1/x"));
        check(" https://doi.org/doi:alpha/x ", Ok("alpha/x"));
        check("https://doi.org/doi%3Aalpha%2Fx", Ok("alpha/x"));
        check("doi:alpha/100%", Ok("alpha/100%"));
        check("doi:alpha/a%2523b", Ok("alpha/a%23b"));
        check("0.NA/10.1000", Ok("0.NA/10.1000"));
        check("20.500.1/a%20b ", Ok("20.500.1/a%20b"));
        check("doi:", Err((ErrorKind::Empty, 4)));
        check("", Err((ErrorKind::Empty, 0)));
        check("urn:doi:alpha/%C3%A9%E9", Err((ErrorKind::InvalidUtf8, 20)));
        check("https://example.org/20.500/x", Err((ErrorKind::UnknownForm, 8)));
        check("urn:isbn:20.500/x", Err((ErrorKind::UnknownForm, 4)));
    }
}
