//! Native protocol, as ratios to fixed-response servers and to the Handle.Net server.
//!
//! Each server has one core, the load generator the other; rounds are interleaved, and the median counts.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use tendot_testing::ServerProcess;
use xshell::cmd;

use super::dist::{benchmark, tendot};
use super::http::{ROUNDS, prepare_store};
use super::measure::{MarkdownTable, group_digits, recreate_dir};
use super::report::{Bar, write_plot, write_section};
use super::wrk::{LoadResult, ROUND_SECONDS, median_result};
use crate::interop::java::HandleNetProcess;
use crate::process::{on_core, shell, start_server};
use crate::root;

const TENDOT_ADDR: &str = "127.0.0.1:18090";
const FIXED_RESPONSE_ADDR: &str = "127.0.0.1:18091";
const HANDLE_NET_PORTS: (u16, u16, u16) = (18082, 18083, 18084);

/// Server administrator of the Java server, not used here.
const SERVER_ADMIN: &str = "300:0.NA/10.1000";

/// Runs the benchmark and writes the report.
pub(crate) fn bench_native() -> Result<()> {
    let tendot = tendot();
    // Shares its data with the HTTP benchmark.
    let folder = root().join("target/bench/http");
    fs::create_dir_all(&folder)?;
    let names = prepare_store(&folder, &tendot, &folder.join("data"))?;
    let file = folder.join("names");
    fs::write(&file, names.join("\n"))?;

    let mut section = String::from(INTRO);
    let columns = ["Tendot", "fixed response", "ratio", "Handle.Net", "ratio"];
    let mut table = MarkdownTable::new(&mut section, columns.into_iter().map(str::to_owned))?;
    let (load, mut bars) = (NativeLoad { names: file }, Vec::new());
    measure_resolution(&mut table, &mut bars, &load, &tendot, &folder, &names[0])?;
    measure_creation(&mut table, &mut bars, &load, &tendot, &root().join("target/bench/native"))?;
    write_plot("native", &bars)?;
    write_section("native", &section)
}

const INTRO: &str = "\
`cargo xtask bench native`. The fixed-response servers (`bench/`) have one thread that receives and sends, or accepts, reads, writes and
closes, always the same response of the same length.

![Native resolution relative to a fixed response and to Handle.Net](../images/performance-native.svg)

";

/// Measures resolution over UDP, TCP and keep-alive TCP.
fn measure_resolution(
    table: &mut MarkdownTable<'_>,
    bars: &mut Vec<Bar>,
    load: &NativeLoad,
    tendot: &Path,
    folder: &Path,
    name: &str,
) -> Result<()> {
    let (sh, data) = (shell()?, folder.join("data"));
    let server = start_server(cmd!(
        sh,
        "taskset -c 0 {tendot} serve --http off --native {TENDOT_ADDR} --data {data}"
    ))?;
    let java_server = start_java(&folder.join("java"), &folder.join("records.jsonl"), SERVER_ADMIN, false)?;
    let java = format!("127.0.0.1:{}", HANDLE_NET_PORTS.0);
    let response = folder.join("response");
    benchmark(&sh, "native").args(["response", TENDOT_ADDR, name]).arg(&response).run()?;
    // Warm-up for the JIT compiler.
    for transport in ["udp", "tcp", "persistent"] {
        for _ in 0..3 {
            load.run(transport, &java)?;
        }
    }
    for (transport, label, fixed) in [
        ("udp", "UDP", Some("echo")),
        ("tcp", "TCP, one request per connection", Some("accept")),
        ("persistent", "TCP, persistent connections", None),
    ] {
        let fixed = fixed.map(|kind| {
            let server = benchmark(&sh, "native").args([kind, FIXED_RESPONSE_ADDR]).arg(&response);
            start_server(on_core("0", server))
        });
        let fixed = fixed.transpose()?;
        let mut ours = PeerRounds::new(TENDOT_ADDR, &server);
        let mut fixed = fixed.as_ref().map(|server| PeerRounds::new(FIXED_RESPONSE_ADDR, server));
        let mut theirs = PeerRounds::new(&java, &java_server);
        for _ in 0..ROUNDS {
            for peer in std::iter::once(&mut ours).chain(&mut fixed).chain(std::iter::once(&mut theirs)) {
                peer.run(load, transport)?;
            }
        }
        let (ours, fixed, theirs) = (ours.finish(), fixed.map(PeerRounds::finish), theirs.finish());
        if let Some(fixed) = &fixed {
            let ratio = ours.rate / fixed.rate;
            bars.push(Bar { label: format!("{label}, relative to a fixed response"), ratio });
        }
        bars.push(Bar { label: format!("{label}, relative to Handle.Net"), ratio: ours.rate / theirs.rate });
        let rate = |number: f64| group_digits(number as u64);
        let micros = |number: f64| format!("{} µs", group_digits(number as u64));
        let cpu_time = |number: f64| format!("{number:.1} µs");
        let row = |number: fn(&PeerResult) -> f64, format: &dyn Fn(f64) -> String| {
            let ratio = |peer: &PeerResult| format!("{:.2}", number(&ours) / number(peer));
            let (fixed, fixed_ratio) =
                fixed.as_ref().map(|peer| (format(number(peer)), ratio(peer))).unwrap_or_default();
            [format(number(&ours)), fixed, fixed_ratio, format(number(&theirs)), ratio(&theirs)]
        };
        table.row(&format!("{label}, requests/s"), row(|peer| peer.rate, &rate))?;
        table.row("p99", row(|peer| peer.p99, &micros))?;
        table.row("CPU time per request", row(|peer| peer.cpu_micros, &cpu_time))?;
    }
    Ok(())
}

/// Rounds of one server.
struct PeerRounds<'a> {
    address: &'a str,
    server: &'a ServerProcess,
    rounds: Vec<LoadResult>,
    cpu_seconds: f64,
}

/// Medians of the rounds of one server.
struct PeerResult {
    rate: f64,
    p99: f64,
    cpu_micros: f64,
}

impl<'a> PeerRounds<'a> {
    fn new(address: &'a str, server: &'a ServerProcess) -> Self {
        Self { address, server, rounds: Vec::new(), cpu_seconds: 0.0 }
    }

    fn run(&mut self, load: &NativeLoad, transport: &str) -> Result<()> {
        let before = self.server.cpu_time().as_secs_f64();
        self.rounds.push(load.run(transport, self.address)?);
        self.cpu_seconds += self.server.cpu_time().as_secs_f64() - before;
        Ok(())
    }

    fn finish(self) -> PeerResult {
        let requests: f64 = self.rounds.iter().map(|round| round.requests).sum();
        let LoadResult { rate, p99, .. } = median_result(self.rounds);
        PeerResult { rate, p99, cpu_micros: self.cpu_seconds * 1e6 / requests }
    }
}

/// Measures durable creation of records by 32 administrators in sessions; servers and load generator share both cores.
fn measure_creation(
    table: &mut MarkdownTable<'_>,
    bars: &mut Vec<Bar>,
    load: &NativeLoad,
    tendot: &Path,
    folder: &Path,
) -> Result<()> {
    recreate_dir(folder)?;
    let records = root().join("conformance/vectors/handle-net/records.jsonl");
    let data = folder.join("data");
    let sh = shell()?;
    cmd!(sh, "{tendot} import {records} --data {data}").run()?;
    let _ours = start_server(cmd!(sh, "{tendot} serve --http off --native {TENDOT_ADDR} --data {data}"))?;
    let _java = start_java(&folder.join("java"), &records, "300:0.NA/10.5555", true)?;
    let (site, java) = (data.join("siteinfo.json"), folder.join("java/resolver/bootstrap_handles"));
    load.create(&java, "warm")?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        ours.push(load.create(&site, &round.to_string())?);
        theirs.push(load.create(&java, &round.to_string())?);
    }
    let (ours, theirs) = (median_result(ours), median_result(theirs));
    let ratio = ours.rate / theirs.rate;
    bars.push(Bar { label: "durable creations, relative to Handle.Net".into(), ratio });
    let cells = |ours: f64, theirs: f64, unit: &str| {
        let number = |number: f64| format!("{}{unit}", group_digits(number as u64));
        [number(ours), String::new(), String::new(), number(theirs), format!("{:.2}", ours / theirs)]
    };
    let label = "durable creations/s in 32 sessions (Handle.Net with a synced store)";
    table.row(label, cells(ours.rate, theirs.rate, ""))?;
    table.row("p99", cells(ours.p99, theirs.p99, " µs"))
}

/// Load generator for the native protocol.
pub(crate) struct NativeLoad {
    /// File with names, one per line.
    pub(crate) names: PathBuf,
}

impl NativeLoad {
    pub(crate) fn run(&self, transport: &str, address: &str) -> Result<LoadResult> {
        let (sh, seconds) = (shell()?, ROUND_SECONDS.to_string());
        let load = benchmark(&sh, "native").args([transport, address]).arg(&self.names).arg(seconds);
        parse_load_result(&tendot_testing::run_checked(&mut on_core("1", load)))
    }

    fn create(&self, site: &Path, round: &str) -> Result<LoadResult> {
        let (sh, seconds) = (shell()?, ROUND_SECONDS.to_string());
        let create = benchmark(&sh, "native").arg("create").arg(site).args([&seconds, round]);
        parse_load_result(&create.read()?)
    }
}

fn parse_load_result(printed: &str) -> Result<LoadResult> {
    let line =
        printed.lines().find_map(|line| line.strip_prefix("measured ")).context("nothing was measured")?;
    let numbers: Vec<f64> = line.split(' ').map(str::parse).collect::<Result<_, _>>()?;
    let &[requests, rate, p99, lost] = &numbers[..] else { anyhow::bail!("`{line}`") };
    ensure!(lost <= requests / 1000.0, "{lost} of {requests} requests got no response");
    Ok(LoadResult { requests, rate, p99 })
}

fn start_java(
    data_dir: &Path,
    records: &Path,
    server_admin: &str,
    is_durable: bool,
) -> Result<ServerProcess> {
    let (native, http, https) = HANDLE_NET_PORTS;
    let server = HandleNetProcess { data_dir, native, http, https, server_admin, records, is_durable };
    let command = server.command()?;
    // Durable creation is measured on all cores.
    start_server(if is_durable { command } else { on_core("0", command) })
}
