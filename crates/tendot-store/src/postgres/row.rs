//! Decodes rows.

use tokio_postgres::Row;

use crate::model::log_entry::KIND_CODES;
use crate::model::values_codec;
use crate::{EditKind, LogEntry, NameEntry, PriorState, RecordStatus, StoreError, StoredRecord};

/// Decodes a record from the columns name, revision, state, body and registration, starting at `from`; `None` without a name.
pub(crate) fn record(row: &Row, from: usize) -> Result<Option<StoredRecord>, StoreError> {
    let Some(name) = column::<Option<&[u8]>>(row, from)? else { return Ok(None) };
    Ok(Some(StoredRecord {
        name: utf8(name)?,
        revision: to_u64(column(row, from + 1)?),
        state: status_from_code(column(row, from + 2)?)?,
        values: values_codec::decode(column(row, from + 3)?)
            .map_err(|error| corrupt(format!("the values of a record: {error}")))?,
        registration: column::<&[u8]>(row, from + 4)?.into(),
    }))
}

/// Decodes a prior state from the same columns; without a name, `state` distinguishes absent from unknown.
pub(crate) fn prior_state(row: &Row, from: usize) -> Result<PriorState, StoreError> {
    if let Some(entry) = record(row, from)? {
        return Ok(PriorState::Record(entry));
    }
    let is_unknown = column::<Option<i16>>(row, from + 2)? == Some(STATUS_UNKNOWN);
    Ok(if is_unknown { PriorState::Unknown } else { PriorState::Nothing })
}

/// Status code of an unknown prior state; used in the history only.
pub(crate) const STATUS_UNKNOWN: i16 = 2;

/// Decodes a name in a list from the columns name and state.
pub(crate) fn name_entry(row: &Row) -> Result<NameEntry, StoreError> {
    Ok(NameEntry { name: utf8(column(row, 0)?)?, state: status_from_code(column(row, 1)?)? })
}

/// Decodes a log entry from seven columns, starting at `from`.
pub(crate) fn log_entry(row: &Row, from: usize) -> Result<LogEntry, StoreError> {
    Ok(LogEntry {
        sequence: to_u64(column(row, from)?),
        revision: to_u64(column(row, from + 1)?),
        at: column::<i64>(row, from + 2)?.cast_unsigned(),
        by: utf8(column(row, from + 3)?)?,
        kind: kind_from_code(column(row, from + 4)?)?,
        name: utf8(column(row, from + 5)?)?,
        count: to_u64(column(row, from + 6)?),
    })
}

/// Reads a column.
pub(crate) fn column<'r, T: tokio_postgres::types::FromSql<'r>>(
    row: &'r Row,
    at: usize,
) -> Result<T, StoreError> {
    row.try_get(at).map_err(|error| corrupt(format!("column {at} of a row: {error}")))
}

/// Decodes text stored as `bytea`: the type `text` excludes NUL and depends on the encoding.
pub(crate) fn utf8(bytes: &[u8]) -> Result<Box<str>, StoreError> {
    std::str::from_utf8(bytes).map(Into::into).map_err(|_| corrupt("a name is not UTF-8".into()))
}

/// Converts a counter from SQL.
pub(crate) fn to_u64(signed: i64) -> u64 {
    u64::try_from(signed).unwrap_or(0)
}

/// Converts a counter to SQL; saturates.
pub(crate) fn to_i64(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Converts a limit to SQL; saturates.
pub(crate) fn limit_to_i64(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

pub(crate) const fn status_code(state: RecordStatus) -> i16 {
    match state {
        RecordStatus::Live => 0,
        RecordStatus::Tombstone => 1,
    }
}

fn status_from_code(number: i16) -> Result<RecordStatus, StoreError> {
    match number {
        0 => Ok(RecordStatus::Live),
        1 => Ok(RecordStatus::Tombstone),
        _ => Err(corrupt(format!("a record has the state {number}"))),
    }
}

pub(crate) fn kind_code(kind: EditKind) -> i16 {
    let number = KIND_CODES.iter().find(|(_, known)| *known == kind).map_or(0, |(number, _)| *number);
    i16::try_from(number).unwrap_or(0)
}

fn kind_from_code(number: i16) -> Result<EditKind, StoreError> {
    let known = KIND_CODES.iter().find(|(known, _)| i64::try_from(*known) == Ok(i64::from(number)));
    known.map(|(_, kind)| *kind).ok_or_else(|| corrupt(format!("a line of the log has the kind {number}")))
}

fn corrupt(what: String) -> StoreError {
    StoreError::Damaged { what }
}
