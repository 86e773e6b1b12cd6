//! What stands in the columns.

use tokio_postgres::Row;

use super::values;
use crate::embedded::log::KINDS;
use crate::{Before, EditKind, Entry, Listed, LogEntry, State, StoreError};

/// A record from the columns name, revision, state, body and registration, the first of which is `from`; none if there is
/// no name.
pub(super) fn entry(row: &Row, from: usize) -> Result<Option<Entry>, StoreError> {
    let Some(name) = column::<Option<&[u8]>>(row, from)? else { return Ok(None) };
    Ok(Some(Entry {
        name: text(name)?,
        revision: number(column(row, from + 1)?),
        state: state(column(row, from + 2)?)?,
        values: values::decode(column(row, from + 3)?)
            .map_err(|error| damaged(format!("the values of a record: {error}")))?,
        registration: column::<&[u8]>(row, from + 4)?.into(),
    }))
}

/// What was there before a change, from the same columns; without a name, the state tells whether it is known that nothing was.
pub(super) fn before(row: &Row, from: usize) -> Result<Before, StoreError> {
    if let Some(entry) = entry(row, from)? {
        return Ok(Before::Record(entry));
    }
    let is_unknown = column::<Option<i16>>(row, from + 2)? == Some(UNKNOWN);
    Ok(if is_unknown { Before::Unknown } else { Before::Nothing })
}

/// The state of what nobody knows any more, in the history alone: it came from a store that once kept none.
pub(super) const UNKNOWN: i16 = 2;

/// A name in a list, from the columns name and state.
pub(super) fn listed(row: &Row) -> Result<Listed, StoreError> {
    Ok(Listed { name: text(column(row, 0)?)?, state: state(column(row, 1)?)? })
}

/// A line of the log from seven columns, the first of which is `from`.
pub(super) fn logged(row: &Row, from: usize) -> Result<LogEntry, StoreError> {
    Ok(LogEntry {
        sequence: number(column(row, from)?),
        revision: number(column(row, from + 1)?),
        at: column::<i64>(row, from + 2)?.cast_unsigned(),
        by: text(column(row, from + 3)?)?,
        kind: kind(column(row, from + 4)?)?,
        name: text(column(row, from + 5)?)?,
        count: number(column(row, from + 6)?),
    })
}

/// What stands in a column.
pub(super) fn column<'r, T: tokio_postgres::types::FromSql<'r>>(
    row: &'r Row,
    at: usize,
) -> Result<T, StoreError> {
    row.try_get(at).map_err(|error| damaged(format!("column {at} of a row: {error}")))
}

/// A text that is kept as bytes: a database's text has no NUL, and perhaps another encoding.
pub(super) fn text(bytes: &[u8]) -> Result<Box<str>, StoreError> {
    std::str::from_utf8(bytes).map(Into::into).map_err(|_| damaged("a name is not UTF-8".into()))
}

/// A number that goes up from 0.
pub(super) fn number(signed: i64) -> u64 {
    u64::try_from(signed).unwrap_or(0)
}

/// The same the other way; what is larger than all of them stays so.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A limit as the database has it.
pub(super) fn limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

pub(super) const fn status_code(state: State) -> i16 {
    match state {
        State::Live => 0,
        State::Tombstone => 1,
    }
}

fn state(number: i16) -> Result<State, StoreError> {
    match number {
        0 => Ok(State::Live),
        1 => Ok(State::Tombstone),
        _ => Err(damaged(format!("a record has the state {number}"))),
    }
}

pub(super) fn kind_code(kind: EditKind) -> i16 {
    let number = KINDS.iter().find(|(_, known)| *known == kind).map_or(0, |(number, _)| *number);
    i16::try_from(number).unwrap_or(0)
}

fn kind(number: i16) -> Result<EditKind, StoreError> {
    let known = KINDS.iter().find(|(known, _)| i64::try_from(*known) == Ok(i64::from(number)));
    known.map(|(_, kind)| *kind).ok_or_else(|| damaged(format!("a line of the log has the kind {number}")))
}

fn damaged(what: String) -> StoreError {
    StoreError::Damaged { what }
}
