//! Change feed: `/api/v1/changes`.
//!
//! In reading order:
//!
//! - `endpoint.rs`: NDJSON and server-sent events
//! - `cursor.rs`: text form of a cursor
//! - `subscribers.rs`: shared log poller, subscriber limits
//! - `log_head.rs`: truncation of the log

mod cursor;
pub(crate) mod endpoint;
pub(crate) mod log_head;
pub(crate) mod subscribers;
