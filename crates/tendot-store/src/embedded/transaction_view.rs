//! State of the store inside a write transaction, to which change sets are applied.

use heed::RwTxn;

use super::aux_buffer::{AuxBuffer, BufferedWrites};
use super::format::record::DiskRecord;
use super::{Lmdb, history};
use crate::apply::{HistoryRedaction, StateView};
use crate::model::name_key;
use crate::{EditKind, NameKey, StoreError};

/// State of the store inside a write transaction.
pub(crate) struct TransactionView<'a> {
    lmdb: &'a Lmdb,
    txn: &'a RwTxn<'a>,
    /// Aux entries that the transaction has written.
    aux_writes: &'a BufferedWrites,
    /// Aux entries that earlier ones have written.
    aux_buffer: &'a AuxBuffer,
    /// Sequence number of the last log entry.
    sequence: u64,
    /// Whether the change set has too many edits for implicit creations.
    is_large: bool,
    pending: PendingWrites,
}

/// Writes beside those of the write set.
#[derive(Default)]
pub(crate) struct PendingWrites {
    /// New registrations by log sequence number.
    pub(crate) registrations: Vec<(u64, Box<[u8]>)>,
    /// Registrations to replace, by log sequence number.
    pub(crate) redacted_registrations: Vec<(u64, Box<[u8]>)>,
    /// Redacted prior states: storage key, log sequence number and record.
    pub(crate) redacted_states: Vec<(Vec<u8>, u64, DiskRecord)>,
}

impl<'a> TransactionView<'a> {
    /// Creates the view for a change set with this number of edits.
    pub(crate) const fn new(
        lmdb: &'a Lmdb,
        txn: &'a RwTxn<'a>,
        (aux_writes, aux_buffer): (&'a BufferedWrites, &'a AuxBuffer),
        sequence: u64,
        edits: usize,
    ) -> Self {
        let is_large = edits > history::MAX_IMPLICIT_CREATIONS;
        let pending = PendingWrites {
            registrations: Vec::new(),
            redacted_registrations: Vec::new(),
            redacted_states: Vec::new(),
        };
        Self { lmdb, txn, aux_writes, aux_buffer, sequence, is_large, pending }
    }

    /// Writes beside those of the write set.
    pub(crate) fn into_pending(self) -> PendingWrites {
        self.pending
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
        self.lmdb.read_aux_in_write(self.txn, self.aux_writes, self.aux_buffer, key)
    }

    fn add_registration(&mut self, registration: Box<[u8]>, log_index: usize) -> Option<u64> {
        let sequence = self.sequence + 1 + log_index as u64;
        (!registration.is_empty()).then(|| {
            self.pending.registrations.push((sequence, registration));
            sequence
        })
    }

    /// The record gets its registration under a new number, so only prior states refer to the replaced ones.
    fn redact(
        &mut self,
        redaction: &HistoryRedaction,
        current: Option<&Option<u64>>,
        prior_registration: Box<[u8]>,
    ) -> Result<Option<u64>, StoreError> {
        let storage_key = name_key::storage_key(&redaction.key);
        for (sequence, registration) in &redaction.entries {
            let state = history::replaced_record(self.lmdb, self.txn, &storage_key, *sequence)?;
            let Some(mut state) = state else { continue };
            state.record.values = vec![redaction.mark.clone()];
            if let Some(number) = state.registration {
                self.pending.redacted_registrations.push((number, registration.clone()));
            }
            self.pending.redacted_states.push((storage_key.to_vec(), *sequence, state));
        }
        let current = current.copied().flatten();
        self.pending.redacted_registrations.extend(current.map(|number| (number, prior_registration)));
        Ok(current)
    }

    /// A creation needs no history entry: it is found by the revision of the record, and most changes are creations. Exceptions:
    /// the revision has several log entries of the name, or too many to scan.
    fn needs_history_entry(&self, kind: EditKind, is_first: bool) -> bool {
        kind != EditKind::Create || !is_first || self.is_large
    }
}
