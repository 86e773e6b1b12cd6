//! Redirects over HTTP from PostgreSQL: against the embedded store, and two hosts against one.
//!
//! Names are requested with a Zipf distribution. Hosts are simulated: each has a network namespace, and a cgroup with a quarter
//! of a core for a server and a standby.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};
use tendot_testing::ServerProcess;

use super::dist::{build_dist, tendot};
use super::http::{ROUNDS, prepare_store, report_line};
use super::wrk::{self, WRK_SCRIPT, median_result, run_wrk, start_wrk, wrk_result};
use crate::process::{output, run, start_server};
use crate::root;

/// Requests in a wrk script before it repeats.
const SCRIPT_REQUESTS: usize = 200_000;

/// CPU quota of a simulated host, in percent of a core.
const CPU_PERCENT: u32 = 25;

pub(crate) fn bench_postgres_http() -> Result<()> {
    let mut report = String::from(
        "# How fast HTTP is on PostgreSQL\n\nMade by `cargo xtask bench-postgres-http`. Ratios count: all are of one run, on two shared \
         cores. 1,000,000 names are in both stores. Rounds are interleaved, the median of five counts.\n\n",
    );
    wrk::ensure_installed()?;
    let folder = root().join("target/bench/http");
    fs::create_dir_all(&folder)?;
    build_dist()?;
    let tendot = tendot();
    let data = folder.join("data");
    prepare_store(&folder, &tendot, &data)?;
    let names = read_names(&folder.join("records.jsonl"))?;
    let settings = "listen_addresses = '*'\nshared_buffers = 1GB\nmax_wal_size = 4GB\n";
    let primary = tendot_testing::postgres::PostgresServer::start(settings);
    let address = |host: &str| format!("postgres://postgres@{host}:{}/postgres", primary.port);
    run(Command::new(&tendot)
        .arg("import")
        .arg(folder.join("records.jsonl"))
        .args(["--store", &address("127.0.0.1")]))?;
    primary.psql("vacuum analyze tendot_records");
    compare_with_embedded(&mut report, &folder, &tendot, &names, &address("127.0.0.1"))?;
    compare_two_hosts(&mut report, &folder, &tendot, &names, &primary)?;
    fs::write(root().join("docs/speed-postgres-http.md"), report)?;
    Ok(())
}

fn read_names(lines: &Path) -> Result<Vec<String>> {
    let name = |line: std::io::Result<String>| {
        let line = line?;
        let name = line.strip_prefix("{\"handle\":\"").and_then(|rest| rest.split('"').next());
        name.map(str::to_owned).context("a line has no handle")
    };
    BufReader::new(fs::File::open(lines)?).lines().map(name).collect()
}

fn compare_with_embedded(
    report: &mut String,
    folder: &Path,
    tendot: &Path,
    names: &[String],
    address: &str,
) -> Result<()> {
    let script = write_wrk_script(folder, "zipf", zipf(names))?;
    let (embedded, database) = ("127.0.0.1:18090", "127.0.0.1:18091");
    let data = format!("embedded:{}", folder.join("data").display());
    let own = tempfile::tempdir()?;
    for kept in ["auto", "256MiB", "16MiB"] {
        let start = |at: &str, store: &str| {
            let mut command = Command::new("taskset");
            command.args(["-c", "0"]).arg(tendot).args(["serve", "--native", "off", "--http", at]);
            command.args(["--set", &format!("http.response_cache_size={kept}"), "--store", store, "--data"]);
            start_server(command.arg(own.path()))
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
        let about = format!(
            "- Redirects, names as often as 1/rank (Zipf; {SCRIPT_REQUESTS} questions, then the same again), `http.response_cache_size` {kept}, server on \
             one core, `wrk` with 32 connections and the database on the other: {:.2} × the embedded store ({:.0}/s and {:.0}/s), \
             p99 {:.2} × ({:.0} µs and {:.0} µs).",
            ours.rate / theirs.rate,
            ours.rate,
            theirs.rate,
            ours.p99 / theirs.p99,
            ours.p99,
            theirs.p99
        );
        report_line(report, &about);
    }
    Ok(())
}

fn compare_two_hosts(
    report: &mut String,
    folder: &Path,
    tendot: &Path,
    names: &[String],
    primary: &tendot_testing::postgres::PostgresServer,
) -> Result<()> {
    let script = write_wrk_script(folder, "uniform", uniform(names))?;
    let own = tempfile::tempdir()?;
    let mut hosts = Vec::new();
    for number in 1..=2 {
        hosts.push(SimulatedHost::start(number, tendot, own.path(), primary)?);
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
        let asking =
            hosts.iter().map(|host| start_wrk(&host.address, &script, &[])).collect::<Result<Vec<_>>>()?;
        let rates =
            asking.into_iter().map(|asked| Ok(wrk_result(asked)?.rate)).collect::<Result<Vec<_>>>()?;
        together.push(rates.iter().sum::<f64>());
    }
    let middle = |mut all: Vec<f64>| {
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    let (alone, together) = (middle(alone), middle(together));
    let about = format!(
        "- Two machines of a network namespace and {CPU_PERCENT} % of a core each, for a server and the standby that it asks, names evenly, \
         next to nothing kept: {:.2} × one of them ({together:.0}/s and {alone:.0}/s). The primary is on neither.",
        together / alone
    );
    report_line(report, &about);
    Ok(())
}

/// Network namespace and CPU quota for one server and its standby.
struct SimulatedHost {
    number: u32,
    address: String,
    _server: ServerProcess,
    _standby: tendot_testing::postgres::PostgresServer,
}

impl SimulatedHost {
    fn start(
        number: u32,
        tendot: &Path,
        data: &Path,
        primary: &tendot_testing::postgres::PostgresServer,
    ) -> Result<Self> {
        let (space, inside, outside) = interface_names(number);
        let (here, there) = (format!("10.77.{number}.1"), format!("10.77.{number}.2"));
        let ip = |arguments: &str| run(Command::new("ip").args(arguments.split(' ')));
        remove_namespace(number);
        ip(&format!("netns add {space}"))?;
        ip(&format!("link add {outside} type veth peer name {inside} netns {space}"))?;
        ip(&format!("addr add {here}/24 dev {outside}"))?;
        ip(&format!("link set {outside} up"))?;
        ip(&format!("-n {space} addr add {there}/24 dev {inside}"))?;
        ip(&format!("-n {space} link set {inside} up"))?;
        ip(&format!("-n {space} link set lo up"))?;
        let group = cgroup_path(number);
        fs::create_dir_all(&group)?;
        fs::write(group.join("cpu.cfs_period_us"), "20000")?;
        fs::write(group.join("cpu.cfs_quota_us"), (CPU_PERCENT * 200).to_string())?;

        let standby = primary.start_standby(&format!("machine{number}"));
        let pids = fs::read_to_string(standby.dir().join("data/postmaster.pid"))?;
        let postmaster: u32 = pids.lines().next().context("no postmaster")?.parse()?;
        for pid in output(Command::new("pgrep").args(["-P", &postmaster.to_string()]))?.lines() {
            fs::write(group.join("cgroup.procs"), pid)?;
        }
        fs::write(group.join("cgroup.procs"), postmaster.to_string())?;
        let store = format!("postgres://postgres@{here}:{},{here}:{}/postgres", primary.port, standby.port);
        let address = format!("{there}:8080");
        let enter = format!("echo $$ > {}/cgroup.procs; exec \"$@\"", group.display());
        let mut command = Command::new("sh");
        command.args(["-c", &enter, "sh", "ip", "netns", "exec", &space]).arg(tendot);
        command.args(["serve", "--native", "off", "--http", &address, "--store", &store, "--data"]);
        let server = start_server(command.arg(data).args([
            "--set",
            "http.response_cache_size=1MiB",
            "--set",
            "http.rate_limit.enabled=false",
        ]))?;
        Ok(Self { number, address, _server: server, _standby: standby })
    }
}

impl Drop for SimulatedHost {
    fn drop(&mut self) {
        let _ = self._server.process.kill();
        let _ = self._server.process.wait();
        remove_namespace(self.number);
    }
}

fn interface_names(number: u32) -> (String, String, String) {
    (format!("tendot{number}"), format!("tendot{number}i"), format!("tendot{number}o"))
}

fn cgroup_path(number: u32) -> PathBuf {
    format!("/sys/fs/cgroup/cpu/tendot{number}").into()
}

/// Removes the namespace and cgroup of an earlier run.
fn remove_namespace(number: u32) {
    let (space, _, outside) = interface_names(number);
    for arguments in [["link", "del", &*outside], ["netns", "del", &space]] {
        let _ = Command::new("ip").args(arguments).stderr(Stdio::null()).status();
    }
    // A cgroup with processes cannot be removed.
    let _ = fs::remove_dir(cgroup_path(number));
}

/// Names with a Zipf distribution: frequency 1/rank.
fn zipf(names: &[String]) -> impl Iterator<Item = &str> {
    // The harmonic sum up to n is about ln n, so a uniform number u gives rank n^u.
    let most = names.len() as f64;
    let mut random = SeededRng(0x9e37_79b9_7f4a_7c15);
    std::iter::repeat_with(move || &*names[((most.powf(random.next()) - 1.0) as usize).min(names.len() - 1)])
}

fn uniform(names: &[String]) -> impl Iterator<Item = &str> {
    let mut random = SeededRng(0x2545_f491_4f6c_dd1d);
    std::iter::repeat_with(move || {
        &*names[((names.len() as f64 * random.next()) as usize).min(names.len() - 1)]
    })
}

/// Seeded pseudo-random numbers (xorshift64): the same in every run.
struct SeededRng(u64);

impl SeededRng {
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Writes a wrk script that requests the names of a file in sequence.
fn write_wrk_script<'n>(folder: &Path, name: &str, names: impl Iterator<Item = &'n str>) -> Result<PathBuf> {
    let (paths, script) = (folder.join(format!("{name}.txt")), folder.join(format!("{name}.lua")));
    fs::write(&paths, names.take(SCRIPT_REQUESTS).map(|name| format!("/{name}\n")).collect::<String>())?;
    let text = format!(
        "local at, requests = 0, {{}}\n\
         init = function()\n  for path in io.lines({:?}) do requests[#requests + 1] = wrk.format('GET', path) end\nend\n{WRK_SCRIPT}",
        paths.display().to_string()
    );
    fs::write(&script, text)?;
    Ok(script)
}
