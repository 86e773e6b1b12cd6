//! JSON form of records, compatible with Handle.Net's REST API.
//!
//! - `node`: JSON value with its path, for error messages;
//! - `deserialize`: lenient parsing through a tree, as lenient as Handle.Net; `canonical`: fast path for the form that
//!   this crate writes;
//! - `serialize`: values and records to JSON by serde, without an intermediate tree;
//! - `admin`, `site`, `jwk`: value types with a JSON form of their own; `date`: dates.
//!
//! Data that cannot be decoded is written as base64. So is data that its JSON form could not reproduce byte for byte;
//! Handle.Net writes that in its JSON form and loses the difference.

mod admin;
mod canonical;
mod date;
mod deserialize;
pub(super) mod jwk;
mod node;
mod serialize;
mod site;

pub(crate) use deserialize::parse_record;
pub use deserialize::values_from_json;
pub use jwk::Jwk;
pub use node::JsonError;
pub(crate) use node::JsonNode;
