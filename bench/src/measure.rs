//! Timing, medians, and the regular expression to compare with.

use std::time::Instant;

/// Crossref's regular expression for DOI names, with its dot escaped.
pub const CROSSREF_PATTERN: &str = r"10\.\d{4,9}/[-._;()/:A-Z0-9]+";

/// Runs `work` and returns its duration in seconds.
pub fn seconds<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let start = Instant::now();
    let result = work();
    (start.elapsed().as_secs_f64(), result)
}

/// Median of measurements.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}
