//! Journal of a batch with an idempotency key: results of committed lines, to resume or replay the batch.

use std::mem;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tendot_registry::registration::BatchLineOutcome;
use tendot_registry::{Registry, RegistryError};
use tendot_store::{ChangeSet, CommitError, Edit, Store};
use tokio::sync::OwnedMutexGuard;

use crate::clock::unix_millis;
use crate::http::api_v1::ApiError;
use crate::http::api_v1::batch::endpoint::key_in_use;
use crate::http::api_v1::batch::outcomes::render_results;
use crate::http::api_v1::batch::row_reader::{
    MAX_GROUP_BYTES, MAX_GROUP_LINES, RawLine, RowReader, fingerprint_lines,
};
use crate::http::api_v1::batch::run::MAX_IN_FLIGHT;
use crate::http::api_v1::idempotency::{is_expired, key_reused, remove_key, store_error};
use crate::http::pages::problem;

/// Bytes of lines that were in flight when a batch was interrupted, while later ones were committed.
const MAX_GAP_BYTES: usize = 2 * MAX_IN_FLIGHT * MAX_GROUP_BYTES;

/// Journal of a batch with an idempotency key.
pub(super) struct Journal {
    pub(super) aux_key: String,
    pub(super) header: JournalHeader,
    /// Lock against a concurrent run on this server.
    _lock: OwnedMutexGuard<()>,
}

/// Header of a batch journal: start, state, format and owner.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct JournalHeader {
    /// Unix time in milliseconds.
    pub(super) created_at: u64,
    pub(super) is_complete: bool,
    /// Fingerprint of the line format: JSON, or CSV with these columns.
    pub(super) format: String,
    /// Id of the run that owns the batch: the last one that was started. Earlier runs, here or at another server of the same
    /// store, stop.
    pub(super) owner: String,
}

impl JournalHeader {
    pub(super) fn to_bytes(&self) -> Box<[u8]> {
        serde_json::to_vec(self).unwrap_or_default().into()
    }
}

/// Journal entry: results of lines that were committed together.
///
/// Later lines may be journaled while earlier ones are not: groups are committed concurrently.
pub(super) struct JournalChunk {
    /// Numbers of the first and last line, and the fingerprint of all.
    first_line: u64,
    last_line: u64,
    fingerprint: String,
    pub(super) results: Bytes,
}

/// Part of a resumed batch: replay a chunk, or process lines.
pub(super) enum ReplayStep {
    /// Replay the journal chunk that begins with this line.
    Replay(u64),
    /// Process these lines.
    Process(Vec<RawLine>),
}

impl JournalChunk {
    /// Aux key of a chunk.
    pub(super) fn key(aux_key: &str, first_line: u64) -> String {
        format!("{aux_key}/{first_line:016x}")
    }

    /// Parses a stored chunk.
    pub(super) fn parse(stored: Bytes) -> Option<Self> {
        let end = stored.iter().position(|byte| *byte == b'\n')?;
        let mut header = std::str::from_utf8(&stored[..end]).ok()?.split(' ');
        let (first_line, last_line) = (header.next()?.parse().ok()?, header.next()?.parse().ok()?);
        let fingerprint = header.next()?.to_owned();
        Some(Self { first_line, last_line, fingerprint, results: stored.slice(end + 1..) })
    }

    /// Edits that journal the results of lines, provided that this run still owns the batch.
    pub(super) fn edits(
        aux_key: &str,
        header: &[u8],
        raw: &[RawLine],
        outcomes: &[BatchLineOutcome],
    ) -> Vec<Edit> {
        let (Some(first), Some(last)) = (outcomes.first(), outcomes.last()) else { return Vec::new() };
        let (first, last) = (first.number, last.number);
        // Without a fingerprint, a chunk matches no resent lines, and is not executed again.
        let lines = raw.iter().filter(|line| (first..=last).contains(&line.number));
        let fingerprint = fingerprint_lines(lines).unwrap_or_default();
        let chunk_header = format!("{first} {last} {fingerprint}\n");
        let body = [chunk_header.as_bytes(), &render_results(outcomes)].concat().into();
        let key: Box<[u8]> = Self::key(aux_key, first).into_bytes().into();
        vec![
            Edit::RequireAux { key: aux_key.as_bytes().into(), value: Some(header.into()) },
            Edit::RequireAux { key: key.clone(), value: None },
            Edit::PutAux { key, value: body },
        ]
    }
}

impl Journal {
    /// Resumes a batch, or starts a new one.
    pub(super) async fn open(
        registry: &Registry,
        aux_key: String,
        mut header: JournalHeader,
        lock: OwnedMutexGuard<()>,
    ) -> Result<Self, Box<ApiError>> {
        let now_ms = header.created_at;
        let mut stored = registry.store().get_aux(aux_key.as_bytes()).await.map_err(store_error)?;
        if let Some(body) = &stored {
            // The entry of a single registration is not a journal.
            let Ok(existing) = serde_json::from_slice::<JournalHeader>(body) else {
                return Err(key_reused());
            };
            if is_expired(existing.created_at, now_ms) {
                remove_key(registry, aux_key.as_bytes(), body.clone(), now_ms).await?;
                stored = None;
            } else if existing.format != header.format {
                return Err(key_reused());
            } else if existing.is_complete {
                return Ok(Self { aux_key, header: existing, _lock: lock });
            } else {
                header = JournalHeader { owner: header.owner, ..existing };
            }
        }
        let key: Box<[u8]> = aux_key.as_bytes().into();
        let edits = vec![
            Edit::RequireAux { key: key.clone(), value: stored },
            Edit::PutAux { key, value: header.to_bytes() },
        ];
        match registry.store().commit(ChangeSet { author: "batch".into(), timestamp_ms: now_ms, edits }).await
        {
            Ok(_) => Ok(Self { aux_key, header, _lock: lock }),
            Err(CommitError::AuxConflict { .. }) => Err(key_in_use()),
            Err(error) => Err(RegistryError::from(error).into()),
        }
    }

    /// Reads the resent lines, compares them with the journal, and plans the replay up to the last line that was committed.
    pub(super) async fn plan_replay(
        &self,
        registry: &Registry,
        reader: &mut RowReader,
    ) -> Result<Vec<ReplayStep>, Box<ApiError>> {
        let (mut steps, mut after, mut remaining) = (Vec::new(), None, MAX_GAP_BYTES);
        while let Some(chunk) = self.next_chunk(registry, after).await? {
            let (mut gap, mut gap_bytes) = (Vec::new(), 0);
            let (mut lines, mut bytes) = (Vec::new(), 0);
            loop {
                let next = reader.next().await;
                let next = next.map_err(|error| problem(error.status(), error.code(), error.to_string()))?;
                let Some(line) = next.filter(|line| line.number <= chunk.last_line) else {
                    return Err(key_reused());
                };
                let (number, length) = (line.number, line.len());
                if number < chunk.first_line {
                    remaining = usize::checked_sub(remaining, length).ok_or_else(key_reused)?;
                    gap_bytes += length;
                    gap.push(line);
                    if gap.len() == MAX_GROUP_LINES || gap_bytes >= MAX_GROUP_BYTES {
                        steps.push(ReplayStep::Process(mem::take(&mut gap)));
                        gap_bytes = 0;
                    }
                    continue;
                }
                bytes += length;
                lines.push(line);
                if bytes > 2 * MAX_GROUP_BYTES {
                    return Err(key_reused());
                }
                if number == chunk.last_line {
                    break;
                }
            }
            if fingerprint_lines(lines.iter())? != chunk.fingerprint {
                return Err(key_reused());
            }
            if !gap.is_empty() {
                steps.push(ReplayStep::Process(gap));
            }
            steps.push(ReplayStep::Replay(chunk.first_line));
            after = Some(chunk.first_line);
        }
        let has_no_gaps = !steps.iter().any(|step| matches!(step, ReplayStep::Process(_)));
        if self.header.is_complete && !(has_no_gaps && matches!(reader.next().await, Ok(None))) {
            return Err(key_reused());
        }
        Ok(steps)
    }

    async fn next_chunk(
        &self,
        registry: &Registry,
        after: Option<u64>,
    ) -> Result<Option<JournalChunk>, Box<ApiError>> {
        let prefix = format!("{}/", self.aux_key);
        let after = after.map(|first_line| JournalChunk::key(&self.aux_key, first_line));
        let after = after.as_deref().map(str::as_bytes);
        let entries = registry.store().list_aux(prefix.as_bytes(), after, 1).await.map_err(store_error)?;
        let Some(entry) = entries.into_iter().next() else { return Ok(None) };
        JournalChunk::parse(entry.value.into()).map(Some).ok_or_else(key_reused)
    }

    /// Marks the batch as complete.
    pub(super) async fn mark_complete(&self, registry: &Registry) -> Result<(), Box<ApiError>> {
        let header = JournalHeader { is_complete: true, ..self.header.clone() };
        let key: Box<[u8]> = self.aux_key.as_bytes().into();
        let edits = vec![
            Edit::RequireAux { key: key.clone(), value: Some(self.header.to_bytes()) },
            Edit::PutAux { key, value: header.to_bytes() },
        ];
        let change = ChangeSet { author: "batch".into(), timestamp_ms: unix_millis(), edits };
        registry.store().commit(change).await.map_err(RegistryError::from)?;
        Ok(())
    }
}
