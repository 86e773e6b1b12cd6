//! `/api/v1/dois/batch`: registers any number of DOIs, line by line, in constant memory.
//!
//! Lines are grouped as they arrive, parsed on all cores, and committed in order, some hundreds at a time; each gets its result
//! line when it is durable. With an idempotency key, the results are journaled in the same transaction: an interrupted batch
//! that is sent again resumes, and a complete one is replayed.

use std::collections::{HashSet, VecDeque};
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use data_encoding::HEXLOWER;
use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderValue};
use hyper::body::Incoming;
use serde::{Deserialize, Serialize};
use tendot_registry::metadata::MetadataFault;
use tendot_registry::party::sha256_hex;
use tendot_registry::registration::{BatchLine, BatchLineOutcome, RegistrationRequest};
use tendot_registry::{Caller, Registry, RegistryError, RegistryErrorKind};
use tendot_store::{ChangeSet, CommitError, Edit, NameKey, Store};
use tokio::sync::{OwnedMutexGuard, mpsc};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use utoipa::openapi::{HttpMethod, Required};

use crate::http::HttpServer;
use crate::http::api_v1::batch::csv::{CsvColumns, count_quotes};
use crate::http::api_v1::idempotency::{
    IDEMPOTENCY_REPLAYED, aux_key, is_expired, key_reused, remove_key, store_error,
};
use crate::http::api_v1::schemas::{BatchLineForm, NewDoiForm};
use crate::http::api_v1::{
    ApiError, ApiRequest, ApiResult, malformed, problem_for_registry_error, random, request_budget,
    with_problem, with_write_responses,
};
use crate::http::pages::{ProblemJson, problem};
use crate::http::request::body::BodyError;
use crate::http::request::body_lines::{BodyLines, LineLimits, LineTooLong};
use crate::http::response::caching;
use crate::http::response::stream::{BodySink, StreamAborted, stream_spooled};
use crate::http::routing::operation_spec::{OperationSpec, PathSpec, text_schema};

/// Lines committed together.
const MAX_GROUP_LINES: usize = 1_000;

/// Bytes of lines committed together.
const MAX_GROUP_BYTES: usize = 1 << 20;

/// Limits of the error of a refused line: characters of a text, and bytes of metadata faults.
const MAX_MESSAGE_CHARS: usize = 300;
const MAX_FAULT_BYTES: usize = 600;

/// How long to wait for further lines of a group.
const GROUP_DELAY: Duration = Duration::from_millis(3);

/// Groups read ahead, and groups committed concurrently: they share a sync.
const READ_AHEAD_GROUPS: usize = 2;
const MAX_IN_FLIGHT: usize = 8;

/// Bytes of lines that were in flight when a batch was interrupted, while later ones were committed.
const MAX_GAP_BYTES: usize = 2 * MAX_IN_FLIGHT * MAX_GROUP_BYTES;

/// How long to wait for the same batch that is still running, because its client has just disconnected.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

const NDJSON: &str = "application/x-ndjson";

/// Result of one line of a batch.
#[derive(Serialize)]
struct LineResultJson<'a> {
    line: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ProblemJson<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

/// Header of a batch journal: start, state, format and owner.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct JournalHeader {
    at: u64,
    /// Whether the batch is complete.
    done: bool,
    /// Fingerprint of the line format: JSON, or CSV with these columns.
    form: String,
    /// Id of the run that owns the batch: the last one that was started. Earlier runs, here or at another server of the same
    /// store, stop.
    #[serde(default)]
    run: String,
}

/// Journal of a batch with an idempotency key.
struct Journal {
    note: String,
    head: JournalHeader,
    /// Lock against a concurrent run on this server.
    _lock: OwnedMutexGuard<()>,
}

/// Line as received: its number and text, or why it is unusable.
type Raw = (u64, Result<Bytes, String>);

/// Lines that are parsed and committed together.
struct LineGroup {
    lines: Vec<Raw>,
    /// Error that ended the body early.
    error: Option<BodyError>,
}

/// Journal entry: results of lines that were committed together.
///
/// Later lines may be journaled while earlier ones are not: groups are committed concurrently.
struct JournalChunk {
    /// Numbers of the first and last line, and the fingerprint of all.
    first: u64,
    last: u64,
    sent: String,
    answers: Bytes,
}

/// Part of a resumed batch: replay a chunk, or process lines.
enum ReplayStep {
    /// Replay the journal chunk that begins with this line.
    Again(u64),
    /// Process these lines.
    Lines(Vec<Raw>),
}

/// Next item of the batch, in order.
enum WorkItem {
    Again(u64),
    Lines(JoinHandle<Vec<BatchLine>>, LineGroup),
}

/// Line format: JSON or CSV.
#[derive(Clone)]
enum LineFormat {
    Json,
    Csv(Arc<CsvColumns>),
}

impl HttpServer {
    pub(crate) async fn post_batch(&self, request: ApiRequest<'_>, body: Incoming) -> ApiResult {
        let headers = request.head.headers;
        let is_table = is_csv(headers.get(CONTENT_TYPE))?;
        let dry = request.parameters.is_set("dry-run");
        // Check authorization before a million lines are sent.
        self.registry.check_may_register(&request.caller, request.at, &mut request_budget()).await?;
        let lines = self.body_reader.lines(headers, body, LineLimits::default()).await;
        let lines = lines.map_err(|error| problem(error.status(), error.code(), error.to_string()))?;
        let mut reader = RowReader { lines, is_table, open: None };
        let (form, beginning) = match is_table {
            false => (LineFormat::Json, "lines".to_owned()),
            true => {
                let (columns, first) = reader.read_header_row().await?;
                (LineFormat::Csv(Arc::new(columns)), format!("table\n{first}"))
            }
        };
        let noting = match aux_key(&request)?.filter(|_| !dry) {
            Some(note) => {
                let turn = self.key_locks.acquire(&note, LOCK_TIMEOUT).await.ok_or_else(key_in_use)?;
                let form = sha256_hex(beginning.as_bytes()).map_err(RegistryError::from)?;
                let run = HEXLOWER.encode(&random::<16>()?);
                let head = JournalHeader { at: request.at, done: false, form, run };
                Some(Journal::open(&self.registry, note, head, turn).await?)
            }
            None => None,
        };
        let steps = match &noting {
            Some(noting) => noting.plan_replay(&self.registry, &mut reader).await?,
            None => Vec::new(),
        };
        let is_repeated = noting.as_ref().is_some_and(|noting| noting.head.done);
        let batch = BatchRun {
            registry: Arc::clone(&self.registry),
            caller: request.caller,
            dry,
            noting,
            seed: random()?,
            form,
        };
        let kind = HeaderValue::from_static(NDJSON);
        let mut response = stream_spooled(StatusCode::OK, kind, |sink| batch.run(reader, steps, sink));
        if is_repeated {
            response.headers_mut().insert(IDEMPOTENCY_REPLAYED, HeaderValue::from_static("true"));
        }
        caching::set_private_no_store(response.headers_mut());
        Ok(response)
    }
}

fn key_in_use() -> Box<ApiError> {
    let detail = "a batch with this `Idempotency-Key` is still under way";
    problem(StatusCode::CONFLICT, "key-in-use", detail).hint("send it again later").into()
}

/// Whether the body is CSV rather than NDJSON.
fn is_csv(kind: Option<&HeaderValue>) -> Result<bool, Box<ApiError>> {
    let Some(kind) = kind else { return Ok(false) };
    let kind = kind.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim();
    match kind.to_ascii_lowercase().as_str() {
        // curl's default type is not a deliberate choice.
        ""
        | NDJSON
        | "application/ndjson"
        | "application/jsonl"
        | "application/json"
        | "text/plain"
        | "application/x-www-form-urlencoded" => Ok(false),
        "text/csv" => Ok(true),
        _ => {
            let detail = format!("a batch is `{NDJSON}` or `text/csv`, not `{kind}`");
            Err(problem(StatusCode::UNSUPPORTED_MEDIA_TYPE, "media-type", detail).into())
        }
    }
}

/// Reads lines, or CSV rows that span lines.
struct RowReader {
    lines: BodyLines,
    is_table: bool,
    /// Incomplete row; stored here so that `next` is cancel-safe.
    open: Option<PartialRow>,
}

/// CSV row whose quoted field continues on the next line.
struct PartialRow {
    number: u64,
    text: BytesMut,
    length: u64,
    quotes: u64,
}

impl PartialRow {
    fn push_line(&mut self, line: Result<Bytes, LineTooLong>) {
        let limit = LineLimits::default().line as u64;
        let (length, quotes) = match &line {
            Ok(text) => (text.len() as u64, count_quotes(text)),
            Err(error) => (error.length, error.quotes),
        };
        self.length += length + 1;
        self.quotes += quotes;
        match line {
            Ok(text) if self.length <= limit => {
                self.text.extend_from_slice(&text);
                self.text.extend_from_slice(b"\n");
            }
            // Discarded, but followed to its end.
            _ => self.text.clear(),
        }
    }

    fn finish(mut self) -> Raw {
        let (length, limit) = (self.length, LineLimits::default().line);
        if self.quotes % 2 == 1 {
            return (self.number, Err(format!("a quote is not closed: {length} bytes come after it")));
        }
        if length > limit as u64 {
            return (self.number, Err(format!("the row has more than {limit} bytes: {length}")));
        }
        self.text.truncate(self.text.len().saturating_sub(1));
        (self.number, Ok(self.text.freeze()))
    }
}

impl RowReader {
    /// Reads the header row of a CSV body.
    async fn read_header_row(&mut self) -> Result<(CsvColumns, String), Box<ApiError>> {
        let line = self.lines.next().await;
        let line = line.map_err(|error| problem(error.status(), error.code(), error.to_string()))?;
        let text = line.and_then(|line| line.text.ok()).unwrap_or_default();
        let text = std::str::from_utf8(&text).map_err(|_| malformed("the first line is not UTF-8"))?;
        let columns = CsvColumns::parse(text).map_err(|why| malformed(&why))?;
        Ok((columns, text.to_owned()))
    }

    /// Next non-empty line or CSV row. Cancel-safe.
    async fn next(&mut self) -> Result<Option<Raw>, BodyError> {
        loop {
            let Some(line) = self.lines.next().await? else {
                return Ok(self.open.take().map(PartialRow::finish));
            };
            if let Some(mut row) = self.open.take() {
                row.push_line(line.text);
                if row.quotes % 2 == 0 {
                    return Ok(Some(row.finish()));
                }
                self.open = Some(row);
                continue;
            }
            let quotes = match &line.text {
                Ok(text) if text.iter().all(u8::is_ascii_whitespace) => continue,
                Ok(text) => count_quotes(text),
                Err(error) => error.quotes,
            };
            if !self.is_table || quotes % 2 == 0 {
                return Ok(Some((line.number, line.text.map_err(|error| error.to_string()))));
            }
            let mut row = PartialRow { number: line.number, text: BytesMut::new(), length: 0, quotes: 0 };
            row.push_line(line.text);
            self.open = Some(row);
        }
    }

    /// Next group: lines that have arrived or arrive soon; empty at the end.
    async fn next_group(&mut self, most: usize) -> LineGroup {
        let mut gathered = LineGroup { lines: Vec::new(), error: None };
        let mut bytes = 0;
        while gathered.lines.len() < most && bytes < MAX_GROUP_BYTES {
            let next = if gathered.lines.is_empty() {
                self.next().await
            } else {
                match timeout(GROUP_DELAY, self.next()).await {
                    Ok(next) => next,
                    Err(_) => break,
                }
            };
            match next {
                Ok(Some(line)) => {
                    bytes += line.1.as_ref().map_or(0, Bytes::len);
                    gathered.lines.push(line);
                }
                Ok(None) => break,
                Err(error) => {
                    gathered.error = Some(error);
                    break;
                }
            }
        }
        gathered
    }
}

/// Fingerprint of lines.
fn fingerprint_lines<'a>(lines: impl Iterator<Item = &'a Raw>) -> Result<String, RegistryError> {
    let mut all = Vec::new();
    for (number, text) in lines {
        let (mark, text) = match text {
            Ok(text) => (' ', &**text),
            Err(why) => ('!', why.as_bytes()),
        };
        all.extend(format!("\n{number}{mark}{}\n", text.len()).into_bytes());
        all.extend_from_slice(text);
    }
    Ok(sha256_hex(&all)?)
}

/// Execution of one batch.
struct BatchRun {
    registry: Arc<Registry>,
    caller: Caller,
    dry: bool,
    noting: Option<Journal>,
    seed: [u8; 16],
    form: LineFormat,
}

impl BatchRun {
    async fn run(
        self,
        reader: RowReader,
        steps: Vec<ReplayStep>,
        sink: BodySink,
    ) -> Result<(), StreamAborted> {
        let mut under_way = VecDeque::new();
        let carried = self.execute(reader, steps, &sink, &mut under_way).await;
        // A client that is cut off and resends the batch must find everything that was committed.
        for other in under_way {
            let _ = other.deposit.await;
        }
        carried
    }

    async fn execute(
        &self,
        reader: RowReader,
        steps: Vec<ReplayStep>,
        sink: &BodySink,
        under_way: &mut VecDeque<InFlight>,
    ) -> Result<(), StreamAborted> {
        let (sender, mut receiver) = mpsc::channel(READ_AHEAD_GROUPS);
        let reading = tokio::spawn(read_ahead(reader, steps, self.form.clone(), self.seed, sender));
        let mut ended = None;
        while ended.is_none() || !under_way.is_empty() {
            tokio::select! {
                biased;
                done = async { under_way.front_mut().map(|first| &mut first.deposit)?.await.ok() },
                    if !under_way.is_empty() =>
                {
                    under_way.pop_front();
                    sink.send(done.ok_or(StreamAborted)?.map_err(|refusal| log_abort(&refusal))?).await?;
                }
                next = receiver.recv(), if ended.is_none() && under_way.len() < MAX_IN_FLIGHT => {
                    let (read, gathered) = match next {
                        None => {
                            ended = Some(None);
                            continue;
                        }
                        Some(WorkItem::Again(first)) => {
                            under_way.push_back(InFlight { deposit: self.spawn_replay(first), names: HashSet::new() });
                            continue;
                        }
                        Some(WorkItem::Lines(read, gathered)) => (read, gathered),
                    };
                    let lines = read.await.map_err(|_| StreamAborted)?;
                    if gathered.error.is_some() {
                        ended = Some(gathered.error);
                    }
                    if !lines.is_empty() {
                        let names = changed_keys(&lines);
                        // Lines take effect in order: wait for the commit in flight that changes the same name.
                        while under_way.iter().any(|other| !other.names.is_disjoint(&names)) {
                            let Some(mut first) = under_way.pop_front() else { break };
                            let done = (&mut first.deposit).await.map_err(|_| StreamAborted)?;
                            sink.send(done.map_err(|refusal| log_abort(&refusal))?).await?;
                        }
                        under_way.push_back(InFlight { deposit: self.spawn_commit(lines, gathered.lines), names });
                    }
                }
            }
        }
        if let Some(Some(error)) = ended {
            // Complete lines are committed; the client must see that the rest is missing.
            tracing::debug!(%error, "a batch did not come to its end");
            return Err(StreamAborted);
        }
        let _ = reading.await;
        if let Some(noting) = self.noting.as_ref().filter(|noting| !noting.head.done) {
            noting.mark_complete(&self.registry).await.map_err(|_| StreamAborted)?;
        }
        Ok(())
    }

    /// Spawns the commit of lines; the task returns their results.
    fn spawn_commit(&self, lines: Vec<BatchLine>, raw: Vec<Raw>) -> CommitTask {
        let noting = self.noting.as_ref().map(|noting| (noting.note.clone(), to_bytes(&noting.head)));
        let (registry, caller, dry) = (Arc::clone(&self.registry), self.caller.clone(), self.dry);
        tokio::spawn(async move {
            let beside = |outcomes: &[BatchLineOutcome]| match &noting {
                Some((note, head)) => JournalChunk::edits(note, head, &raw, outcomes),
                None => Vec::new(),
            };
            let outcomes = registry.execute_batch(&lines, &caller, now(), dry, beside).await?;
            Ok(render_results(&outcomes))
        })
    }

    /// Spawns the replay of a journal chunk.
    fn spawn_replay(&self, first: u64) -> CommitTask {
        let key =
            self.noting.as_ref().map(|noting| JournalChunk::key(&noting.note, first)).unwrap_or_default();
        let registry = Arc::clone(&self.registry);
        tokio::spawn(async move {
            let note = registry.store().get_aux(key.as_bytes()).await?;
            let piece = note.and_then(|note| JournalChunk::parse(note.into()));
            piece.map(|piece| piece.answers).ok_or_else(|| {
                RegistryError::new(
                    RegistryErrorKind::Busy,
                    "contended",
                    "what was answered before has been removed meanwhile",
                )
            })
        })
    }
}

/// Reads and parses lines that were not committed before, on all cores.
async fn read_ahead(
    mut reader: RowReader,
    steps: Vec<ReplayStep>,
    form: LineFormat,
    seed: [u8; 16],
    sender: mpsc::Sender<WorkItem>,
) {
    let begin = |gathered: LineGroup| {
        let (form, raw) = (form.clone(), gathered.lines.clone());
        let read = tokio::spawn(async move { raw.into_iter().map(|line| form.parse(line, seed)).collect() });
        WorkItem::Lines(read, gathered)
    };
    for step in steps {
        let coming = match step {
            ReplayStep::Again(first) => WorkItem::Again(first),
            ReplayStep::Lines(lines) => begin(LineGroup { lines, error: None }),
        };
        if sender.send(coming).await.is_err() {
            return;
        }
    }
    loop {
        let gathered = reader.next_group(MAX_GROUP_LINES).await;
        let is_last = gathered.lines.is_empty() || gathered.error.is_some();
        if sender.send(begin(gathered)).await.is_err() || is_last {
            return;
        }
    }
}

/// Task that commits a line group and renders its results.
type CommitTask = JoinHandle<Result<Bytes, RegistryError>>;

/// Line group being committed, and the names it changes.
struct InFlight {
    deposit: CommitTask,
    names: HashSet<NameKey>,
}

/// Keys of the names that lines change.
fn changed_keys(lines: &[BatchLine]) -> HashSet<NameKey> {
    let names = lines.iter().filter_map(|line| line.draft.as_ref().ok()?.name.as_deref());
    names.filter_map(|name| NameKey::new(name).ok()).collect()
}

fn log_abort(refusal: &RegistryError) -> StreamAborted {
    match &refusal.failure {
        Some(error) => tracing::error!(%error, "a batch was cut off"),
        None => tracing::warn!(detail = refusal.detail, "a batch was cut off"),
    }
    StreamAborted
}

/// Current Unix time in milliseconds: a batch may take hours.
fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

impl LineFormat {
    fn parse(&self, (number, text): Raw, seed: [u8; 16]) -> BatchLine {
        let malformed = |why: &str| RegistryError::new(RegistryErrorKind::Malformed, "malformed", why);
        let mut name = None;
        let draft = text.map_err(|why| malformed(&why)).and_then(|text| match self {
            Self::Json => RegistrationRequest::from_json(&text)
                .inspect_err(|_| name = RegistrationRequest::peek_name(&text)),
            Self::Csv(columns) => match std::str::from_utf8(&text) {
                Ok(row) => columns.parse_row(row).inspect_err(|_| name = columns.name_in_row(row)),
                Err(_) => Err(malformed("the row is not UTF-8")),
            },
        });
        // Each line gets its own random number: a multiple of an odd number, all of which differ.
        let random = u128::from_be_bytes(seed)
            ^ u128::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        BatchLine { number, draft, name, random: random.to_be_bytes() }
    }
}

/// Renders result lines.
fn render_results(outcomes: &[BatchLineOutcome]) -> Bytes {
    let mut printed = Vec::with_capacity(outcomes.len() * 64);
    for outcome in outcomes {
        let refusal = outcome.result.as_ref().err().map(truncate_error);
        let problem = refusal.map(|refusal| problem_for_registry_error(&refusal).line(outcome.number));
        let told = LineResultJson {
            line: outcome.number,
            name: outcome.name.as_deref().filter(|name| name.len() <= NameKey::MAX_LEN),
            status: outcome.result.as_ref().map_or("refused", |status| status.name()),
            error: problem.as_ref().map(|problem| problem.to_json()),
            warnings: outcome.notes.iter().map(ToString::to_string).collect(),
        };
        if serde_json::to_writer(&mut printed, &told).is_ok() {
            printed.push(b'\n');
        }
    }
    printed.into()
}

/// Truncates the error of a line: a thousand of them are journaled together.
fn truncate_error(refusal: &RegistryError) -> RegistryError {
    let short = |text: &str| match text.char_indices().nth(MAX_MESSAGE_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    };
    let mut room = MAX_FAULT_BYTES;
    let faults = refusal.faults.iter().map_while(|fault| {
        let fault = MetadataFault { message: short(&fault.message), allowed: &[], ..fault.clone() };
        room = room.checked_sub(fault.pointer.len() + fault.message.len())?;
        Some(fault)
    });
    RegistryError {
        reason: refusal.reason,
        code: refusal.code,
        detail: short(&refusal.detail),
        pointer: refusal.pointer.clone().filter(|pointer| pointer.len() <= MAX_MESSAGE_CHARS),
        hint: refusal.hint.as_deref().map(short),
        existing: refusal.existing.clone(),
        faults: faults.collect(),
        failure: None,
    }
}

fn to_bytes(head: &JournalHeader) -> Box<[u8]> {
    serde_json::to_vec(head).unwrap_or_default().into()
}

impl JournalChunk {
    fn key(note: &str, first: u64) -> String {
        format!("{note}/{first:016x}")
    }

    fn parse(note: Bytes) -> Option<Self> {
        let end = note.iter().position(|byte| *byte == b'\n')?;
        let mut head = std::str::from_utf8(&note[..end]).ok()?.split(' ');
        let (first, last) = (head.next()?.parse().ok()?, head.next()?.parse().ok()?);
        Some(Self { first, last, sent: head.next()?.to_owned(), answers: note.slice(end + 1..) })
    }

    /// Edits that journal the results of lines, provided that this run still owns the batch.
    fn edits(note: &str, head: &[u8], raw: &[Raw], outcomes: &[BatchLineOutcome]) -> Vec<Edit> {
        let (Some(first), Some(last)) = (outcomes.first(), outcomes.last()) else { return Vec::new() };
        let (first, last) = (first.number, last.number);
        // Without a fingerprint, a chunk matches no resent lines, and is not executed again.
        let sent =
            fingerprint_lines(raw.iter().filter(|line| (first..=last).contains(&line.0))).unwrap_or_default();
        let body = [format!("{first} {last} {sent}\n").as_bytes(), &render_results(outcomes)].concat().into();
        let key: Box<[u8]> = Self::key(note, first).into_bytes().into();
        vec![
            Edit::RequireNote { key: note.as_bytes().into(), body: Some(head.into()) },
            Edit::RequireNote { key: key.clone(), body: None },
            Edit::PutNote { key, body },
        ]
    }
}

impl Journal {
    /// Resumes a batch, or starts a new one.
    async fn open(
        registry: &Registry,
        note: String,
        mut head: JournalHeader,
        turn: OwnedMutexGuard<()>,
    ) -> Result<Self, Box<ApiError>> {
        let at = head.at;
        let mut before = registry.store().get_aux(note.as_bytes()).await.map_err(store_error)?;
        if let Some(body) = &before {
            // The entry of a single registration is not a journal.
            let Ok(begun) = serde_json::from_slice::<JournalHeader>(body) else { return Err(key_reused()) };
            if is_expired(begun.at, at) {
                remove_key(registry, note.as_bytes(), body.clone(), at).await?;
                before = None;
            } else if begun.form != head.form {
                return Err(key_reused());
            } else if begun.done {
                return Ok(Self { note, head: begun, _lock: turn });
            } else {
                head = JournalHeader { run: head.run, ..begun };
            }
        }
        let key: Box<[u8]> = note.as_bytes().into();
        let edits = vec![
            Edit::RequireNote { key: key.clone(), body: before },
            Edit::PutNote { key, body: to_bytes(&head) },
        ];
        match registry.store().commit(ChangeSet { by: "batch".into(), at, edits }).await {
            Ok(_) => Ok(Self { note, head, _lock: turn }),
            Err(CommitError::Note { .. }) => Err(key_in_use()),
            Err(error) => Err(RegistryError::from(error).into()),
        }
    }

    /// Reads the resent lines, compares them with the journal, and plans the replay up to the last line that was committed.
    async fn plan_replay(
        &self,
        registry: &Registry,
        reader: &mut RowReader,
    ) -> Result<Vec<ReplayStep>, Box<ApiError>> {
        let (mut steps, mut after, mut left) = (Vec::new(), None, MAX_GAP_BYTES);
        while let Some(piece) = self.next_chunk(registry, after).await? {
            let (mut gap, mut gap_bytes) = (Vec::new(), 0);
            let (mut lines, mut bytes) = (Vec::new(), 0);
            loop {
                let next = reader.next().await;
                let next = next.map_err(|error| problem(error.status(), error.code(), error.to_string()))?;
                let Some(line) = next.filter(|line| line.0 <= piece.last) else { return Err(key_reused()) };
                let (number, length) = (line.0, line.1.as_ref().map_or(0, Bytes::len));
                if number < piece.first {
                    left = usize::checked_sub(left, length).ok_or_else(key_reused)?;
                    gap_bytes += length;
                    gap.push(line);
                    if gap.len() == MAX_GROUP_LINES || gap_bytes >= MAX_GROUP_BYTES {
                        steps.push(ReplayStep::Lines(mem::take(&mut gap)));
                        gap_bytes = 0;
                    }
                    continue;
                }
                bytes += length;
                lines.push(line);
                if bytes > 2 * MAX_GROUP_BYTES {
                    return Err(key_reused());
                }
                if number == piece.last {
                    break;
                }
            }
            if fingerprint_lines(lines.iter())? != piece.sent {
                return Err(key_reused());
            }
            if !gap.is_empty() {
                steps.push(ReplayStep::Lines(gap));
            }
            steps.push(ReplayStep::Again(piece.first));
            after = Some(piece.first);
        }
        let is_whole = !steps.iter().any(|step| matches!(step, ReplayStep::Lines(_)));
        if self.head.done && !(is_whole && matches!(reader.next().await, Ok(None))) {
            return Err(key_reused());
        }
        Ok(steps)
    }

    async fn next_chunk(
        &self,
        registry: &Registry,
        after: Option<u64>,
    ) -> Result<Option<JournalChunk>, Box<ApiError>> {
        let beginning = format!("{}/", self.note);
        let after = after.map(|first| JournalChunk::key(&self.note, first));
        let after = after.as_deref().map(str::as_bytes);
        let notes = registry.store().list_aux(beginning.as_bytes(), after, 1).await.map_err(store_error)?;
        let Some((_, note)) = notes.into_iter().next() else { return Ok(None) };
        JournalChunk::parse(note.into()).map(Some).ok_or_else(key_reused)
    }

    /// Marks the batch as complete.
    async fn mark_complete(&self, registry: &Registry) -> Result<(), Box<ApiError>> {
        let head = JournalHeader { done: true, ..self.head.clone() };
        let key: Box<[u8]> = self.note.as_bytes().into();
        let edits = vec![
            Edit::RequireNote { key: key.clone(), body: Some(to_bytes(&self.head)) },
            Edit::PutNote { key, body: to_bytes(&head) },
        ];
        let change = ChangeSet { by: "batch".into(), at: now(), edits };
        registry.store().commit(change).await.map_err(RegistryError::from)?;
        Ok(())
    }
}

pub(crate) fn describe() -> PathSpec {
    let post = with_write_responses(OperationSpec::new("Register or update many DOIs"))
        .description(
            "One registration per line, as NDJSON or as CSV with the columns name, prefix, url, state and metadata; existing \
             DOIs are updated. Each non-empty line gets a result line, in order, when it is durable; a refused line does \
             not affect others. With `Idempotency-Key`, resending an interrupted batch resumes it, for 24 hours. A dry run \
             validates groups of up to 1,000 lines independently.",
        )
        .query_param("dry-run", "Dry run: validate without writing", text_schema())
        .request_body::<NewDoiForm>(NDJSON, "Any number of lines of at most 64 KiB, optionally gzip", Required::True)
        .example_command(
            "printf '{\"name\": \"10.70000/b1\", \"url\": \"https://example.org/b1\"}\\n' |\n  \
             curl -s $SERVER/api/v1/dois/batch -H \"Authorization: Bearer $TOKEN\" \\\n  \
             -H 'Content-Type: application/x-ndjson' --data-binary @-",
        )
        .response(StatusCode::OK, "Result of each line")
        .json_content::<BatchLineForm>(NDJSON)
        .response_header("Idempotency-Replayed", "`true` if all lines were replayed");
    let post = with_problem(post, StatusCode::UNSUPPORTED_MEDIA_TYPE, "Neither NDJSON nor CSV");
    PathSpec::single(HttpMethod::Post, post)
}
