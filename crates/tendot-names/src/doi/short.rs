//! ShortDOIs: `10/` and a few letters or digits, an alias that the proxy knows. Not a DOI name, because it has
//! no registrant code (Z39.84 section 4.2).

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
/// let reading = Parser::strict().parse("https://doi.org/10/gf4gqc")?;
/// let DoiOrShortDoi::Short(short) = reading.identifier() else { panic!("a shortDOI") };
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

    pub(crate) fn from_validated(text: Cow<'a, str>) -> Self {
        Self(text)
    }

    /// The shortDOI as written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// `10`
    pub fn prefix(&self) -> &str {
        self.0.split_once('/').map_or("", |(prefix, _)| prefix)
    }

    /// The part after `10/`.
    pub fn suffix(&self) -> &str {
        self.0.split_once('/').map_or("", |(_, suffix)| suffix)
    }

    /// Writes the comparison key to the end of `key`, as [`Doi::append_comparison_key`](crate::Doi::append_comparison_key) does.
    pub fn write_key(&self, key: &mut Vec<u8>) {
        append_uppercase(key, self.0.as_bytes());
    }

    /// The shortDOI in another form; none as [`OutputForm::Eidr`].
    pub fn written_as(&self, form: OutputForm) -> Option<FormDisplay<'_>> {
        FormDisplay::new(&self.0, form)
    }

    /// The shortDOI as a string.
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
