//! Registrations over HTTP against direct commits, batches against PostgreSQL, and the delay of the change feed.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, anyhow, ensure};
use tendot_testing::{ServerProcess, anonymous_memory};
use xshell::{Cmd, Shell, cmd};

use super::dist::{benchmark, tendot};
use super::measure::{
    group_digits, measurement, median, postgres_socket, recreate_dir, run_measured, start_postgres,
};
use super::report::{Bar, write_plot, write_section};
use crate::process::{shell, start_server};
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
        let (sh, tendot) = (shell()?, tendot());
        let server =
            start_server(cmd!(sh, "{tendot} serve --native off --http {SERVER_ADDR} --data {data}"))?;
        let token = fs::read_to_string(data.join("operator.token"))?.trim().to_owned();
        let prefix = benchmark(&sh, "registry").args(["prepare", SERVER_ADDR, &token]).read()?;
        Ok(Self { server, token, prefix: prefix.trim().to_owned() })
    }

    fn benchmark<'a>(&self, sh: &'a Shell, kind: &str, arguments: &[&str]) -> Cmd<'a> {
        benchmark(sh, "registry").args([kind, SERVER_ADDR, &self.token, &self.prefix]).args(arguments)
    }
}

fn parse_measurement(printed: &str, name: &str) -> Result<f64> {
    let line = printed.lines().find_map(|line| line.strip_prefix(name));
    let line = line.with_context(|| printed.to_owned())?;
    Ok(line.trim().parse()?)
}

/// Measures single registrations; returns their rate relative to the commits of the store.
fn measure_registrations(report: &mut String, folder: &Path) -> Result<f64> {
    let (sh, service) = (shell()?, RegistryServer::start(&folder.join("service"))?);
    let (mut http_rates, mut store_rates, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let directory: PathBuf = folder.join(format!("store-{round}"));
        let store = benchmark(&sh, "registry").arg("group").arg(&directory).args([CLIENTS, RUN_SECONDS]);
        let store = parse_measurement(&store.read()?, "rate")?;
        let http = service.benchmark(&sh, "deposits", &[CLIENTS, RUN_SECONDS]).read()?;
        let http = parse_measurement(&http, "rate")?;
        http_rates.push(http);
        store_rates.push(store);
        ratios.push(http / store);
        fs::remove_dir_all(&directory)?;
    }
    let feed = service.benchmark(&sh, "follow", &["500"]).read()?;
    let ratio = median(ratios);
    writeln!(
        report,
        "| {CLIENTS} clients, one registration each at a time | per second | relative to the store |\n|---|---:|---:|\n\
         | group commit of the store | {} | 1.00 |\n| `POST /api/v1/dois` | {} | {ratio:.2} |\n\n\
         Change feed delay: median {:.1} ms, p99 {:.1} ms.\n",
        group_digits(median(store_rates) as u64),
        group_digits(median(http_rates) as u64),
        parse_measurement(&feed, "median")?,
        parse_measurement(&feed, "p99")?,
    )?;
    Ok(ratio)
}

/// Measures batches; returns their rate relative to PostgreSQL.
fn measure_batches(report: &mut String, folder: &Path) -> Result<f64> {
    let (mut ours, mut theirs, mut ratios, mut memory) = (Vec::new(), Vec::new(), Vec::new(), 0_f64);
    let sh = shell()?;
    for round in 0..BATCHES {
        let data = folder.join(format!("batch-{round}"));
        let service = RegistryServer::start(&data)?;
        let http = parse_measurement(&with_memory_sampling(&service, &mut memory)?, "rate")?;
        drop(service);
        fs::remove_dir_all(&data)?;
        let postgres = start_postgres();
        let batches = benchmark(&sh, "batches").arg("each").arg(postgres_socket(&postgres));
        let rate = measurement(&run_measured(batches.args([BATCH_RECORDS, "ascending", "1"]))?.0, "rate")?;
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
    let mut command = Command::from(service.benchmark(&shell()?, "batch", &[BATCH_RECORDS]));
    std::thread::scope(|scope| {
        let pid = service.server.process.id();
        let batch = scope.spawn(|| -> Result<String> {
            let output = command.output()?;
            let messages = String::from_utf8_lossy(&output.stderr);
            ensure!(output.status.success(), "{command:?} failed: {}\n{messages}", output.status);
            Ok(String::from_utf8(output.stdout)?)
        });
        while !batch.is_finished() {
            *memory = memory.max(anonymous_memory(pid) as f64);
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        batch.join().map_err(|_| anyhow!("the thread of the batch panicked"))?
    })
}
