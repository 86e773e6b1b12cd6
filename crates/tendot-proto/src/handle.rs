//! Handles: parsing, comparison and server selection.

use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::fmt;

use md5::{Digest as _, Md5};

use crate::limits;
use crate::record::HashOption;

/// Handle as raw bytes: prefix, first `/`, suffix (RFC 3651, 2). Not validated.
///
/// Without a slash the whole handle is the prefix.
///
/// ```
/// use tendot_proto::Handle;
///
/// let name = Handle::from("10.1000/abc/d");
/// assert_eq!(name.prefix(), b"10.1000");
/// assert_eq!(name.suffix(), Some(&b"abc/d"[..]));
/// assert_eq!(name.prefix_handle(), b"0.NA/10.1000");
/// assert_eq!(name.canonical(), &b"10.1000/ABC/D"[..]);
/// ```
#[derive(Clone, Copy, Eq, Hash, PartialEq)]
pub struct Handle<'a>(&'a [u8]);

impl<'a> Handle<'a> {
    /// Prefix record of the root service; it lists the root sites.
    pub const ROOT: Self = Self(b"0.NA/0.NA");

    /// Placeholder `/` in requests without a handle.
    pub const BLANK: Self = Self(b"/");

    /// Start of every prefix handle.
    const PREFIX_HANDLE_START: &'static [u8] = b"0.NA/";

    /// Wraps bytes without validation.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Raw bytes.
    pub const fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// The handle as text, if it is UTF-8.
    pub fn to_str(self) -> Result<&'a str, core::str::Utf8Error> {
        core::str::from_utf8(self.0)
    }

    /// Validates the handle of a new record: not empty, not too long, UTF-8, with a slash and a prefix.
    ///
    /// Handle.Net accepts more (invalid sequences that resemble UTF-8, an empty prefix). Resolution needs no such
    /// check: these handles are not found.
    ///
    /// ```
    /// use tendot_proto::{Handle, HandleError};
    ///
    /// assert_eq!(Handle::from("10.1000/182").validate_for_create(), Ok(()));
    /// assert_eq!(Handle::from("10.1000").validate_for_create(), Err(HandleError::MissingSlash));
    /// assert_eq!(Handle::new(b"10.1000/\xc0\xaf").validate_for_create(), Err(HandleError::InvalidUtf8 { offset: 8 }));
    /// ```
    pub fn validate_for_create(self) -> Result<(), HandleError> {
        self.validate_for_create_up_to(limits::MAX_HANDLE_LEN)
    }

    /// Like [`Handle::validate_for_create`], with another maximum length in bytes. A handle of more than
    /// [`limits::MAX_HANDLE_LEN`] bytes does not fit into a message.
    pub fn validate_for_create_up_to(self, max_len: usize) -> Result<(), HandleError> {
        self.validate_up_to(max_len)?;
        match self.slash_offset() {
            None if self.0.is_empty() => Err(HandleError::Empty),
            None => Err(HandleError::MissingSlash),
            Some(0) => Err(HandleError::EmptyPrefix),
            Some(_) => Ok(()),
        }
    }

    /// Validates length and UTF-8, without which no record can have this handle.
    pub fn validate(self) -> Result<(), HandleError> {
        self.validate_up_to(limits::MAX_HANDLE_LEN)
    }

    /// Like [`Handle::validate`], with another maximum length in bytes.
    pub fn validate_up_to(self, max_len: usize) -> Result<(), HandleError> {
        if self.0.len() > max_len {
            return Err(HandleError::TooLong { len: self.0.len(), max: max_len });
        }
        match self.to_str() {
            Ok(_) => Ok(()),
            Err(error) => Err(HandleError::InvalidUtf8 { offset: error.valid_up_to() }),
        }
    }

    /// Part before the first slash; all of it without a slash.
    pub fn prefix(self) -> &'a [u8] {
        self.slash_offset().map_or(self.0, |slash| self.0.get(..slash).unwrap_or_default())
    }

    /// Part after the first slash, if there is one.
    pub fn suffix(self) -> Option<&'a [u8]> {
        self.slash_offset().and_then(|slash| self.0.get(slash + 1..))
    }

    fn slash_offset(self) -> Option<usize> {
        self.0.iter().position(|byte| *byte == b'/')
    }

    /// Storage key of the record: ASCII letters in upper case, everything else unchanged.
    pub fn canonical(self) -> Cow<'a, [u8]> {
        if self.0.iter().any(u8::is_ascii_lowercase) {
            Cow::Owned(self.0.to_ascii_uppercase())
        } else {
            Cow::Borrowed(self.0)
        }
    }

    /// Prefix handle whose record lists the sites of this handle: `0.NA/10.1000` for `10.1000/1`, and `0.NA/0.NA` for
    /// `0.NA/10.1000`.
    pub fn prefix_handle(self) -> Vec<u8> {
        let mut handle = Self::PREFIX_HANDLE_START.to_vec();
        match self.suffix() {
            Some(_) => handle.extend(self.prefix().iter().map(u8::to_ascii_uppercase)),
            None => handle.extend_from_slice(b"0.NA"),
        }
        handle
    }

    /// Adds `0.NA/` to a handle without a slash: `0.NA/10` for `10`; any other handle is unchanged.
    pub fn qualified(self) -> Cow<'a, [u8]> {
        if self.slash_offset().is_some() {
            return Cow::Borrowed(self.0);
        }
        let mut handle = Self::PREFIX_HANDLE_START.to_vec();
        handle.extend(self.0.iter().map(u8::to_ascii_uppercase));
        Cow::Owned(handle)
    }

    /// Parent of a derived prefix handle: `0.NA/10.1000` for `0.NA/10.1000.2`, none for `0.NA/10`.
    pub fn parent_prefix_handle(self) -> Option<&'a [u8]> {
        let suffix = self.suffix().filter(|_| self.is_prefix_handle())?;
        let dot = suffix.iter().rposition(|byte| *byte == b'.')?;
        self.0.get(..self.0.len() - suffix.len() + dot)
    }

    /// Whether this is a prefix handle: `0.NA/…`.
    pub fn is_prefix_handle(self) -> bool {
        self.0
            .split_at_checked(Self::PREFIX_HANDLE_START.len())
            .is_some_and(|(start, _)| start.eq_ignore_ascii_case(Self::PREFIX_HANDLE_START))
    }

    /// Whether the root service is responsible: the handle begins with `0.` or `0/`, or has no slash.
    pub fn is_global(self) -> bool {
        self.0.starts_with(b"0.") || self.0.starts_with(b"0/") || self.slash_offset().is_none()
    }

    /// Compares identities: ASCII case is ignored in the prefix, and everywhere in `0.…`.
    pub fn eq_identity(self, other: Handle<'_>) -> bool {
        self.prefix().eq_ignore_ascii_case(other.prefix())
            && match (self.suffix(), other.suffix()) {
                (Some(a), Some(b)) if self.0.starts_with(b"0.") => a.eq_ignore_ascii_case(b),
                (a, b) => a == b,
            }
    }

    /// Compares handles as record names: ASCII case is ignored.
    pub fn eq_ignore_case(self, other: Handle<'_>) -> bool {
        self.0.eq_ignore_ascii_case(other.0)
    }

    /// Index of the responsible server of a site (RFC 3652, 3.1.3): the last four bytes of the MD5 of the hashed part,
    /// as the absolute value of a signed integer, modulo `server_count`. None if `server_count` is 0.
    ///
    /// A handle without a slash is on the server of its [qualified](Self::qualified) form.
    ///
    /// ```
    /// use tendot_proto::{Handle, record::HashOption};
    ///
    /// let name = Handle::from("10.1000/abc");
    /// assert_eq!(name.server_index(HashOption::WHOLE, 3), Some(1));
    /// assert_eq!(name.server_index(HashOption::WHOLE, 0), None);
    /// ```
    pub fn server_index(self, option: HashOption, server_count: usize) -> Option<usize> {
        if server_count < 2 {
            return (server_count == 1).then_some(0);
        }
        let mut hash = Md5::new();
        let mut fold = |part: &[u8]| {
            for chunk in part.chunks(64) {
                let mut upper = [0; 64];
                for (to, from) in upper.iter_mut().zip(chunk) {
                    *to = from.to_ascii_uppercase();
                }
                hash.update(upper.get(..chunk.len()).unwrap_or_default());
            }
        };
        match (option, self.suffix()) {
            (HashOption::PREFIX, Some(_)) => fold(self.prefix()),
            (HashOption::PREFIX, None) => fold(b"0.NA"),
            (HashOption::SUFFIX, Some(suffix)) => fold(suffix),
            (HashOption::SUFFIX, None) | (_, Some(_)) => fold(self.0),
            (_, None) => {
                fold(Self::PREFIX_HANDLE_START);
                fold(self.0);
            }
        }
        let digest: [u8; 16] = hash.finalize().into();
        let last = digest.last_chunk::<4>().copied().unwrap_or_default();
        // Handle.Net overflows at -2^31; here the absolute value is correct.
        Some(i32::from_be_bytes(last).unsigned_abs() as usize % server_count)
    }
}

impl<'a> From<&'a str> for Handle<'a> {
    fn from(text: &'a str) -> Self {
        Self(text.as_bytes())
    }
}

/// As text; invalid UTF-8 is replaced.
impl fmt::Display for Handle<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            f.write_str(chunk.valid())?;
            if !chunk.invalid().is_empty() {
                f.write_str("\u{fffd}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Handle<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Handle(\"{}\")", self.0.escape_ascii())
    }
}

/// Reason for which a handle cannot name a new record.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum HandleError {
    /// The handle is empty.
    #[error("empty handle")]
    Empty,
    /// The handle is too long.
    #[error("handle of {len} bytes exceeds the limit of {max}")]
    TooLong {
        /// Length in bytes.
        len: usize,
        /// Maximum length in bytes.
        max: usize,
    },
    /// The handle is not UTF-8.
    #[error("invalid handle: invalid UTF-8 at byte {offset}")]
    InvalidUtf8 {
        /// Offset of the first invalid byte.
        offset: usize,
    },
    /// The handle has no slash.
    #[error("invalid handle: missing `/`")]
    MissingSlash,
    /// The prefix is empty.
    #[error("invalid handle: empty prefix")]
    EmptyPrefix,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hash examples computed with Handle.Net.
    #[test]
    fn server_index() {
        check("10.1000/1", HashOption::PREFIX, 1);
        check("10.1000/1", HashOption::SUFFIX, 2);
        check("10.1000/1", HashOption::WHOLE, 2);
        check("10.1000/abc", HashOption::SUFFIX, 1);
        check("10.1000/ABC", HashOption::WHOLE, 1);
        check("0.NA/10", HashOption::WHOLE, 0);
        check("10", HashOption::PREFIX, Handle::from("0.NA/x").server_index(HashOption::PREFIX, 3).unwrap());
        check(
            "abc",
            HashOption::SUFFIX,
            Handle::from("0.NA/ABC").server_index(HashOption::SUFFIX, 3).unwrap(),
        );
        for (short, qualified) in [("10", "0.NA/10"), ("abc", "0.NA/ABC"), ("10.1000", "0.NA/10.1000")] {
            for option in [HashOption::PREFIX, HashOption::SUFFIX, HashOption::WHOLE, HashOption(9)] {
                check(short, option, Handle::from(qualified).server_index(option, 3).unwrap());
            }
        }
    }

    #[track_caller]
    fn check(handle: &str, option: HashOption, server: usize) {
        assert_eq!(Handle::from(handle).server_index(option, 3), Some(server), "{handle}");
    }

    #[test]
    fn prefix_handles() {
        assert_eq!(Handle::from("0.NA/10.1000.2").parent_prefix_handle(), Some(&b"0.NA/10.1000"[..]));
        assert_eq!(Handle::from("0.NA/10").parent_prefix_handle(), None);
        assert_eq!(Handle::from("10.1000/a.b").parent_prefix_handle(), None);
        assert_eq!(Handle::from("0.NA/10").prefix_handle(), b"0.NA/0.NA");
        assert_eq!(Handle::from("10").qualified(), &b"0.NA/10"[..]);
    }

    #[test]
    fn identity_comparison() {
        let is_same = |a: &'static str, b: &'static str| Handle::from(a).eq_identity(Handle::from(b));
        assert!(is_same("0.NA/abc", "0.na/ABC"));
        assert!(is_same("abc/x", "ABC/x"));
        assert!(!is_same("abc/x", "abc/X"));
        assert!(!is_same("abc/", "abc"));
    }
}
