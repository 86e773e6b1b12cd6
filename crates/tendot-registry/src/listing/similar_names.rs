//! Names that differ from a requested one by one character.
//!
//! Names are stored in key order, which makes the key space a trie. A name at edit distance one leaves the path of the requested
//! name at one node, by a child that the path does not take, and its rest is then one of at most four texts. So only the
//! nodes of the path and their children are visited: a seek returns the next existing name, and everything that cannot be a
//! match before the next candidate is skipped by the next seek. The number of seeks follows from the branches along the path,
//! not from the number of names; no index is needed.

use tendot_proto::{Budget, Handle};
use tendot_store::{AnyStore, NameEntry, NameKey, RecordStatus, Store as _};

use crate::{Caller, Error, Registry, ResolveQuery, cost};

/// Maximum number of seeks per search.
const MAX_SEEKS: usize = 1_500;

/// Maximum number of names that are ranked and checked for public values.
const MAX_CANDIDATES: usize = 40;

/// Sorts after every text that continues a key: it never occurs in UTF-8.
const AFTER_ALL: u8 = 0xff;

/// Characters that are mistaken for one another, in upper case.
const LOOKALIKES: [&str; 3] = ["0O", "1IL", "-_"];

impl Registry {
    /// Public names whose suffix differs from that of `name` by one character that is wrong, missing or too many, or by two
    /// neighbouring characters that are swapped, without ASCII case: at most `limit`, the likeliest first.
    ///
    /// The work is bounded by [`Budget`] and by a number of lookups in the store; a search that reaches a bound returns what it
    /// has found. Names close to the maximum length are not searched.
    pub async fn similar_names(
        &self,
        name: &str,
        limit: usize,
        budget: &mut Budget,
    ) -> Result<Vec<Box<str>>, Error> {
        let key = name.to_ascii_uppercase();
        let Some((prefix, _)) = key.split_once('/').filter(|_| key.len() + 8 <= NameKey::MAX_SEEK_LEN) else {
            return Ok(Vec::new());
        };
        let mut search = TrieSearch {
            store: &self.rules.store,
            prefix,
            key: &key,
            seeks_left: MAX_SEEKS,
            candidates: Vec::new(),
        };
        search.run(budget).await?;
        let mut candidates = search.candidates;
        candidates.sort_by_key(|candidate| candidate.edit);
        let mut names = Vec::new();
        for Candidate { name, .. } in candidates {
            if names.len() == limit {
                break;
            }
            let query = ResolveQuery::new(Handle::from(&*name));
            if self.resolve(&query, &Caller::Anonymous, budget).await.is_ok() {
                names.push(name);
            }
        }
        Ok(names)
    }
}

/// Difference between the requested name and a stored one, the likeliest first.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum NameEdit {
    /// Two neighbouring characters are swapped.
    Swapped,
    /// One character is replaced by one that looks alike.
    Lookalike,
    /// The requested name has one character too many.
    Extra,
    /// The requested name lacks one character.
    Missing,
    /// One character is replaced.
    Replaced,
}

/// Stored name that differs from the requested one by one edit.
#[derive(Debug)]
struct Candidate {
    name: Box<str>,
    edit: NameEdit,
}

/// Stored name returned by a seek.
#[derive(Debug)]
struct FoundName {
    key: String,
    entry: NameEntry,
}

/// Search for the names at edit distance one.
struct TrieSearch<'s> {
    store: &'s AnyStore,
    /// Prefix of the requested name.
    prefix: &'s str,
    /// Requested name in upper case.
    key: &'s str,
    seeks_left: usize,
    candidates: Vec<Candidate>,
}

impl TrieSearch<'_> {
    /// Visits the branches along the path of the requested name, all in parallel, so that each gets its share of the seeks.
    async fn run(&mut self, budget: &mut Budget) -> Result<(), Error> {
        let mut cursors = self.find_branches(budget).await?;
        // Errors are likelier towards the end, where also fewer names branch off.
        cursors.sort_by_key(|cursor| std::cmp::Reverse(cursor.depth));
        while !cursors.is_empty() && self.candidates.len() < MAX_CANDIDATES {
            let mut starts = Vec::with_capacity(cursors.len());
            cursors.retain_mut(|cursor| {
                let start = cursor.advance(self.key, &mut self.candidates);
                let has_next = start.is_some();
                starts.extend(start);
                has_next
            });
            let found = self.seek(starts, budget).await?;
            cursors.truncate(found.len());
            for (cursor, found) in cursors.iter_mut().zip(found) {
                cursor.found = found;
            }
        }
        Ok(())
    }

    /// Nodes of the path at which names branch off, before and after the path in key order.
    async fn find_branches(&mut self, budget: &mut Budget) -> Result<Vec<BranchCursor>, Error> {
        let key = self.key;
        let suffix_start = self.prefix.len() + 1;
        let mut cursors = Vec::new();
        // Downwards: the first name below a node shows whether any branches off before the path.
        let (mut depth, mut path_end) = (suffix_start, suffix_start);
        while let Some(node) = key.get(..depth)
            && let Some(found) = self.seek_one(node.into(), budget).await?
            && found.key.starts_with(node)
        {
            path_end = common_len(&found.key, key);
            let (next, child) = (char_at(key, path_end), char_at(&found.key, path_end));
            let is_after_path = child > next;
            if next.is_none() || child < next {
                cursors.push(BranchCursor { depth: path_end, end: next, found: Some(found) });
            }
            match next {
                Some(next) if !is_after_path => depth = path_end + next.len_utf8(),
                _ => break,
            }
        }
        // Upwards: the first name after all of a node is below the next node at which names branch off after the path.
        let mut depth = path_end + char_at(key, path_end).map_or(0, char::len_utf8);
        while let Some(node) = key.get(..depth)
            && let Some(found) = self.seek_one([node.as_bytes(), &[AFTER_ALL]].concat(), budget).await?
        {
            depth = common_len(&found.key, key);
            cursors.push(BranchCursor { depth, end: None, found: Some(found) });
            if depth <= suffix_start {
                break;
            }
        }
        Ok(cursors)
    }

    async fn seek_one(&mut self, start: Vec<u8>, budget: &mut Budget) -> Result<Option<FoundName>, Error> {
        Ok(self.seek(vec![start], budget).await?.pop().flatten())
    }

    /// First names from these keys on; for fewer keys if a limit is reached.
    async fn seek(
        &mut self,
        mut starts: Vec<Vec<u8>>,
        budget: &mut Budget,
    ) -> Result<Vec<Option<FoundName>>, Error> {
        starts.truncate(self.seeks_left);
        if starts.is_empty() || budget.charge(cost::seek(starts.len())).is_err() {
            return Ok(Vec::new());
        }
        self.seeks_left -= starts.len();
        let entries = self.store.seek_names(self.prefix.as_bytes(), &starts).await?;
        let found = |entry: NameEntry| FoundName { key: entry.name.to_ascii_uppercase(), entry };
        Ok(entries.into_iter().map(|entry| entry.map(found)).collect())
    }
}

/// Cursor over the names that leave the path at one node.
#[derive(Debug)]
struct BranchCursor {
    /// Length of the node in bytes of the key.
    depth: usize,
    /// First child that is not visited.
    end: Option<char>,
    /// Name at the cursor.
    found: Option<FoundName>,
}

impl BranchCursor {
    /// Adds the name at the cursor to the candidates if it is one; returns where to seek next.
    fn advance(&mut self, key: &str, candidates: &mut Vec<Candidate>) -> Option<Vec<u8>> {
        let FoundName { key: found, entry } = self.found.take()?;
        let (node, requested) = key.split_at_checked(self.depth)?;
        let rest = found.strip_prefix(node)?;
        let mut add = |edit| {
            if entry.status == RecordStatus::Live {
                candidates.push(Candidate { name: entry.name.clone(), edit });
            }
        };
        let mut after_next = requested.chars();
        let next = after_next.next();
        let after_next = after_next.as_str();
        let Some(child) = rest.chars().next() else {
            if next.is_some() && after_next.is_empty() {
                add(NameEdit::Extra);
            }
            return Some([node.as_bytes(), &[0]].concat());
        };
        if self.end.is_some_and(|end| child >= end) {
            return None;
        }
        // All texts below the child that are one edit from the requested name.
        let mut matches = vec![(format!("{child}{requested}"), NameEdit::Missing)];
        if let Some(next) = next {
            let is_lookalike = LOOKALIKES.iter().any(|alike| alike.contains(child) && alike.contains(next));
            let replaced = if is_lookalike { NameEdit::Lookalike } else { NameEdit::Replaced };
            matches.push((format!("{child}{after_next}"), replaced));
            if let Some(after_child) = after_next.strip_prefix(child) {
                matches.push((after_next.to_owned(), NameEdit::Extra));
                matches.push((format!("{child}{next}{after_child}"), NameEdit::Swapped));
            }
        }
        matches.sort_unstable();
        if let Some((_, edit)) = matches.iter().find(|(text, _)| text == rest) {
            add(*edit);
        }
        let start = match matches.iter().find(|(text, _)| &**text > rest) {
            Some((text, _)) => [node, text].concat().into_bytes(),
            None => [node.as_bytes(), child.encode_utf8(&mut [0; 4]).as_bytes(), &[AFTER_ALL]].concat(),
        };
        Some(start)
    }
}

/// Length in bytes of the characters at the start of both texts.
fn common_len(one: &str, other: &str) -> usize {
    let equal = one.chars().zip(other.chars()).take_while(|(one, other)| one == other);
    equal.map(|(character, _)| character.len_utf8()).sum()
}

fn char_at(text: &str, at: usize) -> Option<char> {
    text.get(at..)?.chars().next()
}
