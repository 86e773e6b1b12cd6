//! History queries.
//!
//! Each change has a row with the prior state, except for records created by an import: their creation is found by the revision
//! of the next row, or of the current record, and the log entry of the import.

use tokio_postgres::Row;

use super::{PostgresStore, row};
use crate::model::history;
use crate::model::name_key::storage_key;
use crate::{History, HistoryEntry, HistoryOrder, NameKey, PriorState, StoreError};

/// Rows per page; each may be as large as a record.
const HISTORY_PAGE_LEN: usize = 16;

const OPERATION: &str = "reading the history";

macro_rules! history_query {
    ($compare:literal, $order:literal) => {
        concat!(
            "select ",
            row::log_columns!("l"),
            ", ",
            row::log_columns!("i"),
            ", h.name, h.revision, h.status, h.body, h.registration \
             from tendot_history h join tendot_log l on l.sequence = h.sequence \
             left join tendot_log i on i.kind = 7 and i.revision = h.revision and i.record_count > 0 and not exists \
                 (select 1 from tendot_history o where o.name_key = $1 and o.sequence = i.sequence) \
             where h.name_key = $1 and h.sequence ",
            $compare,
            " $2 order by h.sequence ",
            $order,
            " limit $3"
        )
    };
}

/// History rows, each with the import that created its prior record, if that has no row.
const SELECT_HISTORY_ASC: &str = history_query!(">", "");
const SELECT_HISTORY_DESC: &str = history_query!("<", "desc");

/// Import that created the record found by the next row after a sequence number, or the current record.
const SELECT_CREATING_IMPORT: &str = concat!(
    "select ",
    row::log_columns!("i"),
    " from tendot_log i where i.kind = 7 and i.record_count > 0 and i.revision = case \
        when exists (select 1 from tendot_history h where h.name_key = $1 and h.sequence > $2) \
        then (select h.revision from tendot_history h where h.name_key = $1 and h.sequence > $2 \
              order by h.sequence limit 1) \
        else (select r.revision from tendot_records r where r.name_key = $1) end \
    and not exists (select 1 from tendot_history o where o.name_key = $1 and o.sequence = i.sequence) \
    order by i.sequence desc limit 1"
);

impl PostgresStore {
    pub(crate) async fn read_history(
        &self,
        key: &NameKey,
        order: HistoryOrder,
        limit: usize,
    ) -> Result<History, StoreError> {
        let (sql, mut from, is_newest_first) = match order {
            HistoryOrder::OldestFirst { after } => (SELECT_HISTORY_ASC, row::to_i64(after), false),
            HistoryOrder::NewestFirst { before } => (SELECT_HISTORY_DESC, row::to_i64(before), true),
        };
        let key = storage_key(key);
        let (mut history, mut bytes_left) = (History::default(), history::MAX_HISTORY_PAGE_BYTES);
        let page_len = row::limit_to_i64(HISTORY_PAGE_LEN.min(limit.max(1).saturating_add(1)));
        let mut is_first = true;
        loop {
            let rows = self.query(OPERATION, sql, &[&&*key, &from, &page_len]).await?;
            let mut changes = Vec::with_capacity(rows.len() + 1);
            if is_newest_first && is_first {
                // A creation by import after the newest row has no row.
                let newest = rows.first().map(|row| row::column(row, 0)).transpose()?.unwrap_or(0);
                changes.extend(self.creating_import(&key, newest).await?);
            }
            is_first = false;
            for found in &rows {
                let log_entry = row::log_entry(found, 0)?;
                from = row::to_i64(log_entry.sequence);
                let prior = row::prior_state(found, 2 * row::LOG_COLUMNS)?;
                let creation = import_entry(found, row::LOG_COLUMNS)?;
                let history_entry = HistoryEntry { log_entry, prior };
                if is_newest_first {
                    changes.extend([Some(history_entry), creation].into_iter().flatten());
                } else {
                    changes.extend([creation, Some(history_entry)].into_iter().flatten());
                }
            }
            let is_last = row::limit_to_i64(rows.len()) < page_len;
            if is_last && !is_newest_first {
                changes.extend(self.creating_import(&key, from).await?);
            }
            for history_entry in
                changes.into_iter().filter(|history_entry| order.contains(history_entry.log_entry.sequence))
            {
                if !history.push(history_entry, limit, &mut bytes_left) {
                    return Ok(history);
                }
            }
            if is_last {
                return Ok(history);
            }
        }
    }

    /// Finds the import that created the record after a sequence number.
    async fn creating_import(&self, key: &[u8], after: i64) -> Result<Option<HistoryEntry>, StoreError> {
        let rows = self.query(OPERATION, SELECT_CREATING_IMPORT, &[&key, &after]).await?;
        Ok(rows.first().map(|found| import_entry(found, 0)).transpose()?.flatten())
    }
}

/// Decodes the creation of a record by an import; `None` without a log entry.
fn import_entry(found: &Row, from: usize) -> Result<Option<HistoryEntry>, StoreError> {
    if row::column::<Option<i64>>(found, from)?.is_none() {
        return Ok(None);
    }
    Ok(Some(HistoryEntry { log_entry: row::log_entry(found, from)?, prior: PriorState::Absent }))
}
