//! Helpers of several benchmarks: measurements of a program, Markdown tables, facts about the machine.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
pub(crate) use tendot_testing::median;
use tendot_testing::postgres::PostgresServer;
use tendot_testing::status_bytes;

/// Named numbers printed by a benchmark program.
pub(crate) type Measurements = BTreeMap<String, f64>;

/// Markdown table writer.
pub(crate) struct MarkdownTable<'a>(&'a mut String);

impl<'a> MarkdownTable<'a> {
    pub(crate) fn new(out: &'a mut String, columns: impl Iterator<Item = String>) -> Result<Self> {
        let columns: Vec<String> = columns.collect();
        writeln!(out, "| | {} |", columns.join(" | "))?;
        writeln!(out, "|---|{}", "---:|".repeat(columns.len()))?;
        Ok(Self(out))
    }

    pub(crate) fn row(&mut self, name: &str, cells: impl IntoIterator<Item = String>) -> Result<()> {
        let cells: Vec<String> = cells.into_iter().collect();
        Ok(writeln!(self.0, "| {name} | {} |", cells.join(" | "))?)
    }
}

/// Runs a program that prints `name number` lines; returns them and its maximum anonymous memory in kB.
pub(crate) fn run_measured(command: impl Into<Command>) -> Result<(Measurements, f64)> {
    let mut command = command.into();
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let mut peak = 0_u64;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        // None while the process exits.
        peak = peak.max(status_bytes(child.id(), "RssAnon:").unwrap_or_default());
        std::thread::sleep(Duration::from_millis(20));
    };
    ensure!(status.success(), "{command:?} failed: {status}");
    let printed = std::io::read_to_string(child.stdout.take().context("stdout is not piped")?)?;
    let measured = printed.lines().map(|line| {
        let (name, number) = line.split_once(' ').context("expected `NAME NUMBER`")?;
        Ok((name.to_owned(), number.parse()?))
    });
    Ok((measured.collect::<Result<_>>()?, (peak / 1024) as f64))
}

pub(crate) fn measurement(measured: &Measurements, name: &str) -> Result<f64> {
    measured.get(name).copied().with_context(|| format!("`{name}` was not measured"))
}

pub(crate) fn recreate_dir(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    Ok(fs::create_dir_all(folder)?)
}

/// PostgreSQL server with default settings, but more memory and space for the write-ahead log.
pub(crate) fn start_postgres() -> PostgresServer {
    PostgresServer::start("shared_buffers = 1GB\nmax_wal_size = 8GB\n")
}

/// Socket of a PostgreSQL server.
pub(crate) fn postgres_socket(server: &PostgresServer) -> PathBuf {
    server.dir().join(format!(".s.PGSQL.{}", server.port))
}

/// Names of all records, from JSON lines for `tendot import`.
pub(crate) fn record_names(lines: &Path) -> Result<impl Iterator<Item = Result<String>>> {
    let name = |line: std::io::Result<String>| {
        let line = line?;
        let name = line.strip_prefix("{\"handle\":\"").and_then(|rest| rest.split('"').next());
        name.map(str::to_owned).context("a line has no handle")
    };
    Ok(BufReader::new(File::open(lines)?).lines().map(name))
}

pub(crate) fn cpu_model() -> Result<String> {
    let processors = fs::read_to_string("/proc/cpuinfo")?;
    let name = processors.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    Ok(name.map_or("unknown", |(_, name)| name).to_owned())
}

pub(crate) fn total_memory() -> Result<String> {
    let memory = fs::read_to_string("/proc/meminfo")?;
    let line = memory.lines().find_map(|line| line.strip_prefix("MemTotal:")).context("MemTotal")?;
    let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(format!("{} GiB", kilobytes >> 20))
}

/// Load average over 15 minutes.
pub(crate) fn load_average() -> Result<String> {
    let load = fs::read_to_string("/proc/loadavg")?;
    Ok(load.split(' ').nth(2).context("three numbers")?.to_owned())
}

/// Formats a number as `1,234,567`.
pub(crate) fn group_digits(number: u64) -> String {
    let digits = number.to_string();
    let groups = digits.as_bytes().rchunks(3).rev().map(|group| String::from_utf8_lossy(group));
    groups.collect::<Vec<_>>().join(",")
}
