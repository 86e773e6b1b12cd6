//! Checks LMDB's pages without LMDB, which trusts them and has no checksums.
//!
//! Every page up to the last belongs to exactly one tree or to the free list; keys are in order within and across pages; page
//! and entry counts match the tree headers. So corruption that hides records or leads to old ones is found, even if each record
//! is valid.

use std::cmp::Ordering;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::thread;
use std::time::Duration;

use heed::Env;

use super::{META_ITEM, TRANSACTION_META_KEY};
use crate::embedded::format::checksum;

pub(super) const PAGE_HEADER_LEN: usize = 16;
pub(super) const PAGE_BRANCH: u16 = 1;
pub(super) const PAGE_LEAF: u16 = 2;
pub(super) const PAGE_OVERFLOW: u16 = 4;
const PAGE_META: u16 = 8;
pub(super) const NODE_OVERFLOW: u16 = 1;
const NODE_SUBTREE: u16 = 2;
const TREE_INTEGER_KEYS: u16 = 8;
pub(super) const INVALID_PAGE: u64 = u64::MAX;

/// Maximum depth of a tree.
pub(super) const MAX_TREE_DEPTH: u16 = 32;

/// Maximum number of attempts to read the last state, and the delay between them.
const MAX_ATTEMPTS: u32 = 1_000;
const RETRY_DELAY: Duration = Duration::from_millis(1);

/// `data.mdb`, read page by page without LMDB.
pub(crate) struct PageFile {
    file: File,
    pub(super) size: usize,
    metas: [MetaPage; 2],
}

/// Meta page: a committed state of the environment.
#[derive(Clone, Copy)]
pub(super) struct MetaPage {
    transaction: u64,
    pub(super) last: u64,
    free: TreeHeader,
    main: TreeHeader,
}

/// Header of a B+ tree (LMDB's `MDB_db`).
#[derive(Clone, Copy, Default)]
pub(super) struct TreeHeader {
    pad: u32,
    flags: u16,
    pub(super) depth: u16,
    branches: u64,
    leaves: u64,
    overflows: u64,
    entries: u64,
    pub(super) root: u64,
}

/// Result of a page check; the error describes the corruption.
pub(super) type PageCheckResult<T> = Result<T, String>;

impl PageFile {
    /// Page numbers have the size of pointers; only 64 bits are supported.
    pub(crate) const IS_SUPPORTED: bool = cfg!(target_pointer_width = "64");

    /// Runs `check` on the last committed state while a read transaction keeps its pages unchanged. Other processes may write.
    pub(crate) fn with_last_state<T>(
        env: &Env,
        check: impl FnOnce(&mut Self) -> PageCheckResult<T>,
    ) -> Result<PageCheckResult<T>, heed::Error> {
        let file = if env.path().is_dir() { env.path().join("data.mdb") } else { env.path().to_owned() };
        let page_size = env.unnamed_database_stat().page_size;
        for _ in 0..MAX_ATTEMPTS {
            let txn = env.read_txn()?;
            // An error is not damage: there may be no file descriptor left.
            let mut pages = match Self::read(File::open(&file)?, page_size) {
                Ok(pages) => pages,
                Err(error) => return Ok(Err(error)),
            };
            // A state whose commit is running may be in the file before readers see it; the pages of both states are protected
            // while the read transaction lives.
            let read = txn.id() as u64;
            if (read..=read.saturating_add(1)).contains(&pages.transaction_id()) {
                return Ok(check(&mut pages));
            }
            drop(txn);
            // Two commits may have happened in between, but not every time.
            thread::sleep(RETRY_DELAY);
        }
        Err(io::Error::other("LMDB reads a state that is not the latest").into())
    }

    /// Reads both meta pages.
    fn read(file: File, page_size: u32) -> PageCheckResult<Self> {
        if !Self::IS_SUPPORTED {
            return Err("LMDB page check is not supported on this platform".into());
        }
        let meta =
            MetaPage { transaction: 0, last: 0, free: TreeHeader::default(), main: TreeHeader::default() };
        let mut pages = Self { file, size: page_size as usize, metas: [meta; 2] };
        for number in 0..2 {
            let page = pages.read_pages(number, 1)?;
            let meta = MetaPage::parse(&page)
                .filter(|_| u64_at(&page, 0) == Some(number) && u16_at(&page, 10) == Some(PAGE_META));
            let meta = meta.ok_or_else(|| format!("LMDB meta page {number}: invalid"))?;
            if meta.free.pad as usize != pages.size || meta.free.flags != TREE_INTEGER_KEYS {
                return Err(format!("LMDB meta page {number}: unexpected layout"));
            }
            pages.metas[number as usize] = meta;
        }
        Ok(pages)
    }

    /// Meta page of the last committed state.
    pub(super) fn newest_meta(&self) -> &MetaPage {
        let [even, odd] = &self.metas;
        if even.transaction > odd.transaction { even } else { odd }
    }

    /// LMDB transaction id of the last committed state.
    fn transaction_id(&self) -> u64 {
        self.newest_meta().transaction
    }

    /// Whether the file has all pages of the last state except free ones. Free pages at its end may be missing: those that were
    /// freed within their transaction were never written.
    pub(crate) fn has_all_pages(&mut self) -> PageCheckResult<bool> {
        let state = *self.newest_meta();
        // Read after the meta page, because another process may be writing.
        let end = self.file.metadata().map_err(read_error)?.len() / self.size as u64;
        if end > state.last {
            return Ok(true);
        }
        let mut walk = PageWalk::new(self, &state)?;
        walk.walk_free_list(&state)?;
        Ok((end..=state.last).all(|number| walk.is_used(number)))
    }

    /// Checks all pages of the last state, and the transaction id of the state before it.
    pub(crate) fn check_all(&mut self) -> PageCheckResult<()> {
        let [even, odd] = self.metas;
        if even.transaction % 2 != 0
            || odd.transaction % 2 != 1
            || even.transaction.abs_diff(odd.transaction) != 1
        {
            return Err("LMDB meta pages are not consecutive".into());
        }
        for state in [even, odd] {
            let number = PageWalk::new(self, &state).and_then(|mut walk| walk.recorded_transaction(&state));
            if number.as_ref() != Ok(&state.transaction) {
                let found = number.map_or_else(|fault| fault, |number| format!("found transaction {number}"));
                let expected = state.transaction;
                // A failing disk can cause this, too; the next commit rewrites this meta page.
                return Err(format!(
                    "LMDB meta page of transaction {expected} is inconsistent ({found}): the last commit may be missing"
                ));
            }
        }
        let state = *self.newest_meta();
        let mut walk = PageWalk::new(self, &state)?;
        walk.walk_free_list(&state)?;
        for (name, tree) in walk.named_databases(&state)? {
            walk.walk_tree(&name, tree, &mut |_, _, _, _| Ok(()))?;
        }
        match (2..=state.last).find(|number| !walk.is_used(*number)) {
            Some(number) => Err(format!("LMDB page {number}: neither used nor free")),
            None => Ok(()),
        }
    }

    /// Header of a named database in the last state.
    pub(super) fn database(&mut self, name: &str) -> PageCheckResult<TreeHeader> {
        let state = *self.newest_meta();
        let databases = PageWalk::new(self, &state)?.named_databases(&state)?;
        let found = databases.into_iter().find(|(found, _)| found == name);
        found.map(|(_, tree)| tree).ok_or_else(|| format!("no database `{name}`"))
    }

    pub(super) fn read_pages(&mut self, number: u64, count: u64) -> PageCheckResult<Vec<u8>> {
        let mut bytes = vec![0; self.size * count as usize];
        let at = number
            .checked_mul(self.size as u64)
            .ok_or_else(|| format!("LMDB page {number}: beyond the end of the file"))?;
        let read = self.file.seek(SeekFrom::Start(at)).and_then(|_| self.file.read_exact(&mut bytes));
        match read {
            Ok(()) => Ok(bytes),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(format!("LMDB page {number}: beyond the end of the file"))
            }
            Err(error) => Err(read_error(error)),
        }
    }
}

/// Data of a node: inline or on overflow pages.
enum NodeData<'a> {
    Inline(&'a [u8]),
    Overflow { first: u64, length: usize },
}

/// Tree walk that visits every page at most once.
struct PageWalk<'a> {
    pages: &'a mut PageFile,
    last: u64,
    used: Vec<u64>,
}

/// Callback for each leaf entry.
type EntryVisitor<'a> = &'a mut dyn FnMut(&mut PageWalk<'_>, &[u8], u16, NodeData<'_>) -> PageCheckResult<()>;

/// Pages and entries counted in one tree.
struct TreeCounts<'a> {
    name: &'a str,
    tree: TreeHeader,
    branches: u64,
    leaves: u64,
    overflows: u64,
    entries: u64,
}

impl<'a> PageWalk<'a> {
    fn new(pages: &'a mut PageFile, state: &MetaPage) -> PageCheckResult<Self> {
        let length = pages.file.metadata().map_err(read_error)?.len() / pages.size as u64;
        // Allocates a bit per page, unless there are far more than in the file: some at the end may never have been written.
        if state.last / 64 > length + 1_000_000 {
            return Err(format!("LMDB page {}: beyond the end of the file", state.last));
        }
        let used = vec![0; (state.last / 64 + 1) as usize];
        Ok(Self { pages, last: state.last, used })
    }

    fn is_used(&self, number: u64) -> bool {
        self.used.get((number / 64) as usize).is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    fn mark_used(&mut self, number: u64, name: &str) -> PageCheckResult<()> {
        if number < 2 || number > self.last {
            return Err(format!("{name}: LMDB page {number}: beyond the end of the file"));
        }
        if self.is_used(number) {
            return Err(format!("{name}: LMDB page {number}: referenced twice"));
        }
        self.used[(number / 64) as usize] |= 1 << (number % 64);
        Ok(())
    }

    /// Walks the free list.
    fn walk_free_list(&mut self, state: &MetaPage) -> PageCheckResult<()> {
        let (name, newest) = ("free list", state.transaction);
        self.walk_tree(name, state.free, &mut |walk, key, _, data| {
            let freed = key.try_into().map(u64::from_ne_bytes);
            if freed.is_err() || freed.is_ok_and(|freed| freed > newest) {
                return Err(format!("{name}: transaction in the future"));
            }
            let read;
            let list = match data {
                NodeData::Inline(list) => list,
                NodeData::Overflow { first, length } => {
                    let count = (PAGE_HEADER_LEN + length).div_ceil(walk.pages.size) as u64;
                    read = walk.pages.read_pages(first, count)?;
                    read.get(PAGE_HEADER_LEN..PAGE_HEADER_LEN + length).unwrap_or_default()
                }
            };
            let count = u64_at(list, 0).and_then(|count| usize::try_from(count).ok());
            let listed = count.and_then(|count| list.get(8..count.checked_mul(8)?.checked_add(8)?));
            let listed = listed.ok_or_else(|| format!("{name}: truncated"))?;
            for number in listed.chunks_exact(8) {
                walk.mark_used(u64_at(number, 0).unwrap_or(INVALID_PAGE), name)?;
            }
            Ok(())
        })
    }

    /// Reads the headers of the named databases.
    fn named_databases(&mut self, state: &MetaPage) -> PageCheckResult<Vec<(String, TreeHeader)>> {
        let mut trees = Vec::new();
        self.walk_tree("databases", state.main, &mut |_, key, flags, data| match data {
            NodeData::Inline(data) if flags == NODE_SUBTREE && data.len() == 48 => {
                let tree = TreeHeader::parse(data, 0).filter(|tree| tree.flags == 0 && tree.pad == 0);
                let name = key.escape_ascii().to_string();
                trees.push((name, tree.ok_or("unexpected database layout")?));
                Ok(())
            }
            _ => Err("unexpected entry in the main database".into()),
        })?;
        Ok(trees)
    }

    /// Transaction id stored in `meta` of a state, which has a checksum.
    fn recorded_transaction(&mut self, state: &MetaPage) -> PageCheckResult<u64> {
        let meta = self.named_databases(state)?.into_iter().find(|(name, _)| name == "meta");
        let (name, tree) = meta.ok_or("LMDB state has no `meta` database")?;
        let mut found = None;
        self.walk_tree(&name, tree, &mut |_, key, _, data| {
            if let (TRANSACTION_META_KEY, NodeData::Inline(data)) = (key, data) {
                let body =
                    checksum::verify_and_strip(key, data, META_ITEM).map_err(|error| error.to_string())?;
                found = body.try_into().map(u64::from_le_bytes).ok();
            }
            Ok(())
        })?;
        found.ok_or_else(|| "LMDB state has no transaction number".into())
    }

    fn walk_tree(&mut self, name: &str, tree: TreeHeader, visit: EntryVisitor<'_>) -> PageCheckResult<()> {
        let mut counts = TreeCounts { name, tree, branches: 0, leaves: 0, overflows: 0, entries: 0 };
        if tree.root != INVALID_PAGE {
            if tree.depth == 0 || tree.depth > MAX_TREE_DEPTH {
                return Err(format!("{name}: invalid tree depth {}", tree.depth));
            }
            self.walk_page(&mut counts, tree.root, 1, (None, None), visit)?;
        } else if tree.depth != 0 {
            return Err(format!("{name}: tree has a depth but no pages"));
        }
        let TreeCounts { branches, leaves, overflows, entries, .. } = counts;
        if (tree.branches, tree.leaves, tree.overflows, tree.entries)
            != (branches, leaves, overflows, entries)
        {
            return Err(format!(
                "{name}: expected {} entries, found {entries}, or wrong page counts",
                tree.entries
            ));
        }
        Ok(())
    }

    /// Walks a page and its subtree; keys must be in the half-open range `within`.
    fn walk_page(
        &mut self,
        counts: &mut TreeCounts<'_>,
        number: u64,
        level: u16,
        within: (Option<&[u8]>, Option<&[u8]>),
        visit: EntryVisitor<'_>,
    ) -> PageCheckResult<()> {
        let name = counts.name;
        let corrupt = |fault: &str| format!("{name}: LMDB page {number}: {fault}");
        self.mark_used(number, name)?;
        let page = self.pages.read_pages(number, 1)?;
        let is_leaf = level == counts.tree.depth;
        let flags = if is_leaf { PAGE_LEAF } else { PAGE_BRANCH };
        if (u64_at(&page, 0), u16_at(&page, 8), u16_at(&page, 10)) != (Some(number), Some(0), Some(flags)) {
            return Err(corrupt("wrong page type"));
        }
        let nodes = parse_nodes(&page, is_leaf).ok_or_else(|| corrupt("malformed nodes"))?;
        *if is_leaf { &mut counts.leaves } else { &mut counts.branches } += 1;
        let order = if counts.tree.flags & TREE_INTEGER_KEYS != 0 { compare_integers } else { compare_bytes };
        // The first key of a branch page is a lower bound and is not compared.
        let keyed = if is_leaf { &nodes[..] } else { &nodes[1..] };
        let in_order = keyed.windows(2).all(|pair| order(pair[0].key, pair[1].key) == Ordering::Less);
        let from =
            keyed.first().zip(within.0).is_none_or(|(first, from)| order(first.key, from) != Ordering::Less);
        let before =
            keyed.last().zip(within.1).is_none_or(|(last, end)| order(last.key, end) == Ordering::Less);
        if !in_order || !from || !before {
            return Err(corrupt("keys out of order"));
        }
        for (index, node) in nodes.iter().enumerate() {
            if !is_leaf {
                let from = if index == 0 { within.0 } else { Some(node.key) };
                let before = nodes.get(index + 1).map(|next| next.key).or(within.1);
                self.walk_page(counts, node.child_page(), level + 1, (from, before), visit)?;
                continue;
            }
            counts.entries += 1;
            let data = if node.flags & NODE_OVERFLOW == 0 {
                NodeData::Inline(node.data)
            } else {
                let first = u64_at(node.data, 0).ok_or_else(|| corrupt("malformed nodes"))?;
                counts.overflows += self.walk_overflow(name, first, node.length)?;
                NodeData::Overflow { first, length: node.length }
            };
            if node.flags & !(NODE_OVERFLOW | NODE_SUBTREE) != 0 {
                return Err(corrupt("unknown node flags"));
            }
            if node.flags & NODE_SUBTREE != 0 && name != "databases" {
                return Err(corrupt("nested tree"));
            }
            visit(self, node.key, node.flags, data)?;
        }
        Ok(())
    }

    /// Walks the overflow pages of one entry; returns their number.
    fn walk_overflow(&mut self, name: &str, first: u64, length: usize) -> PageCheckResult<u64> {
        self.mark_used(first, name)?;
        let page = self.pages.read_pages(first, 1)?;
        let count = u32_at(&page, 12).map_or(0, u64::from);
        let head = (u64_at(&page, 0), u16_at(&page, 8), u16_at(&page, 10));
        let needed = (PAGE_HEADER_LEN + length).div_ceil(self.pages.size) as u64;
        if head != (Some(first), Some(0), Some(PAGE_OVERFLOW)) || count < needed {
            return Err(format!("{name}: LMDB page {first}: wrong page type"));
        }
        for number in first + 1..first + count {
            self.mark_used(number, name)?;
        }
        Ok(count)
    }
}

/// Node of a branch or leaf page.
pub(super) struct PageNode<'a> {
    pub(super) key: &'a [u8],
    pub(super) flags: u16,
    /// Length of the data, inline or overflow.
    pub(super) length: usize,
    pub(super) data: &'a [u8],
    /// Data length in a leaf, page number in a branch.
    low: u32,
}

impl PageNode<'_> {
    pub(super) fn child_page(&self) -> u64 {
        u64::from(self.low) | u64::from(self.flags) << 32
    }
}

/// Parses the nodes of a page; `None` if they overlap or leave gaps.
pub(super) fn parse_nodes(page: &[u8], is_leaf: bool) -> Option<Vec<PageNode<'_>>> {
    let (lower, upper) = (usize::from(u16_at(page, 12)?), usize::from(u16_at(page, 14)?));
    if lower <= PAGE_HEADER_LEN || lower % 2 != 0 || lower > upper || upper > page.len() {
        return None;
    }
    let mut nodes = Vec::with_capacity((lower - PAGE_HEADER_LEN) / 2);
    let mut extents = Vec::with_capacity(nodes.capacity());
    for pointer in (PAGE_HEADER_LEN..lower).step_by(2) {
        let at = usize::from(u16_at(page, pointer)?);
        let node = page.get(at..)?;
        // LMDB uses native byte order.
        let [low, high] = if cfg!(target_endian = "little") { [0, 2] } else { [2, 0] };
        let low = u32::from(u16_at(node, low)?) | u32::from(u16_at(node, high)?) << 16;
        let (flags, key_length) = (u16_at(node, 4)?, usize::from(u16_at(node, 6)?));
        let length = if is_leaf { low as usize } else { 0 };
        let inline = if is_leaf && flags & NODE_OVERFLOW != 0 { 8 } else { length };
        let (key, data) = node.get(8..8 + key_length + inline)?.split_at(key_length);
        extents.push((at, (8 + key_length + inline).next_multiple_of(2)));
        nodes.push(PageNode { key, flags, length, data, low });
    }
    extents.sort_unstable();
    let end = extents.iter().try_fold(upper, |end, (at, size)| (end == *at).then_some(at + size));
    (end == Some(page.len())).then_some(nodes)
}

impl MetaPage {
    fn parse(page: &[u8]) -> Option<Self> {
        let (free, main) = (TreeHeader::parse(page, 40)?, TreeHeader::parse(page, 88)?);
        Some(Self { free, main, last: u64_at(page, 136)?, transaction: u64_at(page, 144)? })
    }
}

impl TreeHeader {
    fn parse(bytes: &[u8], at: usize) -> Option<Self> {
        Some(Self {
            pad: u32_at(bytes, at)?,
            flags: u16_at(bytes, at + 4)?,
            depth: u16_at(bytes, at + 6)?,
            branches: u64_at(bytes, at + 8)?,
            leaves: u64_at(bytes, at + 16)?,
            overflows: u64_at(bytes, at + 24)?,
            entries: u64_at(bytes, at + 32)?,
            root: u64_at(bytes, at + 40)?,
        })
    }
}

fn compare_bytes(one: &[u8], other: &[u8]) -> Ordering {
    one.cmp(other)
}

fn compare_integers(one: &[u8], other: &[u8]) -> Ordering {
    u64_at(one, 0).cmp(&u64_at(other, 0))
}

pub(super) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().copied().map(u16::from_ne_bytes)
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().copied().map(u32::from_ne_bytes)
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().copied().map(u64::from_ne_bytes)
}

fn read_error(error: io::Error) -> String {
    format!("cannot read `data.mdb`: {error}")
}

#[cfg(test)]
mod tests {
    use tendot_testing::ram_dir;

    use super::*;
    use crate::embedded::Lmdb;

    /// Later commits do not change the pages of the state that is checked, and its free pages that were never written do not
    /// count as missing.
    #[test]
    fn later_commits_do_not_affect_the_checked_state() {
        let directory = ram_dir();
        let (lmdb, _lock) = Lmdb::open(directory.path()).unwrap();
        let is_short = || {
            let pages = lmdb.env.info().last_page_number as u64 + 1;
            let length = std::fs::metadata(directory.path().join("data.mdb")).unwrap().len();
            length < pages * u64::from(lmdb.env.unnamed_database_stat().page_size)
        };
        let commit = |bytes: usize, is_removed: bool| {
            let mut txn = lmdb.env.write_txn().unwrap();
            lmdb.write_aux(&mut txn, b"key", Some(&vec![0; bytes][..])).unwrap();
            if is_removed {
                lmdb.write_aux(&mut txn, b"key", None).unwrap();
            }
            lmdb.commit(txn).unwrap();
        };
        // Pages of a large entry that is removed in its own transaction are not written.
        let mut bytes = 1_000_000;
        while !is_short() {
            assert!(bytes < 3_000_000, "all pages were written");
            bytes += 100_000;
            commit(bytes, true);
        }
        for is_removed in [true, false] {
            let checked = PageFile::with_last_state(&lmdb.env, |pages| {
                thread::scope(|scope| {
                    let writer = scope.spawn(|| (0..5).for_each(|_| commit(bytes, is_removed)));
                    writer.join().unwrap();
                });
                assert!(is_short() || !is_removed);
                pages.has_all_pages()
            });
            assert_eq!(checked.unwrap(), Ok(true), "{is_removed}");
        }
    }
}
