//! Running other programs: what is run is told, and a failure stops everything.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, bail};

/// A server that is ended with what it was started for.
pub(crate) struct Server {
    pub(crate) process: Child,
    /// What it said when it was ready.
    pub(crate) ready: String,
}

impl Server {
    /// Starts it and waits for a line on stderr that begins with `ready`.
    pub(crate) fn start(command: &mut Command) -> Result<Self> {
        let process = command
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("`{}` could not be started", line(command)))?;
        let mut server = Self { process, ready: String::new() };
        let mut said = BufReader::new(server.process.stderr.take().context("no stderr")?).lines();
        let mut before = String::new();
        for line in said.by_ref().map_while(Result::ok) {
            if line.starts_with("ready") {
                server.ready = line;
                break;
            }
            before = before + &line + "\n";
        }
        if server.ready.is_empty() {
            bail!("`{}` ended before it was ready:\n{before}", line(command));
        }
        // Whatever else it says is not to stop it.
        std::thread::spawn(move || said.for_each(drop));
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Runs a command that has to succeed.
#[allow(clippy::print_stderr, reason = "the one place that tells what is run")]
pub(crate) fn run(command: &mut Command) -> Result<()> {
    eprintln!("$ {}", line(command));
    let status = command.status().with_context(|| format!("`{}` could not be started", line(command)))?;
    if !status.success() {
        bail!("`{}` failed: {status}", line(command));
    }
    Ok(())
}

/// Runs a command that has to succeed and gives what it printed.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("`{}` could not be started", line(command)))?;
    if !output.status.success() {
        bail!("`{}` failed: {}", line(command), output.status);
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// True when a program starts with `--version`, or `-v` as nginx wants it.
pub(crate) fn is_there(program: &str) -> bool {
    tendot_testing::is_installed(program)
}

/// Installs packages of the system, for machines on which something is missing.
pub(crate) fn install(packages: &[&str]) -> Result<()> {
    run(Command::new("apt-get").args(["update", "-qq"]))?;
    run(Command::new("apt-get").args(["install", "-y", "-qq", "--no-install-recommends"]).args(packages))
}

/// A command as it would be typed.
pub(crate) fn line(command: &Command) -> String {
    let mut line = command.get_program().to_string_lossy().into_owned();
    for argument in command.get_args() {
        line.push(' ');
        line.push_str(&argument.to_string_lossy());
    }
    line
}
