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
pub use http::{HttpUpstreamError, HttpUpstream, WAY};
pub use question::ResolveRequest;
pub use registry::{
    BatchResultStream, BatchOptions, RegistryClient, RegistryClientError, ProblemFault, RegistryProblem, RegistryReply,
};
pub use resolver::{CachedReply, LookupOutcome, UpstreamReply, Resolver, CacheStatus, Upstream};
