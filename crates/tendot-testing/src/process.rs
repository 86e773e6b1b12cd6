use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use crate::WAIT_TIMEOUT;

/// A running server program, killed on drop.
#[derive(Debug)]
pub struct ServerProcess {
    /// The process, for exit codes and pipes.
    pub process: Child,
    /// The line that began with `ready`.
    pub ready: String,
    /// Lines that the server wrote to stderr before `ready`.
    pub startup: String,
    /// Lines that the server wrote to stderr after `ready`.
    pub log: Receiver<String>,
}

impl ServerProcess {
    /// Starts a server and waits until it prints a line that begins with `ready` on stderr; panics with its output if it
    /// ends before that.
    #[track_caller]
    pub fn start(command: &mut Command) -> Self {
        Self::try_start(command, WAIT_TIMEOUT)
            .unwrap_or_else(|output| panic!("{command:?} did not become ready:\n{output}"))
    }

    /// Like [`ServerProcess::start`], but returns what the server wrote to stderr if it ends or is silent for `timeout` before it is
    /// ready.
    pub fn try_start(command: &mut Command, timeout: Duration) -> Result<Self, String> {
        let mut process =
            command.stderr(Stdio::piped()).spawn().map_err(|error| format!("{command:?}: {error}"))?;
        let lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let (sender, log) = channel();
        // Reads on after the receiver is gone, so that the server never blocks on a full pipe.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(|line| drop(sender.send(line))));
        let mut server = Self { process, ready: String::new(), startup: String::new(), log };
        while let Ok(line) = server.log.recv_timeout(timeout) {
            if line.starts_with("ready") {
                server.ready = line;
                return Ok(server);
            }
            server.startup += &line;
            server.startup.push('\n');
        }
        Err(std::mem::take(&mut server.startup))
    }

    /// The address after a scheme such as `http://` or `hdl://` in the `ready` line.
    #[track_caller]
    pub fn address(&self, scheme: &str) -> SocketAddr {
        let addresses = self.ready.split([' ', ',']).filter_map(|word| word.strip_prefix(scheme));
        let mut parsed = addresses.filter_map(|address| address.trim_end_matches('/').parse().ok());
        parsed.next().unwrap_or_else(|| panic!("no {scheme} address in `{}`", self.ready))
    }

    /// Sends a signal such as `TERM` or `STOP`.
    pub fn signal(&self, name: &str) {
        run_checked(Command::new("kill").args([format!("-{name}"), self.process.id().to_string()]));
    }

    /// Processor time that the server has used.
    pub fn cpu_time(&self) -> Duration {
        cpu_time(self.process.id())
    }

    /// Kills the server and waits for its end.
    pub fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Processor time, user and system, of a process.
pub fn cpu_time(pid: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks: u64 = fields[11..13].iter().map(|field| field.parse::<u64>().unwrap()).sum();
    Duration::from_millis(ticks * 10)
}

/// Anonymous resident memory of a process, in bytes.
pub fn anonymous_memory(pid: u32) -> u64 {
    status_bytes(pid, "RssAnon:").unwrap()
}

/// Peak resident memory of a process, in bytes.
pub fn peak_memory(pid: u32) -> u64 {
    status_bytes(pid, "VmHWM:").unwrap()
}

/// Field of `/proc/PID/status`, such as `VmHWM:`, in bytes; none when the process has exited.
pub fn status_bytes(pid: u32, field: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    Some(line.trim().trim_end_matches(" kB").parse::<u64>().ok()? * 1024)
}

/// Runs a program to its end and returns its standard output; panics with its errors if it fails.
#[track_caller]
pub fn run_checked(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
