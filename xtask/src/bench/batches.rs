//! Batch inserts: new registrations into the embedded store and into PostgreSQL.

use std::fs;

use anyhow::{Result, ensure};

use super::dist::benchmark;
use super::measure::{
    group_digits, measurement, median, postgres_socket, recreate_dir, run_measured, start_postgres,
};
use crate::process::shell;
use crate::root;

const RECORDS: &str = "1000000";

/// Rounds per variant; the median counts. Variants alternate, so that background load affects all alike.
const ROUNDS: usize = 3;

/// Variants: label, mode of the benchmark program, concurrent transactions.
const VARIANTS: [(&str, &str, &str); 4] = [
    ("embedded store, 2 in flight", "store", "2"),
    ("embedded store, 16 in flight", "store", "16"),
    ("PostgreSQL, row by row", "each", "1"),
    ("PostgreSQL, pipelined, 2 in flight", "pipelined", "2"),
];

/// Runs the benchmark and prints a table.
#[allow(clippy::print_stdout, reason = "this command prints a report")]
pub(crate) fn bench_batches() -> Result<()> {
    let sh = shell()?;
    let folder = root().join("target/bench/batches");
    for order in ["ascending", "random"] {
        let mut rates = [const { Vec::new() }; VARIANTS.len()];
        let mut memory = [0_f64; VARIANTS.len()];
        let mut history = 0_f64;
        for _ in 0..ROUNDS {
            for (at, (_, system, in_flight)) in VARIANTS.iter().enumerate() {
                recreate_dir(&folder)?;
                let postgres = (*system != "store").then(start_postgres);
                let location = postgres.as_ref().map_or_else(|| folder.clone(), postgres_socket);
                let batches = benchmark(&sh, "batches").arg(system).arg(location);
                let (measured, peak) = run_measured(batches.args([RECORDS, order, in_flight]))?;
                rates[at].push(measurement(&measured, "rate")?);
                memory[at] = memory[at].max(peak);
                if postgres.is_none() {
                    history = history.max(measurement(&measured, "history-microseconds")?);
                }
            }
        }
        fs::remove_dir_all(&folder)?;
        println!("\n{RECORDS} records in {order} order, 1,000 per transaction: median of {ROUNDS} rounds\n");
        let medians = rates.map(median);
        let [.., row_by_row, pipelined] = medians;
        ensure!(row_by_row > 0.0 && pipelined > 0.0, "nothing was measured");
        println!("| | records/s | relative to row by row | relative to pipelined | RssAnon |");
        println!("|---|---:|---:|---:|---:|");
        for (((name, ..), rate), memory) in VARIANTS.iter().zip(medians).zip(memory) {
            let rounded = group_digits(rate as u64);
            let [to_row_by_row, to_pipelined] = [rate / row_by_row, rate / pipelined];
            println!(
                "| {name} | {rounded} | {to_row_by_row:.2} | {to_pipelined:.2} | {:.0} MB |",
                memory / 1e3
            );
        }
        println!(
            "\nReading the history of a record: {history:.0} µs (median of about 1,000, slowest round)."
        );
    }
    println!("\nPostgreSQL figures are the client's memory.");
    Ok(())
}
