//! What is taken.
//!
//! - `name`: new names; `value`: the values of a deposit; `url`: what stands in a `URL`, with `host`;
//! - `script`: letters that look like others;
//! - `import`: the same for records that come from elsewhere and have been resolved for years.

mod host;
mod import;
mod name;
mod script;
mod url;
mod value;

pub use import::check_import;
pub use name::is_invisible;
pub(crate) use name::{check_handle_name, normalization_variants};
pub(crate) use script::has_mixed_scripts;
pub use url::UrlFault;
pub use value::{InvalidValue, ValueFault};
pub(crate) use value::{check_indexes, check_record, check_url_value, check_value};
