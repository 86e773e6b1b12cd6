//! Reading everything there is, to find what is damaged.

use tokio_postgres::Row;

use super::{Postgres, row};
use crate::embedded::key::record_key;
use crate::embedded::{Verified, disagreement};
use crate::{Before, EditKind, Entry, Key, LogEntry, State, StoreError};

/// Rows that are read together; each may have some megabytes.
const PAGE: i64 = 1_000;

const RECORDS: &str = "select name, revision, state, body, registration, name_key, \
     (select revision from tendot_counters where id = 1) \
     from tendot_records where name_key > $1 order by name_key limit $2";

const LOG: &str = "select sequence, revision, made_at, made_by, kind, name, records from tendot_log \
     where sequence > $1 order by sequence limit $2";

const LAST: &str = "select (select max(sequence) from tendot_log), (select max(revision) from tendot_log), \
     sequence, revision from tendot_counters where id = 1";

// The page first: else a planner may read whole tables for each.
const HISTORY: &str = "select l.sequence, l.revision, l.made_at, l.made_by, l.kind, l.name, l.records, \
     h.name, h.revision, h.state, h.body, h.registration, h.name_key, h.sequence, r.revision \
     from (select name_key, sequence, name, revision, state, body, registration from tendot_history \
         where (name_key, sequence) > ($1, $2) order by name_key, sequence limit $3) h \
     left join tendot_log l on l.sequence = h.sequence \
     left join tendot_records r on r.name_key = h.name_key order by h.name_key, h.sequence";

const HOMED: &str = "select name_key from tendot_homed where name_key > $1 order by name_key limit $2";

const NOTES: &str = "select note_key from tendot_notes where note_key > $1 order by note_key limit $2";

impl Postgres {
    /// Reads all that is stored and tells what is damaged; others may write meanwhile. `progress` is told now and then
    /// how far it is.
    ///
    /// There are no checksums here, the database may have some: a value that was changed to another one is not noticed.
    pub async fn verify(&self, progress: impl FnMut(&Verified) + Send) -> Result<Verified, StoreError> {
        let mut inspection = Inspection { store: self, verified: Verified::default(), progress };
        inspection.records().await?;
        inspection.log().await?;
        inspection.history().await?;
        inspection.homed().await?;
        inspection.notes().await?;
        Ok(inspection.verified)
    }
}

struct Inspection<'a, P> {
    store: &'a Postgres,
    verified: Verified,
    progress: P,
}

/// A change whose successor is not known yet.
struct PendingHistoryCheck {
    key: Vec<u8>,
    line: LogEntry,
    before: Option<Entry>,
    /// The revision of the record when this was read, if there was one.
    now: Option<u64>,
}

impl<P: FnMut(&Verified) + Send> Inspection<'_, P> {
    /// Gives every row of a table to `check`, which tells its key.
    async fn walk(
        &mut self,
        sql: &str,
        mut check: impl FnMut(&mut Verified, &Row) -> Result<Vec<u8>, StoreError> + Send,
    ) -> Result<(), StoreError> {
        let (mut after, mut count) = (Vec::new(), PAGE);
        while count == PAGE {
            let (from, verified) = (std::mem::take(&mut after), &mut self.verified);
            count = 0;
            let seen = |found: &Row| {
                count += 1;
                after = check(verified, found)?;
                Ok(true)
            };
            self.store.each(sql, &[&from, &PAGE], seen).await?;
            (self.progress)(&self.verified);
        }
        Ok(())
    }

    async fn records(&mut self) -> Result<(), StoreError> {
        let check = |verified: &mut Verified, found: &Row| {
            let key: &[u8] = row::column(found, 5)?;
            let what = |how: &str| format!("record `{}`: {how}", key.escape_ascii());
            match row::entry(found, 0) {
                Ok(Some(entry)) => {
                    if !is_storage_key_of(key, &entry.name) {
                        verified.damage(what("it has another name"));
                    }
                    if entry.revision > row::number(row::column(found, 6)?) {
                        verified.damage(what(&format!("revision {} has not been given yet", entry.revision)));
                    }
                    match entry.state {
                        State::Live => verified.records += 1,
                        State::Tombstone => verified.tombstones += 1,
                    }
                    verified.registrations += u64::from(!entry.registration.is_empty());
                }
                Ok(None) => verified.damage(what("it has no name")),
                Err(error) => verified.damage(what(&error.to_string())),
            }
            Ok(key.to_vec())
        };
        self.walk(RECORDS, check).await
    }

    async fn log(&mut self) -> Result<(), StoreError> {
        let (mut last, mut revision, mut count) = (0, 0, PAGE);
        while count == PAGE {
            let (from, verified) = (last, &mut self.verified);
            count = 0;
            let seen = |found: &Row| {
                count += 1;
                let sequence: i64 = row::column(found, 0)?;
                if sequence != last + 1 {
                    verified.damage(format!("line of the log {} is missing, {sequence} is there", last + 1));
                }
                last = sequence;
                verified.lines += 1;
                match row::logged(found, 0) {
                    Ok(line) if line.revision < revision => {
                        verified.damage(format!("line of the log {sequence}: its revision came earlier"));
                    }
                    Ok(line) => revision = line.revision,
                    Err(error) => verified.damage(format!("line of the log {sequence}: {error}")),
                }
                Ok(true)
            };
            self.store.each(LOG, &[&from, &PAGE], seen).await?;
            (self.progress)(&self.verified);
        }
        let verified = &mut self.verified;
        let seen = |found: &Row| {
            let there: (Option<i64>, Option<i64>) = (row::column(found, 0)?, row::column(found, 1)?);
            let given: (i64, i64) = (row::column(found, 2)?, row::column(found, 3)?);
            if (there.0.unwrap_or(0), there.1.unwrap_or(0)) != given {
                let ((line, change), (last, of)) = ((there.0.unwrap_or(0), there.1.unwrap_or(0)), given);
                verified.damage(format!(
                    "the last line of the log should be {last}, of change {of}, and is {line}, of change {change}"
                ));
            }
            Ok(true)
        };
        self.store.each(LAST, &[], seen).await
    }

    async fn history(&mut self) -> Result<(), StoreError> {
        let (mut key, mut sequence, mut count) = (Vec::new(), 0_i64, PAGE);
        let mut last: Option<PendingHistoryCheck> = None;
        while count == PAGE {
            let (from, verified) = ((std::mem::take(&mut key), sequence), &mut self.verified);
            count = 0;
            let seen = |found: &Row| {
                count += 1;
                verified.history += 1;
                key = row::column::<&[u8]>(found, 12)?.to_vec();
                sequence = row::column(found, 13)?;
                match change(found, &key) {
                    Ok((line, before)) => {
                        if let Some(last) = last.take() {
                            let next = match &before {
                                _ if last.key != key => last.now,
                                Before::Record(entry) => Some(entry.revision),
                                Before::Nothing | Before::Unknown => None,
                            };
                            last.check(verified, next);
                        }
                        let before = if let Before::Record(entry) = before { Some(entry) } else { None };
                        let now = row::column::<Option<i64>>(found, 14)?.map(row::number);
                        last = Some(PendingHistoryCheck { key: key.clone(), line, before, now });
                    }
                    Err(error) => {
                        last = None;
                        let key = key.escape_ascii();
                        verified.damage(format!("change in the history `{key}`, line {sequence}: {error}"));
                    }
                }
                Ok(true)
            };
            self.store.each(HISTORY, &[&from.0, &from.1, &PAGE], seen).await?;
            (self.progress)(&self.verified);
        }
        if let Some(last) = last {
            let now = last.now;
            last.check(&mut self.verified, now);
        }
        Ok(())
    }

    async fn homed(&mut self) -> Result<(), StoreError> {
        let check = |verified: &mut Verified, found: &Row| {
            verified.prefixes += 1;
            let key: &[u8] = row::column(found, 0)?;
            let is_one = std::str::from_utf8(key)
                .is_ok_and(|prefix| Key::of_prefix(prefix).is_ok_and(|prefix| prefix.as_bytes() == key));
            if !is_one {
                verified.damage(format!("prefix `{}`: it is not understood", key.escape_ascii()));
            }
            Ok(key.to_vec())
        };
        self.walk(HOMED, check).await
    }

    async fn notes(&mut self) -> Result<(), StoreError> {
        let check = |verified: &mut Verified, found: &Row| {
            verified.notes += 1;
            let key: &[u8] = row::column(found, 0)?;
            if !Key::is_valid_key(key) {
                verified.damage(format!("note `{}`: it has a key that is not kept", key.escape_ascii()));
            }
            Ok(key.to_vec())
        };
        self.walk(NOTES, check).await
    }
}

impl PendingHistoryCheck {
    /// Whether it agrees with what came after it.
    fn check(&self, verified: &mut Verified, after: Option<u64>) {
        if let Some(problem) = disagreement(&self.line, self.before.as_ref(), after) {
            let (key, line) = (self.key.escape_ascii(), self.line.sequence);
            verified.damage(format!("change in the history `{key}`, line {line}: {problem}"));
        }
    }
}

/// A row of the history, if it belongs to its line of the log and to its key.
fn change(found: &Row, key: &[u8]) -> Result<(LogEntry, Before), StoreError> {
    let damaged = |what: &str| StoreError::Damaged { what: what.into() };
    if row::column::<Option<i64>>(found, 0)?.is_none() {
        return Err(damaged("the log has no such line"));
    }
    let (line, before) = (row::logged(found, 0)?, row::before(found, 7)?);
    if line.kind != EditKind::Import && !is_storage_key_of(key, &line.name) {
        return Err(damaged("its line of the log is about another name"));
    }
    if let Before::Record(entry) = &before
        && !is_storage_key_of(key, &entry.name)
    {
        return Err(damaged("it has another name"));
    }
    Ok((line, before))
}

fn is_storage_key_of(key: &[u8], name: &str) -> bool {
    Key::new(name).is_ok_and(|name| *record_key(&name) == *key)
}
