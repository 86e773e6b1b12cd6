//! `/api/v1/changes`: all that changes, from any place on, once or as it happens.

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use data_encoding::BASE64URL_NOPAD;
use http::StatusCode;
use http::header::{HeaderName, HeaderValue};
use serde::Serialize;
use tendot_proto::Work;
use tendot_registry::{Caller, Changed, Changes, Cursor, Error, Registry, ChangeSubject};
use tendot_store::Key;
use tokio::sync::{Semaphore, watch};
use tokio::time::sleep;
use utoipa::ToSchema;

use super::history::{date, kind, number};
use crate::http::answer::Answer;
use crate::http::describe::{Described, Doing, at_least_one, matching};
use crate::http::followers::Seen;
use crate::http::page::{self, ProblemJson, by_accept, problem};
use crate::http::parameters::Parameters;
use crate::http::request::Request;
use crate::http::stream::{Cut, Sink, stream};
use crate::http::{Http, WORK, caching, last_change, negotiate};
use crate::upkeep::now;

/// Changes that are read together.
const TOGETHER: usize = 128;

/// Bytes that are sent together.
const PIECE: usize = 32 << 10;

/// So often somebody who follows hears from us, whether something changes or not.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(15);

/// What those are told last who may have been told of changes that were lost. Without a place, a browser begins anew.
const RESET_EVENT: &str = "id:\nevent: lost\ndata: {}\n\n";

const LINES: &str = "application/x-ndjson";
const EVENT_STREAM: &str = "text/event-stream";

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// A change.
#[derive(Serialize, ToSchema)]
#[schema(as = Change)]
struct ChangeJson<'a> {
    /// The number of its line in the log of the service; later ones have larger numbers, or the same.
    seq: u64,
    /// What changed: a name, a prefix, or the identifier of a party.
    name: &'a str,
    /// `create`, `update`, `tombstone`, `remove` or `import` of a record, `home` or `unhome` of a prefix, or what else it is
    /// about: `agency`, `registrant`, and for the operator `token` and `transfer`.
    kind: &'static str,
    #[schema(format = DateTime)]
    at: String,
    /// A handle's identity, such as `300:0.NA/10.5555`, `agency:CODE`, `registrant:ID`, `operator`, or a part of the
    /// service; null if that is not told.
    by: Option<&'a str>,
    /// What to ask for as `after` to go on after it; left out if that is `seq`.
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
}

impl<'a> ChangeJson<'a> {
    fn of(changed: &'a Changed) -> Self {
        Self {
            seq: changed.sequence,
            name: &changed.name,
            kind: word(changed),
            at: date(changed.at),
            by: Some(&*changed.by).filter(|by| !by.is_empty()),
            cursor: changed.cursor.within.is_some().then(|| print(&changed.cursor)),
        }
    }
}

const fn word(changed: &Changed) -> &'static str {
    match changed.subject {
        ChangeSubject::Agency => "agency",
        ChangeSubject::Registrant => "registrant",
        ChangeSubject::Token => "token",
        ChangeSubject::Transfer => "transfer",
        _ => kind(changed.kind),
    }
}

/// A place as it is written: `12`, or `12:` and a name within that line, in signs that need no escape anywhere.
fn print(cursor: &Cursor) -> String {
    match &cursor.within {
        None => cursor.sequence.to_string(),
        Some(key) => format!("{}:{}", cursor.sequence, BASE64URL_NOPAD.encode(key.as_bytes())),
    }
}

fn parse(text: &str) -> Option<Cursor> {
    let (sequence, within) = text.split_once(':').map_or((text, None), |(start, rest)| (start, Some(rest)));
    let key = |encoded: &str| {
        let bytes = BASE64URL_NOPAD.decode(encoded.as_bytes()).ok()?;
        Key::new(std::str::from_utf8(&bytes).ok()?).ok()
    };
    Some(Cursor {
        // A sign is none of ours.
        sequence: sequence.bytes().all(|byte| byte.is_ascii_digit()).then(|| sequence.parse().ok())??,
        within: match within {
            Some(encoded) => Some(key(encoded)?),
            None => None,
        },
    })
}

/// Whoever reads changes, and how far they are.
struct Reader {
    registry: Arc<Registry>,
    caller: Caller,
    turns: Arc<Semaphore>,
    /// Changes that are still to be told.
    left: u64,
    is_event: bool,
}

impl Reader {
    /// Reads some of what was there before: to look through all records for those of an import may take long, so that few
    /// do it at the same time.
    async fn read(&self, after: &Cursor) -> Result<Changes, Error> {
        let _turn = self.turns.acquire().await.ok();
        self.read_recent(after).await
    }

    /// Reads some of what has just come.
    async fn read_recent(&self, after: &Cursor) -> Result<Changes, Error> {
        let limit = usize::try_from(self.left).unwrap_or(TOGETHER).min(TOGETHER);
        self.registry.changes(after, limit, &self.caller, now(), &mut Work::new(WORK)).await
    }

    /// Sends changes, beginning with those that have been read, until there are no more at present. Tells where to go on.
    async fn send_all(&mut self, mut changes: Changes, sink: &Sink) -> Result<Cursor, Cut> {
        loop {
            let mut piece = BytesMut::new();
            for changed in &changes.items {
                self.print(changed, &mut piece);
                if piece.len() >= PIECE {
                    sink.send(piece.split().freeze()).await?;
                }
            }
            sink.send(piece.freeze()).await?;
            self.left = self.left.saturating_sub(changes.items.len() as u64);
            if changes.is_end || self.left == 0 {
                return Ok(changes.next);
            }
            // Of a store on this machine nothing is waited for: others have their turn.
            tokio::task::yield_now().await;
            changes = self.read(&changes.next).await.map_err(cut)?;
        }
    }

    fn print(&self, changed: &Changed, out: &mut BytesMut) {
        let json = serde_json::to_vec(&ChangeJson::of(changed)).unwrap_or_default();
        if self.is_event {
            let begin = format!("id: {}\nevent: {}\ndata: ", print(&changed.cursor), word(changed));
            out.extend_from_slice(begin.as_bytes());
            out.extend_from_slice(&json);
            out.extend_from_slice(b"\n\n");
        } else {
            out.extend_from_slice(&json);
            out.extend_from_slice(b"\n");
        }
    }
}

impl Reader {
    /// Sends all that changes, until the client goes away.
    async fn follow(
        mut self,
        mut changes: Changes,
        mut seen: watch::Receiver<Seen>,
        losses: u64,
        sink: &Sink,
    ) -> Result<(), Cut> {
        sink.send("retry: 1000\n\n").await?;
        loop {
            let next = self.send_all(changes, sink).await?;
            if self.left == 0 {
                return Ok(());
            }
            loop {
                tokio::select! {
                    changed = seen.changed() => {
                        changed.map_err(|_| Cut)?;
                        if seen.borrow_and_update().losses != losses {
                            return sink.send(RESET_EVENT).await;
                        }
                        break;
                    }
                    () = sleep(HEARTBEAT_INTERVAL) => sink.send(":\n\n").await?,
                    () = sink.gone() => return Err(Cut),
                }
            }
            changes = self.read_recent(&next).await.map_err(cut)?;
        }
    }
}

fn cut(error: Error) -> Cut {
    // Who may read no more is not our failure.
    if matches!(error, Error::Policy(_)) {
        return Cut;
    }
    tracing::error!(%error, "changes can't be read, and an answer was cut off");
    Cut
}

/// Where to begin, and how many are wanted.
fn asked(request: &Request<'_>) -> Result<(Cursor, u64), String> {
    let parameters = Parameters::parse(request.query).map_err(|error| error.to_string())?;
    let limit = number(&parameters, "limit")?;
    if limit == Some(0) {
        return Err("`limit` in the query is 0".into());
    }
    let written = match request.headers.get(LAST_EVENT_ID).filter(|id| !id.is_empty()) {
        // A browser that goes on asks for the same path as before.
        Some(id) if negotiate::prefers_event_stream(request.headers) => Some((id.to_str().ok(), "`Last-Event-ID`")),
        _ => parameters.get("after").map(|after| (Some(after), "`after` in the query")),
    };
    let after = match written {
        None => Cursor::default(),
        Some((text, place)) => text.and_then(parse).ok_or_else(|| {
            format!("{place} is no place: a number, or a `cursor` or `id` as it was given with a change")
        })?,
    };
    Ok((after, limit.unwrap_or(u64::MAX)))
}

impl Http {
    /// The first changes after a place, and for who follows whether the log ends before it.
    async fn read_first_page(&self, reader: &Reader, after: &Cursor) -> Result<(Changes, bool), Error> {
        let changes = reader.read(after).await?;
        let is_lost = reader.is_event
            && changes.items.is_empty()
            && changes.is_end
            && last_change(self.registry.store(), after.sequence).await? < after.sequence;
        Ok((changes, is_lost))
    }

    /// Answers `GET /api/v1/changes`.
    pub(crate) async fn get_changes(&self, request: &Request<'_>) -> Answer {
        let (after, left) = match asked(request) {
            Ok(asked) => asked,
            Err(why) => return page::problem_of_request(&why),
        };
        let caller = match self.caller(request).await {
            Ok(caller) => caller,
            Err(error) => return page::problem_of_caller(error, request.takes_credentials),
        };
        let is_private = caller != Caller::Anonymous;
        let Some(place) = self.followers.enter(is_private) else { return too_many() };
        let is_event = negotiate::prefers_event_stream(request.headers);
        // Before anything is read, so that nothing comes in between.
        let seen = is_event.then(|| self.followers.watch(&self.registry));
        let losses = seen.as_ref().map_or(0, |seen| seen.borrow().losses);
        let (registry, turns) = (Arc::clone(&self.registry), Arc::clone(&self.followers.turns));
        let mut reader = Reader { registry, caller, turns, left, is_event };
        // What fails at once can still be told.
        let (changes, is_lost) = match self.read_first_page(&reader, &after).await {
            Ok(read) => read,
            Err(Error::Policy(refusal)) => {
                return problem(StatusCode::UNAUTHORIZED, refusal.code, &refusal.detail).into();
            }
            Err(error) => {
                tracing::error!(%error, "changes can't be read");
                return match &error {
                    Error::Store(error) => page::problem_of_store(error).into(),
                    error => problem(StatusCode::INTERNAL_SERVER_ERROR, "failed", error.to_string()).into(),
                };
            }
        };
        let followers = self.followers.clone();
        let kind = HeaderValue::from_static(if is_event { EVENT_STREAM } else { LINES });
        let mut response = by_accept(stream(StatusCode::OK, kind, async move |sink| {
            let _place = place;
            let Some(seen) = seen else { return reader.send_all(changes, &sink).await.map(|_| ()) };
            if is_lost {
                return sink.send(RESET_EVENT).await;
            }
            tokio::select! {
                followed = reader.follow(changes, seen, losses, &sink) => followed,
                () = followers.ending() => Ok(()),
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

fn too_many() -> Answer {
    let detail = "Too many others read changes at present. Try again later.";
    problem(StatusCode::SERVICE_UNAVAILABLE, "busy", detail).into()
}

/// What is done at `/api/v1/changes`.
pub(crate) fn describe() -> Described {
    let problem = |doing: Doing, status, about: &str| {
        doing.answer(status, about).json::<ProblemJson<'_>>("application/problem+json")
    };
    let doing = Doing::new("All that changes")
        .about(
            "Every change of the service after a place, one JSON object a line, the oldest first; then it ends. With \
             `Accept: text/event-stream` the same as events, and those that are still to come, as they come: `id` is the \
             place, which the header `Last-Event-ID` takes, too. Who goes on after the last place misses nothing and gets \
             nothing twice. An import is told name by name. An event `lost` says that the service lost changes that it may have \
             told of: begin anew. The answer is made while it is sent, and not compressed; one \
             that ends without its proper end was cut off.",
        )
        .group("Names")
        .query_param("after", "Only what comes after this: a `seq`, or the `cursor` of a change that has one", matching("^[0-9]{1,18}$"))
        .query_param("limit", "At most so many changes; all of them unless told otherwise", at_least_one())
        .credentials(false)
        .sample("curl -s \"$SERVER/api/v1/changes?limit=3\"")
        .answer(StatusCode::OK, "The changes")
        .json::<ChangeJson<'_>>(LINES)
        .text(EVENT_STREAM);
    let doing = problem(doing, StatusCode::BAD_REQUEST, "Not understood");
    let doing = problem(doing, StatusCode::UNAUTHORIZED, "The credentials are not right")
        .header("WWW-Authenticate", "Which are taken");
    let doing = problem(doing, StatusCode::FORBIDDEN, "Credentials are not taken here");
    let doing = problem(doing, StatusCode::INTERNAL_SERVER_ERROR, "The store failed");
    Described::read(problem(doing, StatusCode::SERVICE_UNAVAILABLE, "Too many others read changes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors() {
        for text in ["0", "12", "18446744073709551615", "12:MTAuMS9Y", "12:MTAuMS_DqQ"] {
            assert_eq!(parse(text).as_ref().map(print).as_deref(), Some(text), "{text}");
        }
        assert_eq!(parse("12:MTAuMS9Y").unwrap().within, Key::new("10.1/x").ok());
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
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
