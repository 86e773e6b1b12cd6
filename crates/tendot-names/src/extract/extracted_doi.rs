//! Extraction result and its flags.

use alloc::borrow::Cow;
use core::ops::Range;

use crate::Doi;
use crate::flag_set::flag_set;

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

flag_set! {
    /// Property of an extracted DOI.
    enum ExtractionFlag;
    /// Set of [`ExtractionFlag`]s.
    struct ExtractionFlags(u8);
    /// Found in a URL.
    InUrl = "in-url",
    /// Percent-encoding, entities or escapes were decoded.
    Decoded = "decoded",
    /// A publisher tail or annotation was trimmed.
    TailCut = "tail-cut",
    /// May continue on the next line.
    MaybeTruncated = "maybe-truncated",
    /// Joined from several lines.
    Joined = "joined",
}
