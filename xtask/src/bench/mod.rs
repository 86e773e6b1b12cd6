//! Benchmarks: each compares Tendot with another program, or with another build, on one machine at one time.
//!
//! `dist.rs` builds the programs, `measure.rs` and `wrk.rs` measure, `postgres_server.rs` starts PostgreSQL; then one file per
//! command.

pub(crate) mod batches;
pub(crate) mod compare;
mod dist;
pub(crate) mod http;
mod measure;
pub(crate) mod names;
pub(crate) mod native;
pub(crate) mod postgres_http;
mod postgres_server;
pub(crate) mod postgres_store;
pub(crate) mod registry;
pub(crate) mod store;
mod wrk;
