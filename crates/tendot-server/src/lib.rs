#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic))]

/// Counts allocations in unit tests.
#[cfg(test)]
#[global_allocator]
static ALLOCATOR: tendot_testing::CountingAllocator = tendot_testing::CountingAllocator;

mod authenticated_key;
mod authentication_failures;
mod client_network;
mod clock;
mod connection;
mod file_stamp;
mod gcra;
mod guess_throttle;
pub mod http;
mod maintenance;
mod metrics;
pub mod native;
mod random;
mod resolution_stats;
mod response_cache;
mod session_info;

pub use maintenance::{Maintenance, SignatureExpiry};
pub use resolution_stats::ResolutionCounter;
