//! Execution of a batch: groups of lines are committed in order, several in flight.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use tendot_registry::registration::{BatchLine, BatchLineOutcome, RegistrationRequest};
use tendot_registry::{Caller, Registry, RegistryError, codes};
use tendot_store::{NameKey, Store};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::clock::unix_millis;
use crate::http::api_v1::batch::csv::CsvColumns;
use crate::http::api_v1::batch::journal::{Journal, JournalChunk, ReplayStep};
use crate::http::api_v1::batch::outcomes::render_results;
use crate::http::api_v1::batch::row_reader::{LineGroup, MAX_GROUP_LINES, RawLine, RowReader};
use crate::http::response::stream::{BodySink, StreamAborted};

/// Groups read ahead, and groups committed concurrently: they share a sync.
const READ_AHEAD_GROUPS: usize = 2;
pub(super) const MAX_IN_FLIGHT: usize = 8;

/// Execution of one batch.
pub(super) struct BatchRun {
    pub(super) registry: Arc<Registry>,
    pub(super) caller: Caller,
    pub(super) dry_run: bool,
    pub(super) journal: Option<Journal>,
    pub(super) seed: [u8; 16],
    pub(super) format: LineFormat,
}

/// Line format: JSON or CSV.
#[derive(Clone)]
pub(super) enum LineFormat {
    Json,
    Csv(Arc<CsvColumns>),
}

/// Next item of the batch, in order.
enum WorkItem {
    /// Replay the journal chunk that begins with this line.
    Replay(u64),
    /// Commit these lines when they are parsed.
    Process(JoinHandle<Vec<BatchLine>>, LineGroup),
}

/// Task that commits a line group and renders its results.
type CommitTask = JoinHandle<Result<Bytes, RegistryError>>;

/// Line group being committed, and the names it changes.
struct InFlight {
    task: CommitTask,
    names: HashSet<NameKey>,
}

impl BatchRun {
    /// Executes the batch, and sends its result lines.
    pub(super) async fn run(
        self,
        reader: RowReader,
        steps: Vec<ReplayStep>,
        sink: BodySink,
    ) -> Result<(), StreamAborted> {
        let mut in_flight = VecDeque::new();
        let result = self.execute(reader, steps, &sink, &mut in_flight).await;
        // A client that is cut off and resends the batch must find everything that was committed.
        for group in in_flight {
            let _ = group.task.await;
        }
        result
    }

    async fn execute(
        &self,
        reader: RowReader,
        steps: Vec<ReplayStep>,
        sink: &BodySink,
        in_flight: &mut VecDeque<InFlight>,
    ) -> Result<(), StreamAborted> {
        let (sender, mut receiver) = mpsc::channel(READ_AHEAD_GROUPS);
        let reading = tokio::spawn(read_ahead(reader, steps, self.format.clone(), self.seed, sender));
        let mut ended = None;
        while ended.is_none() || !in_flight.is_empty() {
            tokio::select! {
                biased;
                results = async { in_flight.front_mut().map(|first| &mut first.task)?.await.ok() },
                    if !in_flight.is_empty() =>
                {
                    in_flight.pop_front();
                    sink.send(results.ok_or(StreamAborted)?.map_err(|error| log_abort(&error))?).await?;
                }
                next = receiver.recv(), if ended.is_none() && in_flight.len() < MAX_IN_FLIGHT => {
                    let (parsed, group) = match next {
                        None => {
                            ended = Some(None);
                            continue;
                        }
                        Some(WorkItem::Replay(first_line)) => {
                            let task = self.spawn_replay(first_line);
                            in_flight.push_back(InFlight { task, names: HashSet::new() });
                            continue;
                        }
                        Some(WorkItem::Process(parsed, group)) => (parsed, group),
                    };
                    let lines = parsed.await.map_err(|_| StreamAborted)?;
                    if group.error.is_some() {
                        ended = Some(group.error);
                    }
                    if !lines.is_empty() {
                        let names = changed_keys(&lines);
                        // Lines take effect in order: wait for the commit in flight that changes the same name.
                        while in_flight.iter().any(|group| !group.names.is_disjoint(&names)) {
                            let Some(mut first) = in_flight.pop_front() else { break };
                            let results = (&mut first.task).await.map_err(|_| StreamAborted)?;
                            sink.send(results.map_err(|error| log_abort(&error))?).await?;
                        }
                        in_flight.push_back(InFlight { task: self.spawn_commit(lines, group.lines), names });
                    }
                }
            }
        }
        if let Some(Some(error)) = ended {
            // Complete lines are committed; the client must see that the rest is missing.
            tracing::debug!(%error, "batch body incomplete");
            return Err(StreamAborted);
        }
        let _ = reading.await;
        if let Some(journal) = self.journal.as_ref().filter(|journal| !journal.header.is_complete) {
            journal.mark_complete(&self.registry).await.map_err(|_| StreamAborted)?;
        }
        Ok(())
    }

    /// Spawns the commit of lines; the task returns their results.
    fn spawn_commit(&self, lines: Vec<BatchLine>, raw: Vec<RawLine>) -> CommitTask {
        let journal =
            self.journal.as_ref().map(|journal| (journal.aux_key.clone(), journal.header.to_bytes()));
        let (registry, caller, dry_run) = (Arc::clone(&self.registry), self.caller.clone(), self.dry_run);
        tokio::spawn(async move {
            let journal_edits = |outcomes: &[BatchLineOutcome]| match &journal {
                Some((aux_key, header)) => JournalChunk::edits(aux_key, header, &raw, outcomes),
                None => Vec::new(),
            };
            let now_ms = unix_millis();
            let outcomes = registry.execute_batch(&lines, &caller, now_ms, dry_run, journal_edits).await?;
            Ok(render_results(&outcomes))
        })
    }

    /// Spawns the replay of a journal chunk.
    fn spawn_replay(&self, first_line: u64) -> CommitTask {
        let journal = self.journal.as_ref();
        let key = journal.map(|journal| JournalChunk::key(&journal.aux_key, first_line)).unwrap_or_default();
        let registry = Arc::clone(&self.registry);
        tokio::spawn(async move {
            let stored = registry.store().get_aux(key.as_bytes()).await?;
            let chunk = stored.and_then(|stored| JournalChunk::parse(stored.into()));
            chunk.map(|chunk| chunk.results).ok_or_else(|| {
                RegistryError::new(codes::WRITE_CONFLICT, "the stored results were purged meanwhile")
            })
        })
    }
}

/// Reads and parses lines that were not committed before, on all cores.
async fn read_ahead(
    mut reader: RowReader,
    steps: Vec<ReplayStep>,
    format: LineFormat,
    seed: [u8; 16],
    sender: mpsc::Sender<WorkItem>,
) {
    let parse = |group: LineGroup| {
        let (format, raw) = (format.clone(), group.lines.clone());
        let parsed =
            tokio::spawn(async move { raw.into_iter().map(|line| format.parse(line, seed)).collect() });
        WorkItem::Process(parsed, group)
    };
    for step in steps {
        let item = match step {
            ReplayStep::Replay(first_line) => WorkItem::Replay(first_line),
            ReplayStep::Process(lines) => parse(LineGroup { lines, error: None }),
        };
        if sender.send(item).await.is_err() {
            return;
        }
    }
    loop {
        let group = reader.next_group(MAX_GROUP_LINES).await;
        let is_last = group.lines.is_empty() || group.error.is_some();
        if sender.send(parse(group)).await.is_err() || is_last {
            return;
        }
    }
}

/// Keys of the names that lines change.
fn changed_keys(lines: &[BatchLine]) -> HashSet<NameKey> {
    let names = lines.iter().filter_map(|line| line.request.as_ref().ok()?.name.as_deref());
    names.filter_map(|name| NameKey::new(name).ok()).collect()
}

fn log_abort(error: &RegistryError) -> StreamAborted {
    match &error.source {
        Some(error) => tracing::error!(%error, "batch aborted"),
        None => tracing::warn!(detail = error.detail, "batch aborted"),
    }
    StreamAborted
}

impl LineFormat {
    fn parse(&self, line: RawLine, seed: [u8; 16]) -> BatchLine {
        let RawLine { number, text } = line;
        let malformed = |reason: &str| RegistryError::new(codes::MALFORMED, reason);
        let mut name = None;
        let request = text.map_err(|reason| malformed(&reason)).and_then(|text| match self {
            Self::Json => RegistrationRequest::from_json(&text)
                .inspect_err(|_| name = RegistrationRequest::peek_name(&text)),
            Self::Csv(columns) => match std::str::from_utf8(&text) {
                Ok(row) => columns.parse_row(row).inspect_err(|_| name = columns.name_in_row(row)),
                Err(_) => Err(malformed("row is not UTF-8")),
            },
        });
        // Each line gets its own random number: a multiple of an odd number, all of which differ.
        let random = u128::from_be_bytes(seed)
            ^ u128::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        BatchLine { number, request, name, random_bytes: random.to_be_bytes() }
    }
}
