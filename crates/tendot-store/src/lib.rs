#![doc = include_str!("../README.md")]

mod change;
mod embedded;
mod entry;
mod error;
mod key;
mod memory;
#[cfg(any(test, feature = "suite"))]
pub mod suite;

use std::future::Future;

pub use change::{Change, Committed, Edit, EditKind, Expect, Logged};
pub use embedded::{
    Batch, Embedded, ImportError, Imported, Importer, LockError, OpenError, RestoreError, Verified, restore,
};
pub use entry::{Entry, State};
pub use error::{CommitError, Conflict, StoreError};
pub use key::{Key, KeyError};
pub use memory::Memory;

/// Where records are kept.
///
/// A store that is on this machine answers at once: its futures are ready when they are first polled, and no executor
/// is needed. What is read is a state that once was, all of it: never a change in part. What was committed is there for
/// every read that begins afterwards, and survives the end of the process and of the power.
pub trait Store: Send + Sync {
    /// The record of a name, or what is left of it.
    fn get(&self, key: &Key) -> impl Future<Output = Result<Option<Entry>, StoreError>> + Send;

    /// The names under a prefix, in the order of their keys, at most `limit` of them, after `after`. Those that are
    /// tombstones are among them.
    fn list(
        &self,
        prefix: &[u8],
        after: Option<&Key>,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<Listed>, StoreError>> + Send;

    /// Whether names under a prefix are kept here, as far as that has been said.
    fn is_homed(&self, prefix: &[u8]) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// The homed prefixes, in order, at most `limit` of them, after `after`.
    fn homed(
        &self,
        after: Option<&[u8]>,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<Box<str>>, StoreError>> + Send;

    /// Carries out all edits of a change, with its entries in the log, or none. When the future is ready and the result
    /// is good, the change is durable.
    fn commit(&self, change: Change) -> impl Future<Output = Result<Committed, CommitError>> + Send;

    /// What changed after the entry `after`, oldest first, at most `limit` entries.
    fn changes(
        &self,
        after: u64,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<Logged>, StoreError>> + Send;
}

/// A name in a list.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Listed {
    /// As it was first spelled.
    pub name: Box<str>,
    /// What it is now.
    pub state: State,
}
