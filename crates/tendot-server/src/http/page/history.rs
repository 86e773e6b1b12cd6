//! What ever changed under a name, the newest first.

use askama::Template;
use http::StatusCode;
use tendot_proto::Handle;
use tendot_registry::doi::DoiStatus;
use tendot_registry::{Caller, Event, Happening, RecordSnapshot, Then};
use tendot_store::{EditKind, HistoryOrder};

use super::text::{Room, beginning, visible};
use super::value::{Row, for_people};
use super::{bad_request, show};
use crate::http::answer::Answer;
use crate::http::api::{date, number};
use crate::http::parameters::Parameters;
use crate::http::redirect::own_path;
use crate::http::request::Request;
use crate::http::search::{LookupError, Search};
use crate::http::{RequestSyntaxError, Http};
use crate::upkeep::now;

/// Changes on a page.
const ITEMS: usize = 50;

/// Characters of a title or a name.
const LONGEST: usize = 200;

#[derive(Template)]
#[template(path = "history.html")]
struct HistoryPage {
    title: String,
    name: String,
    items: Vec<Shown>,
    /// Before which change the next page begins.
    older: Option<u64>,
    is_first: bool,
    is_short: bool,
    path: String,
}

struct Shown {
    sequence: u64,
    what: &'static str,
    /// What changed beside the values: what it is, what it was and what it came to be.
    turns: Vec<(&'static str, String, String)>,
    /// For people and for programs.
    at: (String, String),
    by: Option<String>,
    was: PreviousRecord,
}

/// What was there before.
enum PreviousRecord {
    Nothing,
    Unknown,
    /// What was there is the same still: only who has it changed.
    Same,
    /// Values, and how many more.
    Record(Vec<Row>, usize),
}

impl Http {
    /// The page of a name's history.
    pub(crate) async fn history_page(
        &self,
        name: &str,
        parameters: &Parameters<'_>,
        request: &Request<'_>,
        search: &mut Search<'_>,
    ) -> Answer {
        let before = match number(parameters, "before") {
            Ok(before) => before.unwrap_or(u64::MAX),
            Err(_) => {
                let query = request.query.unwrap_or_default();
                let at = query.find("before=").unwrap_or_default();
                return bad_request(&RequestSyntaxError::new("query", at, "`before` is no number"), query, request);
            }
        };
        let order = HistoryOrder::NewestFirst { before };
        let handle = Handle::from(name);
        match self.registry.history(handle, order, ITEMS, &Caller::Anonymous, now(), &mut search.work).await {
            Ok(history) => {
                let is_first = before == u64::MAX;
                show(StatusCode::OK, &HistoryPage::new(name, &history.items, history.next, is_first))
            }
            Err(error) => self.lookup_failed(name, &LookupError::Here(error), request, search).await,
        }
    }
}

impl HistoryPage {
    fn new(name: &str, changes: &[Event], next: Option<u64>, is_first: bool) -> Self {
        let mut room = Room::new();
        let items: Vec<Shown> =
            changes.iter().map_while(|event| room.has_more().then(|| Shown::of(event, &mut room))).collect();
        let is_cut = items.len() < changes.len();
        let older = if is_cut { items.last().map(|last| last.sequence) } else { next };
        Self {
            title: visible(&beginning(name, 80)),
            name: visible(name),
            items,
            older,
            is_first,
            is_short: room.is_short(),
            path: own_path(name),
        }
    }
}

impl Shown {
    fn of(event: &Event, room: &mut Room) -> Self {
        let at = date(event.at);
        let (what, turns, was) = match &event.what {
            Happening::Changed { kind, before, after } => {
                (done(*kind, before, after), turns(before, after, room), PreviousRecord::of(before, room))
            }
            Happening::Transferred { from, to } => {
                let mut turns = Vec::new();
                turn(&mut turns, "Registrant", Some(&from.registrant), Some(&to.registrant), room);
                turn(&mut turns, "Agency", Some(&from.agency), Some(&to.agency), room);
                ("Given to others, with its prefix", turns, PreviousRecord::Same)
            }
        };
        Self {
            sequence: event.sequence,
            what,
            turns,
            at: (for_people(&at), at),
            by: Some(room.line(&event.by)).filter(|by| !by.is_empty()),
            was,
        }
    }
}

/// What was done, in words.
fn done(kind: EditKind, before: &Then, after: &Then) -> &'static str {
    let is_reserved = |then: &Then| matches!(then, Then::Record(was) if was.state == DoiStatus::Reserved);
    match kind {
        EditKind::Create if is_reserved(after) => "Reserved",
        EditKind::Create => "Registered",
        EditKind::Update if is_reserved(before) && !is_reserved(after) => "Registered, after it was reserved",
        EditKind::Update => "Changed",
        EditKind::Tombstone => "Ended, and not given again",
        EditKind::Remove => "Removed",
        EditKind::Import => "Imported, with others",
        _ => "Something else",
    }
}

/// What changed beside the values.
fn turns(before: &Then, after: &Then, room: &mut Room) -> Vec<(&'static str, String, String)> {
    let snapshot = |then: &Then| match then {
        Then::Record(was) => Some((**was).clone()),
        Then::Nothing | Then::Unknown => None,
    };
    let (before, after) = (snapshot(before), snapshot(after));
    let mut turns = Vec::new();
    let who = |was: &Option<RecordSnapshot>| was.as_ref().and_then(|was| was.registrant.clone());
    // What goes takes all of it along.
    if after.is_some() {
        turn(&mut turns, "Registrant", who(&before).as_deref(), who(&after).as_deref(), room);
        let text = |was: &Option<RecordSnapshot>| {
            was.as_ref().and_then(|was| Some(was.metadata.as_ref()?.get().to_owned()))
        };
        if text(&before) != text(&after) {
            let title = |was: &Option<RecordSnapshot>| was.as_ref().and_then(RecordSnapshot::title);
            let (old, new) = (title(&before), title(&after));
            if old == new {
                turns.push(("Metadata", String::new(), "changed".into()));
            } else {
                turn(&mut turns, "Title", old.as_deref(), new.as_deref(), room);
            }
        }
    }
    turns
}

fn turn(
    turns: &mut Vec<(&'static str, String, String)>,
    label: &'static str,
    before: Option<&str>,
    after: Option<&str>,
    room: &mut Room,
) {
    if before != after {
        let mut line = |text: Option<&str>| room.line(&beginning(text.unwrap_or_default(), LONGEST));
        turns.push((label, line(before), line(after)));
    }
}

impl PreviousRecord {
    fn of(before: &Then, room: &mut Room) -> Self {
        match before {
            Then::Nothing => Self::Nothing,
            Then::Unknown => Self::Unknown,
            Then::Record(was) => {
                let values = was.values.iter();
                let rows: Vec<Row> =
                    values.map_while(|value| room.has_more().then(|| Row::of(value, room))).collect();
                let more = was.values.len() - rows.len();
                Self::Record(rows, more)
            }
        }
    }
}
