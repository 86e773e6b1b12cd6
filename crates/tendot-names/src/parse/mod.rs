//! Parsing of input forms.
//!
//! `parser` tries the fast path first; other input is stripped of its wrappers, percent-decoded once and validated.

mod parser;

mod fast_path;
mod strip;
mod urn;

mod adjustment;
mod input_form;
mod parsed;

pub use adjustment::{Adjustment, Adjustments};
pub use input_form::InputForm;
pub use parsed::{DoiOrShortDoi, ParsedName};
pub use parser::Parser;
