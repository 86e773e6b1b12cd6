//! Rows as column arrays for `unnest`: one statement writes any number of rows.

use std::borrow::Cow;

use tokio_postgres::types::ToSql;

use crate::apply::HistoryRedaction;
use crate::model::name_key::storage_key;
use crate::model::values_codec;
use crate::postgres::row;
use crate::{LogEntry, NameKey, PriorState, StoredRecord};

/// Parameter of a statement.
pub(crate) type SqlParameter<'p> = &'p (dyn ToSql + Sync);

/// Records as column arrays.
#[derive(Default)]
pub(crate) struct RecordColumns<'b> {
    keys: Vec<Cow<'b, [u8]>>,
    names: Vec<&'b [u8]>,
    revisions: Vec<i64>,
    statuses: Vec<i16>,
    bodies: Vec<Vec<u8>>,
    registrations: Vec<&'b [u8]>,
    /// Keys of removed records.
    pub(crate) removed: Vec<Cow<'b, [u8]>>,
}

impl<'b> RecordColumns<'b> {
    /// Collects records by key; `None` for those that are removed.
    pub(crate) fn new(records: impl IntoIterator<Item = (&'b NameKey, Option<&'b StoredRecord>)>) -> Self {
        let mut columns = Self::default();
        for (key, record) in records {
            let Some(record) = record else {
                columns.removed.push(storage_key(key));
                continue;
            };
            columns.keys.push(storage_key(key));
            columns.names.push(record.name.as_bytes());
            columns.revisions.push(row::to_i64(record.revision));
            columns.statuses.push(row::status_code(record.status));
            columns.bodies.push(values_codec::encode(&record.values));
            columns.registrations.push(&record.registration);
        }
        columns
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    pub(crate) fn parameters(&self) -> [SqlParameter<'_>; 6] {
        let Self { keys, names, revisions, statuses, bodies, registrations, .. } = self;
        [keys, names, revisions, statuses, bodies, registrations]
    }
}

/// History entries as column arrays.
#[derive(Default)]
pub(crate) struct HistoryColumns<'b> {
    keys: Vec<Cow<'b, [u8]>>,
    sequences: Vec<i64>,
    names: Vec<Option<&'b [u8]>>,
    revisions: Vec<Option<i64>>,
    statuses: Vec<Option<i16>>,
    bodies: Vec<Option<Vec<u8>>>,
    registrations: Vec<Option<&'b [u8]>>,
}

impl<'b> HistoryColumns<'b> {
    /// Collects prior states by key and log sequence number.
    pub(crate) fn new(history: impl IntoIterator<Item = (&'b NameKey, u64, &'b PriorState)>) -> Self {
        let mut columns = Self::default();
        for (key, sequence, prior) in history {
            let record = if let PriorState::Record(record) = prior { Some(record) } else { None };
            columns.keys.push(storage_key(key));
            columns.sequences.push(row::to_i64(sequence));
            columns.names.push(record.map(|record| record.name.as_bytes()));
            columns.revisions.push(record.map(|record| row::to_i64(record.revision)));
            columns.statuses.push(record.map(|record| row::status_code(record.status)));
            columns.bodies.push(record.map(|record| values_codec::encode(&record.values)));
            columns.registrations.push(record.map(|record| &*record.registration));
        }
        columns
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    pub(crate) fn parameters(&self) -> [SqlParameter<'_>; 7] {
        let Self { keys, sequences, names, revisions, statuses, bodies, registrations } = self;
        [keys, sequences, names, revisions, statuses, bodies, registrations]
    }
}

/// Redacted history entries as column arrays.
#[derive(Default)]
pub(crate) struct RedactionColumns<'b> {
    keys: Vec<Cow<'b, [u8]>>,
    sequences: Vec<i64>,
    bodies: Vec<Vec<u8>>,
    registrations: Vec<&'b [u8]>,
}

impl<'b> RedactionColumns<'b> {
    pub(crate) fn new(redactions: &'b [HistoryRedaction]) -> Self {
        let mut columns = Self::default();
        for redaction in redactions {
            let body = values_codec::encode(std::slice::from_ref(&redaction.mark));
            for (sequence, registration) in &redaction.entries {
                columns.keys.push(storage_key(&redaction.key));
                columns.sequences.push(row::to_i64(*sequence));
                columns.bodies.push(body.clone());
                columns.registrations.push(registration);
            }
        }
        columns
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    pub(crate) fn parameters(&self) -> [SqlParameter<'_>; 4] {
        let Self { keys, sequences, bodies, registrations } = self;
        [keys, sequences, bodies, registrations]
    }
}

/// Log entries as column arrays.
#[derive(Default)]
pub(crate) struct LogColumns<'b> {
    sequences: Vec<i64>,
    revisions: Vec<i64>,
    timestamps: Vec<i64>,
    authors: Vec<&'b [u8]>,
    kinds: Vec<i16>,
    names: Vec<&'b [u8]>,
    record_counts: Vec<i64>,
    previous_hashes: Vec<&'b [u8]>,
    content_digests: Vec<&'b [u8]>,
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
            columns.previous_hashes.push(&log_entry.link.previous_hash.0);
            columns.content_digests.push(&log_entry.link.content_digest.0);
        }
        columns
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.sequences.is_empty()
    }

    pub(crate) fn parameters(&self) -> [SqlParameter<'_>; 9] {
        let Self { sequences, revisions, timestamps, authors, kinds, names, record_counts, .. } = self;
        let Self { previous_hashes, content_digests, .. } = self;
        [
            sequences,
            revisions,
            timestamps,
            authors,
            kinds,
            names,
            record_counts,
            previous_hashes,
            content_digests,
        ]
    }
}
