//! Redirects and JSON over HTTP, as ratios to nginx (the same bytes from memory) and to the Handle.Net server.
//!
//! Each server has one core, `wrk` the other; rounds are interleaved, and the median counts.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use tendot_testing::{ServerProcess, anonymous_memory};
use xshell::cmd;

use super::dist::{benchmark, tendot};
use super::measure::{MarkdownTable, group_digits, record_names};
use super::report::{Bar, write_plot, write_section};
use super::wrk::{self, ROUND_SECONDS, median_result, run_wrk, write_wrk_script};
use crate::interop::java::HandleNetProcess;
use crate::process::{apt_install, is_installed, on_core, run_to_file, shell, start_server};
use crate::root;

pub(crate) const RECORDS: &str = "1000000";
const SAMPLE_NAMES: usize = 10_000;
pub(crate) const ROUNDS: usize = 5;
const TENDOT_ADDR: &str = "127.0.0.1:18080";
const NGINX_ADDR: &str = "127.0.0.1:18081";
const HANDLE_NET_ADDR: &str = "127.0.0.1:18083";

/// Added to a wrk script to leave some CPU idle.
const WRK_DELAY: &str = "delay = function() return 1 end\n";

/// Requests per memory sample, and the number of samples.
const REQUESTS_PER_SAMPLE: f64 = 1e6;
const MEMORY_SAMPLES: u32 = 10;

pub(crate) fn bench_http() -> Result<()> {
    wrk::ensure_installed()?;
    if !is_installed("nginx") {
        apt_install(&["nginx-light"])?;
    }
    let folder = root().join("target/bench/http");
    fs::create_dir_all(&folder)?;
    let tendot = tendot();
    let data = folder.join("data");
    let names = prepare_store(&folder, &tendot, &data)?;

    let started = Instant::now();
    let server = start_tendot(&tendot, &data)?;
    let ready = started.elapsed();
    let _nginx = start_nginx(&folder, &names[0])?;
    let java = start_java(&folder)?;
    let script = write_wrk_script(&folder, "names", "/", &names, "")?;
    // Warm-up for the JIT compiler.
    for _ in 0..ROUNDS {
        run_wrk(HANDLE_NET_ADDR, &script)?;
    }

    let mut section = format!(
        "`cargo xtask bench http`. nginx has the bytes of one of our responses in memory. The server is ready {} ms after its start.\n\n\
         ![Redirects and JSON relative to nginx and Handle.Net](../images/performance-http.svg)\n\n",
        ready.as_millis()
    );
    let columns = ["Tendot", "nginx", "ratio", "Handle.Net", "ratio"];
    let mut table = MarkdownTable::new(&mut section, columns.into_iter().map(str::to_owned))?;
    let mut bars = Vec::new();
    for (label, prefix) in [("redirect", "/"), ("JSON record", "/api/handles/")] {
        measure_requests(&mut table, &mut bars, &folder, &names, (label, prefix), [&server, &java])?;
    }

    let script = write_wrk_script(&folder, "names", "/api/handles/", &names, "")?;
    let mut memory = 0;
    for _ in 0..MEMORY_SAMPLES {
        let mut requests = 0.0;
        while requests < REQUESTS_PER_SAMPLE {
            requests += run_wrk(TENDOT_ADDR, &script)?.rate * ROUND_SECONDS;
        }
        memory = memory.max(anonymous_memory(server.process.id()));
    }
    let memory = memory as f64 / (1 << 20) as f64;
    writeln!(section, "\nMemory during {MEMORY_SAMPLES} million further requests: at most {memory:.1} MiB.")?;
    write_plot("http", &bars)?;
    write_section("http", &section)
}

/// Measures one kind of request at all three servers and adds the rows.
fn measure_requests(
    table: &mut MarkdownTable<'_>,
    bars: &mut Vec<Bar>,
    folder: &Path,
    names: &[String],
    (label, prefix): (&str, &str),
    [server, java]: [&ServerProcess; 2],
) -> Result<()> {
    let fixed_path = [if prefix == "/" { "redirect" } else { "json" }];
    let script = write_wrk_script(folder, "names", prefix, names, "")?;
    let fixed = write_wrk_script(folder, "fixed", "/", fixed_path, "")?;
    let [mut ours, mut nginx, mut theirs] = [const { Vec::new() }; 3];
    let [mut our_time, mut their_time] = [0.0; 2];
    for _ in 0..ROUNDS {
        let before = server.cpu_time().as_secs_f64();
        ours.push(run_wrk(TENDOT_ADDR, &script)?);
        our_time += server.cpu_time().as_secs_f64() - before;
        nginx.push(run_wrk(NGINX_ADDR, &fixed)?);
        let before = java.cpu_time().as_secs_f64();
        theirs.push(run_wrk(HANDLE_NET_ADDR, &script)?);
        their_time += java.cpu_time().as_secs_f64() - before;
    }
    our_time *= 1e6 / ours.iter().map(|round| round.requests).sum::<f64>();
    their_time *= 1e6 / theirs.iter().map(|round| round.requests).sum::<f64>();
    let [ours, nginx, theirs] = [ours, nginx, theirs].map(median_result);
    let rate = |number: f64| group_digits(number as u64);
    let micros = |number: f64| format!("{} µs", group_digits(number as u64));
    let ratio = |ours: f64, theirs: f64| format!("{:.2}", ours / theirs);
    table.row(
        &format!("{label}s/s"),
        [
            rate(ours.rate),
            rate(nginx.rate),
            ratio(ours.rate, nginx.rate),
            rate(theirs.rate),
            ratio(ours.rate, theirs.rate),
        ],
    )?;
    table.row(
        &format!("{label} p99"),
        [
            micros(ours.p99),
            micros(nginx.p99),
            ratio(ours.p99, nginx.p99),
            micros(theirs.p99),
            ratio(ours.p99, theirs.p99),
        ],
    )?;
    bars.push(Bar { label: format!("{label}s/s, relative to nginx"), ratio: ours.rate / nginx.rate });
    bars.push(Bar { label: format!("{label}s/s, relative to Handle.Net"), ratio: ours.rate / theirs.rate });

    // A shared machine does not always provide two full cores, so the latency is measured with some idle time.
    let script = write_wrk_script(folder, "names", prefix, names, WRK_DELAY)?;
    let fixed = write_wrk_script(folder, "fixed", "/", fixed_path, WRK_DELAY)?;
    let [mut ours, mut nginx] = [const { Vec::new() }; 2];
    for _ in 0..ROUNDS {
        ours.push(run_wrk(TENDOT_ADDR, &script)?);
        nginx.push(run_wrk(NGINX_ADDR, &fixed)?);
    }
    let [ours, nginx] = [ours, nginx].map(median_result);
    let label_idle = format!("{label} p99, 1 ms think time ({}/s)", rate(ours.rate));
    let empty = String::new;
    table.row(
        &label_idle,
        [micros(ours.p99), micros(nginx.p99), ratio(ours.p99, nginx.p99), empty(), empty()],
    )?;
    // CPU time per request is comparable on a busy machine, too.
    table.row(
        &format!("CPU time per {label}"),
        [
            format!("{our_time:.1} µs"),
            empty(),
            empty(),
            format!("{their_time:.1} µs"),
            ratio(our_time, their_time),
        ],
    )
}

/// Creates the store unless it exists; returns a sample of its names in random order.
pub(crate) fn prepare_store(folder: &Path, tendot: &Path, data: &Path) -> Result<Vec<String>> {
    let lines = folder.join("records.jsonl");
    if !data.join("data.mdb").exists() || !lines.exists() {
        let sh = shell()?;
        run_to_file(benchmark(&sh, "records").args(["lines", RECORDS]), &lines)?;
        cmd!(sh, "{tendot} import {lines} --data {data}").run()?;
    }
    // Every hundredth record; the input order is unrelated to the key order.
    let names = record_names(&lines)?.step_by(100).collect::<Result<Vec<_>>>()?;
    ensure!(names.len() == SAMPLE_NAMES, "{} names were found", names.len());
    Ok(names)
}

fn start_tendot(tendot: &Path, data: &Path) -> Result<ServerProcess> {
    let sh = shell()?;
    start_server(cmd!(sh, "taskset -c 0 {tendot} serve --native off --http {TENDOT_ADDR} --data {data}"))
}

/// Starts the Handle.Net server with the same records.
fn start_java(folder: &Path) -> Result<ServerProcess> {
    let (_, port) = HANDLE_NET_ADDR.split_once(':').context("no port")?;
    let (java, records) = (folder.join("java"), folder.join("records.jsonl"));
    let server = HandleNetProcess {
        data_dir: &java,
        native: 18082,
        http: port.parse()?,
        https: 18084,
        server_admin: "300:0.NA/10.1000",
        records: &records,
        is_durable: false,
    };
    start_server(on_core("0", server.command()?))
}

/// Starts nginx with one worker and one response of Tendot in memory.
fn start_nginx(folder: &Path, name: &str) -> Result<ServerProcess> {
    // Another server at this address would be measured instead.
    ensure!(std::net::TcpStream::connect(NGINX_ADDR).is_err(), "another server listens on {NGINX_ADDR}");
    let sh = shell()?;
    let head = cmd!(sh, "curl -s -i http://{TENDOT_ADDR}/{name}").read()?;
    let (head, _) = head.split_once("\r\n\r\n").context("no response")?;
    let json = cmd!(sh, "curl -s http://{TENDOT_ADDR}/api/handles/{name}").read()?;
    let mut added = String::new();
    for line in head.lines().skip(1) {
        let (header, value) = line.split_once(": ").unwrap_or_default();
        if !["date", "content-length", "content-type", "location"].contains(&header) {
            writeln!(added, "add_header {header} '{}' always;", value.replace('\'', ""))?;
        }
    }
    let location = head.lines().find_map(|line| line.strip_prefix("location: ")).context("no location")?;
    let (path, quoted) = (folder.display(), |text: &str| text.replace('\'', "\\'").replace('$', ""));
    let configuration = format!(
        "worker_processes 1; master_process off; daemon off; pid {path}/nginx.pid; error_log {path}/nginx.log;\n\
         events {{ worker_connections 1024; }}\n\
         http {{ access_log off; keepalive_requests 100000000;\n\
         server {{ listen {NGINX_ADDR}; {added}\n\
         location /redirect {{ {added} return 302 '{location}'; }}\n\
         location /json {{ default_type application/json; return 200 '{}'; }} }} }}\n",
        quoted(&json),
    );
    let file = folder.join("nginx.conf");
    fs::write(&file, configuration)?;
    let nginx = cmd!(sh, "taskset -c 0 nginx -c {file}").ignore_stdout();
    let process = Command::from(nginx).spawn()?;
    let server = ServerProcess { process, ready: String::new(), startup: String::new(), log: channel().1 };
    for _ in 0..100 {
        if std::net::TcpStream::connect(NGINX_ADDR).is_ok() {
            return Ok(server);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    anyhow::bail!("nginx did not start: see {}", folder.join("nginx.log").display())
}
