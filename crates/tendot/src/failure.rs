//! Why a command could not be carried out, and how it is told.

use std::fmt::Display;
use std::io::{self, IsTerminal as _, Write as _};

use anstyle::{AnsiColor, Style};

/// Error message with an optional hint, printed as `error:` and `hint:`.
#[derive(Debug)]
pub(crate) struct CliError {
    message: String,
    hint: Option<String>,
    broken_pipe: bool,
    /// Nothing failed: who was asked said no.
    refusal: bool,
}

impl CliError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None, broken_pipe: false, refusal: false }
    }

    pub(crate) fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// With this advice, if there is none.
    pub(crate) fn or_hint(self, hint: &str) -> Self {
        if self.hint.is_some() { self } else { self.with_hint(hint) }
    }

    /// A negative answer rather than a failure.
    pub(crate) fn refusal(self) -> Self {
        Self { refusal: true, ..self }
    }

    /// An error of reading or writing `what`.
    pub(crate) fn io(what: impl Display, error: &io::Error) -> Self {
        Self {
            broken_pipe: error.kind() == io::ErrorKind::BrokenPipe,
            ..Self::new(format!("{what}: {error}"))
        }
    }

    pub(crate) const fn is_broken_pipe(&self) -> bool {
        self.broken_pipe
    }

    pub(crate) const fn is_negative(&self) -> bool {
        self.refusal
    }

    pub(crate) fn print(&self) {
        eprint_error(&self.message);
        if let Some(hint) = &self.hint {
            let style = AnsiColor::Cyan.on_default();
            eprint_line(format_args!("\n{style}hint:{style:#} {hint}"));
        }
    }
}

/// Says `error: …` on stderr.
pub(crate) fn eprint_error(message: &str) {
    let style: Style = AnsiColor::Red.on_default().bold();
    eprint_line(format_args!("{style}error:{style:#} {message}"));
}

/// Says `warning: …` on stderr.
pub(crate) fn eprint_warning(message: &str) {
    let style: Style = AnsiColor::Yellow.on_default().bold();
    eprint_line(format_args!("{style}warning:{style:#} {message}"));
}

/// Says a line on stderr. That nobody can hear it is no reason to stop.
pub(crate) fn eprint_line(line: impl Display) {
    let _ = writeln!(anstream::stderr(), "{line}");
}

/// Somebody who forgot the arguments should not sit before a command that seems to hang.
pub(crate) fn eprint_stdin_notice() {
    if io::stdin().is_terminal() {
        eprint_line("reading standard input; Ctrl-D ends it, `--help` tells more");
    }
}

/// Text from outside, fit for a terminal: shortened, and escaped as [`escaped`] does.
pub(crate) fn shown(text: &[u8]) -> String {
    const MAX_QUOTED_CHARS: usize = 120;
    let text = String::from_utf8_lossy(text);
    match text.char_indices().nth(MAX_QUOTED_CHARS) {
        Some((end, _)) => format!("{}…", escape_control(&text[..end])),
        None => escape_control(&text),
    }
}

/// Control and other invisible characters escaped, so that they do not steer a terminal.
pub(crate) fn escape_control(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        if c.is_control() || is_invisible(c) { escaped.extend(c.escape_unicode()) } else { escaped.push(c) }
    }
    escaped
}

/// Characters that could make a terminal show something else than is there.
fn is_invisible(c: char) -> bool {
    matches!(u32::from(c), 0xAD | 0x61C | 0x180E | 0x200B..=0x200F | 0x2028..=0x202E | 0x2060..=0x206F | 0xFEFF | 0xFFF9..=0xFFFB | 0xE0000..=0xE007F)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_from_outside_reaches_the_terminal_raw() {
        assert_eq!(shown(b"10.1000/a\x1B[2Jb"), "10.1000/a\\u{1b}[2Jb");
        assert_eq!(shown("10.1000/\u{202E}281".as_bytes()), "10.1000/\\u{202e}281");
        assert_eq!(shown(&[b'a'; 500]).chars().count(), 121);
    }
}
