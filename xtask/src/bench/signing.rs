//! Cost of signed records: signatures on write, and their verification.

use anyhow::Result;

use super::dist::benchmark;
use super::measure::recreate_dir;
use crate::process::shell;
use crate::root;

/// Runs the benchmark, which prints its figures.
pub(crate) fn bench_signing() -> Result<()> {
    let sh = shell()?;
    let folder = root().join("target/bench/signing");
    recreate_dir(&folder)?;
    Ok(benchmark(&sh, "signing").arg(&folder).run()?)
}
