//! Comparison of two builds of `tendot`: instructions per request, and rates in interleaved rounds.

use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use tendot_testing::http::{HttpConnection, HttpRequest};
use tendot_testing::{ServerProcess, free_port};
use xshell::cmd;

use super::dist::{self, benchmark};
use super::http::prepare_store;
use super::native::NativeLoad;
use super::report::write_section;
use super::wrk::{self, LoadResult, median_result, run_wrk, write_wrk_script};
use crate::process::{apt_install, is_installed, shell, start_server};
use crate::root;

const ROUNDS: usize = 9;

/// Requests of the two runs under callgrind; their difference excludes startup and shutdown.
const REQUESTS: [usize; 2] = [500, 2500];

/// Prints the ratios of `new` to `old`.
#[allow(clippy::print_stdout, reason = "this command prints a report")]
pub(crate) fn bench_compare(old: &Path, new: &Path) -> Result<()> {
    let folder = root().join("target/bench/compare");
    fs::create_dir_all(&folder)?;
    let binaries = [old.canonicalize()?, new.canonicalize()?];
    let data = [folder.join("old"), folder.join("new")];
    let mut names = Vec::new();
    for (binary, data) in binaries.iter().zip(&data) {
        names = prepare_store(&folder, binary, data)?;
    }
    instructions(&folder, &binaries, &names)?;
    rates(&folder, &binaries, &data, &names)?;
    Ok(())
}

/// Instructions per request, counted by callgrind.
#[allow(clippy::print_stdout, reason = "this command prints a report")]
fn instructions(folder: &Path, binaries: &[PathBuf; 2], names: &[String]) -> Result<()> {
    if !is_installed("valgrind") {
        apt_install(&["valgrind"])?;
    }
    let names_file = folder.join("names");
    println!("instructions per request              old        new   ratio");
    for kind in [RequestKind::Redirect, RequestKind::Json, RequestKind::Native, RequestKind::Registration] {
        let mut counts = [0.0; 2];
        for (binary, count) in binaries.iter().zip(&mut counts) {
            let mut totals = [0.0; 2];
            for (requests, total) in REQUESTS.iter().zip(&mut totals) {
                *total = count_instructions(folder, binary, kind, &names[..*requests], &names_file)?;
            }
            *count = (totals[1] - totals[0]) / (REQUESTS[1] - REQUESTS[0]) as f64;
        }
        let [old, new] = counts;
        println!("{:<30} {old:>10.0} {new:>10.0} {:>7.3}", format!("{kind:?}"), new / old);
    }
    Ok(())
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum RequestKind {
    Redirect,
    Json,
    Native,
    Registration,
}

/// Instructions of a server process that receives these requests.
fn count_instructions(
    folder: &Path,
    binary: &Path,
    kind: RequestKind,
    names: &[String],
    names_file: &Path,
) -> Result<f64> {
    let data = folder.join("callgrind");
    if data.exists() {
        fs::remove_dir_all(&data)?;
    }
    let lines: String = names
        .iter()
        .map(|name| {
            let url = json!({"index": 1, "type": "URL", "data": {"format": "string", "value": "https://example.org/"}});
            format!("{}\n", json!({"handle": name, "values": [url]}))
        })
        .collect();
    let file = folder.join("callgrind.jsonl");
    fs::write(&file, lines)?;
    let sh = shell()?;
    cmd!(sh, "{binary} import --data {data} {file}").ignore_stderr().run()?;
    let [http, native] = [free_port(), free_port()].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    let addresses = ["--http", &http.to_string(), "--native", &native.to_string()];
    // The first start generates a server key, which takes a random number of instructions.
    stop(&mut start_server(cmd!(sh, "{binary} serve {addresses...} --data {data}"))?)?;
    let valgrind = ["--tool=callgrind", "--callgrind-out-file=/dev/null"];
    let mut server =
        start_server(cmd!(sh, "valgrind {valgrind...} {binary} serve {addresses...} --data {data}"))?;
    match kind {
        RequestKind::Redirect | RequestKind::Json => {
            let prefix = if kind == RequestKind::Json { "/api/handles/" } else { "/" };
            let mut connection = HttpConnection::open(http)?;
            for name in names {
                let response = connection.exchange(&HttpRequest::get(&format!("{prefix}{name}")))?;
                ensure!(matches!(response.status, 200 | 302), "{name}: {}", response.head);
            }
        }
        RequestKind::Native => {
            fs::write(names_file, names.join("\n"))?;
            benchmark(&sh, "native").args(["each", &native.to_string()]).arg(names_file).run()?;
        }
        RequestKind::Registration => register(http, &data, names.len())?,
    }
    stop(&mut server)?;
    let collected =
        server.log.iter().find_map(|line| Some(line.split_once("Collected : ")?.1.trim().parse()));
    Ok(collected.context("callgrind printed no count")??)
}

fn stop(server: &mut ServerProcess) -> Result<()> {
    server.signal("TERM");
    server.process.wait()?;
    Ok(())
}

fn register(http: SocketAddr, data: &Path, names: usize) -> Result<()> {
    let token = fs::read_to_string(data.join("operator.token"))?;
    let mut connection = HttpConnection::open(http)?;
    let mut post = |path: &str, body: serde_json::Value| -> Result<serde_json::Value> {
        let request = HttpRequest::new("POST", &format!("/api/v1/{path}")).bearer(token.trim()).json(&body);
        let response = connection.exchange(&request)?;
        ensure!(response.status == 201, "{path}: {}{}", response.head, response.text());
        Ok(response.json())
    };
    post("agencies", json!({"code": "BENCH", "name": "Benchmark"}))?;
    let registrant = post("registrants", json!({"agency": "BENCH", "name": "Benchmark"}))?["id"].clone();
    let prefix = post("prefixes", json!({"registrant": registrant, "test": true}))?["prefix"].clone();
    let prefix = prefix.as_str().context("no prefix")?;
    for number in 0..names {
        post("dois", json!({"name": format!("{prefix}/{number}"), "url": "https://example.org/"}))?;
    }
    Ok(())
}

/// Requests per second of both servers, measured in interleaved rounds: the server on one core, the client on the other.
#[allow(clippy::print_stdout, reason = "this command prints a report")]
fn rates(
    folder: &Path,
    binaries: &[PathBuf; 2],
    data: &[PathBuf; 2],
    names: &[String],
) -> Result<Vec<Rates>> {
    wrk::ensure_installed()?;
    let (sh, mut servers) = (shell()?, Vec::new());
    for (binary, data) in binaries.iter().zip(data) {
        let [http, native] = [free_port(), free_port()].map(|port| format!("127.0.0.1:{port}"));
        let serve = cmd!(sh, "taskset -c 0 {binary} serve --http {http} --native {native} --data {data}");
        servers.push((start_server(serve)?, http, native));
    }
    println!("requests per second, medians of {ROUNDS}      old        new   ratio");
    let mut rates = Vec::new();
    for (label, prefix) in [("redirect", "/"), ("JSON", "/api/handles/")] {
        let script = write_wrk_script(folder, "names", prefix, names, "")?;
        rates.push(interleave(label, |side| run_wrk(&servers[side].1, &script))?);
    }
    let names_file = folder.join("names");
    fs::write(&names_file, names.join("\n"))?;
    let load = NativeLoad { names: names_file };
    for (label, transport) in
        [("native, UDP", "udp"), ("native, TCP", "tcp"), ("native, TCP, persistent", "persistent")]
    {
        rates.push(interleave(label, |side| load.run(transport, &servers[side].2))?);
    }
    Ok(rates)
}

/// Requests per second of two servers.
struct Rates {
    label: &'static str,
    old: f64,
    new: f64,
}

#[allow(clippy::print_stdout, reason = "this command prints a report")]
fn interleave(label: &'static str, round: impl Fn(usize) -> Result<LoadResult>) -> Result<Rates> {
    let mut rounds = [Vec::new(), Vec::new()];
    for number in 0..ROUNDS {
        // The order alternates, so that no side always runs second.
        for side in if number % 2 == 0 { [0, 1] } else { [1, 0] } {
            rounds[side].push(round(side)?);
        }
    }
    let [old, new] = rounds.map(|rounds| median_result(rounds).rate);
    println!("{label:<30} {old:>10.0} {new:>10.0} {:>7.3}", new / old);
    Ok(Rates { label, old, new })
}

/// Builds `tendot` with the profiles `dist` and `release`, each from nothing, and reports time, size and speed.
pub(crate) fn bench_build() -> Result<()> {
    let (sh, folder) = (shell()?, root().join("target/bench/build"));
    fs::create_dir_all(&folder)?;
    let mut report = String::from(
        "`cargo xtask bench build`: `tendot` built from nothing on two cores, dependencies downloaded.\n\n\
         | profile | seconds | MB |\n|---|---:|---:|\n",
    );
    let binaries = ["dist", "release"].map(|profile| (profile, folder.join(format!("tendot-{profile}"))));
    for (profile, binary) in &binaries {
        let built = root().join("target").join(profile);
        if built.exists() {
            fs::remove_dir_all(&built)?;
        }
        let start = std::time::Instant::now();
        cmd!(sh, "cargo build --quiet --package=tendot --profile {profile}").run()?;
        let seconds = start.elapsed().as_secs_f64();
        let size = fs::copy(built.join("tendot"), binary)? as f64 / 1e6;
        writeln!(report, "| `{profile}` | {seconds:.0} | {size:.1} |")?;
    }
    // The load generators.
    dist::build()?;
    let binaries = binaries.map(|(_, binary)| binary);
    let data = [folder.join("dist"), folder.join("release")];
    let mut names = Vec::new();
    for (binary, data) in binaries.iter().zip(&data) {
        names = prepare_store(&folder, binary, data)?;
    }
    writeln!(
        report,
        "\nRequests per second, medians of {ROUNDS} interleaved rounds, server on one core, client on the other:\n\n\
         | | `dist` | `release` | ratio |\n|---|---:|---:|---:|"
    )?;
    for Rates { label, old, new } in rates(&folder, &binaries, &data, &names)? {
        writeln!(report, "| {label} | {old:.0} | {new:.0} | {:.2} |", new / old)?;
    }
    write_section("build", &report)
}
