//! Replies: headers, status codes, caching and streamed bodies.

pub(crate) mod caching;
pub(crate) mod reply;
pub(crate) mod spool;
pub(crate) mod status;
pub(crate) mod stream;
