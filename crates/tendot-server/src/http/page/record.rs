//! A record: where it leads, how its name is written, and its values.

use askama::Template;
use http::StatusCode;
use http::header::LOCATION;
use tendot_names::{OutputForm, DoiOrShortDoi};
use tendot_proto::Value;
use tendot_store::Store;

use super::home::grouped;
use super::registration::{Known, Registration};
use super::show;
use super::text::{Room, beginning, visible};
use super::value::Row;
use crate::http::Http;
use crate::http::answer::Answer;
use crate::http::explain::{Read, elsewhere};
use crate::http::parameters::Parameters;
use crate::http::redirect::{RedirectOutcome, own_path};
use crate::http::request::Request;
use crate::http::search::Search;

/// Names under a prefix that are counted; more are more than that.
const NAMES: usize = 10_000;

#[derive(Template)]
#[template(path = "record.html")]
struct RecordPage {
    title: String,
    name: String,
    kind: &'static str,
    /// Who keeps it, if it is not kept here.
    origin: Option<String>,
    leads: RecordTarget,
    registration: Option<Registration>,
    /// What is known of a prefix.
    prefix: Option<String>,
    forms: Vec<(String, String)>,
    rows: Vec<Row>,
    /// Values that are not shown.
    more: usize,
    is_short: bool,
    path: String,
}

/// Where a record leads.
enum RecordTarget {
    To { status: u16, text: String, address: Option<String> },
    NotFollowed(String),
    Endless(String),
    Nowhere,
}

impl Http {
    /// The page of a record, which led that way.
    pub(crate) async fn record_page(
        &self,
        name: &str,
        parameters: &Parameters<'_>,
        way: &RedirectOutcome,
        request: &Request<'_>,
        search: &mut Search<'_>,
    ) -> Answer {
        // The same as a moment ago, which was asked for as it should be.
        search.is_authoritative = false;
        match self.selected(name, parameters, search).await {
            Ok((values, heard)) => {
                let origin = heard.map(|heard| heard.says(self.base()));
                let prefix = match Read::of(name) {
                    Read::Prefix(prefix) => Some(self.describe_prefix(prefix).await),
                    _ => None,
                };
                let known = if heard.is_none() { self.known(name).await } else { None };
                show(StatusCode::OK, &RecordPage::new(name, &values, way, prefix, origin, known.as_ref()))
            }
            Err(error) => self.lookup_failed(name, &error, request, search).await,
        }
    }

    /// What this service has to do with a prefix.
    pub(super) async fn describe_prefix(&self, prefix: &str) -> String {
        let store = self.registry.store();
        match store.is_homed(prefix.as_bytes()).await {
            Ok(true) => {}
            Ok(false) => return "Names under this prefix are not kept here.".into(),
            Err(_) => {
                return "Whether names under this prefix are kept here can't be told at present.".into();
            }
        }
        match store.count_under(prefix.as_bytes(), None, NAMES).await {
            Ok(counted) if counted.next.is_some() => {
                format!("Names under this prefix are kept here, more than {}.", grouped(counted.live))
            }
            Ok(counted) if counted.live == 1 => "Names under this prefix are kept here, one so far.".into(),
            Ok(counted) => {
                format!("Names under this prefix are kept here, {} so far.", grouped(counted.live))
            }
            Err(_) => "Names under this prefix are kept here.".into(),
        }
    }
}

impl RecordPage {
    fn new(
        name: &str,
        values: &[Value<'_>],
        way: &RedirectOutcome,
        prefix: Option<String>,
        origin: Option<String>,
        known: Option<&Known>,
    ) -> Self {
        let mut room = Room::new();
        let read = Read::of(name);
        let kind = match &read {
            Read::Doi(DoiOrShortDoi::Doi(_)) => "DOI name",
            Read::Doi(DoiOrShortDoi::Short(_)) => "shortDOI",
            Read::Prefix(_) => "Prefix",
            Read::Handle | Read::Nothing => "Handle",
        };
        let leads = RecordTarget::of(way, &mut room);
        let registration = known.map(|known| Registration::new(known, &mut room));
        let forms = forms(name, &read, &mut room);
        let rows: Vec<Row> =
            values.iter().map_while(|value| room.has_more().then(|| Row::of(value, &mut room))).collect();
        Self {
            title: visible(&beginning(name, 80)),
            name: visible(name),
            kind,
            origin,
            leads,
            registration,
            prefix,
            forms,
            more: values.len() - rows.len(),
            is_short: room.is_short(),
            rows,
            path: own_path(name),
        }
    }
}

impl RecordTarget {
    fn of(way: &RedirectOutcome, room: &mut Room) -> Self {
        match way {
            RedirectOutcome::There(answer) => {
                let location = answer.headers().get(LOCATION).and_then(|location| location.to_str().ok());
                location.map_or(Self::Nowhere, |location| Self::To {
                    status: answer.status().as_u16(),
                    text: room.line(location),
                    address: room.address(location),
                })
            }
            // Who wants to see the record wants no metadata.
            RedirectOutcome::Here(None) | RedirectOutcome::Metadata(..) | RedirectOutcome::NotAcceptable => Self::Nowhere,
            RedirectOutcome::Here(Some(error)) => Self::NotFollowed(error.to_string()),
            RedirectOutcome::NotServed(says) => {
                Self::NotFollowed(format!("its prefix is not served at present {}", room.line(says)))
            }
            RedirectOutcome::Endless(chain) => Self::Endless(room.line(chain.first().map_or("", |name| name))),
        }
    }
}

/// The forms in which a name can be written, to copy; what looks the same in two stands there once.
fn forms(name: &str, read: &Read<'_>, room: &mut Room) -> Vec<(String, String)> {
    let written: Vec<(&str, String)> = match read {
        Read::Doi(target) => FORMS
            .iter()
            .filter_map(|(form, label)| Some((*label, target.written_as(*form)?.to_string())))
            .collect(),
        _ => {
            let address = elsewhere(name).map(|address| ("Address", address));
            address.into_iter().chain([("Name", name.to_owned())]).collect()
        }
    };
    let mut forms: Vec<(String, String)> = Vec::new();
    for (label, text) in written {
        match forms.iter_mut().find(|(_, known)| *known == text) {
            Some((labels, _)) => *labels = format!("{labels}, {label}"),
            None if room.has_more() => forms.push((label.into(), room.line(&text))),
            None => break,
        }
    }
    forms
}

const FORMS: [(OutputForm, &str); 13] = [
    (OutputForm::Url, "Address"),
    (OutputForm::UrlMinimal, "the shortest"),
    (OutputForm::UrlFull, "all encoded"),
    (OutputForm::Name, "Name"),
    (OutputForm::Canonical, "for comparing"),
    (OutputForm::Display, "In print"),
    (OutputForm::Uri, "URI"),
    (OutputForm::Uri202411, "URI of 2024-11"),
    (OutputForm::Uri2003, "URI of 2003"),
    (OutputForm::Urn, "URN"),
    (OutputForm::Info, "info URI"),
    (OutputForm::Eidr, "EIDR"),
    (OutputForm::Html, "HTML"),
];
