//! Extraction result and its flags.

use alloc::borrow::Cow;
use core::fmt;
use core::ops::Range;

use crate::Doi;

/// DOI found in text, with its byte range and flags.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ExtractedDoi<'t> {
    /// The decoded DOI.
    pub doi: Cow<'t, Doi>,
    /// Byte range in the text.
    pub span: Range<usize>,
    /// Properties of the DOI.
    pub flags: ExtractionFlags,
}

/// Property of an extracted DOI.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum ExtractionFlag {
    /// Found in a URL.
    InUrl,
    /// Percent-encoding, entities or escapes were decoded.
    Decoded,
    /// A publisher tail or annotation was trimmed.
    TailCut,
    /// May continue on the next line.
    MaybeTruncated,
    /// Joined from several lines.
    Joined,
}

impl ExtractionFlag {
    const ALL: [Self; 5] = [Self::InUrl, Self::Decoded, Self::TailCut, Self::MaybeTruncated, Self::Joined];

    /// Stable code in kebab case.
    pub const fn code(self) -> &'static str {
        match self {
            Self::InUrl => "in-url",
            Self::Decoded => "decoded",
            Self::TailCut => "tail-cut",
            Self::MaybeTruncated => "maybe-truncated",
            Self::Joined => "joined",
        }
    }
}

/// Set of [`ExtractionFlag`]s.
#[derive(Clone, Copy, Default, Eq, Hash, PartialEq)]
pub struct ExtractionFlags(u8);

impl ExtractionFlags {
    /// Whether the set contains `flag`.
    pub const fn contains(self, flag: ExtractionFlag) -> bool {
        self.0 & (1 << flag as u8) != 0
    }

    /// Iterates over the flags.
    pub fn iter(self) -> impl Iterator<Item = ExtractionFlag> {
        ExtractionFlag::ALL.into_iter().filter(move |&flag| self.contains(flag))
    }

    /// Adds `flag` if `condition` is true; never removes it.
    pub(super) fn insert_if(&mut self, flag: ExtractionFlag, condition: bool) {
        if condition {
            self.0 |= 1 << flag as u8;
        }
    }
}

impl fmt::Debug for ExtractionFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}
