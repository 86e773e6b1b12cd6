//! PostgreSQL servers for tests and benchmarks.
//!
//! The programs are those of Debian, installed if they are missing, or those in the directory `TENDOT_TEST_PG_BIN`. Servers
//! run as the user `postgres` if the test runs as root, each on a free port and in a directory that is removed with it.
//!
//! - [`shared_server`] (`shared.rs`): one server for all tests that leave it as it is; `cargo xtask test` starts it once for a whole
//!   run
//! - [`create_database_url`], [`database_from_template`]: an own database for one test
//! - `ResettableDatabase` (`resettable.rs`): a database whose first content is restored for each of many cases
//! - [`PostgresServer`] (`server.rs`): a server that a test may stop, kill or promote
//! - [`PostgresCluster`] (`cluster.rs`): a primary with two synchronous standbys
//! - [`pg_command`]: a program of PostgreSQL; `install.rs` installs them

mod cluster;
mod install;
#[cfg(feature = "postgres")]
mod resettable;
mod server;
mod shared;

pub use cluster::PostgresCluster;
pub use install::{chown_dir, chown_private_file, ensure_installed, is_installed, pg_command};
#[cfg(feature = "postgres")]
pub use resettable::ResettableDatabase;
pub use server::PostgresServer;
pub use shared::{SHARED_SERVER, create_database_url, database_from_template, shared_server};
