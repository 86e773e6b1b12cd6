//! Lists: everything that is read in pages.
//!
//! In reading order: `handles` lists and counts handles under a prefix, `dois` lists DOIs, `reverse_lookup` finds handles by
//! their values, `paging` limits how much one request scans.

mod dois;
mod handles;
mod paging;
mod reverse_lookup;

pub use dois::{DoiList, DoiListItem};
pub use handles::{HandleCount, HandleList};
pub(crate) use paging::ScanBudget;
pub use reverse_lookup::{ReverseLookup, ReverseLookupMatch, ReverseLookupMatches};
