//! `wrk`, the HTTP load generator.

use std::fmt::{Display, Write as _};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use xshell::cmd;

use crate::process::{apt_install, on_core, shell};

/// Duration of one round.
pub(crate) const ROUND_SECONDS: f64 = 4.0;

/// End of every script: requests in sequence, and the line with the results.
const WRK_SCRIPT: &str = "\
request = function()
  at = at % #requests + 1
  return requests[at]
end
done = function(summary, latency)
  local errors = summary.errors
  io.write(string.format('measured %d %f %f %d\\n', summary.requests, summary.requests / summary.duration * 1e6,
    latency:percentile(99), errors.connect + errors.read + errors.write + errors.timeout + errors.status))
end
";

/// Writes a script that requests the names in sequence, with a path prefix; `end` is added to the script. The paths are in a
/// file of their own, because Lua limits the number of constants.
pub(crate) fn write_wrk_script(
    folder: &Path,
    file_name: &str,
    prefix: &str,
    names: impl IntoIterator<Item = impl Display>,
    end: &str,
) -> Result<PathBuf> {
    let (paths, script) = (folder.join(format!("{file_name}.txt")), folder.join(format!("{file_name}.lua")));
    let mut lines = String::new();
    for name in names {
        writeln!(lines, "{prefix}{name}")?;
    }
    fs::write(&paths, lines)?;
    let text = format!(
        "local at, requests = 0, {{}}\n\
         init = function()\n  for path in io.lines({:?}) do requests[#requests + 1] = wrk.format('GET', path) end\nend\n\
         {WRK_SCRIPT}{end}",
        paths.display().to_string()
    );
    fs::write(&script, text)?;
    Ok(script)
}

/// Installs `wrk` if it is missing.
pub(crate) fn ensure_installed() -> Result<()> {
    // Exits with 1 even for `-v`; that it starts is enough.
    if Command::new("wrk").arg("-v").output().is_err() {
        apt_install(&["wrk"])?;
    }
    Ok(())
}

/// Requests, rate and p99 of one load run.
#[derive(Clone, Copy)]
pub(crate) struct LoadResult {
    pub(crate) requests: f64,
    pub(crate) rate: f64,
    pub(crate) p99: f64,
}

/// Runs wrk with 32 connections on the second core.
pub(crate) fn run_wrk(address: &str, script: &Path) -> Result<LoadResult> {
    wrk_result(start_wrk(address, script, Some("1"))?)
}

/// Starts wrk, pinned to a core if one is given.
pub(crate) fn start_wrk(address: &str, script: &Path, core: Option<&str>) -> Result<Child> {
    let (sh, seconds) = (shell()?, ROUND_SECONDS.to_string());
    let wrk = Command::from(cmd!(sh, "wrk -t1 -c32 -d{seconds}s -s {script} http://{address}/"));
    let mut wrk = if let Some(core) = core { on_core(core, wrk) } else { wrk };
    Ok(wrk.stdout(Stdio::piped()).spawn()?)
}

/// Waits for wrk and parses its results.
pub(crate) fn wrk_result(child: Child) -> Result<LoadResult> {
    let printed = String::from_utf8(child.wait_with_output()?.stdout)?;
    let line =
        printed.lines().find_map(|line| line.strip_prefix("measured ")).context("wrk measured nothing")?;
    let numbers: Vec<f64> = line.split(' ').map(str::parse).collect::<Result<_, _>>()?;
    let &[requests, rate, p99, errors] = &numbers[..] else { anyhow::bail!("`{line}`") };
    ensure!(errors == 0.0, "{errors} requests failed");
    Ok(LoadResult { requests, rate, p99 })
}

/// Median of the rates, and median of the p99 times.
pub(crate) fn median_result(mut all: Vec<LoadResult>) -> LoadResult {
    all.sort_by(|a, b| a.rate.total_cmp(&b.rate));
    let LoadResult { requests, rate, .. } = all[all.len() / 2];
    all.sort_by(|a, b| a.p99.total_cmp(&b.p99));
    LoadResult { requests, rate, p99: all[all.len() / 2].p99 }
}
