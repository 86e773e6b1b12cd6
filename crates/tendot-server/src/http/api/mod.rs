//! The JSON interface of Handle.Net: a file for each noun, `body.rs` for what it says, and `form.rs` for how that is
//! described. `history.rs`, `metadata.rs`, `changes.rs` and `revision.rs` are of our own interface, `/api/v1`, whose errors are problems
//! (RFC 9457).

mod body;
mod changes;
mod form;
mod handles;
mod history;
mod list;
mod metadata;
mod prefixes;
mod revision;
mod sessions;
mod site;
mod verifications;

pub(crate) use body::unknown_endpoint;
pub(crate) use changes::describe as describe_changes;
pub(crate) use form::{ValueForm, in_file, parse_schemas};
pub(crate) use handles::describe as describe_handles;
pub(crate) use history::{describe as describe_history, format_millis, number};
pub(crate) use list::describe as describe_list;
pub(crate) use metadata::{MetadataSchema, describe as describe_metadata, describe_types};
pub(crate) use prefixes::{describe as describe_prefixes, describe_one as describe_prefix};
pub(crate) use revision::{WritePrecondition, json_with_revision};
pub(crate) use sessions::{describe as describe_sessions, describe_one as describe_session};
pub(crate) use site::describe as describe_site;
pub(crate) use verifications::describe as describe_verifications;
