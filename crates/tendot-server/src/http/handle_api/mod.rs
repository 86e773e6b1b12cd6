//! Handle.Net's JSON API, `/api/…`: one file per resource, `reply_body.rs` for its bodies, `schemas.rs` for their schemas, and
//! `tunnel.rs` for messages of the native protocol inside HTTP.

mod handle_list;
mod handles;
mod prefixes;
mod reply_body;
mod schemas;
mod sessions;
mod site;
pub(crate) mod tunnel;
mod verifications;

pub(crate) use handle_list::describe as describe_list;
pub(crate) use handles::describe as describe_handles;
pub(crate) use prefixes::{describe as describe_prefixes, describe_one as describe_prefix};
pub(crate) use reply_body::unknown_endpoint;
pub(crate) use schemas::{ValueForm, in_file, parse_schemas};
pub(crate) use sessions::{describe as describe_sessions, describe_one as describe_session};
pub(crate) use site::describe as describe_site;
pub(crate) use verifications::describe as describe_verifications;
