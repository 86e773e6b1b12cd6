//! Input checks without authorization.
//!
//! - `name`: handle names and text fields; `confusable`: look-alikes and mixed scripts, which
//!   `lookalike_search` finds in the store;
//! - `value`: handle values; `url`: `URL` values, with `hostname`; `link_field`: `Link` lines;
//!   `json_keys`: duplicate JSON keys.

mod confusable;
mod hostname;
mod json_keys;
mod link_field;
mod lookalike_search;
mod name;
mod url;
mod value;

pub(crate) use confusable::{has_mixed_scripts, lookalike_variants};
pub use confusable::{is_same_text, look_alike, uri_form};
pub(crate) use json_keys::UniqueKeys;
pub use link_field::link_targets;
pub(crate) use lookalike_search::LookalikePattern;
pub use name::is_invisible;
pub use name::looks_percent_encoded;
pub(crate) use name::{check_doi_syntax, check_handle_name, check_text, prefix_of};
pub use url::{UrlFault, is_blocked_scheme, url_host};
pub use value::{InvalidValue, ValueFault, key_warning};
pub(crate) use value::{
    UnreadableTargets, check_indexes, check_record, check_secret_changes, check_target_urls, check_targets,
    check_url_value, check_value, target_addresses,
};
