//! `tendot doi import`: uploads files as batches, and resumes after a broken connection.

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
use crate::terminal::{
    StdoutWriter, eprint_line, eprint_stdin_notice, eprint_warning, escape_control, is_stdio, progress_bar,
};
use crate::{CliError, CommandStatus};

/// Register and change names from files, line by line
///
/// Names that are there are changed. A line that is refused holds up none of the others. What was answered is kept by the
/// service for 24 hours, by the content of the file: when the connection is cut it goes on where it was, and when the same
/// file is imported again, the same is answered and nothing is done twice. Standard input is sent as it comes, and can't be
/// sent again.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot doi import names.ndjson
  tendot doi import names.csv --dry-run
  tendot doi import names.csv --report report.csv
  make-names | tendot doi import -

A line of NDJSON is {\"name\" or \"prefix\", \"url\", \"values\", \"metadata\", \"state\"}; the first line of CSV names the columns:
name, prefix, url, state and metadata (JSON).

Exit codes: 0 all are in, 1 some were refused (told on stderr, the others are in), 2 it did not come to its end.")]
pub(crate) struct DoiImportArguments {
    /// Files to send; `-` is standard input
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,

    /// The format of the files [default: csv if a name ends so, else ndjson]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) format: Option<BatchFormat>,

    /// Say what would be done, and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// A file for what became of each line; CSV if its name ends so, else NDJSON
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,

    /// By which the service knows the batch when it is sent again [default: made from the file's content]
    #[arg(long, value_name = "KEY", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) key: Option<String>,

    /// How often a file is sent again, without a further answer, when the connection is cut
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub(crate) tries: u32,
}

/// A format of batches.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum BatchFormat {
    /// a JSON object a line
    Ndjson,
    /// rows, the first of which names the columns
    Csv,
}

/// Delay before the first retry; doubled for each further one.
const INITIAL_RETRY_DELAY: Duration = Duration::from_millis(250);

const MAX_RETRY_DELAY: Duration = Duration::from_secs(15);

const UPLOAD_PROGRESS: &str = "{bar:40} {bytes}/{total_bytes}  {bytes_per_sec}  {eta} left  {msg}";

/// File or stdin to upload.
struct BatchSource {
    name: String,
    /// None for standard input.
    file: Option<File>,
    size: u64,
    format: BatchFormat,
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
    let bar = progress_bar(sources.iter().map(|source| source.size).sum(), UPLOAD_PROGRESS);
    let mut report = BatchReport::open(arguments.report.as_deref(), sources.len() > 1, bar.clone())?;
    for (number, source) in sources.iter().enumerate() {
        let key = match (&arguments.key, &source.file) {
            (Some(key), _) if number > 0 => Some(format!("{key}/{}", number + 1)),
            (Some(key), _) => Some(key.clone()),
            (None, Some(file)) => Some(source.content_idempotency_key(file)?),
            (None, None) => None,
        };
        let run = BatchUpload {
            session,
            source,
            key: key.as_deref(),
            dry_run: arguments.dry_run,
            max_retries: arguments.tries,
            bar: &bar,
        };
        if let Err(failure) = run.upload_with_retries(&mut report) {
            report.finish()?;
            if report.counts.lines > 0 {
                eprint_line(format_args!("{} before that", report.counts));
            }
            return Err(failure);
        }
    }
    report.finish()?;
    let (counts, seconds) = (report.counts, started.elapsed().as_secs_f64());
    let dry = if arguments.dry_run { "; nothing was written" } else { "" };
    eprint_line(format_args!("{counts}; {seconds:.1} s{dry}"));
    if session.json {
        let mut output = StdoutWriter::new();
        output.write_json(&BatchSummaryJson { counts, dry_run: arguments.dry_run, seconds })?;
        output.flush()?;
    }
    Ok(if counts.refused > 0 { CommandStatus::Negative } else { CommandStatus::Success })
}

impl ApiSession {
    /// Sends an empty batch, so that a missing permission is found before a large upload.
    fn check_permission(&self) -> Result<(), CliError> {
        let options = BatchOptions { is_dry_run: true, ..BatchOptions::default() };
        self.map_error(self.runtime.block_on(async {
            let mut answers = self.client.batch(&options, io::empty()).await?;
            while answers.next_line().await?.is_some() {}
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
            Err(CliError::new(format!("`{}` is to be imported", escape_control(&path.to_string_lossy())))
                .with_hint("write the report to another place"))
        }
        None => Ok(()),
    }
}

impl BatchSource {
    fn open(path: &Path, format: Option<BatchFormat>) -> Result<Self, CliError> {
        let is_csv = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("csv"));
        let format = format.unwrap_or(if is_csv { BatchFormat::Csv } else { BatchFormat::Ndjson });
        if is_stdio(path) {
            return Ok(Self { name: "standard input".into(), file: None, size: 0, format });
        }
        let name = format!("`{}`", escape_control(&path.to_string_lossy()));
        let failed = |error| CliError::io(format!("{name} can't be read"), &error);
        let file = File::open(path).map_err(failed)?;
        let about = file.metadata().map_err(failed)?;
        if about.is_dir() {
            return Err(failed(io::ErrorKind::IsADirectory.into()));
        }
        // A retry must read the file again, which a pipe does not allow.
        let file = if about.is_file() { Some(file) } else { return Err(no_file(&name)) };
        Ok(Self { name, file, size: about.len(), format })
    }

    /// Idempotency key derived from the content (SHA-256), the same for each upload of it.
    fn content_idempotency_key(&self, file: &File) -> Result<String, CliError> {
        let failed = |error| CliError::io(format!("{} can't be read", self.name), &error);
        let mut file = file.try_clone().map_err(failed)?;
        file.rewind().map_err(failed)?;
        let mut context = Context::new(&SHA256);
        let mut buffer = vec![0; 1 << 16];
        loop {
            match file.read(&mut buffer).map_err(failed)? {
                0 => break,
                read => context.update(&buffer[..read]),
            }
        }
        let format = if self.format == BatchFormat::Csv { "csv" } else { "ndjson" };
        Ok(format!("tendot-import-{format}-sha256-{}", HEXLOWER.encode(context.finish().as_ref())))
    }
}

fn no_file(name: &str) -> CliError {
    CliError::new(format!("{name} is no file, and can't be sent again if the connection is cut"))
        .with_hint("`tendot doi import - < …` reads it as standard input")
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
        let begun = self.bar.position();
        let (mut received, mut tries, mut is_first) = (0, 0, true);
        loop {
            let before = received;
            let failure =
                match self.session.runtime.block_on(self.upload_once(&mut received, is_first, report))? {
                    Ok(()) => return Ok(()),
                    Err(error) => error,
                };
            is_first = false;
            tries = if received > before { 1 } else { tries + 1 };
            if self.source.file.is_none() || !failure.is_transient() || tries > self.max_retries {
                let is_passing = failure.is_transient();
                return self.session.map_error(Err(failure)).map_err(|failed| match is_passing {
                    true => self.with_resume_hint(failed),
                    false => failed,
                });
            }
            let wait = INITIAL_RETRY_DELAY.saturating_mul(1 << (tries - 1).min(16)).min(MAX_RETRY_DELAY);
            let why = escape_control(&failure.to_string());
            let (wait_seconds, most) = (wait.as_secs_f64(), self.max_retries);
            self.bar.suspend(|| {
                eprint_warning(&format!("{why}; again in {wait_seconds} s, {tries} of {most} times"));
            });
            std::thread::sleep(wait);
            self.bar.set_position(begun);
        }
    }

    /// Adds a hint on how to resume.
    fn with_resume_hint(&self, failure: CliError) -> CliError {
        match (&self.source.file, self.key) {
            _ if self.dry_run => failure,
            (Some(_), _) | (None, Some(_)) => failure.or_hint("the same command goes on where it was"),
            (None, None) => {
                failure.or_hint("what was answered is done; with `--key` or from a file it can go on")
            }
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
            is_csv: self.source.format == BatchFormat::Csv,
            is_dry_run: self.dry_run,
            idempotency_key: self.key,
            has_slow_source: self.source.file.is_none(),
        };
        let client = &self.session.client;
        let answers = match &self.source.file {
            Some(file) => {
                let failed = |error| CliError::io(format!("{} can't be read", self.source.name), &error);
                let mut file = file.try_clone().map_err(failed)?;
                file.rewind().map_err(failed)?;
                client.batch(&options, self.bar.wrap_read(file)).await
            }
            None => client.batch(&options, self.bar.wrap_read(io::stdin())).await,
        };
        let mut answers = match answers {
            Ok(answers) => answers,
            Err(error) => return Ok(Err(error)),
        };
        if is_first && answers.is_replayed() {
            let name = &self.source.name;
            self.bar.suspend(|| {
                eprint_warning(&format!("{name} was imported before: this is what was answered then, and nothing is done; `--key` with another key does it again"));
            });
        }
        let mut number = 0;
        loop {
            match answers.next_line().await {
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
