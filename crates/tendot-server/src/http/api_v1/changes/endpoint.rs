//! `/api/v1/changes`: change feed, as NDJSON or server-sent events (SSE).

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use http::StatusCode;
use http::header::{HeaderName, HeaderValue};
use serde::Serialize;
use tendot_proto::Budget;
use tendot_registry::{
    CallContext, Caller, ChangeCursor, ChangeEvent, ChangeEvents, ChangeSubject, Error, Registry,
};
use tokio::sync::{Semaphore, watch};
use tokio::time::sleep;
use utoipa::ToSchema;

use crate::clock::format_millis;
use crate::http::api_v1::changes::cursor::{format_cursor, parse_cursor};
use crate::http::api_v1::changes::subscribers::LogPosition;
use crate::http::api_v1::{ApiRequest, ApiResult, malformed, number};
use crate::http::pages::vary_by_accept;
use crate::http::request::accept;
use crate::http::response::caching;
use crate::http::response::errors::{overloaded, problem_for_error};
use crate::http::response::reply::{EVENT_STREAM, NDJSON};
use crate::http::response::stream::{BodySink, StreamAborted, stream};
use crate::http::routing::operation_spec::{OperationSpec, PathSpec, pattern_schema, positive_schema};
use crate::http::{HttpServer, REQUEST_BUDGET};

/// Changes per read.
const READ_BATCH_SIZE: usize = 128;

/// Bytes per chunk.
const SEND_CHUNK_BYTES: usize = 32 << 10;

/// Heartbeat interval of an event stream.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(15);

/// Last event of a stream whose log was truncated: some of its changes may be lost. Without an id, a browser starts over.
const RESET_EVENT: &str = "id:\nevent: reset\ndata: {}\n\n";

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// One change of the change feed.
#[derive(Serialize, ToSchema)]
#[schema(as = Change)]
struct ChangeJson<'a> {
    /// Sequence number in the change log, ascending; the changes of one import share a number.
    seq: u64,
    /// Changed object: a name, a prefix, or the id of a party.
    name: &'a str,
    /// `create`, `update`, `tombstone`, `remove` or `import` of a record, `home` or `unhome` of a prefix, or the type of another
    /// object: `agency`, `registrant`, and for the operator `token` and `transfer`.
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
    /// Cursor for `after`; absent if it equals `seq`.
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
}

impl<'a> From<&'a ChangeEvent> for ChangeJson<'a> {
    fn from(changed: &'a ChangeEvent) -> Self {
        Self {
            seq: changed.sequence,
            name: &changed.name,
            kind: event_name(changed),
            at: format_millis(changed.time_ms),
            by: Some(&*changed.author.principal).filter(|by| !by.is_empty()),
            token: changed.author.token.as_deref(),
            client: changed.author.client,
            cursor: changed.cursor.import_key.is_some().then(|| format_cursor(&changed.cursor)),
        }
    }
}

const fn event_name(changed: &ChangeEvent) -> &'static str {
    match changed.subject {
        ChangeSubject::Agency => "agency",
        ChangeSubject::Registrant => "registrant",
        ChangeSubject::Token => "token",
        ChangeSubject::Transfer => "transfer",
        _ => changed.kind.as_str(),
    }
}

/// Streams changes to one client.
struct ChangeStream {
    registry: Arc<Registry>,
    caller: Caller,
    backlog_permits: Arc<Semaphore>,
    /// Remaining changes.
    remaining: u64,
    is_event_stream: bool,
}

impl ChangeStream {
    /// Reads a page of the backlog. Scanning all records for those of an import may take long, so few clients do it
    /// concurrently.
    async fn read_backlog(&self, after: &ChangeCursor) -> Result<ChangeEvents, Error> {
        let _permit = self.backlog_permits.acquire().await.ok();
        self.read_recent(after).await
    }

    /// Reads a page of recent changes.
    async fn read_recent(&self, after: &ChangeCursor) -> Result<ChangeEvents, Error> {
        let limit = usize::try_from(self.remaining).unwrap_or(READ_BATCH_SIZE).min(READ_BATCH_SIZE);
        let mut budget = Budget::new(REQUEST_BUDGET);
        let call = CallContext::new(&self.caller, self.registry.now_ms(), &mut budget);
        self.registry.list_changes(after, limit, call).await
    }

    /// Sends changes, beginning with those already read, until there are none at present. Returns the cursor to continue from.
    async fn send_all(
        &mut self,
        mut changes: ChangeEvents,
        sink: &BodySink,
    ) -> Result<ChangeCursor, StreamAborted> {
        loop {
            let mut chunk = BytesMut::new();
            for changed in &changes.items {
                self.write_change(changed, &mut chunk);
                if chunk.len() >= SEND_CHUNK_BYTES {
                    sink.send(chunk.split().freeze()).await?;
                }
            }
            sink.send(chunk.freeze()).await?;
            self.remaining = self.remaining.saturating_sub(changes.items.len() as u64);
            if changes.is_end || self.remaining == 0 {
                return Ok(changes.next);
            }
            // A local store never yields: let other tasks run.
            tokio::task::yield_now().await;
            changes = self.read_backlog(&changes.next).await.map_err(abort_stream)?;
        }
    }

    fn write_change(&self, changed: &ChangeEvent, out: &mut BytesMut) {
        let json = serde_json::to_vec(&ChangeJson::from(changed)).unwrap_or_default();
        if self.is_event_stream {
            let start =
                format!("id: {}\nevent: {}\ndata: ", format_cursor(&changed.cursor), event_name(changed));
            out.extend_from_slice(start.as_bytes());
            out.extend_from_slice(&json);
            out.extend_from_slice(b"\n\n");
        } else {
            out.extend_from_slice(&json);
            out.extend_from_slice(b"\n");
        }
    }
}

impl ChangeStream {
    /// Sends changes as they happen, until the client disconnects.
    async fn follow(
        mut self,
        mut changes: ChangeEvents,
        mut position: watch::Receiver<LogPosition>,
        truncations: u64,
        sink: &BodySink,
    ) -> Result<(), StreamAborted> {
        sink.send("retry: 1000\n\n").await?;
        loop {
            let next = self.send_all(changes, sink).await?;
            if self.remaining == 0 {
                return Ok(());
            }
            loop {
                tokio::select! {
                    changed = position.changed() => {
                        changed.map_err(|_| StreamAborted)?;
                        if position.borrow_and_update().truncations != truncations {
                            return sink.send(RESET_EVENT).await;
                        }
                        break;
                    }
                    () = sleep(HEARTBEAT_INTERVAL) => sink.send(":\n\n").await?,
                    () = sink.closed() => return Err(StreamAborted),
                }
            }
            changes = self.read_recent(&next).await.map_err(abort_stream)?;
        }
    }
}

fn abort_stream(error: Error) -> StreamAborted {
    // Loss of permission is not a server failure.
    if matches!(error, Error::Registry(_)) {
        return StreamAborted;
    }
    tracing::error!(%error, "reading changes failed; response aborted");
    StreamAborted
}

/// Start cursor and number of changes of a request.
fn parse_request(request: &ApiRequest<'_>) -> Result<(ChangeCursor, u64), String> {
    let (headers, parameters) = (request.head.headers, &request.parameters);
    let limit = number(parameters, "limit")?;
    if limit == Some(0) {
        return Err("`limit` must be positive".into());
    }
    let requested = match headers.get(LAST_EVENT_ID).filter(|id| !id.is_empty()) {
        // A browser that reconnects requests the same path again, with `Last-Event-ID`.
        Some(id) if accept::prefers_event_stream(headers) => Some((id.to_str().ok(), "`Last-Event-ID`")),
        _ => parameters.get("after").map(|after| (Some(after), "`after`")),
    };
    let after = match requested {
        None => ChangeCursor::default(),
        Some((text, source)) => text
            .and_then(parse_cursor)
            .ok_or_else(|| format!("invalid {source}: use a `seq`, `cursor` or event `id`"))?,
    };
    Ok((after, limit.unwrap_or(u64::MAX)))
}

impl HttpServer {
    /// First changes after a cursor, and, for a subscriber, whether the log ends before it.
    async fn read_first_page(
        &self,
        reader: &ChangeStream,
        after: &ChangeCursor,
    ) -> Result<(ChangeEvents, bool), Error> {
        let changes = reader.read_backlog(after).await?;
        let is_truncated = reader.is_event_stream
            && changes.items.is_empty()
            && changes.is_end
            && self.registry.log_head().await?.sequence < after.sequence;
        Ok((changes, is_truncated))
    }

    /// Handles `GET /api/v1/changes`.
    pub(crate) async fn get_changes(&self, request: ApiRequest<'_>) -> ApiResult {
        let (after, remaining) = parse_request(&request).map_err(|reason| malformed(&reason))?;
        let is_event_stream = accept::prefers_event_stream(request.head.headers);
        let caller = request.caller;
        let is_private = caller != Caller::Anonymous;
        let Some(permit) = self.subscribers.limiter.acquire(&caller, request.head.client) else {
            return Err(overloaded("Too many change-feed subscribers. Retry later.").into());
        };
        // Subscribed before the first read, so that no change is missed.
        let position = is_event_stream.then(|| self.subscribers.subscribe(&self.registry));
        let truncations = position.as_ref().map_or(0, |position| position.borrow().truncations);
        let (registry, backlog_permits) =
            (Arc::clone(&self.registry), Arc::clone(&self.subscribers.backlog_permits));
        let mut reader = ChangeStream { registry, caller, backlog_permits, remaining, is_event_stream };
        // An error of the first page can still be reported with a status.
        let first_page = self.read_first_page(&reader, &after).await;
        let (changes, is_truncated) = first_page.map_err(|error| problem_for_error(&error))?;
        let subscribers = self.subscribers.clone();
        let credential = self.authenticator.watch_credential(request.head);
        let media_type = HeaderValue::from_static(if is_event_stream { EVENT_STREAM } else { NDJSON });
        let mut response = vary_by_accept(stream(StatusCode::OK, media_type, async move |sink| {
            let _permit = permit;
            let Some(position) = position else {
                return tokio::select! {
                    result = reader.send_all(changes, &sink) => result.map(|_| ()),
                    () = credential.wait_invalid() => Err(StreamAborted),
                };
            };
            if is_truncated {
                return sink.send(RESET_EVENT).await;
            }
            tokio::select! {
                result = reader.follow(changes, position, truncations, &sink) => result,
                () = subscribers.wait_shutdown() => Ok(()),
                // The client reconnects and gets 401.
                () = credential.wait_invalid() => Ok(()),
            }
        }));
        if is_event_stream {
            response.headers_mut().insert(X_ACCEL_BUFFERING, HeaderValue::from_static("no"));
        }
        if is_private {
            caching::set_private_no_store(response.headers_mut());
        }
        Ok(response)
    }
}

/// OpenAPI spec of `/api/v1/changes`.
pub(crate) fn describe() -> PathSpec {
    let spec = OperationSpec::new("Read the change feed")
        .description(
            "All changes after a cursor as NDJSON, oldest first. With `Accept: text/event-stream`, continues with new changes \
             as server-sent events; the event `id` is the cursor, also accepted in `Last-Event-ID`. No change is skipped or \
             repeated. Imports are reported per name. Event `reset`: the log was truncated, start over. The response is \
             streamed and not compressed; an incomplete stream was aborted.",
        )
        .tag("Resolution")
        .query_param("after", "Changes after this `seq` or `cursor`", pattern_schema("^[0-9]{1,18}$"))
        .query_param("limit", "Maximum number of changes; default unlimited", positive_schema())
        .example_command("curl -s \"$SERVER/api/v1/changes?limit=3\"")
        .response(StatusCode::OK, "The changes")
        .json_content::<ChangeJson<'_>>(NDJSON)
        .text_content(EVENT_STREAM)
        .problem(StatusCode::BAD_REQUEST, "Malformed request")
        .authentication_problems("Authentication failed", "Credentials not accepted on this connection")
        .server_problems("Too many subscribers");
    PathSpec::readable(spec)
}
