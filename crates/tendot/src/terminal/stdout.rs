//! Buffered standard output, for data only.

use std::io::{self, BufWriter, StdoutLock, Write};
use std::path::Path;

use serde::Serialize;

use crate::CliError;

/// Buffered standard output; data only.
pub(crate) struct StdoutWriter {
    writer: BufWriter<StdoutLock<'static>>,
}

impl StdoutWriter {
    pub(crate) fn new() -> Self {
        Self { writer: BufWriter::with_capacity(1 << 16, io::stdout().lock()) }
    }

    pub(crate) fn write_bytes(&mut self, bytes: &[u8]) -> Result<(), CliError> {
        self.writer.write_all(bytes).map_err(|error| write_error(&error))
    }

    pub(crate) fn write_line(&mut self, line: impl std::fmt::Display) -> Result<(), CliError> {
        writeln!(self.writer, "{line}").map_err(|error| write_error(&error))
    }

    /// Writes a JSON value as one line.
    pub(crate) fn write_json(&mut self, value: &impl Serialize) -> Result<(), CliError> {
        serde_json::to_writer(&mut self.writer, value).map_err(|error| write_error(&error.into()))?;
        self.write_bytes(b"\n")
    }

    pub(crate) fn flush(&mut self) -> Result<(), CliError> {
        self.writer.flush().map_err(|error| write_error(&error))
    }
}

/// Prints a JSON value as one line.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), CliError> {
    let mut output = StdoutWriter::new();
    output.write_json(value)?;
    output.flush()
}

fn write_error(error: &io::Error) -> CliError {
    CliError::io("cannot write to standard output", error)
}

/// True for `-`, which means standard input or output.
pub(crate) fn is_stdio(path: &Path) -> bool {
    path.as_os_str() == "-"
}
