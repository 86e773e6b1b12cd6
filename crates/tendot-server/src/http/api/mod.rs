//! The JSON interface of Handle.Net: a file for each noun, and `body.rs` for what it says.

mod body;
mod handles;
mod site;

pub(crate) use body::unknown;
