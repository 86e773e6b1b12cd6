//! Reads of records, names, prefixes, aux entries and the log.

use std::ops::Bound;

use heed::{RoTxn, RwTxn};

use super::format::record::{self, DiskRecord, RecordHeader};
use super::format::{checksum, dictionary};
use super::lmdb::environment::BytesDatabase;
use super::{Lmdb, backend_error};
use crate::model::name_key;
use crate::{AuxEntry, CountPage, LogEntry, NameEntry, NameKey, NamePage, StoreError, StoredRecord};

/// Maximum number of records scanned per call for those of a revision: some milliseconds.
pub(crate) const MAX_SCANNED_RECORDS: usize = 10_000;

/// Names of records, homed prefixes and aux entries in error messages.
pub(crate) const RECORD_ITEM: &str = "record";
pub(crate) const HOMED_ITEM: &str = "homed prefix";
pub(crate) const AUX_ITEM: &str = "aux entry";

/// Key and value of an LMDB entry.
pub(crate) type RawEntry<'t> = (&'t [u8], &'t [u8]);

impl Lmdb {
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
        for record in self.records_after(&txn, after)? {
            let (key, value) = record?;
            if !visit(self.decode_record(&txn, key, value)?) {
                break;
            }
        }
        Ok(())
    }

    /// Raw records after a key, or all.
    fn records_after<'t>(
        &self,
        txn: &'t RoTxn<'_>,
        after: Option<&NameKey>,
    ) -> Result<impl Iterator<Item = Result<RawEntry<'t>, StoreError>>, StoreError> {
        let after = after.map(name_key::storage_key);
        let from = after.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        entries_from(self.databases.records, txn, from, "reading records")
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
        self.find_disk_record(txn, key, |id| {
            self.dictionary.get_or_load(id, || self.load_dictionary_entry(txn, id))
        })
    }

    /// Reads a record inside a write transaction. Bypasses the dictionary cache, because uncommitted entries may be rolled back.
    pub(crate) fn get_disk_record_in_write(
        &self,
        txn: &RwTxn<'_>,
        key: &NameKey,
    ) -> Result<Option<DiskRecord>, StoreError> {
        self.find_disk_record(txn, key, |id| self.dictionary_entry(txn, id))
    }

    pub(crate) fn find_disk_record<'p>(
        &self,
        txn: &RoTxn<'_>,
        key: &NameKey,
        lookup: impl Fn(u32) -> Result<Option<&'p [u8]>, StoreError>,
    ) -> Result<Option<DiskRecord>, StoreError> {
        let storage_key = name_key::storage_key(key);
        let found = self.databases.records.get(txn, &storage_key);
        let Some(value) = found.map_err(|error| backend_error("reading a record", error))? else {
            return self.confirm_no_record(txn, &storage_key).map(|()| None);
        };
        let body = checksum::verify_and_strip(&storage_key, value, RECORD_ITEM)?;
        let disk_record = decode_disk_record(&storage_key, body, lookup)?;
        Ok(is_name_of(key, &storage_key, &disk_record.record.name).then_some(disk_record))
    }

    pub(crate) fn decode_record(
        &self,
        txn: &RoTxn<'_>,
        storage_key: &[u8],
        value: &[u8],
    ) -> Result<StoredRecord, StoreError> {
        self.decode_record_body(
            txn,
            storage_key,
            checksum::verify_and_strip(storage_key, value, RECORD_ITEM)?,
        )
    }

    /// Decodes a record whose checksum has been stripped.
    pub(crate) fn decode_record_body(
        &self,
        txn: &RoTxn<'_>,
        storage_key: &[u8],
        body: &[u8],
    ) -> Result<StoredRecord, StoreError> {
        let lookup = |id| self.dictionary.get_or_load(id, || self.load_dictionary_entry(txn, id));
        self.with_registration(txn, decode_disk_record(storage_key, body, lookup)?)
    }

    pub(crate) fn load_dictionary_entry(
        &self,
        txn: &RoTxn<'_>,
        id: u32,
    ) -> Result<Option<Box<[u8]>>, StoreError> {
        Ok(self.dictionary_entry(txn, id)?.map(Into::into))
    }

    pub(crate) fn dictionary_entry<'t>(
        &self,
        txn: &'t RoTxn<'_>,
        id: u32,
    ) -> Result<Option<&'t [u8]>, StoreError> {
        let key = id.to_be_bytes();
        let entry = self
            .databases
            .dictionary
            .get(txn, &key)
            .map_err(|error| backend_error("reading the dictionary", error))?;
        entry.map(|entry| checksum::verify_and_strip(&key, entry, dictionary::ITEM)).transpose()
    }

    /// Reads the header of a record without decoding its values.
    pub(crate) fn record_header(
        &self,
        txn: &RoTxn<'_>,
        key: &NameKey,
    ) -> Result<Option<RecordHeader>, StoreError> {
        let storage_key = name_key::storage_key(key);
        let value = self.databases.records.get(txn, &storage_key);
        let value = value.map_err(|error| backend_error("reading a record", error))?;
        let Some(value) = value else { return self.confirm_no_record(txn, &storage_key).map(|()| None) };
        let header = Some(Self::decode_header(&storage_key, value)?);
        Ok(header.filter(|header| is_name_of(key, &storage_key, &header.name)))
    }

    pub(crate) fn decode_header(storage_key: &[u8], value: &[u8]) -> Result<RecordHeader, StoreError> {
        let body = checksum::verify_and_strip(storage_key, value, RECORD_ITEM)?;
        let header = RecordHeader::decode(storage_key, body).map(|(header, _)| header);
        header.ok_or_else(|| checksum::corrupt(storage_key, RECORD_ITEM, "unknown layout"))
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
        let read_error = |error| backend_error("listing names", error);
        let records = self.databases.records;
        let folded = prefix.to_ascii_uppercase();
        // The name that equals the prefix sorts before all names with a slash, but not directly before them.
        if after.is_none()
            && !folded.is_empty()
            && let Some(value) = records.get(txn, &folded).map_err(read_error)?
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
        for record in entries_from(records, txn, from, "listing names")? {
            let (key, value) = record?;
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
        let mut names = Vec::new();
        if limit > 0 {
            self.scan_prefix(&*self.begin_read()?, prefix, after, |key, value| {
                let header = Self::decode_header(key, value)?;
                names.push(NameEntry { name: header.name, status: header.status });
                Ok(names.len() < limit)
            })?;
        }
        Ok(names)
    }

    pub(crate) fn seek_names(
        &self,
        prefix: &[u8],
        starts: &[Vec<u8>],
    ) -> Result<Vec<Option<NameEntry>>, StoreError> {
        if prefix.len() > NameKey::MAX_PREFIX_LEN {
            return Ok(vec![None; starts.len()]);
        }
        let begin = [&prefix.to_ascii_uppercase()[..], b"/"].concat();
        let txn = self.begin_read()?;
        let seek = |start: &Vec<u8>| {
            let from = Bound::Included(&start.max(&begin)[..]);
            let first =
                entries_from(self.databases.records, &txn, from, "listing names")?.next().transpose()?;
            let Some((key, value)) = first.filter(|(key, _)| key.starts_with(&begin)) else {
                return Ok(None);
            };
            // The checksum covers the whole record, which may be large: many seeks would read megabytes.
            let header = RecordHeader::decode(key, value).map(|(header, _)| header);
            let header = header.ok_or_else(|| checksum::corrupt(key, RECORD_ITEM, "unknown layout"))?;
            Ok(Some(NameEntry { name: header.name, status: header.status }))
        };
        starts.iter().map(seek).collect()
    }

    /// Reads only the first byte of each record, and the name of the last one.
    pub(crate) fn count_names(
        &self,
        prefix: &[u8],
        after: Option<&NameKey>,
        limit: usize,
    ) -> Result<CountPage, StoreError> {
        let mut page = CountPage::default();
        let mut count = 0;
        self.scan_prefix(&*self.begin_read()?, prefix, after, |key, value| {
            count += 1;
            page.live += u64::from(!record::is_tombstone(value));
            if count >= limit {
                page.next = NameKey::new(&Self::decode_header(key, value)?.name).ok();
            }
            Ok(count < limit)
        })?;
        Ok(page)
    }

    pub(crate) fn names_at_revision(
        &self,
        revision: u64,
        after: Option<&NameKey>,
        limit: usize,
    ) -> Result<NamePage, StoreError> {
        let txn = self.begin_read()?;
        let mut page = NamePage::default();
        for (number, record) in (1..=MAX_SCANNED_RECORDS).zip(self.records_after(&txn, after)?) {
            let (key, value) = record?;
            // Decodes the name only if needed: few records match.
            let current = record::decode_revision(checksum::verify_and_strip(key, value, RECORD_ITEM)?);
            let unknown = || checksum::corrupt(key, RECORD_ITEM, "unknown layout");
            let is_match = current.ok_or_else(unknown)? == revision;
            if !is_match && number < MAX_SCANNED_RECORDS {
                continue;
            }
            let header = Self::decode_header(key, value)?;
            let is_full = is_match && page.names.len() + 1 >= limit;
            if is_full || number == MAX_SCANNED_RECORDS {
                page.next = NameKey::new(&header.name).ok();
            }
            if is_match {
                page.names.push(NameEntry { name: header.name, status: header.status });
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
            .map_err(|error| backend_error("reading a homed prefix", error))?;
        match found {
            Some(value) => checksum::verify_and_strip(folded, value, HOMED_ITEM).map(|_| true),
            None => self.confirm_not_homed(txn, folded).map(|()| false),
        }
    }

    pub(crate) fn list_homed(&self, after: Option<&[u8]>, limit: usize) -> Result<Vec<Box<str>>, StoreError> {
        let txn = self.begin_read()?;
        let mut after = after.unwrap_or_default().to_ascii_uppercase();
        // No homed prefix is longer, so none is skipped.
        after.truncate(NameKey::MAX_PREFIX_LEN + 1);
        let from = if after.is_empty() { Bound::Unbounded } else { Bound::Excluded(&after[..]) };
        let mut homed = Vec::new();
        for entry in entries_from(self.databases.homed, &txn, from, "listing homed prefixes")?.take(limit) {
            let (key, value) = entry?;
            checksum::verify_and_strip(key, value, HOMED_ITEM)?;
            homed.push(String::from_utf8_lossy(key).into());
        }
        Ok(homed)
    }

    /// Reads an aux entry that is not buffered.
    pub(crate) fn merged_aux<'t>(
        &self,
        txn: &'t RoTxn<'_>,
        key: &[u8],
    ) -> Result<Option<&'t [u8]>, StoreError> {
        if !AuxEntry::is_valid_key(key) {
            return Ok(None);
        }
        let found = self.databases.aux.get(txn, key);
        let found = found.map_err(|error| backend_error("reading an aux entry", error))?;
        found.map(|value| checksum::verify_and_strip(key, value, AUX_ITEM)).transpose()
    }

    pub(crate) fn read_log(&self, after: u64, limit: usize) -> Result<Vec<LogEntry>, StoreError> {
        let txn = self.begin_read()?;
        let (after, mut log_entries) = (after.to_be_bytes(), Vec::new());
        let from = Bound::Excluded(&after[..]);
        for entry in entries_from(self.databases.log, &txn, from, "reading the change log")?.take(limit) {
            let (key, value) = entry?;
            log_entries.push(Self::decode_log_entry(key, value)?);
        }
        Ok(log_entries)
    }
}

/// Entries of a database from a key on, in key order.
pub(crate) fn entries_from<'t>(
    database: BytesDatabase,
    txn: &'t RoTxn<'_>,
    from: Bound<&[u8]>,
    operation: &'static str,
) -> Result<impl Iterator<Item = Result<RawEntry<'t>, StoreError>> + use<'t>, StoreError> {
    let read_error = move |error| backend_error(operation, error);
    let entries = database.range(txn, &(from, Bound::Unbounded)).map_err(read_error)?;
    Ok(entries.map(move |entry| entry.map_err(read_error)))
}

/// Whether a stored name is the requested one: two long names could have the same storage key; only one of them is stored.
fn is_name_of(key: &NameKey, storage_key: &[u8], name: &str) -> bool {
    !name_key::is_hashed_key(storage_key) || name.as_bytes().eq_ignore_ascii_case(key.as_bytes())
}

/// Decodes a record whose checksum has been stripped; `lookup` returns dictionary entries by id.
pub(crate) fn decode_disk_record<'p>(
    storage_key: &[u8],
    body: &[u8],
    lookup: impl Fn(u32) -> Result<Option<&'p [u8]>, StoreError>,
) -> Result<DiskRecord, StoreError> {
    let mut lookup_error = None;
    let record = record::decode(storage_key, body, |id| {
        lookup(id).unwrap_or_else(|error| {
            // LMDB ends a transaction that has read a corrupt page, so later errors are less specific.
            lookup_error.get_or_insert(error);
            None
        })
    });
    record.ok_or_else(|| {
        lookup_error.unwrap_or_else(|| checksum::corrupt(storage_key, RECORD_ITEM, "unknown layout"))
    })
}
