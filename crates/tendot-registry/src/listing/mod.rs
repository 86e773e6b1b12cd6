//! Lists: everything that is read in pages.
//!
//! In reading order: `handles` lists and counts handles under a prefix, `dois` lists DOIs, `reverse_lookup` finds handles by
//! their values, `similar_names` finds names at edit distance one, `paging` limits how much one request scans.

mod dois;
mod handles;
mod paging;
mod reverse_lookup;
mod similar_names;

pub use dois::{DoiFilter, DoiListItem};
pub use handles::HandleCount;
pub(crate) use paging::ScanBudget;
pub use reverse_lookup::{ReverseLookup, ReverseLookupMatch};

/// Items of one list request, and where to continue.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ResultPage<T, C = Box<str>> {
    /// Items in the order of the list. There may be fewer than requested, even none, although more follow.
    pub items: Vec<T>,
    /// Cursor for the next request, if there may be more items.
    pub next: Option<C>,
}

impl<T, C> Default for ResultPage<T, C> {
    fn default() -> Self {
        Self { items: Vec::new(), next: None }
    }
}
