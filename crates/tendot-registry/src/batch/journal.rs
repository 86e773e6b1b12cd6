//! Journal of a batch with an idempotency key: results of committed lines, to resume or replay the batch.

use std::collections::HashSet;
use std::fmt;
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use tendot_proto::HandleValue;
use tendot_store::{Edit, HistoryOrder, NameKey, Store};

use super::chunk::{JournalChunk, RefusedLine};
use super::line::{BatchLine, BatchLineOutcome, RawLine};
use super::run::BatchInput;
use super::{MAX_GROUP_BYTES, MAX_GROUP_LINES, MAX_IN_FLIGHT};
use crate::idempotency::{is_expired_entry, key_in_use, key_reused};
use crate::party::sha256_hex;
use crate::{IdempotencyKey, KeyLock, Registry, RegistryError};

/// Maximum number of bytes of lines that were in flight when a batch was interrupted, while later ones were committed.
const MAX_GAP_BYTES: usize = 2 * MAX_IN_FLIGHT * MAX_GROUP_BYTES;

/// Maximum total size of retried lines whose text is not journaled because it contains secrets.
const MAX_RESENT_BYTES: usize = 16 << 20;

/// Author of the journal header.
const AUTHOR: &str = "batch";

/// Journal of a batch with an idempotency key. Clones share the lock of the key.
#[derive(Clone, Debug)]
pub struct BatchJournal(Arc<JournalState>);

#[derive(Debug)]
struct JournalState {
    header: JournalHeader,
    /// Lock against a concurrent run in this process.
    lock: KeyLock,
    /// Sequence number of the last log entry when this run began.
    log_end: u64,
    blocked: Mutex<BlockedLines>,
}

/// Lines of this run that were refused because the disk was full, which could not be journaled either. They are executed when the
/// batch is sent again, and so must be later lines of the same names.
#[derive(Debug, Default)]
struct BlockedLines {
    has_lines: bool,
    /// Bytes of the lines.
    bytes: usize,
    names: HashSet<NameKey>,
}

/// Maximum number of names, and of bytes, of blocked lines; then the batch is aborted. The other half of the gaps that a resumed batch
/// may have is for lines in flight.
const MAX_BLOCKED_NAMES: usize = 100_000;
const MAX_BLOCKED_BYTES: usize = MAX_GAP_BYTES / 2;

/// Header of a batch journal: start, state, format and owner.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct JournalHeader {
    /// In milliseconds since 1970.
    created_at: u64,
    /// Sequence number of the last log entry when the batch began.
    log_start: u64,
    is_complete: bool,
    /// Fingerprint of the line format: JSON, or CSV with these columns.
    format: String,
    /// Id of the run that owns the batch: the last one that was started. Earlier runs, here or at another server of the same
    /// store, stop.
    owner: String,
}

impl JournalHeader {
    fn to_bytes(&self) -> Box<[u8]> {
        serde_json::to_vec(self).unwrap_or_default().into()
    }
}

/// Journal for one line group: its lines as received, and the renderer of its results.
#[derive(Clone, Copy)]
pub struct GroupJournal<'a> {
    /// Journal of the batch.
    pub journal: &'a BatchJournal,
    /// Lines as received.
    pub raw: &'a [RawLine],
    /// Renders the results, as they are replayed: one line each.
    pub render: ResultRenderer<'a>,
}

/// Renders results, one line each.
pub(super) type ResultRenderer<'a> = &'a (dyn Fn(&[BatchLineOutcome]) -> Bytes + Send + Sync);

impl fmt::Debug for GroupJournal<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("GroupJournal").field("journal", self.journal).finish_non_exhaustive()
    }
}

impl GroupJournal<'_> {
    /// Edits that journal the results of lines, provided that this run still owns the batch.
    pub(super) fn edits(&self, lines: &[BatchLine], outcomes: &[BatchLineOutcome]) -> Vec<Edit> {
        let (Some(first), Some(last)) = (outcomes.first(), outcomes.last()) else { return Vec::new() };
        let (first_line, last_line) = (first.number, last.number);
        let raw = || self.raw.iter().filter(|line| (first_line..=last_line).contains(&line.number));
        let refused = lines.iter().zip(outcomes).enumerate().filter_map(|(position, (line, outcome))| {
            // A line that cannot be parsed is refused in every run.
            let can_be_retried = outcome.result.is_err() && line.request.is_ok();
            let raw = raw().find(|raw| can_be_retried && raw.number == line.number)?;
            let text = raw.text.as_ref().ok()?;
            let text = (!has_secrets(line)).then(|| text.clone());
            Some(RefusedLine { position, number: line.number, text })
        });
        let chunk = JournalChunk {
            first_line,
            last_line,
            // Without a fingerprint, a chunk matches no resent lines, and is not executed again.
            fingerprint: fingerprint_lines(raw()).unwrap_or_default(),
            refused: refused.collect(),
            results: (self.render)(outcomes),
        };
        self.journal.put_chunk(&chunk, None)
    }

    /// Blocks lines that were refused without a journal entry; false if there are too many.
    pub(super) fn block_lines(&self, lines: &[BatchLine]) -> bool {
        let is_blocked = |raw: &&RawLine| lines.iter().any(|line| line.number == raw.number);
        let bytes = self.raw.iter().filter(is_blocked).map(RawLine::byte_len).sum();
        self.journal.block_lines(lines, bytes)
    }
}

/// Whether a line has values that must not be stored unless it is accepted.
fn has_secrets(line: &BatchLine) -> bool {
    let values = line.request.as_ref().ok().and_then(|request| request.values.as_ref());
    values.is_some_and(|values| values.iter().any(HandleValue::is_secret))
}

/// Reason why a batch cannot be resumed.
#[derive(Debug)]
pub enum ReplayError<E> {
    /// Error of the registry, such as lines that differ from the journal.
    Registry(RegistryError),
    /// The input ended early.
    Input(E),
}

impl<E> From<RegistryError> for ReplayError<E> {
    fn from(error: RegistryError) -> Self {
        Self::Registry(error)
    }
}

/// Steps of a resumed batch: journal chunks to replay and lines to execute, in order.
#[derive(Debug, Default)]
pub struct ReplayPlan {
    pub(super) steps: Vec<ReplayStep>,
}

/// Part of a resumed batch: replay a chunk, or execute lines.
#[derive(Debug)]
pub(super) enum ReplayStep {
    /// Replay a journal chunk.
    Replay(ChunkReplay),
    /// Execute these lines.
    Execute(Vec<RawLine>),
}

/// Replay of a journal chunk.
#[derive(Debug)]
pub(super) struct ChunkReplay {
    /// Line that it begins with.
    pub(super) first_line: u64,
    /// Resent lines whose text is not in the journal.
    pub(super) resent: Vec<RawLine>,
}

impl Registry {
    /// Opens the journal of a batch: resumes it, or starts a new one. `format` describes the syntax of the lines, which must
    /// not change; `run_id` is random.
    pub async fn open_journal(
        &self,
        lock: KeyLock,
        format: &str,
        run_id: [u8; 16],
        now_ms: u64,
    ) -> Result<BatchJournal, RegistryError> {
        let log_end = self.rules.store.head().await?.sequence;
        let mut header = JournalHeader {
            created_at: now_ms,
            log_start: log_end,
            is_complete: false,
            format: sha256_hex(format.as_bytes())?,
            owner: HEXLOWER.encode(&run_id),
        };
        let aux_key = lock.key.aux_key().as_bytes();
        let mut stored = self.rules.store.get_aux(aux_key).await?;
        if let Some(expired) = stored.take_if(|entry| is_expired_entry(entry, now_ms)) {
            self.remove_key(aux_key, expired, now_ms).await?;
        }
        if let Some(entry) = &stored {
            // The entry of a single registration is not a journal.
            let existing = serde_json::from_slice::<JournalHeader>(entry).map_err(|_| key_reused())?;
            if existing.format != header.format {
                return Err(key_reused());
            }
            if existing.is_complete {
                return Ok(BatchJournal(Arc::new(JournalState {
                    header: existing,
                    lock,
                    log_end,
                    blocked: Mutex::default(),
                })));
            }
            header = JournalHeader { owner: header.owner, ..existing };
        }
        let edits = vec![
            Edit::RequireAux { key: aux_key.into(), value: stored },
            Edit::PutAux { key: aux_key.into(), value: header.to_bytes() },
        ];
        if self.commit_once(AUTHOR, now_ms, edits).await? {
            return Ok(BatchJournal(Arc::new(JournalState {
                header,
                lock,
                log_end,
                blocked: Mutex::default(),
            })));
        }
        Err(IdempotencyKey::in_use_error())
    }

    /// Marks a batch as complete.
    pub(super) async fn mark_complete(
        &self,
        journal: &BatchJournal,
        now_ms: u64,
    ) -> Result<(), RegistryError> {
        let header = &journal.0.header;
        let key: Box<[u8]> = journal.aux_key().as_bytes().into();
        let complete = JournalHeader { is_complete: true, ..header.clone() };
        let edits = vec![
            Edit::RequireAux { key: key.clone(), value: Some(header.to_bytes()) },
            Edit::PutAux { key, value: complete.to_bytes() },
        ];
        if self.commit_once(AUTHOR, now_ms, edits).await? {
            return Ok(());
        }
        Err(IdempotencyKey::in_use_error())
    }

    async fn next_chunk(
        &self,
        journal: &BatchJournal,
        after: Option<u64>,
    ) -> Result<Option<JournalChunk>, RegistryError> {
        let prefix = format!("{}/", journal.aux_key());
        let after = after.map(|first_line| journal.chunk_key(first_line));
        let after = after.as_deref().map(str::as_bytes);
        let entries = self.rules.store.list_aux(prefix.as_bytes(), after, 1).await?;
        let Some(entry) = entries.into_iter().next() else { return Ok(None) };
        JournalChunk::parse(entry.value.into()).map(Some).ok_or_else(key_reused)
    }

    /// Chunk that begins with a line.
    pub(super) async fn journaled_chunk(
        &self,
        journal: &BatchJournal,
        first_line: u64,
    ) -> Result<JournalChunk, RegistryError> {
        let stored = self.rules.store.get_aux(journal.chunk_key(first_line).as_bytes()).await?;
        let chunk = stored.and_then(|stored| JournalChunk::parse(stored.into()));
        chunk.ok_or_else(|| key_in_use("the results stored under this `Idempotency-Key` were purged"))
    }

    /// Whether the name of a line was changed after the batch began and before this run, by the batch or otherwise.
    pub(super) async fn was_changed_since(
        &self,
        journal: &BatchJournal,
        line: &BatchLine,
    ) -> Result<bool, RegistryError> {
        let Some(key) = name_key(line) else { return Ok(false) };
        let JournalState { header, log_end, .. } = &*journal.0;
        let order = HistoryOrder::OldestFirst { after: header.log_start };
        let history = self.rules.store.history(&key, order, 1).await?;
        Ok(history.entries.first().is_some_and(|entry| entry.log_entry.sequence <= *log_end))
    }
}

impl BatchJournal {
    fn aux_key(&self) -> &str {
        self.0.lock.key.aux_key()
    }

    /// Aux key of the chunk that begins with a line.
    fn chunk_key(&self, first_line: u64) -> String {
        format!("{}/{first_line:016x}", self.aux_key())
    }

    /// Edits that write a chunk instead of the stored one, provided that this run still owns the batch.
    pub(super) fn put_chunk(&self, chunk: &JournalChunk, stored: Option<&JournalChunk>) -> Vec<Edit> {
        let key: Box<[u8]> = self.chunk_key(chunk.first_line).into_bytes().into();
        vec![
            Edit::RequireAux { key: self.aux_key().as_bytes().into(), value: Some(self.0.header.to_bytes()) },
            Edit::RequireAux { key: key.clone(), value: stored.map(JournalChunk::to_bytes) },
            Edit::PutAux { key, value: chunk.to_bytes() },
        ]
    }

    /// Blocks lines of this number of bytes; false if there are too many.
    fn block_lines(&self, lines: &[BatchLine], bytes: usize) -> bool {
        let mut blocked = self.0.blocked.lock().unwrap_or_else(PoisonError::into_inner);
        blocked.has_lines = true;
        blocked.bytes = blocked.bytes.saturating_add(bytes);
        blocked.names.extend(lines.iter().filter_map(name_key));
        blocked.bytes <= MAX_BLOCKED_BYTES && blocked.names.len() <= MAX_BLOCKED_NAMES
    }

    /// Whether one of the lines has the name of a blocked one.
    pub(super) fn has_blocked_lines(&self, lines: &[BatchLine]) -> bool {
        let blocked = self.0.blocked.lock().unwrap_or_else(PoisonError::into_inner);
        !blocked.names.is_empty() && lines.iter().filter_map(name_key).any(|key| blocked.names.contains(&key))
    }

    /// Whether the batch can be marked as complete: all of its lines are journaled.
    pub(super) fn has_all_lines(&self) -> bool {
        !self.0.blocked.lock().unwrap_or_else(PoisonError::into_inner).has_lines
    }

    /// Whether the batch was executed completely before.
    pub fn is_complete(&self) -> bool {
        self.0.header.is_complete
    }

    /// Reads the resent lines, compares them with the journal, and plans the replay up to the last line that was committed.
    pub async fn plan_replay<I: BatchInput>(
        &self,
        registry: &Registry,
        input: &mut I,
    ) -> Result<ReplayPlan, ReplayError<I::Error>> {
        let (mut steps, mut after, mut remaining) = (Vec::new(), None, MAX_GAP_BYTES);
        let mut remaining_resent = MAX_RESENT_BYTES;
        while let Some(chunk) = registry.next_chunk(self, after).await? {
            let mut comparison = ChunkComparison::new(&chunk, remaining);
            while !comparison.is_finished {
                let line = input.next().await.map_err(ReplayError::Input)?;
                comparison.add(line, &mut steps)?;
            }
            remaining = comparison.remaining;
            if fingerprint_lines(comparison.lines.iter())? != chunk.fingerprint {
                return Err(key_reused().into());
            }
            if !comparison.gap.is_empty() {
                steps.push(ReplayStep::Execute(comparison.gap));
            }
            let resent = lines_without_text(&chunk, &comparison.lines, &mut remaining_resent);
            steps.push(ReplayStep::Replay(ChunkReplay { first_line: chunk.first_line, resent }));
            after = Some(chunk.first_line);
        }
        let has_no_gaps = !steps.iter().any(|step| matches!(step, ReplayStep::Execute(_)));
        if self.is_complete() && !(has_no_gaps && matches!(input.next().await, Ok(None))) {
            return Err(key_reused().into());
        }
        Ok(ReplayPlan { steps })
    }
}

/// Resent lines whose text is not in the journal, as long as there is room for them; others stay refused.
fn lines_without_text(chunk: &JournalChunk, lines: &[RawLine], remaining: &mut usize) -> Vec<RawLine> {
    let refused = chunk.refused.iter().filter(|refused| refused.text.is_none());
    let numbers: HashSet<u64> = refused.map(|refused| refused.number).collect();
    let resent = lines.iter().filter(|line| numbers.contains(&line.number)).map_while(|line| {
        *remaining = remaining.checked_sub(line.byte_len())?;
        // Copied, since the buffer that it is part of may be large.
        let text = line.text.as_ref().map(|text| Bytes::copy_from_slice(text)).map_err(Clone::clone);
        Some(RawLine { number: line.number, text })
    });
    resent.collect()
}

/// Resent lines up to the end of a chunk: those before it, which are executed, and those to compare with it.
struct ChunkComparison<'a> {
    chunk: &'a JournalChunk,
    /// Bytes that may still be in gaps.
    remaining: usize,
    gap: Vec<RawLine>,
    gap_bytes: usize,
    lines: Vec<RawLine>,
    line_bytes: usize,
    is_finished: bool,
}

impl<'a> ChunkComparison<'a> {
    const fn new(chunk: &'a JournalChunk, remaining: usize) -> Self {
        Self {
            chunk,
            remaining,
            gap: Vec::new(),
            gap_bytes: 0,
            lines: Vec::new(),
            line_bytes: 0,
            is_finished: false,
        }
    }

    /// Adds the next line; fails if it cannot belong to the journaled batch. Full groups of the gap become steps.
    fn add(&mut self, line: Option<RawLine>, steps: &mut Vec<ReplayStep>) -> Result<(), RegistryError> {
        let line = line.filter(|line| line.number <= self.chunk.last_line).ok_or_else(key_reused)?;
        let (number, length) = (line.number, line.byte_len());
        if number < self.chunk.first_line {
            self.remaining = self.remaining.checked_sub(length).ok_or_else(key_reused)?;
            self.gap_bytes += length;
            self.gap.push(line);
            if self.gap.len() == MAX_GROUP_LINES || self.gap_bytes >= MAX_GROUP_BYTES {
                steps.push(ReplayStep::Execute(mem::take(&mut self.gap)));
                self.gap_bytes = 0;
            }
            return Ok(());
        }
        self.line_bytes += length;
        self.lines.push(line);
        self.is_finished = number == self.chunk.last_line;
        if self.line_bytes > 2 * MAX_GROUP_BYTES { Err(key_reused()) } else { Ok(()) }
    }
}

/// Key of the name that a line changes.
pub(super) fn name_key(line: &BatchLine) -> Option<NameKey> {
    NameKey::new(line.request.as_ref().ok()?.name.as_deref()?).ok()
}

/// Fingerprint of lines.
fn fingerprint_lines<'a>(lines: impl Iterator<Item = &'a RawLine>) -> Result<String, RegistryError> {
    let mut all = Vec::new();
    for RawLine { number, text } in lines {
        let (mark, text) = match text {
            Ok(text) => (' ', &**text),
            Err(reason) => ('!', reason.as_bytes()),
        };
        all.extend(format!("\n{number}{mark}{}\n", text.len()).into_bytes());
        all.extend_from_slice(text);
    }
    Ok(sha256_hex(&all)?)
}
