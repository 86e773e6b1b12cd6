//! `/api/v1/changes`: change feed, as NDJSON or server-sent events (SSE).

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use data_encoding::BASE64URL_NOPAD;
use http::StatusCode;
use http::header::{HeaderName, HeaderValue};
use serde::Serialize;
use tendot_proto::Budget;
use tendot_registry::{Caller, ChangeCursor, ChangeEvent, ChangeEvents, ChangeSubject, Error, Registry};
use tendot_store::NameKey;
use tokio::sync::{Semaphore, watch};
use tokio::time::sleep;
use utoipa::ToSchema;

use crate::http::api_v1::changes::log_head::last_change;
use crate::http::api_v1::changes::subscribers::LogPosition;
use crate::http::api_v1::history::{edit_kind_name, format_millis, number};
use crate::http::pages::{self, ProblemJson, problem, vary_by_accept};
use crate::http::request::accept;
use crate::http::request::query::QueryParams;
use crate::http::request::request_head::RequestHead;
use crate::http::response::caching;
use crate::http::response::reply::Reply;
use crate::http::response::stream::{BodySink, StreamAborted, stream};
use crate::http::routing::operation_spec::{OperationSpec, PathSpec, pattern_schema, positive_schema};
use crate::http::{HttpServer, REQUEST_BUDGET};
use crate::maintenance::unix_millis;

/// Changes per read.
const READ_BATCH_SIZE: usize = 128;

/// Bytes per chunk.
const SEND_CHUNK_BYTES: usize = 32 << 10;

/// Heartbeat interval of an event stream.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(15);

/// Last event of a stream whose log was truncated: some of its changes may be lost. Without an id, a browser starts anew.
const RESET_EVENT: &str = "id:\nevent: lost\ndata: {}\n\n";

const NDJSON: &str = "application/x-ndjson";
const EVENT_STREAM: &str = "text/event-stream";

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
    /// Cursor for `after`; absent if it equals `seq`.
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
}

impl<'a> ChangeJson<'a> {
    fn of(changed: &'a ChangeEvent) -> Self {
        Self {
            seq: changed.sequence,
            name: &changed.name,
            kind: event_name(changed),
            at: format_millis(changed.at),
            by: Some(&*changed.by).filter(|by| !by.is_empty()),
            cursor: changed.cursor.within.is_some().then(|| format_cursor(&changed.cursor)),
        }
    }
}

const fn event_name(changed: &ChangeEvent) -> &'static str {
    match changed.subject {
        ChangeSubject::Agency => "agency",
        ChangeSubject::Registrant => "registrant",
        ChangeSubject::Token => "token",
        ChangeSubject::Transfer => "transfer",
        _ => edit_kind_name(changed.kind),
    }
}

/// Formats a cursor: `12`, or `12:` and a name within that log entry, in characters that need no escaping anywhere.
fn format_cursor(cursor: &ChangeCursor) -> String {
    match &cursor.within {
        None => cursor.sequence.to_string(),
        Some(key) => format!("{}:{}", cursor.sequence, BASE64URL_NOPAD.encode(key.as_bytes())),
    }
}

fn parse_cursor(text: &str) -> Option<ChangeCursor> {
    let (sequence, within) = text.split_once(':').map_or((text, None), |(start, rest)| (start, Some(rest)));
    let key = |encoded: &str| {
        let bytes = BASE64URL_NOPAD.decode(encoded.as_bytes()).ok()?;
        NameKey::new(std::str::from_utf8(&bytes).ok()?).ok()
    };
    Some(ChangeCursor {
        // A sign is not accepted.
        sequence: sequence.bytes().all(|byte| byte.is_ascii_digit()).then(|| sequence.parse().ok())??,
        within: match within {
            Some(encoded) => Some(key(encoded)?),
            None => None,
        },
    })
}

/// Streams changes to one client.
struct ChangeStream {
    registry: Arc<Registry>,
    caller: Caller,
    backlog_permits: Arc<Semaphore>,
    /// Remaining changes.
    left: u64,
    is_event: bool,
}

impl ChangeStream {
    /// Reads a page of the backlog. Scanning all records for those of an import may take long, so few clients do it
    /// concurrently.
    async fn read_backlog(&self, after: &ChangeCursor) -> Result<ChangeEvents, Error> {
        let _turn = self.backlog_permits.acquire().await.ok();
        self.read_recent(after).await
    }

    /// Reads a page of recent changes.
    async fn read_recent(&self, after: &ChangeCursor) -> Result<ChangeEvents, Error> {
        let limit = usize::try_from(self.left).unwrap_or(READ_BATCH_SIZE).min(READ_BATCH_SIZE);
        self.registry
            .list_changes(after, limit, &self.caller, unix_millis(), &mut Budget::new(REQUEST_BUDGET))
            .await
    }

    /// Sends changes, beginning with those already read, until there are none at present. Returns the cursor to continue from.
    async fn send_all(
        &mut self,
        mut changes: ChangeEvents,
        sink: &BodySink,
    ) -> Result<ChangeCursor, StreamAborted> {
        loop {
            let mut piece = BytesMut::new();
            for changed in &changes.items {
                self.write_change(changed, &mut piece);
                if piece.len() >= SEND_CHUNK_BYTES {
                    sink.send(piece.split().freeze()).await?;
                }
            }
            sink.send(piece.freeze()).await?;
            self.left = self.left.saturating_sub(changes.items.len() as u64);
            if changes.is_end || self.left == 0 {
                return Ok(changes.next);
            }
            // A local store never yields: let other tasks run.
            tokio::task::yield_now().await;
            changes = self.read_backlog(&changes.next).await.map_err(abort_stream)?;
        }
    }

    fn write_change(&self, changed: &ChangeEvent, out: &mut BytesMut) {
        let json = serde_json::to_vec(&ChangeJson::of(changed)).unwrap_or_default();
        if self.is_event {
            let begin =
                format!("id: {}\nevent: {}\ndata: ", format_cursor(&changed.cursor), event_name(changed));
            out.extend_from_slice(begin.as_bytes());
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
        mut seen: watch::Receiver<LogPosition>,
        losses: u64,
        sink: &BodySink,
    ) -> Result<(), StreamAborted> {
        sink.send("retry: 1000\n\n").await?;
        loop {
            let next = self.send_all(changes, sink).await?;
            if self.left == 0 {
                return Ok(());
            }
            loop {
                tokio::select! {
                    changed = seen.changed() => {
                        changed.map_err(|_| StreamAborted)?;
                        if seen.borrow_and_update().losses != losses {
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
    if matches!(error, Error::Policy(_)) {
        return StreamAborted;
    }
    tracing::error!(%error, "changes can't be read, and an answer was cut off");
    StreamAborted
}

/// Start cursor and number of changes of a request.
fn parse_request(request: &RequestHead<'_>) -> Result<(ChangeCursor, u64), String> {
    let parameters = QueryParams::parse(request.query).map_err(|error| error.to_string())?;
    let limit = number(&parameters, "limit")?;
    if limit == Some(0) {
        return Err("`limit` in the query is 0".into());
    }
    let written = match request.headers.get(LAST_EVENT_ID).filter(|id| !id.is_empty()) {
        // A browser that reconnects requests the same path again, with `Last-Event-ID`.
        Some(id) if accept::prefers_event_stream(request.headers) => {
            Some((id.to_str().ok(), "`Last-Event-ID`"))
        }
        _ => parameters.get("after").map(|after| (Some(after), "`after` in the query")),
    };
    let after = match written {
        None => ChangeCursor::default(),
        Some((text, place)) => text.and_then(parse_cursor).ok_or_else(|| {
            format!("{place} is no place: a number, or a `cursor` or `id` as it was given with a change")
        })?,
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
        let is_lost = reader.is_event
            && changes.items.is_empty()
            && changes.is_end
            && last_change(self.registry.store(), after.sequence).await? < after.sequence;
        Ok((changes, is_lost))
    }

    /// Handles `GET /api/v1/changes`.
    pub(crate) async fn get_changes(&self, request: &RequestHead<'_>) -> Reply {
        let (after, left) = match parse_request(request) {
            Ok(asked) => asked,
            Err(why) => return pages::problem_of_request(&why),
        };
        let caller = match self.authenticate(request).await {
            Ok(caller) => caller,
            Err(error) => return pages::problem_of_caller(error, request.accepts_credentials),
        };
        let is_private = caller != Caller::Anonymous;
        let Some(place) = self.subscribers.acquire(is_private) else { return too_many() };
        let is_event = accept::prefers_event_stream(request.headers);
        // Subscribed before the first read, so that no change is missed.
        let seen = is_event.then(|| self.subscribers.subscribe(&self.registry));
        let losses = seen.as_ref().map_or(0, |seen| seen.borrow().losses);
        let (registry, backlog_permits) =
            (Arc::clone(&self.registry), Arc::clone(&self.subscribers.backlog_permits));
        let mut reader = ChangeStream { registry, caller, backlog_permits, left, is_event };
        // An error of the first page can still be reported with a status.
        let (changes, is_lost) = match self.read_first_page(&reader, &after).await {
            Ok(read) => read,
            Err(Error::Policy(refusal)) => {
                return problem(StatusCode::UNAUTHORIZED, refusal.code, &refusal.detail).into();
            }
            Err(error) => {
                tracing::error!(%error, "changes can't be read");
                return match &error {
                    Error::Store(error) => pages::problem_for_store(error).into(),
                    error => problem(StatusCode::INTERNAL_SERVER_ERROR, "failed", error.to_string()).into(),
                };
            }
        };
        let subscribers = self.subscribers.clone();
        let kind = HeaderValue::from_static(if is_event { EVENT_STREAM } else { NDJSON });
        let mut response = vary_by_accept(stream(StatusCode::OK, kind, async move |sink| {
            let _place = place;
            let Some(seen) = seen else { return reader.send_all(changes, &sink).await.map(|_| ()) };
            if is_lost {
                return sink.send(RESET_EVENT).await;
            }
            tokio::select! {
                followed = reader.follow(changes, seen, losses, &sink) => followed,
                () = subscribers.wait_shutdown() => Ok(()),
            }
        }));
        if is_event {
            response.headers_mut().insert(X_ACCEL_BUFFERING, HeaderValue::from_static("no"));
        }
        if is_private {
            caching::set_private_no_store(response.headers_mut());
        }
        response
    }
}

fn too_many() -> Reply {
    let detail = "Too many others read changes at present. Try again later.";
    problem(StatusCode::SERVICE_UNAVAILABLE, "busy", detail).into()
}

/// OpenAPI spec of `/api/v1/changes`.
pub(crate) fn describe() -> PathSpec {
    let problem = |spec: OperationSpec, status, about: &str| {
        spec.response(status, about).json_content::<ProblemJson<'_>>("application/problem+json")
    };
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
        .security(false)
        .example_command("curl -s \"$SERVER/api/v1/changes?limit=3\"")
        .response(StatusCode::OK, "The changes")
        .json_content::<ChangeJson<'_>>(NDJSON)
        .text_content(EVENT_STREAM);
    let spec = problem(spec, StatusCode::BAD_REQUEST, "Malformed request");
    let spec = problem(spec, StatusCode::UNAUTHORIZED, "Authentication failed")
        .response_header("WWW-Authenticate", "Supported authentication schemes");
    let spec = problem(spec, StatusCode::FORBIDDEN, "Credentials not accepted on this connection");
    let spec = problem(spec, StatusCode::INTERNAL_SERVER_ERROR, "Store error");
    PathSpec::readable(problem(spec, StatusCode::SERVICE_UNAVAILABLE, "Too many subscribers"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors() {
        for text in ["0", "12", "18446744073709551615", "12:MTAuMS9Y", "12:MTAuMS_DqQ"] {
            assert_eq!(parse_cursor(text).as_ref().map(format_cursor).as_deref(), Some(text), "{text}");
        }
        assert_eq!(parse_cursor("12:MTAuMS9Y").unwrap().within, NameKey::new("10.1/x").ok());
        for text in [
            "",
            "x",
            "-1",
            "+1",
            " 1",
            "1 ",
            "18446744073709551616",
            "12:",
            "12:MTAuMS9Y=",
            "12:_w",
            ":MTAuMS9Y",
        ] {
            assert_eq!(parse_cursor(text), None, "{text}");
        }
    }
}
