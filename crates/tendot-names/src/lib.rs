#![doc = include_str!("../README.md")]
#![no_std]
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic))]

#[cfg(feature = "alloc")]
extern crate alloc;
#[cfg(test)]
extern crate std;

mod doi;
mod error;
mod syntax;

#[cfg(feature = "alloc")]
mod parse;

mod format;
mod percent;

#[cfg(feature = "alloc")]
mod ascii_case;
#[cfg(feature = "alloc")]
mod flag_set;

#[cfg(feature = "alloc")]
mod extract;
#[cfg(feature = "alloc")]
mod repair;

#[cfg(feature = "serde")]
pub mod serde;
// Documentation only; its examples run as doc tests.
#[cfg(all(any(doc, doctest), feature = "alloc"))]
pub mod standards;

pub use doi::Doi;
pub use error::{Error, ErrorKind};
pub use format::{FormDisplay, OutputForm};
pub use syntax::{SyntaxRules, UNICODE_VERSION};

#[cfg(feature = "alloc")]
pub use doi::{DoiBuf, ShortDoi};
#[cfg(feature = "alloc")]
pub use extract::{
    ExtractStep, ExtractedDoi, ExtractionFlag, ExtractionFlags, Extractor, IncrementalExtractor, find_iter,
};
#[cfg(feature = "alloc")]
pub use parse::{
    Adjustment, Adjustments, DoiOrShortDoi, InputForm, ParsedHandle, ParsedName, Parser, parse_handle,
    strip_handle_form,
};
#[cfg(feature = "alloc")]
pub use repair::{RepairedDoi, repair};
