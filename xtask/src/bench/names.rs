//! Parsing, extraction, messages and JSON, as ratios to other programs on the same input at the same time.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};

use super::dist::{benchmark, build_dist, tendot};
use super::measure::median;
use super::report::{Bar, write_plot, write_section};
use crate::process::{apt_install, is_installed, output, run};
use crate::root;

/// Crossref's regular expression for DOI names, with its dot escaped.
const CROSSREF_PATTERN: &str = r"10\.\d{4,9}/[-._;()/:A-Z0-9]+";

const CORPUS_MEGABYTES: &str = "240";

const ROUNDS: usize = 7;

/// Runs the benchmark and writes the report.
pub(crate) fn bench_names() -> Result<()> {
    let folder = root().join("target/bench");
    std::fs::create_dir_all(&folder)?;
    build_dist()?;
    let mut report = NamesReport::default();
    measure_parsing(&mut report, &folder)?;
    measure_extraction(&mut report, &folder)?;
    // Prints the times of inputs that are made to be slow.
    run(benchmark("find").arg("worst"))?;

    let times = output(&mut benchmark("message"))?;
    let [(_, sha256, bytes), (_, ours, _)] = parse_rate_lines(&times)?[..] else {
        bail!("expected two lines")
    };
    let peer = format!("time of one SHA-256 over the same {bytes} bytes");
    report.row("decode a native request and encode its response", &peer, ours / sha256);

    let rates = output(&mut benchmark("json"))?;
    let [(_, derived, _), (_, ours, _)] = parse_rate_lines(&rates)?[..] else { bail!("expected two lines") };
    report.row("write records as JSON", "`serde_json` with a derived struct", ours / derived);
    report.write()
}

/// Rows and bars of the report.
#[derive(Default)]
struct NamesReport {
    rows: String,
    bars: Vec<Bar>,
}

impl NamesReport {
    fn row(&mut self, task: &str, peer: &str, ratio: f64) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.rows, "| {task} | {peer} | {ratio:.2} × |");
        self.bars.push(Bar { label: format!("{task} / {}", peer.replace('`', "")), ratio });
    }

    fn write(&self) -> Result<()> {
        // Decoding is compared by time: less is better, unlike in the other rows.
        let bars: Vec<Bar> = self
            .bars
            .iter()
            .filter(|bar| !bar.label.contains("SHA-256"))
            .map(|bar| Bar { label: bar.label.clone(), ratio: bar.ratio })
            .collect();
        write_plot("names", &bars)?;
        let section = format!(
            "`cargo xtask bench names`. Medians of {ROUNDS} rounds.\n\n\
             ![Parsing and extraction relative to other programs](../images/performance-names.svg)\n\n\
             | task | relative to | ratio |\n|---|---|---:|\n{}",
            self.rows
        );
        write_section("names", &section)
    }
}

/// Parses and normalizes 1,000,000 written forms.
fn measure_parsing(report: &mut NamesReport, folder: &Path) -> Result<()> {
    let lines = folder.join("forms.txt");
    run(benchmark("read").arg("write").arg(&lines))?;
    let python = python_with_idutils(folder)?;
    let idutils = output(Command::new(python).arg(root().join("bench/idutils_rate.py")).arg(&lines))?;
    let rust = output(benchmark("read").arg("run").arg(&lines))?;
    let rates = [parse_rate_lines(&idutils)?, parse_rate_lines(&rust)?].concat();
    let ((_, ours, _), peers) = rates.split_last().context("no rates")?;
    for (peer, rate, _) in peers {
        report.row("parse and normalize", peer, ours / rate);
    }
    Ok(())
}

/// Extracts names from text, on one and on two threads.
fn measure_extraction(report: &mut NamesReport, folder: &Path) -> Result<()> {
    let corpus = folder.join("corpus");
    run(benchmark("find").arg("write").arg(&corpus).arg(CORPUS_MEGABYTES))?;
    if !is_installed("rg") {
        apt_install(&["ripgrep"])?;
    }
    let mut times = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        let [ripgrep, one, two] = &mut times;
        ripgrep.push(run_timed(
            Command::new("rg").args(["-j1", "-o", "-i", "-I", CROSSREF_PATTERN]).arg(&corpus),
        )?);
        one.push(run_timed(Command::new(tendot()).args(["extract", "--threads=1"]).arg(&corpus))?);
        two.push(run_timed(Command::new(tendot()).args(["extract", "--threads=2"]).arg(&corpus))?);
    }
    let [ripgrep, one, two] = times.map(median);
    let task = format!("extract from {CORPUS_MEGABYTES} MB, one thread");
    report.row(&task, "`ripgrep -o` with Crossref's pattern", ripgrep / one);
    report.row("the same on two threads", "one thread", one / two);
    Ok(())
}

/// Parses lines of `name rate accepted`.
fn parse_rate_lines(text: &str) -> Result<Vec<(&str, f64, &str)>> {
    fn parse(line: &str) -> Option<(&str, f64, &str)> {
        let mut words = line.split(' ');
        Some((words.next()?, words.next()?.parse().ok()?, words.next()?))
    }
    text.lines().map(parse).collect::<Option<_>>().context("expected `NAME RATE COUNT`")
}

fn python_with_idutils(folder: &Path) -> Result<std::path::PathBuf> {
    let environment = folder.join("python");
    let python = environment.join("bin/python");
    if !python.exists() {
        run(Command::new("python3").args(["-m", "venv"]).arg(&environment))?;
        run(Command::new(&python).args(["-m", "pip", "install", "--quiet", "idutils==1.7.1"]))?;
    }
    Ok(python)
}

fn run_timed(command: &mut Command) -> Result<f64> {
    let start = Instant::now();
    let status = command.stdout(Stdio::null()).status()?;
    ensure!(status.success(), "{command:?} failed: {status}");
    Ok(start.elapsed().as_secs_f64())
}
