#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic))]

mod cache;
mod cdn_loop;
mod http_client;
mod http_upstream;
pub mod native;
mod registry;
mod resolver;
mod upstream;

pub use cache::CacheSettings;
pub use cdn_loop::{CDN_LOOP, CDN_LOOP_ID_PREFIX};
pub use http_upstream::{HttpUpstream, HttpUpstreamError};
pub use registry::{
    BatchOptions, BatchResultStream, ProblemFault, RegistryClient, RegistryClientError, RegistryProblem,
    RegistryReply,
};
pub use resolver::{CacheStatus, CachedReply, Resolver};
pub use upstream::{LookupOutcome, ResolveRequest, Upstream, UpstreamReply};
