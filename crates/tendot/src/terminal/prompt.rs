//! Input of secrets at the terminal.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};

use crate::CliError;

/// Control characters of a terminal.
const CTRL_C: u8 = 0x03;
const CTRL_D: u8 = 0x04;
const BACKSPACE: u8 = 0x08;
const CTRL_U: u8 = 0x15;
const CTRL_BACKSLASH: u8 = 0x1c;
const DELETE: u8 = 0x7f;

/// How long to wait for a signal that ends the process.
const SIGNAL_DELIVERY_TIMEOUT: Duration = Duration::from_secs(1);

/// Asks for a secret on the terminal, without echo; an error if there is no terminal.
pub(crate) fn prompt_secret(label: &str) -> Result<String, CliError> {
    let failed = |error: io::Error| CliError::io(format!("cannot ask at the terminal: {label}"), &error);
    let terminal = OpenOptions::new().read(true).write(true).open("/dev/tty").map_err(failed)?;
    match read_secret(&terminal, label).map_err(failed)? {
        SecretInput::Entered(secret) if secret.is_empty() => Err(CliError::new("nothing entered")),
        SecretInput::Entered(secret) => {
            String::from_utf8(secret).map_err(|_| CliError::new("the secret is not UTF-8"))
        }
        SecretInput::Interrupted(signal) => {
            // As if the terminal had sent it; the modes have been restored.
            let _ = kill_process(getpid(), signal);
            // The kernel may deliver it to another thread, a moment later.
            std::thread::sleep(SIGNAL_DELIVERY_TIMEOUT);
            Err(CliError::new("interrupted"))
        }
    }
}

/// Input at the prompt.
enum SecretInput {
    Entered(Vec<u8>),
    /// Key of a signal.
    Interrupted(Signal),
}

/// Restores the modes of a terminal when it is dropped.
struct ModeGuard<'a> {
    terminal: &'a File,
    modes: Termios,
}

impl Drop for ModeGuard<'_> {
    fn drop(&mut self) {
        let _ = tcsetattr(self.terminal, OptionalActions::Flush, &self.modes);
        let _ = writeln!(&mut &*self.terminal);
    }
}

/// Reads key by key: a key that sends a signal would otherwise end the process before the echo is on again.
fn read_secret(mut terminal: &File, label: &str) -> io::Result<SecretInput> {
    let modes = tcgetattr(terminal)?;
    let mut raw = modes.clone();
    raw.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG);
    raw.special_codes[SpecialCodeIndex::VMIN] = 1;
    raw.special_codes[SpecialCodeIndex::VTIME] = 0;
    let _guard = ModeGuard { terminal, modes };
    write!(terminal, "{label}: ")?;
    tcsetattr(terminal, OptionalActions::Flush, &raw)?;
    let (mut secret, mut key) = (Vec::new(), [0]);
    loop {
        if terminal.read(&mut key)? == 0 {
            return Ok(SecretInput::Entered(secret));
        }
        match key[0] {
            b'\r' | b'\n' | CTRL_D => return Ok(SecretInput::Entered(secret)),
            CTRL_C => return Ok(SecretInput::Interrupted(Signal::INT)),
            CTRL_BACKSLASH => return Ok(SecretInput::Interrupted(Signal::QUIT)),
            CTRL_U => secret.clear(),
            // Removes the last character, which may have several bytes.
            BACKSPACE | DELETE => while secret.pop().is_some_and(|byte| byte & 0xc0 == 0x80) {},
            byte => secret.push(byte),
        }
    }
}
