//! A command in a pseudo terminal, which Python opens.

use std::io::{Read as _, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use tendot_testing::wait_until;

/// Passes between a pseudo terminal of 200 columns and its own input and output, and exits with the status of the command.
const RELAY: &str = r#"
import os, pty, sys
command = ["sh", "-c", "stty cols 200; exec \"$@\"", "sh"] + sys.argv[1:]
sys.exit(os.waitstatus_to_exitcode(pty.spawn(command)))
"#;

/// A running command with a terminal as its input and output.
pub(crate) struct Terminal {
    relay: Child,
    input: ChildStdin,
    output: Arc<Mutex<String>>,
    reader: JoinHandle<()>,
}

impl Terminal {
    /// Starts a command in a terminal, with its arguments, environment and directory.
    pub(crate) fn start(command: &Command) -> Self {
        let mut relay = Command::new("python3");
        relay.args(["-c", RELAY]).arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => relay.env(name, value),
                None => relay.env_remove(name),
            };
        }
        if let Some(directory) = command.get_current_dir() {
            relay.current_dir(directory);
        }
        let mut relay = relay
            .env("TERM", "xterm")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let (input, mut screen) = (relay.stdin.take().unwrap(), relay.stdout.take().unwrap());
        let output = Arc::new(Mutex::new(String::new()));
        let shown = Arc::clone(&output);
        let reader = thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = screen.read(&mut buffer) {
                shown.lock().unwrap().push_str(&String::from_utf8_lossy(&buffer[..read]));
            }
        });
        Self { relay, input, output, reader }
    }

    /// What the terminal has shown.
    pub(crate) fn output(&self) -> String {
        self.output.lock().unwrap().clone()
    }

    /// Waits until the terminal has shown this text.
    #[track_caller]
    pub(crate) fn wait_for(&self, text: &str) {
        wait_until(text, || self.output().contains(text));
    }

    /// Types a text.
    pub(crate) fn type_text(&mut self, text: &str) {
        self.input.write_all(text.as_bytes()).unwrap();
    }

    /// Waits until the command exits; returns its exit code and everything that was shown.
    pub(crate) fn finish(mut self) -> (Option<i32>, String) {
        self.reader.join().unwrap();
        let status = self.relay.wait().unwrap();
        drop(self.input);
        (status.code(), self.output.lock().unwrap().clone())
    }
}
