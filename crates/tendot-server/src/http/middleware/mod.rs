//! Steps that every request passes.

pub(crate) mod access_log;
pub(crate) mod client_address;
pub(crate) mod compression;
pub(crate) mod metrics;
pub(crate) mod rate_limit;
pub(crate) mod request_id;
pub(crate) mod response_cache;
