//! Registrations over HTTP against direct commits, batches against PostgreSQL, and the delay of the change feed.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use tendot_testing::{ServerProcess, anonymous_memory};

use super::dist::{benchmark, build_dist, tendot};
use super::measure::{group_digits, measurement, median, recreate_dir, run_measured};
use super::postgres_server::Postgres;
use super::report::{Bar, write_plot, write_section};
use crate::process::{output, start_server};
use crate::root;

const SERVER_ADDR: &str = "127.0.0.1:18095";

const ROUNDS: usize = 3;

/// Records of a batch.
const BATCH_RECORDS: &str = "1000000";
const BATCHES: usize = 3;

/// Concurrent clients that register names one by one.
const CLIENTS: &str = "16";
const RUN_SECONDS: &str = "5";

/// Runs the benchmark and writes the report.
pub(crate) fn bench_registry() -> Result<()> {
    build_dist()?;
    let folder = root().join("target/bench/registry");
    recreate_dir(&folder)?;
    let mut report = format!(
        "`cargo xtask bench registry`. Registrations have kernel metadata, about 600 bytes each; clients run on the same cores. \
         Medians of {ROUNDS} rounds, of {BATCHES} for batches.\n\n\
         ![Registrations relative to the store and to PostgreSQL](../images/performance-registry.svg)\n\n"
    );
    let registrations = measure_registrations(&mut report, &folder)?;
    let batches = measure_batches(&mut report, &folder)?;
    fs::remove_dir_all(&folder)?;
    write_plot(
        "registry",
        &[
            Bar { label: "POST /dois, relative to group commit".into(), ratio: registrations },
            Bar { label: "POST /dois/batch, relative to PostgreSQL".into(), ratio: batches },
        ],
    )?;
    write_section("registry", &report)
}

/// Server with one allocated prefix.
struct RegistryServer {
    server: ServerProcess,
    token: String,
    prefix: String,
}

impl RegistryServer {
    fn start(data: &Path) -> Result<Self> {
        let server = start_server(
            Command::new(tendot())
                .args(["serve", "--native", "off", "--http", SERVER_ADDR, "--data"])
                .arg(data),
        )?;
        let token = fs::read_to_string(data.join("operator.token"))?.trim().to_owned();
        let prefix = output(benchmark("registry").args(["prepare", SERVER_ADDR, &token]))?.trim().to_owned();
        Ok(Self { server, token, prefix })
    }

    fn benchmark(&self, kind: &str, arguments: &[&str]) -> Command {
        let mut command = benchmark("registry");
        command.args([kind, SERVER_ADDR, &self.token, &self.prefix]).args(arguments);
        command
    }
}

fn parse_measurement(said: &str, name: &str) -> Result<f64> {
    let line = said.lines().find_map(|line| line.strip_prefix(name)).with_context(|| said.to_owned())?;
    Ok(line.trim().parse()?)
}

/// Measures single registrations; returns their rate relative to the commits of the store.
fn measure_registrations(report: &mut String, folder: &Path) -> Result<f64> {
    let service = RegistryServer::start(&folder.join("service"))?;
    let (mut over_http, mut straight, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let directory: PathBuf = folder.join(format!("store-{round}"));
        let own = output(benchmark("registry").arg("group").arg(&directory).args([CLIENTS, RUN_SECONDS]))?;
        let http = output(&mut service.benchmark("deposits", &[CLIENTS, RUN_SECONDS]))?;
        let (own, http) = (parse_measurement(&own, "rate")?, parse_measurement(&http, "rate")?);
        over_http.push(http);
        straight.push(own);
        ratios.push(http / own);
        fs::remove_dir_all(&directory)?;
    }
    let followed = output(&mut service.benchmark("follow", &["500"]))?;
    let ratio = median(ratios);
    writeln!(
        report,
        "| {CLIENTS} clients, one registration each at a time | per second | relative to the store |\n|---|---:|---:|\n\
         | group commit of the store | {} | 1.00 |\n| `POST /api/v1/dois` | {} | {ratio:.2} |\n\n\
         Change feed delay: median {:.1} ms, p99 {:.1} ms.\n",
        group_digits(median(straight) as u64),
        group_digits(median(over_http) as u64),
        parse_measurement(&followed, "median")?,
        parse_measurement(&followed, "p99")?,
    )?;
    Ok(ratio)
}

/// Measures batches; returns their rate relative to PostgreSQL.
fn measure_batches(report: &mut String, folder: &Path) -> Result<f64> {
    let (mut ours, mut theirs, mut ratios, mut memory) = (Vec::new(), Vec::new(), Vec::new(), 0_f64);
    for round in 0..BATCHES {
        let data = folder.join(format!("batch-{round}"));
        let service = RegistryServer::start(&data)?;
        let http = parse_measurement(&with_memory_sampling(&service, &mut memory)?, "rate")?;
        drop(service);
        fs::remove_dir_all(&data)?;
        let directory = std::env::temp_dir().join(format!("tendot-registry-{}", std::process::id()));
        let postgres = Postgres::start(&directory)?;
        let mut command = benchmark("batches");
        command.arg("each").arg(&directory).args([BATCH_RECORDS, "ascending", "1"]);
        let rate = measurement(&run_measured(&mut command)?.0, "rate")?;
        drop(postgres);
        ours.push(http);
        theirs.push(rate);
        ratios.push(http / rate);
    }
    let ratio = median(ratios);
    writeln!(
        report,
        "| a batch of {BATCH_RECORDS} registrations with metadata | per second | relative to PostgreSQL |\n|---|---:|---:|\n\
         | PostgreSQL, the same rows, 1,000 per transaction, prepared, one connection | {} | 1.00 |\n\
         | `POST /api/v1/dois/batch` | {} | {ratio:.2} |\n\nPeak memory of the server: {:.0} MB.",
        group_digits(median(theirs) as u64),
        group_digits(median(ours) as u64),
        memory / 1e6,
    )?;
    Ok(ratio)
}

/// Sends a batch and samples the anonymous memory of the server in bytes; page cache is not counted.
fn with_memory_sampling(service: &RegistryServer, memory: &mut f64) -> Result<String> {
    std::thread::scope(|scope| {
        let (pid, mut command) = (service.server.process.id(), service.benchmark("batch", &[BATCH_RECORDS]));
        let batch = scope.spawn(move || output(&mut command));
        while !batch.is_finished() {
            *memory = memory.max(anonymous_memory(pid) as f64);
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        batch.join().map_err(|_| anyhow::anyhow!("the batch panicked"))?
    })
}
