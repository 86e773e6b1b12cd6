//! Running other programs: prints each command line; a failed program is an error.

use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use tendot_testing::ServerProcess;

/// Time in which a server is ready: Handle.Net first loads a million records.
const START_TIMEOUT: Duration = Duration::from_secs(600);

/// Starts a server and waits until it prints a line that begins with `ready` on stderr.
pub(crate) fn start_server(command: &mut Command) -> Result<ServerProcess> {
    ServerProcess::try_start(command.stdout(Stdio::null()), START_TIMEOUT)
        .map_err(|output| anyhow!("`{}` did not become ready:\n{output}", command_line(command)))
}

/// Runs a command that must succeed.
#[allow(clippy::print_stderr, reason = "prints each command line")]
pub(crate) fn run(command: &mut Command) -> Result<()> {
    eprintln!("$ {}", command_line(command));
    let status =
        command.status().with_context(|| format!("`{}` could not be started", command_line(command)))?;
    if !status.success() {
        bail!("`{}` failed: {status}", command_line(command));
    }
    Ok(())
}

/// Runs a command that must succeed; returns its output.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("`{}` could not be started", command_line(command)))?;
    if !output.status.success() {
        bail!("`{}` failed: {}", command_line(command), output.status);
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// True if the program runs with `--version` or `-v` (nginx).
pub(crate) fn is_installed(program: &str) -> bool {
    tendot_testing::is_installed(program)
}

/// Installs Debian packages.
pub(crate) fn apt_install(packages: &[&str]) -> Result<()> {
    run(Command::new("apt-get").args(["update", "-qq"]))?;
    run(Command::new("apt-get").args(["install", "-y", "-qq", "--no-install-recommends"]).args(packages))
}

/// Command line as text.
pub(crate) fn command_line(command: &Command) -> String {
    let mut line = command.get_program().to_string_lossy().into_owned();
    for argument in command.get_args() {
        line.push(' ');
        line.push_str(&argument.to_string_lossy());
    }
    line
}
