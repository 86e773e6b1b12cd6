//! Steps that every request passes.
//!
//! In reading order:
//!
//! - `pipeline.rs`: order of the steps below
//! - `client_address.rs`: client address behind trusted proxies
//! - `request_id.rs`: `X-Request-Id`
//! - `rate_limit.rs`: requests per client network, 429
//! - `response_cache.rs`: cached responses
//! - `change_guard.rs`: changes with a password from pages of other origins, 403
//! - `compression.rs`: gzip
//! - `metrics.rs`: request, connection and upstream metrics
//! - `access_log.rs`: one line per request

pub(crate) mod access_log;
pub(crate) mod change_guard;
pub(crate) mod client_address;
pub(crate) mod compression;
pub(crate) mod metrics;
pub(crate) mod pipeline;
pub(crate) mod rate_limit;
pub(crate) mod request_id;
pub(crate) mod response_cache;
