//! Input of secrets at the terminal.

use std::fs::OpenOptions;
use std::io::{BufRead as _, BufReader, Write as _};

use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};

use crate::CliError;

/// Asks for a secret on the terminal, without echo; an error if there is no terminal.
pub(crate) fn prompt_secret(label: &str) -> Result<String, CliError> {
    let failed = |error: std::io::Error| CliError::io(format!("cannot ask at the terminal: {label}"), &error);
    let mut terminal = OpenOptions::new().read(true).write(true).open("/dev/tty").map_err(failed)?;
    let modes = tcgetattr(&terminal).map_err(|error| failed(error.into()))?;
    let mut without_echo = modes.clone();
    without_echo.local_modes.remove(LocalModes::ECHO);
    write!(terminal, "{label}: ").map_err(failed)?;
    tcsetattr(&terminal, OptionalActions::Flush, &without_echo).map_err(|error| failed(error.into()))?;
    let mut line = String::new();
    let read = BufReader::new(&terminal).read_line(&mut line);
    // Restores the echo also after an error.
    let restored = tcsetattr(&terminal, OptionalActions::Flush, &modes);
    let _ = writeln!(terminal);
    read.map_err(failed)?;
    restored.map_err(|error| failed(error.into()))?;
    let secret = line.trim_end_matches(['\r', '\n']);
    if secret.is_empty() { Err(CliError::new("nothing entered")) } else { Ok(secret.to_owned()) }
}
