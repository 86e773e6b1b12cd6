//! Parse error: kind, byte offset, code.

use core::fmt;

/// Parse error: the kind and the byte offset in the input.
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
    offset: usize,
}

impl Error {
    pub(crate) const fn new(kind: ErrorKind, offset: usize) -> Self {
        Self { kind, offset }
    }

    /// Kind of the error.
    pub const fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Byte offset of the error in the input; the input's length if something is missing at the end.
    pub const fn offset(&self) -> usize {
        self.offset
    }

    /// Adds the offset of the checked part in a longer text.
    #[cfg(feature = "alloc")]
    pub(crate) const fn shifted_by(self, offset: usize) -> Self {
        Self { kind: self.kind, offset: self.offset + offset }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (at byte {})", self.kind.message(), self.offset)
    }
}

impl core::error::Error for Error {}

/// Kind of parse error, with a stable code.
///
/// The order of the checks is fixed, so every parser reports the same error for the same input: encoding, then
/// characters from left to right, then prefix and suffix in the order of the variants [`Empty`](Self::Empty) to
/// [`ReservedSuffix`](Self::ReservedSuffix).
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Invalid UTF-8, before or after percent-decoding (Z39.84 appendix A requires UTF-8).
    InvalidUtf8,
    /// Control character (excluded by Z39.84 section 4.1).
    ControlCharacter,
    /// Invisible format character, line separator or paragraph separator: not of Unicode's basic type Graphic.
    FormatCharacter,
    /// Private-use code point: not of type Graphic.
    PrivateUseCharacter,
    /// Unassigned code point or noncharacter.
    UnassignedCharacter,
    /// Empty input.
    Empty,
    /// No `/` between prefix and suffix.
    MissingSlash,
    /// Empty prefix: nothing before the first `/`.
    EmptyPrefix,
    /// Empty suffix: nothing after the first `/`.
    EmptySuffix,
    /// The prefix does not start with the directory indicator `10` (Z39.84 section 4.2).
    BadDirectoryIndicator,
    /// The prefix has no registrant code (Z39.84 section 4.2 requires one).
    MissingRegistrant,
    /// The registrant code is not groups of digits separated by dots.
    BadRegistrant,
    /// The suffix starts with one character and a slash (reserved by Z39.84 section 4.3).
    ReservedSuffix,
    /// URL or URN that is not an input form of a DOI.
    UnknownForm,
    /// Invalid URN (RFC 8141).
    BadUrn,
    /// `%` that is not followed by two hexadecimal digits.
    BadPercentEncoding,
    /// Longer than the limit set by the caller.
    TooLong,
}

impl ErrorKind {
    /// Stable code in kebab case, as printed by `tendot name --json`.
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
            Self::InvalidUtf8 => "invalid UTF-8",
            Self::ControlCharacter => "control characters are not allowed in a DOI",
            Self::FormatCharacter => "invisible format characters are not allowed in a DOI",
            Self::PrivateUseCharacter => "private-use characters are not allowed in a DOI",
            Self::UnassignedCharacter => "unassigned Unicode code points are not allowed in a DOI",
            Self::Empty => "empty input",
            Self::MissingSlash => "missing `/` between prefix and suffix",
            Self::EmptyPrefix => "missing prefix before `/`, such as `10.1000`",
            Self::EmptySuffix => "missing suffix after `/`",
            Self::BadDirectoryIndicator => "invalid prefix: must start with `10.`",
            Self::MissingRegistrant => "missing registrant code after `10.`",
            Self::BadRegistrant => "invalid registrant code: expected digits, in groups separated by dots",
            Self::ReservedSuffix => "reserved suffix: starts with one character and `/` (Z39.84 section 4.3)",
            Self::UnknownForm => "unsupported URL or URN: not a known form of a DOI",
            Self::BadUrn => "invalid URN (RFC 8141)",
            Self::BadPercentEncoding => {
                "invalid percent-encoding: `%` must be followed by two hexadecimal digits"
            }
            Self::TooLong => "input is too long",
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}
