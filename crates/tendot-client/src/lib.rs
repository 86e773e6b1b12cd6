#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic))]

mod cache;
mod http;
pub mod native;
mod question;
mod registry;
mod resolver;

pub use cache::CacheSettings;
pub use http::{HttpUpstream, HttpUpstreamError, WAY};
pub use question::ResolveRequest;
pub use registry::{
    BatchOptions, BatchResultStream, ProblemFault, RegistryClient, RegistryClientError, RegistryProblem,
    RegistryReply,
};
pub use resolver::{CacheStatus, CachedReply, LookupOutcome, Resolver, Upstream, UpstreamReply};
