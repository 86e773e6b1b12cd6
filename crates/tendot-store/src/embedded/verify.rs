//! Verification: checks LMDB's pages and every stored entry.

use std::ops::Bound;

use heed::RoTxn;

use super::format::{checksum, log_entry};
use super::lmdb::STORE_FORMAT;
use super::lmdb::environment::BytesDatabase;
use super::lmdb::page_check::PageFile;
use super::{EmbeddedStore, Lmdb, history, import, migration, registration};
use crate::model::name_key;
use crate::verify::find_inconsistency;
use crate::{EditKind, NameKey, RecordStatus, StoreError, VerifyReport};

/// Entries read per transaction, so that old pages can be reused soon.
const ENTRIES_PER_TRANSACTION: usize = 10_000;

impl EmbeddedStore {
    /// Verifies everything that is stored, while others may write. `progress` is called now and then.
    ///
    /// ```
    /// use tendot_store::EmbeddedStore;
    ///
    /// let directory = tempfile::tempdir()?;
    /// let store = EmbeddedStore::open(directory.path())?;
    /// assert!(store.verify(|_| {})?.damage.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn verify(&self, mut progress: impl FnMut(&VerifyReport)) -> Result<VerifyReport, StoreError> {
        let mut inspection = Verifier {
            lmdb: self.lmdb(),
            verified: VerifyReport::default(),
            progress: &mut progress,
            started: self.lmdb().begin_read()?.id(),
        };
        inspection.check_pages()?;
        if inspection.verified.damaged > 0 {
            // LMDB trusts its pages, so reading on is unsafe.
            return Ok(inspection.verified);
        }
        inspection.check_meta()?;
        inspection.check_dictionary()?;
        inspection.check_records()?;
        inspection.check_prefixes()?;
        inspection.check_log()?;
        inspection.check_history()?;
        inspection.check_aux()?;
        inspection.check_registrations()?;
        Ok(inspection.verified)
    }
}

struct Verifier<'a> {
    lmdb: &'a Lmdb,
    verified: VerifyReport,
    progress: &'a mut dyn FnMut(&VerifyReport),
    /// LMDB transaction id at the start.
    started: usize,
}

impl Verifier<'_> {
    /// Checks LMDB's pages while a read transaction keeps those of the last state unchanged.
    fn check_pages(&mut self) -> Result<(), StoreError> {
        if !PageFile::IS_SUPPORTED {
            return Ok(());
        }
        let env = &self.lmdb.env;
        let file = if env.path().is_dir() { env.path().join("data.mdb") } else { env.path().to_owned() };
        let page_size = env.unnamed_database_stat().page_size;
        let mut tries = 0;
        let checked = loop {
            let txn = self.lmdb.begin_read()?;
            let pages = PageFile::open(&file, page_size);
            tries += 1;
            // A state whose commit is running may be in the file before readers see it; the pages of both states are protected
            // while we read.
            let read = txn.id() as u64;
            let is_last = |pages: &PageFile| (read..=read + 1).contains(&pages.transaction_id());
            match pages {
                // Two commits may have happened in between, but not every time.
                Ok(pages) if !is_last(&pages) && tries < 1_000 => {
                    drop(txn);
                    std::thread::sleep(std::time::Duration::from_millis(1));
                }
                Ok(pages) if !is_last(&pages) => {
                    break Err("the engine reads another state than the last".to_owned());
                }
                Ok(mut pages) => break pages.check_all(),
                Err(error) => break Err(error),
            }
        };
        if let Err(damage) = checked {
            self.verified.report(damage);
        }
        Ok(())
    }

    /// Passes every entry of a database to `check` and also looks it up by key: a corrupt branch page misleads lookups, but not
    /// a scan of the leaves.
    fn walk_database(
        &mut self,
        what: &str,
        database: BytesDatabase,
        mut check: impl FnMut(&mut Self, &RoTxn<'_>, &[u8], &[u8]),
    ) -> Result<(), StoreError> {
        let mut after: Option<Vec<u8>> = None;
        let mut count = 0;
        loop {
            let txn = self.lmdb.begin_read()?;
            let from = after.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
            let unreadable = |after: &Option<Vec<u8>>, error: &heed::Error| match after {
                Some(after) => format!("{what}s after `{}` can't be read: {error}", after.escape_ascii()),
                None => format!("{what}s can't be read: {error}"),
            };
            let entries = match database.range(&txn, &(from, Bound::Unbounded)) {
                Ok(entries) => entries,
                Err(error) => {
                    self.verified.report(unreadable(&after, &error));
                    return Ok(());
                }
            };
            let mut last = None;
            let mut in_slice = 0;
            for entry in entries.take(ENTRIES_PER_TRANSACTION) {
                let (key, value) = match entry {
                    Ok(entry) => entry,
                    Err(error) => {
                        let after = last.map(<[u8]>::to_vec).or(after);
                        self.verified.report(unreadable(&after, &error));
                        return Ok(());
                    }
                };
                if last.or(after.as_deref()).is_some_and(|before| before >= key) {
                    self.verified.report(format!("{what} `{}`: it is out of order", key.escape_ascii()));
                    // The scan could loop.
                    return Ok(());
                }
                if !matches!(database.get(&txn, key), Ok(Some(found)) if found == value) {
                    self.verified.report(format!("{what} `{}`: readers do not find it", key.escape_ascii()));
                }
                check(self, &txn, key, value);
                last = Some(key);
                in_slice += 1;
            }
            count += in_slice as u64;
            (self.progress)(&self.verified);
            if in_slice < ENTRIES_PER_TRANSACTION {
                // The count is only comparable if nothing was written meanwhile.
                let is_still = txn.id() == self.started;
                match database.len(&txn) {
                    Ok(length) if is_still && length != count => {
                        self.verified.report(format!("{length} {what}s should be there, {count} were found"));
                    }
                    Ok(_) => {}
                    Err(error) => self.verified.report(format!("{what}s can't be counted: {error}")),
                }
                return Ok(());
            }
            after = last.map(<[u8]>::to_vec);
        }
    }

    fn check_meta(&mut self) -> Result<(), StoreError> {
        self.walk_database("setting", self.lmdb.databases.meta, |this, _, key, value| {
            let Some(body) = this.verified.check(checksum::verify_and_strip(key, value, "setting")) else {
                return;
            };
            let is_right = match key {
                b"format" => body == STORE_FORMAT,
                b"revision" | b"sequence" | b"transaction" | history::HISTORY_START_META_KEY => {
                    body.len() == 8
                }
                b"lineage" => body.len() == 16,
                import::PendingImport::META_KEY => log_entry::decode(0, body).is_some(),
                migration::CHECKPOINT_META_KEY => migration::decode_checkpoint(body).is_some(),
                _ => false,
            };
            if !is_right {
                this.verified.report(format!("setting `{}`: it is not understood", key.escape_ascii()));
            }
        })
    }

    fn check_dictionary(&mut self) -> Result<(), StoreError> {
        self.walk_database("part", self.lmdb.databases.dictionary, |this, _, key, value| {
            let expected = this.verified.parts;
            this.verified.parts += 1;
            let number = key.try_into().map(u32::from_be_bytes);
            if number.map(u64::from).ok() != Some(expected) {
                let key = key.escape_ascii();
                this.verified.report(format!("part `{key}`: number {expected} should be there"));
            }
            this.verified.check(checksum::verify_and_strip(key, value, "part"));
        })
    }

    fn check_records(&mut self) -> Result<(), StoreError> {
        self.walk_database("record", self.lmdb.databases.records, |this, txn, key, value| {
            let Some(entry) = this.verified.check(this.lmdb.decode_record(txn, key, value)) else { return };
            let of_name = NameKey::new(&entry.name).ok();
            if of_name.is_none_or(|name| *name_key::storage_key(&name) != *key) {
                this.verified.report(format!("record `{}`: it has another name", key.escape_ascii()));
            }
            let last = this.lmdb.read_counter(txn, b"revision");
            if this.verified.check(last).is_some_and(|last| entry.revision > last) {
                let (key, revision) = (key.escape_ascii(), entry.revision);
                this.verified.report(format!("record `{key}`: revision {revision} has not been given yet"));
            }
            match entry.state {
                RecordStatus::Live => this.verified.records += 1,
                RecordStatus::Tombstone => this.verified.tombstones += 1,
            }
        })
    }

    fn check_prefixes(&mut self) -> Result<(), StoreError> {
        self.walk_database("prefix", self.lmdb.databases.homed, |this, _, key, value| {
            let Some(body) = this.verified.check(checksum::verify_and_strip(key, value, "prefix")) else {
                return;
            };
            if !body.is_empty() || str::from_utf8(key).is_err() {
                this.verified.report(format!("prefix `{}`: it is not understood", key.escape_ascii()));
            }
            this.verified.prefixes += 1;
        })
    }

    fn check_log(&mut self) -> Result<(), StoreError> {
        let what = "line of the log";
        let mut expected = 0_u64;
        self.walk_database(what, self.lmdb.databases.log, |this, _, key, value| {
            expected += 1;
            this.verified.lines += 1;
            let Some(body) = this.verified.check(checksum::verify_and_strip(key, value, what)) else {
                return;
            };
            match key.try_into().map(u64::from_be_bytes) {
                Ok(sequence) if log_entry::decode(sequence, body).is_some() => {
                    if sequence != expected {
                        this.verified.report(format!("{what} {expected} is missing, {sequence} is there"));
                        expected = sequence;
                    }
                }
                _ => this.verified.report(format!("{what} {expected}: it is not understood")),
            }
        })?;
        let txn = self.lmdb.begin_read()?;
        let Some(last) = self.verified.check(self.lmdb.read_counter(&txn, b"sequence")) else {
            return Ok(());
        };
        // Entries may have been appended; missing ones are corruption.
        if last < expected || (last > expected && txn.id() == self.started) {
            self.verified.report(format!("the last {what} should be {last}, and is {expected}"));
        }
        Ok(())
    }

    fn check_history(&mut self) -> Result<(), StoreError> {
        let Some(database) = self.lmdb.databases.history else { return Ok(()) };
        self.walk_database(history::ITEM, database, |this, txn, key, value| {
            this.verified.history += 1;
            let Some(old) = this.verified.check(checksum::verify_and_strip(key, value, history::ITEM)) else {
                return;
            };
            let result = this.lmdb.check_history_entry(txn, key, old);
            if let Some(Some(problem)) = this.verified.check(result) {
                this.verified.report(format!("{} `{}`: {problem}", history::ITEM, key.escape_ascii()));
            }
        })
    }
}

impl Verifier<'_> {
    fn check_aux(&mut self) -> Result<(), StoreError> {
        let Some(database) = self.lmdb.databases.aux else { return Ok(()) };
        self.walk_database("note", database, |this, _, key, value| {
            this.verified.notes += 1;
            this.verified.check(checksum::verify_and_strip(key, value, "note"));
        })
    }

    fn check_registrations(&mut self) -> Result<(), StoreError> {
        let Some(database) = self.lmdb.databases.registrations else { return Ok(()) };
        self.walk_database(registration::ITEM, database, |this, txn, key, value| {
            this.verified.registrations += 1;
            this.verified.check(checksum::verify_and_strip(key, value, registration::ITEM));
            let line = key.try_into().map(|key| this.lmdb.log_entry(txn, u64::from_be_bytes(key)));
            let line = line.map_or(Some(None), |line| this.verified.check(line));
            // A corrupt log entry is reported by `check_log`.
            if line.is_some_and(|line| line.is_none()) {
                let (what, key) = (registration::ITEM, key.escape_ascii());
                this.verified.report(format!("{what} `{key}`: the log has no such line"));
            }
        })
    }
}

impl Lmdb {
    /// Checks a history entry against its log entry and the following record; returns the contradiction.
    fn check_history_entry(
        &self,
        txn: &RoTxn<'_>,
        entry_key: &[u8],
        old: &[u8],
    ) -> Result<Option<&'static str>, StoreError> {
        let Some((record_key, sequence)) = history::split_key(entry_key) else {
            return Ok(Some("its key is not understood"));
        };
        let before = self.decode_replaced(txn, record_key, old)?;
        let is_match =
            |name: &str| NameKey::new(name).is_ok_and(|name| *name_key::storage_key(&name) == *record_key);
        if before.as_ref().is_some_and(|before| !is_match(&before.name)) {
            return Ok(Some("it has another name"));
        }
        let line = match self.log_entry(txn, sequence)? {
            Some(line) => line,
            None if self
                .databases
                .meta
                .get(txn, import::PendingImport::META_KEY)
                .is_ok_and(|it| it.is_some()) =>
            {
                return Ok(None);
            }
            None => return Ok(Some("the log has no such line")),
        };
        let name = match &before {
            _ if line.kind != EditKind::Import => &line.name,
            Some(before) => &before.name,
            None => return Ok(Some("an import has no such entry")),
        };
        let key = NameKey::new(name).ok().filter(|_| is_match(name));
        let Some(key) = key else { return Ok(Some("its line of the log is about another name")) };
        let after = history::NameHistory::new(self, txn, &key)?.revision_after(Some(sequence))?;
        Ok(find_inconsistency(&line, before.as_ref(), after))
    }
}
