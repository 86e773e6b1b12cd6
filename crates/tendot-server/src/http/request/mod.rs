//! Parsing of requests: paths, queries, headers and bodies.
//!
//! In reading order:
//!
//! - `request_head.rs`: query, headers and client facts
//! - `percent.rs`: percent-decoding, syntax error with position
//! - `encoding.rs`: UTF-8 in path, query and headers
//! - `name_path.rs`: names in paths
//! - `query.rs`: query parameters
//! - `accept.rs`: content negotiation
//! - `conditional.rs`: `If-Match`, `If-None-Match`, revision ETags
//! - `body.rs`: bounded request body
//! - `body_budget.rs`: memory of all bodies, per client and reserved for authenticated callers
//! - `body_lines.rs`: lines of a streaming body

pub(crate) mod accept;
pub(crate) mod body;
pub(crate) mod body_budget;
pub(crate) mod body_lines;
pub(crate) mod conditional;
pub(crate) mod encoding;
pub(crate) mod name_path;
pub(crate) mod percent;
pub(crate) mod query;
pub(crate) mod request_head;
