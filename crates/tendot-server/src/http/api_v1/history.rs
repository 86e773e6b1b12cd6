//! `/api/v1/history/{name}`: history of a name.

use http::StatusCode;
use http::header::{CACHE_CONTROL, HeaderValue};
use serde::Serialize;
use serde_json::value::RawValue;
use tendot_proto::{Budget, Handle, HandleValue};
use tendot_registry::{Caller, Error, HistoryEvent, HistoryEventKind, PrefixHolder, SnapshotState};
use tendot_store::{EditKind, HistoryOrder};
use utoipa::ToSchema;

use crate::clock::{format_millis, unix_millis};
use crate::http::api_v1::JSON;
use crate::http::handle_api::ValueForm;
use crate::http::pages::{self, ProblemJson};
use crate::http::request::percent;
use crate::http::request::query::{QueryParams, number};
use crate::http::request::request_head::RequestHead;
use crate::http::response::caching;
use crate::http::response::reply::{self, Reply, reply};
use crate::http::routing::operation_spec::{OperationSpec, PathSpec, count_schema, text_schema};
use crate::http::{HttpServer, REQUEST_BUDGET};

/// Default and maximum number of changes per response.
const DEFAULT_PAGE_SIZE: usize = 100;
const MAX_PAGE_SIZE: usize = 500;

/// History of a name, oldest change first.
#[derive(Serialize, ToSchema)]
#[schema(as = History)]
struct HistoryJson<'a> {
    /// The name as it was asked for.
    name: &'a str,
    items: Vec<HistoryItemJson<'a>>,
    /// What to ask for as `after`, if there is more.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<u64>,
}

/// One change in a history.
#[derive(Serialize, ToSchema)]
#[schema(as = HistoryItem)]
struct HistoryItemJson<'a> {
    /// Its number in the log of the service; later ones have larger numbers.
    seq: u64,
    /// `create`, `update`, `tombstone`, `remove`, `import`: one of many that came to be or were changed together; or
    /// `transfer`: the prefix changed hands, and the name with it.
    kind: &'static str,
    #[schema(format = DateTime)]
    at: String,
    /// `agency:CODE`, `registrant:ID`, a handle's identity, such as `300:0.NA/10.5555`, `operator`, or a part of the service;
    /// null if that is not told.
    by: Option<&'a str>,
    /// What was there before: null if nothing was; left out if that is not known any more, and of a transfer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<SnapshotJson>)]
    before: Option<Option<SnapshotJson<'a>>>,
    /// What was there after it, likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<SnapshotJson>)]
    after: Option<Option<SnapshotJson<'a>>>,
    /// Who had the prefix before a transfer.
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<PrefixHolderJson<'a>>,
    /// Who got it.
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<PrefixHolderJson<'a>>,
}

/// Record before or after a change.
#[derive(Serialize, ToSchema)]
#[schema(as = HistoryRecord)]
struct SnapshotJson<'a> {
    /// `reserved`, `registered` or `tombstone`.
    state: &'static str,
    /// The id of the registrant who had it, if anybody did.
    #[serde(skip_serializing_if = "Option::is_none")]
    registrant: Option<&'a str>,
    #[schema(value_type = Vec<ValueForm>)]
    values: &'a [HandleValue<'static>],
    /// Its metadata, as kernel JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    metadata: Option<&'a RawValue>,
}

/// Registrant and agency of a prefix.
#[derive(Serialize, ToSchema)]
#[schema(as = HistoryHolder)]
struct PrefixHolderJson<'a> {
    registrant: &'a str,
    agency: &'a str,
}

impl<'a> From<&'a HistoryEvent> for HistoryItemJson<'a> {
    fn from(event: &'a HistoryEvent) -> Self {
        let item = Self {
            seq: event.sequence,
            kind: "transfer",
            at: format_millis(event.time_ms),
            by: Some(&*event.author).filter(|by| !by.is_empty()),
            before: None,
            after: None,
            from: None,
            to: None,
        };
        match &event.kind {
            HistoryEventKind::Changed { kind: done, before, after } => Self {
                kind: edit_kind_name(*done),
                before: snapshot_json(before),
                after: snapshot_json(after),
                ..item
            },
            HistoryEventKind::PrefixTransferred { from, to } => {
                let holder = |holder: &'a PrefixHolder| {
                    Some(PrefixHolderJson { registrant: &holder.registrant, agency: &holder.agency })
                };
                Self { from: holder(from), to: holder(to), ..item }
            }
        }
    }
}

fn snapshot_json(then: &SnapshotState) -> Option<Option<SnapshotJson<'_>>> {
    match then {
        SnapshotState::Unknown => None,
        SnapshotState::Absent => Some(None),
        SnapshotState::Record(was) => Some(Some(SnapshotJson {
            state: was.state.as_str(),
            registrant: was.registrant.as_deref(),
            values: &was.values,
            metadata: was.metadata.as_deref(),
        })),
    }
}

/// Name of a kind of change.
pub(crate) const fn edit_kind_name(kind: EditKind) -> &'static str {
    match kind {
        EditKind::Create => "create",
        EditKind::Update => "update",
        EditKind::Tombstone => "tombstone",
        EditKind::Remove => "remove",
        EditKind::Import => "import",
        EditKind::Home => "home",
        EditKind::Unhome => "unhome",
        _ => "other",
    }
}

impl HttpServer {
    /// Handles `GET /api/v1/history/{name}`; `path` is the name, not decoded yet.
    pub(crate) async fn get_history(&self, path: &str, request: &RequestHead<'_>) -> Reply {
        let parsed = percent::decode_text(path, "path")
            .and_then(|name| Ok((name, QueryParams::parse(request.query)?)))
            .map_err(|error| error.to_string())
            .and_then(|(name, parameters)| {
                let (after, limit) = (number(&parameters, "after")?, number(&parameters, "limit")?);
                Ok((name, after.unwrap_or_default(), limit, parameters.is_set("pretty")))
            });
        let (name, after, limit, is_pretty) = match parsed {
            Ok(parsed) => parsed,
            Err(reason) => return pages::problem_of_request(&reason),
        };
        let caller = match self.authenticate(request).await {
            Ok(caller) => caller,
            Err(error) => return pages::problem_of_caller(error, request.accepts_credentials),
        };
        let limit = limit
            .map_or(DEFAULT_PAGE_SIZE, |limit| usize::try_from(limit).unwrap_or(MAX_PAGE_SIZE))
            .clamp(1, MAX_PAGE_SIZE);
        let order = HistoryOrder::OldestFirst { after };
        let found = self
            .registry
            .record_history(
                Handle::from(&*name),
                order,
                limit,
                &caller,
                unix_millis(),
                &mut Budget::new(REQUEST_BUDGET),
            )
            .await;
        let history = match found {
            Ok(history) => history,
            Err(error) => {
                if let Error::Store(error) = &error {
                    tracing::error!(%error, "store error");
                }
                return pages::problem_of_name(&name, &error);
            }
        };
        let items = history.items.iter().map(HistoryItemJson::from).collect();
        let body = HistoryJson { name: &name, items, next: history.next };
        let rendered = if is_pretty { serde_json::to_vec_pretty(&body) } else { serde_json::to_vec(&body) };
        let Ok(json) = rendered else { return reply(StatusCode::INTERNAL_SERVER_ERROR, reply::JSON, "") };
        let mut response = reply(StatusCode::OK, reply::JSON, json);
        if caller != Caller::Anonymous {
            caching::set_private_no_store(response.headers_mut());
            return response;
        }
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        let body = response.body().clone();
        caching::add_etag(response, &body, request.headers)
    }
}

/// OpenAPI spec of `/api/v1/history/{name}`.
pub(crate) fn describe() -> PathSpec {
    let problem = |spec: OperationSpec, status, about: &str| {
        spec.response(status, about).json_content::<ProblemJson<'_>>("application/problem+json")
    };
    let spec = OperationSpec::new("All that ever changed under a name")
        .description(
            "The oldest change first, each with what was there before and after: state, registrant, metadata, and the values \
             that everybody could read then, for the operator also those that administrators could. A prefix that changed \
             hands is a `transfer`. A name that has ended or was removed keeps its history; of one that is only reserved, \
             those concerned are told.",
        )
        .tag("Names")
        .path_param("name", "A name, with the slashes that it has, percent-encoded or not", text_schema())
        .query_param("after", "Only changes after the one of this number", count_schema())
        .query_param("limit", "At most so many changes: from 1 to 500, and 100 unless told otherwise", count_schema())
        .query_param("pretty", "On several lines", text_schema())
        .security(false)
        .example_command("curl -s \"$SERVER/api/v1/history/10.5555/DEMO?pretty\"")
        .response(StatusCode::OK, "The changes; fewer than were asked for where records are large")
        .json_content::<HistoryJson<'_>>(JSON)
        .response_header("ETag", "Changes when the answer does")
        .response(StatusCode::NOT_MODIFIED, "The client has it already (`If-None-Match`)");
    let spec = problem(spec, StatusCode::BAD_REQUEST, "Not understood, no name, or not kept here");
    let spec = problem(spec, StatusCode::UNAUTHORIZED, "The credentials are not right")
        .response_header("WWW-Authenticate", "Which are taken");
    let spec = problem(spec, StatusCode::FORBIDDEN, "Credentials are not taken here");
    let spec = problem(spec, StatusCode::NOT_FOUND, "There never was a record of this name");
    let spec = problem(spec, StatusCode::INTERNAL_SERVER_ERROR, "The store failed");
    PathSpec::readable(problem(spec, StatusCode::SERVICE_UNAVAILABLE, "There is too much to do"))
}
