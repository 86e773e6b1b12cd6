//! Handles: what they are made of, when two are the same, and which server keeps one.

use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::fmt;

use md5::{Digest as _, Md5};

use crate::limits;
use crate::record::HashOption;

/// Handle as raw bytes: prefix, first `/`, suffix (RFC 3651, 2). Not validated.
///
/// A handle is a prefix, the first `/`, and a suffix (RFC 3651, 2). Without a slash it is taken for a prefix.
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
    /// The root of the Handle System: who serves prefixes.
    pub const ROOT: Self = Self(b"0.NA/0.NA");

    /// What stands in requests that are about no handle.
    pub const BLANK: Self = Self(b"/");

    /// Takes bytes as they are.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The bytes.
    pub const fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// The handle as text, if it is UTF-8.
    pub fn to_str(self) -> Result<&'a str, core::str::Utf8Error> {
        core::str::from_utf8(self.0)
    }

    /// Why a record may not be created under this name, if it may not: it is empty, too long, not UTF-8, or has no
    /// slash or no prefix.
    ///
    /// The deployed software lets more pass (octet sequences that look like UTF-8, a name without a prefix); for
    /// resolution nothing of this matters, since such a name is just not found.
    ///
    /// ```
    /// use tendot_proto::{Handle, HandleError};
    ///
    /// assert_eq!(Handle::from("10.1000/182").validate_for_create(), Ok(()));
    /// assert_eq!(Handle::from("10.1000").validate_for_create(), Err(HandleError::NoSlash));
    /// assert_eq!(Handle::new(b"10.1000/\xc0\xaf").validate_for_create(), Err(HandleError::NotUtf8 { at: 8 }));
    /// ```
    pub fn validate_for_create(self) -> Result<(), HandleError> {
        self.validate()?;
        match self.slash_offset() {
            None if self.0.is_empty() => Err(HandleError::Empty),
            None => Err(HandleError::NoSlash),
            Some(0) => Err(HandleError::NoPrefix),
            Some(_) => Ok(()),
        }
    }

    /// Why no record can have this name, if none can: it is too long or not UTF-8.
    pub fn validate(self) -> Result<(), HandleError> {
        if self.0.len() > limits::MAX_HANDLE_LEN {
            return Err(HandleError::TooLong { length: self.0.len() });
        }
        match self.to_str() {
            Ok(_) => Ok(()),
            Err(error) => Err(HandleError::NotUtf8 { at: error.valid_up_to() }),
        }
    }

    /// What stands before the first slash, or all of it.
    pub fn prefix(self) -> &'a [u8] {
        self.slash_offset().map_or(self.0, |slash| self.0.get(..slash).unwrap_or_default())
    }

    /// What stands after the first slash, if there is one.
    pub fn suffix(self) -> Option<&'a [u8]> {
        self.slash_offset().and_then(|slash| self.0.get(slash + 1..))
    }

    fn slash_offset(self) -> Option<usize> {
        self.0.iter().position(|byte| *byte == b'/')
    }

    /// The name under which the record is kept: ASCII letters in upper case, nothing else changed.
    pub fn canonical(self) -> Cow<'a, [u8]> {
        if self.0.iter().any(u8::is_ascii_lowercase) {
            Cow::Owned(self.0.to_ascii_uppercase())
        } else {
            Cow::Borrowed(self.0)
        }
    }

    /// The record that says who serves names with this prefix: `0.NA/10.1000` for `10.1000/1`, and `0.NA/0.NA` for
    /// `0.NA/10.1000`.
    pub fn prefix_handle(self) -> Vec<u8> {
        let mut handle = b"0.NA/".to_vec();
        match self.suffix() {
            Some(_) => handle.extend(self.prefix().iter().map(u8::to_ascii_uppercase)),
            None => handle.extend_from_slice(b"0.NA"),
        }
        handle
    }

    /// `0.NA/10` for a name without a slash, such as `10`; any other name as it is.
    pub fn qualified(self) -> Cow<'a, [u8]> {
        if self.slash_offset().is_some() {
            return Cow::Borrowed(self.0);
        }
        let mut handle = b"0.NA/".to_vec();
        handle.extend(self.0.iter().map(u8::to_ascii_uppercase));
        Cow::Owned(handle)
    }

    /// For a prefix handle the one it is derived from: `0.NA/10.1000` for `0.NA/10.1000.2`, none for `0.NA/10`.
    pub fn parent_prefix_handle(self) -> Option<&'a [u8]> {
        let suffix = self.suffix().filter(|_| self.is_prefix_handle())?;
        let dot = suffix.iter().rposition(|byte| *byte == b'.')?;
        self.0.get(..self.0.len() - suffix.len() + dot)
    }

    /// Whether this is the name of a prefix's record: `0.NA/…`.
    pub fn is_prefix_handle(self) -> bool {
        self.0.split_at_checked(5).is_some_and(|(start, _)| start.eq_ignore_ascii_case(b"0.NA/"))
    }

    /// Whether the root services keep this name: it begins with `0.` or `0/`, or has no slash.
    pub fn is_global(self) -> bool {
        self.0.starts_with(b"0.") || self.0.starts_with(b"0/") || self.slash_offset().is_none()
    }

    /// Whether both name the same identity: ASCII case does not matter in the prefix, nor anywhere in `0.…`.
    pub fn eq_identity(self, other: Handle<'_>) -> bool {
        self.prefix().eq_ignore_ascii_case(other.prefix())
            && match (self.suffix(), other.suffix()) {
                (Some(one), Some(two)) if self.0.starts_with(b"0.") => one.eq_ignore_ascii_case(two),
                (one, two) => one == two,
            }
    }

    /// Whether both name the same record, which is so without regard to ASCII case.
    pub fn eq_ignore_case(self, other: Handle<'_>) -> bool {
        self.0.eq_ignore_ascii_case(other.0)
    }

    /// Which of `servers` keeps the record: the last four bytes of the MD5 of the part that the site hashes, as a
    /// signed number without its sign, modulo the number of servers (RFC 3652, 3.1.3). None of none.
    ///
    /// ```
    /// use tendot_proto::{Handle, record::HashOption};
    ///
    /// let name = Handle::from("10.1000/abc");
    /// assert_eq!(name.server_index(HashOption::WHOLE, 3), Some(1));
    /// assert_eq!(name.server_index(HashOption::WHOLE, 0), None);
    /// ```
    pub fn server_index(self, option: HashOption, servers: usize) -> Option<usize> {
        if servers < 2 {
            return (servers == 1).then_some(0);
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
            _ => fold(self.0),
        }
        let digest: [u8; 16] = hash.finalize().into();
        let last = digest.last_chunk::<4>().copied().unwrap_or_default();
        // The deployed software overflows at -2^31; the honest size of that number is taken here.
        Some(i32::from_be_bytes(last).unsigned_abs() as usize % servers)
    }
}

impl<'a> From<&'a str> for Handle<'a> {
    fn from(text: &'a str) -> Self {
        Self(text.as_bytes())
    }
}

/// As text; what is not UTF-8 is replaced.
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
    /// There is no name.
    #[error("the handle is empty")]
    Empty,
    /// The name has more than [`limits::MAX_HANDLE_LEN`] bytes.
    #[error("the handle has {length} bytes, at most {max} are allowed", max = limits::MAX_HANDLE_LEN)]
    TooLong {
        /// How many it has.
        length: usize,
    },
    /// The name is not UTF-8.
    #[error("the handle is not UTF-8 from byte {at} on")]
    NotUtf8 {
        /// The first byte that is not.
        at: usize,
    },
    /// The name has no slash.
    #[error("the handle has no `/` between prefix and suffix")]
    NoSlash,
    /// The name begins with a slash.
    #[error("the handle has nothing before its `/`")]
    NoPrefix,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of the digest, made with the deployed software.
    #[test]
    fn servers() {
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
    }

    #[track_caller]
    fn check(handle: &str, option: HashOption, server: usize) {
        assert_eq!(Handle::from(handle).server_index(option, 3), Some(server), "{handle}");
    }

    #[test]
    fn parents() {
        assert_eq!(Handle::from("0.NA/10.1000.2").parent_prefix_handle(), Some(&b"0.NA/10.1000"[..]));
        assert_eq!(Handle::from("0.NA/10").parent_prefix_handle(), None);
        assert_eq!(Handle::from("10.1000/a.b").parent_prefix_handle(), None);
        assert_eq!(Handle::from("0.NA/10").prefix_handle(), b"0.NA/0.NA");
        assert_eq!(Handle::from("10").qualified(), &b"0.NA/10"[..]);
    }

    #[test]
    fn identities() {
        let same = |one: &'static str, two: &'static str| Handle::from(one).eq_identity(Handle::from(two));
        assert!(same("0.NA/abc", "0.na/ABC"));
        assert!(same("abc/x", "ABC/x"));
        assert!(!same("abc/x", "abc/X"));
        assert!(!same("abc/", "abc"));
    }
}
