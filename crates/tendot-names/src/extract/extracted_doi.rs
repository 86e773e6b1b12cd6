//! Extraction result and its flags.

use alloc::borrow::Cow;
use core::fmt;
use core::ops::Range;

use crate::Doi;

/// DOI found in text, with its byte range and flags.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ExtractedDoi<'t> {
    /// The name, decoded.
    pub name: Cow<'t, Doi>,
    /// The bytes of the text that hold it.
    pub span: Range<usize>,
    /// How it was found.
    pub flags: ExtractionFlags,
}

/// Property of an extracted DOI.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum ExtractionFlag {
    /// It stood in an address.
    InUrl,
    /// Percent-encoding, entities or escapes were decoded.
    Decoded,
    /// A publisher's tail or a glued note was cut off.
    TailCut,
    /// It may go on in the next line.
    MaybeTruncated,
    /// It was put together from more than one line.
    Joined,
}

impl ExtractionFlag {
    const ALL: [Self; 5] = [Self::InUrl, Self::Decoded, Self::TailCut, Self::MaybeTruncated, Self::Joined];

    /// The flag's stable name in kebab case.
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
    /// True when `flag` is among them.
    pub const fn contains(self, flag: ExtractionFlag) -> bool {
        self.0 & (1 << flag as u8) != 0
    }

    /// The flags, one by one.
    pub fn iter(self) -> impl Iterator<Item = ExtractionFlag> {
        ExtractionFlag::ALL.into_iter().filter(move |&flag| self.contains(flag))
    }

    pub(super) fn insert_if(&mut self, flag: ExtractionFlag, on: bool) {
        if on {
            self.0 |= 1 << flag as u8;
        }
    }
}

impl fmt::Debug for ExtractionFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}
