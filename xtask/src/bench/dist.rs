//! Programs as packages have them: built with the profile `dist`.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use crate::process::run;
use crate::root;

/// Builds `tendot` and the benchmarks.
pub(crate) fn build_dist() -> Result<()> {
    for package in ["--package=tendot", "--package=tendot-bench"] {
        run(Command::new("cargo").args(["build", "--profile=dist", package]).current_dir(root()))?;
    }
    Ok(())
}

/// The path of `tendot` as [`build_dist`] has built it.
pub(crate) fn tendot() -> PathBuf {
    root().join("target/dist/tendot")
}

/// The command that runs a benchmark.
pub(crate) fn benchmark(name: &str) -> Command {
    let mut command = Command::new(root().join("target/dist/tendot-bench"));
    command.arg(name);
    command
}
