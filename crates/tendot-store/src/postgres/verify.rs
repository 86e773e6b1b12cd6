//! Verification of every row.

use tokio_postgres::Row;

use super::read::{LIST_HOMED, SELECT_LOG};
use super::{PostgresStore, row};
use crate::model::name_key::storage_key;
use crate::verify::{HistoryCounter, LogVerifier, find_inconsistency};
use crate::{
    AuxEntry, EditKind, HistoryEntry, LogEntry, NameKey, PriorState, StoreError, StoredRecord, VerifyReport,
};

/// Rows per page; each may have some megabytes.
const PAGE_LEN: i64 = 1_000;

// The last column is true if a record is outside the key range of its import; migrated imports have none.
const SCAN_RECORDS: &str = "select r.name, r.revision, r.status, r.body, r.registration, r.name_key, \
     (select revision from tendot_counters where id = 1), \
     exists (select 1 from tendot_log i where i.kind = 7 and i.revision = r.revision \
         and (r.name_key < i.first_key or r.name_key > i.last_key)) \
     from tendot_records r where r.name_key > $1 order by r.name_key limit $2";

const SELECT_LOG_END: &str = "select revision, sequence, log_hash, \
     (select max(sequence) from tendot_log), (select max(revision) from tendot_log) \
     from tendot_counters where id = 1";

// The page is a subquery: otherwise the planner may scan whole tables for each.
const SCAN_HISTORY: &str = concat!(
    "select ",
    row::log_columns!("l"),
    ", h.name, h.revision, h.status, h.body, h.registration, h.name_key, h.sequence, r.revision \
     from (select name_key, sequence, name, revision, status, body, registration from tendot_history \
         where (name_key, sequence) > ($1, $2) order by name_key, sequence limit $3) h \
     left join tendot_log l on l.sequence = h.sequence \
     left join tendot_records r on r.name_key = h.name_key order by h.name_key, h.sequence"
);

/// First column of the prior state in [`SCAN_HISTORY`]; key, sequence number and current revision follow its five columns.
const PRIOR_COLUMN: usize = row::LOG_COLUMNS;

const SCAN_AUX_KEYS: &str = "select aux_key from tendot_aux where aux_key > $1 order by aux_key limit $2";

impl PostgresStore {
    /// Verifies every row, while others may write. `progress` is called now and then.
    ///
    /// Rows have no checksums of ours (the database may have some): a changed but valid value is not detected, except in the
    /// change log. Its content has an audit chain, and the key range of an import is compared with its records.
    pub async fn verify(
        &self,
        progress: impl FnMut(&VerifyReport) + Send,
    ) -> Result<VerifyReport, StoreError> {
        self.verify_and_inspect(|_| {}, progress).await
    }

    /// Verifies like [`PostgresStore::verify`], and passes every readable record to `inspect`.
    pub async fn verify_and_inspect(
        &self,
        inspect: impl FnMut(&StoredRecord) + Send,
        progress: impl FnMut(&VerifyReport) + Send,
    ) -> Result<VerifyReport, StoreError> {
        let mut verifier = Verifier { store: self, report: VerifyReport::default(), progress };
        verifier.check_records(inspect).await?;
        verifier.check_log().await?;
        verifier.check_history().await?;
        verifier.check_prefixes().await?;
        verifier.check_aux().await?;
        Ok(verifier.report)
    }
}

/// Verification in progress.
struct Verifier<'a, P> {
    store: &'a PostgresStore,
    report: VerifyReport,
    progress: P,
}

/// History entry whose successor has not been read yet.
struct PendingHistoryCheck {
    key: Vec<u8>,
    log_entry: LogEntry,
    prior: Option<StoredRecord>,
    /// Revision of the current record when this was read, if there was one.
    current_revision: Option<u64>,
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
            let (from, report) = (std::mem::take(&mut after), &mut self.report);
            count = 0;
            let visit = |found: &Row| {
                count += 1;
                after = check(report, found)?;
                Ok(true)
            };
            self.store.for_each_row(sql, &[&from, &PAGE_LEN], visit).await?;
            (self.progress)(&self.report);
        }
        Ok(())
    }

    async fn check_records(
        &mut self,
        mut inspect: impl FnMut(&StoredRecord) + Send,
    ) -> Result<(), StoreError> {
        let check = move |report: &mut VerifyReport, found: &Row| {
            let key: &[u8] = row::column(found, 5)?;
            let error = |fault: &str| format!("record `{}`: {fault}", key.escape_ascii());
            match row::record(found, 0) {
                Ok(Some(record)) => {
                    if !is_storage_key_of(key, &record.name) {
                        report.add_error(error("name does not match the key"));
                    }
                    if record.revision > row::to_u64(row::column(found, 6)?) {
                        report.add_error(error(&format!("revision {} is in the future", record.revision)));
                    }
                    if row::column(found, 7)? {
                        report.add_error(error("outside the key range of its import"));
                    }
                    report.count_record(&record);
                    inspect(&record);
                }
                unreadable => {
                    report.history_entries += 1;
                    let fault =
                        unreadable.map_or_else(|fault| fault.to_string(), |_| "name is missing".into());
                    report.add_error(error(&fault));
                }
            }
            Ok(key.to_vec())
        };
        self.walk_table(SCAN_RECORDS, check).await
    }

    async fn check_log(&mut self) -> Result<(), StoreError> {
        let (mut log, mut count) = (LogVerifier::default(), PAGE_LEN);
        while count == PAGE_LEN {
            let (from, report) = (row::to_i64(log.sequence()), &mut self.report);
            count = 0;
            let visit = |found: &Row| {
                count += 1;
                let sequence = row::to_u64(row::column(found, 0)?);
                log.check(report, sequence, row::log_entry(found, 0).map_err(|error| error.detail()));
                Ok(true)
            };
            self.store.for_each_row(SELECT_LOG, &[&from, &PAGE_LEN], visit).await?;
            (self.progress)(&self.report);
        }
        let report = &mut self.report;
        let visit = |found: &Row| {
            let Some(head) = report.check(row::head(found, 0)) else { return Ok(true) };
            let last = |index| Ok(row::to_u64(row::column::<Option<i64>>(found, index)?.unwrap_or_default()));
            let (sequence, revision): (u64, u64) = (last(3)?, last(4)?);
            if (sequence, revision) != (head.sequence, head.revision) {
                report.add_error(format!(
                    "last log entry: expected sequence {}, revision {}; found sequence {sequence}, revision {revision}",
                    head.sequence, head.revision
                ));
            }
            log.check_head(report, &head);
            Ok(true)
        };
        self.store.for_each_row(SELECT_LOG_END, &[], visit).await
    }

    async fn check_history(&mut self) -> Result<(), StoreError> {
        let (mut key, mut sequence, mut count) = (Vec::new(), 0_i64, PAGE_LEN);
        let mut pending: Option<PendingHistoryCheck> = None;
        let mut counter = HistoryCounter::default();
        while count == PAGE_LEN {
            let (from, report) = ((std::mem::take(&mut key), sequence), &mut self.report);
            count = 0;
            let visit = |found: &Row| {
                count += 1;
                key = row::column::<&[u8]>(found, PRIOR_COLUMN + 5)?.to_vec();
                sequence = row::column(found, PRIOR_COLUMN + 6)?;
                match decode_history_row(found, &key) {
                    Ok(HistoryEntry { log_entry, prior }) => {
                        let prior = if let PriorState::Record(record) = prior { Some(record) } else { None };
                        if let Some(pending) = pending.take() {
                            let resulting = if pending.key == key {
                                prior.as_ref().map(|record| record.revision)
                            } else {
                                pending.current_revision
                            };
                            pending.check(report, resulting);
                        }
                        let current_revision = row::column::<Option<i64>>(found, PRIOR_COLUMN + 7)?;
                        let current_revision = current_revision.map(row::to_u64);
                        let change = (log_entry.kind, prior.is_some());
                        counter.count(report, &key, change, || current_revision.is_some());
                        let key = key.clone();
                        pending = Some(PendingHistoryCheck { key, log_entry, prior, current_revision });
                    }
                    Err(error) => {
                        pending = None;
                        report.history_entries += 1;
                        let key = key.escape_ascii();
                        report.add_error(format!("history entry `{key}`, log entry {sequence}: {error}"));
                    }
                }
                Ok(true)
            };
            self.store.for_each_row(SCAN_HISTORY, &[&from.0, &from.1, &PAGE_LEN], visit).await?;
            (self.progress)(&self.report);
        }
        counter.finish(&mut self.report);
        if let Some(pending) = pending {
            pending.check(&mut self.report, pending.current_revision);
        }
        Ok(())
    }

    async fn check_prefixes(&mut self) -> Result<(), StoreError> {
        let check = |report: &mut VerifyReport, found: &Row| {
            report.homed_prefixes += 1;
            let key: &[u8] = row::column(found, 0)?;
            let is_valid = std::str::from_utf8(key).is_ok_and(|prefix| {
                NameKey::from_prefix(prefix).is_ok_and(|prefix| prefix.as_bytes() == key)
            });
            if !is_valid {
                report.add_error(format!("homed prefix `{}`: cannot be decoded", key.escape_ascii()));
            }
            Ok(key.to_vec())
        };
        self.walk_table(LIST_HOMED, check).await
    }

    async fn check_aux(&mut self) -> Result<(), StoreError> {
        let check = |report: &mut VerifyReport, found: &Row| {
            report.aux_entries += 1;
            let key: &[u8] = row::column(found, 0)?;
            if !AuxEntry::is_valid_key(key) {
                report.add_error(format!("aux entry `{}`: invalid key length", key.escape_ascii()));
            }
            Ok(key.to_vec())
        };
        self.walk_table(SCAN_AUX_KEYS, check).await
    }
}

impl PendingHistoryCheck {
    /// Checks the entry against the revision of the resulting record.
    fn check(&self, report: &mut VerifyReport, resulting_revision: Option<u64>) {
        if let Some(fault) = find_inconsistency(&self.log_entry, self.prior.as_ref(), resulting_revision) {
            let (key, sequence) = (self.key.escape_ascii(), self.log_entry.sequence);
            report.add_error(format!("history entry `{key}`, log entry {sequence}: {fault}"));
        }
    }
}

/// Decodes a history row and checks that it matches its log entry and key.
fn decode_history_row(found: &Row, key: &[u8]) -> Result<HistoryEntry, StoreError> {
    let corrupt = |fault: &str| StoreError::Corrupt { detail: fault.into() };
    if row::column::<Option<i64>>(found, 0)?.is_none() {
        return Err(corrupt("no such log entry"));
    }
    let (log_entry, prior) = (row::log_entry(found, 0)?, row::prior_state(found, PRIOR_COLUMN)?);
    if log_entry.kind != EditKind::Import && !is_storage_key_of(key, &log_entry.name) {
        return Err(corrupt("log entry refers to another name"));
    }
    if let PriorState::Record(record) = &prior
        && !is_storage_key_of(key, &record.name)
    {
        return Err(corrupt("name does not match the key"));
    }
    Ok(HistoryEntry { log_entry, prior })
}

fn is_storage_key_of(key: &[u8], name: &str) -> bool {
    NameKey::new(name).is_ok_and(|name| *storage_key(&name) == *key)
}
