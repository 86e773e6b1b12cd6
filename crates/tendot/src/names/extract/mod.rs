//! `tendot extract`: finds DOI names in files, in parallel and in input order.
//!
//! `walk.rs` lists the files, `job.rs` makes one or more search jobs of each, `chunk.rs` reads a part of a large file,
//! `search.rs` scans a stream in bounded memory, `delimiter.rs` detects the field delimiter of tables.

mod chunk;
mod delimiter;
mod job;
mod search;
mod walk;

use std::borrow::Cow;
use std::collections::HashSet;
use std::io::{self, IsTerminal as _};
use std::num::NonZero;
use std::path::{Path, PathBuf};

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use job::{ExtractEvent, ExtractJob};
use search::Hit;
use serde::Serialize;
use tendot_names::Extractor;
use walk::FileWalk;

use crate::ordered_pool::map_ordered;
use crate::terminal::{StdoutWriter, eprint_error, eprint_line, eprint_stdin_notice, escape_control};
use crate::{CliError, CommandStatus};

/// Find DOI names in text, files and directories
///
/// Prints one name per line, in order of appearance, decoded and without surrounding punctuation. Directories are searched
/// recursively, without hidden files and symbolic links. In .csv and .tsv files a name ends with its field.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot extract paper.txt
  tendot extract --unique references/ > dois.txt
  pdftotext paper.pdf - | tendot extract --join-lines
  tendot extract --json refs.bib | jq -r 'select(.flags | index(\"tail-cut\")) | .text'

Exit codes: 0 success, 1 no name found, 2 error, or some files could not be read")]
pub(crate) struct ExtractArguments {
    /// Files and directories to search; `-` is standard input [default: -]
    #[arg(value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,

    /// Print each name once, as first found
    #[arg(long)]
    pub(crate) unique: bool,

    /// Print only the number of names
    #[arg(long)]
    pub(crate) count: bool,

    /// Join names that are broken across lines, as in text from PDF files
    #[arg(long)]
    pub(crate) join_lines: bool,

    /// Keep suffixes added by publishers (`/full`, `.pdf`) and appended notes
    #[arg(long)]
    pub(crate) keep_tails: bool,

    /// Number of search threads [default: one per core]
    #[arg(short = 'j', long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..))]
    pub(crate) threads: Option<u8>,

    /// Print JSON, one object per name: name, path, line, start, end (bytes), text (as found), flags
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
}

pub(crate) fn run(arguments: &ExtractArguments) -> Result<CommandStatus, CliError> {
    let standard_input = [PathBuf::from("-")];
    let paths = if arguments.paths.is_empty() { &standard_input[..] } else { &arguments.paths };
    if paths.iter().any(|path| path.as_os_str() == "-") {
        eprint_stdin_notice();
    }
    let threads = arguments.threads.and_then(|threads| NonZero::new(usize::from(threads)));
    let threads =
        threads.or_else(|| std::thread::available_parallelism().ok()).unwrap_or(NonZero::<usize>::MIN);
    let extractor =
        Extractor::new().join_lines(arguments.join_lines).keep_publisher_tails(arguments.keep_tails);
    // A name that continues on the next line could be split between two chunks.
    let split_files = !arguments.join_lines;
    let with_lines = arguments.json;
    let jobs = FileWalk::new(paths).flat_map(move |path| ExtractJob::for_path(path, split_files));
    let mut report = ExtractReport::new(arguments);
    map_ordered(
        threads,
        jobs,
        |job, results| job.search(extractor, with_lines, results),
        |event| report.handle_event(event),
    )?;
    report.finish()
}

/// Prints search events in input order.
struct ExtractReport {
    output: StdoutWriter,
    count_only: bool,
    json: bool,
    /// Comparison keys of printed names, with `--unique`.
    seen_keys: Option<HashSet<Vec<u8>>>,
    count: u64,
    /// Lines of the current file before the current chunk.
    lines: u64,
    has_failures: bool,
    progress: ProgressBar,
}

#[derive(Serialize)]
struct HitJson<'a> {
    name: &'a str,
    path: Cow<'a, str>,
    line: u64,
    start: u64,
    end: u64,
    text: &'a str,
    flags: Vec<&'static str>,
}

#[derive(Serialize)]
struct CountJson {
    count: u64,
}

impl ExtractReport {
    fn new(arguments: &ExtractArguments) -> Self {
        Self {
            output: StdoutWriter::new(),
            count_only: arguments.count,
            json: arguments.json,
            seen_keys: arguments.unique.then(HashSet::new),
            count: 0,
            lines: 0,
            has_failures: false,
            progress: extract_progress(&arguments.paths),
        }
    }

    fn handle_event(&mut self, event: ExtractEvent) -> Result<(), CliError> {
        match event {
            ExtractEvent::Names(names, count) if self.seen_keys.is_none() => {
                self.count += count;
                if !self.count_only {
                    self.output.write_bytes(&names)?;
                }
            }
            ExtractEvent::Names(names, _) => {
                for name in names.split_inclusive(|byte| *byte == b'\n') {
                    if self.insert_if_new(name) && !self.count_only {
                        self.output.write_bytes(name)?;
                    }
                }
            }
            ExtractEvent::Hits(path, hits) => {
                for hit in &hits {
                    self.print_hit(&path, hit)?;
                }
            }
            ExtractEvent::ChunkEnd { lines, bytes, is_last } => {
                self.lines = if is_last { 0 } else { self.lines + lines };
                self.progress.inc(bytes);
                return Ok(());
            }
            ExtractEvent::ReadFailed(path, error) => {
                self.has_failures = true;
                self.lines = 0;
                let path = escape_control(&path.to_string_lossy());
                self.progress.suspend(|| eprint_error(&format!("cannot read `{path}`: {error}")));
                return Ok(());
            }
        }
        // Events are rare for files; for a slow pipe, names should appear at once.
        self.output.flush()
    }

    fn print_hit(&mut self, path: &Path, hit: &Hit) -> Result<(), CliError> {
        if !self.insert_if_new(hit.name.as_bytes()) || self.count_only {
            return Ok(());
        }
        let object = HitJson {
            name: &hit.name,
            path: path.to_string_lossy(),
            line: self.lines + hit.line + 1,
            start: hit.start,
            end: hit.end,
            text: &hit.text,
            flags: hit.flags.iter().map(|flag| flag.code()).collect(),
        };
        self.output.write_json(&object)
    }

    /// Counts a name, unless `--unique` is given and it was counted before; returns whether it counts.
    fn insert_if_new(&mut self, name: &[u8]) -> bool {
        let is_new = self.seen_keys.as_mut().is_none_or(|seen| seen.insert(name.to_ascii_uppercase()));
        self.count += u64::from(is_new);
        is_new
    }

    fn finish(mut self) -> Result<CommandStatus, CliError> {
        self.progress.finish_and_clear();
        if self.count_only && self.json {
            self.output.write_json(&CountJson { count: self.count })?;
        } else if self.count_only {
            self.output.write_line(self.count)?;
        }
        self.output.flush()?;
        if self.has_failures {
            return Ok(CommandStatus::Partial);
        }
        if self.count == 0 {
            eprint_line("no DOI name found");
            return Ok(CommandStatus::Negative);
        }
        Ok(CommandStatus::Success)
    }
}

/// Progress bar, if stderr is a terminal and stdout is not.
fn extract_progress(paths: &[PathBuf]) -> ProgressBar {
    if paths.is_empty() || !io::stderr().is_terminal() || io::stdout().is_terminal() {
        return ProgressBar::hidden();
    }
    let bytes = FileWalk::new(paths)
        .flatten()
        .filter_map(|(_, metadata)| metadata)
        .map(|metadata| metadata.len())
        .sum();
    let template = "{bar:40} {bytes}/{total_bytes}  {bytes_per_sec}  ETA {eta}";
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(bytes).with_style(style)
}
