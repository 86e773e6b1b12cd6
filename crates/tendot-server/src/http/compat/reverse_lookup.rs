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
use crate::http::request::percent;
use crate::http::request::query::QueryParams;
use crate::http::request::request_head::RequestHead;
use crate::http::response::caching;
use crate::http::response::reply::{JSON, Reply, reply};
use crate::http::routing::operation_spec::{OperationSpec, PathSpec, text_schema};
use crate::http::{HttpServer, REQUEST_BUDGET};

/// Concurrency limit and timeout of reverse lookups.
#[derive(Debug)]
pub(crate) struct ReverseLookupGate {
    permit: Semaphore,
    timeout: Duration,
}

impl ReverseLookupGate {
    pub(crate) const fn new(timeout: Duration) -> Self {
        Self { permit: Semaphore::const_new(1), timeout }
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
    lookup: ReverseLookup,
    /// Results on earlier pages.
    skip: usize,
    limit: usize,
}

/// The names, or with `retrieverecords` their values, too.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[schema(as = ReverseLookup)]
enum ReverseLookupBody {
    Names(Vec<Box<str>>),
    Records(BTreeMap<Box<str>, Vec<MatchedValueJson>>),
}

/// Value of a matching record.
#[derive(Serialize, ToSchema)]
struct MatchedValueJson {
    #[serde(rename = "type")]
    value_type: String,
    /// Data as text, or encoded as in `format`.
    value: String,
    /// `base64` if the data is not UTF-8 text.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    format: Option<&'static str>,
}

impl From<&HandleValue<'_>> for MatchedValueJson {
    fn from(value: &HandleValue<'_>) -> Self {
        let (text, format) = match str::from_utf8(&value.data) {
            Ok(text) => (text.to_owned(), None),
            Err(_) => (BASE64.encode(&value.data), Some("base64")),
        };
        Self { value_type: value.type_name().into_owned(), value: text, format }
    }
}

/// Reason a reverse lookup returned nothing; `response/errors.rs` has the replies.
pub(crate) enum ReverseLookupError {
    /// Invalid request.
    InvalidRequest(String),
    NotAuthenticated(AuthenticationError),
    Rejected(Error),
    /// Another lookup is running.
    Busy,
    /// The scan took longer than this.
    Timeout(Duration),
    TooLarge,
}

impl HttpServer {
    /// Handles `GET /hrls/handles`; `prefix` is from the path, not decoded yet, or empty.
    pub(crate) async fn get_reverse_lookup(&self, prefix: &str, request: &RequestHead<'_>) -> Reply {
        let mut response = match self.run_reverse_lookup(prefix, request).await {
            Ok(body) => reply(StatusCode::OK, JSON, serde_json::to_vec(&body).unwrap_or_default()),
            Err(error) => error.reply(request.accepts_credentials),
        };
        caching::set_private_no_store(response.headers_mut());
        response
    }

    async fn run_reverse_lookup(
        &self,
        prefix: &str,
        request: &RequestHead<'_>,
    ) -> Result<ReverseLookupBody, ReverseLookupError> {
        let caller =
            self.authenticator.authenticate(request).await.map_err(ReverseLookupError::NotAuthenticated)?;
        let budget = &mut Budget::new(REQUEST_BUDGET);
        self.registry
            .authorize_reverse_lookup(&caller, budget)
            .await
            .map_err(ReverseLookupError::Rejected)?;
        let lookup_request = parse_request(prefix, request).map_err(ReverseLookupError::InvalidRequest)?;
        let with_values = lookup_request.lookup.with_values;
        let matches = self.collect_page(lookup_request, caller).await?;
        Ok(if with_values {
            let values =
                |found: &ReverseLookupMatch| found.values.iter().map(MatchedValueJson::from).collect();
            ReverseLookupBody::Records(
                matches.iter().map(|found| (found.name.clone(), values(found))).collect(),
            )
        } else {
            ReverseLookupBody::Names(matches.into_iter().map(|found| found.name).collect())
        })
    }

    /// Collects one page.
    async fn collect_page(
        &self,
        request: ReverseLookupRequest,
        caller: Caller,
    ) -> Result<Vec<ReverseLookupMatch>, ReverseLookupError> {
        let ReverseLookupRequest { lookup, mut skip, limit } = request;
        let time_limit = self.reverse_lookups.timeout;
        let permit = timeout(time_limit, self.reverse_lookups.permit.acquire()).await;
        let Ok(Ok(_permit)) = permit else { return Err(ReverseLookupError::Busy) };
        let deadline = Instant::now() + time_limit;
        let mut slices =
            spawn_scan(Arc::clone(&self.registry), lookup, caller).ok_or(ReverseLookupError::Busy)?;
        let (mut matches, mut bytes) = (Vec::new(), 0);
        while matches.len() < limit {
            let slice = timeout_at(deadline, slices.recv())
                .await
                .map_err(|_| ReverseLookupError::Timeout(time_limit))?;
            let Some(slice) = slice else { break };
            let records = slice.map_err(ReverseLookupError::Rejected)?;
            let skipped = skip.min(records.len());
            skip -= skipped;
            for record in records.into_iter().skip(skipped).take(limit - matches.len()) {
                let values = record.values.iter().map(|value| value.data.len() + value.value_type.len());
                bytes += record.name.len() + values.sum::<usize>();
                matches.push(record);
            }
            if bytes > MAX_RESULT_BYTES {
                return Err(ReverseLookupError::TooLarge);
            }
        }
        Ok(matches)
    }
}

/// Scans all records slice by slice, until the end or until the receiver is dropped; `None` if no thread can be created.
fn spawn_scan(
    registry: Arc<Registry>,
    lookup: ReverseLookup,
    caller: Caller,
) -> Option<Receiver<Result<Vec<ReverseLookupMatch>, Error>>> {
    let (sender, receiver) = channel(1);
    let runtime = Handle::current();
    let scan = move || {
        let mut after = None;
        // Name resolution has priority. On other systems, this would affect the whole process.
        #[cfg(target_os = "linux")]
        let _ = rustix::process::nice(SCAN_NICENESS);
        loop {
            let budget = &mut Budget::new(SLICE_BUDGET);
            let slice = runtime.block_on(registry.reverse_lookup(&lookup, after.as_deref(), &caller, budget));
            let (slice, next) = match slice {
                Ok(matches) => (Ok(matches.items), matches.next),
                Err(error) => (Err(error), None),
            };
            if sender.blocking_send(slice).is_err() || next.is_none() {
                break;
            }
            after = next;
        }
    };
    Builder::new().name("reverse-lookup".into()).spawn(scan).is_ok().then_some(receiver)
}

fn parse_request(prefix: &str, request: &RequestHead<'_>) -> Result<ReverseLookupRequest, String> {
    let prefix = percent::decode_text(prefix, "path").map_err(|error| error.to_string())?;
    let parameters = QueryParams::parse_with_urls(request.query).map_err(|error| error.to_string())?;
    let number = |name: &str, default: usize| match parameters.get(name) {
        None => Ok(default),
        Some(text) => text.parse::<u32>().map(|number| number as usize).map_err(|_| {
            format!("`{name}` must be a number, not `{}`", text.chars().take(20).collect::<String>())
        }),
    };
    let limit = number("limit", DEFAULT_PAGE_SIZE)?.min(MAX_PAGE_SIZE);
    let mut lookup = ReverseLookup::default();
    lookup.prefix = (!prefix.is_empty()).then(|| prefix.trim_end_matches('/').into());
    lookup.with_values = parameters.is_set("retrieverecords");
    for (value_type, pattern) in parameters.iter().filter(|(name, _)| !CONTROL_PARAMS.contains(name)) {
        if lookup.pattern_count() == MAX_PATTERNS {
            return Err(format!("more than {MAX_PATTERNS} patterns"));
        }
        lookup.add_pattern(value_type, pattern);
    }
    Ok(ReverseLookupRequest { lookup, skip: number("page", 0)?.saturating_mul(limit), limit })
}

/// OpenAPI spec of `/hrls/handles`.
pub(crate) fn describe() -> PathSpec {
    PathSpec::readable(base_spec().example_command(
        "curl -s \"$SERVER/hrls/handles?URL=https://example.org/*\" -H \"Authorization: Bearer $TOKEN\"",
    ))
}

/// OpenAPI spec of `/hrls/handles/{prefix}`.
pub(crate) fn describe_under() -> PathSpec {
    PathSpec::readable(base_spec().path_param("prefix", "Filter by prefix", text_schema()))
}

fn base_spec() -> OperationSpec {
    let number = || ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(0)).maximum(Some(u32::MAX));
    OperationSpec::new("Find names by value (reverse lookup)")
        .tag("Handle API")
        .description(
            "Every other parameter is a value type, such as `EMAIL`, with a pattern: `*` matches anything, other characters \
             match exactly. A record matches if, for each type, one public value matches all its patterns. Requires \
             permission from the operator.",
        )
        .query_param("URL", "URL pattern with `*`", text_schema())
        .query_param("limit", "Page size; default 1,000, maximum 100,000", number().into())
        .query_param("page", "Page number, from 0", number().into())
        .query_param("retrieverecords", "`true`: include the values", text_schema())
        .response(StatusCode::OK, "Names in order; with `retrieverecords`, the values of each name")
        .json_content::<ReverseLookupBody>("application/json")
        .problem(StatusCode::BAD_REQUEST, "Malformed, or result too large")
        .authentication_problems(
            "Authentication required or failed",
            "No permission for reverse lookup, or credentials not accepted on this connection",
        )
        .server_problems("Busy, or timeout")
        .response_header("Retry-After", "Seconds until a retry may succeed")
}
