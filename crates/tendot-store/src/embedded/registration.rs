//! What the registry knows of names: see `docs/storage-format.md`.
//!
//! Each stands under the number of the line of the log that brought it, and stays: records refer to it, and so does their
//! history. That is not beside the record because deposits come in any order: so they change few pages, and small ones.

use heed::{PutFlags, RoTxn, RwTxn};

use super::format::checksum;
use super::format::record::DiskRecord;
use super::{Lmdb, backend_error};
use crate::{StoreError, StoredRecord};

pub(crate) const ITEM: &str = "registration";

/// Appends one.
pub(crate) fn append(
    tables: &Lmdb,
    txn: &mut RwTxn<'_>,
    number: u64,
    registration: &[u8],
) -> Result<(), heed::Error> {
    // Only stores that are opened for reading can be without.
    let Some(registrations) = tables.databases.registrations else { return Ok(()) };
    let key = number.to_be_bytes();
    let mut value = Vec::with_capacity(registration.len() + 4);
    value.extend_from_slice(registration);
    checksum::append(&key, &mut value);
    registrations.put_with_flags(txn, PutFlags::APPEND, &key, &value)
}

impl Lmdb {
    /// A record with its registration.
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
