//! Batch registration: any number of lines, each with its own outcome, in constant memory.
//!
//! Lines are grouped as they arrive, parsed while earlier ones are committed, and committed in order, some hundreds at a time.
//! With an idempotency key, the results are journaled in the transaction of each group: an interrupted batch that is sent again resumes, and a
//! complete one is replayed. Refused lines are then tried again, unless something has changed their names. An interface contributes the lines ([`BatchInput`]), their syntax ([`BatchFormat`]) and where
//! the results go ([`BatchOutput`]).
//!
//! In reading order: `line` (lines and their outcomes), `run` (executes the groups in order, several in flight), `group`
//! (commits one group), `plan` (its edits), `journal` (journal, resume and replay), `chunk` (its entries), `retry` (refused lines).

mod chunk;
mod group;
mod journal;
mod line;
mod plan;
mod retry;
mod run;

pub use group::BatchGroup;
pub use journal::{BatchJournal, GroupJournal, ReplayError, ReplayPlan};
pub use line::{BatchLine, BatchLineOutcome, BatchLineStatus, LineGroup, RawLine};
pub use run::{BatchError, BatchFormat, BatchInput, BatchOutput, BatchRun, OutputClosed};

/// Maximum number of lines committed together.
pub const MAX_GROUP_LINES: usize = 1_000;

/// Maximum number of bytes of lines committed together; the last line may exceed it.
pub const MAX_GROUP_BYTES: usize = 1 << 20;

/// Groups that are committed concurrently: they share a sync.
const MAX_IN_FLIGHT: usize = 8;
