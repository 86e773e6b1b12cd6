//! Standard output, buffered; data and nothing else goes there.

use std::io::{self, BufWriter, StdoutLock, Write};

use serde::Serialize;

use crate::Failure;

pub(crate) struct Output {
    writer: BufWriter<StdoutLock<'static>>,
}

impl Output {
    pub(crate) fn new() -> Self {
        Self { writer: BufWriter::with_capacity(1 << 16, io::stdout().lock()) }
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.writer.write_all(bytes).map_err(|error| broken(&error))
    }

    pub(crate) fn line(&mut self, line: impl std::fmt::Display) -> Result<(), Failure> {
        writeln!(self.writer, "{line}").map_err(|error| broken(&error))
    }

    /// One JSON object on a line of its own.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        serde_json::to_writer(&mut self.writer, value).map_err(|error| broken(&error.into()))?;
        self.write(b"\n")
    }

    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        self.writer.flush().map_err(|error| broken(&error))
    }
}

fn broken(error: &io::Error) -> Failure {
    Failure::io("standard output can't be written", error)
}
