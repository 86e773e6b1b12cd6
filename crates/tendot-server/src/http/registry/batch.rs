//! `/api/v1/dois/batch`: many names at once, line by line, of any number, in constant memory.
//!
//! Lines are gathered as they come, read on all cores, and deposited in their order, some hundreds together; each gets its
//! answer as soon as it is durable. With a key, what was answered is noted in the same change: a batch that was cut off goes
//! on where it was when it is sent again, and one that was answered gets the same answer.

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
use tendot_registry::doi::{RegistrationRequest, Line, BatchLineOutcome};
use tendot_registry::metadata::MetadataFault;
use tendot_registry::party::fingerprint;
use tendot_registry::{Caller, Reason, Refusal, Registry};
use tendot_store::{Change, CommitError, Edit, Key, Store};
use tokio::sync::{OwnedMutexGuard, mpsc};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use utoipa::openapi::{HttpMethod, Required};

use super::form::{BatchLineForm, NewNameForm};
use super::receipt::{IDEMPOTENCY_REPLAYED, failed, is_over, note_of, remove, reused};
use super::rows::{Columns, quotes};
use super::{ApiResult, Asking, Wrong, bad_request, problem_of, random, writes};
use crate::http::Http;
use crate::http::body::BodyError;
use crate::http::caching;
use crate::http::describe::{Described, Doing, text};
use crate::http::lines::{LineLimits, LineTooLong, Lines};
use crate::http::page::{ProblemJson, problem};
use crate::http::stream::{Cut, Sink, stream_patiently};

/// Lines that are deposited together.
const TOGETHER: usize = 1_000;

/// Bytes of lines that are deposited together.
const BYTES: usize = 1 << 20;

/// Characters of a text, and bytes of faults of metadata, that are told of a line that is refused.
const TEXT: usize = 300;
const FAULTS: usize = 600;

/// How long it is waited for more of them.
const GROUP_DELAY: Duration = Duration::from_millis(3);

/// Gatherings that are read ahead, and that are deposited at the same time: they share a sync.
const READ_AHEAD_GROUPS: usize = 2;
const UNDER_WAY: usize = 8;

/// Bytes of lines that were under way when a batch was cut off, while later ones were answered.
const MAX_GAP_BYTES: usize = 2 * UNDER_WAY * BYTES;

/// How long it is waited for the same batch that is still under way, since its client has just been cut off.
const PATIENCE: Duration = Duration::from_secs(10);

const LINES: &str = "application/x-ndjson";

/// What became of a line, as it is told.
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

/// What is noted of a batch with a key.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Head {
    at: u64,
    /// Whether all of it was answered.
    done: bool,
    /// The fingerprint of what its lines are: JSON, or rows of these columns.
    form: String,
    /// Which of those who were sent it carries it out: the last. Whoever did before, here or at another server of the same
    /// store, does nothing more of it.
    #[serde(default)]
    run: String,
}

/// A batch with a key.
struct Journal {
    note: String,
    head: Head,
    /// That nobody else has it under way here.
    _turn: OwnedMutexGuard<()>,
}

/// A line as it came: its number and text; why there is none, if there is none.
type Raw = (u64, Result<Bytes, String>);

/// Lines as they came.
struct Gathered {
    lines: Vec<Raw>,
    /// Why no more come, if that is not the end.
    error: Option<BodyError>,
}

/// What is noted of lines that were committed together. Of those that come after them some may be noted, too, and others
/// not: they are deposited at the same time.
struct Piece {
    /// The numbers of the first and the last, and the fingerprint of all.
    first: u64,
    last: u64,
    sent: String,
    answers: Bytes,
}

/// A part of a batch that was sent before, in order.
enum Step {
    /// It was answered: the piece that begins with this line.
    Again(u64),
    /// It was not.
    Lines(Vec<Raw>),
}

/// What comes next, in order.
enum WorkItem {
    Again(u64),
    Lines(JoinHandle<Vec<Line>>, Gathered),
}

/// How a line is read.
#[derive(Clone)]
enum Form {
    Json,
    Rows(Arc<Columns>),
}

impl Http {
    pub(super) async fn post_batch(&self, asking: Asking<'_>, body: Incoming) -> ApiResult {
        let headers = asking.request.headers;
        let is_table = is_table(headers.get(CONTENT_TYPE))?;
        let dry = asking.parameters.is_set("dry-run");
        // Nobody sends a million lines to learn that they are not known.
        self.registry.check_may_register(&asking.caller, asking.at, &mut super::work()).await?;
        let lines = self.bodies.lines(headers, body, LineLimits::default()).await;
        let lines = lines.map_err(|error| problem(error.status(), error.code(), error.to_string()))?;
        let mut reader = Reader { lines, is_table, open: None };
        let (form, beginning) = match is_table {
            false => (Form::Json, "lines".to_owned()),
            true => {
                let (columns, first) = reader.columns().await?;
                (Form::Rows(Arc::new(columns)), format!("table\n{first}"))
            }
        };
        let noting = match note_of(&asking)?.filter(|_| !dry) {
            Some(note) => {
                let turn = self.turns.take(&note, PATIENCE).await.ok_or_else(in_use)?;
                let form = fingerprint(beginning.as_bytes()).map_err(Refusal::from)?;
                let run = HEXLOWER.encode(&random::<16>()?);
                let head = Head { at: asking.at, done: false, form, run };
                Some(Journal::load(&self.registry, note, head, turn).await?)
            }
            None => None,
        };
        let steps = match &noting {
            Some(noting) => noting.plan_replay(&self.registry, &mut reader).await?,
            None => Vec::new(),
        };
        let is_repeated = noting.as_ref().is_some_and(|noting| noting.head.done);
        let batch = Batch {
            registry: Arc::clone(&self.registry),
            caller: asking.caller,
            dry,
            noting,
            seed: random()?,
            form,
        };
        let kind = HeaderValue::from_static(LINES);
        let mut response = stream_patiently(StatusCode::OK, kind, |sink| batch.run(reader, steps, sink));
        if is_repeated {
            response.headers_mut().insert(IDEMPOTENCY_REPLAYED, HeaderValue::from_static("true"));
        }
        caching::set_private_no_store(response.headers_mut());
        Ok(response)
    }
}

fn in_use() -> Box<Wrong> {
    let detail = "a batch with this `Idempotency-Key` is still under way";
    problem(StatusCode::CONFLICT, "key-in-use", detail).hint("send it again later").into()
}

/// Whether the body is a table rather than lines of JSON.
fn is_table(kind: Option<&HeaderValue>) -> Result<bool, Box<Wrong>> {
    let Some(kind) = kind else { return Ok(false) };
    let kind = kind.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim();
    match kind.to_ascii_lowercase().as_str() {
        // What `curl` says if nobody tells it otherwise is no type that anybody means.
        ""
        | LINES
        | "application/ndjson"
        | "application/jsonl"
        | "application/json"
        | "text/plain"
        | "application/x-www-form-urlencoded" => Ok(false),
        "text/csv" => Ok(true),
        _ => {
            let detail = format!("a batch is `{LINES}` or `text/csv`, not `{kind}`");
            Err(problem(StatusCode::UNSUPPORTED_MEDIA_TYPE, "media-type", detail).into())
        }
    }
}

/// The lines of a body, or the rows of its table.
struct Reader {
    lines: Lines,
    is_table: bool,
    /// A row of which only the beginning has come: here, so that a call that is given up loses nothing of it.
    open: Option<PartialRow>,
}

/// A row with a field that goes on in the next line.
struct PartialRow {
    number: u64,
    text: BytesMut,
    length: u64,
    quotes: u64,
}

impl PartialRow {
    fn add(&mut self, line: Result<Bytes, LineTooLong>) {
        let limit = LineLimits::default().line as u64;
        let (length, quotes) = match &line {
            Ok(text) => (text.len() as u64, quotes(text)),
            Err(error) => (error.length, error.quotes),
        };
        self.length += length + 1;
        self.quotes += quotes;
        match line {
            Ok(text) if self.length <= limit => {
                self.text.extend_from_slice(&text);
                self.text.extend_from_slice(b"\n");
            }
            // Nothing of it is kept; it is only followed to its end.
            _ => self.text.clear(),
        }
    }

    fn end(mut self) -> Raw {
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

impl Reader {
    /// The first line of a table.
    async fn columns(&mut self) -> Result<(Columns, String), Box<Wrong>> {
        let line = self.lines.next().await;
        let line = line.map_err(|error| problem(error.status(), error.code(), error.to_string()))?;
        let text = line.and_then(|line| line.text.ok()).unwrap_or_default();
        let text = std::str::from_utf8(&text).map_err(|_| bad_request("the first line is not UTF-8"))?;
        let columns = Columns::read(text).map_err(|why| bad_request(&why))?;
        Ok((columns, text.to_owned()))
    }

    /// The next line that is not empty; of a table, the next row. A call that is given up loses nothing.
    async fn next(&mut self) -> Result<Option<Raw>, BodyError> {
        loop {
            let Some(line) = self.lines.next().await? else { return Ok(self.open.take().map(PartialRow::end)) };
            if let Some(mut row) = self.open.take() {
                row.add(line.text);
                if row.quotes % 2 == 0 {
                    return Ok(Some(row.end()));
                }
                self.open = Some(row);
                continue;
            }
            let quotes = match &line.text {
                Ok(text) if text.iter().all(u8::is_ascii_whitespace) => continue,
                Ok(text) => quotes(text),
                Err(error) => error.quotes,
            };
            if !self.is_table || quotes % 2 == 0 {
                return Ok(Some((line.number, line.text.map_err(|error| error.to_string()))));
            }
            let mut row = PartialRow { number: line.number, text: BytesMut::new(), length: 0, quotes: 0 };
            row.add(line.text);
            self.open = Some(row);
        }
    }

    /// Lines that have come, or come soon; none at the end.
    async fn gather(&mut self, most: usize) -> Gathered {
        let mut gathered = Gathered { lines: Vec::new(), error: None };
        let mut bytes = 0;
        while gathered.lines.len() < most && bytes < BYTES {
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

/// The fingerprint of lines.
fn sent<'a>(lines: impl Iterator<Item = &'a Raw>) -> Result<String, Refusal> {
    let mut all = Vec::new();
    for (number, text) in lines {
        let (mark, text) = match text {
            Ok(text) => (' ', &**text),
            Err(why) => ('!', why.as_bytes()),
        };
        all.extend(format!("\n{number}{mark}{}\n", text.len()).into_bytes());
        all.extend_from_slice(text);
    }
    Ok(fingerprint(&all)?)
}

/// A batch that is carried out.
struct Batch {
    registry: Arc<Registry>,
    caller: Caller,
    dry: bool,
    noting: Option<Journal>,
    seed: [u8; 16],
    form: Form,
}

impl Batch {
    async fn run(self, reader: Reader, steps: Vec<Step>, sink: Sink) -> Result<(), Cut> {
        let mut under_way = VecDeque::new();
        let carried = self.carry_out(reader, steps, &sink, &mut under_way).await;
        // Who is cut off and sends it again, and has the turn then, has to find all that was done.
        for other in under_way {
            let _ = other.deposit.await;
        }
        carried
    }

    async fn carry_out(
        &self,
        reader: Reader,
        steps: Vec<Step>,
        sink: &Sink,
        under_way: &mut VecDeque<InFlight>,
    ) -> Result<(), Cut> {
        let (sender, mut receiver) = mpsc::channel(READ_AHEAD_GROUPS);
        let reading = tokio::spawn(read(reader, steps, self.form.clone(), self.seed, sender));
        let mut ended = None;
        while ended.is_none() || !under_way.is_empty() {
            tokio::select! {
                biased;
                done = async { under_way.front_mut().map(|first| &mut first.deposit)?.await.ok() },
                    if !under_way.is_empty() =>
                {
                    under_way.pop_front();
                    sink.send(done.ok_or(Cut)?.map_err(|refusal| cut(&refusal))?).await?;
                }
                next = receiver.recv(), if ended.is_none() && under_way.len() < UNDER_WAY => {
                    let (read, gathered) = match next {
                        None => {
                            ended = Some(None);
                            continue;
                        }
                        Some(WorkItem::Again(first)) => {
                            under_way.push_back(InFlight { deposit: self.again(first), names: HashSet::new() });
                            continue;
                        }
                        Some(WorkItem::Lines(read, gathered)) => (read, gathered),
                    };
                    let lines = read.await.map_err(|_| Cut)?;
                    if gathered.error.is_some() {
                        ended = Some(gathered.error);
                    }
                    if !lines.is_empty() {
                        let names = names(&lines);
                        // A name that is still being changed waits for its turn: lines hold in their order.
                        while under_way.iter().any(|other| !other.names.is_disjoint(&names)) {
                            let Some(mut first) = under_way.pop_front() else { break };
                            let done = (&mut first.deposit).await.map_err(|_| Cut)?;
                            sink.send(done.map_err(|refusal| cut(&refusal))?).await?;
                        }
                        under_way.push_back(InFlight { deposit: self.deposit(lines, gathered.lines), names });
                    }
                }
            }
        }
        if let Some(Some(error)) = ended {
            // What came whole is done; that the rest did not come the client is to see.
            tracing::debug!(%error, "a batch did not come to its end");
            return Err(Cut);
        }
        let _ = reading.await;
        if let Some(noting) = self.noting.as_ref().filter(|noting| !noting.head.done) {
            noting.end(&self.registry).await.map_err(|_| Cut)?;
        }
        Ok(())
    }

    /// Begins to deposit lines; what is told of them comes when it is done.
    fn deposit(&self, lines: Vec<Line>, raw: Vec<Raw>) -> CommitTask {
        let noting = self.noting.as_ref().map(|noting| (noting.note.clone(), written(&noting.head)));
        let (registry, caller, dry) = (Arc::clone(&self.registry), self.caller.clone(), self.dry);
        tokio::spawn(async move {
            let beside = |outcomes: &[BatchLineOutcome]| match &noting {
                Some((note, head)) => Piece::edits(note, head, &raw, outcomes),
                None => Vec::new(),
            };
            let outcomes = registry.deposit(&lines, &caller, now(), dry, beside).await?;
            Ok(print(&outcomes))
        })
    }

    /// Begins to look up what was answered before.
    fn again(&self, first: u64) -> CommitTask {
        let key = self.noting.as_ref().map(|noting| Piece::key(&noting.note, first)).unwrap_or_default();
        let registry = Arc::clone(&self.registry);
        tokio::spawn(async move {
            let note = registry.store().note(key.as_bytes()).await?;
            let piece = note.and_then(|note| Piece::read(note.into()));
            piece.map(|piece| piece.answers).ok_or_else(|| {
                Refusal::new(Reason::Busy, "contended", "what was answered before has been removed meanwhile")
            })
        })
    }
}

/// Reads what was not answered before, and all that comes, on all cores.
async fn read(
    mut reader: Reader,
    steps: Vec<Step>,
    form: Form,
    seed: [u8; 16],
    sender: mpsc::Sender<WorkItem>,
) {
    let begin = |gathered: Gathered| {
        let (form, raw) = (form.clone(), gathered.lines.clone());
        let read = tokio::spawn(async move { raw.into_iter().map(|line| form.read(line, seed)).collect() });
        WorkItem::Lines(read, gathered)
    };
    for step in steps {
        let coming = match step {
            Step::Again(first) => WorkItem::Again(first),
            Step::Lines(lines) => begin(Gathered { lines, error: None }),
        };
        if sender.send(coming).await.is_err() {
            return;
        }
    }
    loop {
        let gathered = reader.gather(TOGETHER).await;
        let is_last = gathered.lines.is_empty() || gathered.error.is_some();
        if sender.send(begin(gathered)).await.is_err() || is_last {
            return;
        }
    }
}

/// What lines come to, while it is found out.
type CommitTask = JoinHandle<Result<Bytes, Refusal>>;

/// Lines that are being deposited.
struct InFlight {
    deposit: CommitTask,
    names: HashSet<Key>,
}

/// The names of lines.
fn names(lines: &[Line]) -> HashSet<Key> {
    let names = lines.iter().filter_map(|line| line.draft.as_ref().ok()?.name.as_deref());
    names.filter_map(|name| Key::new(name).ok()).collect()
}

fn cut(refusal: &Refusal) -> Cut {
    match &refusal.failure {
        Some(error) => tracing::error!(%error, "a batch was cut off"),
        None => tracing::warn!(detail = refusal.detail, "a batch was cut off"),
    }
    Cut
}

/// Milliseconds since 1970: a batch may take hours.
fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

impl Form {
    fn read(&self, (number, text): Raw, seed: [u8; 16]) -> Line {
        let malformed = |why: &str| Refusal::new(Reason::Malformed, "malformed", why);
        let mut name = None;
        let draft = text.map_err(|why| malformed(&why)).and_then(|text| match self {
            Self::Json => RegistrationRequest::from_json(&text).inspect_err(|_| name = RegistrationRequest::name_in(&text)),
            Self::Rows(columns) => match std::str::from_utf8(&text) {
                Ok(row) => columns.draft(row).inspect_err(|_| name = columns.name(row)),
                Err(_) => Err(malformed("the row is not UTF-8")),
            },
        });
        // Each line has randomness of its own: a multiple of an odd number, all of which differ.
        let random = u128::from_be_bytes(seed)
            ^ u128::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        Line { number, draft, name, random: random.to_be_bytes() }
    }
}

/// What became of lines, a line for each.
fn print(outcomes: &[BatchLineOutcome]) -> Bytes {
    let mut printed = Vec::with_capacity(outcomes.len() * 64);
    for outcome in outcomes {
        let refusal = outcome.result.as_ref().err().map(bounded);
        let problem = refusal.map(|refusal| problem_of(&refusal).line(outcome.number));
        let told = LineResultJson {
            line: outcome.number,
            name: outcome.name.as_deref().filter(|name| name.len() <= Key::LONGEST),
            status: outcome.result.as_ref().map_or("refused", |status| status.name()),
            error: problem.as_ref().map(|problem| problem.told()),
            warnings: outcome.notes.iter().map(ToString::to_string).collect(),
        };
        if serde_json::to_writer(&mut printed, &told).is_ok() {
            printed.push(b'\n');
        }
    }
    printed.into()
}

/// Why a line was refused, within bounds: of a thousand lines it is noted together.
fn bounded(refusal: &Refusal) -> Refusal {
    let short = |text: &str| match text.char_indices().nth(TEXT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    };
    let mut room = FAULTS;
    let faults = refusal.faults.iter().map_while(|fault| {
        let fault = MetadataFault { message: short(&fault.message), allowed: &[], ..fault.clone() };
        room = room.checked_sub(fault.pointer.len() + fault.message.len())?;
        Some(fault)
    });
    Refusal {
        reason: refusal.reason,
        code: refusal.code,
        detail: short(&refusal.detail),
        pointer: refusal.pointer.clone().filter(|pointer| pointer.len() <= TEXT),
        hint: refusal.hint.as_deref().map(short),
        existing: refusal.existing.clone(),
        faults: faults.collect(),
        failure: None,
    }
}

fn written(head: &Head) -> Box<[u8]> {
    serde_json::to_vec(head).unwrap_or_default().into()
}

impl Piece {
    fn key(note: &str, first: u64) -> String {
        format!("{note}/{first:016x}")
    }

    fn read(note: Bytes) -> Option<Self> {
        let end = note.iter().position(|byte| *byte == b'\n')?;
        let mut head = std::str::from_utf8(&note[..end]).ok()?.split(' ');
        let (first, last) = (head.next()?.parse().ok()?, head.next()?.parse().ok()?);
        Some(Self { first, last, sent: head.next()?.to_owned(), answers: note.slice(end + 1..) })
    }

    /// Notes what became of some of the lines that came, as long as nobody else carries them out.
    fn edits(note: &str, head: &[u8], raw: &[Raw], outcomes: &[BatchLineOutcome]) -> Vec<Edit> {
        let (Some(first), Some(last)) = (outcomes.first(), outcomes.last()) else { return Vec::new() };
        let (first, last) = (first.number, last.number);
        // What has no fingerprint is like nothing that is sent again, and not done again.
        let sent = sent(raw.iter().filter(|line| (first..=last).contains(&line.0))).unwrap_or_default();
        let body = [format!("{first} {last} {sent}\n").as_bytes(), &print(outcomes)].concat().into();
        let key: Box<[u8]> = Self::key(note, first).into_bytes().into();
        vec![
            Edit::RequireNote { key: note.as_bytes().into(), body: Some(head.into()) },
            Edit::RequireNote { key: key.clone(), body: None },
            Edit::PutNote { key, body },
        ]
    }
}

impl Journal {
    /// Takes a batch over that was begun before, or begins a new one.
    async fn load(
        registry: &Registry,
        note: String,
        mut head: Head,
        turn: OwnedMutexGuard<()>,
    ) -> Result<Self, Box<Wrong>> {
        let at = head.at;
        let mut before = registry.store().note(note.as_bytes()).await.map_err(failed)?;
        if let Some(body) = &before {
            // That of a single deposit is none.
            let Ok(begun) = serde_json::from_slice::<Head>(body) else { return Err(reused()) };
            if is_over(begun.at, at) {
                remove(registry, note.as_bytes(), body.clone(), at).await?;
                before = None;
            } else if begun.form != head.form {
                return Err(reused());
            } else if begun.done {
                return Ok(Self { note, head: begun, _turn: turn });
            } else {
                head = Head { run: head.run, ..begun };
            }
        }
        let key: Box<[u8]> = note.as_bytes().into();
        let edits = vec![
            Edit::RequireNote { key: key.clone(), body: before },
            Edit::PutNote { key, body: written(&head) },
        ];
        match registry.store().commit(Change { by: "batch".into(), at, edits }).await {
            Ok(_) => Ok(Self { note, head, _turn: turn }),
            Err(CommitError::Note { .. }) => Err(in_use()),
            Err(error) => Err(Refusal::from(error).into()),
        }
    }

    /// Reads again what was sent before, and looks whether it is the same; what is to be done with it, up to the last line
    /// that was answered.
    async fn plan_replay(&self, registry: &Registry, reader: &mut Reader) -> Result<Vec<Step>, Box<Wrong>> {
        let (mut steps, mut after, mut left) = (Vec::new(), None, MAX_GAP_BYTES);
        while let Some(piece) = self.next_chunk(registry, after).await? {
            let (mut gap, mut gap_bytes) = (Vec::new(), 0);
            let (mut lines, mut bytes) = (Vec::new(), 0);
            loop {
                let next = reader.next().await;
                let next = next.map_err(|error| problem(error.status(), error.code(), error.to_string()))?;
                let Some(line) = next.filter(|line| line.0 <= piece.last) else { return Err(reused()) };
                let (number, length) = (line.0, line.1.as_ref().map_or(0, Bytes::len));
                if number < piece.first {
                    left = usize::checked_sub(left, length).ok_or_else(reused)?;
                    gap_bytes += length;
                    gap.push(line);
                    if gap.len() == TOGETHER || gap_bytes >= BYTES {
                        steps.push(Step::Lines(mem::take(&mut gap)));
                        gap_bytes = 0;
                    }
                    continue;
                }
                bytes += length;
                lines.push(line);
                if bytes > 2 * BYTES {
                    return Err(reused());
                }
                if number == piece.last {
                    break;
                }
            }
            if sent(lines.iter())? != piece.sent {
                return Err(reused());
            }
            if !gap.is_empty() {
                steps.push(Step::Lines(gap));
            }
            steps.push(Step::Again(piece.first));
            after = Some(piece.first);
        }
        let is_whole = !steps.iter().any(|step| matches!(step, Step::Lines(_)));
        if self.head.done && !(is_whole && matches!(reader.next().await, Ok(None))) {
            return Err(reused());
        }
        Ok(steps)
    }

    async fn next_chunk(
        &self,
        registry: &Registry,
        after: Option<u64>,
    ) -> Result<Option<Piece>, Box<Wrong>> {
        let beginning = format!("{}/", self.note);
        let after = after.map(|first| Piece::key(&self.note, first));
        let after = after.as_deref().map(str::as_bytes);
        let notes = registry.store().notes(beginning.as_bytes(), after, 1).await.map_err(failed)?;
        let Some((_, note)) = notes.into_iter().next() else { return Ok(None) };
        Piece::read(note.into()).map(Some).ok_or_else(reused)
    }

    /// Notes that it came to its end.
    async fn end(&self, registry: &Registry) -> Result<(), Box<Wrong>> {
        let head = Head { done: true, ..self.head.clone() };
        let key: Box<[u8]> = self.note.as_bytes().into();
        let edits = vec![
            Edit::RequireNote { key: key.clone(), body: Some(written(&self.head)) },
            Edit::PutNote { key, body: written(&head) },
        ];
        let change = Change { by: "batch".into(), at: now(), edits };
        registry.store().commit(change).await.map_err(Refusal::from)?;
        Ok(())
    }
}

pub(super) fn describe() -> Described {
    let post = writes(Doing::new("Registers or changes many names"))
        .about(
            "A deposit a line, as JSON or as a table with the columns name, prefix, url, state and metadata; names that are \
             there are changed. Each line that is not empty gets a line of the answer, in order, as soon as it is durable; \
             a line that is refused changes nothing and holds nobody up. With `Idempotency-Key`, a batch that was cut off \
             goes on where it was when it is sent again, for 24 hours. A rehearsal judges up to 1,000 lines for themselves, as \
             they come: it knows nothing of what those before them would do.",
        )
        .query_param("dry-run", "Tells what would be done, and does nothing", text())
        .body::<NewNameForm>(LINES, "Lines of at most 64 KiB, of any number, also as gzip", Required::True)
        .sample(
            "printf '{\"name\": \"10.70000/b1\", \"url\": \"https://example.org/b1\"}\\n' |\n  \
             curl -s $SERVER/api/v1/dois/batch -H \"Authorization: Bearer $TOKEN\" \\\n  \
             -H 'Content-Type: application/x-ndjson' --data-binary @-",
        )
        .answer(StatusCode::OK, "What became of each line")
        .json::<BatchLineForm>(LINES)
        .header("Idempotency-Replayed", "`true` if all of it was done before, and this is what was answered then");
    let post = super::wrong(post, StatusCode::UNSUPPORTED_MEDIA_TYPE, "Not lines of JSON, and no table");
    Described::only(HttpMethod::Post, post)
}
