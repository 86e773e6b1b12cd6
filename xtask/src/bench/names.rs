//! Parsing, extraction, messages and JSON, as ratios to other programs on the same input at the same time.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use xshell::{Cmd, Shell, cmd};

use super::dist::{benchmark, tendot};
use super::measure::median;
use super::report::{Bar, write_plot, write_section};
use crate::process::{apt_install, is_installed, shell};
use crate::root;

const CORPUS_MEGABYTES: &str = "240";

const ROUNDS: usize = 7;

/// Runs the benchmark and writes the report.
pub(crate) fn bench_names() -> Result<()> {
    let folder = root().join("target/bench");
    std::fs::create_dir_all(&folder)?;
    let sh = shell()?;
    let mut report = NamesReport::default();
    measure_parsing(&mut report, &sh, &folder)?;
    measure_extraction(&mut report, &sh, &folder)?;
    // Prints the times of inputs that are made to be slow.
    benchmark(&sh, "find").arg("worst").run()?;

    let times = benchmark(&sh, "message").read()?;
    let [(_, sha256, bytes), (_, ours, _)] = parse_rate_lines(&times)?[..] else {
        bail!("expected two lines")
    };
    let peer = format!("time of one SHA-256 over the same {bytes} bytes");
    report.row("decode a native request and encode its response", &peer, ours / sha256);

    let rates = benchmark(&sh, "json").read()?;
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
fn measure_parsing(report: &mut NamesReport, sh: &Shell, folder: &Path) -> Result<()> {
    let (lines, script) = (folder.join("forms.txt"), root().join("bench/idutils_rate.py"));
    benchmark(sh, "read").arg("write").arg(&lines).run()?;
    let python = python_with_idutils(sh, folder)?;
    let idutils = cmd!(sh, "{python} {script} {lines}").read()?;
    let rust = benchmark(sh, "read").arg("run").arg(&lines).read()?;
    let rates = [parse_rate_lines(&idutils)?, parse_rate_lines(&rust)?].concat();
    let ((_, ours, _), peers) = rates.split_last().context("no rates")?;
    for (peer, rate, _) in peers {
        report.row("parse and normalize", peer, ours / rate);
    }
    Ok(())
}

/// Extracts names from text, on one and on two threads.
fn measure_extraction(report: &mut NamesReport, sh: &Shell, folder: &Path) -> Result<()> {
    let (tendot, corpus) = (tendot(), folder.join("corpus"));
    benchmark(sh, "find").arg("write").arg(&corpus).arg(CORPUS_MEGABYTES).run()?;
    if !is_installed("rg") {
        apt_install(&["ripgrep"])?;
    }
    let crossref_pattern = benchmark(sh, "read").arg("pattern").read()?;
    let mut times = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        let [ripgrep, one, two] = &mut times;
        ripgrep.push(run_timed(cmd!(sh, "rg -j1 -o -i -I {crossref_pattern} {corpus}"))?);
        one.push(run_timed(cmd!(sh, "{tendot} extract --threads=1 {corpus}"))?);
        two.push(run_timed(cmd!(sh, "{tendot} extract --threads=2 {corpus}"))?);
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

fn python_with_idutils(sh: &Shell, folder: &Path) -> Result<PathBuf> {
    let environment = folder.join("python");
    let python = environment.join("bin/python");
    if !python.exists() {
        cmd!(sh, "python3 -m venv {environment}").run()?;
        cmd!(sh, "{python} -m pip install --quiet idutils==1.7.1").run()?;
    }
    Ok(python)
}

fn run_timed(command: Cmd<'_>) -> Result<f64> {
    let command = command.quiet().ignore_stdout();
    let start = Instant::now();
    command.run()?;
    Ok(start.elapsed().as_secs_f64())
}
