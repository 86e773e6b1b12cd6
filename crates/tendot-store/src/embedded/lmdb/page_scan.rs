//! Reads a database in small steps without LMDB, so that corrupt pages cannot crash the process.
//!
//! Each step uses a short read transaction, so that LMDB can reuse freed pages.

use super::page_check::{
    INVALID_PAGE, MAX_TREE_DEPTH, NODE_OVERFLOW, PAGE_BRANCH, PAGE_HEADER_LEN, PAGE_LEAF, PAGE_OVERFLOW,
    PageCheckResult, PageFile, PageNode, parse_nodes, u16_at, u32_at, u64_at,
};

/// Maximum length of a value: that of the largest record, and of the aux entries of one transaction, with a margin.
const MAX_VALUE_BYTES: usize = 256 << 20;

/// Maximum number of faults of one step that are described.
const MAX_FAULTS: usize = 100;

/// Result of one step.
#[derive(Debug, Default)]
pub(crate) struct ScanStep {
    /// Bytes of the pages read.
    pub(crate) bytes: u64,
    /// Key from which the next step continues; `None` at the end of the database.
    pub(crate) next: Option<Vec<u8>>,
    /// Corrupt pages; the scan continues after them.
    pub(crate) faults: Vec<String>,
}

/// Callback for each entry, with key and value; returns its fault.
type EntryCheck<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> Option<String>;

/// Range of keys: from the first up to the second, exclusive.
type KeyRange<'a> = (Option<&'a [u8]>, Option<&'a [u8]>);

impl PageFile {
    /// Passes the entries of a database from a key on to `check`, at least one leaf page and about `max_bytes`.
    pub(crate) fn scan(
        &mut self,
        database: &str,
        from: &[u8],
        max_bytes: u64,
        check: EntryCheck<'_>,
    ) -> PageCheckResult<ScanStep> {
        let tree = self.database(database)?;
        let mut scan =
            PageScan { pages: self, database, from, max_bytes, is_full: false, step: ScanStep::default() };
        if tree.root == INVALID_PAGE {
            return Ok(scan.step);
        }
        if tree.depth == 0 || tree.depth > MAX_TREE_DEPTH {
            return Err(format!("{database}: invalid tree depth {}", tree.depth));
        }
        scan.scan_page(tree.root, tree.depth, (None, None), check);
        Ok(scan.step)
    }
}

/// Step in progress.
struct PageScan<'a> {
    pages: &'a mut PageFile,
    database: &'a str,
    from: &'a [u8],
    max_bytes: u64,
    is_full: bool,
    step: ScanStep,
}

impl PageScan<'_> {
    fn add_fault(&mut self, fault: String) {
        if self.step.faults.len() < MAX_FAULTS {
            self.step.faults.push(fault);
        }
    }

    /// Scans the subtree of a page; `height` is 1 for a leaf.
    fn scan_page(&mut self, number: u64, height: u16, within: KeyRange<'_>, check: EntryCheck<'_>) {
        let page = match self.read_page(number, height == 1) {
            Ok(page) => page,
            Err(fault) => {
                self.add_fault(format!("{}: LMDB page {number}: {fault}", self.database));
                return;
            }
        };
        let nodes = parse_nodes(&page, height == 1).unwrap_or_default();
        // The first key of a branch page is a lower bound and is not compared.
        let keyed = if height == 1 { &nodes[..] } else { nodes.get(1..).unwrap_or_default() };
        let is_in_order = keyed.windows(2).all(|pair| pair[0].key < pair[1].key);
        let is_within = keyed.first().zip(within.0).is_none_or(|(first, from)| first.key >= from)
            && keyed.last().zip(within.1).is_none_or(|(last, end)| last.key < end);
        if nodes.is_empty() || !is_in_order || !is_within {
            let fault = if nodes.is_empty() { "malformed nodes" } else { "keys out of order" };
            self.add_fault(format!("{}: LMDB page {number}: {fault}", self.database));
            return;
        }
        if height == 1 {
            let first = nodes.partition_point(|node| node.key < self.from);
            for node in nodes.iter().skip(first) {
                self.check_entry(node, check);
            }
            if self.step.bytes >= self.max_bytes {
                self.is_full = true;
                self.step.next = within.1.map(<[u8]>::to_vec);
            }
            return;
        }
        for (index, node) in nodes.iter().enumerate() {
            let from = if index == 0 { within.0 } else { Some(node.key) };
            let end = nodes.get(index + 1).map(|next| next.key).or(within.1);
            if end.is_some_and(|end| end <= self.from) {
                continue;
            }
            self.scan_page(node.child_page(), height - 1, (from, end), check);
            if self.is_full {
                return;
            }
        }
    }

    fn read_page(&mut self, number: u64, is_leaf: bool) -> PageCheckResult<Vec<u8>> {
        self.check_extent(number, 1)?;
        let page = self.pages.read_pages(number, 1)?;
        self.step.bytes += page.len() as u64;
        let flags = if is_leaf { PAGE_LEAF } else { PAGE_BRANCH };
        if (u64_at(&page, 0), u16_at(&page, 8), u16_at(&page, 10)) != (Some(number), Some(0), Some(flags)) {
            return Err("wrong page type".into());
        }
        Ok(page)
    }

    fn check_extent(&self, first: u64, count: u64) -> PageCheckResult<()> {
        let last = self.pages.newest_meta().last;
        let is_inside =
            first >= 2 && count > 0 && first.checked_add(count - 1).is_some_and(|end| end <= last);
        if is_inside { Ok(()) } else { Err("beyond the end of the file".into()) }
    }

    fn check_entry(&mut self, node: &PageNode<'_>, check: EntryCheck<'_>) {
        let fault = if node.flags == 0 {
            check(node.key, node.data)
        } else if node.flags == NODE_OVERFLOW {
            match self.read_overflow(node) {
                Ok(value) => check(node.key, &value),
                Err(fault) => Some(format!("value of `{}`: {fault}", node.key.escape_ascii())),
            }
        } else {
            Some(format!("`{}`: unknown node flags", node.key.escape_ascii()))
        };
        if let Some(fault) = fault {
            self.add_fault(format!("{}: {fault}", self.database));
        }
    }

    fn read_overflow(&mut self, node: &PageNode<'_>) -> PageCheckResult<Vec<u8>> {
        let first = u64_at(node.data, 0).ok_or("malformed nodes")?;
        let needed = (PAGE_HEADER_LEN + node.length).div_ceil(self.pages.size) as u64;
        if node.length > MAX_VALUE_BYTES {
            return Err("too long".into());
        }
        self.check_extent(first, needed)?;
        let pages = self.pages.read_pages(first, needed)?;
        self.step.bytes += pages.len() as u64;
        let head = (u64_at(&pages, 0), u16_at(&pages, 8), u16_at(&pages, 10));
        let count = u32_at(&pages, 12).map_or(0, u64::from);
        if head != (Some(first), Some(0), Some(PAGE_OVERFLOW)) || count < needed {
            return Err(format!("LMDB page {first}: wrong page type"));
        }
        pages
            .get(PAGE_HEADER_LEN..PAGE_HEADER_LEN + node.length)
            .map(<[u8]>::to_vec)
            .ok_or_else(|| "truncated".into())
    }
}
