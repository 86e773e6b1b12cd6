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
    pub(crate) states: Vec<i16>,
    pub(crate) bodies: Vec<Vec<u8>>,
    pub(crate) registrations: Vec<&'b [u8]>,
    pub(crate) removed: Vec<Cow<'b, [u8]>>,
}

impl<'b> RecordColumns<'b> {
    pub(crate) fn new(batch: &'b WriteBatch) -> Self {
        let mut records = Self::default();
        for key in &batch.changed_records {
            let Some(entry) = batch.records.get(key) else {
                records.removed.push(storage_key(key));
                continue;
            };
            records.keys.push(storage_key(key));
            records.names.push(entry.name.as_bytes());
            records.revisions.push(row::to_i64(entry.revision));
            records.states.push(row::status_code(entry.state));
            records.bodies.push(values_codec::encode(&entry.values));
            records.registrations.push(&entry.registration);
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
    pub(crate) states: Vec<Option<i16>>,
    pub(crate) bodies: Vec<Option<Vec<u8>>>,
    pub(crate) registrations: Vec<Option<&'b [u8]>>,
}

impl<'b> HistoryColumns<'b> {
    pub(crate) fn new(batch: &'b WriteBatch) -> Self {
        let mut columns = Self::default();
        for (line, before) in &batch.log_entries {
            let Some((key, before)) = before else { continue };
            let entry = if let PriorState::Record(entry) = before { Some(entry) } else { None };
            columns.keys.push(storage_key(key));
            columns.sequences.push(row::to_i64(line.sequence));
            columns.names.push(entry.map(|entry| entry.name.as_bytes()));
            columns.revisions.push(entry.map(|entry| row::to_i64(entry.revision)));
            columns.states.push(entry.map(|entry| row::status_code(entry.state)));
            columns.bodies.push(entry.map(|entry| values_codec::encode(&entry.values)));
            columns.registrations.push(entry.map(|entry| &*entry.registration));
        }
        columns
    }
}

/// Log entries as column arrays.
#[derive(Default)]
pub(crate) struct LogColumns<'b> {
    pub(crate) sequences: Vec<i64>,
    pub(crate) revisions: Vec<i64>,
    pub(crate) times: Vec<i64>,
    pub(crate) by: Vec<&'b [u8]>,
    pub(crate) kinds: Vec<i16>,
    pub(crate) names: Vec<&'b [u8]>,
    pub(crate) counts: Vec<i64>,
}

impl<'b> LogColumns<'b> {
    pub(crate) fn new(all: impl IntoIterator<Item = &'b LogEntry>) -> Self {
        let mut lines = Self::default();
        for line in all {
            lines.sequences.push(row::to_i64(line.sequence));
            lines.revisions.push(row::to_i64(line.revision));
            lines.times.push(line.at.cast_signed());
            lines.by.push(line.by.as_bytes());
            lines.kinds.push(row::kind_code(line.kind));
            lines.names.push(line.name.as_bytes());
            lines.counts.push(row::to_i64(line.count));
        }
        lines
    }
}
