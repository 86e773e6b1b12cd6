//! Coverage-guided fuzzing with libFuzzer, on the toolchain that builds everything else.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::process::{install, is_there, output, run};
use crate::root;

/// What `cargo fuzz` would pass, without the sanitizers, which need another toolchain; the code fuzzed has no
/// `unsafe` but one cast.
const FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1";

const TARGETS: [&str; 3] = ["read", "forms", "extract"];

/// Runs every target, or one, for so many seconds each, beginning with the cases of the vectors. With a `seed`, every
/// run tries the same inputs in the same order, as far as it gets: a check of changes must not fail by chance.
pub(crate) fn fuzz(only: Option<&str>, seconds: u32, seed: Option<u32>) -> Result<()> {
    if let Some(only) = only {
        ensure!(TARGETS.contains(&only), "there is no fuzz target `{only}`; there are {TARGETS:?}");
    }
    if !is_there("c++") {
        install(&["g++"])?;
    }
    let folder = root().join("fuzz");
    let version = output(Command::new("rustc").arg("-vV"))?;
    let host =
        version.lines().find_map(|line| line.strip_prefix("host: ")).context("rustc tells its host")?;
    run(Command::new("cargo")
        .args(["build", "--release", "--target", host])
        .env("RUSTFLAGS", FLAGS)
        .current_dir(&folder))?;
    let seeds = seeds(&folder)?;
    for target in TARGETS.into_iter().filter(|target| only.is_none_or(|only| only == *target)) {
        let corpus = folder.join("corpus").join(target);
        let artifacts = folder.join("artifacts").join(target);
        fs::create_dir_all(&corpus)?;
        fs::create_dir_all(&artifacts)?;
        run(Command::new(folder.join("target").join(host).join("release").join(target))
            .arg(format!("-max_total_time={seconds}"))
            .args(["-timeout=5", "-max_len=4096", "-print_final_stats=1", "-verbosity=0"])
            .args(seed.map(|seed| format!("-seed={seed}")))
            .arg(format!("-artifact_prefix={}/", artifacts.display()))
            .arg(corpus)
            .arg(&seeds))?;
    }
    Ok(())
}

/// The inputs of the vectors as files, for the fuzzer to begin with.
fn seeds(folder: &Path) -> Result<std::path::PathBuf> {
    let seeds = folder.join("corpus/seeds");
    fs::create_dir_all(&seeds)?;
    let vectors = root().join("conformance/vectors");
    let cases = fs::read_to_string(vectors.join("names.jsonl"))?
        + &fs::read_to_string(vectors.join("names-more.jsonl"))?;
    for (number, line) in cases.lines().enumerate() {
        let case: serde_json::Value = serde_json::from_str(line)?;
        if let Some(input) = case["input"].as_str() {
            fs::write(seeds.join(number.to_string()), input)?;
            // The target for extraction takes its settings from the first byte.
            fs::write(seeds.join(format!("{number}-text")), format!("\0{input}"))?;
        }
    }
    Ok(seeds)
}
