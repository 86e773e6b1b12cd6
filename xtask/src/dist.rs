//! Programs as packages have them: built with the profile `dist`.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use crate::process::run;
use crate::root;

/// Builds `tendot` and programs of `bench/`.
pub(crate) fn build_dist(bench_programs: &[&str]) -> Result<()> {
    let cargo = |arguments: &[&str]| {
        run(Command::new("cargo").args(["build", "--profile=dist"]).args(arguments).current_dir(root()))
    };
    cargo(&["--package=tendot"])?;
    if bench_programs.is_empty() {
        return Ok(());
    }
    let bins = bench_programs.iter().flat_map(|program| ["--bin", program]);
    cargo(&["--package=tendot-bench"].into_iter().chain(bins).collect::<Vec<_>>())
}

/// The path of a program that [`build_dist`] has built.
pub(crate) fn dist(program: &str) -> PathBuf {
    root().join("target/dist").join(program)
}
