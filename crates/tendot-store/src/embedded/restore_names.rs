//! Restores names with corrupt records from a backup, in place.

use std::fs::File;
use std::io::Seek as _;
use std::ops::Bound;
use std::path::Path;

use heed::RwTxn;

use super::backup::BackupFile;
use super::format::checksum;
use super::format::dictionary::ITEM;
use super::lmdb::page_check::PageFile;
use super::read::{RawEntry, entries_from};
use super::restore::{RESTORE_DIR, prepare_restored_store};
use super::{EmbeddedStore, Lmdb, OpenError, RestoreError, backend_error, history};
use crate::model::name_key::storage_key;
use crate::{NameKey, StoreError, durable_dir};

/// Result of restoring names.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct RestoredNames {
    /// Names whose records were restored.
    pub restored: Vec<Box<str>>,
    /// Names whose records are not corrupt; skipped.
    pub undamaged: Vec<Box<str>>,
    /// Names that were changed after the backup, so it does not have their last state.
    pub changed: Vec<Box<str>>,
    /// Names that the backup does not have.
    pub missing: Vec<Box<str>>,
    /// Number of entries removed because their keys were corrupt, so that they belong to no name or number.
    pub removed_entries: u64,
}

/// Restores names with corrupt records from a backup of the same store: those given, or all. Only unreadable records that were not
/// changed since the backup are restored, byte for byte; with `dry_run`, nothing is written.
pub fn restore_names(
    file: &mut File,
    directory: &Path,
    names: Option<&[NameKey]>,
    dry_run: bool,
) -> Result<RestoredNames, RestoreError> {
    let io_error = |error| RestoreError::Io { path: directory.into(), error };
    file.rewind().map_err(RestoreError::Read)?;
    let backup = BackupFile::open(file)?;
    if !directory.join("data.mdb").try_exists().map_err(io_error)? {
        return Err(
            OpenError::NotFound { directory: directory.into(), is_missing: !directory.exists() }.into()
        );
    }
    let (lmdb, _lock) = Lmdb::open(directory)?;
    let checked = PageFile::with_last_state(&lmdb.env, PageFile::check_all);
    let checked = checked.map_err(|error| backend_error("starting a read transaction", error))?;
    checked.map_err(|detail| RestoreError::PagesDamaged { detail })?;
    // Left over after an interruption; the next open for writing removes it.
    let restoring = directory.join(RESTORE_DIR);
    durable_dir::recreate_private_dir(&restoring).map_err(io_error)?;
    let restored = prepare_restored_store(backup, &restoring).and_then(|()| {
        let backup = EmbeddedStore::open_read_only(&restoring)?;
        let restore = NameRestore { lmdb: &lmdb, backup: &backup.lmdb, dry_run };
        restore.run(names)
    });
    durable_dir::remove_dir(&restoring).map_err(io_error)?;
    restored
}

/// Restore in progress.
struct NameRestore<'a> {
    lmdb: &'a Lmdb,
    backup: &'a Lmdb,
    dry_run: bool,
}

impl NameRestore<'_> {
    fn run(&self, names: Option<&[NameKey]>) -> Result<RestoredNames, RestoreError> {
        let write_error = |error| backend_error("restoring names", error);
        self.check_origin()?;
        let mut txn = self.lmdb.env.write_txn().map_err(write_error)?;
        let mut result = RestoredNames::default();
        self.restore_dictionary(&mut txn, &mut result)?;
        let found;
        let names = match names {
            Some(names) => names,
            None => {
                found = self.find_damaged(&mut txn, &mut result)?;
                &found
            }
        };
        for name in names {
            self.restore_name(&mut txn, name, &mut result)?;
        }
        if !self.dry_run {
            self.lmdb.commit(txn).map_err(write_error)?;
            self.lmdb.commit_both_states().map_err(write_error)?;
        }
        Ok(result)
    }

    /// Checks that the backup is an earlier state of the store: records refer to entries of other databases by number.
    fn check_origin(&self) -> Result<(), RestoreError> {
        let (txn, backup_txn) = (self.lmdb.begin_read()?, self.backup.begin_read()?);
        let name = NameKey::new("origin").map_err(|_| RestoreError::OtherStore)?;
        let hash = |lmdb: &Lmdb, txn| Ok::<_, StoreError>(lmdb.name_hasher(txn)?.name(name.as_bytes()));
        let head = self.backup.read_head(&backup_txn)?;
        let is_same = hash(self.lmdb, &txn)? == hash(self.backup, &backup_txn)?
            && match self.lmdb.log_entry(&txn, head.sequence) {
                Ok(Some(entry)) => entry.link.hash() == head.log_hash,
                Ok(None) => head.sequence == 0,
                Err(_) => true,
            };
        if is_same { Ok(()) } else { Err(RestoreError::OtherStore) }
    }

    /// Restores corrupt dictionary entries, which never change, and removes those whose keys were damaged.
    fn restore_dictionary(&self, txn: &mut RwTxn<'_>, result: &mut RestoredNames) -> Result<(), StoreError> {
        let write_error = |error| backend_error("restoring the dictionary", error);
        let (database, backup_txn) = (self.lmdb.databases.dictionary, self.backup.begin_read()?);
        let (mut restored, mut damaged_keys) = (Vec::new(), Vec::new());
        for entry in self.raw_entries(&backup_txn, false)? {
            let (key, value) = entry?;
            let id = key.try_into().map(u32::from_be_bytes).unwrap_or(u32::MAX);
            if !matches!(self.lmdb.dictionary_entry(txn, id), Ok(Some(_))) {
                database.put(txn, key, value).map_err(write_error)?;
                restored.push(value);
            }
        }
        for entry in entries_from(database, txn, Bound::Unbounded, "reading the dictionary")? {
            let (key, value) = entry?;
            // Other damaged entries stay: without them, their numbers would be given to new entries.
            if checksum::verify_and_strip(key, value, ITEM).is_err() && restored.contains(&value) {
                damaged_keys.push(key.to_vec());
            }
        }
        for key in &damaged_keys {
            database.delete(txn, key).map_err(write_error)?;
        }
        result.removed_entries += damaged_keys.len() as u64;
        Ok(())
    }

    /// Entries of the backup: records or dictionary entries.
    fn raw_entries<'t>(
        &self,
        txn: &'t heed::RoTxn<'_>,
        of_records: bool,
    ) -> Result<impl Iterator<Item = Result<RawEntry<'t>, StoreError>> + use<'t>, StoreError> {
        let databases = self.backup.databases;
        let database = if of_records { databases.records } else { databases.dictionary };
        entries_from(database, txn, Bound::Unbounded, "reading the backup")
    }

    /// Finds all names with corrupt records, of store and backup; removes entries with corrupt keys.
    fn find_damaged(
        &self,
        txn: &mut RwTxn<'_>,
        result: &mut RestoredNames,
    ) -> Result<Vec<NameKey>, StoreError> {
        let (mut names, mut damaged_keys) = (Vec::new(), Vec::new());
        let backup_txn = self.backup.begin_read()?;
        for entry in entries_from(self.lmdb.databases.records, txn, Bound::Unbounded, "reading records")? {
            let (key, value) = entry?;
            if self.lmdb.decode_record(txn, key, value).is_ok() {
                continue;
            }
            let in_backup = self.backup.databases.records.get(&backup_txn, key);
            let in_backup = in_backup.map_err(|error| backend_error("reading the backup", error))?;
            let is_key_valid = in_backup.is_some()
                // What cannot be confirmed is not removed.
                || self.lmdb.has_damaged_hash_block(txn, key)
                || self.lmdb.has_name_hash(txn, self.lmdb.name_hasher(txn)?.name(key))?;
            match str::from_utf8(key).ok().and_then(|name| NameKey::new(name).ok()) {
                Some(name) if is_key_valid => names.push(name),
                // Keys of long names are truncated; the full name is in the backup.
                _ if is_key_valid => {}
                _ => damaged_keys.push(key.to_vec()),
            }
        }
        for key in &damaged_keys {
            let deleted = self.lmdb.databases.records.delete(txn, key);
            deleted.map_err(|error| backend_error("removing a corrupt entry", error))?;
        }
        result.removed_entries += damaged_keys.len() as u64;
        for entry in self.raw_entries(&backup_txn, true)? {
            let (key, value) = entry?;
            let name = NameKey::new(&Lmdb::decode_header(key, value)?.name);
            let Ok(name) = name else { continue };
            if matches!(self.read(txn, &name), Err(StoreError::Corrupt { .. })) {
                names.push(name);
            }
        }
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }

    /// Reads a record with its registration inside the write transaction; whether there is one.
    fn read(&self, txn: &RwTxn<'_>, name: &NameKey) -> Result<bool, StoreError> {
        let record = self.lmdb.get_disk_record_in_write(txn, name)?;
        let record = record.map(|record| self.lmdb.with_registration(txn, record)).transpose()?;
        Ok(record.is_some())
    }

    fn restore_name(
        &self,
        txn: &mut RwTxn<'_>,
        name: &NameKey,
        result: &mut RestoredNames,
    ) -> Result<(), StoreError> {
        let shown = || Box::from(name.to_string());
        match self.read(txn, name) {
            Ok(true) => {
                result.undamaged.push(shown());
                return Ok(());
            }
            Ok(false) => {
                result.missing.push(shown());
                return Ok(());
            }
            Err(StoreError::Corrupt { .. }) => {}
            Err(error) => return Err(error),
        }
        let backup_txn = self.backup.begin_read()?;
        let Some(record) = self.backup.get_disk_record(&backup_txn, name)? else {
            result.missing.push(shown());
            return Ok(());
        };
        let since = self.backup.read_head(&backup_txn)?.sequence;
        match history::NameHistory::new(self.lmdb, txn, name).has_entry_after(since) {
            Ok(false) => {}
            // A damaged entry is a change, too.
            Ok(true) | Err(StoreError::Corrupt { .. }) => {
                result.changed.push(shown());
                return Ok(());
            }
            Err(error) => return Err(error),
        }
        self.copy_record(txn, &backup_txn, name, record.registration)
            .map_err(|error| backend_error("restoring a name", error))?;
        result.restored.push(record.record.name);
        Ok(())
    }

    /// Copies the stored bytes of a record and of its registration, and adds the hash of the name if it is missing.
    fn copy_record(
        &self,
        txn: &mut RwTxn<'_>,
        backup_txn: &heed::RoTxn<'_>,
        name: &NameKey,
        registration: Option<u64>,
    ) -> Result<(), heed::Error> {
        let (databases, from) = (self.lmdb.databases, self.backup.databases);
        let key = storage_key(name);
        if let Some(value) = from.records.get(backup_txn, &key)? {
            databases.records.put(txn, &key, value)?;
        }
        if let Some(number) = registration.map(u64::to_be_bytes)
            && let Some(value) = from.registrations.get(backup_txn, &number)?
            && databases.registrations.get(txn, &number)? != Some(value)
        {
            databases.registrations.put(txn, &number, value)?;
        }
        let hash = self.lmdb.loaded_hasher(txn)?.name(&key);
        if !self.lmdb.has_name_hash(txn, hash).unwrap_or(true) {
            self.lmdb.insert_name_hashes(txn, &[hash])?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use pollster::block_on;
    use tempfile::TempDir;
    use tendot_proto::HandleValue;
    use tendot_testing::ram_dir;

    use super::*;
    use crate::embedded::lmdb::environment::BytesDatabase;
    use crate::{ChangeSet, Edit, Precondition, Store as _};

    const NAMES: u64 = 40;

    fn name(number: u64) -> NameKey {
        NameKey::new(&format!("10.1/Name-{number}")).unwrap()
    }

    fn put(store: &EmbeddedStore, number: u64, data: &str) {
        let values = vec![HandleValue::new(1, "URL", format!("https://example.org/{data}/{number}"))];
        let name = format!("10.1/Name-{number}").into();
        let edits = vec![Edit::Put { name, values, precondition: Precondition::NotTombstone }];
        let change = ChangeSet { author: "test".into(), timestamp_ms: 1, edits };
        block_on(store.commit(change)).unwrap();
    }

    /// A store with a backup, changed by `change` and damaged by `damage`.
    fn damaged_store(
        change: impl FnOnce(&EmbeddedStore),
        damage: impl FnOnce(&Lmdb, &mut RwTxn<'_>),
    ) -> (TempDir, File) {
        let (directory, mut backup) = (ram_dir(), tempfile::tempfile().unwrap());
        let store = EmbeddedStore::open(directory.path()).unwrap();
        (0..NAMES).for_each(|number| put(&store, number, "old"));
        store.backup(&mut backup).unwrap();
        change(&store);
        let mut txn = store.lmdb.env.write_txn().unwrap();
        damage(&store.lmdb, &mut txn);
        store.lmdb.commit(txn).unwrap();
        drop(store);
        (directory, backup)
    }

    fn flip_last_byte(database: BytesDatabase, txn: &mut RwTxn<'_>, key: &[u8]) {
        let mut value = database.get(txn, key).unwrap().unwrap().to_vec();
        *value.last_mut().unwrap() ^= 1;
        database.put(txn, key, &value).unwrap();
    }

    fn damage_record(lmdb: &Lmdb, txn: &mut RwTxn<'_>, number: u64) {
        flip_last_byte(lmdb.databases.records, txn, &storage_key(&name(number)));
    }

    fn restore_all(directory: &TempDir, backup: &mut File) -> RestoredNames {
        restore_names(backup, directory.path(), None, false).unwrap()
    }

    fn count(directory: &TempDir) -> u64 {
        let store = EmbeddedStore::open(directory.path()).unwrap();
        assert_eq!(store.verify(|_| {}).unwrap().errors, [""; 0]);
        store.count().unwrap()
    }

    /// A damaged record that the backup has is never removed, not even if hashes are missing or damaged.
    #[test]
    fn records_of_the_backup_are_not_removed() {
        for is_cleared in [true, false] {
            let (directory, mut backup) = damaged_store(
                |_| {},
                |lmdb, txn| {
                    damage_record(lmdb, txn, 7);
                    let hashes = lmdb.databases.name_hashes;
                    let keys = hashes.iter(txn).unwrap().map(|entry| entry.unwrap().0.to_vec());
                    for key in keys.collect::<Vec<_>>() {
                        match is_cleared {
                            true => drop(hashes.delete(txn, &key).unwrap()),
                            false => hashes.put(txn, &key, b"damaged").unwrap(),
                        }
                    }
                },
            );
            let result = restore_all(&directory, &mut backup);
            assert_eq!((&*result.restored, result.removed_entries), (&["10.1/Name-7".into()][..], 0));
            EmbeddedStore::open(directory.path()).unwrap().rebuild_name_hashes().unwrap();
            assert_eq!(count(&directory), NAMES);
        }
    }

    /// A damaged name that was changed after the backup, and whose history is damaged, too, does not prevent that others are restored.
    #[test]
    fn damaged_history_is_a_change() {
        let (directory, mut backup) = damaged_store(
            |store| put(store, 3, "new"),
            |lmdb, txn| {
                damage_record(lmdb, txn, 3);
                damage_record(lmdb, txn, 4);
                let last = lmdb.databases.history.last(txn).unwrap().unwrap().0.to_vec();
                flip_last_byte(lmdb.databases.history, txn, &last);
            },
        );
        let result = restore_all(&directory, &mut backup);
        assert_eq!(
            (result.changed, result.restored),
            (vec!["10.1/NAME-3".into()], vec!["10.1/Name-4".into()])
        );
    }

    /// A dictionary entry whose key was damaged is restored, and the damaged one is removed.
    #[test]
    fn damaged_dictionary_keys_are_restored() {
        let (directory, mut backup) = damaged_store(
            |_| {},
            |lmdb, txn| {
                let dictionary = lmdb.databases.dictionary;
                let (key, value) = dictionary.last(txn).unwrap().unwrap();
                let (key, value) = (key.to_vec(), value.to_vec());
                dictionary.delete(txn, &key).unwrap();
                dictionary.put(txn, &[0, 0, 1, key[3]], &value).unwrap();
            },
        );
        EmbeddedStore::open(directory.path()).unwrap_err();
        let result = restore_all(&directory, &mut backup);
        assert_eq!(result, RestoredNames { removed_entries: 1, ..RestoredNames::default() });
        assert_eq!(count(&directory), NAMES);
    }
}
