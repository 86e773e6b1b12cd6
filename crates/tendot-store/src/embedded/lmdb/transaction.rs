//! Commit, disk-full detection and read-only fallback.

use std::fs::File;
use std::io;
use std::sync::atomic::Ordering;

use heed::{MdbError, RwTxn};
use rustix::fs::{FallocateFlags, fallocate, statvfs};
use rustix::io::Errno;

use super::{Lmdb, TRANSACTION_META_KEY, backend_error, environment};
use crate::StoreError;

/// Space that a transaction needs at most, apart from very large imports, in bytes.
const MAX_TRANSACTION_BYTES: u64 = 64 << 20;

/// Free space below which change sets are committed one by one, so that only those that do not fit are refused, in bytes.
const LOW_SPACE_BYTES: u64 = 4 * MAX_TRANSACTION_BYTES;

impl Lmdb {
    /// Commits a transaction and stores its LMDB id in it, so that `verify` can check which state LMDB reads.
    pub(crate) fn commit(&self, mut txn: RwTxn<'_>) -> Result<(), heed::Error> {
        let number = txn.id() as u64;
        self.write_meta(&mut txn, TRANSACTION_META_KEY, &number.to_le_bytes())?;
        let had_little_space = self.free_bytes().is_some_and(|free| free < MAX_TRANSACTION_BYTES);
        let committed = txn.commit();
        if committed.is_err() && !self.is_poisoned() {
            environment::clear_sync_errors(self.env.path());
        }
        committed.map_err(|error| match error {
            // LMDB reports a short write only as a generic I/O error.
            heed::Error::Io(_) if !is_disk_full(&error) => match self.probe_free_space() {
                Some(full) => heed::Error::Io(full),
                // Space became free meanwhile: XFS frees that of a removed file later, or when a reservation needs it.
                None if had_little_space => heed::Error::Io(Errno::NOSPC.into()),
                None => error,
            },
            _ => error,
        })?;
        self.last_transaction.store(number, Ordering::SeqCst);
        Ok(())
    }

    /// Error of a failed commit: its outcome is unknown if LMDB could not write its meta page.
    pub(crate) fn commit_error(&self, operation: &'static str, error: heed::Error) -> StoreError {
        if self.is_poisoned() {
            return StoreError::InDoubt { reason: error.to_string() };
        }
        backend_error(operation, error)
    }

    /// Commits twice without changes: LMDB keeps two states, and both must have the ids of their transactions.
    pub(crate) fn commit_both_states(&self) -> Result<(), heed::Error> {
        self.commit(self.env.write_txn()?)?;
        self.commit(self.env.write_txn()?)
    }

    /// Reserves the space of a large transaction in a probe file; returns the error if the disk is full. A few free blocks do not
    /// show that the transaction had enough.
    fn probe_free_space(&self) -> Option<io::Error> {
        let path = self.env.path().join("tendot.space-probe");
        let length = std::fs::metadata(self.env.path().join("data.mdb")).map_or(0, |metadata| metadata.len());
        // At the offset of the store's end, since there may be a file-size limit.
        let reserved = File::create(&path).and_then(|file| {
            let reserved = fallocate(&file, FallocateFlags::empty(), length, MAX_TRANSACTION_BYTES);
            reserved.or_else(|error| match error {
                // Not every file system reserves space.
                Errno::OPNOTSUPP if self.has_low_space() => Err(Errno::NOSPC),
                Errno::OPNOTSUPP => Ok(()),
                error => Err(error),
            })?;
            Ok(())
        });
        let _ = std::fs::remove_file(&path);
        reserved.err().filter(|error| is_out_of_space(error.kind()))
    }

    /// Whether the disk is nearly full.
    pub(crate) fn has_low_space(&self) -> bool {
        self.free_bytes().is_some_and(|free| free < LOW_SPACE_BYTES)
    }

    /// Free space of the disk in bytes, if known.
    pub(crate) fn free_bytes(&self) -> Option<u64> {
        let disk = statvfs(self.env.path()).ok()?;
        Some(disk.f_bavail.saturating_mul(disk.f_frsize))
    }

    /// Whether LMDB refuses all further use (`MDB_PANIC`): it could not write a meta page.
    pub(crate) fn is_poisoned(&self) -> bool {
        matches!(self.env.read_txn(), Err(heed::Error::Mdb(MdbError::Panic)))
    }

    /// Returns the read-only fallback, opened on first use after LMDB has failed; nothing is written any more then. It reads the
    /// last state whose commit succeeded: that of the failed one may not be durable.
    pub(crate) fn read_only_fallback(&self) -> Option<&Self> {
        let open = || {
            let transaction = self.last_transaction.load(Ordering::SeqCst);
            let env = environment::open_read_only_fallback(self.env.path(), transaction)?;
            let databases = environment::Databases::open(&env)?;
            let fallback =
                |databases| Self { only_transaction: Some(transaction), ..Self::new(env, databases) };
            Ok::<_, heed::Error>(databases.map(|databases| Box::new(fallback(databases))))
        };
        // If this fails, reads return the original error.
        self.read_only_fallback.get_or_init(|| open().unwrap_or_default()).as_deref()
    }
}

/// Whether the disk was full: the transaction was rolled back, and the next one may fit. Its pages are free and are rewritten
/// when reused.
pub(crate) fn is_disk_full(error: &heed::Error) -> bool {
    match error {
        heed::Error::Io(error) => is_out_of_space(error.kind()),
        heed::Error::Mdb(error) => matches!(error, MdbError::MapFull),
        _ => false,
    }
}

pub(super) const fn is_out_of_space(kind: io::ErrorKind) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(kind, StorageFull | QuotaExceeded | FileTooLarge)
}
