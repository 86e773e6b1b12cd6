//! Native protocol, as ratios to fixed-response servers and to the Handle.Net server.
//!
//! Each server has one core, the load generator the other; rounds are interleaved, and the median counts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use tendot_testing::ServerProcess;

use super::dist::{benchmark, build_dist, tendot};
use super::http::{RECORDS, ROUNDS, cpu_seconds, prepare_store, report_line};
use super::wrk::{LoadResult, ROUND_SECONDS, median_result};
use crate::interop::java::HandleNetProcess;
use crate::process::{output, run, start_server};
use crate::root;

const TENDOT_ADDR: &str = "127.0.0.1:18090";
const FIXED_RESPONSE_ADDR: &str = "127.0.0.1:18091";
const HANDLE_NET_PORTS: (u16, u16, u16) = (18082, 18083, 18084);

/// Server administrator of the Java server, not used here.
const SERVER_ADMIN: &str = "300:0.NA/10.1000";

pub(crate) fn bench_native() -> Result<()> {
    let mut report = format!(
        "# How fast the native protocol is\n\nMade by `cargo xtask bench-native`. Ratios count: all are of one run, on two \
         shared cores. {RECORDS} names are in the embedded store, and 10,000 of them are asked for, 32 at a time, from one \
         core; each server has the other for itself. Rounds are interleaved, the median of five counts. The plain servers \
         are in `bench/`: one thread that receives and sends, or accepts, reads, writes and closes, always the same answer, \
         as long as ours. Handle.Net's server is that of DSpace (9.2), with its own store (JE).\n\n"
    );
    build_dist()?;
    let tendot = tendot();
    // Shares its data with the HTTP benchmark.
    let folder = root().join("target/bench/http");
    fs::create_dir_all(&folder)?;
    let names = prepare_store(&folder, &tendot, &folder.join("data"))?;
    let file = folder.join("names");
    fs::write(&file, names.join("\n"))?;

    let asking = NativeLoad { names: file };
    measure_resolution(&mut report, &asking, &tendot, &folder, &names[0])?;
    measure_creation(&mut report, &asking, &tendot, &root().join("target/bench/native"))?;
    fs::write(root().join("docs/speed-native.md"), report)?;
    Ok(())
}

/// Measures resolution over UDP, TCP and keep-alive TCP.
fn measure_resolution(
    report: &mut String,
    asking: &NativeLoad,
    tendot: &Path,
    folder: &Path,
    name: &str,
) -> Result<()> {
    let mut serve = Command::new(tendot);
    serve.args(["serve", "--http", "off", "--native", TENDOT_ADDR, "--data"]).arg(folder.join("data"));
    let ours = start_server(&mut on_core("0", &serve))?;
    let java_server = start_java(&folder.join("java"), &folder.join("records.jsonl"), SERVER_ADMIN, false)?;
    let java = format!("127.0.0.1:{}", HANDLE_NET_PORTS.0);
    let answer = folder.join("answer");
    run(benchmark("native").args(["answer", TENDOT_ADDR, name]).arg(&answer))?;
    // Warm-up for the JIT compiler.
    for way in ["udp", "tcp", "kept"] {
        for _ in 0..3 {
            asking.run(way, &java)?;
        }
    }
    for (way, what, plain) in [
        ("udp", "datagrams", Some("echo")),
        ("tcp", "connections, each for one request", Some("accept")),
        ("kept", "connections that are kept", None),
    ] {
        let plain = plain.map(|plain| {
            start_server(&mut on_core(
                "0",
                benchmark("native").args([plain, FIXED_RESPONSE_ADDR]).arg(&answer),
            ))
        });
        let plain = plain.transpose()?;
        let mut peers = vec![("tendot", TENDOT_ADDR, &ours, Vec::new(), 0.0)];
        peers.extend(
            plain.as_ref().map(|plain| ("the plain server", FIXED_RESPONSE_ADDR, plain, Vec::new(), 0.0)),
        );
        peers.push(("Handle.Net's server", &java, &java_server, Vec::new(), 0.0));
        for _ in 0..ROUNDS {
            for (_, address, server, rounds, time) in &mut peers {
                let before = cpu_seconds(server)?;
                rounds.push(asking.run(way, address)?);
                *time += cpu_seconds(server)? - before;
            }
        }
        let mut measured = peers.into_iter().map(|(who, _, _, rounds, time)| {
            let requests: f64 = rounds.iter().map(|round| round.requests).sum();
            (who, median_result(rounds), time / requests)
        });
        let (_, our, our_time) = measured.next().context("nothing was measured")?;
        for (who, their, time) in measured {
            report_line(
                report,
                &format!(
                    "- {what}: {:.2} × {who} ({:.0}/s and {:.0}/s), p99 {:.2} × ({:.0} µs and {:.0} µs); time of the processor \
                     {:.1} µs and {:.1} µs, ratio {:.2}.",
                    our.rate / their.rate,
                    our.rate,
                    their.rate,
                    our.p99 / their.p99,
                    our.p99,
                    their.p99,
                    our_time * 1e6,
                    time * 1e6,
                    time / our_time
                ),
            );
        }
    }
    Ok(())
}

/// Measures durable creation of records by 32 administrators in sessions; servers and load generator share both cores.
fn measure_creation(report: &mut String, asking: &NativeLoad, tendot: &Path, folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::create_dir_all(folder)?;
    let records = root().join("conformance/vectors/handle-net/records.jsonl");
    let data = folder.join("data");
    run(Command::new(tendot).arg("import").arg(&records).arg("--data").arg(&data))?;
    let _ours = start_server(
        Command::new(tendot).args(["serve", "--http", "off", "--native", TENDOT_ADDR, "--data"]).arg(&data),
    )?;
    let _java = start_java(&folder.join("java"), &records, "300:0.NA/10.5555", true)?;
    let (site, java) = (data.join("siteinfo.json"), folder.join("java/resolver/bootstrap_handles"));
    asking.create(&java, "warm")?;
    let (mut our, mut their) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        our.push(asking.create(&site, &round.to_string())?);
        their.push(asking.create(&java, &round.to_string())?);
    }
    let (our, their) = (median_result(our), median_result(their));
    report_line(
        report,
        &format!(
            "- Durable creations in 32 sessions: {:.2} × Handle.Net's server with a store that is synced ({:.0}/s and {:.0}/s), \
             p99 {:.2} × ({:.0} µs and {:.0} µs).",
            our.rate / their.rate,
            our.rate,
            their.rate,
            our.p99 / their.p99,
            our.p99,
            their.p99
        ),
    );
    Ok(())
}

/// Load generator for the native protocol.
pub(crate) struct NativeLoad {
    /// File with names, one per line.
    pub(crate) names: PathBuf,
}

impl NativeLoad {
    pub(crate) fn run(&self, way: &str, address: &str) -> Result<LoadResult> {
        let mut command = benchmark("native");
        command.args([way, address]).arg(&self.names).arg(ROUND_SECONDS.to_string());
        parse_load_result(&mut on_core("1", &command))
    }

    fn create(&self, site: &Path, round: &str) -> Result<LoadResult> {
        parse_load_result(
            benchmark("native").arg("create").arg(site).args([&ROUND_SECONDS.to_string(), round]),
        )
    }
}

fn parse_load_result(command: &mut Command) -> Result<LoadResult> {
    let said = output(command)?;
    let line =
        said.lines().find_map(|line| line.strip_prefix("measured ")).context("nothing was measured")?;
    let numbers: Vec<f64> = line.split(' ').map(str::parse).collect::<Result<_, _>>()?;
    let &[requests, rate, p99, lost] = &numbers[..] else { anyhow::bail!("`{line}`") };
    ensure!(lost <= requests / 1000.0, "{lost} of {requests} requests had no answer");
    Ok(LoadResult { requests, rate, p99 })
}

/// Command pinned to a core.
fn on_core(core: &str, command: &Command) -> Command {
    let mut bound = Command::new("taskset");
    bound.args(["-c", core]).arg(command.get_program()).args(command.get_args());
    bound
}

fn start_java(
    data_dir: &Path,
    records: &Path,
    server_admin: &str,
    is_durable: bool,
) -> Result<ServerProcess> {
    let (native, http, https) = HANDLE_NET_PORTS;
    let server = HandleNetProcess { data_dir, native, http, https, server_admin, records, is_durable };
    start_server(&mut server.command((!is_durable).then_some("0"))?)
}
