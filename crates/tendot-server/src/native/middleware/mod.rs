//! Steps that every native message passes.
//!
//! In reading order:
//!
//! - `admission.rs`: CPU fairness: inline, async or thread
//! - `amplification.rs`: UDP responses to unverified addresses
//! - `rate_limit.rs`: datagrams and CPU time per network
//! - `response_cache.rs`: cached responses
//! - `metrics.rs`: message metrics

pub(crate) mod admission;
pub(crate) mod amplification;
pub(crate) mod metrics;
pub(crate) mod rate_limit;
pub(crate) mod response_cache;
