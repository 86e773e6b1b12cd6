//! Running other programs: a shell in the workspace, which prints each command line, and servers.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Result, anyhow, ensure};
use tendot_testing::ServerProcess;
pub(crate) use tendot_testing::is_installed;
use xshell::{Cmd, Shell, cmd};

use crate::root;

/// Shell whose current directory is the root of the workspace.
pub(crate) fn shell() -> Result<Shell> {
    let sh = Shell::new()?;
    sh.change_dir(root());
    Ok(sh)
}

/// Time in which a server is ready: Handle.Net first loads a million records.
const START_TIMEOUT: Duration = Duration::from_secs(600);

/// Starts a server and waits until it prints a line that begins with `ready` on stderr.
pub(crate) fn start_server(command: impl Into<Command>) -> Result<ServerProcess> {
    let mut command = command.into();
    ServerProcess::try_start(command.stdout(Stdio::null()), START_TIMEOUT)
        .map_err(|output| anyhow!("{command:?} did not become ready:\n{output}"))
}

/// Command pinned to a core.
pub(crate) fn on_core(core: &str, command: impl Into<Command>) -> Command {
    let command = command.into();
    let mut pinned = Command::new("taskset");
    pinned.args(["-c", core]).arg(command.get_program()).args(command.get_args());
    pinned
}

/// Runs a command that must succeed, with its standard output in a file.
#[allow(clippy::print_stderr, reason = "prints each command line")]
pub(crate) fn run_to_file(command: Cmd<'_>, path: &Path) -> Result<()> {
    let line = command.to_string();
    eprintln!("$ {line} > {}", path.display());
    let status = Command::from(command).stdout(File::create(path)?).status()?;
    ensure!(status.success(), "`{line}` failed: {status}");
    Ok(())
}

/// Installs Debian packages.
pub(crate) fn apt_install(packages: &[&str]) -> Result<()> {
    let sh = shell()?;
    cmd!(sh, "apt-get update -qq").run()?;
    Ok(cmd!(sh, "apt-get install -y -qq --no-install-recommends {packages...}").run()?)
}
