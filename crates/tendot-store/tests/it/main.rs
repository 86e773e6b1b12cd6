//! Integration tests of the stores, one module per topic.

#![allow(clippy::print_stdout, reason = "the seed of a failed test is shown")]

#[cfg(target_os = "linux")]
mod corruption;
#[cfg(target_os = "linux")]
mod damage;
mod embedded;
#[cfg(feature = "fail-points")]
mod fail_points;
mod import;
mod linearizability;
mod migration;
#[cfg(all(feature = "postgres", feature = "test-suite"))]
mod postgres;
mod process_kill;
