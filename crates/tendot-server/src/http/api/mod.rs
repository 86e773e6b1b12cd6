//! The JSON interface of Handle.Net: a file for each noun, `body.rs` for what it says, and `form.rs` for how that is
//! described. `history.rs` is of our own interface, `/api/v1`, whose errors are problems (RFC 9457).

mod body;
mod form;
mod handles;
mod history;
mod site;

pub(crate) use body::{CHALLENGE, unknown};
pub(crate) use form::ValueForm;
pub(crate) use handles::describe as describe_handles;
pub(crate) use history::{date, describe as describe_history, number};
pub(crate) use site::describe as describe_site;
