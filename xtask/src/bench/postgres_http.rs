//! Redirects over HTTP from PostgreSQL: against the embedded store, and two hosts against one.
//!
//! Names are requested with a Zipf distribution. Hosts are simulated: each has a network namespace, and a cgroup with a quarter
//! of a core for a server and a standby.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use tendot_testing::postgres::PostgresServer;
use tendot_testing::{SeededRng, ServerProcess};
use xshell::cmd;

use super::dist::tendot;
use super::http::{ROUNDS, prepare_store};
use super::measure::{group_digits, median, record_names};
use super::report::write_section;
use super::wrk::{self, median_result, run_wrk, start_wrk, write_wrk_script, wrk_result};
use crate::process::{shell, start_server};
use crate::root;

/// Requests in a wrk script before it repeats.
const SCRIPT_REQUESTS: usize = 200_000;

/// CPU quota of a simulated host, in percent of a core.
const CPU_PERCENT: u32 = 25;

pub(crate) fn bench_postgres_http() -> Result<()> {
    let mut section = format!(
        "`cargo xtask bench postgres-http`: 1,000,000 names in both stores, Zipf-distributed requests ({}, repeated), server on one core,\n\
         client and database on the other.\n\n",
        group_digits(SCRIPT_REQUESTS as u64)
    );
    wrk::ensure_installed()?;
    let folder = root().join("target/bench/http");
    fs::create_dir_all(&folder)?;
    let tendot = tendot();
    let data = folder.join("data");
    prepare_store(&folder, &tendot, &data)?;
    let lines = folder.join("records.jsonl");
    let names = record_names(&lines)?.collect::<Result<Vec<_>>>()?;
    let settings = "listen_addresses = '*'\nshared_buffers = 1GB\nmax_wal_size = 4GB\n";
    let primary = PostgresServer::start(settings);
    let address = |host: &str| format!("postgres://postgres@{host}:{}/postgres", primary.port);
    let (sh, store) = (shell()?, address("127.0.0.1"));
    cmd!(sh, "{tendot} import {lines} --store {store}").run()?;
    primary.psql("vacuum analyze tendot_records");
    compare_with_embedded(&mut section, &folder, &tendot, &names, &store)?;
    compare_two_hosts(&mut section, &folder, &tendot, &names, &primary)?;
    write_section("postgres-http", &section)
}

fn compare_with_embedded(
    section: &mut String,
    folder: &Path,
    tendot: &Path,
    names: &[String],
    address: &str,
) -> Result<()> {
    let script = write_wrk_script(folder, "zipf", "/", zipf(names).take(SCRIPT_REQUESTS), "")?;
    let (embedded, database) = ("127.0.0.1:18090", "127.0.0.1:18091");
    let data = format!("embedded:{}", folder.join("data").display());
    let (sh, dir) = (shell()?, tempfile::tempdir()?);
    let data_dir = dir.path();
    section.push_str(
        "| `http.response_cache_size` | redirects/s | embedded store | ratio | p99 | embedded store |\n\
         |---|---:|---:|---:|---:|---:|\n",
    );
    for (size, label) in [
        ("auto", "`auto` (256 MiB; embedded 16 MiB)"),
        ("256MiB", "256MiB for both"),
        ("16MiB", "16MiB for both"),
    ] {
        let cache_size = format!("http.response_cache_size={size}");
        let start = |at: &str, store: &str| {
            let serve = cmd!(sh, "taskset -c 0 {tendot} serve --native off --http {at} --store {store}");
            start_server(serve.arg("--data").arg(data_dir).args(["--set", &cache_size]))
        };
        let _servers = (start(embedded, &data)?, start(database, address)?);
        // Warm-up: fill the caches with the frequent names.
        for at in [embedded, database, embedded, database] {
            run_wrk(at, &script)?;
        }
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            ours.push(run_wrk(database, &script)?);
            theirs.push(run_wrk(embedded, &script)?);
        }
        let (ours, theirs) = (median_result(ours), median_result(theirs));
        writeln!(
            section,
            "| {label} | {} | {} | {:.2} | {} µs | {} µs |",
            group_digits(ours.rate as u64),
            group_digits(theirs.rate as u64),
            ours.rate / theirs.rate,
            group_digits(ours.p99 as u64),
            group_digits(theirs.p99 as u64),
        )?;
    }
    Ok(())
}

fn compare_two_hosts(
    section: &mut String,
    folder: &Path,
    tendot: &Path,
    names: &[String],
    primary: &PostgresServer,
) -> Result<()> {
    let script = write_wrk_script(folder, "uniform", "/", uniform(names).take(SCRIPT_REQUESTS), "")?;
    let dir = tempfile::tempdir()?;
    let mut hosts = Vec::new();
    for number in 1..=2 {
        hosts.push(SimulatedHost::start(number, tendot, dir.path(), primary)?);
    }
    // Warm-up; the caches are almost off, so that rounds read from the database.
    for host in &hosts {
        run_wrk(&host.address, &script)?;
    }
    let (mut alone, mut together) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let mut singles = 0.0;
        for host in &hosts {
            singles += run_wrk(&host.address, &script)?.rate;
        }
        alone.push(singles / 2.0);
        let running =
            hosts.iter().map(|host| start_wrk(&host.address, &script, None)).collect::<Result<Vec<_>>>()?;
        let rates =
            running.into_iter().map(|child| Ok(wrk_result(child)?.rate)).collect::<Result<Vec<_>>>()?;
        together.push(rates.iter().sum::<f64>());
    }
    let (alone, together) = (median(alone), median(together));
    writeln!(
        section,
        "\nTwo hosts ({CPU_PERCENT} % of a core each, for a server and its standby) with evenly distributed names and a minimal cache: \
         {}/s,\n{:.2} × one of them.",
        group_digits(together as u64),
        together / alone
    )?;
    Ok(())
}

/// Network namespace and CPU quota for one server and its standby.
struct SimulatedHost {
    number: u32,
    address: String,
    server: ServerProcess,
    _standby: PostgresServer,
}

impl SimulatedHost {
    fn start(number: u32, tendot: &Path, data: &Path, primary: &PostgresServer) -> Result<Self> {
        let (space, inside, outside) = interface_names(number);
        let (outer_ip, inner_ip) = (format!("10.77.{number}.1"), format!("10.77.{number}.2"));
        let sh = shell()?;
        remove_namespace(number)?;
        cmd!(sh, "ip netns add {space}").run()?;
        cmd!(sh, "ip link add {outside} type veth peer name {inside} netns {space}").run()?;
        cmd!(sh, "ip addr add {outer_ip}/24 dev {outside}").run()?;
        cmd!(sh, "ip link set {outside} up").run()?;
        cmd!(sh, "ip -n {space} addr add {inner_ip}/24 dev {inside}").run()?;
        cmd!(sh, "ip -n {space} link set {inside} up").run()?;
        cmd!(sh, "ip -n {space} link set lo up").run()?;
        let group = cgroup_path(number);
        fs::create_dir_all(&group)?;
        fs::write(group.join("cpu.cfs_period_us"), "20000")?;
        fs::write(group.join("cpu.cfs_quota_us"), (CPU_PERCENT * 200).to_string())?;

        let standby = primary.start_standby(&format!("machine{number}"));
        let pids = fs::read_to_string(standby.dir().join("data/postmaster.pid"))?;
        let postmaster = pids.lines().next().context("no postmaster")?;
        for pid in cmd!(sh, "pgrep -P {postmaster}").read()?.lines().chain([postmaster]) {
            fs::write(group.join("cgroup.procs"), pid)?;
        }
        let store =
            format!("postgres://postgres@{outer_ip}:{},{outer_ip}:{}/postgres", primary.port, standby.port);
        let address = format!("{inner_ip}:8080");
        let enter = format!("echo $$ > {}/cgroup.procs; exec \"$@\"", group.display());
        let settings = ["--set", "http.response_cache_size=1MiB", "--set", "http.rate_limit.enabled=false"];
        let serve = ["serve", "--native", "off", "--http", &address, "--store", &store];
        let server = start_server(cmd!(
            sh,
            "sh -c {enter} sh ip netns exec {space} {tendot} {serve...} --data {data} {settings...}"
        ))?;
        Ok(Self { number, address, server, _standby: standby })
    }
}

impl Drop for SimulatedHost {
    fn drop(&mut self) {
        self.server.kill();
        let _ = remove_namespace(self.number);
    }
}

fn interface_names(number: u32) -> (String, String, String) {
    (format!("tendot{number}"), format!("tendot{number}i"), format!("tendot{number}o"))
}

fn cgroup_path(number: u32) -> PathBuf {
    format!("/sys/fs/cgroup/cpu/tendot{number}").into()
}

/// Removes the namespace and cgroup of an earlier run.
fn remove_namespace(number: u32) -> Result<()> {
    let sh = shell()?;
    let (space, _, outside) = interface_names(number);
    for command in [cmd!(sh, "ip link del {outside}"), cmd!(sh, "ip netns del {space}")] {
        command.quiet().ignore_stderr().ignore_status().run()?;
    }
    // A cgroup with processes cannot be removed.
    let _ = fs::remove_dir(cgroup_path(number));
    Ok(())
}

/// Names with a Zipf distribution: frequency 1/rank.
fn zipf(names: &[String]) -> impl Iterator<Item = &str> {
    // The harmonic sum up to n is about ln n, so a uniform number u gives rank n^u.
    let count = names.len() as f64;
    let mut random = SeededRng::new(1);
    std::iter::repeat_with(move || {
        let uniform = random.below(1 << 24) as f64 / f64::from(1 << 24);
        &*names[((count.powf(uniform) - 1.0) as usize).min(names.len() - 1)]
    })
}

fn uniform(names: &[String]) -> impl Iterator<Item = &str> {
    let mut random = SeededRng::new(2);
    std::iter::repeat_with(move || &**random.pick(names))
}
