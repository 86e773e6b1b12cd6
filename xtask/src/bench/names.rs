//! Parsing, extraction, messages and JSON, as ratios to other programs on the same input at the same time.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};

use super::dist::{benchmark, build_dist, tendot};
use crate::process::{apt_install, is_installed, output, run};
use crate::root;

/// Crossref's regular expression for DOI names, with its dot escaped.
const CROSSREF_PATTERN: &str = r"10\.\d{4,9}/[-._;()/:A-Z0-9]+";

const CORPUS_MEGABYTES: &str = "240";

const ROUNDS: usize = 7;

#[allow(clippy::print_stdout, reason = "this command prints a report")]
pub(crate) fn bench() -> Result<()> {
    let folder = root().join("target/bench");
    std::fs::create_dir_all(&folder)?;
    build_dist()?;

    println!("\nReading and normalizing 1,000,000 written forms");
    let lines = folder.join("forms.txt");
    run(benchmark("read").arg("write").arg(&lines))?;
    let python = python_with_idutils(&folder)?;
    let idutils = output(Command::new(python).arg(root().join("bench/idutils_rate.py")).arg(&lines))?;
    let rust = output(benchmark("read").arg("run").arg(&lines))?;
    let rates: Vec<(&str, f64, &str)> = idutils
        .lines()
        .chain(rust.lines())
        .map(parse_rate_line)
        .collect::<Option<_>>()
        .context("three words a line")?;
    let ours = rates.last().context("our own rate")?.1;
    for (who, rate, accepted) in &rates {
        println!(
            "{who:>8} {:>12.0} a second, {accepted} accepted; tendot is {:.1} times as fast",
            rate,
            ours / rate
        );
    }

    println!("\nFinding names in {CORPUS_MEGABYTES} MB of text");
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
    println!("  ripgrep -o, one thread: {ripgrep:.3} s");
    println!("  tendot, one thread:     {one:.3} s, {:.2} times as fast as ripgrep", ripgrep / one);
    println!("  tendot, two threads:    {two:.3} s, {:.2} times as fast as one", one / two);

    println!("\nInputs made to be slow, the library alone");
    run(benchmark("find").arg("worst"))?;

    println!(
        "\nReading a resolution request and writing its response, against one SHA-256 over the same bytes"
    );
    let times = output(&mut benchmark("message"))?;
    let times: Vec<(&str, f64, &str)> =
        times.lines().map(parse_rate_line).collect::<Option<_>>().context("three words a line")?;
    let [(_, sha256, bytes), (_, ours, _)] = times[..] else { bail!("two lines") };
    println!("  SHA-256: {sha256:.0} ns over {bytes} bytes");
    println!("  tendot:  {ours:.0} ns, {:.2} of it", ours / sha256);

    println!("\nWriting 1,000,000 records as JSON, against serde_json with a derived struct");
    let rates = output(&mut benchmark("json"))?;
    let rates: Vec<(&str, f64, &str)> =
        rates.lines().map(parse_rate_line).collect::<Option<_>>().context("three words a line")?;
    let [(_, derived, _), (_, ours, _)] = rates[..] else { bail!("two lines") };
    println!("  derived: {derived:.0} a second");
    println!("  tendot:  {ours:.0} a second, {:.2} of it", ours / derived);
    Ok(())
}

/// Parses `name rate accepted`.
fn parse_rate_line(line: &str) -> Option<(&str, f64, &str)> {
    let mut words = line.split(' ');
    Some((words.next()?, words.next()?.parse().ok()?, words.next()?))
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

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}
