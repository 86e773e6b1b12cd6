//! Builds with the profile `dist`, as in packages.

use std::path::PathBuf;

use anyhow::Result;
use xshell::{Cmd, Shell, cmd};

use crate::process::shell;
use crate::root;

/// Builds `tendot` and the benchmarks.
pub(crate) fn build() -> Result<()> {
    let sh = shell()?;
    for package in ["tendot", "tendot-bench"] {
        cmd!(sh, "cargo build --profile=dist --package={package}").run()?;
    }
    Ok(())
}

/// Path of `tendot`.
pub(crate) fn tendot() -> PathBuf {
    root().join("target/dist/tendot")
}

/// Command that runs a benchmark of `tendot-bench`.
pub(crate) fn benchmark<'a>(sh: &'a Shell, name: &str) -> Cmd<'a> {
    sh.cmd(root().join("target/dist/tendot-bench")).arg(name)
}
