//! Why a text is not a DOI name, and where.

use core::fmt;

/// Why a text could not be read as a DOI name: what is wrong and at which byte of the input.
///
/// ```
/// use tendot_names::{ErrorKind, Doi};
///
/// let error = Doi::new("10.10O0/123456").unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::BadRegistrant);
/// assert_eq!(error.offset(), 5);
/// assert_eq!(error.kind().code(), "bad-registrant");
/// ```
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Error {
    kind: ErrorKind,
    at: usize,
}

impl Error {
    pub(crate) const fn new(kind: ErrorKind, at: usize) -> Self {
        Self { kind, at }
    }

    /// What is wrong.
    pub const fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Byte offset of the error in the input; the input's length if something is missing at the end.
    pub const fn offset(&self) -> usize {
        self.at
    }

    /// Adds the offset of the checked part in a longer text.
    #[cfg(feature = "alloc")]
    pub(crate) const fn shifted_by(self, offset: usize) -> Self {
        Self { kind: self.kind, at: self.at + offset }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (at byte {})", self.kind.message(), self.at)
    }
}

impl core::error::Error for Error {}

/// Kind of parse error, with a stable code.
///
/// The order of the checks is fixed, so every parser reports the same error for the same input: …
///
/// The order of the checks is fixed, so that every reader of the same text finds the same fault: encoding,
/// then characters from left to right, then the parts of the name in the order of the variants
/// [`Empty`](Self::Empty) to [`ReservedSuffix`](Self::ReservedSuffix).
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The bytes, or what percent-encoding stands for, are not UTF-8 (Z39.84 appendix A mandates it).
    InvalidUtf8,
    /// A control character (Z39.84 section 4.1 excludes them).
    ControlCharacter,
    /// An invisible format character or a line or paragraph separator: not of Unicode's type Graphic.
    FormatCharacter,
    /// A private-use code point: not of type Graphic.
    PrivateUseCharacter,
    /// A code point that Unicode has not assigned, or never will.
    UnassignedCharacter,
    /// There is nothing to read.
    Empty,
    /// No `/` between prefix and suffix.
    MissingSlash,
    /// Nothing before the first `/`.
    EmptyPrefix,
    /// Nothing after the first `/`.
    EmptySuffix,
    /// The prefix does not begin with the directory indicator `10` (Z39.84 section 4.2).
    BadDirectoryIndicator,
    /// The prefix has no registrant code (Z39.84 section 4.2 requires one).
    MissingRegistrant,
    /// The registrant code is not made of groups of digits.
    BadRegistrant,
    /// The suffix begins with one character and a slash, which Z39.84 section 4.3 reserves.
    ReservedSuffix,
    /// A URL or URN that is not one of the written forms of DOI names.
    UnknownForm,
    /// Not a URN by RFC 8141.
    BadUrn,
    /// A `%` that does not begin a percent-encoded byte.
    BadPercentEncoding,
    /// Longer than the limit that the caller set.
    TooLong,
}

impl ErrorKind {
    /// The kind's stable name in kebab case, as `tendot name --json` prints it.
    pub const fn code(self) -> &'static str {
        match self {
            Self::InvalidUtf8 => "invalid-utf8",
            Self::ControlCharacter => "control-character",
            Self::FormatCharacter => "format-character",
            Self::PrivateUseCharacter => "private-use-character",
            Self::UnassignedCharacter => "unassigned-character",
            Self::Empty => "empty",
            Self::MissingSlash => "missing-slash",
            Self::EmptyPrefix => "empty-prefix",
            Self::EmptySuffix => "empty-suffix",
            Self::BadDirectoryIndicator => "bad-directory-indicator",
            Self::MissingRegistrant => "missing-registrant",
            Self::BadRegistrant => "bad-registrant",
            Self::ReservedSuffix => "reserved-suffix",
            Self::UnknownForm => "unknown-form",
            Self::BadUrn => "bad-urn",
            Self::BadPercentEncoding => "bad-percent-encoding",
            Self::TooLong => "too-long",
        }
    }

    /// Error message without a final full stop.
    pub const fn message(self) -> &'static str {
        match self {
            Self::InvalidUtf8 => "the text is not UTF-8",
            Self::ControlCharacter => "a control character can't be part of a DOI name",
            Self::FormatCharacter => "an invisible format character can't be part of a DOI name",
            Self::PrivateUseCharacter => "a private-use character can't be part of a DOI name",
            Self::UnassignedCharacter => {
                "a character that Unicode has not assigned can't be part of a DOI name"
            }
            Self::Empty => "there is no name here",
            Self::MissingSlash => "a DOI name has a slash between prefix and suffix, and there is none",
            Self::EmptyPrefix => "nothing stands before the slash; a prefix such as `10.1000` belongs there",
            Self::EmptySuffix => "nothing stands after the slash; the suffix is missing",
            Self::BadDirectoryIndicator => "a DOI name begins with `10.`",
            Self::MissingRegistrant => "the registrant code after `10.` is missing",
            Self::BadRegistrant => {
                "the registrant code after `10.` is made of digits, in groups separated by dots"
            }
            Self::ReservedSuffix => {
                "a suffix that begins with one character and a slash is reserved by Z39.84"
            }
            Self::UnknownForm => "this address is not one of the written forms of a DOI name",
            Self::BadUrn => "this is not a URN as RFC 8141 defines them",
            Self::BadPercentEncoding => "a percent sign is not followed by two hexadecimal digits",
            Self::TooLong => "the name is longer than allowed here",
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}
