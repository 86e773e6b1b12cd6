//! Speed, as ratios to other programs that run in the same minute on the same input.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};

use crate::process::{install, is_there, output, run};
use crate::root;

/// Crossref's pattern, its dot escaped.
const CROSSREF_PATTERN: &str = r"10\.\d{4,9}/[-._;()/:A-Z0-9]+";

const MEGABYTES: &str = "240";

const ROUNDS: usize = 7;

#[allow(clippy::print_stdout, reason = "the report is what this command is for")]
pub(crate) fn bench() -> Result<()> {
    let folder = root().join("target/bench");
    std::fs::create_dir_all(&folder)?;
    run(Command::new("cargo").args(["build", "--release", "--package=tendot"]).current_dir(root()))?;
    run(Command::new("cargo").args(["build", "--release"]).current_dir(root().join("bench")))?;
    let programs = root().join("bench/target/release");

    println!("\nReading and normalizing 1,000,000 written forms");
    let lines = folder.join("forms.txt");
    run(Command::new(programs.join("read")).arg("write").arg(&lines))?;
    let python = python_with_idutils(&folder)?;
    let idutils = output(Command::new(python).arg(root().join("bench/idutils_rate.py")).arg(&lines))?;
    let rust = output(Command::new(programs.join("read")).arg("run").arg(&lines))?;
    let rates: Vec<(&str, f64, &str)> =
        idutils.lines().chain(rust.lines()).map(rate).collect::<Option<_>>().context("three words a line")?;
    let ours = rates.last().context("our own rate")?.1;
    for (who, rate, accepted) in &rates {
        println!(
            "{who:>8} {:>12.0} a second, {accepted} accepted; tendot is {:.1} times as fast",
            rate,
            ours / rate
        );
    }

    println!("\nFinding names in {MEGABYTES} MB of text");
    let corpus = folder.join("corpus");
    run(Command::new(programs.join("find")).arg("write").arg(&corpus).arg(MEGABYTES))?;
    if !is_there("rg") {
        install(&["ripgrep"])?;
    }
    let mut times = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        let [ripgrep, one, two] = &mut times;
        ripgrep.push(seconds(
            Command::new("rg").args(["-j1", "-o", "-i", "-I", CROSSREF_PATTERN]).arg(&corpus),
        )?);
        one.push(seconds(tendot().args(["extract", "--threads=1"]).arg(&corpus))?);
        two.push(seconds(tendot().args(["extract", "--threads=2"]).arg(&corpus))?);
    }
    let [ripgrep, one, two] = times.map(median);
    println!("  ripgrep -o, one thread: {ripgrep:.3} s");
    println!("  tendot, one thread:     {one:.3} s, {:.2} times as fast as ripgrep", ripgrep / one);
    println!("  tendot, two threads:    {two:.3} s, {:.2} times as fast as one", one / two);

    println!("\nInputs made to be slow, the library alone");
    run(Command::new(programs.join("find")).arg("worst"))?;

    println!(
        "\nReading a resolution request and writing its response, against one SHA-256 over the same bytes"
    );
    let times = output(&mut Command::new(programs.join("message")))?;
    let times: Vec<(&str, f64, &str)> =
        times.lines().map(rate).collect::<Option<_>>().context("three words a line")?;
    let [(_, sha256, bytes), (_, ours, _)] = times[..] else { bail!("two lines") };
    println!("  SHA-256: {sha256:.0} ns over {bytes} bytes");
    println!("  tendot:  {ours:.0} ns, {:.2} of it", ours / sha256);

    println!("\nWriting 1,000,000 records as JSON, against serde_json with a derived struct");
    let rates = output(&mut Command::new(programs.join("json")))?;
    let rates: Vec<(&str, f64, &str)> =
        rates.lines().map(rate).collect::<Option<_>>().context("three words a line")?;
    let [(_, derived, _), (_, ours, _)] = rates[..] else { bail!("two lines") };
    println!("  derived: {derived:.0} a second");
    println!("  tendot:  {ours:.0} a second, {:.2} of it", ours / derived);
    Ok(())
}

/// The embedded store with so many records, and the bare engine with the same.
#[allow(clippy::print_stdout, reason = "the report is what this command is for")]
pub(crate) fn bench_store(records: u64) -> Result<()> {
    let folder = root().join("target/bench/store");
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    std::fs::create_dir_all(&folder)?;
    run(Command::new("cargo").args(["build", "--release"]).current_dir(root().join("bench")))?;
    let programs = root().join("bench/target/release");
    let report = output(Command::new(programs.join("store")).arg(&folder).arg(records.to_string()))?
        + &output(Command::new(programs.join("deposits")).arg(&folder))?;
    std::fs::remove_dir_all(&folder)?;
    // What was measured last counts: by then both are warm.
    let last = |what: &str, word: usize| -> Result<f64> {
        let line = report.lines().rfind(|line| line.split(' ').next() == Some(what));
        let number =
            line.and_then(|line| line.split(' ').nth(word)).context("a number for each measurement")?;
        Ok(number.parse()?)
    };
    println!("\n{records} records");
    println!("  imported  {:.0} a second, unsorted", last("import", 1)?);
    let (size, engine) = (last("size", 1)?, last("engine-size", 1)?);
    println!(
        "  on disk   {size:.1} bytes each, {:.2} of the wire form in the bare engine ({engine:.1})",
        size / engine
    );
    let (read, engine) = (last("read", 1)?, last("engine-read", 1)?);
    println!("  read      {read:.0} a second, {:.2} of the bare engine ({engine:.0})", read / engine);
    println!(
        "  p99       {:.1} µs, of the bare engine {:.1} µs",
        last("read", 3)? / 1e3,
        last("engine-read", 3)? / 1e3
    );
    let one = last("deposits-1", 1)?;
    println!("  deposits  {one:.0} a second by one writer, each durable before the next");
    for writers in [16, 64] {
        let rate = last(&format!("deposits-{writers}"), 1)?;
        println!("            {rate:.0} by {writers}, {:.1} times as many", rate / one);
    }
    Ok(())
}

fn tendot() -> Command {
    Command::new(root().join("target/release/tendot"))
}

/// `name rate accepted`
fn rate(line: &str) -> Option<(&str, f64, &str)> {
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

fn seconds(command: &mut Command) -> Result<f64> {
    let start = Instant::now();
    let status = command.stdout(Stdio::null()).status()?;
    ensure!(status.success(), "{command:?} failed: {status}");
    Ok(start.elapsed().as_secs_f64())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}
