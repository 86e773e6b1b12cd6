//! Verification: checks LMDB's pages and every stored entry.

use std::ops::Bound;

use heed::RoTxn;

use super::aux_buffer::{self, BufferedWrite, JOURNAL_ITEM};
use super::format::{checksum, dictionary, log_entry};
use super::lmdb::environment::BytesDatabase;
use super::lmdb::page_check::PageFile;
use super::lmdb::{
    FORMAT_META_KEY, HEAD_META_KEY, META_ITEM, STORE_FORMAT, TRANSACTION_META_KEY, decode_head,
};
use super::name_hashes::{self, NameHasher};
use super::read::{AUX_ITEM, HOMED_ITEM, RECORD_ITEM, entries_from};
use super::{EmbeddedStore, Lmdb, backend_error, history, import, migration, registration};
use crate::model::name_key;
use crate::verify::{HistoryCounter, LogVerifier, find_inconsistency};
use crate::{EditKind, NameKey, StoreError, StoredRecord, VerifyReport};

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
    /// assert!(store.verify(|_| {})?.errors.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn verify(&self, progress: impl FnMut(&VerifyReport)) -> Result<VerifyReport, StoreError> {
        self.verify_and_inspect(|_| {}, progress)
    }

    /// Verifies like [`EmbeddedStore::verify`], and passes every intact record to `inspect`.
    pub fn verify_and_inspect(
        &self,
        mut inspect: impl FnMut(&StoredRecord),
        mut progress: impl FnMut(&VerifyReport),
    ) -> Result<VerifyReport, StoreError> {
        let mut verifier = Verifier {
            lmdb: self.lmdb(),
            report: VerifyReport::default(),
            inspect: &mut inspect,
            progress: &mut progress,
            started: self.lmdb().begin_read()?.id(),
        };
        verifier.check_pages()?;
        if verifier.report.error_count > 0 {
            // LMDB trusts its pages, so reading on is unsafe.
            return Ok(verifier.report);
        }
        verifier.check_meta()?;
        verifier.check_dictionary()?;
        verifier.check_records()?;
        verifier.check_prefixes()?;
        verifier.check_log()?;
        verifier.check_history()?;
        verifier.check_aux()?;
        verifier.check_registrations()?;
        verifier.check_name_hashes()?;
        Ok(verifier.report)
    }
}

/// Name of a stored item in error messages: singular and plural.
type Item = (&'static str, &'static str);

const META: Item = (META_ITEM, "meta entries");
const DICTIONARY: Item = (dictionary::ITEM, "dictionary entries");
const RECORD: Item = (RECORD_ITEM, "records");
const HOMED: Item = (HOMED_ITEM, "homed prefixes");
const LOG: Item = (history::LOG_ITEM, "log entries");
const HISTORY: Item = (history::ITEM, "history entries");
const AUX: Item = (AUX_ITEM, "aux entries");
const AUX_JOURNAL: Item = (JOURNAL_ITEM, "journal entries");
const REGISTRATION: Item = (registration::ITEM, "registrations");

/// Verification in progress.
struct Verifier<'a> {
    lmdb: &'a Lmdb,
    report: VerifyReport,
    inspect: &'a mut dyn FnMut(&StoredRecord),
    progress: &'a mut dyn FnMut(&VerifyReport),
    /// LMDB transaction id at the start.
    started: usize,
}

impl Verifier<'_> {
    /// Checks LMDB's pages.
    fn check_pages(&mut self) -> Result<(), StoreError> {
        if !PageFile::IS_SUPPORTED {
            return Ok(());
        }
        let checked = PageFile::with_last_state(&self.lmdb.env, PageFile::check_all);
        let checked = checked.map_err(|error| backend_error("starting a read transaction", error))?;
        if let Err(error) = checked {
            self.report.add_error(error);
        }
        Ok(())
    }

    /// Passes every entry of a database to `check` and also looks it up by key: a corrupt branch page misleads lookups, but not
    /// a scan of the leaves.
    fn walk_database(
        &mut self,
        item: Item,
        database: BytesDatabase,
        mut check: impl FnMut(&mut Self, &RoTxn<'_>, &[u8], &[u8]),
    ) -> Result<(), StoreError> {
        let (item, items) = item;
        let mut after: Option<Vec<u8>> = None;
        let mut count = 0;
        loop {
            let txn = self.lmdb.begin_read()?;
            let from = after.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
            let unreadable = |after: &Option<Vec<u8>>, error: &heed::Error| match after {
                Some(after) => format!("cannot read {items} after `{}`: {error}", after.escape_ascii()),
                None => format!("cannot read {items}: {error}"),
            };
            let entries = match database.range(&txn, &(from, Bound::Unbounded)) {
                Ok(entries) => entries,
                Err(error) => {
                    self.report.add_error(unreadable(&after, &error));
                    return Ok(());
                }
            };
            let mut last = None;
            let mut in_page = 0;
            for entry in entries.take(ENTRIES_PER_TRANSACTION) {
                let (key, value) = match entry {
                    Ok(entry) => entry,
                    Err(error) => {
                        let after = last.map(<[u8]>::to_vec).or(after);
                        self.report.add_error(unreadable(&after, &error));
                        return Ok(());
                    }
                };
                if last.or(after.as_deref()).is_some_and(|before| before >= key) {
                    self.report.add_error(format!("{item} `{}`: out of order", key.escape_ascii()));
                    // The scan could loop.
                    return Ok(());
                }
                if !matches!(database.get(&txn, key), Ok(Some(found)) if found == value) {
                    self.report
                        .add_error(format!("{item} `{}`: lookup does not find it", key.escape_ascii()));
                }
                check(self, &txn, key, value);
                last = Some(key);
                in_page += 1;
            }
            count += in_page as u64;
            (self.progress)(&self.report);
            if in_page < ENTRIES_PER_TRANSACTION {
                // The count is only comparable if nothing was written meanwhile.
                let is_unchanged = txn.id() == self.started;
                match database.len(&txn) {
                    Ok(length) if is_unchanged && length != count => {
                        self.report.add_error(format!("{items}: expected {length}, found {count}"));
                    }
                    Ok(_) => {}
                    Err(error) => self.report.add_error(format!("cannot count {items}: {error}")),
                }
                return Ok(());
            }
            after = last.map(<[u8]>::to_vec);
        }
    }

    fn check_meta(&mut self) -> Result<(), StoreError> {
        self.walk_database(META, self.lmdb.databases.meta, |this, _, key, value| {
            let Some(body) = this.report.check(checksum::verify_and_strip(key, value, META.0)) else {
                return;
            };
            let is_valid = match key {
                FORMAT_META_KEY => body == STORE_FORMAT,
                HEAD_META_KEY => decode_head(body).is_some(),
                TRANSACTION_META_KEY => body.len() == 8,
                import::PENDING_META_KEY => import::decode_pending(body).is_some(),
                migration::CHECKPOINT_META_KEY => migration::decode_checkpoint(body).is_some(),
                name_hashes::HASH_KEY_META_KEY => body.len() == 16,
                _ => false,
            };
            if !is_valid {
                this.report.add_error(format!("meta entry `{}`: cannot be decoded", key.escape_ascii()));
            }
        })
    }

    fn check_dictionary(&mut self) -> Result<(), StoreError> {
        self.walk_database(DICTIONARY, self.lmdb.databases.dictionary, |this, _, key, value| {
            let expected = this.report.dictionary_entries;
            this.report.dictionary_entries += 1;
            let number = key.try_into().map(u32::from_be_bytes);
            if number.map(u64::from).ok() != Some(expected) {
                let key = key.escape_ascii();
                this.report.add_error(format!("dictionary entry `{key}`: expected number {expected}"));
            }
            this.report.check(checksum::verify_and_strip(key, value, DICTIONARY.0));
        })
    }

    fn check_records(&mut self) -> Result<(), StoreError> {
        self.walk_database(RECORD, self.lmdb.databases.records, |this, txn, key, value| {
            let has_hash = this.check_name_hash(txn, RECORD.0, key, NameHasher::name);
            let Some(record) = this.report.check(this.lmdb.decode_record(txn, key, value)) else {
                this.report.history_entries += 1;
                // Otherwise the key is corrupt, too.
                if has_hash && let Ok(name) = str::from_utf8(key) {
                    this.report.add_damaged_name(name);
                }
                return;
            };
            let name = NameKey::new(&record.name).ok();
            if name.is_none_or(|name| *name_key::storage_key(&name) != *key) {
                this.report
                    .add_error(format!("record `{}`: name does not match the key", key.escape_ascii()));
            }
            let head = this.lmdb.read_head(txn);
            if this.report.check(head).is_some_and(|head| record.revision > head.revision) {
                let (key, revision) = (key.escape_ascii(), record.revision);
                this.report.add_error(format!("record `{key}`: revision {revision} is in the future"));
            }
            this.report.count_record(&record);
            (this.inspect)(&record);
        })
    }

    fn check_prefixes(&mut self) -> Result<(), StoreError> {
        self.walk_database(HOMED, self.lmdb.databases.homed, |this, txn, key, value| {
            let Some(body) = this.report.check(checksum::verify_and_strip(key, value, HOMED.0)) else {
                return;
            };
            if !body.is_empty() || str::from_utf8(key).is_err() {
                this.report.add_error(format!("homed prefix `{}`: cannot be decoded", key.escape_ascii()));
            }
            this.report.homed_prefixes += 1;
            this.check_name_hash(txn, HOMED.0, key, NameHasher::homed);
        })
    }

    /// Checks that the hash of a name is stored, unless the import that added the name is in progress.
    fn check_name_hash(
        &mut self,
        txn: &RoTxn<'_>,
        item: &str,
        key: &[u8],
        hash: fn(&NameHasher, &[u8]) -> u64,
    ) -> bool {
        let hasher = self.lmdb.name_hasher(txn);
        let found = hasher.and_then(|hasher| self.lmdb.has_name_hash(txn, hash(hasher, key)));
        let is_pending = || matches!(self.lmdb.read_meta(txn, import::PENDING_META_KEY), Ok(Some(_)));
        match found {
            Ok(false) if !is_pending() => {
                self.report.add_name_hash_error(format!("{item} `{}`: no name hash", key.escape_ascii()));
            }
            // `check_name_hashes` reports the block.
            Ok(_) | Err(_) => {}
        }
        found.unwrap_or_default()
    }

    /// Checks the blocks of name hashes, and that there are no hashes of lost names.
    fn check_name_hashes(&mut self) -> Result<(), StoreError> {
        let databases = self.lmdb.databases;
        let read_error = |error| backend_error("counting names", error);
        // One transaction, so that the counts are comparable: there is a block per about 100 names.
        let txn = self.lmdb.begin_read()?;
        let (mut previous, mut hashes) = (None, 0);
        for block in entries_from(databases.name_hashes, &txn, Bound::Unbounded, "reading name hashes")? {
            let block = block?;
            match name_hashes::check_block(block, previous) {
                Ok(count) => hashes += count,
                Err(error) => self.report.add_name_hash_error(error.detail()),
            }
            previous = Some(block.0);
        }
        let names = databases.records.len(&txn).map_err(read_error)?
            + databases.homed.len(&txn).map_err(read_error)?;
        if hashes > names && self.report.name_hash_errors == 0 {
            self.report.add_error(format!(
                "{} records or homed prefixes are missing although their name hashes exist",
                hashes - names
            ));
        }
        (self.progress)(&self.report);
        Ok(())
    }

    fn check_log(&mut self) -> Result<(), StoreError> {
        let mut log = LogVerifier::default();
        self.walk_database(LOG, self.lmdb.databases.log, |this, _, key, value| {
            let Ok(key) = key.try_into() else {
                this.report.add_error(format!("{} `{}`: invalid key", LOG.0, key.escape_ascii()));
                return;
            };
            let sequence = u64::from_be_bytes(key);
            let entry = checksum::verify_and_strip(&key, value, LOG.0).map_err(|_| "checksum mismatch");
            let entry = entry.and_then(|body| log_entry::decode(sequence, body).ok_or("cannot be decoded"));
            log.check(&mut this.report, sequence, entry.map_err(str::to_owned));
        })?;
        let txn = self.lmdb.begin_read()?;
        let Some(head) = self.report.check(self.lmdb.read_head(&txn)) else { return Ok(()) };
        // Entries may have been appended; missing ones are corruption.
        let (last, expected) = (log.sequence(), head.sequence);
        if expected < last || (expected > last && txn.id() == self.started) {
            self.report.add_error(format!("last {}: expected {expected}, found {last}", LOG.0));
        }
        log.check_head(&mut self.report, &head);
        Ok(())
    }

    fn check_history(&mut self) -> Result<(), StoreError> {
        let mut counter = HistoryCounter::default();
        self.walk_database(HISTORY, self.lmdb.databases.history, |this, txn, key, value| {
            let Some(replaced) = this.report.check(checksum::verify_and_strip(key, value, HISTORY.0)) else {
                this.report.history_entries += 1;
                return;
            };
            let result = this.lmdb.check_history_entry(txn, key, replaced);
            if let Err(error) = &result
                && this.lmdb.is_unconfirmed_removal(txn, key)
            {
                this.report.add_name_hash_error(error.detail());
                this.report.history_entries += 1;
                return;
            }
            let (kind, fault) = this.report.check(result).unwrap_or_default();
            if let Some(fault) = fault {
                this.report.add_error(format!("{} `{}`: {fault}", HISTORY.0, key.escape_ascii()));
            }
            match (kind, history::split_key(key)) {
                (Some(kind), Some((name, _))) => {
                    let records = this.lmdb.databases.records;
                    let has_record = || matches!(records.get(txn, name), Ok(Some(_)));
                    counter.count(&mut this.report, name, (kind, !replaced.is_empty()), has_record);
                }
                _ => this.report.history_entries += 1,
            }
        })?;
        counter.finish(&mut self.report);
        Ok(())
    }

    fn check_aux(&mut self) -> Result<(), StoreError> {
        self.walk_database(AUX, self.lmdb.databases.aux, |this, _, key, value| {
            this.report.aux_entries += 1;
            this.report.check(checksum::verify_and_strip(key, value, AUX.0));
        })?;
        let mut is_valid = true;
        self.walk_database(AUX_JOURNAL, self.lmdb.databases.aux_journal, |this, _, key, value| {
            let Some(body) = this.report.check(checksum::verify_and_strip(key, value, AUX_JOURNAL.0)) else {
                is_valid = false;
                return;
            };
            if key.len() != 8 || aux_buffer::decode_writes(body).is_none() {
                is_valid = false;
                this.report.add_error(format!("{JOURNAL_ITEM} `{}`: cannot be decoded", key.escape_ascii()));
            }
        })?;
        if is_valid {
            self.count_buffered_aux()?;
        }
        Ok(())
    }

    /// Corrects the number of aux entries by those that are buffered.
    fn count_buffered_aux(&mut self) -> Result<(), StoreError> {
        let txn = self.lmdb.begin_read()?;
        let buffer = self.lmdb.load_journal(&txn)?;
        for (key, write) in buffer.writes() {
            let is_merged =
                self.report.check(self.lmdb.merged_aux(&txn, key)).is_some_and(|value| value.is_some());
            match (write, is_merged) {
                (BufferedWrite::Put(_), false) => self.report.aux_entries += 1,
                (BufferedWrite::Remove, true) => {
                    self.report.aux_entries = self.report.aux_entries.saturating_sub(1);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn check_registrations(&mut self) -> Result<(), StoreError> {
        self.walk_database(REGISTRATION, self.lmdb.databases.registrations, |this, txn, key, value| {
            this.report.check(checksum::verify_and_strip(key, value, REGISTRATION.0));
            let log_entry = key.try_into().map(|key| this.lmdb.log_entry(txn, u64::from_be_bytes(key)));
            let log_entry = log_entry.map_or(Some(None), |log_entry| this.report.check(log_entry));
            // A corrupt log entry is reported by `check_log`.
            if log_entry.is_some_and(|log_entry| log_entry.is_none()) {
                let (item, key) = (REGISTRATION.0, key.escape_ascii());
                this.report.add_error(format!("{item} `{key}`: no such log entry"));
            }
        })
    }
}

impl Lmdb {
    /// Whether a history entry is the removal of a name that has no record, and the block that would have its hash is damaged: the
    /// miss cannot be confirmed until the block is recomputed.
    fn is_unconfirmed_removal(&self, txn: &RoTxn<'_>, entry_key: &[u8]) -> bool {
        history::split_key(entry_key).is_some_and(|(storage_key, sequence)| {
            matches!(self.databases.records.get(txn, storage_key), Ok(None))
                && matches!(self.log_entry(txn, sequence), Ok(Some(entry)) if entry.kind == EditKind::Remove)
                && self.has_damaged_hash_block(txn, storage_key)
        })
    }

    /// Checks a history entry against its log entry and the following record; returns the kind of change, and the contradiction.
    fn check_history_entry(
        &self,
        txn: &RoTxn<'_>,
        entry_key: &[u8],
        replaced: &[u8],
    ) -> Result<(Option<EditKind>, Option<&'static str>), StoreError> {
        let invalid = |fault| Ok((None, Some(fault)));
        let Some((storage_key, sequence)) = history::split_key(entry_key) else {
            return invalid("invalid key");
        };
        let prior = self.decode_replaced(txn, storage_key, replaced)?;
        let is_match =
            |name: &str| NameKey::new(name).is_ok_and(|name| *name_key::storage_key(&name) == *storage_key);
        if prior.as_ref().is_some_and(|prior| !is_match(&prior.name)) {
            return invalid("name does not match the key");
        }
        let log_entry = match self.log_entry(txn, sequence)? {
            Some(log_entry) => log_entry,
            None if self
                .databases
                .meta
                .get(txn, import::PENDING_META_KEY)
                .is_ok_and(|pending| pending.is_some()) =>
            {
                return Ok((None, None));
            }
            None => return invalid("no such log entry"),
        };
        let name = match &prior {
            _ if log_entry.kind != EditKind::Import => &log_entry.name,
            Some(prior) => &prior.name,
            None => return invalid("unexpected for an import"),
        };
        let key = NameKey::new(name).ok().filter(|_| is_match(name));
        let Some(key) = key else { return invalid("log entry refers to another name") };
        let resulting = history::NameHistory::new(self, txn, &key).revision_after(Some(sequence))?;
        Ok((Some(log_entry.kind), find_inconsistency(&log_entry, prior.as_ref(), resulting)))
    }
}

#[cfg(test)]
mod tests {
    use pollster::block_on;
    use tendot_testing::ram_dir;

    use super::*;
    use crate::{ChangeSet, Edit, LogEntry, Precondition, Store as _};

    /// Damaged hashes are errors of hashes only, also if names were removed, before or after the damage.
    #[test]
    fn damaged_hashes_of_removed_names() {
        for damaged_bytes in [1, usize::MAX] {
            let directory = ram_dir();
            let store = EmbeddedStore::open(directory.path()).unwrap();
            let commit = |edits| {
                block_on(store.commit(ChangeSet { author: "test".into(), timestamp_ms: 1, edits })).unwrap();
            };
            let put = |number: u32| Edit::Put {
                name: format!("10.1/{number}").into(),
                values: Vec::new(),
                precondition: Precondition::Absent,
            };
            let remove = |number: u32| {
                commit(vec![Edit::Remove {
                    name: format!("10.1/{number}").into(),
                    precondition: Precondition::Live,
                }]);
            };
            commit((0..300).map(put).collect());
            remove(1);
            let mut txn = store.lmdb.env.write_txn().unwrap();
            let hashes = store.lmdb.databases.name_hashes;
            let blocks = hashes.iter(&txn).unwrap().map(|block| {
                let (key, value) = block.unwrap();
                (key.to_vec(), value.to_vec())
            });
            for (key, mut value) in blocks.collect::<Vec<_>>() {
                // The end is the checksum.
                value.iter_mut().rev().take(damaged_bytes).for_each(|byte| *byte ^= 0xff);
                hashes.put(&mut txn, &key, &value).unwrap();
            }
            store.lmdb.commit(txn).unwrap();
            remove(2);
            let report = store.verify(|_| {}).unwrap();
            assert!(report.name_hash_errors > 0);
            assert_eq!(report.error_count, report.name_hash_errors, "{:?}", report.errors);
            store.rebuild_name_hashes().unwrap();
            assert_eq!(store.verify(|_| {}).unwrap().errors, [""; 0]);
        }
    }

    /// Stored log entry with its sequence number.
    type StoredEntry = (u64, Vec<u8>);

    /// Rewrites the log with valid checksums, as a program with access to the file could; returns the errors found.
    fn verify_tampered(tamper: impl FnOnce(&mut Vec<StoredEntry>)) -> Vec<String> {
        let directory = ram_dir();
        let store = EmbeddedStore::open(directory.path()).unwrap();
        for number in 1..=9 {
            let edits = vec![Edit::Home { prefix: format!("10.{number}").into() }];
            block_on(store.commit(ChangeSet { author: "test".into(), timestamp_ms: number, edits })).unwrap();
        }
        assert_eq!(store.verify(|_| {}).unwrap().errors, [""; 0]);
        let lmdb = &store.lmdb;
        let mut txn = lmdb.env.write_txn().unwrap();
        let entries = lmdb.databases.log.iter(&txn).unwrap().map(|entry| {
            let (key, value) = entry.unwrap();
            let (body, _) = value.split_last_chunk::<4>().unwrap();
            (u64::from_be_bytes(key.try_into().unwrap()), body.to_vec())
        });
        let mut entries: Vec<StoredEntry> = entries.collect();
        tamper(&mut entries);
        lmdb.databases.log.clear(&mut txn).unwrap();
        for (sequence, body) in entries {
            let key = sequence.to_be_bytes();
            lmdb.databases.log.put(&mut txn, &key, &checksum::with_checksum(&key, &body)).unwrap();
        }
        lmdb.commit(txn).unwrap();
        store.verify(|_| {}).unwrap().errors
    }

    /// Replaces the author in the content of an entry, optionally with a new digest.
    fn change_author(body: &mut Vec<u8>, with_digest: bool) {
        let mut entry = log_entry::decode(1, body).unwrap();
        entry.author = "other".into();
        if with_digest {
            entry.link.content_digest = entry.compute_content_digest();
        }
        body.clear();
        entry.encode_content(body);
        let LogEntry { link, .. } = entry;
        body.extend_from_slice(&link.previous_hash.0);
        body.extend_from_slice(&link.content_digest.0);
    }

    #[test]
    fn tampered_log_is_detected() {
        let renumber = |entries: &mut Vec<StoredEntry>| {
            entries.iter_mut().zip(1..).for_each(|(entry, sequence)| entry.0 = sequence);
        };
        let check = |tamper: &dyn Fn(&mut Vec<StoredEntry>), expected: &[&str]| {
            assert_eq!(verify_tampered(tamper), expected);
        };
        check(&|_| {}, &[]);
        // The content of one entry is changed, without and with its digest.
        check(
            &|entries| change_author(&mut entries[4].1, false),
            &["log entry 5: content does not match its digest"],
        );
        check(
            &|entries| change_author(&mut entries[4].1, true),
            &["log entry 6: previous hash does not match log entry 5"],
        );
        check(
            &|entries| change_author(&mut entries[8].1, true),
            &["last log entry 9: hash does not match the head"],
        );
        // One entry is removed; then the others are renumbered.
        check(&|entries| drop(entries.remove(4)), &["log entry 5 missing, found 6"]);
        check(&|entries| drop(entries.remove(0)), &["log entry 1 missing, found 2"]);
        check(&|entries| drop(entries.remove(8)), &["last log entry: expected 9, found 8"]);
        check(
            &|entries| {
                entries.remove(4);
                renumber(entries);
            },
            &["log entry 5: previous hash does not match log entry 4", "last log entry: expected 9, found 8"],
        );
        // Two entries are swapped.
        check(
            &|entries| {
                entries.swap(3, 4);
                renumber(entries);
            },
            &[
                "log entry 4: previous hash does not match log entry 3",
                "log entry 5: revision decreases",
                "log entry 5: previous hash does not match log entry 4",
                "log entry 6: previous hash does not match log entry 5",
            ],
        );
    }
}
