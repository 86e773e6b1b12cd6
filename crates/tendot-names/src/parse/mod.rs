//! Parsing of input forms.
//!
//! `parser` tries the fast path first. Other input is stripped of its wrappers (labels, schemes, proxy URLs),
//! percent-decoded once, and validated. Strict parsing accepts the forms defined by the standards; lenient parsing also
//! accepts common variations and reports each as an [`Adjustment`].

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
