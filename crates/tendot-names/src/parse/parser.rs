//! Reading a name in any of its written forms.
//!
//! A strict reading takes what the standards define and nothing else. A lenient one also takes what people
//! paste, and says what it changed.

use alloc::borrow::Cow;
use alloc::string::String;

use super::adjustment::{Adjustment, Adjustments};
use super::fast_path::{FastPathInput, match_fast_path};
use super::input_form::InputForm;
use super::parsed::{DoiOrShortDoi, ParsedName};
use super::strip::{StrippedInput, strip_decoded, strip_lenient, strip_strict};
use crate::percent::{InvalidTriplet, encoded_offset, percent_decode};
use crate::syntax::character::is_removable_invisible;
use crate::{Doi, DoiBuf, Error, ErrorKind, ShortDoi, SyntaxRules};

/// Parser for DOIs in any input form.
///
/// ```
/// use tendot_names::{Adjustment, Parser, InputForm};
///
/// let reading = Parser::lenient().parse(" DOI: https://dx.doi.org/10.1000%2F182 ")?;
/// assert_eq!(reading.doi().unwrap().as_str(), "10.1000/182");
/// assert_eq!(reading.input_form(), InputForm::ProxyUrl);
/// assert!(reading.adjustments().contains(Adjustment::Trimmed));
/// assert!(reading.adjustments().contains(Adjustment::LabelDropped));
///
/// // A strict reading refuses it, and says where.
/// assert_eq!(Parser::strict().parse("DOI: 10.1000/182").unwrap_err().offset(), 4);
/// # Ok::<(), tendot_names::Error>(())
/// ```
///
/// # What is not read
///
/// Names inside other addresses, such as publishers' pages, are found by [`find_iter`](crate::find_iter), not
/// read. `https://doi.org/gf4gqc`, a shortDOI without its `10/`, only a proxy can tell from its own pages.
#[derive(Clone, Copy, Debug)]
pub struct Parser {
    rules: SyntaxRules,
    lenient: bool,
    max_len: usize,
}

impl Parser {
    /// Accepts the input forms defined by the standards.
    pub const fn strict() -> Self {
        Self { rules: SyntaxRules::Current, lenient: false, max_len: usize::MAX }
    }

    /// Also accepts labels, surrounding white space and quotes, URLs without scheme, doubled proxy URLs, invisible characters;
    /// [`ParsedName::adjustments`] lists the changes.
    pub const fn lenient() -> Self {
        Self { lenient: true, ..Self::strict() }
    }

    /// Checks names by these rules instead of the current ones.
    ///
    /// ```
    /// # use tendot_names::{Parser, SyntaxRules};
    /// let reader = Parser::strict().rules(SyntaxRules::Minimal2002);
    /// assert_eq!(reader.parse("doi:1.23/2002/january/21/4690")?.doi().unwrap().prefix(), "1.23");
    /// # Ok::<(), tendot_names::Error>(())
    /// ```
    pub const fn rules(self, rules: SyntaxRules) -> Self {
        Self { rules, ..self }
    }

    /// Rejects inputs longer than `bytes`; unlimited by default.
    ///
    /// There is no limit otherwise, as in the standards.
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

    /// Parses text; allocates only if something is decoded or removed.
    ///
    /// Nothing is copied unless something had to be decoded or dropped.
    pub fn parse<'a>(&self, text: &'a str) -> Result<ParsedName<'a>, Error> {
        if text.len() > self.max_len {
            return Err(Error::new(ErrorKind::TooLong, self.max_len));
        }
        if let Some(reading) = self.parse_fast_path(text) {
            return Ok(reading);
        }
        if !self.lenient {
            return self.parse_stripped(strip_strict(text)?, Adjustments::default());
        }
        if text.is_ascii() || !text.contains(is_removable_invisible) {
            return self.parse_stripped(strip_lenient(text)?, Adjustments::default());
        }
        let clean: String = text.chars().filter(|&c| !is_removable_invisible(c)).collect();
        let place = |error: Error| Error::new(error.kind(), original_offset(text, error.offset()));
        let notes = Adjustments::default().with(Adjustment::InvisibleDropped);
        let peeled = strip_lenient(&clean).map_err(place)?;
        Ok(self.parse_stripped(peeled, notes).map_err(place)?.into_owned())
    }

    /// Parses plain input; `None` leaves it to the full parser, errors included.
    ///
    /// All else, and all that is wrong, is left to the long way.
    #[inline]
    fn parse_fast_path<'a>(&self, text: &'a str) -> Option<ParsedName<'a>> {
        let FastPathInput { name, form, encoded } = match_fast_path(text)?;
        if !encoded {
            self.rules.check_structure(name).ok()?;
            return Some(ParsedName::from_doi(
                Cow::Borrowed(Doi::new_unchecked(name)),
                form,
                Adjustments::default(),
            ));
        }
        let Cow::Owned(name) = percent_decode(name, InvalidTriplet::Refuse).ok()?.text else { return None };
        self.rules.check(&name, false).ok()?;
        Some(ParsedName::from_doi(Cow::Owned(DoiBuf::from_validated(name)), form, Adjustments::default()))
    }

    /// Decodes and validates what is left after stripping.
    fn parse_stripped<'a>(
        &self,
        peeled: StrippedInput<'a>,
        notes: Adjustments,
    ) -> Result<ParsedName<'a>, Error> {
        let StrippedInput { text, offset, form, eidr, notes: peeled_notes } = peeled;
        let mut notes = notes.union(peeled_notes);
        if eidr {
            return self.parse_eidr(text, offset, form, notes);
        }
        let encoded =
            if form == InputForm::Name { self.lenient && has_only_encoded_slash(text) } else { true };
        if !encoded {
            return self.validate(Cow::Borrowed(text), form, notes).map_err(|error| error.shifted_by(offset));
        }
        let malformed = if self.lenient { InvalidTriplet::Keep } else { InvalidTriplet::Refuse };
        let decoded = percent_decode(text, malformed).map_err(|error| error.shifted_by(offset))?;
        if form == InputForm::Name {
            notes = notes.with(Adjustment::Decoded);
        }
        if decoded.stray_percent {
            notes = notes.with(Adjustment::PercentKept);
        }
        let place = |error: Error| Error::new(error.kind(), offset + encoded_offset(text, error.offset()));
        if self.lenient && matches!(decoded.text, Cow::Owned(_)) && !decoded.text.starts_with("10.") {
            // `https://doi.org/doi%3A10.1000%2F182`: the label shows only now. It is not decoded again.
            let inner = strip_decoded(&decoded.text).map_err(place)?;
            if inner.offset > 0 {
                let form = form.more_specific(inner.form);
                let notes = notes.union(inner.notes).with(Adjustment::LabelDropped);
                let reading = self.validate(Cow::Borrowed(inner.text), form, notes);
                return Ok(reading.map_err(|error| place(error.shifted_by(inner.offset)))?.into_owned());
            }
        }
        self.validate(decoded.text, form, notes).map_err(place)
    }

    /// Parses `urn:eidr:`, in which `:` stands for the first `/` (RFC 7972).
    fn parse_eidr<'a>(
        &self,
        text: &str,
        offset: usize,
        form: InputForm,
        notes: Adjustments,
    ) -> Result<ParsedName<'a>, Error> {
        let name = match text.split_once(':') {
            Some((prefix, suffix)) if !prefix.contains('/') => [prefix, "/", suffix].concat(),
            _ if self.lenient || text.is_empty() => String::from(text),
            _ => return Err(Error::new(ErrorKind::MissingSlash, offset + text.len())),
        };
        let malformed = if self.lenient { InvalidTriplet::Keep } else { InvalidTriplet::Refuse };
        let decoded = percent_decode(&name, malformed).map_err(|error| error.shifted_by(offset))?;
        let notes = if decoded.stray_percent { notes.with(Adjustment::PercentKept) } else { notes };
        let place = |error: Error| Error::new(error.kind(), offset + encoded_offset(&name, error.offset()));
        Ok(self.validate(decoded.text, form, notes).map_err(place)?.into_owned())
    }

    fn validate<'a>(
        &self,
        text: Cow<'a, str>,
        form: InputForm,
        notes: Adjustments,
    ) -> Result<ParsedName<'a>, Error> {
        if ShortDoi::is_short_doi(&text) {
            let target = DoiOrShortDoi::Short(ShortDoi::from_validated(text));
            return Ok(ParsedName { target, form, notes });
        }
        let mut notes = notes;
        if let Err(error) = self.rules.check(&text, false) {
            if !self.lenient || error.kind() != ErrorKind::UnassignedCharacter {
                return Err(error);
            }
            self.rules.check(&text, true)?;
            notes = notes.with(Adjustment::UnassignedAccepted);
        }
        let name = match text {
            Cow::Borrowed(text) => Cow::Borrowed(Doi::new_unchecked(text)),
            Cow::Owned(text) => Cow::Owned(DoiBuf::from_validated(text)),
        };
        Ok(ParsedName::from_doi(name, form, notes))
    }
}

/// Whether a bare DOI has `%2F` and no `/`; only then is it decoded.
fn has_only_encoded_slash(text: &str) -> bool {
    !text.contains('/')
        && text.contains('%')
        && text.as_bytes().windows(3).any(|bytes| bytes.eq_ignore_ascii_case(b"%2F"))
}

/// Maps an offset in the cleaned text to the input.
fn original_offset(text: &str, clean_at: usize) -> usize {
    let mut left = clean_at;
    for (at, c) in text.char_indices() {
        if is_removable_invisible(c) {
            continue;
        }
        if left == 0 {
            return at;
        }
        left = left.saturating_sub(c.len_utf8());
    }
    text.len()
}
