//! Execution of a batch: groups of lines are committed in order, several in flight.

use core::net::IpAddr;
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use tendot_store::{NameKey, StoreError};
use tokio::sync::{Semaphore, SemaphorePermit, mpsc};
use tokio::task::JoinHandle;

use super::chunk::JournalChunk;
use super::journal::{BatchJournal, ChunkReplay, GroupJournal, ReplayPlan, ReplayStep, name_key};
use super::line::{BatchLine, BatchLineOutcome, LineGroup, RawLine};
use super::{BatchGroup, MAX_GROUP_LINES, MAX_IN_FLIGHT};
use crate::registration::RegistrationRequest;
use crate::{Caller, Registry, RegistryError};

/// Size of the groups that all batches of the process together parse and commit, in KiB. They take several times as much memory as
/// their lines.
const MAX_EXECUTED_KIB: usize = 4 << 10;

/// Bytes of a line in this sum besides its text.
const LINE_OVERHEAD_BYTES: usize = 256;

static EXECUTED_KIB: Semaphore = Semaphore::const_new(MAX_EXECUTED_KIB);

/// Share of a group in [`MAX_EXECUTED_KIB`]; released when the group is committed. Never held while results are sent: that takes as long
/// as the client likes.
type MemoryPermit = Option<SemaphorePermit<'static>>;

/// Waits until a group may be parsed. A batch gets its permits in the order of its groups, and a commit needs no further one, so
/// there is no deadlock.
async fn reserve_memory(lines: &[RawLine]) -> MemoryPermit {
    let bytes: usize = lines.iter().map(|line| line.byte_len() + LINE_OVERHEAD_BYTES).sum();
    let kib = bytes.div_ceil(1 << 10).min(MAX_EXECUTED_KIB);
    EXECUTED_KIB.acquire_many(kib as u32).await.ok()
}

/// Source of the lines of a batch.
pub trait BatchInput: Send + 'static {
    /// Error that ends the input early.
    type Error: Send + 'static;

    /// Next line; `None` at the end. Cancel-safe.
    fn next(&mut self) -> impl Future<Output = Result<Option<RawLine>, Self::Error>> + Send;

    /// Next group: lines that have arrived or arrive soon, at most `max_lines` and about
    /// [`MAX_GROUP_BYTES`](super::MAX_GROUP_BYTES); empty at the end.
    fn next_group(&mut self, max_lines: usize) -> impl Future<Output = LineGroup<Self::Error>> + Send;
}

/// Syntax of the lines of a batch and of their results.
pub trait BatchFormat: Clone + Send + Sync + 'static {
    /// Parses a line.
    fn parse(&self, text: &[u8]) -> Result<RegistrationRequest, RegistryError>;

    /// Reads the name of a line that cannot be parsed otherwise.
    fn peek_name(&self, text: &[u8]) -> Option<Box<str>>;

    /// Renders the results of lines: one line each, with a line break.
    fn render(&self, outcomes: &[BatchLineOutcome]) -> Bytes;
}

/// Destination of the results of a batch.
pub trait BatchOutput: Send + Sync {
    /// Sends rendered results, in the order of the lines.
    fn send(&self, results: Bytes) -> impl Future<Output = Result<(), OutputClosed>> + Send;
}

/// The destination of the results does not accept more of them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct OutputClosed;

/// Reason why a batch was aborted. Groups that were committed before stay committed.
#[derive(Debug)]
pub enum BatchError<E> {
    /// Error of the registry.
    Registry(RegistryError),
    /// The input ended early. All complete lines were executed.
    Input(E),
    /// The results cannot be sent.
    OutputClosed,
    /// A task panicked or was cancelled.
    TaskFailed,
}

impl<E> From<RegistryError> for BatchError<E> {
    fn from(error: RegistryError) -> Self {
        Self::Registry(error)
    }
}

impl<E> From<OutputClosed> for BatchError<E> {
    fn from(_: OutputClosed) -> Self {
        Self::OutputClosed
    }
}

/// Execution of one batch.
#[derive(Debug)]
pub struct BatchRun<F> {
    /// Registry that the names are registered in.
    pub registry: Arc<Registry>,
    /// Caller of the batch.
    pub caller: Caller,
    /// Address of the client, for the change log.
    pub client: Option<IpAddr>,
    /// Whether nothing is written.
    pub dry_run: bool,
    /// Journal, if the batch has an idempotency key.
    pub journal: Option<BatchJournal>,
    /// Random bytes for minted suffixes.
    pub seed: [u8; 16],
    /// Syntax of the lines.
    pub format: F,
}

/// Next item of the batch, in order.
enum WorkItem<E> {
    /// Replay a journal chunk.
    Replay(ChunkReplay),
    /// Parse and commit these lines.
    Execute(LineGroup<E>),
}

/// Task that commits a line group and renders its results.
type CommitTask = JoinHandle<Result<Bytes, RegistryError>>;

/// Line group being committed, and the names it changes.
struct InFlight {
    task: CommitTask,
    names: HashSet<NameKey>,
}

impl<F: BatchFormat> BatchRun<F> {
    /// Executes the batch in the current runtime, and sends the results of its lines.
    pub async fn run<I: BatchInput>(
        self,
        input: I,
        replay: ReplayPlan,
        output: &impl BatchOutput,
    ) -> Result<(), BatchError<I::Error>> {
        let mut in_flight = VecDeque::new();
        let result = self.execute(input, replay, output, &mut in_flight).await;
        // A client that is cut off and resends the batch must find everything that was committed.
        for group in in_flight {
            let _ = group.task.await;
        }
        result
    }

    async fn execute<I: BatchInput>(
        &self,
        input: I,
        replay: ReplayPlan,
        output: &impl BatchOutput,
        in_flight: &mut VecDeque<InFlight>,
    ) -> Result<(), BatchError<I::Error>> {
        let (sender, mut receiver) = mpsc::channel(1);
        let reading = tokio::spawn(read_ahead(input, replay, sender));
        let mut ended = None;
        while ended.is_none() || !in_flight.is_empty() {
            tokio::select! {
                biased;
                results = async { in_flight.front_mut().map(|first| &mut first.task)?.await.ok() },
                    if !in_flight.is_empty() =>
                {
                    in_flight.pop_front();
                    output.send(results.ok_or(BatchError::TaskFailed)??).await?;
                }
                next = receiver.recv(), if ended.is_none() && in_flight.len() < MAX_IN_FLIGHT => match next {
                    None => ended = Some(None),
                    Some(WorkItem::Replay(chunk)) => self.start_replay(chunk, output, in_flight).await?,
                    Some(WorkItem::Execute(LineGroup { lines, error })) => {
                        if error.is_some() {
                            ended = Some(error);
                        }
                        if !lines.is_empty() {
                            self.start_commit(lines, output, in_flight).await?;
                        }
                    }
                }
            }
        }
        if let Some(Some(error)) = ended {
            return Err(BatchError::Input(error));
        }
        let _ = reading.await;
        if let Some(journal) = self.journal.as_ref().filter(|journal| !journal.is_complete())
            && journal.has_all_lines()
        {
            match self.registry.mark_complete(journal, self.registry.now_ms()).await {
                // All lines are journaled: if the batch is sent again, it is replayed, and completed then.
                Err(RegistryError { source: Some(StoreError::DiskFull { .. }), .. }) => {}
                result => result?,
            }
        }
        Ok(())
    }

    /// Parses lines, and starts their commit after those of earlier lines of the same names.
    async fn start_commit<E>(
        &self,
        raw: Vec<RawLine>,
        output: &impl BatchOutput,
        in_flight: &mut VecDeque<InFlight>,
    ) -> Result<(), BatchError<E>> {
        // Commits in flight release their permits, whether or not the client reads their results.
        let permit = reserve_memory(&raw).await;
        let (format, seed, text) = (self.format.clone(), self.seed, raw.clone());
        // A task of its own, so that the connection goes on meanwhile.
        let parsed = tokio::spawn(async move {
            text.into_iter().map(|line| parse_line(&format, line, seed)).collect::<Vec<_>>()
        });
        let lines = parsed.await.map_err(|_| BatchError::TaskFailed)?;
        let names = changed_keys(&lines);
        let spawn = || self.spawn_commit(lines, raw, permit);
        start_in_order(in_flight, names, spawn, output).await
    }

    /// Starts the replay of a journal chunk after the commits of earlier lines of the same names.
    async fn start_replay<E>(
        &self,
        chunk: ChunkReplay,
        output: &impl BatchOutput,
        in_flight: &mut VecDeque<InFlight>,
    ) -> Result<(), BatchError<E>> {
        let Some(journal) = &self.journal else { return Ok(()) };
        let ChunkReplay { first_line, resent } = chunk;
        let chunk = self.registry.journaled_chunk(journal, first_line).await?;
        let raw = chunk.refused.iter().filter_map(|line| line.to_raw(&resent));
        let lines: Vec<_> = raw.map(|line| parse_line(&self.format, line, self.seed)).collect();
        let names = changed_keys(&lines);
        let spawn = || self.spawn_replay(journal.clone(), chunk, lines);
        start_in_order(in_flight, names, spawn, output).await
    }

    /// Spawns the commit of lines; the task returns their results.
    fn spawn_commit(&self, lines: Vec<BatchLine>, raw: Vec<RawLine>, permit: MemoryPermit) -> CommitTask {
        let (registry, caller, format) =
            (Arc::clone(&self.registry), self.caller.clone(), self.format.clone());
        let (journal, dry_run, client) = (self.journal.clone(), self.dry_run, self.client);
        let now_ms = self.registry.now_ms();
        tokio::spawn(async move {
            let render = |outcomes: &[BatchLineOutcome]| format.render(outcomes);
            let outcomes = if dry_run {
                registry.dry_run_batch(&lines, &caller, now_ms).await?
            } else {
                let entry =
                    journal.as_ref().map(|journal| GroupJournal { journal, raw: &raw, render: &render });
                let journal = entry.as_ref();
                registry
                    .execute_batch(BatchGroup { lines: &lines, caller: &caller, client, now_ms, journal })
                    .await?
            };
            let results = format.render(&outcomes);
            drop((lines, raw, outcomes, permit));
            Ok(results)
        })
    }

    /// Spawns the replay of a journal chunk, and another attempt of its refused lines.
    fn spawn_replay(
        &self,
        journal: BatchJournal,
        chunk: JournalChunk,
        refused: Vec<BatchLine>,
    ) -> CommitTask {
        let (registry, caller, format) =
            (Arc::clone(&self.registry), self.caller.clone(), self.format.clone());
        let (client, now_ms) = (self.client, self.registry.now_ms());
        tokio::spawn(async move {
            let render = |outcomes: &[BatchLineOutcome]| format.render(outcomes);
            registry.retry_refused(&journal, chunk, refused, (&caller, client, now_ms), &render).await
        })
    }
}

/// Starts a commit after those in flight that change its names: lines take effect in order. Sends the results of these only when the
/// commit, which may hold a [`MemoryPermit`], goes on without the client.
async fn start_in_order<E>(
    in_flight: &mut VecDeque<InFlight>,
    names: HashSet<NameKey>,
    spawn: impl FnOnce() -> CommitTask,
    output: &impl BatchOutput,
) -> Result<(), BatchError<E>> {
    let mut earlier = Vec::new();
    let waited = wait_for_names(in_flight, &names, &mut earlier).await;
    if waited.is_ok() {
        in_flight.push_back(InFlight { task: spawn(), names });
    } else {
        drop(spawn);
    }
    for results in earlier {
        output.send(results).await?;
    }
    waited
}

/// Waits for the commits in flight that change these names, and those before them; adds their results, at most those of
/// [`MAX_IN_FLIGHT`] groups.
async fn wait_for_names<E>(
    in_flight: &mut VecDeque<InFlight>,
    names: &HashSet<NameKey>,
    earlier: &mut Vec<Bytes>,
) -> Result<(), BatchError<E>> {
    while in_flight.iter().any(|group| !group.names.is_disjoint(names)) {
        let Some(first) = in_flight.pop_front() else { break };
        earlier.push(first.task.await.map_err(|_| BatchError::TaskFailed)??);
    }
    Ok(())
}

/// Reads lines that were not committed before, one group ahead.
async fn read_ahead<I: BatchInput>(
    mut input: I,
    replay: ReplayPlan,
    sender: mpsc::Sender<WorkItem<I::Error>>,
) {
    for step in replay.steps {
        let item = match step {
            ReplayStep::Replay(chunk) => WorkItem::Replay(chunk),
            ReplayStep::Execute(lines) => WorkItem::Execute(LineGroup { lines, error: None }),
        };
        if sender.send(item).await.is_err() {
            return;
        }
    }
    // A group is read only when the one before it is taken.
    while let Ok(place) = sender.reserve().await {
        let group = input.next_group(MAX_GROUP_LINES).await;
        let is_last = group.lines.is_empty() || group.error.is_some();
        place.send(WorkItem::Execute(group));
        if is_last {
            return;
        }
    }
}

fn parse_line(format: &impl BatchFormat, line: RawLine, seed: [u8; 16]) -> BatchLine {
    let RawLine { number, text } = line;
    let mut name = None;
    let request = text
        .map_err(RegistryError::malformed)
        .and_then(|text| format.parse(&text).inspect_err(|_| name = format.peek_name(&text)));
    // Each line gets its own random number: a multiple of an odd number, all of which differ.
    let random = u128::from_be_bytes(seed)
        ^ u128::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
    BatchLine { number, request, name, random_bytes: random.to_be_bytes() }
}

/// Keys of the names that lines change.
fn changed_keys(lines: &[BatchLine]) -> HashSet<NameKey> {
    lines.iter().filter_map(name_key).collect()
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use pollster::block_on;

    use super::*;

    /// Groups of all batches together are parsed and committed up to a limit; others wait until one is committed.
    #[test]
    fn executed_lines_are_bounded() {
        let lines = |bytes: usize| vec![RawLine { number: 1, text: Ok(vec![b'x'; bytes].into()) }];
        let half = lines((MAX_EXECUTED_KIB << 10) / 2 - LINE_OVERHEAD_BYTES);
        // Larger than the limit: alone.
        drop(block_on(reserve_memory(&lines((2 * MAX_EXECUTED_KIB) << 10))).unwrap());
        let (first, second) = (block_on(reserve_memory(&half)), block_on(reserve_memory(&half)));
        let third_lines = lines(1);
        let mut third = pin!(reserve_memory(&third_lines));
        let mut context = Context::from_waker(Waker::noop());
        assert!(third.as_mut().poll(&mut context).is_pending());
        drop(first);
        assert!(matches!(third.as_mut().poll(&mut context), Poll::Ready(Some(_))));
        drop(second);
    }
}
