//! Decodes rows.

use tendot_proto::HandleValue;
use tokio_postgres::Row;

use crate::model::values_codec;
use crate::{
    ChainLink, EditKind, LogEntry, LogHash, NameEntry, PriorState, RecordStatus, StoreError, StoreHead,
    StoredRecord,
};

/// Decodes a record from the columns name, revision, status, body and registration, starting at `from`; `None` without a name.
pub(crate) fn record(row: &Row, from: usize) -> Result<Option<StoredRecord>, StoreError> {
    let Some(name) = column::<Option<&[u8]>>(row, from)? else { return Ok(None) };
    Ok(Some(StoredRecord {
        name: utf8(name)?,
        revision: to_u64(column(row, from + 1)?),
        status: status_from_code(column(row, from + 2)?)?,
        values: values_codec::decode(column(row, from + 3)?)
            .map_err(|error| corrupt(format!("record values: {error}")))?
            .into_iter()
            .map(HandleValue::into_owned)
            .collect(),
        registration: column::<&[u8]>(row, from + 4)?.into(),
    }))
}

/// Decodes a prior state from the same columns.
pub(crate) fn prior_state(row: &Row, from: usize) -> Result<PriorState, StoreError> {
    Ok(record(row, from)?.map_or(PriorState::Absent, PriorState::Record))
}

/// Decodes a name in a list from the columns name and status.
pub(crate) fn name_entry(row: &Row) -> Result<NameEntry, StoreError> {
    Ok(NameEntry { name: utf8(column(row, 0)?)?, status: status_from_code(column(row, 1)?)? })
}

/// Columns of a log entry in the table with this alias, for [`log_entry`].
macro_rules! log_columns {
    ($table:literal) => {
        concat!(
            $table,
            ".sequence, ",
            $table,
            ".revision, ",
            $table,
            ".timestamp_ms, ",
            $table,
            ".author, ",
            $table,
            ".kind, ",
            $table,
            ".name, ",
            $table,
            ".record_count, ",
            $table,
            ".previous_hash, ",
            $table,
            ".content_digest"
        )
    };
}
pub(crate) use log_columns;

/// Number of columns of a log entry.
pub(crate) const LOG_COLUMNS: usize = 9;

/// Decodes a log entry from the columns of [`log_columns`], starting at `from`.
pub(crate) fn log_entry(row: &Row, from: usize) -> Result<LogEntry, StoreError> {
    Ok(LogEntry {
        sequence: to_u64(column(row, from)?),
        revision: to_u64(column(row, from + 1)?),
        timestamp_ms: column::<i64>(row, from + 2)?.cast_unsigned(),
        author: utf8(column(row, from + 3)?)?,
        kind: kind_from_code(column(row, from + 4)?)?,
        name: utf8(column(row, from + 5)?)?,
        record_count: to_u64(column(row, from + 6)?),
        link: ChainLink {
            previous_hash: log_hash(column(row, from + 7)?)?,
            content_digest: log_hash(column(row, from + 8)?)?,
        },
    })
}

/// Decodes the end of the log from the columns revision, sequence and log_hash, starting at `from`.
pub(crate) fn head(row: &Row, from: usize) -> Result<StoreHead, StoreError> {
    Ok(StoreHead {
        revision: to_u64(column(row, from)?),
        sequence: to_u64(column(row, from + 1)?),
        log_hash: log_hash(column(row, from + 2)?)?,
    })
}

fn log_hash(bytes: &[u8]) -> Result<LogHash, StoreError> {
    bytes.try_into().map(LogHash).map_err(|_| corrupt(format!("hash of {} bytes", bytes.len())))
}

/// Reads a column.
pub(crate) fn column<'r, T: tokio_postgres::types::FromSql<'r>>(
    row: &'r Row,
    index: usize,
) -> Result<T, StoreError> {
    row.try_get(index).map_err(|error| corrupt(format!("column {index}: {error}")))
}

/// Decodes text stored as `bytea`: the type `text` excludes NUL and depends on the encoding.
pub(crate) fn utf8(bytes: &[u8]) -> Result<Box<str>, StoreError> {
    std::str::from_utf8(bytes).map(Into::into).map_err(|_| corrupt("text is not UTF-8".into()))
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

pub(crate) const fn status_code(status: RecordStatus) -> i16 {
    match status {
        RecordStatus::Live => 0,
        RecordStatus::Tombstone => 1,
    }
}

fn status_from_code(code: i16) -> Result<RecordStatus, StoreError> {
    match code {
        0 => Ok(RecordStatus::Live),
        1 => Ok(RecordStatus::Tombstone),
        _ => Err(corrupt(format!("unknown record status {code}"))),
    }
}

pub(crate) fn kind_code(kind: EditKind) -> i16 {
    i16::from(kind.code())
}

fn kind_from_code(code: i16) -> Result<EditKind, StoreError> {
    let kind = u64::try_from(code).ok().and_then(EditKind::from_code);
    kind.ok_or_else(|| corrupt(format!("unknown log entry kind {code}")))
}

fn corrupt(detail: String) -> StoreError {
    StoreError::Corrupt { detail }
}
