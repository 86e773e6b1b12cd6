//! Everything that reaches stdout or stderr.
//!
//! In reading order:
//!
//! - `stdout`: buffered standard output, for data only
//! - `diagnostics`: errors, warnings and plain lines on stderr
//! - `escape`: control and invisible characters
//! - `progress`: progress bars
//! - `prompt`, `confirmation`: secrets, irreversible actions

mod confirmation;
mod diagnostics;
mod escape;
mod progress;
mod prompt;
mod stdout;

pub(crate) use confirmation::ConfirmationArguments;
pub(crate) use diagnostics::{eprint_error, eprint_line, eprint_stdin_notice, eprint_warning};
pub(crate) use escape::{escape_control, escape_json_line, quote_input};
pub(crate) use progress::{BYTE_PROGRESS, LINE_PROGRESS, RECORD_PROGRESS, progress_bar};
pub(crate) use prompt::prompt_secret;
pub(crate) use stdout::{StdoutWriter, is_stdio, print_json};
