//! What is written, column by column: one statement takes any number of rows.

use std::borrow::Cow;

use super::batch::WriteBatch;
use super::{row, values};
use crate::embedded::key::storage_key;
use crate::{LogEntry, PriorState};

/// Records as column arrays.
#[derive(Default)]
pub(super) struct RecordColumns<'b> {
    pub(super) keys: Vec<Cow<'b, [u8]>>,
    pub(super) names: Vec<&'b [u8]>,
    pub(super) revisions: Vec<i64>,
    pub(super) states: Vec<i16>,
    pub(super) bodies: Vec<Vec<u8>>,
    pub(super) registrations: Vec<&'b [u8]>,
    pub(super) removed: Vec<Cow<'b, [u8]>>,
}

impl<'b> RecordColumns<'b> {
    pub(super) fn new(batch: &'b WriteBatch) -> Self {
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
            records.bodies.push(values::encode(&entry.values));
            records.registrations.push(&entry.registration);
        }
        records
    }
}

/// History entries as column arrays.
#[derive(Default)]
pub(super) struct HistoryColumns<'b> {
    pub(super) keys: Vec<Cow<'b, [u8]>>,
    pub(super) sequences: Vec<i64>,
    pub(super) names: Vec<Option<&'b [u8]>>,
    pub(super) revisions: Vec<Option<i64>>,
    pub(super) states: Vec<Option<i16>>,
    pub(super) bodies: Vec<Option<Vec<u8>>>,
    pub(super) registrations: Vec<Option<&'b [u8]>>,
}

impl<'b> HistoryColumns<'b> {
    pub(super) fn new(batch: &'b WriteBatch) -> Self {
        let mut past = Self::default();
        for (line, before) in &batch.lines {
            let Some((key, before)) = before else { continue };
            let entry = if let PriorState::Record(entry) = before { Some(entry) } else { None };
            past.keys.push(storage_key(key));
            past.sequences.push(row::to_i64(line.sequence));
            past.names.push(entry.map(|entry| entry.name.as_bytes()));
            past.revisions.push(entry.map(|entry| row::to_i64(entry.revision)));
            past.states.push(entry.map(|entry| row::status_code(entry.state)));
            past.bodies.push(entry.map(|entry| values::encode(&entry.values)));
            past.registrations.push(entry.map(|entry| &*entry.registration));
        }
        past
    }
}

/// Log entries as column arrays.
#[derive(Default)]
pub(super) struct LogColumns<'b> {
    pub(super) sequences: Vec<i64>,
    pub(super) revisions: Vec<i64>,
    pub(super) times: Vec<i64>,
    pub(super) by: Vec<&'b [u8]>,
    pub(super) kinds: Vec<i16>,
    pub(super) names: Vec<&'b [u8]>,
    pub(super) counts: Vec<i64>,
}

impl<'b> LogColumns<'b> {
    pub(super) fn new(all: impl IntoIterator<Item = &'b LogEntry>) -> Self {
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
