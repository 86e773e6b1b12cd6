//! Change feed: `/api/v1/changes`.
//!
//! In reading order:
//!
//! - `endpoint.rs`: NDJSON and server-sent events
//! - `cursor.rs`: text form of a cursor
//! - `subscribers.rs`: shared log poller, subscriber limits

mod cursor;
pub(crate) mod endpoint;
pub(crate) mod subscribers;
