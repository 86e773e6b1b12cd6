//! Where records come from.

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
    /// Its size, as far as that is known.
    pub(crate) size: u64,
}

impl ImportSource {
    pub(crate) fn open(path: &Path) -> Result<Self, CliError> {
        if is_stdio(path) {
            let reader: Box<dyn Read + Send> = Box::new(io::stdin());
            return Self::new("standard input".into(), reader, 0);
        }
        let name = format!("`{}`", escape_control(&path.to_string_lossy()));
        let failed = |error| CliError::io(format!("{name} can't be read"), &error);
        let file = File::open(path).map_err(failed)?;
        let size = file.metadata().map_err(failed)?.len();
        Self::new(name.clone(), Box::new(file), size)
    }

    pub(crate) fn new(name: String, reader: Box<dyn Read + Send>, size: u64) -> Result<Self, CliError> {
        let mut source = Self { name, reader: BufReader::with_capacity(1 << 16, reader), size };
        // Some editors begin a text with a mark of its encoding.
        if source.peek()?.starts_with(b"\xef\xbb\xbf") {
            source.reader.consume(3);
        }
        Ok(source)
    }

    /// How it is called in messages.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Its beginning, at least a byte of it unless it is empty.
    pub(crate) fn peek(&mut self) -> Result<&[u8], CliError> {
        let Self { name, reader, .. } = self;
        reader.fill_buf().map_err(|error| CliError::io(format!("{name} can't be read"), &error))
    }

    /// The bytes, which `progress` counts.
    pub(crate) fn with_progress(self, progress: &ProgressBar) -> Self {
        let reader: Box<dyn Read + Send> = Box::new(progress.wrap_read(self.reader));
        Self { reader: BufReader::with_capacity(1 << 16, reader), ..self }
    }

    /// The name and the bytes.
    pub(super) fn into_parts(self) -> (String, impl BufRead + Send) {
        (self.name, self.reader)
    }
}

/// Input format of `tendot import`.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum ImportFormat {
    /// a JSON object a line: `{"handle": …, "values": […]}`
    Jsonl,
    /// name,url
    Csv,
    /// Handle.Net's JSON dump, with `homedPrefixes` and `handleRecords`
    HandleNet,
    /// Handle.Net's batch text, of which CREATE and HOME are taken
    HandleBatch,
}

impl ImportFormat {
    /// By the end of the file's name, and for `.json` by its beginning.
    pub(crate) fn detect(path: &Path, source: &mut ImportSource) -> Result<Self, CliError> {
        let extension = path.extension().unwrap_or_default().to_ascii_lowercase();
        Ok(match extension.to_str() {
            Some("csv") => Self::Csv,
            Some("txt") => Self::HandleBatch,
            Some("json") if is_handle_net_dump(source.peek()?) => Self::HandleNet,
            _ => Self::Jsonl,
        })
    }
}

/// Whether the first member of the object is one that only a dump has.
fn is_handle_net_dump(beginning: &[u8]) -> bool {
    let trimmed = beginning.trim_ascii_start();
    let member = trimmed.strip_prefix(b"{").map(<[u8]>::trim_ascii_start).unwrap_or_default();
    member.starts_with(b"\"handleRecords\"") || member.starts_with(b"\"homedPrefixes\"")
}
