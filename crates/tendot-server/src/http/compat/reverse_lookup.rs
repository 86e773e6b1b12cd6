//! Reverse lookup, `/hrls/handles`: names by the values of their records, compatible with EUDAT's "Handle Reverse Lookup
//! Servlet" that pyhandle uses.
//!
//! A lookup may scan all records. Lookups run one at a time, in slices, on a low-priority thread, until the page is full, the
//! timeout expires, or the client disconnects.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::Builder;
use std::time::Duration;

use data_encoding::BASE64;
use http::StatusCode;
use serde::Serialize;
use tendot_proto::{Budget, HandleValue};
use tendot_registry::{Caller, Error, Registry, ReverseLookup, ReverseLookupMatch};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{Receiver, channel};
use tokio::time::{Instant, timeout, timeout_at};
use utoipa::ToSchema;
use utoipa::openapi::ObjectBuilder;
use utoipa::openapi::schema::Type;

use crate::http::authentication::AuthenticationError;
use crate::http::pages::{ProblemJson, problem, problem_for_store};
use crate::http::request::percent;
use crate::http::request::query::QueryParams;
use crate::http::request::request_head::RequestHead;
use crate::http::response::reply::{JSON, Reply, reply};
use crate::http::response::{caching, status};
use crate::http::routing::operation_spec::{OperationSpec, PathSpec, text_schema};
use crate::http::{HttpServer, REQUEST_BUDGET};

/// Concurrency limit and timeout of reverse lookups.
#[derive(Debug)]
pub(crate) struct ReverseLookupGate {
    place: Semaphore,
    time: Duration,
}

impl ReverseLookupGate {
    pub(crate) const fn new(time: Duration) -> Self {
        Self { place: Semaphore::const_new(1), time }
    }
}

/// Work budget of a slice: some milliseconds.
const SLICE_BUDGET: u32 = 5_000;

/// Niceness of the scan: in competition with name resolution, it gets a tenth of a core.
#[cfg(target_os = "linux")]
const SCAN_NICENESS: i32 = 10;

/// Default and maximum page size.
const DEFAULT_PAGE_SIZE: usize = 1_000;
const MAX_PAGE_SIZE: usize = 100_000;

/// Approximate maximum size of the results.
const MAX_RESULT_BYTES: usize = 16 << 20;

/// Maximum number of patterns.
const MAX_PATTERNS: usize = 32;

/// Parameters that are not value types.
const CONTROL_PARAMS: [&str; 4] = ["limit", "page", "retrieverecords", "enforcesql"];

/// Parsed reverse lookup: patterns and page.
#[derive(Debug)]
struct ReverseLookupRequest {
    search: ReverseLookup,
    /// Results on earlier pages.
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

/// Value of a matching record.
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
    fn of(value: &HandleValue<'_>) -> Self {
        let (text, format) = match str::from_utf8(&value.data) {
            Ok(text) => (text.to_owned(), None),
            Err(_) => (BASE64.encode(&value.data), Some("base64")),
        };
        Self { value_type: value.type_name().into_owned(), value: text, format }
    }
}

/// Reason a reverse lookup returned nothing.
enum ReverseLookupError {
    /// Invalid request.
    Request(String),
    Unknown(AuthenticationError),
    Refused(Error),
    /// Another lookup is running.
    Busy,
    /// Timeout.
    TooLong(Duration),
    TooLarge,
}

impl HttpServer {
    /// Handles `GET /hrls/handles`; `prefix` is from the path, not decoded yet, or empty.
    pub(crate) async fn get_reverse_lookup(&self, prefix: &str, request: &RequestHead<'_>) -> Reply {
        let mut response = match self.run_reverse_lookup(prefix, request).await {
            Ok(found) => reply(StatusCode::OK, JSON, serde_json::to_vec(&found).unwrap_or_default()),
            Err(error) => error.reply(request),
        };
        caching::set_private_no_store(response.headers_mut());
        response
    }

    async fn run_reverse_lookup(
        &self,
        prefix: &str,
        request: &RequestHead<'_>,
    ) -> Result<Found, ReverseLookupError> {
        let caller = self.authenticate(request).await.map_err(ReverseLookupError::Unknown)?;
        let budget = &mut Budget::new(REQUEST_BUDGET);
        self.registry.authorize_reverse_lookup(&caller, budget).await.map_err(ReverseLookupError::Refused)?;
        let asked = parse_request(prefix, request).map_err(ReverseLookupError::Request)?;
        let records = asked.search.with_values;
        let found = self.collect_page(asked, caller).await?;
        Ok(if records {
            let values = |found: &ReverseLookupMatch| found.values.iter().map(MatchedValueJson::of).collect();
            Found::Records(found.iter().map(|found| (found.name.clone(), values(found))).collect())
        } else {
            Found::Names(found.into_iter().map(|found| found.name).collect())
        })
    }

    /// Collects one page.
    async fn collect_page(
        &self,
        asked: ReverseLookupRequest,
        caller: Caller,
    ) -> Result<Vec<ReverseLookupMatch>, ReverseLookupError> {
        let ReverseLookupRequest { search, mut skip, limit } = asked;
        let time = self.reverse_lookups.time;
        let waited = timeout(time, self.reverse_lookups.place.acquire()).await;
        let Ok(Ok(_place)) = waited else { return Err(ReverseLookupError::Busy) };
        let until = Instant::now() + time;
        let mut slices =
            spawn_scan(Arc::clone(&self.registry), search, caller).ok_or(ReverseLookupError::Busy)?;
        let (mut found, mut bytes) = (Vec::new(), 0);
        while found.len() < limit {
            let slice =
                timeout_at(until, slices.recv()).await.map_err(|_| ReverseLookupError::TooLong(time))?;
            let Some(slice) = slice else { break };
            let records = slice.map_err(ReverseLookupError::Refused)?;
            let before = skip.min(records.len());
            skip -= before;
            for record in records.into_iter().skip(before).take(limit - found.len()) {
                let values = record.values.iter().map(|value| value.data.len() + value.value_type.len());
                bytes += record.name.len() + values.sum::<usize>();
                found.push(record);
            }
            if bytes > MAX_RESULT_BYTES {
                return Err(ReverseLookupError::TooLarge);
            }
        }
        Ok(found)
    }
}

/// Scans all records slice by slice, until the end or until the receiver is dropped; `None` if no thread can be created.
fn spawn_scan(
    registry: Arc<Registry>,
    search: ReverseLookup,
    caller: Caller,
) -> Option<Receiver<Result<Vec<ReverseLookupMatch>, Error>>> {
    let (sender, receiver) = channel(1);
    let runtime = Handle::current();
    let look = move || {
        let mut after = None;
        // Name resolution has priority. On other systems, this would affect the whole process.
        #[cfg(target_os = "linux")]
        let _ = rustix::process::nice(SCAN_NICENESS);
        loop {
            let budget = &mut Budget::new(SLICE_BUDGET);
            let slice = runtime.block_on(registry.reverse_lookup(&search, after.as_deref(), &caller, budget));
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

fn parse_request(prefix: &str, request: &RequestHead<'_>) -> Result<ReverseLookupRequest, String> {
    let prefix = percent::decode_text(prefix, "path").map_err(|error| error.to_string())?;
    let parameters = QueryParams::parse_with_urls(request.query).map_err(|error| error.to_string())?;
    let number = |name: &str, otherwise: usize| match parameters.get(name) {
        None => Ok(otherwise),
        Some(text) => text.parse::<u32>().map(|number| number as usize).map_err(|_| {
            format!("`{name}` is `{}`, and should be a number", text.chars().take(20).collect::<String>())
        }),
    };
    let limit = number("limit", DEFAULT_PAGE_SIZE)?.min(MAX_PAGE_SIZE);
    let mut search = ReverseLookup::default();
    search.prefix = (!prefix.is_empty()).then(|| prefix.trim_end_matches('/').into());
    search.with_values = parameters.is_set("retrieverecords");
    for (value_type, pattern) in parameters.iter().filter(|(name, _)| !CONTROL_PARAMS.contains(name)) {
        if search.pattern_count() == MAX_PATTERNS {
            return Err(format!("at most {MAX_PATTERNS} values are looked for"));
        }
        search.add_pattern(value_type, pattern);
    }
    Ok(ReverseLookupRequest { search, skip: number("page", 0)?.saturating_mul(limit), limit })
}

impl ReverseLookupError {
    fn reply(&self, request: &RequestHead<'_>) -> Reply {
        let accepts_credentials = request.accepts_credentials;
        Reply::from(match self {
            Self::Request(why) => {
                let detail = format!("{why}.");
                problem(StatusCode::BAD_REQUEST, "bad-request", detail)
                    .title("This request is not understood")
            }
            Self::Unknown(error) => {
                if let Some(answer) = error.retry_reply() {
                    return answer;
                }
                let status =
                    if accepts_credentials { StatusCode::UNAUTHORIZED } else { StatusCode::FORBIDDEN };
                let detail = format!("{error}. Who asks is a key, such as `300:0.NA/10.1000`.");
                problem(status, "not-known", detail).title("Who asks is not known")
            }
            Self::Refused(Error::NeedsAuthentication) => {
                let status =
                    if accepts_credentials { StatusCode::UNAUTHORIZED } else { StatusCode::FORBIDDEN };
                let detail = "Names are looked up for those whom the operator lets do it.";
                problem(status, "not-known", detail).title("Who asks has to be known")
            }
            Self::Refused(Error::Store(error)) => {
                tracing::error!(%error, "the store failed");
                problem_for_store(error)
            }
            Self::Refused(error) => {
                let status = status::status_for(error.response_code(), accepts_credentials);
                problem(status, "not-allowed", format!("{error}; see `reverse_lookup.allow`."))
                    .title("Not allowed")
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

/// OpenAPI spec of `/hrls/handles`.
pub(crate) fn describe() -> PathSpec {
    PathSpec::readable(base_spec().example_command(
        "curl -s \"$SERVER/hrls/handles?URL=https://example.org/*\" -H \"Authorization: Bearer $TOKEN\"",
    ))
}

/// OpenAPI spec of `/hrls/handles/{prefix}`.
pub(crate) fn describe_under() -> PathSpec {
    PathSpec::readable(base_spec().path_param("prefix", "Only names under this prefix", text_schema()))
}

fn base_spec() -> OperationSpec {
    let number = || ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(0)).maximum(Some(u32::MAX));
    let problems = |spec: OperationSpec, status, about: &str| {
        spec.response(status, about).json_content::<ProblemJson<'_>>("application/problem+json")
    };
    let spec = OperationSpec::new("Names by what their records say")
        .tag("Records")
        .description(
            "Any parameter that is not told of here is a type of values, as `URL` is, and its value what their data is: with \
             `*` for anything, byte for byte else. A record is found if it has a value for each type, that fits all that is \
             said of that type, and that everybody may read. For those whom the operator lets search.",
        )
        .query_param("URL", "An address, with `*` for any part of it", text_schema())
        .query_param("limit", "Names of a page: 1,000 unless told otherwise, at most 100,000", number().into())
        .query_param("page", "Which page, from 0 on", number().into())
        .query_param("retrieverecords", "Whether values are shown, too", text_schema())
        .security(true)
        .response(StatusCode::OK, "The names, in order; or with `retrieverecords`, the values of each name")
        .json_content::<Found>("application/json");
    let spec = problems(spec, StatusCode::BAD_REQUEST, "Not understood, or too much was found");
    let spec = problems(spec, StatusCode::UNAUTHORIZED, "Credentials are needed, or not right")
        .response_header("WWW-Authenticate", "Which are taken");
    let spec =
        problems(spec, StatusCode::FORBIDDEN, "Who asks may not search, or credentials are not taken here");
    let spec = problems(spec, StatusCode::INTERNAL_SERVER_ERROR, "The store failed");
    problems(spec, StatusCode::SERVICE_UNAVAILABLE, "Others search, or it takes longer than it may")
        .response_header("Retry-After", "Seconds, if others search")
}
