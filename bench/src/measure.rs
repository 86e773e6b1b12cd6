//! Timing, and what benchmarks compare with.

use std::time::Instant;

/// Crossref's pattern, its dot escaped.
pub const CROSSREF_PATTERN: &str = r"10\.\d{4,9}/[-._;()/:A-Z0-9]+";

/// The seconds that `work` takes.
pub fn seconds<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let start = Instant::now();
    let result = work();
    (start.elapsed().as_secs_f64(), result)
}

/// The middle of several measurements.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}
