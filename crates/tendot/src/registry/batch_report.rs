//! Results of batch lines: counted, printed if refused, and written to the report file.

use std::borrow::Cow;
use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use indicatif::ProgressBar;
use serde::{Deserialize, Serialize};

use crate::CliError;
use crate::csv::write_spreadsheet_field;
use crate::terminal::{eprint_line, escape_control, is_stdio};

/// Maximum number of refusals printed; the rest is counted.
const MAX_PRINTED_REFUSALS: u64 = 100;

/// Maximum number of warnings, and of decoded names, that are printed.
const MAX_PRINTED_NOTES: u64 = 20;

/// Lines by status.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct BatchCounts {
    pub(super) lines: u64,
    created: u64,
    updated: u64,
    unchanged: u64,
    pub(super) refused: u64,
    warnings: u64,
}

impl fmt::Display for BatchCounts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { created, updated, unchanged, refused, .. } = self;
        write!(formatter, "{created} created, {updated} updated, {unchanged} unchanged, {refused} refused")
    }
}

/// Result of one batch line (`POST /api/v1/dois/batch`).
#[derive(Deserialize)]
struct BatchLineResult<'a> {
    line: u64,
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    status: Cow<'a, str>,
    #[serde(borrow, default)]
    error: Option<BatchLineError<'a>>,
    /// Form in which the name was written, if it was not bare.
    #[serde(borrow, default)]
    form: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    warnings: Vec<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct BatchLineError<'a> {
    #[serde(borrow)]
    code: Cow<'a, str>,
    #[serde(borrow)]
    detail: Cow<'a, str>,
    #[serde(borrow, default)]
    pointer: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    hint: Option<Cow<'a, str>>,
}

/// Receives line results, counts them and writes the report file.
pub(super) struct BatchReport {
    pub(super) counts: BatchCounts,
    file: Option<(String, Box<dyn Write>)>,
    is_csv: bool,
    /// Prefix line numbers with the source's name.
    has_many_sources: bool,
    /// Names in a written form.
    decoded: u64,
    progress: ProgressBar,
    /// Lines of the sources before the current one.
    lines_before: u64,
}

impl BatchReport {
    pub(super) fn open(
        path: Option<&Path>,
        has_many_sources: bool,
        progress: ProgressBar,
    ) -> Result<Self, CliError> {
        let is_csv =
            path.and_then(Path::extension).is_some_and(|extension| extension.eq_ignore_ascii_case("csv"));
        let file = path.map(|path| {
            let name = format!("`{}`", escape_control(&path.to_string_lossy()));
            if is_stdio(path) {
                return Ok((
                    "standard output".into(),
                    Box::new(BufWriter::new(io::stdout())) as Box<dyn Write>,
                ));
            }
            // Not an `AtomicFile`: results stay readable if the import is interrupted.
            match File::create(path) {
                Ok(file) => Ok((name, Box::new(BufWriter::with_capacity(1 << 16, file)) as Box<dyn Write>)),
                Err(error) => Err(CliError::io(format!("cannot write {name}"), &error)),
            }
        });
        let counts = BatchCounts::default();
        let mut report = Self {
            counts,
            file: file.transpose()?,
            is_csv,
            has_many_sources,
            decoded: 0,
            progress,
            lines_before: 0,
        };
        if report.is_csv {
            let file = if has_many_sources { "file," } else { "" };
            report.write(
                format!("{file}line,name,status,code,detail,pointer,hint,form,warnings\n").as_bytes(),
            )?;
        }
        Ok(report)
    }

    /// Begins the results of a source, after this many lines of others.
    pub(super) const fn begin_source(&mut self, lines_before: u64) {
        self.lines_before = lines_before;
    }

    /// Records the result of one line, given as JSON.
    pub(super) fn record_result(&mut self, source: &str, json: &[u8]) -> Result<(), CliError> {
        let outcome: BatchLineResult<'_> = serde_json::from_slice(json)
            .map_err(|error| CliError::new(format!("invalid line result from the server: {error}")))?;
        self.counts.lines += 1;
        self.progress.set_position(self.lines_before + outcome.line);
        match &*outcome.status {
            "created" => self.counts.created += 1,
            "updated" => self.counts.updated += 1,
            "unchanged" => self.counts.unchanged += 1,
            _ => {
                self.counts.refused += 1;
                if self.counts.refused <= MAX_PRINTED_REFUSALS {
                    self.eprint_refusal(source, &outcome);
                }
            }
        }
        self.eprint_notes(source, &outcome);
        if self.counts.lines.is_multiple_of(1_000) {
            self.progress.set_message(self.counts.to_string());
        }
        if self.file.is_none() {
            return Ok(());
        }
        if self.is_csv {
            return self.write_csv_row(source, &outcome);
        }
        match json.strip_prefix(b"{") {
            Some(members) if self.has_many_sources => {
                let source = serde_json::to_string(source.trim_matches('`')).unwrap_or_default();
                self.write(format!("{{\"file\":{source},").as_bytes())?;
                self.write(members)?;
            }
            _ => self.write(json)?,
        }
        self.write(b"\n")
    }

    /// Prints how a name was read, and the warnings about it, up to the maximum.
    fn eprint_notes(&mut self, source: &str, outcome: &BatchLineResult<'_>) {
        let name = outcome.name.as_deref().map(escape_control).unwrap_or_default();
        let print = |label: &str, message: &str| {
            let line = outcome.line;
            self.progress
                .suspend(|| eprint_line(format_args!("{label}: {source}, line {line}: `{name}`: {message}")));
        };
        if let Some(form) = &outcome.form {
            self.decoded += 1;
            if self.decoded <= MAX_PRINTED_NOTES {
                print("note", &format!("decoded (form: {})", escape_control(form)));
            }
        }
        for warning in &outcome.warnings {
            self.counts.warnings += 1;
            if self.counts.warnings <= MAX_PRINTED_NOTES {
                print("warning", &escape_control(warning));
            }
        }
    }

    fn eprint_refusal(&self, source: &str, outcome: &BatchLineResult<'_>) {
        let name =
            outcome.name.iter().map(|name| format!(" `{}`:", escape_control(name))).collect::<String>();
        let why = outcome.error.as_ref().map_or_else(String::new, |error| {
            format!(
                " {} ({})",
                escape_control(error.detail.trim_end_matches('.')),
                escape_control(&error.code)
            )
        });
        self.progress
            .suspend(|| eprint_line(format_args!("refused: {source}, line {}:{name}{why}", outcome.line)));
    }

    fn write_csv_row(&mut self, source: &str, outcome: &BatchLineResult<'_>) -> Result<(), CliError> {
        let line = outcome.line.to_string();
        let error = outcome.error.as_ref();
        let warnings = outcome.warnings.join("; ");
        let fields = [
            Some(&*line),
            outcome.name.as_deref(),
            Some(&*outcome.status),
            error.map(|error| &*error.code),
            error.map(|error| &*error.detail),
            error.and_then(|error| error.pointer.as_deref()),
            error.and_then(|error| error.hint.as_deref()),
            outcome.form.as_deref(),
            Some(&*warnings),
        ];
        let source = self.has_many_sources.then(|| Some(source.trim_matches('`')));
        let mut row = Vec::new();
        for (number, field) in source.into_iter().chain(fields).enumerate() {
            if number > 0 {
                row.push(b',');
            }
            // Writing to a vector cannot fail.
            let _ = write_spreadsheet_field(&mut row, field.unwrap_or_default());
        }
        row.push(b'\n');
        self.write(&row)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), CliError> {
        let Some((name, file)) = &mut self.file else { return Ok(()) };
        file.write_all(bytes).map_err(|error| CliError::io(format!("cannot write {name}"), &error))
    }

    /// Removes the progress bar and flushes the report file.
    pub(super) fn finish(&mut self) -> Result<(), CliError> {
        self.progress.finish_and_clear();
        if self.counts.refused > MAX_PRINTED_REFUSALS {
            eprint_line(format_args!(
                "… and {} more refused lines",
                self.counts.refused - MAX_PRINTED_REFUSALS
            ));
        }
        for (count, what) in [(self.counts.warnings, "warnings"), (self.decoded, "decoded names")] {
            if count > MAX_PRINTED_NOTES {
                eprint_line(format_args!("… and {} more {what}", count - MAX_PRINTED_NOTES));
            }
        }
        let Some((name, file)) = &mut self.file else { return Ok(()) };
        file.flush().map_err(|error| CliError::io(format!("cannot write {name}"), &error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_first_field_has_its_comma() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("report.csv");
        let mut report = BatchReport::open(Some(&path), true, ProgressBar::hidden()).unwrap();
        report.record_result("", br#"{"line":1,"name":"10.1/a","status":"created"}"#).unwrap();
        report.finish().unwrap();
        let rows = std::fs::read_to_string(&path).unwrap();
        assert_eq!(
            rows,
            "file,line,name,status,code,detail,pointer,hint,form,warnings\n,1,10.1/a,created,,,,,,\n"
        );
    }
}
