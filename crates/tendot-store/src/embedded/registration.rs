//! Registrations by log sequence number: see `docs/background/storage-format.md`.
//!
//! A registration is stored under the sequence number of the log entry that introduced it and is never removed: records and
//! history entries refer to it. It is separate from the record because deposits arrive in random key order: so few and small
//! pages change.

use heed::{PutFlags, RoTxn, RwTxn};

use super::format::checksum;
use super::format::record::DiskRecord;
use super::{Lmdb, backend_error};
use crate::{StoreError, StoredRecord};

pub(crate) const ITEM: &str = "registration";

/// Appends a registration.
pub(crate) fn append(
    lmdb: &Lmdb,
    txn: &mut RwTxn<'_>,
    number: u64,
    registration: &[u8],
) -> Result<(), heed::Error> {
    // Only read-only stores of earlier versions lack it.
    let Some(registrations) = lmdb.databases.registrations else { return Ok(()) };
    let key = number.to_be_bytes();
    let mut value = Vec::with_capacity(registration.len() + 4);
    value.extend_from_slice(registration);
    checksum::append(&key, &mut value);
    registrations.put_with_flags(txn, PutFlags::APPEND, &key, &value)
}

impl Lmdb {
    /// Adds the registration to a record.
    pub(crate) fn with_registration(
        &self,
        txn: &RoTxn<'_>,
        record: DiskRecord,
    ) -> Result<StoredRecord, StoreError> {
        let DiskRecord { mut entry, registration } = record;
        if let Some(number) = registration {
            let key = number.to_be_bytes();
            let registrations = self.databases.registrations;
            let found = registrations.map(|registrations| registrations.get(txn, &key)).transpose();
            let found = found.map_err(|error| backend_error("reading a registration", error))?.flatten();
            let value = found.ok_or_else(|| checksum::corrupt(&key, ITEM, "it is missing"))?;
            entry.registration = checksum::verify_and_strip(&key, value, ITEM)?.into();
        }
        Ok(entry)
    }
}
