//! Parse result: a DOI or shortDOI, its input form and the adjustments.

use alloc::borrow::Cow;
use alloc::vec::Vec;

use super::adjustment::Adjustments;
use super::input_form::InputForm;
use crate::ascii_case::append_uppercase;
use crate::syntax::prefix_and_suffix;
use crate::{Doi, FormDisplay, OutputForm, ShortDoi};

/// Result of parsing: the DOI or shortDOI, its input form, and the adjustments.
#[derive(Clone, Debug)]
pub struct ParsedName<'a> {
    pub(super) identifier: DoiOrShortDoi<'a>,
    pub(super) input_form: InputForm,
    pub(super) adjustments: Adjustments,
}

impl<'a> ParsedName<'a> {
    pub(super) fn from_doi(doi: Cow<'a, Doi>, input_form: InputForm, adjustments: Adjustments) -> Self {
        Self { identifier: DoiOrShortDoi::Doi(doi), input_form, adjustments }
    }

    /// The DOI or shortDOI.
    pub const fn identifier(&self) -> &DoiOrShortDoi<'a> {
        &self.identifier
    }

    /// Converts the result to the DOI or shortDOI.
    pub fn into_identifier(self) -> DoiOrShortDoi<'a> {
        self.identifier
    }

    /// The DOI; `None` for a shortDOI.
    pub fn doi(&self) -> Option<&Doi> {
        match &self.identifier {
            DoiOrShortDoi::Doi(doi) => Some(doi),
            DoiOrShortDoi::ShortDoi(_) => None,
        }
    }

    /// Input form of the DOI or shortDOI.
    pub const fn input_form(&self) -> InputForm {
        self.input_form
    }

    /// Adjustments made by lenient parsing; empty after strict parsing.
    pub const fn adjustments(&self) -> Adjustments {
        self.adjustments
    }

    pub(super) fn into_owned<'b>(self) -> ParsedName<'b> {
        let identifier = match self.identifier {
            DoiOrShortDoi::Doi(doi) => DoiOrShortDoi::Doi(Cow::Owned(doi.into_owned())),
            DoiOrShortDoi::ShortDoi(short) => {
                DoiOrShortDoi::ShortDoi(ShortDoi::from_validated(Cow::Owned(short.into_string())))
            }
        };
        ParsedName { identifier, input_form: self.input_form, adjustments: self.adjustments }
    }
}

/// A DOI or a shortDOI.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum DoiOrShortDoi<'a> {
    /// DOI.
    Doi(Cow<'a, Doi>),
    /// ShortDOI: an alias of a DOI, without registrant code.
    ShortDoi(ShortDoi<'a>),
}

impl DoiOrShortDoi<'_> {
    /// The decoded DOI or shortDOI in its input spelling.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Doi(doi) => doi.as_str(),
            Self::ShortDoi(short) => short.as_str(),
        }
    }

    /// Prefix: the part before the first slash.
    pub fn prefix(&self) -> &str {
        prefix_and_suffix(self.as_str()).0
    }

    /// Suffix: the part after the first slash.
    pub fn suffix(&self) -> &str {
        prefix_and_suffix(self.as_str()).1
    }

    /// Formats the DOI or shortDOI; `None` for [`OutputForm::Eidr`] unless it has an EIDR prefix.
    pub fn format(&self, form: OutputForm) -> Option<FormDisplay<'_>> {
        FormDisplay::new(self.as_str(), form)
    }

    /// Appends the comparison key, see [`Doi::append_comparison_key`].
    pub fn append_comparison_key(&self, key: &mut Vec<u8>) {
        append_uppercase(key, self.as_str().as_bytes());
    }
}
