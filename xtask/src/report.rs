//! The table of steps at the end of `check` and `test`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

/// Numbers of passed and failed cases of a step.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
}

impl Counts {
    /// A step that is one check.
    pub(crate) const PASSED: Self = Self { passed: 1, failed: 0 };
}

/// Collects steps, which may run side by side.
pub(crate) struct Report {
    begin: Instant,
    rows: Mutex<Vec<Row>>,
}

struct Row {
    name: String,
    start: Duration,
    time: Duration,
    counts: Counts,
}

impl Report {
    pub(crate) fn new() -> Self {
        Self { begin: Instant::now(), rows: Mutex::default() }
    }

    /// Runs steps, and prints their table.
    pub(crate) fn of(steps: impl FnOnce(&Self)) -> Result<()> {
        let report = Self::new();
        steps(&report);
        report.finish()
    }

    /// Runs a step that is one check. An error is printed at once and counted; the other steps go on.
    pub(crate) fn check(&self, name: &str, step: impl FnOnce() -> Result<()>) {
        self.step(name, || step().map(|()| Counts::PASSED));
    }

    /// Runs a step that counts its cases.
    #[allow(clippy::print_stderr, reason = "errors of a step are what the command is for")]
    pub(crate) fn step(&self, name: &str, step: impl FnOnce() -> Result<Counts>) {
        let start = self.begin.elapsed();
        // The test support panics where a server does not start.
        let result =
            catch_unwind(AssertUnwindSafe(step)).unwrap_or_else(|_| Err(anyhow!("panicked, see above")));
        let counts = result.unwrap_or_else(|error| {
            eprintln!("FAILED: {name}: {error:#}");
            Counts { passed: 0, failed: 1 }
        });
        self.add(name, start, counts);
    }

    fn add(&self, name: &str, start: Duration, counts: Counts) {
        let row = Row { name: name.into(), start, time: self.begin.elapsed() - start, counts };
        self.rows.lock().expect("no panic while it is held").push(row);
    }

    /// Prints the table and the closing line; ends the process with 1 if anything failed.
    #[allow(clippy::print_stdout, reason = "this command prints a report")]
    pub(crate) fn finish(self) -> Result<()> {
        let mut rows = self.rows.into_inner().expect("no panic while it is held");
        rows.sort_by_key(|row| row.start);
        println!("\n{:<40} {:>8} {:>8} {:>8} {:>8}", "step", "start s", "seconds", "passed", "failed");
        let mut total = Counts::default();
        for Row { name, start, time, counts } in rows {
            let (start, time) = (start.as_secs_f64(), time.as_secs_f64());
            println!("{name:<40} {start:>8.1} {time:>8.1} {:>8} {:>8}", counts.passed, counts.failed);
            total.passed += counts.passed;
            total.failed += counts.failed;
        }
        println!("{:<40} {:>8} {:>8.1}", "total", "", self.begin.elapsed().as_secs_f64());
        println!("\n{} passed, {} failed", total.passed, total.failed);
        if total.failed > 0 {
            // The closing line has reported it.
            std::process::exit(1);
        }
        Ok(())
    }
}
