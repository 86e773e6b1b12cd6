//! Parse result: a DOI or shortDOI, its input form and the adjustments.

use alloc::borrow::Cow;
use alloc::vec::Vec;

use super::adjustment::Adjustments;
use super::input_form::InputForm;
use crate::ascii_case::append_uppercase;
use crate::{Doi, FormDisplay, OutputForm, ShortDoi};

/// Result of parsing: the DOI or shortDOI, its input form, and the adjustments.
#[derive(Clone, Debug)]
pub struct ParsedName<'a> {
    pub(super) target: DoiOrShortDoi<'a>,
    pub(super) form: InputForm,
    pub(super) notes: Adjustments,
}

impl<'a> ParsedName<'a> {
    pub(super) fn from_doi(name: Cow<'a, Doi>, form: InputForm, notes: Adjustments) -> Self {
        Self { target: DoiOrShortDoi::Doi(name), form, notes }
    }

    /// The name, or the shortDOI.
    pub const fn identifier(&self) -> &DoiOrShortDoi<'a> {
        &self.target
    }

    /// The name, or the shortDOI, taken out.
    pub fn into_identifier(self) -> DoiOrShortDoi<'a> {
        self.target
    }

    /// The DOI; `None` for a shortDOI.
    pub fn doi(&self) -> Option<&Doi> {
        match &self.target {
            DoiOrShortDoi::Doi(name) => Some(name),
            DoiOrShortDoi::Short(_) => None,
        }
    }

    /// The form in which it was written.
    pub const fn input_form(&self) -> InputForm {
        self.form
    }

    /// Adjustments made by lenient parsing; empty after strict parsing.
    pub const fn adjustments(&self) -> Adjustments {
        self.notes
    }

    pub(super) fn into_owned<'b>(self) -> ParsedName<'b> {
        let target = match self.target {
            DoiOrShortDoi::Doi(name) => DoiOrShortDoi::Doi(Cow::Owned(name.into_owned())),
            DoiOrShortDoi::Short(short) => {
                DoiOrShortDoi::Short(ShortDoi::from_validated(Cow::Owned(short.into_string())))
            }
        };
        ParsedName { target, form: self.form, notes: self.notes }
    }
}

/// A DOI or a shortDOI.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum DoiOrShortDoi<'a> {
    /// A DOI name.
    Doi(Cow<'a, Doi>),
    /// A shortDOI, which is not a DOI name but stands for one.
    Short(ShortDoi<'a>),
}

impl DoiOrShortDoi<'_> {
    /// The name or shortDOI as written, decoded.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Doi(name) => name.as_str(),
            Self::Short(short) => short.as_str(),
        }
    }

    /// The part before the first slash.
    pub fn prefix(&self) -> &str {
        match self {
            Self::Doi(name) => name.prefix(),
            Self::Short(short) => short.prefix(),
        }
    }

    /// The part after the first slash.
    pub fn suffix(&self) -> &str {
        match self {
            Self::Doi(name) => name.suffix(),
            Self::Short(short) => short.suffix(),
        }
    }

    /// In another form; nothing when there is none, as with [`OutputForm::Eidr`] for names of others.
    pub fn written_as(&self, form: OutputForm) -> Option<FormDisplay<'_>> {
        match self {
            Self::Doi(name) => name.format(form),
            Self::Short(short) => short.written_as(form),
        }
    }

    /// Writes the comparison key to the end of `key`, as [`Doi::append_comparison_key`] does.
    pub fn write_key(&self, key: &mut Vec<u8>) {
        append_uppercase(key, self.as_str().as_bytes());
    }
}
