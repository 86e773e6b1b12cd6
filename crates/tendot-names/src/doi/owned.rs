//! Owned DOI ([`DoiBuf`]).

use alloc::borrow::{Borrow, Cow, ToOwned};
use alloc::boxed::Box;
use alloc::string::String;
use core::cmp::Ordering;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::ops::Deref;
use core::str::FromStr;

use crate::{Doi, Error, Parser, SyntaxRules};

/// Owned, validated DOI name; preserves the input spelling and ignores ASCII case in comparisons.
///
/// `FromStr` accepts every input form defined by the standards; for other spellings, see [`Parser::lenient`].
///
/// ```
/// use std::collections::HashSet;
/// use tendot_names::{DoiBuf, Doi};
///
/// let link: DoiBuf = "https://doi.org/10.1000/ABC".parse()?;
/// assert_eq!(link, "doi:10.1000/abc".parse()?);
/// assert_eq!(link.prefix(), "10.1000");
/// assert_eq!(link.to_string(), "10.1000/ABC");
///
/// // Lookup in a set ignores ASCII case and needs no copy.
/// let seen = HashSet::from([link]);
/// assert!(seen.contains(Doi::new("10.1000/aBc")?));
/// # Ok::<(), tendot_names::Error>(())
/// ```
#[derive(Clone)]
pub struct DoiBuf(Box<str>);

impl DoiBuf {
    /// Validates a bare DOI with the given rules.
    ///
    /// ```
    /// # use tendot_names::{DoiBuf, SyntaxRules};
    /// assert!(DoiBuf::with_rules("alpha-beta/182.342-24", SyntaxRules::Minimal2002).is_ok());
    /// assert!(DoiBuf::with_rules("alpha-beta/182.342-24", SyntaxRules::Current).is_err());
    /// ```
    pub fn with_rules(text: impl Into<String>, rules: SyntaxRules) -> Result<Self, Error> {
        let text = text.into();
        Doi::with_rules(&text, rules)?;
        Ok(Self(text.into_boxed_str()))
    }

    /// Wraps text that has been validated.
    pub(crate) fn from_validated(text: String) -> Self {
        Self(text.into_boxed_str())
    }

    /// Converts the DOI to a string in its input spelling.
    pub fn into_string(self) -> String {
        self.0.into_string()
    }
}

impl Deref for DoiBuf {
    type Target = Doi;

    fn deref(&self) -> &Doi {
        Doi::new_unchecked(&self.0)
    }
}

impl Borrow<Doi> for DoiBuf {
    fn borrow(&self) -> &Doi {
        self
    }
}

impl AsRef<Doi> for DoiBuf {
    fn as_ref(&self) -> &Doi {
        self
    }
}

impl ToOwned for Doi {
    type Owned = DoiBuf;

    fn to_owned(&self) -> DoiBuf {
        DoiBuf(self.as_str().into())
    }
}

impl From<&Doi> for DoiBuf {
    fn from(doi: &Doi) -> Self {
        doi.to_owned()
    }
}

impl From<Cow<'_, Doi>> for DoiBuf {
    fn from(doi: Cow<'_, Doi>) -> Self {
        doi.into_owned()
    }
}

impl FromStr for DoiBuf {
    type Err = Error;

    /// Parses any strict input form with the current rules; rejects shortDOIs.
    fn from_str(text: &str) -> Result<Self, Error> {
        Parser::strict().parse_doi(text).map(Cow::into_owned)
    }
}

impl PartialEq for DoiBuf {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for DoiBuf {}

impl PartialOrd for DoiBuf {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for DoiBuf {
    fn cmp(&self, other: &Self) -> Ordering {
        (**self).cmp(other)
    }
}

impl Hash for DoiBuf {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl fmt::Display for DoiBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&**self, f)
    }
}

impl fmt::Debug for DoiBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DoiBuf").field(&&*self.0).finish()
    }
}

impl AsRef<str> for DoiBuf {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl From<DoiBuf> for String {
    fn from(doi: DoiBuf) -> Self {
        doi.into_string()
    }
}

impl TryFrom<String> for DoiBuf {
    type Error = Error;

    /// Accepts a bare DOI only, with the current rules.
    fn try_from(text: String) -> Result<Self, Error> {
        Self::with_rules(text, SyntaxRules::Current)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversions() {
        let doi = Doi::new("10.1000/Abc").unwrap();
        let owned = DoiBuf::from(doi);
        for other in
            [DoiBuf::from(Cow::Borrowed(doi)), DoiBuf::try_from(String::from("10.1000/Abc")).unwrap()]
        {
            assert!(owned.eq_exact(&other));
        }
        assert_eq!((AsRef::<str>::as_ref(&owned), AsRef::<Doi>::as_ref(&owned)), (doi.as_str(), doi));
        assert_eq!(String::from(owned.clone()), owned.into_string());
        // Only bare DOIs
        assert!(DoiBuf::try_from(String::from("doi:10.1000/Abc")).is_err());
        assert!(<&Doi>::try_from("doi:10.1000/Abc").is_err());
    }
}
