#![doc = include_str!("../README.md")]
#![no_std]
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic))]

#[cfg(feature = "alloc")]
extern crate alloc;
#[cfg(test)]
extern crate std;

mod cast;
mod character;
mod error;
mod escape;
mod form;
mod name;
mod rules;
mod unicode_table;

#[cfg(feature = "alloc")]
mod doi;
#[cfg(feature = "alloc")]
mod extract;
#[cfg(feature = "alloc")]
mod fold;
#[cfg(feature = "alloc")]
mod notes;
#[cfg(feature = "alloc")]
mod peel;
#[cfg(feature = "alloc")]
mod read;
#[cfg(feature = "alloc")]
mod repair;
#[cfg(feature = "serde")]
pub mod serde;
#[cfg(feature = "alloc")]
mod short;
// Documentation only, and run as tests.
#[cfg(all(any(doc, doctest), feature = "alloc"))]
pub mod standards;

pub use error::{Error, ErrorKind};
pub use form::{FormDisplay, OutputForm};
pub use name::Doi;
pub use rules::SyntaxRules;
pub use unicode_table::UNICODE_VERSION;

#[cfg(feature = "alloc")]
pub use doi::DoiBuf;
#[cfg(feature = "alloc")]
pub use extract::{
    ExtractStep, ExtractedDoi, ExtractionFlag, ExtractionFlags, Extractor, IncrementalExtractor, find_iter,
};
#[cfg(feature = "alloc")]
pub use notes::{Adjustment, Adjustments};
#[cfg(feature = "alloc")]
pub use read::{DoiOrShortDoi, InputForm, ParsedName, Parser};
#[cfg(feature = "alloc")]
pub use repair::{RepairedDoi, repair};
#[cfg(feature = "alloc")]
pub use short::ShortDoi;
