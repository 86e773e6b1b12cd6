//! What ever changed under a name.
//!
//! Each change has a row with what was there before, but for records that an import made: that they came to be shows by their
//! revision, in the row after it or in the record itself, and the log has the line.

use tokio_postgres::Row;

use super::{PostgresStore, row};
use crate::model::history;
use crate::model::name_key::storage_key;
use crate::{History, HistoryEntry, HistoryOrder, NameKey, PriorState, StoreError};

/// Changes of one page; each may be as large as a record.
const PAGE: usize = 16;

const DOING: &str = "reading a history";

macro_rules! rows {
    ($compare:literal, $order:literal) => {
        concat!(
            "select l.sequence, l.revision, l.made_at, l.made_by, l.kind, l.name, l.records, \
             h.name, h.revision, h.state, h.body, h.registration, \
             i.sequence, i.revision, i.made_at, i.made_by, i.kind, i.name, i.records \
             from tendot_history h join tendot_log l on l.sequence = h.sequence \
             left join tendot_log i on i.kind = 7 and i.revision = h.revision and i.records > 0 and not exists \
                 (select 1 from tendot_history o where o.name_key = $1 and o.sequence = i.sequence) \
             where h.name_key = $1 and h.sequence ",
            $compare,
            " $2 order by h.sequence ",
            $order,
            " limit $3"
        )
    };
}

/// Rows, and with each the import that made what was there before, if it has no row of its own.
const OLDEST_FIRST: &str = rows!(">", "");
const NEWEST_FIRST: &str = rows!("<", "desc");

/// The import that made what the row after a sequence number found, or what is there now if there is no such row.
const MADE: &str = "\
    select i.sequence, i.revision, i.made_at, i.made_by, i.kind, i.name, i.records from tendot_log i \
    where i.kind = 7 and i.records > 0 and i.revision = case \
        when exists (select 1 from tendot_history h where h.name_key = $1 and h.sequence > $2) \
        then (select h.revision from tendot_history h where h.name_key = $1 and h.sequence > $2 \
              order by h.sequence limit 1) \
        else (select r.revision from tendot_records r where r.name_key = $1) end \
    and not exists (select 1 from tendot_history o where o.name_key = $1 and o.sequence = i.sequence) \
    order by i.sequence desc limit 1";

impl PostgresStore {
    pub(crate) async fn read_history(
        &self,
        key: &NameKey,
        order: HistoryOrder,
        limit: usize,
    ) -> Result<History, StoreError> {
        let (sql, mut from, is_newest_first) = match order {
            HistoryOrder::OldestFirst { after } => (OLDEST_FIRST, row::to_i64(after), false),
            HistoryOrder::NewestFirst { before } => (NEWEST_FIRST, row::to_i64(before), true),
        };
        let key = storage_key(key);
        let (mut history, mut room) = (History::default(), history::MAX_HISTORY_PAGE_BYTES);
        let most = row::limit_to_i64(PAGE.min(limit.max(1).saturating_add(1)));
        let mut is_first = true;
        loop {
            let rows = self.query(DOING, sql, &[&&*key, &from, &most]).await?;
            let mut changes = Vec::with_capacity(rows.len() + 1);
            if is_newest_first && is_first {
                // What came after the newest of them, which has no row.
                let newest = rows.first().map(|row| row::column(row, 0)).transpose()?.unwrap_or(0);
                changes.extend(self.creating_import(&key, newest).await?);
            }
            is_first = false;
            for found in &rows {
                let line = row::log_entry(found, 0)?;
                from = row::to_i64(line.sequence);
                let before = row::prior_state(found, 7)?;
                let (past, made) = (HistoryEntry { line, before }, import_entry(found, 12)?);
                if is_newest_first {
                    changes.extend([Some(past), made].into_iter().flatten());
                } else {
                    changes.extend([made, Some(past)].into_iter().flatten());
                }
            }
            let is_last = row::limit_to_i64(rows.len()) < most;
            if is_last && !is_newest_first {
                changes.extend(self.creating_import(&key, from).await?);
            }
            for past in changes.into_iter().filter(|past| order.contains(past.line.sequence)) {
                if !history.push(past, limit, &mut room) {
                    return Ok(history);
                }
            }
            if is_last {
                return Ok(history);
            }
        }
    }

    /// The import that made what was there after a change.
    async fn creating_import(&self, key: &[u8], after: i64) -> Result<Option<HistoryEntry>, StoreError> {
        let rows = self.query(DOING, MADE, &[&key, &after]).await?;
        Ok(rows.first().map(|found| import_entry(found, 0)).transpose()?.flatten())
    }
}

/// A change by an import, before which there was nothing; none if there is no line.
fn import_entry(found: &Row, from: usize) -> Result<Option<HistoryEntry>, StoreError> {
    if row::column::<Option<i64>>(found, from)?.is_none() {
        return Ok(None);
    }
    Ok(Some(HistoryEntry { line: row::log_entry(found, from)?, before: PriorState::Nothing }))
}
