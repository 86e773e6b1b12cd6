//! Reads of records, names, prefixes, aux entries and the log.

use std::ops::Bound;

use heed::{RoTxn, RwTxn};

use super::format::checksum;
use super::format::record::{self, DiskRecord, RecordHeader};
use super::{Lmdb, backend_error};
use crate::model::name_key;
use crate::{CountPage, LogEntry, NameEntry, NameKey, NamePage, Note, StoreError, StoredRecord};

/// Maximum number of records scanned per call for those of a revision: some milliseconds.
pub(crate) const MAX_SCANNED_RECORDS: usize = 10_000;

impl Lmdb {
    pub(crate) fn scan(
        &self,
        after: Option<&NameKey>,
        limit: usize,
    ) -> Result<Vec<StoredRecord>, StoreError> {
        let mut entries = Vec::new();
        if limit > 0 {
            self.scan_records(None, after, |entry| {
                entries.push(entry);
                entries.len() < limit
            })?;
        }
        Ok(entries)
    }

    pub(crate) fn scan_records(
        &self,
        prefix: Option<&[u8]>,
        after: Option<&NameKey>,
        mut visit: impl FnMut(StoredRecord) -> bool,
    ) -> Result<(), StoreError> {
        let txn = self.begin_read()?;
        if let Some(prefix) = prefix {
            let read = |key: &[u8], value: &[u8]| Ok(visit(self.decode_record(&txn, key, value)?));
            return self.scan_prefix(&txn, prefix, after, read);
        }
        let failed = |error| backend_error("reading records", error);
        let after = after.map(|key| name_key::storage_key(key).into_owned());
        let from = after.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        for record in self.databases.records.range(&txn, &(from, Bound::Unbounded)).map_err(failed)? {
            let (key, value) = record.map_err(failed)?;
            if !visit(self.decode_record(&txn, key, value)?) {
                break;
            }
        }
        Ok(())
    }

    pub(crate) fn get_record(
        &self,
        txn: &RoTxn<'_>,
        key: &NameKey,
    ) -> Result<Option<StoredRecord>, StoreError> {
        self.get_disk_record(txn, key)?.map(|record| self.with_registration(txn, record)).transpose()
    }

    /// Reads the record of a name without its registration.
    pub(crate) fn get_disk_record(
        &self,
        txn: &RoTxn<'_>,
        key: &NameKey,
    ) -> Result<Option<DiskRecord>, StoreError> {
        self.find_disk_record(txn, key, |number| {
            self.dictionary.get_or_load(number, || self.load_dictionary_entry(txn, number))
        })
    }

    /// Reads a record inside a write transaction. Bypasses the dictionary cache, because uncommitted entries may be rolled back.
    pub(crate) fn get_disk_record_in_write(
        &self,
        txn: &RwTxn<'_>,
        key: &NameKey,
    ) -> Result<Option<DiskRecord>, StoreError> {
        self.find_disk_record(txn, key, |number| self.dictionary_entry(txn, number))
    }

    pub(crate) fn find_disk_record<'p>(
        &self,
        txn: &RoTxn<'_>,
        key: &NameKey,
        part: impl Fn(u32) -> Result<Option<&'p [u8]>, StoreError>,
    ) -> Result<Option<DiskRecord>, StoreError> {
        let record_key = name_key::storage_key(key);
        let found = self.databases.records.get(txn, &record_key);
        let Some(value) = found.map_err(|error| backend_error("reading a record", error))? else {
            return Ok(None);
        };
        let record =
            decode_disk_record(&record_key, checksum::verify_and_strip(&record_key, value, "record")?, part)?;
        // Two long names could have the same storage key; only one of them is stored.
        let is_match = !name_key::is_hashed_key(&record_key)
            || record.entry.name.as_bytes().eq_ignore_ascii_case(key.as_bytes());
        Ok(is_match.then_some(record))
    }

    pub(crate) fn decode_record(
        &self,
        txn: &RoTxn<'_>,
        record_key: &[u8],
        value: &[u8],
    ) -> Result<StoredRecord, StoreError> {
        self.decode_record_body(txn, record_key, checksum::verify_and_strip(record_key, value, "record")?)
    }

    /// Decodes a record whose checksum has been stripped.
    pub(crate) fn decode_record_body(
        &self,
        txn: &RoTxn<'_>,
        record_key: &[u8],
        body: &[u8],
    ) -> Result<StoredRecord, StoreError> {
        let part = |number| self.dictionary.get_or_load(number, || self.load_dictionary_entry(txn, number));
        self.with_registration(txn, decode_disk_record(record_key, body, part)?)
    }

    pub(crate) fn load_dictionary_entry(
        &self,
        txn: &RoTxn<'_>,
        number: u32,
    ) -> Result<Option<Box<[u8]>>, StoreError> {
        Ok(self.dictionary_entry(txn, number)?.map(Into::into))
    }

    pub(crate) fn dictionary_entry<'t>(
        &self,
        txn: &'t RoTxn<'_>,
        number: u32,
    ) -> Result<Option<&'t [u8]>, StoreError> {
        let key = number.to_be_bytes();
        let part = self
            .databases
            .dictionary
            .get(txn, &key)
            .map_err(|error| backend_error("reading a part", error))?;
        part.map(|part| checksum::verify_and_strip(&key, part, "part")).transpose()
    }

    /// Reads the header of a record without decoding its values.
    pub(crate) fn record_header(
        &self,
        txn: &RoTxn<'_>,
        record_key: &[u8],
    ) -> Result<Option<RecordHeader>, StoreError> {
        let value = self
            .databases
            .records
            .get(txn, record_key)
            .map_err(|error| backend_error("reading a record", error))?;
        value.map(|value| Self::decode_header(record_key, value)).transpose()
    }

    pub(crate) fn decode_header(record_key: &[u8], value: &[u8]) -> Result<RecordHeader, StoreError> {
        let body = checksum::verify_and_strip(record_key, value, "record")?;
        let head = RecordHeader::decode(record_key, body).map(|(head, _)| head);
        head.ok_or_else(|| checksum::corrupt(record_key, "record", "its layout is not known"))
    }

    /// Visits the raw records of a prefix after a key until `visit` returns false.
    pub(crate) fn scan_prefix(
        &self,
        txn: &RoTxn<'_>,
        prefix: &[u8],
        after: Option<&NameKey>,
        mut visit: impl FnMut(&[u8], &[u8]) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        if prefix.len() > NameKey::MAX_PREFIX_LEN {
            return Ok(());
        }
        let failed = |error| backend_error("listing names", error);
        let records = self.databases.records;
        let folded = prefix.to_ascii_uppercase();
        // The name that equals the prefix sorts before all names with a slash, but not directly before them.
        if after.is_none()
            && !folded.is_empty()
            && let Some(value) = records.get(txn, &folded).map_err(failed)?
            && !visit(&folded, value)?
        {
            return Ok(());
        }
        let begin = [&folded[..], b"/"].concat();
        let after = after.map(|key| name_key::storage_key(key).into_owned());
        let from = match &after {
            Some(after) if *after > begin => Bound::Excluded(&after[..]),
            _ => Bound::Included(&begin[..]),
        };
        for record in records.range(txn, &(from, Bound::Unbounded)).map_err(failed)? {
            let (key, value) = record.map_err(failed)?;
            if !key.starts_with(&begin) || !visit(key, value)? {
                break;
            }
        }
        Ok(())
    }

    pub(crate) fn list_names(
        &self,
        prefix: &[u8],
        after: Option<&NameKey>,
        limit: usize,
    ) -> Result<Vec<NameEntry>, StoreError> {
        let mut listed = Vec::new();
        if limit > 0 {
            self.scan_prefix(&*self.begin_read()?, prefix, after, |key, value| {
                let head = Self::decode_header(key, value)?;
                listed.push(NameEntry { name: head.name, state: head.state });
                Ok(listed.len() < limit)
            })?;
        }
        Ok(listed)
    }

    /// Reads only the first byte of each record, and the name of the last one.
    pub(crate) fn count_names(
        &self,
        prefix: &[u8],
        after: Option<&NameKey>,
        limit: usize,
    ) -> Result<CountPage, StoreError> {
        let mut counted = CountPage::default();
        let mut seen = 0;
        self.scan_prefix(&*self.begin_read()?, prefix, after, |key, value| {
            seen += 1;
            counted.live += u64::from(!record::is_tombstone(value));
            if seen >= limit {
                counted.next = NameKey::new(&Self::decode_header(key, value)?.name).ok();
            }
            Ok(seen < limit)
        })?;
        Ok(counted)
    }

    pub(crate) fn names_at_revision(
        &self,
        revision: u64,
        after: Option<&NameKey>,
        limit: usize,
    ) -> Result<NamePage, StoreError> {
        let txn = self.begin_read()?;
        let failed = |error| backend_error("reading records", error);
        let after = after.map(|key| name_key::storage_key(key).into_owned());
        let from = after.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let records = self.databases.records.range(&txn, &(from, Bound::Unbounded)).map_err(failed)?;
        let mut page = NamePage::default();
        for (number, record) in (1..=MAX_SCANNED_RECORDS).zip(records) {
            let (key, value) = record.map_err(failed)?;
            // Decodes the name only if needed: few records match.
            let there = record::decode_revision(checksum::verify_and_strip(key, value, "record")?);
            let unknown = || checksum::corrupt(key, "record", "its layout is not known");
            let is_match = there.ok_or_else(unknown)? == revision;
            if !is_match && number < MAX_SCANNED_RECORDS {
                continue;
            }
            let head = Self::decode_header(key, value)?;
            let is_full = is_match && page.names.len() + 1 >= limit;
            if is_full || number == MAX_SCANNED_RECORDS {
                page.next = NameKey::new(&head.name).ok();
            }
            if is_match {
                page.names.push(NameEntry { name: head.name, state: head.state });
            }
            if is_full {
                break;
            }
        }
        Ok(page)
    }

    pub(crate) fn is_homed(&self, prefix: &[u8]) -> Result<bool, StoreError> {
        if prefix.is_empty() || prefix.len() > NameKey::MAX_PREFIX_LEN {
            return Ok(false);
        }
        self.contains_homed(&*self.begin_read()?, &prefix.to_ascii_uppercase())
    }

    /// Whether an upper-case prefix of valid length is homed.
    pub(crate) fn contains_homed(&self, txn: &RoTxn<'_>, folded: &[u8]) -> Result<bool, StoreError> {
        let found = self
            .databases
            .homed
            .get(txn, folded)
            .map_err(|error| backend_error("reading a prefix", error))?;
        found.map_or(Ok(false), |value| checksum::verify_and_strip(folded, value, "prefix").map(|_| true))
    }

    pub(crate) fn list_homed(&self, after: Option<&[u8]>, limit: usize) -> Result<Vec<Box<str>>, StoreError> {
        let txn = self.begin_read()?;
        let failed = |error| backend_error("listing prefixes", error);
        let mut after = after.unwrap_or_default().to_ascii_uppercase();
        // No homed prefix is longer, so none is skipped.
        after.truncate(NameKey::MAX_PREFIX_LEN + 1);
        let from = if after.is_empty() { Bound::Unbounded } else { Bound::Excluded(&after[..]) };
        let range = (from, Bound::Unbounded);
        let mut homed = Vec::new();
        for entry in self.databases.homed.range(&txn, &range).map_err(failed)?.take(limit) {
            let (key, value) = entry.map_err(failed)?;
            checksum::verify_and_strip(key, value, "prefix")?;
            homed.push(String::from_utf8_lossy(key).into());
        }
        Ok(homed)
    }

    pub(crate) fn get_aux(&self, txn: &RoTxn<'_>, key: &[u8]) -> Result<Option<Box<[u8]>>, StoreError> {
        let Some(notes) = self.databases.aux.filter(|_| NameKey::is_valid_key(key)) else {
            return Ok(None);
        };
        let found = notes.get(txn, key).map_err(|error| backend_error("reading a note", error))?;
        found.map(|value| checksum::verify_and_strip(key, value, "note").map(Into::into)).transpose()
    }

    pub(crate) fn list_aux(
        &self,
        key_prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<Note>, StoreError> {
        let Some(database) = self.databases.aux else { return Ok(Vec::new()) };
        let failed = |error| backend_error("reading notes", error);
        let from = match after {
            Some(after) if after >= key_prefix && !after.is_empty() => Bound::Excluded(after),
            _ if key_prefix.is_empty() => Bound::Unbounded,
            _ => Bound::Included(key_prefix),
        };
        let (txn, mut notes) = (self.begin_read()?, Vec::new());
        for note in database.range(&txn, &(from, Bound::Unbounded)).map_err(failed)?.take(limit) {
            let (key, value) = note.map_err(failed)?;
            if !key.starts_with(key_prefix) {
                break;
            }
            notes.push((key.into(), checksum::verify_and_strip(key, value, "note")?.into()));
        }
        Ok(notes)
    }

    pub(crate) fn read_log(&self, after: u64, limit: usize) -> Result<Vec<LogEntry>, StoreError> {
        let txn = self.begin_read()?;
        let failed = |error| backend_error("reading the log", error);
        let after = after.to_be_bytes();
        let range = (Bound::Excluded(&after[..]), Bound::Unbounded);
        let mut lines = Vec::new();
        for entry in self.databases.log.range(&txn, &range).map_err(failed)?.take(limit) {
            let (key, value) = entry.map_err(failed)?;
            lines.push(Self::decode_log_entry(key, value)?);
        }
        Ok(lines)
    }
}

/// Decodes a record whose checksum has been stripped; `part` looks up dictionary entries.
fn decode_disk_record<'p>(
    record_key: &[u8],
    body: &[u8],
    part: impl Fn(u32) -> Result<Option<&'p [u8]>, StoreError>,
) -> Result<DiskRecord, StoreError> {
    let mut problem = None;
    let record = record::decode(record_key, body, |number| {
        part(number).unwrap_or_else(|error| {
            problem = Some(error);
            None
        })
    });
    record.ok_or_else(|| {
        problem.unwrap_or_else(|| checksum::corrupt(record_key, "record", "its layout is not known"))
    })
}
