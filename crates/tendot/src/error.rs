//! Error type and exit status of a command.

use std::fmt::{self, Display};
use std::io;

use anstyle::AnsiColor;

use crate::terminal::{eprint_error, eprint_line};

/// Error message with an optional hint, printed as `error:` and `hint:`.
#[derive(Debug)]
pub(crate) struct CliError {
    message: String,
    hint: Option<String>,
    is_broken_pipe: bool,
    /// Negative result rather than a failure: exit code 1.
    is_negative: bool,
}

impl CliError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None, is_broken_pipe: false, is_negative: false }
    }

    pub(crate) fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// Adds a hint unless the error has one.
    pub(crate) fn or_hint(self, hint: &str) -> Self {
        if self.hint.is_some() { self } else { self.with_hint(hint) }
    }

    /// Marks the error as a negative result (exit code 1).
    pub(crate) fn negative(self) -> Self {
        Self { is_negative: true, ..self }
    }

    /// I/O error with the action that failed, such as "cannot read `x`".
    pub(crate) fn io(action: impl Display, error: &io::Error) -> Self {
        Self {
            is_broken_pipe: error.kind() == io::ErrorKind::BrokenPipe,
            ..Self::new(format!("{action}: {error}"))
        }
    }

    /// Message without the hint.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    pub(crate) const fn is_broken_pipe(&self) -> bool {
        self.is_broken_pipe
    }

    pub(crate) const fn is_negative(&self) -> bool {
        self.is_negative
    }

    pub(crate) fn print(&self) {
        eprint_error(&self.message);
        if let Some(hint) = &self.hint {
            let style = AnsiColor::Cyan.on_default();
            eprint_line(format_args!("\n{style}hint:{style:#} {hint}"));
        }
    }
}

/// The message, without `error:` and the hint.
impl Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Result of a command that ran to its end, as an exit code.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum CommandStatus {
    /// Done, or a positive result: exit code 0.
    Success,
    /// Negative result, explained on stderr: exit code 1.
    Negative,
    /// Part of the work failed, explained on stderr: exit code 2.
    Partial,
}
