//! Integration tests of the stores, one module per topic.

#[cfg(target_os = "linux")]
mod corruption;
mod embedded;
#[cfg(feature = "fail-points")]
mod fail_points;
mod import;
mod linearizability;
#[cfg(all(feature = "postgres", feature = "suite"))]
mod postgres;
mod process_kill;
