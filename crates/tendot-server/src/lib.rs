#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod crowd;
pub mod http;
pub mod native;
mod tally;
mod upkeep;

pub use tally::ResolutionCounter;
pub use upkeep::Maintenance;
