//! What ever changed under a name, the newest first.

use askama::Template;
use http::StatusCode;
use tendot_proto::Handle;
use tendot_registry::Caller;
use tendot_store::{Before, EditKind, Order, Past, Store};

use super::text::{Room, beginning, visible};
use super::value::{Row, for_people};
use super::{bad_request, show};
use crate::http::answer::Answer;
use crate::http::api::{date, number};
use crate::http::parameters::Parameters;
use crate::http::redirect::own_path;
use crate::http::request::Request;
use crate::http::search::{LookupError, Search};
use crate::http::{BadRequest, Http};

/// Changes on a page.
const ITEMS: usize = 50;

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
    /// For people and for programs.
    at: (String, String),
    by: Option<String>,
    was: Was,
}

/// What was there before.
enum Was {
    Nothing,
    Unknown,
    /// Values, and how many more.
    Record(Vec<Row>, usize),
}

impl<S: Store> Http<S> {
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
                return bad_request(&BadRequest::new("query", at, "`before` is no number"), query, request);
            }
        };
        let order = Order::NewestFirst { before };
        let handle = Handle::from(name);
        match self.registry.history(handle, order, ITEMS, &Caller::Anonymous, &mut search.work).await {
            Ok(history) => {
                let is_first = before == u64::MAX;
                show(StatusCode::OK, &HistoryPage::new(name, &history.items, history.next, is_first))
            }
            Err(error) => self.no_way(name, &LookupError::Here(error), request, search).await,
        }
    }
}

impl HistoryPage {
    fn new(name: &str, changes: &[Past], next: Option<u64>, is_first: bool) -> Self {
        let mut room = Room::new();
        let items: Vec<Shown> =
            changes.iter().map_while(|past| room.has_more().then(|| Shown::of(past, &mut room))).collect();
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
    fn of(past: &Past, room: &mut Room) -> Self {
        let line = &past.line;
        let at = date(line.at);
        Self {
            sequence: line.sequence,
            what: match line.kind {
                EditKind::Create => "Registered",
                EditKind::Update => "Changed",
                EditKind::Tombstone => "Ended, and not given again",
                EditKind::Remove => "Removed",
                EditKind::Import => "Imported, with others",
                _ => "Something else",
            },
            at: (for_people(&at), at),
            by: Some(room.line(&line.by)).filter(|by| !by.is_empty()),
            was: match &past.before {
                Before::Nothing => Was::Nothing,
                Before::Unknown => Was::Unknown,
                Before::Record(entry) => {
                    let values = entry.values.iter();
                    let rows: Vec<Row> =
                        values.map_while(|value| room.has_more().then(|| Row::of(value, room))).collect();
                    let more = entry.values.len() - rows.len();
                    Was::Record(rows, more)
                }
            },
        }
    }
}
