//! Registrations by log sequence number: see `docs/background/storage-format.md`.
//!
//! Registrations are stored under the sequence number of the log entry that introduced them and never change, except by a
//! redaction; records and
//! history entries refer to that number. They are not stored in the record because registrations arrive in any key order:
//! appending keeps record pages small and few.

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
    sequence: u64,
    registration: &[u8],
) -> Result<(), heed::Error> {
    let key = sequence.to_be_bytes();
    let value = checksum::with_checksum(&key, registration);
    lmdb.databases.registrations.put_with_flags(txn, PutFlags::APPEND, &key, &value)
}

/// Replaces a registration that only redacted prior states of one name refer to.
pub(crate) fn redact(
    lmdb: &Lmdb,
    txn: &mut RwTxn<'_>,
    sequence: u64,
    registration: &[u8],
) -> Result<(), heed::Error> {
    let key = sequence.to_be_bytes();
    lmdb.databases.registrations.put(txn, &key, &checksum::with_checksum(&key, registration))
}

impl Lmdb {
    /// Adds the registration to a record.
    pub(crate) fn with_registration(
        &self,
        txn: &RoTxn<'_>,
        record: DiskRecord,
    ) -> Result<StoredRecord, StoreError> {
        let DiskRecord { mut record, registration } = record;
        if let Some(sequence) = registration {
            let key = sequence.to_be_bytes();
            let found = self.databases.registrations.get(txn, &key);
            let found = found.map_err(|error| backend_error("reading a registration", error))?;
            let value = found.ok_or_else(|| checksum::corrupt(&key, ITEM, "missing"))?;
            record.registration = checksum::verify_and_strip(&key, value, ITEM)?.into();
        }
        Ok(record)
    }
}
