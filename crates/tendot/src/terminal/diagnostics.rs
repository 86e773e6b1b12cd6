//! Diagnostics on stderr: `error:`, `warning:` and plain lines.

use std::fmt::Display;
use std::io::{self, IsTerminal as _, Write as _};

use anstyle::{AnsiColor, Style};

/// Prints `error: …` on stderr.
pub(crate) fn eprint_error(message: &str) {
    let style: Style = AnsiColor::Red.on_default().bold();
    eprint_line(format_args!("{style}error:{style:#} {message}"));
}

/// Prints `warning: …` on stderr.
pub(crate) fn eprint_warning(message: &str) {
    let style: Style = AnsiColor::Yellow.on_default().bold();
    eprint_line(format_args!("{style}warning:{style:#} {message}"));
}

/// Prints a line on stderr; errors are ignored.
pub(crate) fn eprint_line(line: impl Display) {
    let _ = writeln!(anstream::stderr(), "{line}");
}

/// Prints a notice if stdin is a terminal, so that a command without arguments does not seem to hang.
pub(crate) fn eprint_stdin_notice() {
    if io::stdin().is_terminal() {
        eprint_line("reading standard input; press Ctrl-D to end, or see `--help`");
    }
}
