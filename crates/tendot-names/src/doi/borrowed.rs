//! Borrowed DOI ([`Doi`]).

use core::cmp::Ordering;
use core::fmt;
use core::hash::{Hash, Hasher};

use crate::syntax::{prefix_and_suffix, reserved_suffix_slash};
use crate::{Error, ErrorKind, SyntaxRules};

/// Borrowed, validated DOI name; preserves the input spelling and ignores ASCII case in comparisons.
///
/// `Doi` is to [`DoiBuf`](crate::DoiBuf) as `str` is to `String`. The constructors only validate: in a bare DOI "all
/// characters represent themselves" (Z39.84 appendix E). For URLs, URNs and other input forms use a
/// [`Parser`](crate::Parser).
///
/// Equality, order and hash follow Z39.84 section 4: ASCII letters are compared in upper case, then octets.
/// Letters outside Basic Latin are never folded (2024 draft, section 2, note 3).
///
/// ```
/// use tendot_names::Doi;
///
/// // Z39.84 section 4
/// assert_eq!(Doi::new("10.123/ABC")?, Doi::new("10.123/AbC")?);
/// // 2024 draft, section 2, note 1: composed and decomposed letters are different
/// assert_ne!(Doi::new("10.26321/\u{C1}")?, Doi::new("10.26321/A\u{301}")?);
///
/// // The first slash separates prefix and suffix (2002 draft, section 2.1)
/// let doi = Doi::new("10.5594/SMPTE.ST2067-21.2020")?;
/// assert_eq!((doi.prefix(), doi.suffix()), ("10.5594", "SMPTE.ST2067-21.2020"));
/// # Ok::<(), tendot_names::Error>(())
/// ```
#[repr(transparent)]
pub struct Doi(str);

impl Doi {
    /// Validates `text` with the [current](SyntaxRules::Current) rules.
    ///
    /// ```
    /// use tendot_names::{ErrorKind, Doi};
    ///
    /// // Z39.84 appendix C
    /// for text in [
    ///     "10.1002/(SICI)1097-4571(199806)49:8<693::AID-ASI4>3.0.CO:2-0",
    ///     "10.1001/PUBS.JAMA(278)3,JOC7055-ABSY:",
    ///     "10.1006/rwei.1999.0001",
    /// ] {
    ///     assert_eq!(Doi::new(text)?.as_str(), text);
    /// }
    /// assert_eq!(Doi::new("10.1000").unwrap_err().kind(), ErrorKind::MissingSlash);
    /// # Ok::<(), tendot_names::Error>(())
    /// ```
    pub fn new(text: &str) -> Result<&Self, Error> {
        Self::with_rules(text, SyntaxRules::Current)
    }

    /// Validates `text` with the given rules.
    pub fn with_rules(text: &str, rules: SyntaxRules) -> Result<&Self, Error> {
        rules.check(text, false)?;
        Ok(Self::new_unchecked(text))
    }

    /// Validates bytes with the current rules.
    ///
    /// ```
    /// use tendot_names::{ErrorKind, Doi};
    ///
    /// assert!(Doi::from_bytes(b"10.1000/182").is_ok());
    /// assert_eq!(Doi::from_bytes(b"10.1000/\xC0\xAF").unwrap_err().kind(), ErrorKind::InvalidUtf8);
    /// ```
    pub fn from_bytes(bytes: &[u8]) -> Result<&Self, Error> {
        let text =
            str::from_utf8(bytes).map_err(|error| Error::new(ErrorKind::InvalidUtf8, error.valid_up_to()))?;
        Self::new(text)
    }

    /// Like `with_rules`, but accepts code points that this Unicode version leaves unassigned.
    #[cfg(feature = "alloc")]
    pub(crate) fn allowing_unassigned(text: &str, rules: SyntaxRules) -> Result<&Self, Error> {
        rules.check(text, true)?;
        Ok(Self::new_unchecked(text))
    }

    /// Converts validated text without checking it again. The only `unsafe` code of this crate.
    #[allow(unsafe_code, reason = "reference cast to an unsized newtype")]
    pub(crate) const fn new_unchecked(text: &str) -> &Self {
        // SAFETY: `Doi` is `repr(transparent)` over `str`, so both references have the same layout and lifetime;
        // memory safety does not depend on the text being valid.
        unsafe { &*(core::ptr::from_ref::<str>(text) as *const Self) }
    }

    /// The DOI in its input spelling.
    pub const fn as_str(&self) -> &str {
        &self.0
    }

    /// Prefix: directory indicator and registrant code, before the first slash.
    pub fn prefix(&self) -> &str {
        prefix_and_suffix(&self.0).0
    }

    /// Suffix: the part after the first slash.
    pub fn suffix(&self) -> &str {
        prefix_and_suffix(&self.0).1
    }

    /// Registrant code: the prefix after the first dot; empty only under [`SyntaxRules::Minimal2002`].
    ///
    /// ```
    /// # use tendot_names::Doi;
    /// assert_eq!(Doi::new("10.1000.10/123456")?.registrant_code(), "1000.10");
    /// # Ok::<(), tendot_names::Error>(())
    /// ```
    pub fn registrant_code(&self) -> &str {
        self.prefix().split_once('.').map_or("", |(_, registrant)| registrant)
    }

    /// Whether the suffix starts with one character and a slash, which Z39.84 section 4.3 reserves.
    ///
    /// ```
    /// # use tendot_names::Doi;
    /// assert!(Doi::new("10.2505/4/ss15_038_08_78")?.has_reserved_suffix());
    /// assert!(!Doi::new("10.1000/ab/c")?.has_reserved_suffix());
    /// # Ok::<(), tendot_names::Error>(())
    /// ```
    pub fn has_reserved_suffix(&self) -> bool {
        reserved_suffix_slash(self.suffix()).is_some()
    }

    /// Validates the DOI against a rule set; a leniently parsed DOI may fail.
    ///
    /// ```
    /// use tendot_names::{ErrorKind, Doi, SyntaxRules};
    ///
    /// let doi = Doi::new("10.2505/4/ss15_038_08_78")?;
    /// assert_eq!(doi.check(SyntaxRules::Z3984).unwrap_err().kind(), ErrorKind::ReservedSuffix);
    /// # Ok::<(), tendot_names::Error>(())
    /// ```
    pub fn check(&self, rules: SyntaxRules) -> Result<(), Error> {
        rules.check(&self.0, false)
    }

    /// Appends the comparison key: the DOI's bytes with ASCII letters in upper case.
    ///
    /// Keys are equal if and only if the DOIs are, and have the order of the DOIs.
    ///
    /// ```
    /// use tendot_names::Doi;
    ///
    /// let mut key = Vec::new();
    /// Doi::new("10.1000/Abc")?.append_comparison_key(&mut key);
    /// assert_eq!(key, b"10.1000/ABC");
    /// # Ok::<(), tendot_names::Error>(())
    /// ```
    #[cfg(feature = "alloc")]
    pub fn append_comparison_key(&self, key: &mut alloc::vec::Vec<u8>) {
        crate::ascii_case::append_uppercase(key, self.0.as_bytes());
    }

    /// Compares code points, including case.
    ///
    /// ```
    /// # use tendot_names::Doi;
    /// let (upper, lower) = (Doi::new("10.123/ABC")?, Doi::new("10.123/abc")?);
    /// assert!(upper == lower && !upper.eq_exact(lower));
    /// # Ok::<(), tendot_names::Error>(())
    /// ```
    pub fn eq_exact(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl PartialEq for Doi {
    fn eq(&self, other: &Self) -> bool {
        self.0.eq_ignore_ascii_case(&other.0)
    }
}

impl Eq for Doi {}

impl PartialOrd for Doi {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Doi {
    fn cmp(&self, other: &Self) -> Ordering {
        let folded = |byte: u8| byte.to_ascii_uppercase();
        self.0.bytes().map(folded).cmp(other.0.bytes().map(folded))
    }
}

impl Hash for Doi {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // In chunks: hashing slices is faster than single bytes.
        for chunk in self.0.as_bytes().chunks(64) {
            let mut folded = [0; 64];
            let folded = folded.split_at_mut(chunk.len()).0;
            folded.copy_from_slice(chunk);
            folded.make_ascii_uppercase();
            state.write(folded);
        }
        // Terminator: UTF-8 never contains this byte, so the hash of a sequence of DOIs is unambiguous.
        state.write_u8(0xFF);
    }
}

/// Writes the DOI in its input spelling; [`format`](Self::format) writes the other output forms.
impl fmt::Display for Doi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for Doi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Doi").field(&&self.0).finish()
    }
}

impl AsRef<str> for Doi {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl<'a> TryFrom<&'a str> for &'a Doi {
    type Error = Error;

    /// Accepts a bare DOI only, with the current rules.
    fn try_from(text: &'a str) -> Result<Self, Error> {
        Doi::new(text)
    }
}
