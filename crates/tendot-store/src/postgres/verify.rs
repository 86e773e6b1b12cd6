//! Verification of every row.

use tokio_postgres::Row;

use super::{PostgresStore, row};
use crate::model::name_key::storage_key;
use crate::verify::find_inconsistency;
use crate::{EditKind, LogEntry, NameKey, PriorState, RecordStatus, StoreError, StoredRecord, VerifyReport};

/// Rows per page; each may have some megabytes.
const PAGE_LEN: i64 = 1_000;

const SCAN_RECORDS: &str = "select name, revision, state, body, registration, name_key, \
     (select revision from tendot_counters where id = 1) \
     from tendot_records where name_key > $1 order by name_key limit $2";

const SELECT_LOG: &str = "select sequence, revision, made_at, made_by, kind, name, records from tendot_log \
     where sequence > $1 order by sequence limit $2";

const SELECT_LOG_END: &str = "select (select max(sequence) from tendot_log), (select max(revision) from tendot_log), \
     sequence, revision from tendot_counters where id = 1";

// The page is a subquery: otherwise the planner may scan whole tables for each.
const SCAN_HISTORY: &str = "select l.sequence, l.revision, l.made_at, l.made_by, l.kind, l.name, l.records, \
     h.name, h.revision, h.state, h.body, h.registration, h.name_key, h.sequence, r.revision \
     from (select name_key, sequence, name, revision, state, body, registration from tendot_history \
         where (name_key, sequence) > ($1, $2) order by name_key, sequence limit $3) h \
     left join tendot_log l on l.sequence = h.sequence \
     left join tendot_records r on r.name_key = h.name_key order by h.name_key, h.sequence";

const LIST_HOMED: &str = "select name_key from tendot_homed where name_key > $1 order by name_key limit $2";

const SCAN_AUX_KEYS: &str =
    "select note_key from tendot_notes where note_key > $1 order by note_key limit $2";

impl PostgresStore {
    /// Verifies every row, while others may write. `progress` is called now and then.
    ///
    /// Rows have no checksums of ours (the database may have some): a changed but valid value is not detected.
    pub async fn verify(
        &self,
        progress: impl FnMut(&VerifyReport) + Send,
    ) -> Result<VerifyReport, StoreError> {
        let mut inspection = Verifier { store: self, verified: VerifyReport::default(), progress };
        inspection.check_records().await?;
        inspection.check_log().await?;
        inspection.check_history().await?;
        inspection.check_prefixes().await?;
        inspection.check_aux().await?;
        Ok(inspection.verified)
    }
}

struct Verifier<'a, P> {
    store: &'a PostgresStore,
    verified: VerifyReport,
    progress: P,
}

/// History entry whose successor has not been read yet.
struct PendingHistoryCheck {
    key: Vec<u8>,
    line: LogEntry,
    before: Option<StoredRecord>,
    /// Revision of the current record when this was read, if there was one.
    now: Option<u64>,
}

impl<P: FnMut(&VerifyReport) + Send> Verifier<'_, P> {
    /// Passes every row of a table to `check`, which returns its key.
    async fn walk_table(
        &mut self,
        sql: &str,
        mut check: impl FnMut(&mut VerifyReport, &Row) -> Result<Vec<u8>, StoreError> + Send,
    ) -> Result<(), StoreError> {
        let (mut after, mut count) = (Vec::new(), PAGE_LEN);
        while count == PAGE_LEN {
            let (from, verified) = (std::mem::take(&mut after), &mut self.verified);
            count = 0;
            let seen = |found: &Row| {
                count += 1;
                after = check(verified, found)?;
                Ok(true)
            };
            self.store.for_each_row(sql, &[&from, &PAGE_LEN], seen).await?;
            (self.progress)(&self.verified);
        }
        Ok(())
    }

    async fn check_records(&mut self) -> Result<(), StoreError> {
        let check = |verified: &mut VerifyReport, found: &Row| {
            let key: &[u8] = row::column(found, 5)?;
            let what = |how: &str| format!("record `{}`: {how}", key.escape_ascii());
            match row::record(found, 0) {
                Ok(Some(entry)) => {
                    if !is_storage_key_of(key, &entry.name) {
                        verified.report(what("it has another name"));
                    }
                    if entry.revision > row::to_u64(row::column(found, 6)?) {
                        verified.report(what(&format!("revision {} has not been given yet", entry.revision)));
                    }
                    match entry.state {
                        RecordStatus::Live => verified.records += 1,
                        RecordStatus::Tombstone => verified.tombstones += 1,
                    }
                    verified.registrations += u64::from(!entry.registration.is_empty());
                }
                Ok(None) => verified.report(what("it has no name")),
                Err(error) => verified.report(what(&error.to_string())),
            }
            Ok(key.to_vec())
        };
        self.walk_table(SCAN_RECORDS, check).await
    }

    async fn check_log(&mut self) -> Result<(), StoreError> {
        let (mut last, mut revision, mut count) = (0, 0, PAGE_LEN);
        while count == PAGE_LEN {
            let (from, verified) = (last, &mut self.verified);
            count = 0;
            let seen = |found: &Row| {
                count += 1;
                let sequence: i64 = row::column(found, 0)?;
                if sequence != last + 1 {
                    verified.report(format!("line of the log {} is missing, {sequence} is there", last + 1));
                }
                last = sequence;
                verified.lines += 1;
                match row::log_entry(found, 0) {
                    Ok(line) if line.revision < revision => {
                        verified.report(format!("line of the log {sequence}: its revision came earlier"));
                    }
                    Ok(line) => revision = line.revision,
                    Err(error) => verified.report(format!("line of the log {sequence}: {error}")),
                }
                Ok(true)
            };
            self.store.for_each_row(SELECT_LOG, &[&from, &PAGE_LEN], seen).await?;
            (self.progress)(&self.verified);
        }
        let verified = &mut self.verified;
        let seen = |found: &Row| {
            let there: (Option<i64>, Option<i64>) = (row::column(found, 0)?, row::column(found, 1)?);
            let given: (i64, i64) = (row::column(found, 2)?, row::column(found, 3)?);
            if (there.0.unwrap_or(0), there.1.unwrap_or(0)) != given {
                let ((line, change), (last, of)) = ((there.0.unwrap_or(0), there.1.unwrap_or(0)), given);
                verified.report(format!(
                    "the last line of the log should be {last}, of change {of}, and is {line}, of change {change}"
                ));
            }
            Ok(true)
        };
        self.store.for_each_row(SELECT_LOG_END, &[], seen).await
    }

    async fn check_history(&mut self) -> Result<(), StoreError> {
        let (mut key, mut sequence, mut count) = (Vec::new(), 0_i64, PAGE_LEN);
        let mut last: Option<PendingHistoryCheck> = None;
        while count == PAGE_LEN {
            let (from, verified) = ((std::mem::take(&mut key), sequence), &mut self.verified);
            count = 0;
            let seen = |found: &Row| {
                count += 1;
                verified.history += 1;
                key = row::column::<&[u8]>(found, 12)?.to_vec();
                sequence = row::column(found, 13)?;
                match decode_history_row(found, &key) {
                    Ok((line, before)) => {
                        if let Some(last) = last.take() {
                            let next = match &before {
                                _ if last.key != key => last.now,
                                PriorState::Record(entry) => Some(entry.revision),
                                PriorState::Nothing | PriorState::Unknown => None,
                            };
                            last.check(verified, next);
                        }
                        let before = if let PriorState::Record(entry) = before { Some(entry) } else { None };
                        let now = row::column::<Option<i64>>(found, 14)?.map(row::to_u64);
                        last = Some(PendingHistoryCheck { key: key.clone(), line, before, now });
                    }
                    Err(error) => {
                        last = None;
                        let key = key.escape_ascii();
                        verified.report(format!("change in the history `{key}`, line {sequence}: {error}"));
                    }
                }
                Ok(true)
            };
            self.store.for_each_row(SCAN_HISTORY, &[&from.0, &from.1, &PAGE_LEN], seen).await?;
            (self.progress)(&self.verified);
        }
        if let Some(last) = last {
            let now = last.now;
            last.check(&mut self.verified, now);
        }
        Ok(())
    }

    async fn check_prefixes(&mut self) -> Result<(), StoreError> {
        let check = |verified: &mut VerifyReport, found: &Row| {
            verified.prefixes += 1;
            let key: &[u8] = row::column(found, 0)?;
            let is_one = std::str::from_utf8(key).is_ok_and(|prefix| {
                NameKey::from_prefix(prefix).is_ok_and(|prefix| prefix.as_bytes() == key)
            });
            if !is_one {
                verified.report(format!("prefix `{}`: it is not understood", key.escape_ascii()));
            }
            Ok(key.to_vec())
        };
        self.walk_table(LIST_HOMED, check).await
    }

    async fn check_aux(&mut self) -> Result<(), StoreError> {
        let check = |verified: &mut VerifyReport, found: &Row| {
            verified.notes += 1;
            let key: &[u8] = row::column(found, 0)?;
            if !NameKey::is_valid_key(key) {
                verified.report(format!("note `{}`: it has a key that is not kept", key.escape_ascii()));
            }
            Ok(key.to_vec())
        };
        self.walk_table(SCAN_AUX_KEYS, check).await
    }
}

impl PendingHistoryCheck {
    /// Checks the entry against the following record.
    fn check(&self, verified: &mut VerifyReport, after: Option<u64>) {
        if let Some(problem) = find_inconsistency(&self.line, self.before.as_ref(), after) {
            let (key, line) = (self.key.escape_ascii(), self.line.sequence);
            verified.report(format!("change in the history `{key}`, line {line}: {problem}"));
        }
    }
}

/// Decodes a history row and checks that it matches its log entry and key.
fn decode_history_row(found: &Row, key: &[u8]) -> Result<(LogEntry, PriorState), StoreError> {
    let damaged = |what: &str| StoreError::Damaged { what: what.into() };
    if row::column::<Option<i64>>(found, 0)?.is_none() {
        return Err(damaged("the log has no such line"));
    }
    let (line, before) = (row::log_entry(found, 0)?, row::prior_state(found, 7)?);
    if line.kind != EditKind::Import && !is_storage_key_of(key, &line.name) {
        return Err(damaged("its line of the log is about another name"));
    }
    if let PriorState::Record(entry) = &before
        && !is_storage_key_of(key, &entry.name)
    {
        return Err(damaged("it has another name"));
    }
    Ok((line, before))
}

fn is_storage_key_of(key: &[u8], name: &str) -> bool {
    NameKey::new(name).is_ok_and(|name| *storage_key(&name) == *key)
}
