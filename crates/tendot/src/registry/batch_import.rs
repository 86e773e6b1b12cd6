//! `tendot doi import`: uploads files as batches, and resumes after a lost connection.

use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use aws_lc_rs::digest::{Context, SHA256};
use clap::builder::NonEmptyStringValueParser;
use clap::{Args, ValueEnum};
use data_encoding::HEXLOWER;
use indicatif::ProgressBar;
use serde::Serialize;
use tendot_client::{BatchOptions, RegistryClientError};

use super::ApiSession;
use super::batch_report::{BatchCounts, BatchReport};
use crate::store::import::unknown_format_error;
use crate::terminal::{
    LINE_PROGRESS, eprint_line, eprint_stdin_notice, eprint_warning, escape_control, is_stdio, print_json,
    progress_bar,
};
use crate::{CliError, CommandStatus};

/// Register and update DOI names from files
///
/// Existing names are updated. A refused line does not stop the others. The server stores the results for 24 hours under an
/// idempotency key, by default a hash of the file: after a lost connection the upload resumes, and importing the same file again
/// replays the results of accepted lines and tries refused ones again, unless their names were changed since. Standard input is streamed and cannot be re-sent.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot doi import names.ndjson
  tendot doi import names.csv --dry-run
  tendot doi import names.csv --report report.csv
  make-names | tendot doi import -

An NDJSON line has the members \"name\" or \"prefix\", \"url\", \"values\", \"metadata\" and \"state\". The first row of a CSV
file names the columns: name, prefix, url, state, and metadata (JSON) or title, creator (several separated by `;`), date
and type. Fields are separated by commas, semicolons or tabs. Names may be in any written form.

Exit codes: 0 success, 1 some lines were refused, 2 error")]
pub(crate) struct DoiImportArguments {
    /// Input files; `-` is standard input
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,

    /// Input format [default: csv for *.csv and *.tsv, otherwise ndjson]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) format: Option<BatchFileFormat>,

    /// Validate without writing
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Write the result of each line to this file; CSV for *.csv, otherwise NDJSON
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) report: Option<PathBuf>,

    /// Idempotency key of the upload [default: hash of the file]
    #[arg(long, value_name = "KEY", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) idempotency_key: Option<String>,

    /// Retries without progress after a lost connection
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub(crate) retries: u32,
}

/// Input format of `tendot doi import`.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum BatchFileFormat {
    /// one JSON object per line
    Ndjson,
    /// rows; the first row names the columns
    Csv,
}

impl BatchFileFormat {
    /// Format by file extension, else by the first byte; `None` if neither is known.
    fn detect(path: &Path, first_byte: Option<u8>) -> Option<Self> {
        let extension = path.extension().unwrap_or_default().to_ascii_lowercase();
        match extension.to_str().unwrap_or_default() {
            "csv" | "tsv" => Some(Self::Csv),
            "" | "json" | "jsonl" | "ndjson" | "txt" => Some(Self::Ndjson),
            _ if first_byte == Some(b'{') => Some(Self::Ndjson),
            _ => None,
        }
    }
}

/// Delay before the first retry; doubled for each further one.
const INITIAL_RETRY_DELAY: Duration = Duration::from_millis(250);

const MAX_RETRY_DELAY: Duration = Duration::from_secs(15);

/// File or stdin to upload.
struct BatchSource {
    name: String,
    /// None for standard input.
    file: Option<File>,
    format: BatchFileFormat,
    content: SourceContent,
}

/// Lines and hash of a file; zero and empty for standard input.
#[derive(Default)]
struct SourceContent {
    lines: u64,
    /// SHA-256 in hexadecimal digits.
    sha256: String,
    first_byte: Option<u8>,
}

#[derive(Serialize)]
struct BatchSummaryJson {
    #[serde(flatten)]
    counts: BatchCounts,
    dry_run: bool,
    seconds: f64,
}

pub(crate) fn import(
    session: &ApiSession,
    arguments: &DoiImportArguments,
) -> Result<CommandStatus, CliError> {
    let started = Instant::now();
    // Open all files before uploading any, so that a wrong path fails early.
    let sources: Result<Vec<_>, _> =
        arguments.files.iter().map(|path| BatchSource::open(path, arguments.format)).collect();
    let sources = sources?;
    ensure_report_is_not_input(arguments)?;
    if sources.iter().any(|source| source.file.is_none()) {
        eprint_stdin_notice();
    }
    session.check_permission()?;
    let bar = progress_bar(sources.iter().map(|source| source.content.lines).sum(), LINE_PROGRESS);
    let mut report = BatchReport::open(arguments.report.as_deref(), sources.len() > 1, bar.clone())?;
    let mut lines_before = 0;
    for (number, source) in sources.iter().enumerate() {
        let key = match (&arguments.idempotency_key, &source.file) {
            (Some(key), _) if number > 0 => Some(format!("{key}/{}", number + 1)),
            (Some(key), _) => Some(key.clone()),
            (None, Some(_)) => Some(source.content_idempotency_key()),
            (None, None) => None,
        };
        report.begin_source(lines_before);
        lines_before += source.content.lines;
        let upload = BatchUpload {
            session,
            source,
            key: key.as_deref(),
            dry_run: arguments.dry_run,
            max_retries: arguments.retries,
            bar: &bar,
        };
        if let Err(error) = upload.upload_with_retries(&mut report) {
            report.finish()?;
            if report.counts.lines > 0 {
                eprint_line(format_args!("{} before the error", report.counts));
            }
            return Err(error);
        }
    }
    report.finish()?;
    let (counts, seconds) = (report.counts, started.elapsed().as_secs_f64());
    let dry_run = if arguments.dry_run { "; dry run, nothing was written" } else { "" };
    eprint_line(format_args!("{counts}; {seconds:.1} s{dry_run}"));
    if session.json {
        print_json(&BatchSummaryJson { counts, dry_run: arguments.dry_run, seconds })?;
    }
    Ok(if counts.refused > 0 { CommandStatus::Negative } else { CommandStatus::Success })
}

impl ApiSession {
    /// Sends an empty batch, so that a missing permission is found before a large upload.
    fn check_permission(&self) -> Result<(), CliError> {
        let options = BatchOptions { is_dry_run: true, ..BatchOptions::default() };
        self.map_error(self.runtime.block_on(async {
            let mut results = self.client.batch(&options, io::empty()).await?;
            while results.next_line().await?.is_some() {}
            Ok(())
        }))
    }
}

/// Refuses a report file that is also an input.
fn ensure_report_is_not_input(arguments: &DoiImportArguments) -> Result<(), CliError> {
    let report = arguments.report.as_ref().and_then(|path| std::fs::canonicalize(path).ok());
    let is_source = |path: &&PathBuf| report.is_some() && std::fs::canonicalize(path).ok() == report;
    match arguments.files.iter().find(is_source) {
        Some(path) => {
            let path = escape_control(&path.to_string_lossy());
            Err(CliError::new(format!("the report would overwrite the input `{path}`"))
                .with_hint("choose another `--report` file"))
        }
        None => Ok(()),
    }
}

impl BatchSource {
    fn open(path: &Path, format: Option<BatchFileFormat>) -> Result<Self, CliError> {
        let detect = |first_byte| {
            let format = format.or_else(|| BatchFileFormat::detect(path, first_byte));
            format.ok_or_else(|| unknown_format_error(path))
        };
        if is_stdio(path) {
            let format = detect(None)?;
            let content = SourceContent::default();
            return Ok(Self { name: "standard input".into(), file: None, format, content });
        }
        let name = format!("`{}`", escape_control(&path.to_string_lossy()));
        let failed = |error| CliError::io(format!("cannot read {name}"), &error);
        let file = File::open(path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if metadata.is_dir() {
            return Err(failed(io::ErrorKind::IsADirectory.into()));
        }
        // A retry must read the file again, which a pipe does not allow.
        if !metadata.is_file() {
            return Err(not_a_file_error(&name));
        }
        let content = SourceContent::read(&file).map_err(failed)?;
        Ok(Self { name, file: Some(file), format: detect(content.first_byte)?, content })
    }

    /// Idempotency key derived from the content, the same for each upload of it.
    fn content_idempotency_key(&self) -> String {
        let format = if self.format == BatchFileFormat::Csv { "csv" } else { "ndjson" };
        format!("tendot-import-{format}-sha256-{}", self.content.sha256)
    }
}

impl SourceContent {
    fn read(mut file: &File) -> io::Result<Self> {
        let mut context = Context::new(&SHA256);
        let mut buffer = vec![0; 1 << 16];
        let (mut lines, mut first_byte, mut last_byte) = (0, None, b'\n');
        loop {
            let read = file.read(&mut buffer)?;
            let Some(&last) = buffer[..read].last() else { break };
            context.update(&buffer[..read]);
            first_byte = first_byte.or(buffer.first().copied());
            lines += memchr::memchr_iter(b'\n', &buffer[..read]).count() as u64;
            last_byte = last;
        }
        lines += u64::from(last_byte != b'\n');
        Ok(Self { lines, first_byte, sha256: HEXLOWER.encode(context.finish().as_ref()) })
    }
}

fn not_a_file_error(name: &str) -> CliError {
    CliError::new(format!("{name} is not a regular file and cannot be re-sent after a lost connection"))
        .with_hint("pipe it to `tendot doi import -`")
}

/// Upload of one source, with retries.
struct BatchUpload<'a> {
    session: &'a ApiSession,
    source: &'a BatchSource,
    key: Option<&'a str>,
    dry_run: bool,
    max_retries: u32,
    bar: &'a ProgressBar,
}

impl BatchUpload<'_> {
    /// Uploads until the server has answered all lines, with backoff between attempts.
    fn upload_with_retries(&self, report: &mut BatchReport) -> Result<(), CliError> {
        let (mut received, mut attempts, mut is_first) = (0, 0, true);
        loop {
            let before = received;
            let error =
                match self.session.runtime.block_on(self.upload_once(&mut received, is_first, report))? {
                    Ok(()) => return Ok(()),
                    Err(error) => error,
                };
            is_first = false;
            attempts = if received > before { 1 } else { attempts + 1 };
            if self.source.file.is_none() || !error.is_transient() || attempts > self.max_retries {
                let is_transient = error.is_transient();
                return self.session.map_error(Err(error)).map_err(|error| match is_transient {
                    true => self.with_resume_hint(error),
                    false => error,
                });
            }
            let delay = INITIAL_RETRY_DELAY.saturating_mul(1 << (attempts - 1).min(16)).min(MAX_RETRY_DELAY);
            let why = escape_control(&error.to_string());
            let (seconds, max_retries) = (delay.as_secs_f64(), self.max_retries);
            self.bar.suspend(|| {
                eprint_warning(&format!("{why}; retrying in {seconds} s ({attempts} of {max_retries})"));
            });
            std::thread::sleep(delay);
        }
    }

    /// Adds a hint on how to resume.
    fn with_resume_hint(&self, error: CliError) -> CliError {
        match (&self.source.file, self.key) {
            _ if self.dry_run => error,
            (Some(_), _) | (None, Some(_)) => error.or_hint("run the same command again to resume"),
            (None, None) => error.or_hint(
                "the lines reported above are done; use `--idempotency-key` or a file to be able to resume",
            ),
        }
    }

    /// Uploads once; the first `received` results were received in earlier attempts and are skipped.
    async fn upload_once(
        &self,
        received: &mut u64,
        is_first: bool,
        report: &mut BatchReport,
    ) -> Result<Result<(), RegistryClientError>, CliError> {
        let options = BatchOptions {
            is_csv: self.source.format == BatchFileFormat::Csv,
            is_dry_run: self.dry_run,
            idempotency_key: self.key,
            has_slow_source: self.source.file.is_none(),
        };
        let client = &self.session.client;
        let results = match &self.source.file {
            Some(file) => {
                let failed = |error| CliError::io(format!("cannot read {}", self.source.name), &error);
                let mut file = file.try_clone().map_err(failed)?;
                file.rewind().map_err(failed)?;
                client.batch(&options, file).await
            }
            None => client.batch(&options, io::stdin()).await,
        };
        let mut results = match results {
            Ok(results) => results,
            Err(error) => return Ok(Err(error)),
        };
        if is_first && results.is_replayed() {
            let name = &self.source.name;
            self.bar.suspend(|| {
                eprint_warning(&format!(
                    "{name} was imported before; accepted lines are replayed, refused lines are tried again; use another \
                     `--idempotency-key` to import all of it again"
                ));
            });
        }
        let mut number = 0;
        loop {
            match results.next_line().await {
                Ok(Some(line)) => {
                    number += 1;
                    if number > *received {
                        report.record_result(&self.source.name, &line)?;
                        *received = number;
                    }
                }
                Ok(None) => return Ok(Ok(())),
                Err(error) => return Ok(Err(error)),
            }
        }
    }
}
