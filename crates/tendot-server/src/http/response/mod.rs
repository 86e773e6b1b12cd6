//! Replies: headers, status codes, caching and streamed bodies.
//!
//! In reading order:
//!
//! - `reply.rs`: reply, media types, common headers
//! - `codes.rs`: table of error codes
//! - `problem.rs`: problem details (RFC 9457)
//! - `errors.rs`: problems: every error to its status, code and title
//! - `caching.rs`: `Cache-Control`, `ETag`, 304
//! - `stream.rs`: bodies made while they are sent
//! - `spool.rs`: spooled bodies on disk

pub(crate) mod caching;
pub(crate) mod codes;
pub(crate) mod errors;
pub(crate) mod problem;
pub(crate) mod reply;
pub(crate) mod spool;
pub(crate) mod stream;
