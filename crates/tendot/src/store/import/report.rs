//! Diagnostics and summary of an import.

use std::time::Instant;

use indicatif::ProgressBar;
use serde::Serialize;
use tendot_store::ImportSummary;

use super::chunk::{ImportChunk, LineDiagnostic};
use crate::CliError;
use crate::terminal::{eprint_line, escape_control, print_json, quote_input};

/// Maximum number of diagnostics printed; the rest is counted.
pub(super) const MAX_PRINTED_REFUSALS: u64 = 100;

pub(super) const MAX_PRINTED_WARNINGS: u64 = 20;

pub(super) const MAX_PRINTED_NOTES: u64 = 20;

/// Counts refusals and warnings and prints the first of them.
pub(crate) struct ImportReport {
    started: Instant,
    pub(crate) progress: ProgressBar,
    refused: u64,
    warnings: u64,
    decoded: u64,
    notes: u64,
    other_servers: u64,
}

#[derive(Serialize)]
struct ImportSummaryJson {
    read: u64,
    created: u64,
    changed: u64,
    unchanged: u64,
    deleted: u64,
    superseded: u64,
    refused: u64,
    warnings: u64,
    /// Names in a written form, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    decoded: Option<u64>,
    /// Only with `--site`.
    #[serde(skip_serializing_if = "Option::is_none")]
    other_servers: Option<u64>,
    seconds: f64,
}

impl ImportReport {
    pub(crate) fn new(progress: ProgressBar) -> Self {
        Self {
            started: Instant::now(),
            progress,
            refused: 0,
            warnings: 0,
            decoded: 0,
            notes: 0,
            other_servers: 0,
        }
    }

    /// Prints the refusals and warnings of a chunk, up to the maximum.
    pub(crate) fn print_diagnostics(&mut self, source: &str, chunk: &ImportChunk) {
        let (mut refused, mut warnings, mut notes) = (self.refused, self.warnings, self.notes);
        for (line, diagnostic) in &chunk.diagnostics {
            let (label, count, max, message) = match diagnostic {
                LineDiagnostic::Refused(reason) => ("refused", &mut refused, MAX_PRINTED_REFUSALS, reason),
                LineDiagnostic::Warning(message) => ("warning", &mut warnings, MAX_PRINTED_WARNINGS, message),
                LineDiagnostic::Note(message) => ("note", &mut notes, MAX_PRINTED_NOTES, message),
            };
            *count += 1;
            if *count <= max {
                let message = escape_control(message);
                self.progress
                    .suspend(|| eprint_line(format_args!("{label}: {source}, line {line}: {message}")));
            }
        }
        self.refused += chunk.refused;
        self.warnings += chunk.warnings;
        self.decoded += chunk.decoded;
        self.notes += chunk.notes;
        self.other_servers += chunk.other_servers;
    }

    /// Prints that an operation was refused, up to the maximum, and counts it.
    pub(crate) fn refuse(&mut self, source: &str, line: u64, reason: &str) {
        self.refused += 1;
        if self.refused <= MAX_PRINTED_REFUSALS {
            let reason = escape_control(reason);
            self.progress.suspend(|| eprint_line(format_args!("refused: {source}, line {line}: {reason}")));
        }
    }

    /// Prints refusals of retired names, up to the maximum, and counts all of them.
    pub(crate) fn print_retired(&mut self, names: &[Box<str>], count: u64) {
        for (name, _) in names.iter().zip(self.refused..MAX_PRINTED_REFUSALS) {
            let name = quote_input(name.as_bytes());
            eprint_line(format_args!("refused: `{name}`: the name is retired and cannot be reused"));
        }
        self.refused += count;
    }

    pub(crate) const fn has_refusals(&self) -> bool {
        self.refused > 0
    }

    /// Prints the summary; without `imported` it was a dry run of `read` records.
    pub(crate) fn print_summary(
        &self,
        imported: Option<&ImportSummary>,
        read: u64,
        deleted: u64,
        json: bool,
    ) -> Result<(), CliError> {
        self.progress.finish_and_clear();
        let (refused, warnings) = (self.refused, self.warnings);
        if refused > MAX_PRINTED_REFUSALS {
            eprint_line(format_args!("… and {} more refused records", refused - MAX_PRINTED_REFUSALS));
        }
        if warnings > MAX_PRINTED_WARNINGS {
            eprint_line(format_args!("… and {} more warnings", warnings - MAX_PRINTED_WARNINGS));
        }
        if self.decoded > MAX_PRINTED_NOTES {
            eprint_line(format_args!("… and {} more decoded names", self.decoded - MAX_PRINTED_NOTES));
        }
        if self.other_servers > 0 {
            eprint_line(format_args!("{} records belong to other servers of the site", self.other_servers));
        }
        let seconds = self.started.elapsed().as_secs_f64();
        match imported {
            Some(imported) => {
                let ImportSummary { created, changed, unchanged, superseded, .. } = imported;
                let duplicates =
                    if *superseded > 0 { format!(", {superseded} duplicates") } else { String::new() };
                let deleted = if deleted > 0 { format!(", {deleted} deleted") } else { String::new() };
                eprint_line(format_args!(
                    "{created} new, {changed} changed, {unchanged} unchanged{deleted}, {refused} refused{duplicates}; \
                     {seconds:.1} s"
                ));
            }
            None => {
                eprint_line(format_args!("{read} valid, {refused} refused; dry run, nothing was written"));
            }
        }
        if !json {
            return Ok(());
        }
        let ImportSummary { created, changed, unchanged, superseded, .. } =
            imported.cloned().unwrap_or_default();
        print_json(&ImportSummaryJson {
            read,
            created,
            changed,
            unchanged,
            deleted,
            superseded,
            refused,
            warnings,
            decoded: (self.decoded > 0).then_some(self.decoded),
            other_servers: (self.other_servers > 0).then_some(self.other_servers),
            seconds,
        })
    }
}
