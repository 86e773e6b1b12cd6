//! PostgreSQL store against `psql` and `pgbench` on the same server. Writes `docs/speed-postgres.md`.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result};
use tendot_testing::postgres::PostgresServer;

use super::dist::{benchmark, build_dist, tendot};
use super::measure::{
    MarkdownTable, Measurements, cpu_model, group_digits, load_average, measurement, run_measured,
    total_memory,
};
use crate::process::{output, run};
use crate::root;

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
    let begin = Instant::now();
    build_dist()?;
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
    let text = report(&all.medians(), peak, begin.elapsed().as_secs() / 60)?;
    println!("\n{text}");
    Ok(fs::write(root().join("docs/speed-postgres.md"), text)?)
}

/// Samples per name and round.
#[derive(Default)]
struct Samples(std::collections::BTreeMap<String, Vec<f64>>);

impl Samples {
    fn add(&mut self, name: impl Into<String>, value: f64) {
        self.0.entry(name.into()).or_default().push(value);
    }

    fn medians(self) -> Measurements {
        let median = |mut values: Vec<f64>| {
            values.sort_unstable_by(f64::total_cmp);
            values.get(values.len() / 2).copied().unwrap_or_default()
        };
        self.0.into_iter().map(|(name, values)| (name, median(values))).collect()
    }
}

/// PostgreSQL server and data files of one run.
struct PostgresBench {
    server: PostgresServer,
    folder: tempfile::TempDir,
}

impl PostgresBench {
    fn start() -> Result<Self> {
        let server = PostgresServer::start("shared_buffers = 1GB\nmax_wal_size = 8GB\n");
        let folder = tempfile::tempdir()?;
        run(Command::new("chmod").arg("755").arg(folder.path()))?;
        let bench = Self { server, folder };
        let (lines, count) = (bench.path("records.jsonl"), RECORDS.to_string());
        run(benchmark("records").args(["lines", &count]).stdout(File::create(&lines)?))?;
        for order in ["unsorted", "sorted"] {
            let rows = File::create(bench.path(order))?;
            run(benchmark("postgres_store").args(["rows", order, &count]).stdout(rows))?;
        }
        fs::write(bench.path("script"), PGBENCH_SCRIPT)?;
        Ok(bench)
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// Imports the same records with Tendot and with `COPY`, each into new tables; returns Tendot's memory.
    fn import(&self, all: &mut Samples) -> Result<f64> {
        let address = self.new_database()?;
        let start = Instant::now();
        let mut import = Command::new(tendot());
        let (_, peak) =
            run_measured(import.args(["import", &self.path("records.jsonl"), "--store", &address]))?;
        all.add("command", start.elapsed().as_secs_f64());

        let address = self.new_database()?;
        let ours =
            run_measured(benchmark("postgres_store").args(["import", &address, &RECORDS.to_string()]))?.0;
        all.add("library", measurement(&ours, "seconds")?);

        let address = self.new_database()?;
        let ours =
            run_measured(benchmark("postgres_store").args(["beside", &address, &RECORDS.to_string()]))?.0;
        all.add("longest", measurement(&ours, "longest-deposit-seconds")?);
        all.add("deposits", measurement(&ours, "deposits")?);

        for order in ["unsorted", "sorted"] {
            let address = self.new_database()?;
            run_measured(benchmark("postgres_store").args(["fill", &address, "0"]))?;
            let copy = format!("\\copy tendot_records from '{}' with (format binary)", self.path(order));
            let start = Instant::now();
            self.psql("bench", &copy)?;
            all.add(order, start.elapsed().as_secs_f64());
        }
        Ok(peak)
    }

    /// Creates an empty database; a checkpoint ends the pending writes of the previous one.
    fn new_database(&self) -> Result<String> {
        self.psql("postgres", "drop database if exists bench")?;
        self.psql("postgres", "create database bench")?;
        self.psql("postgres", "checkpoint")?;
        Ok(self.server.url("bench"))
    }

    /// Fills the tables of Tendot and of pgbench with the same number of rows.
    fn fill(&self) -> Result<()> {
        let address = self.new_database()?;
        run_measured(benchmark("postgres_store").args(["fill", &address, &RECORDS.to_string()]))?;
        output(self.pgbench().args(["-q", "-i", "-s", "10"]))?;
        self.psql("bench", "vacuum analyze")?;
        self.psql("bench", "checkpoint").map(drop)
    }

    fn read(&self, clients: u32, all: &mut Samples) -> Result<()> {
        let (address, count) = (self.server.url("bench"), RECORDS.to_string());
        let ours =
            benchmark("postgres_store").args(["read", &address, &count, &clients.to_string()]).output()?;
        all.add(format!("get-{clients}"), rate_of(&ours.stdout)?);
        all.add(format!("same-{clients}"), self.rate(&["-n", "-f", &self.path("script")], clients)?);
        all.add(format!("select-{clients}"), self.rate(&["-n", "-S"], clients)?);
        Ok(())
    }

    fn deposit(&self, clients: u32, all: &mut Samples) -> Result<()> {
        let address = self.server.url("bench");
        let ours = benchmark("postgres_store").args(["deposit", &address, &clients.to_string()]).output()?;
        all.add(format!("deposit-{clients}"), rate_of(&ours.stdout)?);
        all.add(format!("update-{clients}"), self.rate(&["-n", "-N"], clients)?);
        Ok(())
    }

    /// Transactions per second of a pgbench run.
    fn rate(&self, arguments: &[&str], clients: u32) -> Result<f64> {
        let threads = clients.min(u32::try_from(std::thread::available_parallelism()?.get())?);
        let told =
            output(self.pgbench().args(arguments).args(["-M", "prepared", "-T", PGBENCH_SECONDS]).args([
                "-c",
                &clients.to_string(),
                "-j",
                &threads.to_string(),
            ]))?;
        let line = told.lines().find_map(|line| line.strip_prefix("tps = "));
        Ok(line.and_then(|line| line.split(' ').next()).context("pgbench's rate")?.parse()?)
    }

    fn pgbench(&self) -> Command {
        let mut pgbench = tendot_testing::postgres::pg_command("pgbench");
        pgbench.args(["-h", "127.0.0.1", "-U", "postgres", "-p", &self.server.port.to_string()]);
        pgbench.env("PGDATABASE", "bench");
        pgbench
    }

    fn psql(&self, database: &str, sql: &str) -> Result<String> {
        let mut psql = tendot_testing::postgres::pg_command("psql");
        psql.args(["-h", "127.0.0.1", "-U", "postgres", "-p", &self.server.port.to_string(), "-d", database]);
        output(psql.args(["-qAt", "-v", "ON_ERROR_STOP=1", "-c", sql]))
    }
}

fn rate_of(printed: &[u8]) -> Result<f64> {
    let printed = std::str::from_utf8(printed)?;
    printed.trim().strip_prefix("rate ").context("a rate")?.parse().context("a number")
}

fn report(all: &Measurements, peak: f64, minutes: u64) -> Result<String> {
    let mut out = String::from(INTRO);
    writeln!(
        out,
        "The machine: {}, {} cores, {} of memory, on which the server and its clients ran; {} programs wanted to run at once,\n\
         over the last quarter of an hour. Medians of {ROUNDS} rounds, in which all took turns. All of it took {minutes} \
         minutes.\n",
        cpu_model()?,
        std::thread::available_parallelism()?,
        total_memory()?,
        load_average()?,
    )?;
    writeln!(out, "## Importing {} records\n\n{IMPORT_METHOD}", group_digits(RECORDS))?;
    let names = ["command", "library", "unsorted", "sorted"];
    let titles = ["`tendot import` of JSON lines", "the library", "`COPY`", "`COPY`, sorted before"];
    let seconds = names.iter().map(|name| measurement(all, name)).collect::<Result<Vec<f64>>>()?;
    let mut table = MarkdownTable::new(&mut out, titles.into_iter().map(str::to_owned))?;
    table.row("seconds", seconds.iter().map(|seconds| Ok(format!("{seconds:.1}"))))?;
    let rate = |seconds: &f64| Ok(group_digits((RECORDS as f64 / seconds) as u64));
    table.row("records a second", seconds.iter().map(rate))?;
    for (title, name) in [("of `COPY`", "unsorted"), ("of `COPY`, sorted before", "sorted")] {
        let theirs = measurement(all, name)?;
        table.row(title, seconds.iter().map(|seconds| Ok(format!("{:.2}", theirs / seconds))))?;
    }
    writeln!(
        out,
        "\n`tendot import` had at most {:.0} MB of memory of its own. Somebody who deposited one record after the other through \
         another\nstore while the library imported waited for {:.2} s at the most, and deposited {} (medians of the rounds).\n",
        peak / 1e3,
        measurement(all, "longest")?,
        group_digits(measurement(all, "deposits")? as u64),
    )?;

    writeln!(out, "{READ_METHOD}")?;
    let titles = ["`Store::get` a second", "of the same `select`", "of `pgbench -S`"];
    let mut table = MarkdownTable::new(&mut out, titles.into_iter().map(str::to_owned))?;
    for clients in READ_CLIENTS {
        let ours = measurement(all, &format!("get-{clients}"))?;
        let ratio = |name: &str| Ok(format!("{:.2}", ours / measurement(all, &format!("{name}-{clients}"))?));
        let cells = [Ok(group_digits(ours as u64)), ratio("same"), ratio("select")];
        table.row(&clients_label(clients), cells.into_iter())?;
    }
    writeln!(out, "\n{COMMIT_METHOD}")?;
    let titles = ["deposits a second", "of `pgbench -N`"];
    let mut table = MarkdownTable::new(&mut out, titles.into_iter().map(str::to_owned))?;
    for clients in COMMIT_CLIENTS {
        let ours = measurement(all, &format!("deposit-{clients}"))?;
        let theirs = measurement(all, &format!("update-{clients}"))?;
        let cells = [Ok(group_digits(ours as u64)), Ok(format!("{:.2}", ours / theirs))];
        table.row(&clients_label(clients), cells.into_iter())?;
    }
    Ok(out)
}

fn clients_label(clients: u32) -> String {
    format!("{clients} at once")
}

const INTRO: &str = "\
# How fast the store in PostgreSQL is

Written by `cargo xtask bench-postgres-store`, which measures all of it anew. Times say little about another machine; the
ratios are to PostgreSQL's own programs, in the same run and on the same server: as it comes, durable, with 1 GB of shared
buffers and `max_wal_size` of 8 GB, over TCP on this machine.

";

const IMPORT_METHOD: &str = "\
Unsorted, into new tables. `COPY` is psql's `\\copy` of a binary file with the rows as they stand in our table, into that
table with its primary key; also of a file that somebody sorted before. The library has its records in memory when it
begins, and sorts them; the command reads and checks JSON. Both write the log, and see what is there already.
";

const READ_METHOD: &str = "\
## Reading, without a cache

Names are drawn from 1,000,000 records, all of them in the server's memory. So many clients ask, each the next one when it
has its answer, over at most as many connections. The same `select` is that of our store, run by pgbench on the same rows;
`pgbench -S` reads from a table of as many rows. All have prepared statements.
";

const COMMIT_METHOD: &str = "\
## Durable deposits

Each client waits until its record is durable before it sends the next: a record, its history, a line of the log, counters.
`pgbench -N` changes a row, reads it and adds another, with prepared statements. Deposits that come at the same time share a
transaction and a connection.
";
