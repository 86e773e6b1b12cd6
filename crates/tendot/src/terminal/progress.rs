//! Progress bars on stderr.

use std::fmt::Write;
use std::io::{self, IsTerminal as _};

use indicatif::{HumanCount, ProgressBar, ProgressState, ProgressStyle};

/// Progress bar with this template; hidden unless stderr is a terminal.
pub(crate) fn progress_bar(length: u64, template: &str) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    // `per_sec` has four decimal places.
    let rate = |state: &ProgressState, out: &mut dyn Write| {
        let _ = write!(out, "{}/s", HumanCount(state.per_sec().round() as u64));
    };
    ProgressBar::new(length).with_style(style.with_key("rate", rate))
}

/// Template for a number of records.
pub(crate) const RECORD_PROGRESS: &str = "{bar:40} {human_pos}/{human_len} records  {rate}  ETA {eta}";

/// Template for lines of a batch.
pub(crate) const LINE_PROGRESS: &str = "{bar:40} {human_pos}/{human_len} lines  {rate}  ETA {eta}  {msg}";

/// Template for bytes of a file.
pub(crate) const BYTE_PROGRESS: &str = "{bar:40} {bytes}/{total_bytes}  {bytes_per_sec}  ETA {eta}";
