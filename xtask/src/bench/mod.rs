//! Benchmarks: each compares Tendot with another program, or with another build, on one machine at one time.
//!
//! `dist.rs` builds the programs, `measure.rs` and `wrk.rs` measure, `postgres_server.rs` starts PostgreSQL, `report.rs` writes
//! `docs/reference/performance.md`; then one file per command.

mod batches;
mod compare;
mod dist;
mod http;
mod measure;
mod names;
mod native;
mod postgres_http;
mod postgres_server;
mod postgres_store;
mod registry;
mod report;
mod store;
mod wrk;

use std::path::Path;

use anyhow::{Result, bail};

/// Runs a benchmark by its name.
pub(crate) fn run(name: &str, arguments: &[&str]) -> Result<()> {
    match (name, arguments) {
        ("names", []) => names::bench_names(),
        ("store", sizes) => {
            let sizes: Result<Vec<u64>, _> = sizes.iter().map(|size| size.parse()).collect();
            store::bench_store(&sizes?)
        }
        ("batch", []) => batches::bench_batches(),
        ("registry", []) => registry::bench_registry(),
        ("http", []) => http::bench_http(),
        ("native", []) => native::bench_native(),
        ("postgres", []) => postgres_store::bench_postgres_store(),
        ("postgres-http", []) => postgres_http::bench_postgres_http(),
        ("build", []) => compare::bench_build(),
        ("compare", [old, new]) => compare::bench_compare(Path::new(old), Path::new(new)),
        _ => bail!("unknown benchmark or wrong arguments; `cargo xtask` lists the commands"),
    }
}
