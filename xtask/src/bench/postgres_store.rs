//! PostgreSQL store against `psql` and `pgbench` on the same server.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result};
use tendot_testing::postgres::{PostgresServer, pg_command};
use tendot_testing::run_checked;
use xshell::{Cmd, Shell, cmd};

use super::dist::{benchmark, tendot};
use super::measure::{
    MarkdownTable, Measurements, group_digits, measurement, median, run_measured, start_postgres,
};
use super::report::{Bar, write_plot, write_section};
use crate::process::{run_to_file, shell};

const RECORDS: u64 = 1_000_000;

/// Rounds per system; the median counts. Systems alternate, so that background load affects all alike.
const ROUNDS: usize = 3;

const READ_CLIENTS: [u32; 2] = [1, 16];
const COMMIT_CLIENTS: [u32; 3] = [1, 16, 64];

/// Duration of a pgbench run.
const PGBENCH_SECONDS: &str = "10";

/// Query of the store for pgbench; the server builds the name, because pgbench has no text variables.
const PGBENCH_SCRIPT: &str = "\
\\set number random(1, 1000000)
select name, revision, status, body, registration from tendot_records
where name_key = convert_to('10.1000/' || :number, 'UTF8');
";

/// Runs the benchmark, prints the report and writes it to a file.
#[allow(clippy::print_stdout, reason = "this command prints a report")]
pub(crate) fn bench_postgres_store() -> Result<()> {
    let bench = PostgresBench::start()?;
    let (mut all, mut peak) = (Samples::default(), 0_f64);
    for _ in 0..ROUNDS {
        peak = peak.max(bench.import(&mut all)?);
    }
    bench.fill()?;
    for _ in 0..ROUNDS {
        for clients in READ_CLIENTS {
            bench.read(clients, &mut all)?;
        }
        for clients in COMMIT_CLIENTS {
            bench.deposit(clients, &mut all)?;
        }
    }
    let (text, bars) = report(&all.medians(), peak)?;
    println!("\n{text}");
    write_plot("postgres", &bars)?;
    write_section("postgres", &text)
}

/// Samples per name and round.
#[derive(Default)]
struct Samples(std::collections::BTreeMap<String, Vec<f64>>);

impl Samples {
    fn add(&mut self, name: impl Into<String>, value: f64) {
        self.0.entry(name.into()).or_default().push(value);
    }

    fn medians(self) -> Measurements {
        self.0.into_iter().map(|(name, values)| (name, median(values))).collect()
    }
}

/// PostgreSQL server and data files of one run.
struct PostgresBench {
    sh: Shell,
    server: PostgresServer,
    folder: tempfile::TempDir,
}

impl PostgresBench {
    fn start() -> Result<Self> {
        let (server, folder) = (start_postgres(), tempfile::tempdir()?);
        // The server runs as another user.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
        let bench = Self { sh: shell()?, server, folder };
        let count = RECORDS.to_string();
        let lines = benchmark(&bench.sh, "records").args(["lines", &count]);
        run_to_file(lines, &bench.path("records.jsonl"))?;
        for order in ["unsorted", "sorted"] {
            run_to_file(bench.benchmark(&["rows", order, &count]), &bench.path(order))?;
        }
        fs::write(bench.path("script"), PGBENCH_SCRIPT)?;
        Ok(bench)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn benchmark(&self, arguments: &[&str]) -> Cmd<'_> {
        benchmark(&self.sh, "postgres_store").args(arguments)
    }

    /// Imports the same records with Tendot and with `COPY`, each into new tables; returns Tendot's memory.
    fn import(&self, all: &mut Samples) -> Result<f64> {
        let (sh, tendot, lines) = (&self.sh, tendot(), self.path("records.jsonl"));
        let (address, count) = (self.new_database(), RECORDS.to_string());
        let start = Instant::now();
        let (_, peak) = run_measured(cmd!(sh, "{tendot} import {lines} --store {address}"))?;
        all.add("command", start.elapsed().as_secs_f64());

        let address = self.new_database();
        let library = run_measured(self.benchmark(&["import", &address, &count]))?.0;
        all.add("library", measurement(&library, "seconds")?);

        let address = self.new_database();
        let concurrent = run_measured(self.benchmark(&["beside", &address, &count]))?.0;
        all.add("longest", measurement(&concurrent, "longest-deposit-seconds")?);
        all.add("deposits", measurement(&concurrent, "deposits")?);

        for order in ["unsorted", "sorted"] {
            let address = self.new_database();
            run_measured(self.benchmark(&["fill", &address, "0"]))?;
            let rows = self.path(order);
            let copy = format!("\\copy tendot_records from '{}' with (format binary)", rows.display());
            let start = Instant::now();
            self.server.psql_in("bench", &copy);
            all.add(order, start.elapsed().as_secs_f64());
        }
        Ok(peak)
    }

    /// Creates an empty database; a checkpoint ends the pending writes of the previous one.
    fn new_database(&self) -> String {
        for statement in ["drop database if exists bench", "create database bench", "checkpoint"] {
            self.server.psql(statement);
        }
        self.server.url("bench")
    }

    /// Fills the tables of Tendot and of pgbench with the same number of rows.
    fn fill(&self) -> Result<()> {
        let address = self.new_database();
        run_measured(self.benchmark(&["fill", &address, &RECORDS.to_string()]))?;
        run_checked(self.pgbench().args(["-q", "-i", "-s", "10"]));
        self.server.psql_in("bench", "vacuum analyze");
        self.server.psql_in("bench", "checkpoint");
        Ok(())
    }

    fn read(&self, clients: u32, all: &mut Samples) -> Result<()> {
        let (address, count) = (self.server.url("bench"), RECORDS.to_string());
        let rate = self.benchmark(&["read", &address, &count, &clients.to_string()]).read()?;
        all.add(format!("get-{clients}"), parse_rate(&rate)?);
        let script = self.path("script").display().to_string();
        all.add(format!("same-{clients}"), self.rate(&["-n", "-f", &script], clients)?);
        all.add(format!("select-{clients}"), self.rate(&["-n", "-S"], clients)?);
        Ok(())
    }

    fn deposit(&self, clients: u32, all: &mut Samples) -> Result<()> {
        let address = self.server.url("bench");
        let rate = self.benchmark(&["deposit", &address, &clients.to_string()]).read()?;
        all.add(format!("deposit-{clients}"), parse_rate(&rate)?);
        all.add(format!("update-{clients}"), self.rate(&["-n", "-N"], clients)?);
        Ok(())
    }

    /// Transactions per second of a pgbench run.
    fn rate(&self, arguments: &[&str], clients: u32) -> Result<f64> {
        let threads = clients.min(u32::try_from(std::thread::available_parallelism()?.get())?);
        let mut pgbench = self.pgbench();
        pgbench.args(arguments).args(["-M", "prepared", "-T", PGBENCH_SECONDS]);
        let printed = run_checked(pgbench.args(["-c", &clients.to_string(), "-j", &threads.to_string()]));
        let line = printed.lines().find_map(|line| line.strip_prefix("tps = "));
        Ok(line.and_then(|line| line.split(' ').next()).context("pgbench's rate")?.parse()?)
    }

    fn pgbench(&self) -> Command {
        let mut pgbench = pg_command("pgbench");
        pgbench.args(["-h", "127.0.0.1", "-U", "postgres", "-p", &self.server.port.to_string()]);
        pgbench.env("PGDATABASE", "bench");
        pgbench
    }
}

fn parse_rate(printed: &str) -> Result<f64> {
    printed.trim().strip_prefix("rate ").context("a rate")?.parse().context("a number")
}

/// The section of the report, and the bars of its plot.
fn report(all: &Measurements, peak: f64) -> Result<(String, Vec<Bar>)> {
    let (mut out, mut bars) = (String::new(), Vec::new());
    writeln!(
        out,
        "`cargo xtask bench postgres`, against PostgreSQL's own programs on the same server: durable, 1 GB of shared buffers,\n\
         `max_wal_size` of 8 GB, TCP on one host. Medians of {ROUNDS} rounds.\n\n\
         ![PostgreSQL store relative to PostgreSQL's own programs](../images/performance-postgres.svg)\n"
    )?;
    writeln!(out, "### Import of {} records\n\n{IMPORT_METHOD}", group_digits(RECORDS))?;
    let names = ["command", "library", "unsorted", "sorted"];
    let titles = ["`tendot import` of JSON lines", "library", "`COPY`", "`COPY`, sorted file"];
    let seconds = names.iter().map(|name| measurement(all, name)).collect::<Result<Vec<f64>>>()?;
    let mut table = MarkdownTable::new(&mut out, titles.into_iter().map(str::to_owned))?;
    table.row("seconds", seconds.iter().map(|seconds| format!("{seconds:.1}")))?;
    let rate = |seconds: &f64| group_digits((RECORDS as f64 / seconds) as u64);
    table.row("records/s", seconds.iter().map(rate))?;
    for (title, name) in [("relative to `COPY`", "unsorted"), ("relative to `COPY`, sorted file", "sorted")] {
        let theirs = measurement(all, name)?;
        table.row(title, seconds.iter().map(|seconds| format!("{:.2}", theirs / seconds)))?;
    }
    let ratio = measurement(all, "unsorted")? / measurement(all, "library")?;
    bars.push(Bar { label: "library import, relative to COPY".into(), ratio });
    writeln!(
        out,
        "\nPeak memory of `tendot import`: {:.0} MB. Longest commit of a concurrent writer: {:.2} s ({} commits).\n",
        peak / 1e3,
        measurement(all, "longest")?,
        group_digits(measurement(all, "deposits")? as u64),
    )?;

    writeln!(out, "{READ_METHOD}")?;
    let titles = ["`Store::get`/s", "relative to the same `select`", "relative to `pgbench -S`"];
    let mut table = MarkdownTable::new(&mut out, titles.into_iter().map(str::to_owned))?;
    for clients in READ_CLIENTS {
        let ours = measurement(all, &format!("get-{clients}"))?;
        let same = ours / measurement(all, &format!("same-{clients}"))?;
        let select = ours / measurement(all, &format!("select-{clients}"))?;
        let cells = [group_digits(ours as u64), format!("{same:.2}"), format!("{select:.2}")];
        table.row(&clients_label(clients), cells)?;
        bars.push(Bar {
            label: format!("reads, {}, relative to pgbench -S", clients_label(clients)),
            ratio: select,
        });
    }
    writeln!(out, "\n{COMMIT_METHOD}")?;
    let titles = ["writes/s", "relative to `pgbench -N`"];
    let mut table = MarkdownTable::new(&mut out, titles.into_iter().map(str::to_owned))?;
    for clients in COMMIT_CLIENTS {
        let ours = measurement(all, &format!("deposit-{clients}"))?;
        let theirs = measurement(all, &format!("update-{clients}"))?;
        let ratio = ours / theirs;
        table.row(&clients_label(clients), [group_digits(ours as u64), format!("{ratio:.2}")])?;
        bars.push(Bar {
            label: format!("writes, {}, relative to pgbench -N", clients_label(clients)),
            ratio,
        });
    }
    Ok((out, bars))
}

fn clients_label(clients: u32) -> String {
    format!("{clients} client{}", if clients == 1 { "" } else { "s" })
}

const IMPORT_METHOD: &str = "\
Unsorted, into new tables. `COPY` is psql's `\\copy` of a binary file into our table with its primary key. The library has its records in
memory and sorts them; the command also parses and checks JSON. Both write the change log.
";

const READ_METHOD: &str = "\
### Reads without a cache

Random names of 1,000,000 records in the server's memory, prepared statements. The same `select` is that of our store, run by pgbench.
";

const COMMIT_METHOD: &str = "\
### Durable writes

A write is a record, its history, a log entry and counters; concurrent writes share a transaction. `pgbench -N` updates and reads a row
and inserts another.
";
