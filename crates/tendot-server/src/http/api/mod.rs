//! The JSON interface of Handle.Net: a file for each noun, and `body.rs` for what it says.

mod body;
mod handles;

pub(crate) use body::unknown;
