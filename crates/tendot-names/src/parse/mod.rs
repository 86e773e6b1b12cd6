//! Parsing of input forms.
//!
//! `parser` tries the fast path first. Other input is stripped of its wrappers (labels, schemes, proxy URLs),
//! percent-decoded once, and validated. Strict parsing accepts the forms defined by the standards; lenient parsing also
//! accepts common variations and reports each as an [`Adjustment`].
//!
//! In reading order:
//!
//! - `parser`: strict and lenient parser
//! - `fast_path`: plain ASCII input
//! - `strip`: labels, schemes and proxy URLs before a DOI, queries and fragments after it
//! - `urn`: syntax checks of URNs (RFC 8141)
//! - `parsed`: result, with its `input_form` and each `adjustment`
//! - `handle`: handles of any prefix in a written form

mod parser;

mod fast_path;
mod handle;
mod strip;
mod urn;

mod adjustment;
mod input_form;
mod parsed;

pub use adjustment::{Adjustment, Adjustments};
pub use handle::{ParsedHandle, parse_handle, strip_handle_form};
pub use input_form::InputForm;
pub use parsed::{DoiOrShortDoi, ParsedName};
pub use parser::Parser;
pub(crate) use strip::PROXY_HOSTS;
