//! Index of names by description, to find metadata that does not distinguish a name from another one of its registrant.
//!
//! The description of a name is the title, creators, date and types in its metadata. For each registrant and description, an aux
//! entry lists up to [`MAX_NAMES`] names; its key is a hash of both. Keys and values are as short as possible, because most names
//! have an entry of their own. Entries may be stale, for example after a transfer: names are checked when they are found.
//! `tendot verify --repair` rebuilds the index.

use std::borrow::Cow;
use std::collections::{BTreeMap, btree_map};

use serde::Deserialize;
use serde_json::value::RawValue;
use tendot_proto::Budget;
use tendot_store::{Edit, NameKey, RecordStatus, Store, StoredRecord};

use crate::authorization::Principal;
use crate::command::MAX_COMMIT_ATTEMPTS;
use crate::party::{decode, sha256};
use crate::prefix::{DuplicatePolicy, Prefix};
use crate::registration::{Registration, has_metadata, is_reserved};
use crate::rules::Rules;
use crate::{Error, Registry, RegistryError, WriteWarning, codes, cost};

/// Maximum number of names that an entry lists; further names with the same description are not listed. Then registrations only
/// read the entry and do not conflict, so this must be less than the attempts of a commit.
const MAX_NAMES: usize = 4;
const _: () = assert!(MAX_NAMES < MAX_COMMIT_ATTEMPTS as usize);

/// Prefix of the keys of the index.
const KEY_PREFIX: [u8; 2] = *b"d/";

/// Length of a hash in a key.
const HASH_LEN: usize = 12;

/// Separator of the names in an entry; does not occur in names.
const NAME_SEPARATOR: char = '\0';

/// Key of the entry for a description and a registrant.
type IndexKey = [u8; KEY_PREFIX.len() + HASH_LEN];

/// Records or entries per step of a rebuild.
const REPAIR_PAGE_LEN: usize = 500;

/// Attempts for a step of a rebuild while others write.
const MAX_REPAIR_ATTEMPTS: u32 = 8;

/// Members of kernel metadata that describe the referent. The metadata is valid and normalized.
#[derive(Deserialize)]
struct DescribedMetadata<'a> {
    #[serde(borrow, rename = "primaryReferentType")]
    referent_type: Cow<'a, str>,
    #[serde(borrow, default, alias = "referentCreation", alias = "referentParty", alias = "referentPlace")]
    referent: Option<DescribedReferent<'a>>,
}

#[derive(Deserialize)]
struct DescribedReferent<'a> {
    #[serde(borrow, default, rename = "name")]
    names: Vec<DescribedName<'a>>,
    #[serde(borrow, default, rename = "type")]
    types: Vec<Cow<'a, str>>,
    #[serde(borrow, default, rename = "principalAgent")]
    agents: Vec<DescribedAgent<'a>>,
    #[serde(borrow, default, rename = "creationDate")]
    date: Option<DescribedDate<'a>>,
}

#[derive(Deserialize)]
struct DescribedName<'a> {
    #[serde(borrow)]
    value: Cow<'a, str>,
    #[serde(borrow, default, rename = "subnameValue")]
    subname: Option<Cow<'a, str>>,
    #[serde(borrow, default, rename = "type")]
    kind: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct DescribedAgent<'a> {
    #[serde(borrow, default)]
    name: Option<DescribedName<'a>>,
    #[serde(borrow, default)]
    identifier: Option<&'a RawValue>,
    #[serde(borrow, default)]
    role: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct DescribedDate<'a> {
    #[serde(borrow)]
    date: Cow<'a, str>,
}

/// Key of the entry for the description in kernel metadata; `None` without metadata.
fn index_key(registrant: &str, metadata: Option<&RawValue>) -> Result<Option<IndexKey>, Error> {
    let described =
        metadata.and_then(|metadata| serde_json::from_str::<DescribedMetadata<'_>>(metadata.get()).ok());
    let Some(DescribedMetadata { referent_type, referent: Some(referent) }) = described else {
        return Ok(None);
    };
    let by_kind = |kind: &str| referent.names.iter().find(|name| name.kind.as_deref() == Some(kind));
    let kinds = ["PrincipalTitle", "Title", "DistinctiveTitle", "PrincipalName", "Name"];
    let title = kinds.into_iter().find_map(by_kind).or(referent.names.first());
    let mut text = String::with_capacity(256);
    text.push_str(registrant);
    text.push('\0');
    push_text(&mut text, &referent_type);
    push_text(&mut text, title.map_or("", |title| &title.value));
    push_text(&mut text, title.and_then(|title| title.subname.as_deref()).unwrap_or_default());
    push_text(&mut text, referent.date.as_ref().map_or("", |date| &date.date));
    referent.types.iter().for_each(|kind| push_text(&mut text, kind));
    for agent in referent.agents.iter().filter(|agent| agent.role.as_deref() != Some("Publisher")) {
        text.push('\u{1}');
        push_text(&mut text, agent.name.as_ref().map_or("", |name| &name.value));
        push_text(&mut text, agent.identifier.map_or("", RawValue::get));
    }
    let hash = sha256(text.as_bytes())?;
    let mut key = IndexKey::default();
    for (byte, from) in key.iter_mut().zip(KEY_PREFIX.iter().chain(hash.iter())) {
        *byte = *from;
    }
    Ok(Some(key))
}

/// Appends a text without differences of case and white space.
fn push_text(out: &mut String, text: &str) {
    for word in text.split_whitespace() {
        if word.is_ascii() {
            out.extend(word.bytes().map(|byte| char::from(byte.to_ascii_lowercase())));
        } else {
            out.extend(word.chars().flat_map(char::to_lowercase));
        }
        out.push(' ');
    }
    out.push('\0');
}

fn decode_names(value: Option<&[u8]>) -> Vec<Box<str>> {
    let names = value.and_then(|value| str::from_utf8(value).ok());
    names.map(|names| names.split(NAME_SEPARATOR).map(Into::into).collect()).unwrap_or_default()
}

fn encode_names(names: &[Box<str>]) -> Box<[u8]> {
    names.join(NAME_SEPARATOR.encode_utf8(&mut [0; 4])).into_bytes().into()
}

/// Change of the description of a name.
pub(super) struct DescriptionChange<'a> {
    pub(super) name: &'a str,
    /// Id of the owner of the name.
    pub(super) registrant: &'a str,
    /// Principal of the change; `None` if nothing is reported to it.
    pub(super) principal: Option<&'a Principal>,
    pub(super) policy: DuplicatePolicy,
    /// Metadata before and after the change.
    pub(super) before: Option<&'a RawValue>,
    pub(super) after: Option<&'a RawValue>,
}

/// Entries of the index as changed by a plan.
#[derive(Default)]
pub(super) struct DescriptionIndex {
    entries: BTreeMap<IndexKey, IndexEntry>,
}

struct IndexEntry {
    names: Vec<Box<str>>,
    /// Number of names at the end that the plan has added; they may not be stored yet.
    planned: usize,
    is_changed: bool,
}

impl IndexEntry {
    /// Finds another name with the description that the principal may know of. Removes stale names before it.
    async fn find_duplicate(
        &mut self,
        rules: &Rules,
        change: &DescriptionChange<'_>,
        key: &IndexKey,
        budget: &mut Budget,
    ) -> Result<Option<Box<str>>, RegistryError> {
        let mut position = 0;
        while let Some(other) = self.names.get(position) {
            let is_visible = if other.eq_ignore_ascii_case(change.name) {
                Some(false)
            } else if position + self.planned >= self.names.len() {
                Some(true)
            } else {
                rules.has_description(other, key, change.principal, budget).await?
            };
            match is_visible {
                Some(true) => return Ok(Some(other.clone())),
                Some(false) => position += 1,
                None => self.remove_at(position),
            }
        }
        Ok(None)
    }

    /// Lists a name, unless the entry is full.
    fn add(&mut self, name: &str) {
        self.remove(name);
        if self.names.len() < MAX_NAMES {
            self.names.push(name.into());
            self.planned += 1;
            self.is_changed = true;
        }
    }

    fn remove(&mut self, name: &str) {
        if let Some(position) = self.names.iter().position(|other| other.eq_ignore_ascii_case(name)) {
            self.remove_at(position);
        }
    }

    fn remove_at(&mut self, position: usize) {
        if position + self.planned >= self.names.len() {
            self.planned = self.planned.saturating_sub(1);
        }
        self.names.remove(position);
        self.is_changed = true;
    }
}

impl DescriptionIndex {
    /// Moves a name to its new description. Warns about another name with the same description, or refuses it.
    pub(super) async fn update(
        &mut self,
        rules: &Rules,
        change: &DescriptionChange<'_>,
        budget: &mut Budget,
    ) -> Result<Option<WriteWarning>, RegistryError> {
        // Most updates keep the metadata.
        let is_indexed = change.before.is_some() || change.policy != DuplicatePolicy::Allow;
        if !is_indexed || change.before.map(RawValue::get) == change.after.map(RawValue::get) {
            return Ok(None);
        }
        let before = index_key(change.registrant, change.before)?;
        let after = index_key(change.registrant, change.after)?;
        if before == after {
            return Ok(None);
        }
        let mut duplicate = None;
        if let Some(key) = after.filter(|_| change.policy != DuplicatePolicy::Allow) {
            let entry = self.load(rules, key, budget).await?;
            duplicate = entry.find_duplicate(rules, change, &key, budget).await?;
            if let Some(other) = &duplicate
                && change.policy == DuplicatePolicy::Reject
            {
                let detail = format!("title, creators, date and type equal those of `{other}`");
                return Err(RegistryError::new(codes::DUPLICATE_METADATA, detail)
                    .with_pointer("/metadata")
                    .with_existing(other.clone(), None));
            }
            entry.add(change.name);
        }
        if let Some(key) = before {
            self.load(rules, key, budget).await?.remove(change.name);
        }
        Ok(duplicate.map(|name| WriteWarning::DuplicateOf { name }))
    }

    async fn load(
        &mut self,
        rules: &Rules,
        key: IndexKey,
        budget: &mut Budget,
    ) -> Result<&mut IndexEntry, RegistryError> {
        match self.entries.entry(key) {
            btree_map::Entry::Occupied(entry) => Ok(entry.into_mut()),
            btree_map::Entry::Vacant(entry) => {
                budget.charge(cost::LOOKUP).map_err(Error::from)?;
                let value = rules.store.get_aux(&key).await.map_err(Error::from)?;
                let names = decode_names(value.as_deref());
                Ok(entry.insert(IndexEntry { names, planned: 0, is_changed: false }))
            }
        }
    }

    /// Edits of the changed entries.
    pub(super) fn into_edits(self) -> impl Iterator<Item = Edit> {
        let changed = self.entries.into_iter().filter(|(_, entry)| entry.is_changed);
        changed.map(|(key, entry)| put_or_remove(key.into(), &entry.names))
    }
}

fn put_or_remove(key: Box<[u8]>, names: &[Box<str>]) -> Edit {
    if names.is_empty() { Edit::RemoveAux { key } } else { Edit::PutAux { key, value: encode_names(names) } }
}

impl Rules {
    /// Whether the principal may know of a name that is live and belongs to an entry of the index; `None` if there is no such name. A token that is restricted to other prefixes must not detect a reserved name.
    async fn has_description(
        &self,
        name: &str,
        key: &[u8],
        principal: Option<&Principal>,
        budget: &mut Budget,
    ) -> Result<Option<bool>, RegistryError> {
        let Some(entry) = self.get_record(name, budget).await? else { return Ok(None) };
        let Some((prefix, _)) = name.split_once('/') else { return Ok(None) };
        let Some(record) = self.prefix_record(prefix, budget).await? else { return Ok(None) };
        if description_of(&entry, &record)?.is_none_or(|found| found != *key) {
            return Ok(None);
        }
        let is_visible =
            |principal: &Principal| !is_reserved(&entry) || principal.check_prefix(prefix).is_ok();
        Ok(Some(principal.is_none_or(is_visible)))
    }
}

/// Key of the entry that lists a live name with metadata.
fn description_of(entry: &StoredRecord, prefix: &StoredRecord) -> Result<Option<IndexKey>, Error> {
    if entry.status != RecordStatus::Live || !has_metadata(entry) {
        return Ok(None);
    }
    let (prefix, registration): (Prefix, _) = (decode(prefix)?, Registration::of_record(entry)?);
    index_key(registration.owner_id(&prefix), registration.metadata.as_deref())
}

/// Result of a rebuild of the index of descriptions.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct IndexRepair {
    /// Live names with metadata.
    pub names: u64,
    /// Entries that were added or completed.
    pub added: u64,
    /// Entries from which stale names were removed.
    pub removed: u64,
}

impl Registry {
    /// Rebuilds the index of descriptions, which finds names whose metadata does not distinguish them: removes stale entries, and
    /// adds missing names. Needs constant memory; others may write meanwhile.
    pub async fn repair_description_index(&self) -> Result<IndexRepair, RegistryError> {
        let mut repair = IndexRepair::default();
        let mut after: Option<Box<[u8]>> = None;
        loop {
            let (changed, last) = self
                .repair_step(async |rules: &Rules| rules.plan_stale_entries(after.as_deref()).await)
                .await?;
            repair.removed += changed;
            let Some(last) = last else { break };
            after = Some(last);
        }
        let mut after: Option<NameKey> = None;
        loop {
            let (changed, last) = self
                .repair_step(async |rules: &Rules| {
                    let (names, edits, last) = rules.plan_missing_names(after.as_ref()).await?;
                    Ok((edits, last.map(|last| (names, last))))
                })
                .await?;
            repair.added += changed;
            let Some((names, last)) = last else { return Ok(repair) };
            repair.names += names;
            after = Some(last);
        }
    }

    /// Plans and commits one step; plans again if others wrote meanwhile. Returns the number of edits and the position after it.
    async fn repair_step<T>(
        &self,
        mut plan: impl AsyncFnMut(&Rules) -> Result<(Vec<Edit>, Option<T>), RegistryError>,
    ) -> Result<(u64, Option<T>), RegistryError> {
        for _ in 0..MAX_REPAIR_ATTEMPTS {
            let rules = self.rules.begin();
            let (edits, last) = plan(&rules).await?;
            let changed = edits.len() as u64;
            if edits.is_empty() {
                return Ok((0, last));
            }
            let mut all_edits = rules.into_parts().0.into_preconditions();
            all_edits.extend(edits);
            if self.commit_once("repair", 0, all_edits).await? {
                return Ok((changed, last));
            }
        }
        Err(RegistryError::new(codes::WRITE_CONFLICT, "others changed the index in every attempt; try again"))
    }
}

impl Rules {
    /// Edits that remove stale names from the next entries, and the last key; `None` at the end.
    async fn plan_stale_entries(
        &self,
        after: Option<&[u8]>,
    ) -> Result<(Vec<Edit>, Option<Box<[u8]>>), RegistryError> {
        let listed = self.store.list_aux(&KEY_PREFIX, after, REPAIR_PAGE_LEN).await;
        let listed = listed.map_err(Error::from)?;
        let (mut edits, last) = (Vec::new(), listed.last().map(|entry| entry.key.clone()));
        for entry in listed {
            // Tracked, so that a concurrent change is a conflict.
            let value = self.store.get_aux(&entry.key).await.map_err(Error::from)?;
            let names = decode_names(value.as_deref());
            let mut kept = Vec::new();
            for name in &names {
                let budget = &mut Budget::new(cost::LOOKUP.saturating_mul(4));
                if self.has_description(name, &entry.key, None, budget).await?.is_some() {
                    kept.push(name.clone());
                }
            }
            if value.is_some() && (kept.len() != names.len() || kept.is_empty()) {
                edits.push(put_or_remove(entry.key, &kept));
            }
        }
        Ok((edits, last))
    }

    /// Number of live names with metadata among the next records, edits that add missing ones, and the last name; `None` at the
    /// end.
    async fn plan_missing_names(
        &self,
        after: Option<&NameKey>,
    ) -> Result<(u64, Vec<Edit>, Option<NameKey>), RegistryError> {
        let (mut scanned, mut described, mut last) = (0, Vec::new(), None);
        let visit = |entry: &StoredRecord| {
            scanned += 1;
            last = NameKey::new(&entry.name).ok().or(last.take());
            if entry.status == RecordStatus::Live && has_metadata(entry) {
                described.push(entry.clone());
            }
            scanned < REPAIR_PAGE_LEN
        };
        self.store.scan_records(None, after, visit).await.map_err(Error::from)?;
        // Names of an entry, and whether it changed.
        let mut entries = BTreeMap::<IndexKey, (_, bool)>::new();
        let mut names = 0;
        for entry in described {
            let budget = &mut Budget::new(cost::LOOKUP.saturating_mul(4));
            let Some((prefix, _)) = entry.name.split_once('/') else { continue };
            let Some(prefix) = self.prefix_record(prefix, budget).await? else { continue };
            let Some(key) = description_of(&entry, &prefix)? else { continue };
            let policy = decode::<Prefix>(&prefix)?.policy.duplicates.unwrap_or_default();
            if policy == DuplicatePolicy::Allow {
                continue;
            }
            names += 1;
            let (listed, is_changed) = match entries.entry(key) {
                btree_map::Entry::Occupied(listed) => listed.into_mut(),
                btree_map::Entry::Vacant(vacant) => {
                    let value = self.store.get_aux(&key).await.map_err(Error::from)?;
                    vacant.insert((decode_names(value.as_deref()), false))
                }
            };
            if listed.len() < MAX_NAMES && !listed.iter().any(|other| other.eq_ignore_ascii_case(&entry.name))
            {
                listed.push(entry.name.clone());
                *is_changed = true;
            }
        }
        let changed = entries.into_iter().filter(|(_, (_, is_changed))| *is_changed);
        let edits = changed.map(|(key, (names, _))| put_or_remove(key.into(), &names)).collect();
        Ok((names, edits, last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(metadata: &str) -> Option<IndexKey> {
        let raw = RawValue::from_string(metadata.to_owned()).unwrap();
        index_key("registrant", Some(&raw)).unwrap()
    }

    #[test]
    fn descriptions() {
        let metadata = |title: &str, author: &str, date: &str, kind: &str| {
            format!(
                r#"{{"primaryReferentType":"Creation","referentCreation":{{"name":[{{"value":"{title}","type":"Title"}}],
                "structuralType":"Digital","type":["{kind}"],"principalAgent":[{{"name":{{"value":"{author}","type":"Name"}},
                "role":"Author"}},{{"name":{{"value":"House {date}","type":"Name"}},"role":"Publisher"}}],
                "creationDate":{{"date":"{date}"}}}}}}"#
            )
        };
        let first = hash(&metadata("A title", "Bak, Per", "1987", "Article"));
        assert!(first.is_some());
        assert_eq!(hash(&metadata(" a  TITLE ", "bak, per", "1987", "article")), first);
        for other in [
            metadata("B title", "Bak, Per", "1987", "Article"),
            metadata("A title", "Tang, Chao", "1987", "Article"),
            metadata("A title", "Bak, Per", "1988", "Article"),
            metadata("A title", "Bak, Per", "1987", "Book"),
        ] {
            assert_ne!(hash(&other), first, "{other}");
        }
        let party =
            r#"{"primaryReferentType":"Party","referentParty":{"name":[{"value":"A title","type":"Name"}]}}"#;
        assert!(hash(party).is_some_and(|hash| Some(hash) != first));
        assert_eq!(index_key("registrant", None).unwrap(), None);
    }
}
