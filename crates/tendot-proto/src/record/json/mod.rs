//! The JSON form of records, as the REST interface of Handle.Net writes and reads it.
//!
//! - `write`: values and records to JSON, by serde and without anything in between;
//! - `read`: JSON to values and records, lenient where the deployed software is; `plain`: the same for the form that we
//!   write, faster;
//! - `node`: a piece of JSON that knows where it stands, for errors that tell;
//! - `admin`, `site`, `key`: the data that has a form of its own; `date`: dates.
//!
//! Data that was not decoded, and data that its own form could not give back byte for byte, is shown as base64. The
//! deployed software shows the latter in its own form, and loses what the form has no place for.

mod admin;
mod date;
pub(super) mod key;
mod node;
mod plain;
mod read;
mod site;
mod write;

pub use key::Jwk;
pub use node::JsonError;
pub(crate) use node::JsonNode;
pub(crate) use read::parse_record as read_record;
pub use read::values_from_json;
