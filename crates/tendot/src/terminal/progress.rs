//! Progress bars on stderr.

use std::io::{self, IsTerminal as _};

use indicatif::{ProgressBar, ProgressStyle};

/// A bar on stderr when somebody watches it, in `template`'s words.
pub(crate) fn progress_bar(length: u64, template: &str) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(length).with_style(style)
}

/// How far a count of records is.
pub(crate) const RECORD_PROGRESS: &str = "{bar:40} {human_pos}/{human_len} records  {per_sec}  {eta} left";

/// How far the bytes of a file are.
pub(crate) const BYTE_PROGRESS: &str = "{bar:40} {bytes}/{total_bytes}  {bytes_per_sec}  {eta} left";
