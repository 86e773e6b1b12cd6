//! DOI types: `borrowed`, `owned`, and the shortDOI (`short`).
//!
//! A value of these types is always valid; comparisons ignore ASCII case.

mod borrowed;
#[cfg(feature = "alloc")]
mod owned;
#[cfg(feature = "alloc")]
mod short;

pub use borrowed::Doi;
#[cfg(feature = "alloc")]
pub use owned::DoiBuf;
#[cfg(feature = "alloc")]
pub use short::ShortDoi;
