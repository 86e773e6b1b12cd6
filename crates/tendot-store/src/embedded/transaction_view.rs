//! State of the store inside a write transaction, to which change sets are applied.

use heed::RwTxn;

use super::format::record::DiskRecord;
use super::{Lmdb, history};
use crate::apply::StateView;
use crate::{EditKind, NameKey, StoreError};

/// State of the store inside a write transaction.
pub(crate) struct TransactionView<'a> {
    lmdb: &'a Lmdb,
    txn: &'a RwTxn<'a>,
    /// Sequence number of the last log entry.
    sequence: u64,
    /// Whether the change set has too many edits for implicit creations.
    is_large: bool,
    /// New registrations by log sequence number.
    registrations: Vec<(u64, Box<[u8]>)>,
}

impl<'a> TransactionView<'a> {
    /// Creates the view for a change set with this number of edits.
    pub(crate) const fn new(lmdb: &'a Lmdb, txn: &'a RwTxn<'a>, sequence: u64, edits: usize) -> Self {
        let is_large = edits > history::MAX_IMPLICIT_CREATIONS;
        Self { lmdb, txn, sequence, is_large, registrations: Vec::new() }
    }

    /// New registrations by log sequence number.
    pub(crate) fn into_registrations(self) -> Vec<(u64, Box<[u8]>)> {
        self.registrations
    }
}

impl StateView for TransactionView<'_> {
    /// Log sequence number under which the registration is stored.
    type Registration = Option<u64>;

    fn record(&self, key: &NameKey, with_values: bool) -> Result<Option<DiskRecord>, StoreError> {
        if with_values {
            return self.lmdb.get_disk_record_in_write(self.txn, key);
        }
        Ok(self.lmdb.record_header(self.txn, key)?.map(DiskRecord::from))
    }

    fn is_homed(&self, prefix: &NameKey) -> Result<bool, StoreError> {
        self.lmdb.contains_homed(self.txn, prefix.as_bytes())
    }

    fn aux(&self, key: &[u8]) -> Result<Option<&[u8]>, StoreError> {
        self.lmdb.get_aux(self.txn, key)
    }

    fn add_registration(&mut self, registration: Box<[u8]>, log_index: usize) -> Option<u64> {
        let sequence = self.sequence + 1 + log_index as u64;
        (!registration.is_empty()).then(|| {
            self.registrations.push((sequence, registration));
            sequence
        })
    }

    /// A creation needs no history entry: it is found by the revision of the record, and most changes are creations. Exceptions:
    /// the revision has several log entries of the name, or too many to scan.
    fn needs_history_entry(&self, kind: EditKind, is_first: bool) -> bool {
        kind != EditKind::Create || !is_first || self.is_large
    }
}
