//! Parsing of requests: paths, queries, headers and bodies.

pub(crate) mod accept;
pub(crate) mod body;
pub(crate) mod body_lines;
pub(crate) mod conditional;
pub(crate) mod name_path;
pub(crate) mod percent;
pub(crate) mod query;
pub(crate) mod request_head;
