//! What is said about an import.

use std::time::Instant;

use indicatif::ProgressBar;
use serde::Serialize;
use tendot_store::Imported;

use crate::Failure;
use crate::failure::{escaped, tell};
use crate::output::Output;

/// How many are told one by one; the rest is counted.
const REFUSED: u64 = 100;
const WARNINGS: u64 = 20;

/// Counts what is refused and what is odd, and tells the first of them.
pub(crate) struct Report {
    started: Instant,
    pub(crate) progress: ProgressBar,
    refused: u64,
    warnings: u64,
}

#[derive(Serialize)]
struct Summary {
    created: u64,
    changed: u64,
    unchanged: u64,
    superseded: u64,
    refused: u64,
    warnings: u64,
    seconds: f64,
}

impl Report {
    pub(crate) fn new(progress: ProgressBar) -> Self {
        Self { started: Instant::now(), progress, refused: 0, warnings: 0 }
    }

    pub(crate) fn refuse(&mut self, place: &str, reason: &str) {
        self.refused += 1;
        if self.refused <= REFUSED {
            self.progress.suspend(|| tell(format_args!("refused: {place}: {}", escaped(reason))));
        }
    }

    pub(crate) fn warn(&mut self, place: &str, what: &str) {
        self.warnings += 1;
        if self.warnings <= WARNINGS {
            self.progress.suspend(|| tell(format_args!("warning: {place}: {}", escaped(what))));
        }
    }

    pub(crate) const fn has_refused(&self) -> bool {
        self.refused > 0
    }

    /// Says what came of it; nothing was written if there is no `imported`, and `read` records would have been.
    pub(crate) fn finish(&self, imported: Option<&Imported>, read: u64, json: bool) -> Result<(), Failure> {
        self.progress.finish_and_clear();
        let (refused, warnings) = (self.refused, self.warnings);
        if refused > REFUSED {
            tell(format_args!("refused: {} more", refused - REFUSED));
        }
        if warnings > WARNINGS {
            tell(format_args!("warning: {} more", warnings - WARNINGS));
        }
        let seconds = self.started.elapsed().as_secs_f64();
        match imported {
            Some(imported) => {
                let Imported { created, changed, unchanged, superseded, .. } = imported;
                let again =
                    if *superseded > 0 { format!(", {superseded} came twice") } else { String::new() };
                tell(format_args!(
                    "{created} new, {changed} changed, {unchanged} unchanged, {refused} refused{again}; \
                     {seconds:.1} s"
                ));
            }
            None => tell(format_args!("{read} could be imported, {refused} refused; nothing was written")),
        }
        if !json {
            return Ok(());
        }
        let Imported { created, changed, unchanged, superseded, .. } = imported.cloned().unwrap_or_default();
        let mut output = Output::new();
        output.json(&Summary { created, changed, unchanged, superseded, refused, warnings, seconds })?;
        output.flush()
    }
}
