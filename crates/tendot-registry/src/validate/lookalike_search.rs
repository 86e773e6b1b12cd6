//! Search for stored names that look like a name: any of its characters may be replaced by one that looks alike.
//!
//! The names that look like a given one are too many to be looked up one by one: each letter has some thirty look-alikes in
//! other scripts. But few of them exist, and names are stored in key order. So the search starts at every character with the
//! first look-alike there, and a seek returns the next name that exists; everything that cannot match before the next
//! candidate is skipped by the next seek. If nothing looks alike, that is one call of the store.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use tendot_proto::{Budget, Handle};
use tendot_store::{NameKey, Store as _};
use unicode_security::confusable_detection::skeleton;

use crate::rules::RecordReader;
use crate::{Caller, Error, Registry, ResolveQuery, cost};

/// Maximum number of seeks per search.
const MAX_SEEKS: usize = 400;

/// Maximum number of names found per search.
const MAX_FOUND: usize = 8;

/// Maximum number of characters of a suffix; the work grows with its square. Longer names are not searched for.
const MAX_SUFFIX_CHARS: usize = 128;

/// Ranges of characters that look like letters, digits or punctuation of other scripts; ideographs and syllables are not
/// searched.
const SEARCHED_RANGES: [std::ops::Range<u32>; 4] =
    [0x80..0x3400, 0xa000..0xac00, 0xf900..0xfffe, 0x1_0000..0x1_fffe];

/// Characters outside ASCII by their skeleton (UTS #39).
static BY_SKELETON: LazyLock<BTreeMap<String, Vec<char>>> = LazyLock::new(|| {
    let mut by_skeleton: BTreeMap<String, Vec<char>> = BTreeMap::new();
    for character in SEARCHED_RANGES.into_iter().flatten().filter_map(char::from_u32) {
        let skeleton = skeleton_of(character);
        // Invisible characters have none.
        if !skeleton.is_empty() {
            by_skeleton.entry(skeleton).or_default().push(character);
        }
    }
    by_skeleton.retain(|skeleton, alike| alike.len() > 1 || skeleton.is_ascii());
    by_skeleton
});

/// ASCII characters in upper case by the skeleton of either case (UTS #39).
static ASCII_BY_SKELETON: LazyLock<BTreeMap<String, Vec<char>>> = LazyLock::new(|| {
    let mut by_skeleton: BTreeMap<String, Vec<char>> = BTreeMap::new();
    for ascii in '!'..='~' {
        by_skeleton.entry(skeleton_of(ascii)).or_default().push(ascii.to_ascii_uppercase());
    }
    by_skeleton
});

fn skeleton_of(character: char) -> String {
    skeleton(character.encode_utf8(&mut [0; 4])).collect()
}

/// Characters in upper case that stand for this one in names that look alike, itself included, in ascending order. Two ASCII
/// characters are never confused: `1` and `l` are common in names that are different on purpose.
fn lookalikes(character: char) -> Vec<char> {
    let mut alike = vec![character.to_ascii_uppercase()];
    // ASCII case is ignored in names, so either case may look like the other character.
    let skeletons: Vec<String> = if character.is_ascii() {
        [character.to_ascii_lowercase(), character.to_ascii_uppercase()].map(skeleton_of).into()
    } else {
        let own = skeleton_of(character);
        alike.extend(ASCII_BY_SKELETON.get(&own).into_iter().flatten());
        vec![own]
    };
    for skeleton in skeletons {
        alike.extend(BY_SKELETON.get(&skeleton).into_iter().flatten());
    }
    alike.sort_unstable();
    alike.dedup();
    alike
}

/// Pattern of the names that look like a given one.
pub(crate) struct LookalikePattern {
    /// Prefix and slash, in upper case.
    prefix: String,
    /// Characters of the suffix, in upper case.
    suffix: Vec<char>,
    /// For each character of the suffix, the ones that look like it, itself included.
    alike: Vec<Vec<char>>,
}

impl LookalikePattern {
    /// Pattern of a name; `None` without a suffix, or if the name is too long.
    pub(crate) fn new(name: &str) -> Option<Self> {
        let key = name.to_ascii_uppercase();
        let (prefix, suffix) = key.split_at_checked(key.find('/')? + 1)?;
        let length = suffix.chars().count();
        // Look-alikes have up to four bytes.
        let is_short = length <= MAX_SUFFIX_CHARS && prefix.len() + 4 * length <= NameKey::MAX_SEEK_LEN;
        is_short.then(|| Self {
            prefix: prefix.into(),
            suffix: suffix.chars().collect(),
            alike: suffix.chars().map(lookalikes).collect(),
        })
    }

    /// Whether another name looks like this one.
    pub(crate) fn matches(&self, other: &str) -> bool {
        let Some((prefix, suffix)) = other.split_at_checked(self.prefix.len()) else { return false };
        if !prefix.eq_ignore_ascii_case(&self.prefix) {
            return false;
        }
        let upper_case = || suffix.chars().map(|character| character.to_ascii_uppercase());
        let mut characters = upper_case();
        let is_alike =
            self.alike.iter().all(|alike| characters.next().is_some_and(|found| alike.contains(&found)));
        is_alike && characters.next().is_none() && !self.suffix.iter().copied().eq(upper_case())
    }

    /// Characters allowed at a position of names that leave the requested one at `branch`.
    fn allowed(&self, branch: usize, position: usize) -> impl Iterator<Item = char> {
        let own = self.suffix.get(position).copied().filter(|_| position == branch);
        let alike = self.alike.get(position).into_iter().flatten().copied();
        alike.filter(move |character| Some(*character) != own)
    }

    /// First key of a matching name: these characters, then one above `above`, then the lowest ones.
    fn key(&self, branch: usize, start: &[char], above: Option<char>) -> Option<Vec<u8>> {
        let mut key = self.prefix.clone();
        key.extend(start);
        key.push(
            self.allowed(branch, start.len())
                .find(|character| above.is_none_or(|above| *character > above))?,
        );
        for position in start.len() + 1..self.suffix.len() {
            key.push(self.allowed(branch, position).next()?);
        }
        Some(key.into_bytes())
    }

    /// Key of the first matching name, for each position at which it may leave the requested one.
    fn first_keys(&self) -> Vec<(usize, Vec<u8>)> {
        let key = |branch| Some((branch, self.key(branch, self.suffix.get(..branch)?, None)?));
        (0..self.suffix.len()).filter_map(key).collect()
    }

    /// Compares a stored key with the names that leave the requested one at `branch`: whether it is one of them, and the key
    /// of the next one.
    fn compare(&self, branch: usize, found: &str) -> (bool, Option<Vec<u8>>) {
        let Some(found) = found.strip_prefix(&self.prefix) else { return (false, None) };
        let found: Vec<char> = found.chars().collect();
        if found.get(..branch) != self.suffix.get(..branch) {
            return (false, None);
        }
        let is_allowed = |position: &usize| {
            let character = found.get(*position);
            character
                .is_some_and(|character| self.allowed(branch, *position).any(|alike| alike == *character))
        };
        let length = self.suffix.len();
        let matched = (branch..length).take_while(is_allowed).count() + branch;
        let is_match = matched == length && found.len() == length;
        if matched < length && found.len() == matched {
            // The start of a matching name.
            return (false, self.key(branch, &found, None));
        }
        let next = (branch..=matched.min(length - 1))
            .rev()
            .find_map(|position| self.key(branch, found.get(..position)?, Some(*found.get(position)?)));
        (is_match, next)
    }
}

impl RecordReader {
    /// Stored names that look like this one, also retired ones; not the name itself. The search is bounded.
    pub(crate) async fn lookalike_names(
        &self,
        name: &str,
        budget: &mut Budget,
    ) -> Result<Vec<Box<str>>, Error> {
        let mut names = Vec::new();
        // Of finding the look-alikes of each character.
        budget.charge(cost::list(name.chars().take(MAX_SUFFIX_CHARS).count()))?;
        let Some(pattern) = LookalikePattern::new(name) else { return Ok(names) };
        let prefix = pattern.prefix.trim_end_matches('/').as_bytes();
        let (mut pending, mut seeks_left) = (pattern.first_keys(), MAX_SEEKS);
        while !pending.is_empty() && names.len() < MAX_FOUND {
            pending.truncate(seeks_left);
            seeks_left -= pending.len();
            budget.charge(cost::seek(pending.len()))?;
            let (branches, keys): (Vec<usize>, Vec<Vec<u8>>) = pending.into_iter().unzip();
            let entries = self.store.seek_names(prefix, &keys).await?;
            pending = Vec::new();
            for (branch, entry) in branches.into_iter().zip(entries) {
                let Some(entry) = entry else { continue };
                let (is_match, next) = pattern.compare(branch, &entry.name.to_ascii_uppercase());
                if is_match {
                    names.push(entry.name);
                }
                pending.extend(next.map(|next| (branch, next)));
            }
        }
        names.truncate(MAX_FOUND);
        Ok(names)
    }
}

impl Registry {
    /// Public names that look like this one, at most eight: with characters of other scripts, or other dashes.
    pub async fn lookalike_names(&self, name: &str, budget: &mut Budget) -> Result<Vec<Box<str>>, Error> {
        let mut names = self.rules.lookalike_names(name, budget).await?;
        let mut public = Vec::with_capacity(names.len());
        for name in names.drain(..) {
            let query = ResolveQuery::new(Handle::from(&*name));
            if self.resolve(&query, &Caller::Anonymous, budget).await.is_ok() {
                public.push(name);
            }
        }
        Ok(public)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pollster::block_on;
    use tendot_store::{ChangeSet, Edit, MemoryStore, Precondition};

    use super::*;
    use crate::RegistrySettings;
    use crate::command::TrackedStore;
    use crate::rules::Rules;

    /// Cyrillic letters that look like `paper` and `cope`.
    const PAPER: &str = "\u{440}\u{430}\u{440}\u{435}\u{433}";
    const COPE: &str = "\u{441}\u{43e}\u{440}\u{435}";

    fn find(stored: &[&str], name: &str) -> Vec<String> {
        let store = MemoryStore::new();
        let put = |name: &&str| Edit::Put {
            name: (*name).into(),
            values: Vec::new(),
            precondition: Precondition::Absent,
        };
        let edits = stored.iter().map(put).collect();
        block_on(store.commit(ChangeSet { author: "test".into(), timestamp_ms: 0, edits })).unwrap();
        let rules = Rules::new(TrackedStore::new(Arc::new(store.into())), RegistrySettings::default());
        let found = block_on(rules.lookalike_names(name, &mut Budget::new(100_000))).unwrap();
        found.into_iter().map(String::from).collect()
    }

    #[test]
    fn finds_lookalikes() {
        let cyrillic = format!("10.5555/{COPE}");
        let check = |stored: &str, name: &str, is_found: bool| {
            let others = ["10.5555/a", "10.5555/z-z", "10.5555/cope-1", "10.5555/cop", "10.5556/cope"];
            let stored_names: Vec<&str> = others.into_iter().chain([stored]).collect();
            let expected: &[&str] = if is_found { &[stored] } else { &[] };
            assert_eq!(find(&stored_names, name), expected, "{stored} {name}");
            let pattern = LookalikePattern::new(name).unwrap();
            assert_eq!(pattern.matches(stored), is_found, "{stored} {name}");
        };
        // A Latin name after a Cyrillic one, and the reverse.
        check(&cyrillic, "10.5555/cope", true);
        check(&cyrillic, "10.5555/COPE", true);
        check("10.5555/COPE", &cyrillic, true);
        check("10.5555/c\u{3bf}pe", "10.5555/cope", true);
        check("10.5555/c\u{3bf}pe", &cyrillic, true);
        // Two different dashes, against ASCII, each other, and one of them.
        check("10.5555/a\u{2013}b\u{2212}c", "10.5555/a-b-c", true);
        check("10.5555/a-b-c", "10.5555/a\u{2013}b\u{2212}c", true);
        check("10.5555/a\u{2013}b\u{2212}c", "10.5555/a\u{2212}b\u{2013}c", true);
        check("10.5555/a\u{2013}b\u{2212}c", "10.5555/a\u{2013}b-c", true);
        // ASCII names never look alike, and other lengths do not.
        check("10.5555/l0", "10.5555/1O", false);
        check("10.5555/COPE2", &cyrillic, false);
        check("10.5555/a\u{2013}b\u{2212}c", "10.5555/a-b-d", false);
        check(&cyrillic, &cyrillic, false);
        check(&format!("10.5555/{PAPER}"), "10.5555/paper", true);
    }

    /// Many names that nearly match need no more seeks than a search may have.
    #[test]
    fn search_is_bounded() {
        let names: Vec<String> = (0..2_000).map(|number| format!("10.5555/{COPE}{number:04}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        assert_eq!(find(&names, "10.5555/cope1234"), [format!("10.5555/{COPE}1234")]);
        assert_eq!(find(&names, "10.5555/cope"), [""; 0]);
        for (length, is_searched) in [(MAX_SUFFIX_CHARS, true), (MAX_SUFFIX_CHARS + 1, false)] {
            let name = format!("10.5555/{}", "\u{435}".repeat(length));
            assert_eq!(LookalikePattern::new(&name).is_some(), is_searched, "{length}");
        }
        assert!(LookalikePattern::new("10.5555").is_none());
    }

    /// The work for each character is charged before it is done.
    #[test]
    fn characters_are_charged() {
        let rules =
            Rules::new(TrackedStore::new(Arc::new(MemoryStore::new().into())), RegistrySettings::default());
        let cost_of = |length: usize| {
            let mut budget = Budget::new(100_000);
            // Ideographs have no look-alikes, so nothing is searched.
            let name = format!("10.5555/{}", "\u{4f8b}".repeat(length));
            assert!(block_on(rules.lookalike_names(&name, &mut budget)).unwrap().is_empty());
            let refused = block_on(rules.lookalike_names(&name, &mut Budget::new(length as u32)));
            assert!(refused.is_err(), "{length}");
            100_000 - budget.remaining()
        };
        assert_eq!(cost_of(100) - cost_of(10), 90);
    }

    /// The table has the look-alikes that attacks use, and no name has too many.
    #[test]
    fn alternatives() {
        let alike = lookalikes('-');
        for dash in ['-', '\u{2010}', '\u{2011}', '\u{2012}', '\u{2013}', '\u{2212}'] {
            assert!(alike.contains(&dash), "{dash:?}");
        }
        for (letter, other) in [('a', '\u{430}'), ('O', '\u{3bf}'), ('i', '\u{456}'), ('x', '\u{445}')] {
            assert!(lookalikes(letter).contains(&other), "{letter}");
            assert!(lookalikes(other).contains(&letter.to_ascii_uppercase()), "{letter}");
        }
        let most = ('!'..='~').map(|ascii| lookalikes(ascii).len()).max();
        assert!(most.is_some_and(|most| most < 200), "{most:?}");
        assert_eq!(lookalikes('\u{4f8b}'), ['\u{4f8b}']);
    }
}
