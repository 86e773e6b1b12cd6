//! Change feed: `/api/v1/changes`.
//!
//! In reading order:
//!
//! - `endpoint.rs`: NDJSON and server-sent events
//! - `cursor.rs`: text form of a cursor
//! - `subscribers.rs`: shared log poller
//! - `subscriber_limit.rs`: limits per client and caller

mod cursor;
pub(crate) mod endpoint;
mod subscriber_limit;
pub(crate) mod subscribers;
