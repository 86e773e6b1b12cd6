//! Strict and lenient parser.

use alloc::borrow::Cow;
use alloc::string::String;

use super::adjustment::{Adjustment, Adjustments};
use super::fast_path::parse_fast_path;
use super::input_form::InputForm;
use super::parsed::{DoiOrShortDoi, ParsedName};
use super::strip::{StrippedInput, strip_decoded, strip_lenient, strip_strict};
use crate::ascii_case::find_ignore_case;
use crate::percent::{InvalidTriplet, encoded_offset, percent_decode};
use crate::syntax::character::is_removable_invisible;
use crate::{Doi, DoiBuf, Error, ErrorKind, ShortDoi, SyntaxRules};

/// Parser for DOIs in any input form.
///
/// ```
/// use tendot_names::{Adjustment, Parser, InputForm};
///
/// let parsed = Parser::lenient().parse(" DOI: https://dx.doi.org/10.1000%2F182 ")?;
/// assert_eq!(parsed.doi().unwrap().as_str(), "10.1000/182");
/// assert_eq!(parsed.input_form(), InputForm::ProxyUrl);
/// assert!(parsed.adjustments().contains(Adjustment::WhitespaceTrimmed));
/// assert!(parsed.adjustments().contains(Adjustment::LabelRemoved));
///
/// // Strict parsing rejects the space after the label.
/// assert_eq!(Parser::strict().parse("DOI: 10.1000/182").unwrap_err().offset(), 4);
/// # Ok::<(), tendot_names::Error>(())
/// ```
///
/// # Unsupported forms
///
/// DOIs inside other URLs, such as those of publishers, are extracted by [`find_iter`](crate::find_iter), not parsed.
/// `https://doi.org/gf4gqc`, a shortDOI without `10/`, is rejected: only the proxy can distinguish it from its own pages.
#[derive(Clone, Copy, Debug)]
pub struct Parser {
    pub(crate) rules: SyntaxRules,
    pub(crate) is_lenient: bool,
    pub(crate) max_len: usize,
    /// Whether a shortDOI is an error: it has no registrant code.
    pub(crate) rejects_short_dois: bool,
}

impl Parser {
    /// Strict parser: accepts the input forms defined by the standards.
    pub const fn strict() -> Self {
        Self {
            rules: SyntaxRules::Current,
            is_lenient: false,
            max_len: usize::MAX,
            rejects_short_dois: false,
        }
    }

    /// Lenient parser: also accepts labels, surrounding white space and quotes, URLs without scheme, repeated proxy URLs
    /// and invisible characters; [`ParsedName::adjustments`] lists the changes.
    pub const fn lenient() -> Self {
        Self { is_lenient: true, ..Self::strict() }
    }

    /// Validates with the given rules instead of [`SyntaxRules::Current`].
    ///
    /// ```
    /// # use tendot_names::{Parser, SyntaxRules};
    /// let parser = Parser::strict().rules(SyntaxRules::Minimal2002);
    /// assert_eq!(parser.parse("doi:1.23/2002/january/21/4690")?.doi().unwrap().prefix(), "1.23");
    /// # Ok::<(), tendot_names::Error>(())
    /// ```
    pub const fn rules(self, rules: SyntaxRules) -> Self {
        Self { rules, ..self }
    }

    /// Rejects inputs longer than `bytes`; unlimited by default.
    ///
    /// ```
    /// # use tendot_names::{ErrorKind, Parser};
    /// let error = Parser::lenient().max_len(256).parse(&"a".repeat(257)).unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::TooLong);
    /// ```
    pub const fn max_len(self, bytes: usize) -> Self {
        Self { max_len: bytes, ..self }
    }

    /// Parses bytes, which must be UTF-8.
    pub fn parse_bytes<'a>(&self, bytes: &'a [u8]) -> Result<ParsedName<'a>, Error> {
        let text =
            str::from_utf8(bytes).map_err(|error| Error::new(ErrorKind::InvalidUtf8, error.valid_up_to()))?;
        self.parse(text)
    }

    /// Parses text as a DOI; a shortDOI is an error.
    ///
    /// ```
    /// # use tendot_names::{ErrorKind, Parser};
    /// assert_eq!(Parser::lenient().parse_doi("DOI 10.1000/182 ")?.as_str(), "10.1000/182");
    /// let error = Parser::strict().parse_doi("https://doi.org/10/gf4gqc").unwrap_err();
    /// assert_eq!((error.kind(), error.offset()), (ErrorKind::MissingRegistrant, 18));
    /// # Ok::<(), tendot_names::Error>(())
    /// ```
    pub fn parse_doi<'a>(&self, text: &'a str) -> Result<Cow<'a, Doi>, Error> {
        match (Self { rejects_short_dois: true, ..*self }).parse(text)?.identifier {
            DoiOrShortDoi::Doi(doi) => Ok(doi),
            // Not returned by a parser that rejects them.
            DoiOrShortDoi::ShortDoi(_) => Err(Error::new(ErrorKind::MissingRegistrant, 0)),
        }
    }

    /// Parses text; allocates only if something is decoded or removed.
    pub fn parse<'a>(&self, text: &'a str) -> Result<ParsedName<'a>, Error> {
        if text.len() > self.max_len {
            return Err(Error::new(ErrorKind::TooLong, self.max_len));
        }
        if let Some(parsed) = parse_fast_path(text, self.rules) {
            return Ok(parsed);
        }
        if !self.is_lenient {
            return self.parse_stripped(strip_strict(text)?, Adjustments::default());
        }
        if text.is_ascii() || !text.contains(is_removable_invisible) {
            return self.parse_stripped(strip_lenient(text)?, Adjustments::default());
        }
        let clean: String = text.chars().filter(|&c| !is_removable_invisible(c)).collect();
        // Errors refer to the input, not to the cleaned text.
        let in_input = |error: Error| Error::new(error.kind(), original_offset(text, error.offset()));
        let adjustments = Adjustments::default().with(Adjustment::InvisibleRemoved);
        let stripped = strip_lenient(&clean).map_err(in_input)?;
        Ok(self.parse_stripped(stripped, adjustments).map_err(in_input)?.into_owned())
    }

    /// Decodes and validates stripped input.
    fn parse_stripped<'a>(
        &self,
        stripped: StrippedInput<'a>,
        adjustments: Adjustments,
    ) -> Result<ParsedName<'a>, Error> {
        let StrippedInput { text, offset, form, is_eidr, adjustments: stripped_adjustments } = stripped;
        let mut adjustments = adjustments.union(stripped_adjustments);
        if is_eidr {
            return self.parse_eidr(text, offset, form, adjustments);
        }
        let may_be_encoded =
            if form == InputForm::Bare { self.is_lenient && has_only_encoded_slash(text) } else { true };
        if !may_be_encoded {
            return self
                .validate(Cow::Borrowed(text), form, adjustments)
                .map_err(|error| error.shifted_by(offset));
        }
        let invalid_triplet = if self.is_lenient { InvalidTriplet::Keep } else { InvalidTriplet::Reject };
        let decoded = percent_decode(text, invalid_triplet).map_err(|error| error.shifted_by(offset))?;
        adjustments.insert_if(Adjustment::PercentDecoded, form == InputForm::Bare);
        adjustments.insert_if(Adjustment::LiteralPercent, decoded.has_literal_percent);
        let in_input = |error: Error| Error::new(error.kind(), offset + encoded_offset(text, error.offset()));
        if self.is_lenient && matches!(decoded.text, Cow::Owned(_)) && !decoded.text.starts_with("10.") {
            // `https://doi.org/doi%3A10.1000%2F182`: the label becomes visible only after decoding; decoding happens once.
            let inner = strip_decoded(&decoded.text).map_err(in_input)?;
            if inner.offset > 0 {
                let form = form.more_specific(inner.form);
                let adjustments = adjustments.union(inner.adjustments).with(Adjustment::LabelRemoved);
                let parsed = self.validate(Cow::Borrowed(inner.text), form, adjustments);
                return Ok(parsed.map_err(|error| in_input(error.shifted_by(inner.offset)))?.into_owned());
            }
        }
        self.validate(decoded.text, form, adjustments).map_err(in_input)
    }

    /// Parses `urn:eidr:`, in which `:` stands for the first `/` (RFC 7972).
    fn parse_eidr<'a>(
        &self,
        text: &str,
        offset: usize,
        form: InputForm,
        mut adjustments: Adjustments,
    ) -> Result<ParsedName<'a>, Error> {
        let encoded = match text.split_once(':') {
            Some((prefix, suffix)) if !prefix.contains('/') => [prefix, "/", suffix].concat(),
            _ if self.is_lenient || text.is_empty() => String::from(text),
            _ => return Err(Error::new(ErrorKind::MissingSlash, offset + text.len())),
        };
        let invalid_triplet = if self.is_lenient { InvalidTriplet::Keep } else { InvalidTriplet::Reject };
        let decoded = percent_decode(&encoded, invalid_triplet).map_err(|error| error.shifted_by(offset))?;
        adjustments.insert_if(Adjustment::LiteralPercent, decoded.has_literal_percent);
        let in_input =
            |error: Error| Error::new(error.kind(), offset + encoded_offset(&encoded, error.offset()));
        Ok(self.validate(decoded.text, form, adjustments).map_err(in_input)?.into_owned())
    }

    /// Validates decoded text as a shortDOI or DOI.
    fn validate<'a>(
        &self,
        text: Cow<'a, str>,
        form: InputForm,
        mut adjustments: Adjustments,
    ) -> Result<ParsedName<'a>, Error> {
        if ShortDoi::is_short_doi(&text) {
            if self.rejects_short_dois {
                return Err(Error::new(ErrorKind::MissingRegistrant, "10".len()));
            }
            let identifier = DoiOrShortDoi::ShortDoi(ShortDoi::from_validated(text));
            return Ok(ParsedName { identifier, input_form: form, adjustments });
        }
        if let Err(error) = self.rules.check(&text, false) {
            if !self.is_lenient || error.kind() != ErrorKind::UnassignedCharacter {
                return Err(error);
            }
            self.rules.check(&text, true)?;
            adjustments.insert_if(Adjustment::UnassignedAccepted, true);
        }
        let doi = match text {
            Cow::Borrowed(text) => Cow::Borrowed(Doi::new_unchecked(text)),
            Cow::Owned(text) => Cow::Owned(DoiBuf::from_validated(text)),
        };
        Ok(ParsedName::from_doi(doi, form, adjustments))
    }
}

/// Whether a bare DOI has `%2F` and no `/`; only then is it decoded.
fn has_only_encoded_slash(text: &str) -> bool {
    !text.contains('/') && text.contains('%') && find_ignore_case(text.as_bytes(), b"%2F").is_some()
}

/// Maps an offset in the cleaned text to the input.
fn original_offset(text: &str, clean_offset: usize) -> usize {
    let mut remaining = clean_offset;
    for (offset, c) in text.char_indices() {
        if is_removable_invisible(c) {
            continue;
        }
        if remaining == 0 {
            return offset;
        }
        remaining = remaining.saturating_sub(c.len_utf8());
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_doi_rejects_short_dois() {
        for rules in SyntaxRules::ALL {
            for parser in [Parser::strict().rules(rules), Parser::lenient().rules(rules)] {
                assert_eq!(parser.parse_doi("10.1000/182").unwrap().as_str(), "10.1000/182");
                for (text, offset) in
                    [("10/gf4gqc", 2), ("doi:10/gf4gqc", 6), ("https://doi.org/10/gf4gqc", 18)]
                {
                    assert!(parser.parse(text).unwrap().doi().is_none(), "{rules:?} {text}");
                    let error = parser.parse_doi(text).unwrap_err();
                    let expected = (ErrorKind::MissingRegistrant, offset);
                    assert_eq!((error.kind(), error.offset()), expected, "{rules:?} {text}");
                }
            }
        }
    }
}
