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
    // `per_sec` has four decimal places, `bytes_per_sec` two.
    let rate = |state: &ProgressState, out: &mut dyn Write| {
        let _ = out.write_str(&format_rate(state.per_sec()));
    };
    let byte_rate = |state: &ProgressState, out: &mut dyn Write| {
        let _ = out.write_str(&format_byte_rate(state.per_sec()));
    };
    let style = style.with_key("rate", rate).with_key("byte_rate", byte_rate);
    ProgressBar::new(length).with_style(style)
}

/// A rate as a whole number, such as `1,234/s`.
fn format_rate(per_second: f64) -> String {
    format!("{}/s", HumanCount(per_second.round() as u64))
}

/// A rate of bytes as a whole number with a binary unit, such as `1,234 KiB/s`.
fn format_byte_rate(per_second: f64) -> String {
    let (mut number, mut unit) = (per_second, "B");
    for larger in ["KiB", "MiB", "GiB"] {
        if number < 10_240.0 {
            break;
        }
        (number, unit) = (number / 1_024.0, larger);
    }
    format!("{} {unit}/s", HumanCount(number.round() as u64))
}

/// Template for a number of records.
pub(crate) const RECORD_PROGRESS: &str = "{bar:40} {human_pos}/{human_len} records  {rate}  ETA {eta}";

/// Template for lines of a batch.
pub(crate) const LINE_PROGRESS: &str = "{bar:40} {human_pos}/{human_len} lines  {rate}  ETA {eta}  {msg}";

/// Template for bytes of a file.
pub(crate) const BYTE_PROGRESS: &str = "{bar:40} {bytes}/{total_bytes}  {byte_rate}  ETA {eta}";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_whole_numbers() {
        for (rate, expected) in [(0.0, "0/s"), (0.4, "0/s"), (123.456, "123/s"), (1_234_567.8, "1,234,568/s")]
        {
            assert_eq!(format_rate(rate), expected);
        }
        for (rate, expected) in [
            (0.0, "0 B/s"),
            (9_999.4, "9,999 B/s"),
            (20_480.0, "20 KiB/s"),
            (12_345_678.9, "12 MiB/s"),
            (1e12, "931 GiB/s"),
            (f64::MAX, "18,446,744,073,709,551,615 GiB/s"),
        ] {
            assert_eq!(format_byte_rate(rate), expected);
        }
        // The keys of the library have decimal places.
        for template in [RECORD_PROGRESS, LINE_PROGRESS, BYTE_PROGRESS] {
            assert!(template.contains("rate}") && !template.contains("per_sec"), "{template}");
        }
    }
}
