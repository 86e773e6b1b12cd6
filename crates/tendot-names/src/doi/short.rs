//! ShortDOI ([`ShortDoi`]): `10/` and ASCII letters or digits, an alias that the DOI proxy resolves.
//!
//! It is not a DOI, because it has no registrant code (Z39.84 section 4.2).

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::ascii_case::append_uppercase;
use crate::syntax::prefix_and_suffix;
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

    /// ShortDOI of a code without `10/`, such as `gf4gqc`; `None` unless it is ASCII letters or digits.
    ///
    /// ```
    /// use tendot_names::ShortDoi;
    ///
    /// assert_eq!(ShortDoi::from_code("gf4gqc").unwrap().as_str(), "10/gf4gqc");
    /// assert!(ShortDoi::from_code("Self-organized criticality").is_none());
    /// ```
    pub fn from_code(code: &str) -> Option<ShortDoi<'static>> {
        let is_code = !code.is_empty() && code.bytes().all(|byte| byte.is_ascii_alphanumeric());
        is_code.then(|| ShortDoi(Cow::Owned(format!("10/{code}"))))
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
        prefix_and_suffix(&self.0).0
    }

    /// Suffix: the part after `10/`.
    pub fn suffix(&self) -> &str {
        prefix_and_suffix(&self.0).1
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

#[cfg(test)]
mod tests {
    use std::string::ToString as _;

    use super::*;
    use crate::{DoiOrShortDoi, Parser};

    #[test]
    fn short_dois_are_formatted_and_compared() {
        let parse = |text| match Parser::strict().parse(text).unwrap().into_identifier() {
            DoiOrShortDoi::ShortDoi(short) => short,
            DoiOrShortDoi::Doi(doi) => panic!("{doi}"),
        };
        let short = parse("https://doi.org/10/gf4gqc");
        assert_eq!(short, parse("10/GF4GQC"));
        assert_eq!((short.prefix(), short.suffix()), ("10", "gf4gqc"));
        assert_eq!(short.format(OutputForm::Uri202411).unwrap().to_string(), "doi:10/gf4gqc");
        assert_eq!(short.format(OutputForm::Url).unwrap().to_string(), "https://doi.org/10/gf4gqc");
        assert!(short.format(OutputForm::Eidr).is_none());
        let mut keys = [Vec::new(), Vec::new()];
        short.append_comparison_key(&mut keys[0]);
        DoiOrShortDoi::ShortDoi(short.clone()).append_comparison_key(&mut keys[1]);
        assert_eq!(keys, [b"10/GF4GQC", b"10/GF4GQC"]);
        assert_eq!(short.to_string(), short.into_string());
    }
}
