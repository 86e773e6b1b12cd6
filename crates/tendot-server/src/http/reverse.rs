//! `/hrls/handles`: names by what their records say, as the "Handle Reverse Lookup Servlet" of EUDAT has it, which pyhandle
//! asks.
//!
//! All records may have to be looked at. That is done one look-up at a time, in slices, by a thread that gives way to all
//! others: it ends when the page is full, when its time is over, and when who asked is gone.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::Builder;
use std::time::Duration;

use data_encoding::BASE64;
use http::StatusCode;
use serde::Serialize;
use tendot_proto::{Value, Work};
use tendot_registry::{Caller, Error, Match, Registry, Search};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{Receiver, channel};
use tokio::time::{Instant, timeout, timeout_at};
use utoipa::ToSchema;
use utoipa::openapi::ObjectBuilder;
use utoipa::openapi::schema::Type;

use super::answer::{Answer, JSON, answer};
use super::authenticate::AuthenticationError;
use super::describe::{Described, Doing, text};
use super::page::{ProblemJson, problem, problem_of_store};
use super::parameters::Parameters;
use super::request::Request;
use super::{Http, WORK, caching, percent, status};

/// Who searches, and how long they may.
#[derive(Debug)]
pub(super) struct ReverseLookupGate {
    place: Semaphore,
    time: Duration,
}

impl ReverseLookupGate {
    pub(super) const fn new(time: Duration) -> Self {
        Self { place: Semaphore::const_new(1), time }
    }
}

/// Steps of a slice: some milliseconds.
const SLICE: u32 = 5_000;

/// How far a look-up gives way: beside what resolves names, it has a tenth of a core that both want.
#[cfg(target_os = "linux")]
const SCAN_NICENESS: i32 = 10;

/// Names of an answer, unless asked for more, and at most.
const NAMES: usize = 1_000;
const MAX_PAGE_SIZE: usize = 100_000;

/// Bytes of what is found, about.
const BYTES: usize = 16 << 20;

/// Patterns of a look-up.
const MAX_PATTERNS: usize = 32;

/// Parameters that are no types.
const OURS: [&str; 4] = ["limit", "page", "retrieverecords", "enforcesql"];

/// What was asked for.
#[derive(Debug)]
struct Asked {
    search: Search,
    /// How many of what is found belong to pages before.
    skip: usize,
    limit: usize,
}

/// The names, or with `retrieverecords` their values, too.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[schema(as = Found)]
enum Found {
    Names(Vec<Box<str>>),
    Records(BTreeMap<Box<str>, Vec<MatchedValueJson>>),
}

/// A value of a record that was found.
#[derive(Serialize, ToSchema)]
struct MatchedValueJson {
    #[serde(rename = "type")]
    value_type: String,
    /// The data as text, or as `format` says.
    value: String,
    /// `base64` if the data is no text.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    format: Option<&'static str>,
}

impl MatchedValueJson {
    fn of(value: &Value<'_>) -> Self {
        let (text, format) = match str::from_utf8(&value.data) {
            Ok(text) => (text.to_owned(), None),
            Err(_) => (BASE64.encode(&value.data), Some("base64")),
        };
        Self { value_type: value.type_name().into_owned(), value: text, format }
    }
}

/// Why nothing is answered.
enum ReverseLookupError {
    /// It is not understood.
    Request(String),
    Unknown(AuthenticationError),
    Refused(Error),
    /// Others search.
    Busy,
    /// It takes longer than it may.
    TooLong(Duration),
    TooLarge,
}

impl Http {
    /// Answers `GET /hrls/handles`; the prefix is that of the path, not decoded yet, or empty.
    pub(crate) async fn reverse(&self, prefix: &str, request: &Request<'_>) -> Answer {
        let mut response = match self.run_reverse_lookup(prefix, request).await {
            Ok(found) => answer(StatusCode::OK, JSON, serde_json::to_vec(&found).unwrap_or_default()),
            Err(error) => error.answer(request),
        };
        caching::set_private_no_store(response.headers_mut());
        response
    }

    async fn run_reverse_lookup(&self, prefix: &str, request: &Request<'_>) -> Result<Found, ReverseLookupError> {
        let caller = self.caller(request).await.map_err(ReverseLookupError::Unknown)?;
        let work = &mut Work::new(WORK);
        self.registry.authorize_reverse_lookup(&caller, work).await.map_err(ReverseLookupError::Refused)?;
        let asked = read(prefix, request).map_err(ReverseLookupError::Request)?;
        let records = asked.search.with_values;
        let found = self.gather(asked, caller).await?;
        Ok(if records {
            let values = |found: &Match| found.values.iter().map(MatchedValueJson::of).collect();
            Found::Records(found.iter().map(|found| (found.name.clone(), values(found))).collect())
        } else {
            Found::Names(found.into_iter().map(|found| found.name).collect())
        })
    }

    /// All of a page.
    async fn gather(&self, asked: Asked, caller: Caller) -> Result<Vec<Match>, ReverseLookupError> {
        let Asked { search, mut skip, limit } = asked;
        let time = self.searches.time;
        let waited = timeout(time, self.searches.place.acquire()).await;
        let Ok(Ok(_place)) = waited else { return Err(ReverseLookupError::Busy) };
        let until = Instant::now() + time;
        let mut slices = look(Arc::clone(&self.registry), search, caller).ok_or(ReverseLookupError::Busy)?;
        let (mut found, mut bytes) = (Vec::new(), 0);
        while found.len() < limit {
            let slice = timeout_at(until, slices.recv()).await.map_err(|_| ReverseLookupError::TooLong(time))?;
            let Some(slice) = slice else { break };
            let records = slice.map_err(ReverseLookupError::Refused)?;
            let before = skip.min(records.len());
            skip -= before;
            for record in records.into_iter().skip(before).take(limit - found.len()) {
                let values = record.values.iter().map(|value| value.data.len() + value.value_type.len());
                bytes += record.name.len() + values.sum::<usize>();
                found.push(record);
            }
            if bytes > BYTES {
                return Err(ReverseLookupError::TooLarge);
            }
        }
        Ok(found)
    }
}

/// Looks at all records, slice by slice, until there are no more or nobody takes what is found; none if the system has no
/// thread for it.
fn look(
    registry: Arc<Registry>,
    search: Search,
    caller: Caller,
) -> Option<Receiver<Result<Vec<Match>, Error>>> {
    let (sender, receiver) = channel(1);
    let runtime = Handle::current();
    let look = move || {
        let mut after = None;
        // Names are resolved first wherever there is not enough for both. Elsewhere it would be the whole process.
        #[cfg(target_os = "linux")]
        let _ = rustix::process::nice(SCAN_NICENESS);
        loop {
            let work = &mut Work::new(SLICE);
            let slice = runtime.block_on(registry.search(&search, after.as_deref(), &caller, work));
            let (slice, next) = match slice {
                Ok(matches) => (Ok(matches.records), matches.next),
                Err(error) => (Err(error), None),
            };
            if sender.blocking_send(slice).is_err() || next.is_none() {
                break;
            }
            after = next;
        }
    };
    Builder::new().name("search".into()).spawn(look).is_ok().then_some(receiver)
}

fn read(prefix: &str, request: &Request<'_>) -> Result<Asked, String> {
    let prefix = percent::decode_text(prefix, "path").map_err(|error| error.to_string())?;
    let parameters = Parameters::parse_with_urls(request.query).map_err(|error| error.to_string())?;
    let number = |name: &str, otherwise: usize| match parameters.get(name) {
        None => Ok(otherwise),
        Some(text) => text.parse::<u32>().map(|number| number as usize).map_err(|_| {
            format!("`{name}` is `{}`, and should be a number", text.chars().take(20).collect::<String>())
        }),
    };
    let limit = number("limit", NAMES)?.min(MAX_PAGE_SIZE);
    let mut search = Search::default();
    search.prefix = (!prefix.is_empty()).then(|| prefix.trim_end_matches('/').into());
    search.with_values = parameters.is_set("retrieverecords");
    for (value_type, pattern) in parameters.iter().filter(|(name, _)| !OURS.contains(name)) {
        if search.patterns() == MAX_PATTERNS {
            return Err(format!("at most {MAX_PATTERNS} values are looked for"));
        }
        search.add(value_type, pattern);
    }
    Ok(Asked { search, skip: number("page", 0)?.saturating_mul(limit), limit })
}

impl ReverseLookupError {
    fn answer(&self, request: &Request<'_>) -> Answer {
        let takes_credentials = request.takes_credentials;
        Answer::from(match self {
            Self::Request(why) => {
                let detail = format!("{why}.");
                problem(StatusCode::BAD_REQUEST, "bad-request", detail)
                    .title("This request is not understood")
            }
            Self::Unknown(error) => {
                if let Some(answer) = error.later() {
                    return answer;
                }
                let status = if takes_credentials { StatusCode::UNAUTHORIZED } else { StatusCode::FORBIDDEN };
                let detail = format!("{error}. Who asks is a key, such as `300:0.NA/10.1000`.");
                problem(status, "not-known", detail).title("Who asks is not known")
            }
            Self::Refused(Error::NeedsAuthentication) => {
                let status = if takes_credentials { StatusCode::UNAUTHORIZED } else { StatusCode::FORBIDDEN };
                let detail = "Names are looked up for those whom the operator lets do it.";
                problem(status, "not-known", detail).title("Who asks has to be known")
            }
            Self::Refused(Error::Store(error)) => {
                tracing::error!(%error, "the store failed");
                problem_of_store(error)
            }
            Self::Refused(error) => {
                let status = status::of(error.response_code(), takes_credentials);
                problem(status, "not-allowed", format!("{error}; see `search.allowed`.")).title("Not allowed")
            }
            Self::Busy => {
                let detail = "Others look something up. Try again later.";
                problem(StatusCode::SERVICE_UNAVAILABLE, "busy", detail).title("Too much to do")
            }
            Self::TooLong(time) => {
                let detail = format!(
                    "There are more records than can be looked at in {time:?}. Ask for those of one prefix, or for an \
                     earlier page."
                );
                problem(StatusCode::SERVICE_UNAVAILABLE, "too-long", detail).title("This takes too long")
            }
            Self::TooLarge => {
                let detail = "What was found is too large for one answer: ask for less by `limit`.";
                problem(StatusCode::BAD_REQUEST, "too-large", detail).title("Too much was found")
            }
        })
    }
}

/// What is done at `/hrls/handles`.
pub(super) fn describe() -> Described {
    Described::read(doing().sample(
        "curl -s \"$SERVER/hrls/handles?URL=https://example.org/*\" -H \"Authorization: Bearer $TOKEN\"",
    ))
}

/// What is done at `/hrls/handles/{prefix}`.
pub(super) fn describe_under() -> Described {
    Described::read(doing().in_path("prefix", "Only names under this prefix", text()))
}

fn doing() -> Doing {
    let number = || ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(0)).maximum(Some(u32::MAX));
    let problems = |doing: Doing, status, about: &str| {
        doing.answer(status, about).json::<ProblemJson<'_>>("application/problem+json")
    };
    let doing = Doing::new("Names by what their records say")
        .group("Records")
        .about(
            "Any parameter that is not told of here is a type of values, as `URL` is, and its value what their data is: with \
             `*` for anything, byte for byte else. A record is found if it has a value for each type, that fits all that is \
             said of that type, and that everybody may read. For those whom the operator lets search.",
        )
        .query_param("URL", "An address, with `*` for any part of it", text())
        .query_param("limit", "Names of a page: 1,000 unless told otherwise, at most 100,000", number().into())
        .query_param("page", "Which page, from 0 on", number().into())
        .query_param("retrieverecords", "Whether values are shown, too", text())
        .credentials(true)
        .answer(StatusCode::OK, "The names, in order; or with `retrieverecords`, the values of each name")
        .json::<Found>("application/json");
    let doing = problems(doing, StatusCode::BAD_REQUEST, "Not understood, or too much was found");
    let doing = problems(doing, StatusCode::UNAUTHORIZED, "Credentials are needed, or not right")
        .header("WWW-Authenticate", "Which are taken");
    let doing =
        problems(doing, StatusCode::FORBIDDEN, "Who asks may not search, or credentials are not taken here");
    let doing = problems(doing, StatusCode::INTERNAL_SERVER_ERROR, "The store failed");
    problems(doing, StatusCode::SERVICE_UNAVAILABLE, "Others search, or it takes longer than it may")
        .header("Retry-After", "Seconds, if others search")
}
