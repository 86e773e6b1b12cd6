//! Support for the tests and benchmarks of this workspace.
//!
//! Without features the crate uses nothing but the standard library and two small crates, so that `xtask` builds quickly. The
//! feature `async` adds what needs Tokio, `postgres` queries to PostgreSQL, `handle` what needs `tendot-proto`.
//!
//! In reading order:
//!
//! - [`SeededRng`]: deterministic random numbers, reproducible by `TENDOT_TEST_SEED`
//! - [`is_full_run`], [`repetitions`]: how long a test goes on in `cargo xtask test` and with `--full`
//! - [`hex`], [`conformance`], [`ram_dir`]: bytes, files of `conformance/`, directories
//! - [`fuzz_inputs`]: seeds and corpora of the fuzz targets
//! - [`country_database`]: a database of countries in the MaxMind DB format
//! - [`MountedDisk`]: small file systems, which can be filled
//! - [`free_port`]: ports that no other test uses
//! - [`wait_until`], [`wait_for`]: wait for a condition instead of sleeping
//! - [`http`]: an HTTP/1.1 client that sends exactly what a test writes
//! - [`ServerProcess`]: a server program, killed on drop
//! - [`median`]: of measurements
//! - [`child_test`], [`emit`]: a test of the same program in a process of its own
//! - [`CountingAllocator`]: counts allocations in a test program of its own
//! - [`postgres`]: PostgreSQL servers, clusters and databases
//! - `handle_keys`, `recordings`: keys and messages that were recorded from Handle.Net
//! - `handle_messages`: requests to Handle servers and their responses
//! - `handle_server`: Handle servers in the test process
//!
//! Every failure panics, because it ends the test.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod allocations;
mod child;
mod conformance_files;
mod country_database;
mod directory;
mod extent;
pub mod fuzz_inputs;
#[cfg(feature = "handle")]
pub mod handle_keys;
#[cfg(feature = "handle")]
pub mod handle_messages;
#[cfg(feature = "handle")]
pub mod handle_server;
pub mod hex;
pub mod http;
mod mounted_disk;
mod packages;
mod ports;
pub mod postgres;
mod process;
#[cfg(feature = "handle")]
pub mod recordings;
mod rng;
#[cfg(feature = "async")]
mod runtime;
mod statistics;
mod wait;

pub use allocations::{Allocations, CountingAllocator, count_allocations};
pub use child::{child_test, emit, emitted_lines};
pub use conformance_files::{conformance, workspace_root};
pub use country_database::country_database;
pub use directory::ram_dir;
pub use extent::{is_full_run, repetitions};
pub use mounted_disk::MountedDisk;
pub use packages::{
    ensure_programs, install_packages, is_installed, npm_package, npm_program, python_environment,
};
pub use ports::free_port;
pub use process::{ServerProcess, anonymous_memory, cpu_time, peak_memory, run_checked, status_bytes};
pub use rng::{SeededRng, test_seed};
#[cfg(feature = "async")]
pub use runtime::block_on;
pub use statistics::median;
pub use wait::{WAIT_TIMEOUT, wait_for, wait_until};
#[cfg(feature = "async")]
pub use wait::{wait_for_async, wait_until_async};
