// The README's example needs all features.
#![cfg_attr(all(feature = "http", feature = "native"), doc = include_str!("../README.md"))]
#![cfg_attr(
    not(all(feature = "http", feature = "native")),
    doc = "Caching resolver and clients of the Handle System."
)]
#![forbid(unsafe_code)]
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic))]

mod cache;
mod cdn_loop;
mod resolver;
mod signed_record;
mod upstream;

#[cfg(feature = "http")]
mod certificate_trust;
#[cfg(all(feature = "http", feature = "native"))]
mod handle_api;
#[cfg(feature = "http")]
mod http_client;
#[cfg(feature = "http")]
mod http_upstream;
#[cfg(feature = "http")]
mod registry;

#[cfg(feature = "native")]
pub mod native;

pub use cache::CacheSettings;
pub use cdn_loop::{CDN_LOOP_ID_PREFIX, CdnLoop};
pub use resolver::{CacheStatus, CachedReply, Resolver};
pub use signed_record::{SignedRecordError, verify_signed_record};
pub use upstream::{LookupOutcome, ResolveRequest, Upstream, UpstreamReply};

#[cfg(feature = "http")]
pub use cdn_loop::CDN_LOOP;
#[cfg(all(feature = "http", feature = "native"))]
pub use handle_api::{HandleApiClient, HandleApiCredentials, HandleApiError, ServerTrust};
#[cfg(feature = "http")]
pub use http_upstream::{HttpUpstream, HttpUpstreamError};
#[cfg(feature = "http")]
pub use registry::{
    BatchOptions, BatchResultStream, ProblemFault, RegistryClient, RegistryClientError, RegistryProblem,
    RegistryReply,
};

/// Crate with the records, messages and lookup settings in the signatures of this crate.
pub use tendot_proto as proto;

/// Types of the crates `bytes` and `http` in the signatures of this crate.
#[cfg(feature = "http")]
pub use {bytes::Bytes, http::HeaderName, http::StatusCode};
