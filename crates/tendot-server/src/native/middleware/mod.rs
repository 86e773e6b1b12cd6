//! Admission control, rate limits, response cache and metrics of native messages.

pub(crate) mod admission;
pub(crate) mod metrics;
pub(crate) mod rate_limit;
pub(crate) mod response_cache;
