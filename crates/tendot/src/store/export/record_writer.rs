//! Output formats of an export: what stands before, between and after the records.

use std::io::{self, Write};

use tendot_proto::record::HandleRecord;
use tendot_store::StoredRecord;

use super::ExportFormat;
use crate::csv::write_field;
use crate::handle::batch_language;

/// Writer of records in one format.
pub(super) struct RecordWriter<W> {
    format: ExportFormat,
    output: W,
    is_first: bool,
    /// What the format cannot express.
    pub(super) omitted: OmissionCounts,
}

/// Number of records and values that a format cannot express.
#[derive(Debug, Default)]
pub(super) struct OmissionCounts {
    /// Records without a URL, in CSV.
    pub(super) without_url: u64,
    /// Values that are not text, lists or administrators, in batch files.
    pub(super) values: u64,
    /// Records whose names cannot stand on a line, in batch files.
    pub(super) records: u64,
}

impl<W: Write> RecordWriter<W> {
    pub(super) fn new(format: ExportFormat, output: W) -> Self {
        Self { format, output, is_first: true, omitted: OmissionCounts::default() }
    }

    /// Writes what stands before the records: in a dump, the prefixes that the store is responsible for.
    pub(super) fn begin(&mut self) -> io::Result<()> {
        match self.format {
            ExportFormat::HandleNet => self.output.write_all(b"{\"homedPrefixes\":["),
            _ => Ok(()),
        }
    }

    /// Writes a prefix of a dump.
    pub(super) fn write_prefix(&mut self, prefix: &str) -> io::Result<()> {
        self.write_separator()?;
        serde_json::to_writer(&mut self.output, &format!("0.NA/{prefix}"))?;
        Ok(())
    }

    /// Ends the prefixes of a dump.
    pub(super) fn end_prefixes(&mut self) -> io::Result<()> {
        self.is_first = true;
        self.output.write_all(b"],\n\"handleRecords\":{")
    }

    pub(super) fn write(&mut self, entry: StoredRecord) -> io::Result<()> {
        match self.format {
            ExportFormat::Jsonl => {
                self.write_json(entry)?;
                self.output.write_all(b"\n")
            }
            ExportFormat::Csv => self.write_csv(&entry),
            ExportFormat::HandleNet => {
                self.write_separator()?;
                serde_json::to_writer(&mut self.output, &*entry.name)?;
                self.output.write_all(b":")?;
                self.write_json(entry)
            }
            ExportFormat::HandleBatch => self.write_batch(&entry),
        }
    }

    /// Writes what stands after the records.
    pub(super) fn finish(mut self) -> io::Result<OmissionCounts> {
        if matches!(self.format, ExportFormat::HandleNet) {
            self.output.write_all(b"\n}}\n")?;
        }
        self.output.flush()?;
        Ok(self.omitted)
    }

    fn write_separator(&mut self) -> io::Result<()> {
        let separator: &[u8] = if self.is_first { b"\n" } else { b",\n" };
        self.is_first = false;
        self.output.write_all(separator)
    }

    fn write_json(&mut self, entry: StoredRecord) -> io::Result<()> {
        let record = HandleRecord { handle: entry.name.as_bytes().into(), values: entry.values };
        serde_json::to_writer(&mut self.output, &record)?;
        Ok(())
    }

    /// Writes the name and its first URL.
    fn write_csv(&mut self, entry: &StoredRecord) -> io::Result<()> {
        let url = entry.values.iter().find(|value| value.value_type.eq_ignore_ascii_case(b"URL"));
        let Some(url) = url else {
            self.omitted.without_url += 1;
            return Ok(());
        };
        write_field(&mut self.output, entry.name.as_bytes())?;
        self.output.write_all(b",")?;
        write_field(&mut self.output, &url.data)?;
        self.output.write_all(b"\r\n")
    }

    /// Writes a `CREATE` entry.
    fn write_batch(&mut self, entry: &StoredRecord) -> io::Result<()> {
        if !batch_language::can_name(&entry.name) {
            self.omitted.records += 1;
            return Ok(());
        }
        writeln!(self.output, "CREATE {}", entry.name)?;
        for value in &entry.values {
            match batch_language::format_value(value) {
                Some(line) => writeln!(self.output, "{line}")?,
                None => self.omitted.values += 1,
            }
        }
        self.output.write_all(b"\n")
    }
}
