//! Syntax rules: three rule sets, and the check of a text against one of them.
//!
//! In reading order:
//!
//! - `character`: characters allowed in a DOI
//! - `unicode_table`: table generated from the Unicode Character Database

pub(crate) mod character;
mod unicode_table;

use crate::{Error, ErrorKind};

pub use unicode_table::UNICODE_VERSION;

/// Syntax rules that a DOI must satisfy.
///
/// ```
/// use tendot_names::{Doi, SyntaxRules};
///
/// // Example (b) of the 2002 draft, section 2.3: a registrant code with letters.
/// assert!(Doi::with_rules("10.abc/ab/cd/ef", SyntaxRules::Minimal2002).is_ok());
/// assert!(Doi::with_rules("10.abc/ab/cd/ef", SyntaxRules::Z3984).is_ok());
/// assert!(Doi::with_rules("10.abc/ab/cd/ef", SyntaxRules::Current).is_err());
/// ```
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum SyntaxRules {
    /// Rules of registered DOIs: `10.`, groups of digits separated by dots, a slash, any graphic characters.
    #[default]
    Current,
    /// ANSI/NISO Z39.84-2005: any registrant code (section 4.2), but no suffix that starts with one character and a
    /// slash (section 4.3).
    Z3984,
    /// Minimum of the 2002 draft (section 2.1): non-empty prefix and suffix.
    Minimal2002,
}

impl SyntaxRules {
    /// All rule sets.
    pub const ALL: [Self; 3] = [Self::Current, Self::Z3984, Self::Minimal2002];

    /// Stable code, as used on the command line and in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Current => "current",
            Self::Z3984 => "z3984",
            Self::Minimal2002 => "minimal2002",
        }
    }

    /// Validates a DOI: its characters, then prefix and suffix.
    pub(crate) fn check(self, text: &str, allow_unassigned: bool) -> Result<(), Error> {
        character::check_characters(text, allow_unassigned)?;
        self.check_structure(text)
    }

    /// Checks prefix and suffix; the characters have been checked.
    #[inline]
    pub(crate) fn check_structure(self, text: &str) -> Result<(), Error> {
        if self == Self::Current && has_simple_prefix(text.as_bytes()) {
            return Ok(());
        }
        self.check_structure_in_full(text)
    }

    fn check_structure_in_full(self, text: &str) -> Result<(), Error> {
        if text.is_empty() {
            return Err(Error::new(ErrorKind::Empty, 0));
        }
        let Some((prefix, suffix)) = split_prefix(text) else {
            return Err(Error::new(ErrorKind::MissingSlash, text.len()));
        };
        if prefix.is_empty() {
            return Err(Error::new(ErrorKind::EmptyPrefix, 0));
        }
        if suffix.is_empty() {
            return Err(Error::new(ErrorKind::EmptySuffix, text.len()));
        }
        if self == Self::Minimal2002 {
            return Ok(());
        }
        let registrant = registrant_code(prefix)?;
        match self {
            Self::Current => check_digit_groups(registrant, prefix.len() - registrant.len()),
            _ => check_suffix_not_reserved(suffix, prefix.len() + 1),
        }
    }
}

/// Word in which every byte is 1.
const EVERY_BYTE_ONE: u64 = u64::MAX / 255;

/// Whether the text starts with `10.`, one to seven digits and a slash, as nearly every DOI does.
///
/// Checks all digits in one word: a data-dependent loop would cost more than the rest of parsing.
#[inline]
fn has_simple_prefix(text: &[u8]) -> bool {
    let Some((b"10.", rest)) = text.split_first_chunk::<3>() else { return false };
    let Some(word) = rest.first_chunk::<8>() else { return false };
    // XOR maps digits to 0–9; the addition sets the high bit of every other byte.
    let values = u64::from_le_bytes(*word) ^ (EVERY_BYTE_ONE * u64::from(b'0'));
    let non_digits = (values.wrapping_add(EVERY_BYTE_ONE * 0x76) | values) & (EVERY_BYTE_ONE << 7);
    let digits = non_digits.trailing_zeros() as usize / 8;
    digits > 0 && rest.get(digits) == Some(&b'/') && rest.len() > digits + 1
}

/// Prefix and suffix of a DOI or shortDOI, which has a slash.
pub(crate) fn prefix_and_suffix(name: &str) -> (&str, &str) {
    split_prefix(name).unwrap_or((name, ""))
}

/// Splits at the first slash.
fn split_prefix(text: &str) -> Option<(&str, &str)> {
    // A prefix is short: a scalar loop is faster than a vectorized search.
    let slash = text.bytes().position(|byte| byte == b'/')?;
    Some((text.get(..slash)?, text.get(slash + 1..)?))
}

/// Registrant code: the part of `prefix` after `10.`.
fn registrant_code(prefix: &str) -> Result<&str, Error> {
    let registrant = match prefix.strip_prefix("10.") {
        Some(registrant) => registrant,
        None if prefix == "10" => "",
        None => return Err(Error::new(ErrorKind::BadDirectoryIndicator, 0)),
    };
    if registrant.is_empty() {
        return Err(Error::new(ErrorKind::MissingRegistrant, prefix.len()));
    }
    Ok(registrant)
}

/// Checks a registrant code: digits, in groups separated by dots.
fn check_digit_groups(registrant: &str, offset: usize) -> Result<(), Error> {
    let mut is_group_start = true;
    for (index, byte) in registrant.bytes().enumerate() {
        if !byte.is_ascii_digit() && (byte != b'.' || is_group_start) {
            return Err(Error::new(ErrorKind::BadRegistrant, offset + index));
        }
        is_group_start = byte == b'.';
    }
    if is_group_start {
        return Err(Error::new(ErrorKind::BadRegistrant, offset + registrant.len()));
    }
    Ok(())
}

/// Rejects a suffix that starts with one character and a slash (Z39.84 section 4.3).
fn check_suffix_not_reserved(suffix: &str, offset: usize) -> Result<(), Error> {
    match reserved_suffix_slash(suffix) {
        Some(index) => Err(Error::new(ErrorKind::ReservedSuffix, offset + index)),
        None => Ok(()),
    }
}

/// Offset of the slash after the only character before it, if the suffix is reserved (Z39.84 section 4.3).
pub(crate) fn reserved_suffix_slash(suffix: &str) -> Option<usize> {
    let (index, character) = suffix.char_indices().nth(1)?;
    (character == '/').then_some(index)
}
