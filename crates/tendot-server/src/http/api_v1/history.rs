//! `/api/v1/history/{name}`: history of a name.

use std::net::IpAddr;

use http::StatusCode;
use http::header::{CACHE_CONTROL, HeaderValue};
use serde::Serialize;
use serde_json::value::RawValue;
use tendot_proto::HandleValue;
use tendot_registry::{Caller, HistoryEvent, HistoryEventKind, PrefixHolder, SnapshotState};
use tendot_store::HistoryOrder;
use utoipa::ToSchema;

use crate::clock::format_millis;
use crate::http::HttpServer;
use crate::http::api_v1::redactions::RedactionMarkJson;
use crate::http::api_v1::{ApiRequest, ApiResult, JSON, MetadataSchema, malformed, number, request_budget};
use crate::http::handle_api::ValueForm;
use crate::http::resolve::requested_name::RequestedName;
use crate::http::response::caching;
use crate::http::response::errors::lookup_failed;
use crate::http::response::reply::{self, reply};
use crate::http::routing::operation_spec::{OperationSpec, PathSpec, count_schema, text_schema};

/// Default and maximum number of changes per response.
const DEFAULT_PAGE_SIZE: usize = 100;
const MAX_PAGE_SIZE: usize = 500;

/// History of a name, oldest change first.
#[derive(Serialize, ToSchema)]
#[schema(as = History)]
struct HistoryJson<'a> {
    /// Name as requested.
    name: &'a str,
    items: Vec<HistoryItemJson<'a>>,
    /// Cursor of the next page, for `after`; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<u64>,
}

/// One change in a history.
#[derive(Serialize, ToSchema)]
#[schema(as = HistoryItem)]
struct HistoryItemJson<'a> {
    /// Sequence number in the change log, ascending.
    seq: u64,
    /// `create`, `update`, `tombstone`, `remove`, `import` (created or updated by an import), `redact` (earlier states were
    /// redacted), or `transfer` (with its prefix).
    kind: &'static str,
    #[schema(format = DateTime)]
    at: String,
    /// Author: `agency:CODE`, `registrant:ID`, a handle identity, such as `300:0.NA/10.5555`, `operator`, or a component of
    /// the server; null if it is not public.
    by: Option<&'a str>,
    /// Id of the author's token; for the operator only.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String)]
    token: Option<&'a str>,
    /// Address of the author's client; for the operator only.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String)]
    client: Option<IpAddr>,
    /// Record before the change: null if there was none; absent for a transfer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<SnapshotJson>)]
    before: Option<Option<SnapshotJson<'a>>>,
    /// Record after the change: null if there is none; absent for a transfer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<SnapshotJson>)]
    after: Option<Option<SnapshotJson<'a>>>,
    /// Registrant and agency before a transfer.
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<PrefixHolderJson<'a>>,
    /// Registrant and agency after a transfer.
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<PrefixHolderJson<'a>>,
}

/// Record before or after a change.
#[derive(Serialize, ToSchema)]
#[schema(as = HistoryRecord)]
struct SnapshotJson<'a> {
    /// `reserved`, `registered` or `tombstone`.
    state: &'static str,
    /// Registrant id, if the name was registered.
    #[serde(skip_serializing_if = "Option::is_none")]
    registrant: Option<&'a str>,
    #[schema(value_type = Vec<ValueForm>)]
    values: &'a [HandleValue<'static>],
    /// Kernel metadata.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = MetadataSchema)]
    metadata: Option<&'a RawValue>,
    /// Values and metadata were removed from the history.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = RedactionMarkJson)]
    redacted: Option<RedactionMarkJson<'a>>,
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
            by: Some(&*event.author.principal).filter(|by| !by.is_empty()),
            token: event.author.token.as_deref(),
            client: event.author.client,
            before: None,
            after: None,
            from: None,
            to: None,
        };
        match &event.kind {
            HistoryEventKind::Changed { kind: done, before, after } => Self {
                kind: done.as_str(),
                before: Some(snapshot_json(before)),
                after: Some(snapshot_json(after)),
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

fn snapshot_json(state: &SnapshotState) -> Option<SnapshotJson<'_>> {
    match state {
        SnapshotState::Absent => None,
        SnapshotState::Record(snapshot) => Some(SnapshotJson {
            state: snapshot.state.as_str(),
            registrant: snapshot.registrant.as_deref(),
            values: &snapshot.values,
            metadata: snapshot.metadata.as_deref(),
            redacted: snapshot.redaction.as_ref().map(RedactionMarkJson::from),
        }),
    }
}

impl HttpServer {
    /// Handles `GET /api/v1/history/{name}`.
    pub(crate) async fn get_history(&self, request: &ApiRequest<'_>) -> ApiResult {
        let number = |name| number(&request.parameters, name).map_err(|reason| malformed(&reason));
        let (after, limit) = (number("after")?.unwrap_or_default(), number("limit")?);
        let limit = limit
            .map_or(DEFAULT_PAGE_SIZE, |limit| usize::try_from(limit).unwrap_or(MAX_PAGE_SIZE))
            .clamp(1, MAX_PAGE_SIZE);
        let name = RequestedName::new(&*request.path_param);
        let order = HistoryOrder::OldestFirst { after };
        let mut budget = request_budget();
        let found =
            self.registry.record_history(name.handle(), order, limit, request.call(&mut budget)).await;
        let history = match found {
            Ok(history) => history,
            Err(error) => return Ok(lookup_failed(&name, &error, request.head.accepts_credentials)),
        };
        let items = history.items.iter().map(HistoryItemJson::from).collect();
        let body = HistoryJson { name: name.as_str(), items, next: history.next };
        let is_pretty = request.parameters.is_set("pretty");
        let rendered = if is_pretty { serde_json::to_vec_pretty(&body) } else { serde_json::to_vec(&body) };
        let Ok(json) = rendered else { return Ok(reply(StatusCode::INTERNAL_SERVER_ERROR, reply::JSON, "")) };
        let mut response = reply(StatusCode::OK, reply::JSON, json);
        if request.caller != Caller::Anonymous {
            caching::set_private_no_store(response.headers_mut());
            return Ok(response);
        }
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        let body = response.body().clone();
        Ok(caching::add_etag(response, &body, request.head.headers))
    }
}

/// OpenAPI spec of `/api/v1/history/{name}`.
pub(crate) fn describe() -> PathSpec {
    let spec = OperationSpec::new("Get the history of a name")
        .description(
            "Oldest change first, with the state before and after: status, registrant, metadata and public values; for the \
             operator also values that only administrators can read. A transfer of the prefix is a change of kind \
             `transfer`. Retired and removed names keep their history; that of a reserved name is visible only to its \
             registrant, the agency and the operator.",
        )
        .tag("Resolution")
        .path_param("name", "Name; slashes may be literal or percent-encoded", text_schema())
        .query_param("after", "Changes after this sequence number", count_schema())
        .query_param("limit", "Maximum number of changes, 1 to 500; default 100", count_schema())
        .query_param("pretty", "Pretty-print the JSON", text_schema())
        .example_command("curl -s \"$SERVER/api/v1/history/10.5555/DEMO?pretty\"")
        .response(StatusCode::OK, "The changes; fewer than `limit` if records are large")
        .json_content::<HistoryJson<'_>>(JSON)
        .entity_tag()
        .problem(StatusCode::BAD_REQUEST, "Malformed request, invalid name, or not responsible")
        .authentication_problems("Authentication failed", "Credentials not accepted on this connection")
        .problem(StatusCode::NOT_FOUND, "The name never existed")
        .server_problems("Server busy");
    PathSpec::readable(spec)
}
