//! What was counted of resolutions, as notes of the store: nothing of it says who asked.
//!
//! - `figures/resolved/PREFIX/FINGERPRINT`: a name that was resolved, how often, and on which days first and last;
//! - `figures/failed/PREFIX/FINGERPRINT`: a name that was asked for and not found, and how often on which day.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tendot_proto::Budget;
use tendot_store::{ChangeSet, CommitError, Edit, NameKey, Store};
use xxhash_rust::xxh3::xxh3_64;

use crate::{Error, Registry, RegistryError};

const RESOLVED_KEY_PREFIX: &str = "figures/resolved/";
const FAILED_KEY_PREFIX: &str = "figures/failed/";

/// Notes that are read or written together.
const STATS_BATCH_LEN: usize = 500;

/// How often notes are read again that somebody else has changed meanwhile.
const TRIES: usize = 8;

/// Resolutions of a name since the last flush.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ResolutionCount {
    /// The prefix, which was given to somebody.
    pub prefix: Arc<str>,
    /// The name, see [`fingerprint`].
    pub fingerprint: u64,
    /// How often.
    pub count: u64,
}

/// Failed resolutions of a name since the last flush.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FailedResolutionCount {
    /// The prefix, which was given to somebody.
    pub prefix: Arc<str>,
    /// The name, as it was asked for.
    pub name: Box<str>,
    /// How often.
    pub count: u64,
}

/// A name in 64 bits, by which it is counted: the same in every spelling.
pub fn name_hash(name: &NameKey) -> u64 {
    xxh3_64(name.as_bytes())
}

/// Stored resolution statistics of a name; days since 1970.
///
/// Days are counted from 1970 on.
#[derive(Deserialize, Serialize)]
pub(super) struct ResolutionStats {
    pub(super) count: u64,
    pub(super) first: u32,
    pub(super) last: u32,
}

/// Stored statistics of failed resolutions of a name.
#[derive(Deserialize, Serialize)]
pub(super) struct FailedResolutionStats {
    pub(super) name: Box<str>,
    /// How often on which day, counted from 1970 on.
    pub(super) days: BTreeMap<u32, u64>,
}

impl FailedResolutionStats {
    pub(super) fn total(&self) -> u64 {
        self.days.values().fold(0, |sum, count| sum.saturating_add(*count))
    }
}

fn stats_key(kind: &str, prefix: &str, hash: u64) -> Box<[u8]> {
    let mut key = format!("{kind}{prefix}/").into_bytes();
    key.extend_from_slice(&hash.to_be_bytes());
    key.into()
}

fn encode(body: &impl Serialize) -> Box<[u8]> {
    serde_json::to_vec(body).unwrap_or_default().into()
}

/// A note that can't be read counts for nothing.
fn decode<'a, T: Deserialize<'a>>(body: Option<&'a [u8]>) -> Option<T> {
    serde_json::from_slice(body?).ok()
}

impl Registry {
    /// Whether a prefix was given to somebody, so that its names are counted.
    pub async fn is_allocated_prefix(&self, prefix: &str) -> Result<bool, Error> {
        let mut work = Budget::new(crate::price::LOOKUP);
        Ok(self.prefix_entry(prefix, &mut work).await?.is_some())
    }

    /// Adds resolutions to what is noted of names. No name may be there twice.
    pub async fn add_resolutions(&self, counted: &[ResolutionCount], at: u64) -> Result<(), RegistryError> {
        let today = day_number(at);
        self.update_stats(
            counted,
            |one| stats_key(RESOLVED_KEY_PREFIX, &one.prefix, one.fingerprint),
            |one, before| {
                let before =
                    decode(before).unwrap_or(ResolutionStats { count: 0, first: today, last: today });
                encode(&ResolutionStats {
                    count: before.count.saturating_add(one.count),
                    first: before.first.min(today),
                    last: before.last.max(today),
                })
            },
            at,
        )
        .await
    }

    /// Adds failures to what is noted of names. No name may be there twice.
    pub async fn add_failed_resolutions(
        &self,
        counted: &[FailedResolutionCount],
        at: u64,
    ) -> Result<(), RegistryError> {
        let hash = |name: &str| NameKey::new(name).map_or(0, |key| name_hash(&key));
        self.update_stats(
            counted,
            |one| stats_key(FAILED_KEY_PREFIX, &one.prefix, hash(&one.name)),
            |one, before| {
                let fresh = || FailedResolutionStats { name: one.name.clone(), days: BTreeMap::new() };
                let mut failed: FailedResolutionStats = decode(before).unwrap_or_else(fresh);
                let count = failed.days.entry(day_number(at)).or_default();
                *count = count.saturating_add(one.count);
                encode(&failed)
            },
            at,
        )
        .await
    }

    /// Changes notes by what they were: what another process notes at the same time is not lost.
    async fn update_stats<T: Sync>(
        &self,
        counted: &[T],
        key: impl Fn(&T) -> Box<[u8]> + Send + Sync,
        changed: impl Fn(&T, Option<&[u8]>) -> Box<[u8]> + Send + Sync,
        at: u64,
    ) -> Result<(), RegistryError> {
        for piece in counted.chunks(STATS_BATCH_LEN) {
            let mut tries = 0;
            loop {
                let mut edits = Vec::with_capacity(2 * piece.len());
                for one in piece {
                    let key = key(one);
                    let before = self.store.note(&key).await?;
                    let body = changed(one, before.as_deref());
                    edits.push(Edit::RequireNote { key: key.clone(), body: before });
                    edits.push(Edit::PutNote { key, body });
                }
                match self.store.commit(ChangeSet { by: "figures".into(), at, edits }).await {
                    Err(CommitError::Conflict(_) | CommitError::Note { .. }) if tries < TRIES => tries += 1,
                    Err(error) => return Err(error.into()),
                    Ok(_) => break,
                }
            }
        }
        Ok(())
    }

    /// Forgets what failed before a day, in some of the notes after one; where to go on, if there may be more.
    pub async fn purge_failed_resolutions(
        &self,
        oldest: u32,
        after: Option<&[u8]>,
        at: u64,
    ) -> Result<Option<Box<[u8]>>, RegistryError> {
        let notes = self.store.list_aux(FAILED_KEY_PREFIX.as_bytes(), after, STATS_BATCH_LEN).await?;
        let next =
            (notes.len() == STATS_BATCH_LEN).then(|| notes.last().map(|(key, _)| key.clone())).flatten();
        let mut edits = Vec::new();
        for (key, body) in notes {
            let failed = decode::<FailedResolutionStats>(Some(&body));
            let left = failed.and_then(|mut failed| {
                failed.days.retain(|day, _| *day >= oldest);
                (!failed.days.is_empty()).then(|| encode(&failed))
            });
            if left.as_ref() == Some(&body) {
                continue;
            }
            edits.push(Edit::RequireNote { key: key.clone(), body: Some(body) });
            edits.push(match left {
                Some(body) => Edit::PutNote { key, body },
                None => Edit::RemoveNote { key },
            });
        }
        self.commit_purge(edits, at).await?;
        Ok(next)
    }

    /// Forgets the rarest names that failed under a prefix, the oldest of them first, until there are no more than `most`.
    pub async fn trim_failed_resolutions(
        &self,
        prefix: &str,
        most: usize,
        at: u64,
    ) -> Result<(), RegistryError> {
        let mut all = Vec::new();
        self.visit_failed_resolutions(prefix, None, |hash, failed| {
            let last = failed.days.keys().next_back().copied().unwrap_or_default();
            all.push((failed.total(), last, hash));
            true
        })
        .await?;
        let over = all.len().saturating_sub(most);
        all.sort_unstable();
        all.truncate(over);
        for piece in all.chunks(STATS_BATCH_LEN) {
            let remove =
                |(_, _, hash): &_| Edit::RemoveNote { key: stats_key(FAILED_KEY_PREFIX, prefix, *hash) };
            self.commit_purge(piece.iter().map(remove).collect(), at).await?;
        }
        Ok(())
    }

    async fn commit_purge(&self, edits: Vec<Edit>, at: u64) -> Result<(), RegistryError> {
        if edits.is_empty() {
            return Ok(());
        }
        match self.store.commit(ChangeSet { by: "figures".into(), at, edits }).await {
            // Somebody counted meanwhile; the next sweep finds it again.
            Ok(_) | Err(CommitError::Conflict(_) | CommitError::Note { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Shows what failed under a prefix, by fingerprint, after one, as long as `visit` wants more.
    pub(super) async fn visit_failed_resolutions(
        &self,
        prefix: &str,
        after: Option<u64>,
        mut visit: impl FnMut(u64, FailedResolutionStats) -> bool + Send,
    ) -> Result<(), RegistryError> {
        let beginning = format!("{FAILED_KEY_PREFIX}{prefix}/").into_bytes();
        let mut after = after.map(|hash| stats_key(FAILED_KEY_PREFIX, prefix, hash));
        loop {
            let notes = self.store.list_aux(&beginning, after.as_deref(), STATS_BATCH_LEN).await?;
            let is_end = notes.len() < STATS_BATCH_LEN;
            after = notes.last().map(|(key, _)| key.clone());
            for (key, body) in notes {
                let hash = key.get(beginning.len()..).and_then(|bytes| bytes.try_into().ok());
                let Some(hash) = hash.map(u64::from_be_bytes) else { continue };
                let Some(failed) = decode::<FailedResolutionStats>(Some(&body)) else { continue };
                if !visit(hash, failed) {
                    return Ok(());
                }
            }
            if is_end {
                return Ok(());
            }
        }
    }

    /// What is noted of the resolutions of a name; none if it was never resolved.
    pub(super) async fn resolution_stats(
        &self,
        prefix: &str,
        name: &NameKey,
    ) -> Result<Option<ResolutionStats>, RegistryError> {
        let note = self.store.note(&stats_key(RESOLVED_KEY_PREFIX, prefix, name_hash(name))).await?;
        // That there is one tells enough.
        let unread = || ResolutionStats { count: 1, first: 0, last: 0 };
        Ok(note.map(|note| decode(Some(&note)).unwrap_or_else(unread)))
    }
}

/// The day of a time in milliseconds, both since 1970.
pub fn day_number(at: u64) -> u32 {
    u32::try_from(at / 86_400_000).unwrap_or(u32::MAX)
}
