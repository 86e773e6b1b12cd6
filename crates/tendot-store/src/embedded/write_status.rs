//! Whether an embedded store can be written, for operators.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{SystemTime, UNIX_EPOCH};

use super::{EmbeddedStore, Lmdb};

/// Free space below which the disk counts as full after a change set did not fit, in bytes.
const FULL_DISK_BYTES: u64 = 8 << 20;

/// Whether an embedded store can be written.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct WriteStatus {
    /// Reason why writes are refused.
    pub fault: Option<WriteFault>,
    /// Free space of its disk in bytes, if known.
    pub free_bytes: Option<u64>,
    /// Time of the last commit since the store was opened, in milliseconds since 1970.
    pub last_commit_ms: Option<u64>,
}

/// Reason why writes to an embedded store are refused. The text names no path.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum WriteFault {
    /// The data file was deleted, moved or replaced.
    DataFileMissing,
    /// A commit failed; the store tries to recover.
    CommitFailed,
    /// LMDB failed; the store has to be opened again.
    EngineFailed,
    /// The disk is full.
    DiskFull,
}

impl WriteFault {
    /// Reason as text.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::DataFileMissing => "the data file was deleted, moved or replaced",
            Self::CommitFailed => "a commit failed; it is tried again",
            Self::EngineFailed => "the disk failed during a commit; restart the service",
            Self::DiskFull => "the disk is full",
        }
    }
}

impl fmt::Display for WriteFault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// State of the writer thread that others can see.
#[derive(Debug, Default)]
pub(crate) struct WriterState {
    pub(crate) has_failed: AtomicBool,
    pub(crate) is_disk_full: AtomicBool,
    /// 0 before the first commit.
    last_commit_ms: AtomicU64,
}

impl WriterState {
    pub(crate) fn record_commit(&self) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        self.last_commit_ms.store(u64::try_from(now).unwrap_or_default(), Ordering::Relaxed);
        self.is_disk_full.store(false, Ordering::Relaxed);
    }
}

impl EmbeddedStore {
    /// Returns a function that reads the status; it does not keep the store open.
    pub fn write_status_handle(&self) -> impl Fn() -> WriteStatus + Clone + Send + Sync + 'static {
        let lmdb = Arc::downgrade(&self.lmdb);
        let state = self.writer.as_ref().map(|writer| Arc::clone(&writer.state)).unwrap_or_default();
        move || write_status(&lmdb, &state)
    }
}

impl Lmdb {
    /// Whether the disk has space for changes.
    pub(crate) fn has_disk_space(&self) -> bool {
        has_disk_space(self.free_bytes())
    }
}

fn has_disk_space(free_bytes: Option<u64>) -> bool {
    free_bytes.is_none_or(|free| free >= FULL_DISK_BYTES)
}

fn write_status(lmdb: &Weak<Lmdb>, state: &WriterState) -> WriteStatus {
    let Some(lmdb) = lmdb.upgrade() else { return WriteStatus::default() };
    let free_bytes = lmdb.free_bytes();
    let fault = if lmdb.is_poisoned() {
        Some(WriteFault::EngineFailed)
    } else if lmdb.check_data_file().is_err() {
        Some(WriteFault::DataFileMissing)
    } else if state.has_failed.load(Ordering::Relaxed) {
        Some(WriteFault::CommitFailed)
    } else {
        let is_full = state.is_disk_full.load(Ordering::Relaxed);
        (is_full && !has_disk_space(free_bytes)).then_some(WriteFault::DiskFull)
    };
    let last_commit_ms = Some(state.last_commit_ms.load(Ordering::Relaxed)).filter(|time| *time > 0);
    WriteStatus { fault, free_bytes, last_commit_ms }
}
