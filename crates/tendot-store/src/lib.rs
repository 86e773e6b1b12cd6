#![doc = include_str!("../README.md")]

mod any_store;
mod apply;
mod boxed_store;
mod change_counters;
mod directory_lock;
mod durable_dir;
mod embedded;
mod error;
mod fail_point;
mod import;
mod memory;
mod memory_state;
mod migration;
mod model;
#[cfg(feature = "postgres")]
mod postgres;
mod service_clock;
mod stale_reads;
mod store;
#[cfg(any(test, feature = "test-suite"))]
pub mod test_suite;
mod verify;
mod write_queue;

pub use any_store::AnyStore;
pub use boxed_store::BoxedStore;
pub use change_counters::{ChangeCounters, RecordVersion};
pub use directory_lock::LockError;
pub use embedded::{
    EmbeddedImporter, EmbeddedStore, EmbeddedTarget, OpenError, RestoreError, RestoredNames, ScrubStatus,
    WriteFault, WriteStatus, restore, restore_names,
};
pub use error::{CommitError, CurrentRecord, RecordConflict, StoreError};
#[cfg(feature = "fail-points")]
pub use fail_point::FAIL_POINTS;
pub use import::{ImportBatch, ImportError, ImportSummary};
pub use memory::MemoryStore;
pub use migration::{MigrationError, MigrationReport, PreviousRun, migrate};
pub use model::audit_chain::{ChainLink, LogHash};
pub use model::aux_counter::AuxCounter;
pub use model::change_set::{ChangeSet, CommitInfo, Edit, Precondition};
pub use model::history::{History, HistoryEntry, HistoryOrder, PriorState, shows_exposure};
pub use model::log_entry::{EditKind, LogEntry};
pub use model::name_key::{NameKey, NameKeyError};
pub use model::record::{RecordStatus, StoredRecord};
#[cfg(feature = "postgres")]
pub use postgres::{
    DatabaseHost, HostRole, PostgresImporter, PostgresOpenError, PostgresSettings, PostgresStore,
    PostgresTarget,
};
pub use service_clock::{MAX_CLOCK_SKEW_MS, ServiceClock};
pub use stale_reads::with_stale_reads;
pub use store::{AuxEntry, CountPage, NameEntry, NamePage, Store, StoreHead};
pub use verify::{LogVerifier, VerifyReport};
