//! Builds with the profile `dist`, as in packages.

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

/// Path of `tendot`, built by [`build_dist`].
pub(crate) fn tendot() -> PathBuf {
    root().join("target/dist/tendot")
}

/// Command that runs a benchmark of `tendot-bench`.
pub(crate) fn benchmark(name: &str) -> Command {
    let mut command = Command::new(root().join("target/dist/tendot-bench"));
    command.arg(name);
    command
}
