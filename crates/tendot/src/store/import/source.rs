//! Input of an import: file or stdin, and detection of its format.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use clap::ValueEnum;
use indicatif::ProgressBar;

use crate::CliError;
use crate::terminal::{escape_control, is_stdio};

/// Open input file or stdin.
pub(crate) struct ImportSource {
    name: String,
    reader: BufReader<Box<dyn Read + Send>>,
    /// Size in bytes; 0 if unknown.
    pub(crate) size: u64,
}

impl ImportSource {
    pub(crate) fn open(path: &Path) -> Result<Self, CliError> {
        if is_stdio(path) {
            let reader: Box<dyn Read + Send> = Box::new(io::stdin());
            return Self::new("standard input".into(), reader, 0);
        }
        let name = format!("`{}`", escape_control(&path.to_string_lossy()));
        let failed = |error| CliError::io(format!("cannot read {name}"), &error);
        let file = File::open(path).map_err(failed)?;
        let size = file.metadata().map_err(failed)?.len();
        Self::new(name.clone(), Box::new(file), size)
    }

    pub(crate) fn new(name: String, reader: Box<dyn Read + Send>, size: u64) -> Result<Self, CliError> {
        let mut source = Self { name, reader: BufReader::with_capacity(1 << 16, reader), size };
        // Skip a UTF-8 byte order mark.
        if source.peek()?.starts_with(b"\xef\xbb\xbf") {
            source.reader.consume(3);
        }
        Ok(source)
    }

    /// Name for messages.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// First bytes, at least one unless the source is empty.
    pub(crate) fn peek(&mut self) -> Result<&[u8], CliError> {
        let Self { name, reader, .. } = self;
        reader.fill_buf().map_err(|error| CliError::io(format!("cannot read {name}"), &error))
    }

    /// Counts the bytes read in a progress bar.
    pub(crate) fn with_progress(self, progress: &ProgressBar) -> Self {
        let reader: Box<dyn Read + Send> = Box::new(progress.wrap_read(self.reader));
        Self { reader: BufReader::with_capacity(1 << 16, reader), ..self }
    }

    /// Name and reader.
    pub(crate) fn into_parts(self) -> (String, impl BufRead + Send) {
        (self.name, self.reader)
    }
}

/// Input format of `tendot import`.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum ImportFormat {
    /// one JSON object per line: `{"handle": …, "values": […]}`
    Jsonl,
    /// rows of name,url; a header row names the columns, separated by commas, semicolons or tabs
    Csv,
    /// Handle.Net JSON dump (`homedPrefixes`, `handleRecords`)
    HandleNet,
    /// Handle.Net batch text (CREATE, ADD, MODIFY, REMOVE, DELETE, HOME, UNHOME)
    HandleBatch,
}

impl ImportFormat {
    /// Detects the format from the file extension, and for `.json` from the first bytes.
    pub(crate) fn detect(path: &Path, source: &mut ImportSource) -> Result<Self, CliError> {
        let extension = path.extension().unwrap_or_default().to_ascii_lowercase();
        Ok(match extension.to_str() {
            Some("csv" | "tsv") => Self::Csv,
            Some("txt") => Self::HandleBatch,
            Some("json") if is_handle_net_dump(source.peek()?) => Self::HandleNet,
            Some("" | "json" | "jsonl" | "ndjson") => Self::Jsonl,
            _ if source.peek()?.trim_ascii_start().starts_with(b"{") => Self::Jsonl,
            _ => return Err(unknown_format_error(path)),
        })
    }
}

/// Error for a file whose format cannot be told from its name.
pub(crate) fn unknown_format_error(path: &Path) -> CliError {
    let file = escape_control(&path.to_string_lossy());
    CliError::new(format!("unknown format of `{file}`")).with_hint(
        "set `--format`, or name the file .jsonl or .csv; `tendot extract` finds the names in any text, such as BibTeX",
    )
}

/// True if the first member of the JSON object is one of a Handle.Net dump.
fn is_handle_net_dump(beginning: &[u8]) -> bool {
    let trimmed = beginning.trim_ascii_start();
    let member = trimmed.strip_prefix(b"{").map(<[u8]>::trim_ascii_start).unwrap_or_default();
    member.starts_with(b"\"handleRecords\"") || member.starts_with(b"\"homedPrefixes\"")
}
