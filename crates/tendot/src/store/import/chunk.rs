//! Checked records of one chunk of input; built on any thread.

use std::collections::BTreeSet;

use tendot_proto::Handle;
use tendot_proto::record::HandleRecord;
use tendot_registry::party::is_reserved_prefix;
use tendot_registry::{Error, HashPartition};
use tendot_store::{ImportBatch, NameKey};

use super::ImportItem;
use super::check::{CheckOptions, check_record, looks_like_url};
use super::report::{MAX_PRINTED_NOTES, MAX_PRINTED_REFUSALS, MAX_PRINTED_WARNINGS};
use crate::handle::batch_language::BatchOperation;
use crate::terminal::quote_input;

/// Approximate size of a chunk.
pub(super) const CHUNK_BYTES: usize = 1 << 18;

/// Maximum number of operations in a chunk.
const MAX_CHUNK_OPERATIONS: usize = 100;

/// Options of an import: accepted records and homed prefixes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ImportOptions {
    /// Home the prefix of each record.
    pub(crate) home_prefixes: bool,
    /// Partition of this server, if its site has several servers.
    pub(crate) partition: Option<HashPartition>,
    /// Refuse invalid DOIs.
    pub(crate) is_strict: bool,
}

/// Checked records and diagnostics of one chunk of input.
pub(crate) struct ImportChunk {
    options: ImportOptions,
    pub(crate) batch: ImportBatch,
    /// Operations to apply one by one, with their lines; a chunk has either these or records.
    pub(crate) operations: Vec<(u64, BatchOperation)>,
    /// Prefixes to home.
    pub(crate) prefixes: BTreeSet<Box<str>>,
    /// Diagnostics by line, limited to the number that is printed.
    pub(crate) diagnostics: Vec<(u64, LineDiagnostic)>,
    pub(crate) refused: u64,
    pub(crate) warnings: u64,
    /// Names decoded from a written form.
    pub(crate) decoded: u64,
    pub(crate) notes: u64,
    /// Records that belong to other servers of the site.
    pub(crate) other_servers: u64,
}

/// Message about one line.
pub(crate) enum LineDiagnostic {
    Refused(String),
    Warning(String),
    Note(String),
}

impl ImportChunk {
    pub(super) const fn new(options: ImportOptions) -> Self {
        Self {
            options,
            batch: ImportBatch::new(),
            operations: Vec::new(),
            prefixes: BTreeSet::new(),
            diagnostics: Vec::new(),
            refused: 0,
            warnings: 0,
            decoded: 0,
            notes: 0,
            other_servers: 0,
        }
    }

    /// True if the chunk has reached its size.
    pub(super) const fn is_full(&self) -> bool {
        self.batch.memory_size() >= CHUNK_BYTES || self.operations.len() >= MAX_CHUNK_OPERATIONS
    }

    /// True if an item must be in the next chunk, so that records and operations are written in the order of the input.
    pub(super) fn must_end_before(&self, item: &ImportItem) -> bool {
        match item {
            ImportItem::Record(_) | ImportItem::DecodedRecord { .. } | ImportItem::HomePrefix(_) => {
                !self.operations.is_empty()
            }
            ImportItem::Operation(_) => !self.batch.is_empty() || !self.prefixes.is_empty(),
            ImportItem::Refused(_) | ImportItem::Note(_) => false,
        }
    }

    pub(super) fn push(&mut self, line: u64, item: ImportItem) {
        match item {
            ImportItem::Refused(reason) => self.refuse(line, || reason),
            ImportItem::Note(note) => self.note(line, || note),
            ImportItem::Operation(operation) => self.push_operation(line, operation),
            ImportItem::HomePrefix(prefix) if self.options.home_prefixes => {
                let is_prefix =
                    !prefix.is_empty() && !prefix.contains('/') && NameKey::from_prefix(&prefix).is_ok();
                if !is_prefix || is_reserved_prefix(prefix.as_bytes()) {
                    self.refuse(line, || format!("invalid prefix `{}`", quote_input(prefix.as_bytes())));
                } else {
                    self.prefixes.insert(prefix.into());
                }
            }
            ImportItem::HomePrefix(_) => {}
            ImportItem::Record(record) => self.check_and_push(line, &record, false),
            ImportItem::DecodedRecord { record, written, form } => {
                self.decoded += 1;
                self.note(line, || {
                    let (written, name) = (quote_input(written.as_bytes()), quote_input(&record.handle));
                    format!("`{written}` read as `{name}` (form: {})", form.as_str())
                });
                self.check_and_push(line, &record, true);
            }
        }
    }

    fn note(&mut self, line: u64, note: impl FnOnce() -> String) {
        self.notes += 1;
        if self.notes <= MAX_PRINTED_NOTES {
            self.diagnostics.push((line, LineDiagnostic::Note(note())));
        }
    }

    fn check_and_push(&mut self, line: u64, record: &HandleRecord<'_>, is_decoded: bool) {
        let options = CheckOptions { is_strict: self.options.is_strict, is_decoded };
        match check_record(record, options) {
            Err(reason) => self.refuse(line, || format!("`{}`: {reason}", quote_input(&record.handle))),
            Ok(warnings) => {
                for warning in warnings {
                    self.warn(line, || format!("`{}`: {warning}", quote_input(&record.handle)));
                }
                self.push_record(line, record);
            }
        }
    }

    fn push_operation(&mut self, line: u64, operation: BatchOperation) {
        let handle = Handle::from(operation.handle());
        if is_reserved_prefix(handle.prefix()) {
            let handle = quote_input(handle.as_bytes());
            return self.refuse(line, || format!("`{handle}`: {}", Error::ReservedPrefix));
        }
        let is_prefix = matches!(operation, BatchOperation::Unhome { .. });
        if !is_prefix && self.options.partition.is_some_and(|partition| !partition.owns(handle)) {
            self.other_servers += 1;
        } else {
            self.operations.push((line, operation));
        }
    }

    fn push_record(&mut self, line: u64, record: &HandleRecord<'_>) {
        let handle = Handle::new(&record.handle);
        // `check_record` ensures valid UTF-8.
        let Ok(name) = handle.to_str() else { return };
        if self.options.partition.is_some_and(|partition| !partition.owns(handle)) {
            self.other_servers += 1;
        } else if let Err(error) = self.batch.add(name, &record.values) {
            return self.refuse(line, || format!("`{}`: {error}", quote_input(&record.handle)));
        }
        let prefix = name.split('/').next().unwrap_or_default();
        // `https:` is not a prefix that anybody was given.
        let is_homed = self.options.home_prefixes && !looks_like_url(name.as_bytes());
        if !is_homed || self.prefixes.contains(prefix) {
            return;
        }
        match NameKey::from_prefix(prefix) {
            Ok(_) => drop(self.prefixes.insert(prefix.into())),
            Err(error) => {
                self.warn(line, || format!("prefix of `{}` not homed: {error}", quote_input(&record.handle)));
            }
        }
    }

    fn refuse(&mut self, line: u64, reason: impl FnOnce() -> String) {
        self.refused += 1;
        if self.refused <= MAX_PRINTED_REFUSALS {
            self.diagnostics.push((line, LineDiagnostic::Refused(reason())));
        }
    }

    fn warn(&mut self, line: u64, message: impl FnOnce() -> String) {
        self.warnings += 1;
        if self.warnings <= MAX_PRINTED_WARNINGS {
            self.diagnostics.push((line, LineDiagnostic::Warning(message())));
        }
    }
}
