//! Progress bars on stderr.

use std::io::{self, IsTerminal as _};

use indicatif::{ProgressBar, ProgressStyle};

/// Progress bar with this template; hidden unless stderr is a terminal.
pub(crate) fn progress_bar(length: u64, template: &str) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(length).with_style(style)
}

/// Template for a number of records.
pub(crate) const RECORD_PROGRESS: &str = "{bar:40} {human_pos}/{human_len} records  {per_sec}  ETA {eta}";

/// Template for bytes of a file.
pub(crate) const BYTE_PROGRESS: &str = "{bar:40} {bytes}/{total_bytes}  {bytes_per_sec}  ETA {eta}";
