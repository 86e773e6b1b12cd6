//! Search for misspelled names in 10 million, embedded store and PostgreSQL.

use std::fs;

use anyhow::{Result, ensure};

use super::dist::benchmark;
use super::measure::{group_digits, measurement, recreate_dir, run_measured, start_postgres};
use crate::process::shell;
use crate::root;

const NAMES: u64 = 10_000_000;

/// Maximum number of lookups of one search.
const MAX_LOOKUPS: f64 = 2_000.0;

/// Runs the benchmark and prints a table.
#[allow(clippy::print_stdout, reason = "this command prints a report")]
pub(crate) fn bench_suggestions() -> Result<()> {
    let (sh, count) = (shell()?, NAMES.to_string());
    let folder = root().join("target/bench/suggestions");
    recreate_dir(&folder)?;
    let embedded = run_measured(benchmark(&sh, "suggestions").arg("embedded").arg(&folder).arg(&count))?.0;
    fs::remove_dir_all(&folder)?;
    let server = start_postgres();
    let address = server.url(&server.create_database());
    let postgres = run_measured(benchmark(&sh, "suggestions").args(["postgres", &address, &count]))?.0;
    println!("\nSearch for one typing error among {} names of one prefix\n", group_digits(NAMES));
    println!("| | median | p99 | lookups: median | max | found | relative to one resolution |");
    println!("|---|---:|---:|---:|---:|---:|---:|");
    for (name, measured) in [("embedded store", embedded), ("PostgreSQL", postgres)] {
        let value = |name| measurement(&measured, name);
        println!(
            "| {name} | {:.0} µs | {:.0} µs | {:.0} | {:.0} | {:.1} % | {:.0} × |",
            value("median-microseconds")?,
            value("p99-microseconds")?,
            value("median-lookups")?,
            value("max-lookups")?,
            value("found-percent")?,
            value("median-microseconds")? / value("resolve-microseconds")?,
        );
        ensure!(value("max-lookups")? <= MAX_LOOKUPS, "too many lookups");
    }
    Ok(())
}
