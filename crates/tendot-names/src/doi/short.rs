//! ShortDOI ([`ShortDoi`]): `10/` and ASCII letters or digits, an alias that the DOI proxy resolves.
//!
//! It is not a DOI, because it has no registrant code (Z39.84 section 4.2).

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::ascii_case::append_uppercase;
use crate::{FormDisplay, OutputForm};

/// ShortDOI such as `10/gf4gqc`; comparisons ignore ASCII case.
///
/// ```
/// use tendot_names::{Parser, DoiOrShortDoi};
///
/// let parsed = Parser::strict().parse("https://doi.org/10/gf4gqc")?;
/// let DoiOrShortDoi::ShortDoi(short) = parsed.identifier() else { panic!("a shortDOI") };
/// assert_eq!(short.as_str(), "10/gf4gqc");
/// # Ok::<(), tendot_names::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ShortDoi<'a>(Cow<'a, str>);

impl<'a> ShortDoi<'a> {
    /// Whether `text` is `10/` and ASCII letters or digits.
    pub(crate) fn is_short_doi(text: &str) -> bool {
        text.strip_prefix("10/")
            .is_some_and(|code| !code.is_empty() && code.bytes().all(|byte| byte.is_ascii_alphanumeric()))
    }

    /// Wraps text for which [`is_short_doi`](Self::is_short_doi) is true.
    pub(crate) fn from_validated(text: Cow<'a, str>) -> Self {
        Self(text)
    }

    /// The shortDOI in its input spelling.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Prefix: always `10`.
    pub fn prefix(&self) -> &str {
        self.0.split_once('/').map_or("", |(prefix, _)| prefix)
    }

    /// Suffix: the part after `10/`.
    pub fn suffix(&self) -> &str {
        self.0.split_once('/').map_or("", |(_, suffix)| suffix)
    }

    /// Appends the comparison key, see [`Doi::append_comparison_key`](crate::Doi::append_comparison_key).
    pub fn append_comparison_key(&self, key: &mut Vec<u8>) {
        append_uppercase(key, self.0.as_bytes());
    }

    /// Formats the shortDOI in an output form; `None` for [`OutputForm::Eidr`].
    pub fn format(&self, form: OutputForm) -> Option<FormDisplay<'_>> {
        FormDisplay::new(&self.0, form)
    }

    /// Converts the shortDOI to a string in its input spelling.
    pub fn into_string(self) -> String {
        self.0.into_owned()
    }
}

impl PartialEq for ShortDoi<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.0.eq_ignore_ascii_case(&other.0)
    }
}

impl Eq for ShortDoi<'_> {}

impl fmt::Display for ShortDoi<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}
