//! Coverage-guided fuzzing with libFuzzer, on the toolchain that builds everything else.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use anyhow::{Context as _, Result, ensure};
use tendot_testing::fuzz_inputs::{TARGETS, inputs};
use tendot_testing::hex;
use xshell::cmd;

use crate::process::{apt_install, is_installed, shell};
use crate::report::Counts;
use crate::root;

/// Flags of `cargo fuzz` without sanitizers, which need a nightly toolchain; the fuzzed code has one `unsafe` cast.
const RUSTFLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1";

/// Environment variable that selects the target.
const TARGET_ENV: &str = "TENDOT_FUZZ_TARGET";

/// Fuzzes all targets, or one, for this time each, two in parallel, starting with seeds and corpora.
pub(crate) fn fuzz(only: Option<&str>, seconds: u32) -> Result<Counts> {
    if let Some(only) = only {
        ensure!(TARGETS.contains(&only), "unknown fuzz target `{only}`; the targets are {TARGETS:?}");
    }
    let program = build()?;
    for_each_target(only, |target| {
        let folder = root().join("fuzz");
        let seeds = write_inputs(&folder.join("corpus/seeds").join(target), &inputs(target))?;
        let corpus = folder.join("corpus").join(target);
        let artifacts = folder.join("artifacts").join(target);
        fs::create_dir_all(&corpus)?;
        fs::create_dir_all(&artifacts)?;
        let (sh, seconds) = (shell()?, seconds.to_string());
        let options = ["-timeout=5", "-max_len=4096", "-print_final_stats=1", "-verbosity=0"];
        let fuzz = cmd!(
            sh,
            "{program} -max_total_time={seconds} -artifact_prefix={artifacts}/ {options...} {corpus} {seeds}"
        );
        Ok(fuzz.env(TARGET_ENV, target).run()?)
    })
}

/// Calls `each` for all targets, or one, two in parallel; prints errors and counts results.
#[allow(clippy::print_stderr, reason = "errors of targets are what the command is for")]
fn for_each_target(only: Option<&str>, each: impl Fn(&str) -> Result<()> + Sync) -> Result<Counts> {
    let next = Mutex::new(TARGETS.into_iter().filter(|target| only.is_none_or(|only| only == *target)));
    let counts = Mutex::new(Counts::default());
    let work = || {
        loop {
            let Some(target) = next.lock().expect("no panic while it is held").next() else { return };
            let result = each(target);
            let mut counts = counts.lock().expect("no panic while it is held");
            match result {
                Ok(()) => counts.passed += 1,
                Err(error) => {
                    eprintln!("fuzzing `{target}` failed: {error:#}");
                    counts.failed += 1;
                }
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(work);
        work();
    });
    Ok(counts.into_inner()?)
}

/// Builds the targets with the coverage counters of libFuzzer; returns the path of the program.
fn build() -> Result<PathBuf> {
    if !is_installed("c++") {
        apt_install(&["g++"])?;
    }
    let sh = shell()?;
    let version = cmd!(sh, "rustc -vV").read()?;
    let host =
        version.lines().find_map(|line| line.strip_prefix("host: ")).context("no host in rustc -vV")?;
    let target_dir = root().join("target/fuzz");
    cmd!(sh, "cargo build --profile=fuzz --package=tendot-fuzz --target {host} --target-dir {target_dir}")
        .env("RUSTFLAGS", RUSTFLAGS)
        .run()?;
    Ok(target_dir.join(host).join("fuzz/tendot-fuzz"))
}

/// Minimizes the corpus of a target and saves the shortest inputs, one per line.
pub(crate) fn minimize_corpus(target: &str) -> Result<()> {
    let program = build()?;
    let folder = root().join("fuzz");
    let merged = folder.join("corpus/merged").join(target);
    if merged.exists() {
        fs::remove_dir_all(&merged)?;
    }
    fs::create_dir_all(&merged)?;
    let corpora = [folder.join("corpus").join(target), folder.join("corpus/seeds").join(target)];
    let sh = shell()?;
    cmd!(sh, "{program} -merge=1 -max_len=1024 {merged} {corpora...}").env(TARGET_ENV, target).run()?;
    let mut inputs = Vec::new();
    for entry in fs::read_dir(&merged)? {
        inputs.push(fs::read(entry?.path())?);
    }
    inputs.sort_by(|a, b| a.len().cmp(&b.len()).then_with(|| a.cmp(b)));
    inputs.truncate(MAX_SAVED_INPUTS);
    let lines: String = inputs.iter().map(|input| hex::encode(input) + "\n").collect();
    fs::create_dir_all(folder.join("corpora"))?;
    Ok(fs::write(folder.join("corpora").join(format!("{target}.hex")), lines)?)
}

/// Maximum number of saved inputs per target.
const MAX_SAVED_INPUTS: usize = 400;

fn write_inputs(folder: &Path, seeds: &[Vec<u8>]) -> Result<PathBuf> {
    fs::create_dir_all(folder)?;
    for (number, seed) in seeds.iter().enumerate() {
        fs::write(folder.join(number.to_string()), seed)?;
    }
    Ok(folder.to_owned())
}
