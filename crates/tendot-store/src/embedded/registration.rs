//! What the registry knows of names: see `docs/storage-format.md`.
//!
//! Each stands under the number of the line of the log that brought it, and stays: records refer to it, and so does their
//! history. That is not beside the record because deposits come in any order: so they change few pages, and small ones.

use heed::{PutFlags, RoTxn, RwTxn};

use super::record::Record;
use super::{Tables, checksum, failed};
use crate::{Entry, StoreError};

pub(super) const WHAT: &str = "registration";

/// Appends one.
pub(super) fn append(
    tables: &Tables,
    txn: &mut RwTxn<'_>,
    number: u64,
    registration: &[u8],
) -> Result<(), heed::Error> {
    // Only stores that are opened for reading can be without.
    let Some(registrations) = tables.databases.registrations else { return Ok(()) };
    let key = number.to_be_bytes();
    let mut value = Vec::with_capacity(registration.len() + 4);
    value.extend_from_slice(registration);
    checksum::seal(&key, &mut value);
    registrations.put_with_flags(txn, PutFlags::APPEND, &key, &value)
}

impl Tables {
    /// A record with its registration.
    pub(super) fn registered(&self, txn: &RoTxn<'_>, record: Record) -> Result<Entry, StoreError> {
        let Record { mut entry, registration } = record;
        if let Some(number) = registration {
            let key = number.to_be_bytes();
            let registrations = self.databases.registrations;
            let found = registrations.map(|registrations| registrations.get(txn, &key)).transpose();
            let found = found.map_err(|error| failed("reading a registration", error))?.flatten();
            let value = found.ok_or_else(|| checksum::damaged(&key, WHAT, "it is missing"))?;
            entry.registration = checksum::open(&key, value, WHAT)?.into();
        }
        Ok(entry)
    }
}
