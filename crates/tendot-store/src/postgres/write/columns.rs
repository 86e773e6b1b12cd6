//! Rows as column arrays for `unnest`: one statement writes any number of rows.

use std::borrow::Cow;

use super::write_batch::WriteBatch;
use crate::model::name_key::storage_key;
use crate::model::values_codec;
use crate::postgres::row;
use crate::{LogEntry, PriorState};

/// Records as column arrays.
#[derive(Default)]
pub(crate) struct RecordColumns<'b> {
    pub(crate) keys: Vec<Cow<'b, [u8]>>,
    pub(crate) names: Vec<&'b [u8]>,
    pub(crate) revisions: Vec<i64>,
    pub(crate) statuses: Vec<i16>,
    pub(crate) bodies: Vec<Vec<u8>>,
    pub(crate) registrations: Vec<&'b [u8]>,
    pub(crate) removed: Vec<Cow<'b, [u8]>>,
}

impl<'b> RecordColumns<'b> {
    pub(crate) fn new(batch: &'b WriteBatch) -> Self {
        let mut records = Self::default();
        for key in &batch.changed_records {
            let Some(record) = batch.records.get(key) else {
                records.removed.push(storage_key(key));
                continue;
            };
            records.keys.push(storage_key(key));
            records.names.push(record.name.as_bytes());
            records.revisions.push(row::to_i64(record.revision));
            records.statuses.push(row::status_code(record.status));
            records.bodies.push(values_codec::encode(&record.values));
            records.registrations.push(&record.registration);
        }
        records
    }
}

/// History entries as column arrays.
#[derive(Default)]
pub(crate) struct HistoryColumns<'b> {
    pub(crate) keys: Vec<Cow<'b, [u8]>>,
    pub(crate) sequences: Vec<i64>,
    pub(crate) names: Vec<Option<&'b [u8]>>,
    pub(crate) revisions: Vec<Option<i64>>,
    pub(crate) statuses: Vec<Option<i16>>,
    pub(crate) bodies: Vec<Option<Vec<u8>>>,
    pub(crate) registrations: Vec<Option<&'b [u8]>>,
}

impl<'b> HistoryColumns<'b> {
    pub(crate) fn new(batch: &'b WriteBatch) -> Self {
        let mut columns = Self::default();
        for (log_entry, prior) in &batch.log_entries {
            let Some((key, prior)) = prior else { continue };
            let record = if let PriorState::Record(record) = prior { Some(record) } else { None };
            columns.keys.push(storage_key(key));
            columns.sequences.push(row::to_i64(log_entry.sequence));
            columns.names.push(record.map(|record| record.name.as_bytes()));
            columns.revisions.push(record.map(|record| row::to_i64(record.revision)));
            columns.statuses.push(record.map(|record| row::status_code(record.status)));
            columns.bodies.push(record.map(|record| values_codec::encode(&record.values)));
            columns.registrations.push(record.map(|record| &*record.registration));
        }
        columns
    }
}

/// Log entries as column arrays.
#[derive(Default)]
pub(crate) struct LogColumns<'b> {
    pub(crate) sequences: Vec<i64>,
    pub(crate) revisions: Vec<i64>,
    pub(crate) timestamps: Vec<i64>,
    pub(crate) authors: Vec<&'b [u8]>,
    pub(crate) kinds: Vec<i16>,
    pub(crate) names: Vec<&'b [u8]>,
    pub(crate) record_counts: Vec<i64>,
}

impl<'b> LogColumns<'b> {
    pub(crate) fn new(log_entries: impl IntoIterator<Item = &'b LogEntry>) -> Self {
        let mut columns = Self::default();
        for log_entry in log_entries {
            columns.sequences.push(row::to_i64(log_entry.sequence));
            columns.revisions.push(row::to_i64(log_entry.revision));
            columns.timestamps.push(log_entry.timestamp_ms.cast_signed());
            columns.authors.push(log_entry.author.as_bytes());
            columns.kinds.push(row::kind_code(log_entry.kind));
            columns.names.push(log_entry.name.as_bytes());
            columns.record_counts.push(row::to_i64(log_entry.record_count));
        }
        columns
    }
}
