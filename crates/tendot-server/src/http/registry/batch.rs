//! `/api/v1/dois/batch`: many names at once, line by line, of any number, in constant memory.
//!
//! Lines are gathered as they come, read on all cores, and deposited in their order, some hundreds together; each gets its
//! answer as soon as it is durable. With a key, what was answered is noted in the same change: a batch that was cut off goes
//! on where it was when it is sent again, and one that was answered gets the same answer.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::body::Incoming;
use serde::{Deserialize, Serialize};
use tendot_registry::doi::{Draft, Line, LineOutcome};
use tendot_registry::party::fingerprint;
use tendot_registry::{Caller, Reason, Refusal, Registry};
use tendot_store::{Change, Edit, Key, Store};
use tokio::sync::{OwnedMutexGuard, mpsc};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use utoipa::openapi::{HttpMethod, Required};

use super::form::{BatchLineForm, NewNameForm};
use super::receipt::{failed, is_over, note_of, reused};
use super::rows::{Columns, quotes};
use super::{Answered, Asking, Wrong, bad_request, problem_of, random, writes};
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

/// How long it is waited for more of them.
const GATHERING: Duration = Duration::from_millis(3);

/// Gatherings that are read ahead, and that are deposited at the same time: they share a sync.
const AHEAD: usize = 2;
const UNDER_WAY: usize = 8;

/// How long it is waited for the same batch that is still under way, since its client has just been cut off.
const PATIENCE: Duration = Duration::from_secs(10);

const LINES: &str = "application/x-ndjson";

/// Says that all of a batch was done before, so that nobody takes old answers for new ones.
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// What became of a line, as it is told.
#[derive(Serialize)]
struct OutcomeJson<'a> {
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
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
struct Head {
    at: u64,
    /// Whether all of it was answered.
    done: bool,
}

/// A batch with a key.
struct Noting {
    note: String,
    head: Head,
    /// Gatherings that were deposited, and the fingerprint of all that was sent for them.
    pieces: u64,
    sent: String,
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

/// How a line is read.
#[derive(Clone)]
enum Form {
    Json,
    Rows(Arc<Columns>),
}

impl<S: Store + 'static> Http<S> {
    pub(super) async fn register_many(&self, asking: Asking<'_>, body: Incoming) -> Answered {
        let headers = asking.request.headers;
        let is_table = is_table(headers.get(CONTENT_TYPE))?;
        let dry = asking.parameters.is_on("dry-run");
        // Nobody sends a million lines to learn that they are not known.
        self.registry.may_deposit(&asking.caller, asking.at, &mut super::work()).await?;
        let lines = self.bodies.lines(headers, body, LineLimits::default()).await;
        let lines = lines.map_err(|error| problem(error.status(), error.code(), error.to_string()))?;
        let mut reader = Reader { lines, is_table, open: None };
        let form = match is_table {
            false => Form::Json,
            true => Form::Rows(Arc::new(reader.columns().await?)),
        };
        let mut noting = match note_of(&asking)?.filter(|_| !dry) {
            Some(note) => {
                let turn = self.turns.take(&note, PATIENCE).await.ok_or_else(|| {
                    let detail = "a batch with this `Idempotency-Key` is still under way";
                    problem(StatusCode::CONFLICT, "key-in-use", detail).hint("send it again later")
                })?;
                Some(Noting::load(&self.registry, note, asking.at, turn).await?)
            }
            None => None,
        };
        if let Some(noting) = &mut noting {
            noting.check_again(&self.registry, &mut reader).await?;
        }
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
        let mut response = stream_patiently(StatusCode::OK, kind, |sink| batch.run(reader, sink));
        if is_repeated {
            response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
        }
        caching::forbid(response.headers_mut());
        Ok(response)
    }
}

/// Whether the body is a table rather than lines of JSON.
fn is_table(kind: Option<&HeaderValue>) -> Result<bool, Box<Wrong>> {
    let Some(kind) = kind else { return Ok(false) };
    let kind = kind.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim();
    match kind.to_ascii_lowercase().as_str() {
        // What `curl` says if nobody tells it otherwise is no type that anybody means.
        "" | LINES | "application/jsonl" | "application/json" | "application/x-www-form-urlencoded" => {
            Ok(false)
        }
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
    open: Option<OpenRow>,
}

/// A row with a field that goes on in the next line.
struct OpenRow {
    number: u64,
    text: BytesMut,
    length: u64,
    quotes: u64,
}

impl OpenRow {
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
    async fn columns(&mut self) -> Result<Columns, Box<Wrong>> {
        let line = self.lines.next().await;
        let line = line.map_err(|error| problem(error.status(), error.code(), error.to_string()))?;
        let text = line.and_then(|line| line.text.ok()).unwrap_or_default();
        let text = std::str::from_utf8(&text).map_err(|_| bad_request("the first line is not UTF-8"))?;
        Columns::read(text).map_err(|why| bad_request(&why))
    }

    /// The next line that is not empty; of a table, the next row. A call that is given up loses nothing.
    async fn next(&mut self) -> Result<Option<Raw>, BodyError> {
        loop {
            let Some(line) = self.lines.next().await? else { return Ok(self.open.take().map(OpenRow::end)) };
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
            let mut row = OpenRow { number: line.number, text: BytesMut::new(), length: 0, quotes: 0 };
            row.add(line.text);
            self.open = Some(row);
        }
    }

    /// Lines that have come, or come soon; none at the end.
    async fn gather(&mut self, most: usize, patient: bool) -> Gathered {
        let mut gathered = Gathered { lines: Vec::new(), error: None };
        let mut bytes = 0;
        while gathered.lines.len() < most && bytes < BYTES {
            let next = if gathered.lines.is_empty() || patient {
                self.next().await
            } else {
                match timeout(GATHERING, self.next()).await {
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

/// The fingerprint of lines that came after others.
fn sent(before: &str, lines: &[Raw]) -> Result<String, Refusal> {
    let mut all = before.as_bytes().to_vec();
    for (number, text) in lines {
        all.extend(format!("\n{number} ").into_bytes());
        all.extend_from_slice(text.as_ref().map_or(&[][..], |text| text));
    }
    Ok(fingerprint(&all)?)
}

/// A batch that is carried out.
struct Batch<S> {
    registry: Arc<Registry<S>>,
    caller: Caller,
    dry: bool,
    noting: Option<Noting>,
    seed: [u8; 16],
    form: Form,
}

impl<S: Store + 'static> Batch<S> {
    async fn run(mut self, mut reader: Reader, sink: Sink) -> Result<(), Cut> {
        if let Some(noting) = &self.noting {
            noting.repeat(&self.registry, &sink).await?;
            if noting.head.done {
                return Ok(());
            }
        }
        let (sender, mut receiver) = mpsc::channel::<(JoinHandle<Vec<Line>>, Gathered)>(AHEAD);
        let (form, seed) = (self.form.clone(), self.seed);
        let reading = tokio::spawn(async move {
            loop {
                let gathered = reader.gather(TOGETHER, false).await;
                let is_last = gathered.lines.is_empty() || gathered.error.is_some();
                let raw: Vec<_> =
                    gathered.lines.iter().map(|(number, text)| (*number, text.clone())).collect();
                let form = form.clone();
                let read =
                    tokio::spawn(async move { raw.into_iter().map(|line| form.read(line, seed)).collect() });
                if sender.send((read, gathered)).await.is_err() || is_last {
                    break;
                }
            }
        });
        let mut under_way: VecDeque<UnderWay> = VecDeque::new();
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
                    let Some((read, gathered)) = next else {
                        ended = Some(None);
                        continue;
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
                        let deposit = self.deposit(lines, &gathered).map_err(|refusal| cut(&refusal))?;
                        under_way.push_back(UnderWay { deposit, names });
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
        if let Some(noting) = &mut self.noting {
            noting.end(&self.registry).await.map_err(|_| Cut)?;
        }
        Ok(())
    }

    /// Begins to deposit lines; what is told of them comes when it is done.
    fn deposit(&mut self, lines: Vec<Line>, gathered: &Gathered) -> Result<Depositing, Refusal> {
        let noted = match &mut self.noting {
            Some(noting) => {
                noting.sent = sent(&noting.sent, &gathered.lines)?;
                noting.pieces += 1;
                let head = format!("{} {}\n", gathered.lines.len(), noting.sent);
                Some((noting.key_of(noting.pieces - 1), head))
            }
            None => None,
        };
        let (registry, caller, dry) = (Arc::clone(&self.registry), self.caller.clone(), self.dry);
        Ok(tokio::spawn(async move {
            let beside = |outcomes: &[LineOutcome]| match &noted {
                Some((key, head)) => {
                    let body = [head.as_bytes(), &print(outcomes)].concat();
                    vec![Edit::PutNote { key: key.as_bytes().into(), body: body.into() }]
                }
                None => Vec::new(),
            };
            let outcomes = registry.deposit(&lines, &caller, now(), dry, beside).await?;
            Ok(print(&outcomes))
        }))
    }
}

/// What lines come to, while it is found out.
type Depositing = JoinHandle<Result<Bytes, Refusal>>;

/// Lines that are being deposited.
struct UnderWay {
    deposit: Depositing,
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
        let draft = text.map_err(|why| Refusal::new(Reason::Malformed, "malformed", why));
        let draft = draft.and_then(|text| match self {
            Self::Json => Draft::from_json(&text),
            Self::Rows(columns) => match std::str::from_utf8(&text) {
                Ok(row) => columns.draft(row),
                Err(_) => Err(Refusal::new(Reason::Malformed, "malformed", "the row is not UTF-8")),
            },
        });
        // Each line has randomness of its own: a multiple of an odd number, all of which differ.
        let random = u128::from_be_bytes(seed)
            ^ u128::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        Line { number, draft, random: random.to_be_bytes() }
    }
}

/// What became of lines, a line for each.
fn print(outcomes: &[LineOutcome]) -> Bytes {
    let mut printed = Vec::with_capacity(outcomes.len() * 64);
    for outcome in outcomes {
        let problem = outcome.result.as_ref().err().map(|refusal| problem_of(refusal).line(outcome.number));
        let told = OutcomeJson {
            line: outcome.number,
            name: outcome.name.as_deref(),
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

fn written(head: &Head) -> Box<[u8]> {
    serde_json::to_vec(head).unwrap_or_default().into()
}

impl Noting {
    async fn load<S: Store>(
        registry: &Registry<S>,
        note: String,
        at: u64,
        turn: OwnedMutexGuard<()>,
    ) -> Result<Self, Box<Wrong>> {
        let before = registry.store().note(note.as_bytes()).await.map_err(failed)?;
        let head = match &before {
            None => None,
            // Of a single deposit, or of one that was kept for long enough.
            Some(body) => match serde_json::from_slice::<Head>(body) {
                Ok(head) => (!is_over(head.at, at)).then_some(head),
                Err(_) => return Err(reused()),
            },
        };
        let is_new = head.is_none();
        let head = head.unwrap_or(Head { at, done: false });
        let noting = Self { note, head, pieces: 0, sent: String::new(), _turn: turn };
        if is_new {
            // What is left of an older batch with this key is none of this one.
            let mut edits = noting.old_pieces(registry).await?;
            edits.push(Edit::PutNote { key: noting.note.as_bytes().into(), body: written(&noting.head) });
            let change = Change { by: "batch".into(), at, edits };
            registry.store().commit(change).await.map_err(Refusal::from)?;
        }
        Ok(noting)
    }

    async fn old_pieces<S: Store>(&self, registry: &Registry<S>) -> Result<Vec<Edit>, Box<Wrong>> {
        let (mut edits, mut piece) = (Vec::new(), 0);
        while self.piece(registry, piece).await?.is_some() {
            edits.push(Edit::RemoveNote { key: self.key_of(piece).into_bytes().into() });
            piece += 1;
        }
        Ok(edits)
    }

    /// Reads what was sent before, and looks whether it is the same.
    async fn check_again<S: Store>(
        &mut self,
        registry: &Registry<S>,
        reader: &mut Reader,
    ) -> Result<(), Box<Wrong>> {
        while let Some((count, expected, _)) = self.piece(registry, self.pieces).await? {
            let mut lines = Vec::new();
            while lines.len() < count {
                match reader.next().await {
                    Ok(Some(line)) => lines.push(line),
                    Ok(None) => return Err(reused()),
                    Err(error) => {
                        return Err(problem(error.status(), error.code(), error.to_string()).into());
                    }
                }
            }
            self.sent = sent(&self.sent, &lines)?;
            if self.sent != expected {
                return Err(reused());
            }
            self.pieces += 1;
        }
        if self.head.done && !matches!(reader.next().await, Ok(None)) {
            return Err(reused());
        }
        Ok(())
    }

    fn key_of(&self, piece: u64) -> String {
        format!("{}/{piece:016x}", self.note)
    }

    /// What was answered before: how many lines a gathering had, the fingerprint up to them, and the answers.
    async fn piece<S: Store>(
        &self,
        registry: &Registry<S>,
        piece: u64,
    ) -> Result<Option<(usize, String, Bytes)>, Box<Wrong>> {
        let note = registry.store().note(self.key_of(piece).as_bytes()).await.map_err(failed)?;
        Ok(note.and_then(|note| {
            let note = Bytes::from(note);
            let end = note.iter().position(|byte| *byte == b'\n')?;
            let head = std::str::from_utf8(&note[..end]).ok()?;
            let (count, sent) = head.split_once(' ')?;
            Some((count.parse().ok()?, sent.to_owned(), note.slice(end + 1..)))
        }))
    }

    async fn repeat<S: Store>(&self, registry: &Registry<S>, sink: &Sink) -> Result<(), Cut> {
        for piece in 0..self.pieces {
            let Ok(Some((_, _, answers))) = self.piece(registry, piece).await else { return Err(Cut) };
            sink.send(answers).await?;
        }
        Ok(())
    }

    /// Notes that it came to its end.
    async fn end<S: Store>(&mut self, registry: &Registry<S>) -> Result<(), Box<Wrong>> {
        let head = Head { done: true, ..self.head.clone() };
        let edits = vec![Edit::PutNote { key: self.note.as_bytes().into(), body: written(&head) }];
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
             goes on where it was when it is sent again, for 24 hours.",
        )
        .in_query("dry-run", "Tells what would be done, and does nothing", text())
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
