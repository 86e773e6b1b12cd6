//! Benchmarks: each compares Tendot with another program, or with another build, on one machine at one time.
//!
//! `dist.rs` builds the programs, `measure.rs` and `wrk.rs` measure, `report.rs` writes `docs/reference/performance.md`; then one
//! file per command.

mod batches;
mod compare;
mod dist;
mod http;
mod measure;
mod names;
mod native;
mod postgres_http;
mod postgres_store;
mod registry;
mod report;
mod signing;
mod store;
mod suggestions;
mod wrk;

use std::path::PathBuf;

use anyhow::Result;
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Parsing, extraction, messages, JSON
    Names,
    /// Embedded store against LMDB and PostgreSQL
    Store {
        /// Only stores of these sizes; nothing is written
        records: Vec<u64>,
    },
    /// Batch inserts against PostgreSQL; prints only
    #[command(alias = "batches")]
    Batch,
    /// Registrations over HTTP, change feed delay
    Registry,
    /// Redirects and JSON against nginx and Handle.Net
    Http,
    /// Native protocol against a fixed-response server and Handle.Net
    Native,
    /// PostgreSQL store against psql and pgbench
    #[command(alias = "postgres-store")]
    Postgres,
    /// Redirects from PostgreSQL against the embedded store, two servers against one
    PostgresHttp,
    /// Signatures on write against writes without; prints only
    Signing,
    /// Search for misspelled names among 10 million; prints only
    Suggestions,
    /// Build time, size and speed of the profiles `dist` and `release`
    Build,
    /// Two builds of tendot: instructions per request, requests per second; prints only
    Compare {
        /// Program of the old build
        old: PathBuf,
        /// Program of the new build
        new: PathBuf,
    },
}

/// Builds the programs and runs a benchmark.
pub(crate) fn run(command: BenchCommand) -> Result<()> {
    // `build` measures this step.
    if !matches!(command, BenchCommand::Build) {
        dist::build()?;
    }
    match command {
        BenchCommand::Names => names::bench_names(),
        BenchCommand::Store { records } => store::bench_store(&records),
        BenchCommand::Batch => batches::bench_batches(),
        BenchCommand::Registry => registry::bench_registry(),
        BenchCommand::Http => http::bench_http(),
        BenchCommand::Native => native::bench_native(),
        BenchCommand::Postgres => postgres_store::bench_postgres_store(),
        BenchCommand::PostgresHttp => postgres_http::bench_postgres_http(),
        BenchCommand::Signing => signing::bench_signing(),
        BenchCommand::Suggestions => suggestions::bench_suggestions(),
        BenchCommand::Build => compare::bench_build(),
        BenchCommand::Compare { old, new } => compare::bench_compare(&old, &new),
    }
}
