//! Writes of single entries, shared by writer, import and migration.

use heed::RwTxn;

use super::Lmdb;
use super::format::checksum;
use crate::NameKey;

impl Lmdb {
    /// Homes a prefix, or ends its homing.
    pub(crate) fn write_homed(
        &self,
        txn: &mut RwTxn<'_>,
        prefix: &NameKey,
        is_homed: bool,
    ) -> Result<(), heed::Error> {
        let key = prefix.as_bytes();
        let hash = self.loaded_hasher(txn)?.homed(key);
        if !is_homed {
            if self.databases.homed.delete(txn, key)? {
                self.remove_name_hash(txn, hash)?;
            }
            return Ok(());
        }
        if self.databases.homed.get(txn, key)?.is_none() {
            self.insert_name_hashes(txn, &[hash])?;
        }
        let mut value = Vec::new();
        checksum::append(key, &mut value);
        self.databases.homed.put(txn, key, &value)
    }

    /// Writes an aux entry; without a value it is removed.
    pub(crate) fn write_aux(
        &self,
        txn: &mut RwTxn<'_>,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), heed::Error> {
        let Some(value) = value else { return self.databases.aux.delete(txn, key).map(drop) };
        self.databases.aux.put(txn, key, &checksum::with_checksum(key, value))
    }
}
