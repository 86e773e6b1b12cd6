//! What is said about an import.

use std::time::Instant;

use indicatif::ProgressBar;
use serde::Serialize;
use tendot_store::ImportSummary;

use super::{Piece, Told};
use crate::Failure;
use crate::failure::{escaped, shown, tell};
use crate::output::Output;

/// How many are told one by one; the rest is counted.
pub(super) const REFUSED: u64 = 100;
pub(super) const MAX_PRINTED_WARNINGS: u64 = 20;

/// Counts what is refused and what is odd, and tells the first of them.
pub(crate) struct Report {
    started: Instant,
    pub(crate) progress: ProgressBar,
    refused: u64,
    warnings: u64,
    elsewhere: u64,
}

#[derive(Serialize)]
struct Summary {
    read: u64,
    created: u64,
    changed: u64,
    unchanged: u64,
    superseded: u64,
    refused: u64,
    warnings: u64,
    /// Only where names are shared.
    #[serde(skip_serializing_if = "Option::is_none")]
    elsewhere: Option<u64>,
    seconds: f64,
}

impl Report {
    pub(crate) fn new(progress: ProgressBar) -> Self {
        Self { started: Instant::now(), progress, refused: 0, warnings: 0, elsewhere: 0 }
    }

    /// Tells what a piece of a source has that is refused or odd, as long as there was not too much of it before.
    pub(crate) fn tell(&mut self, source: &str, piece: &Piece) {
        let (mut refused, mut warnings) = (self.refused, self.warnings);
        for (line, told) in &piece.told {
            let (word, count, most, what) = match told {
                Told::Refused(reason) => ("refused", &mut refused, REFUSED, reason),
                Told::Warning(what) => ("warning", &mut warnings, MAX_PRINTED_WARNINGS, what),
            };
            *count += 1;
            if *count <= most {
                let what = escaped(what);
                self.progress.suspend(|| tell(format_args!("{word}: {source}, line {line}: {what}")));
            }
        }
        self.refused += piece.refused;
        self.warnings += piece.warnings;
        self.elsewhere += piece.elsewhere;
    }

    /// Tells names that were ended: the first of them, and how many there are.
    pub(crate) fn print_retired(&mut self, names: &[Box<str>], count: u64) {
        for (name, _) in names.iter().zip(self.refused..REFUSED) {
            let name = shown(name.as_bytes());
            tell(format_args!("refused: `{name}`: the name was ended, and is not given again"));
        }
        self.refused += count;
    }

    pub(crate) const fn has_refusals(&self) -> bool {
        self.refused > 0
    }

    /// Says what came of it; nothing was written if there is no `imported`, and `read` records would have been.
    pub(crate) fn finish(&self, imported: Option<&ImportSummary>, read: u64, json: bool) -> Result<(), Failure> {
        self.progress.finish_and_clear();
        let (refused, warnings) = (self.refused, self.warnings);
        if refused > REFUSED {
            tell(format_args!("refused: {} more", refused - REFUSED));
        }
        if warnings > MAX_PRINTED_WARNINGS {
            tell(format_args!("warning: {} more", warnings - MAX_PRINTED_WARNINGS));
        }
        if self.elsewhere > 0 {
            tell(format_args!("{} are for other servers of the site", self.elsewhere));
        }
        let seconds = self.started.elapsed().as_secs_f64();
        match imported {
            Some(imported) => {
                let ImportSummary { created, changed, unchanged, superseded, .. } = imported;
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
        let ImportSummary { created, changed, unchanged, superseded, .. } = imported.cloned().unwrap_or_default();
        let mut output = Output::new();
        output.json(&Summary {
            read,
            created,
            changed,
            unchanged,
            superseded,
            refused,
            warnings,
            elsewhere: (self.elsewhere > 0).then_some(self.elsewhere),
            seconds,
        })?;
        output.flush()
    }
}
