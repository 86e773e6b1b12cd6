//! What people see. Everything in a record is a stranger's: the templates escape it.

use askama::Template;
use bytes::Bytes;
use http::StatusCode;
use http::header::{CACHE_CONTROL, HeaderValue};
use tendot_proto::Value;
use tendot_proto::record::Namespace;
use tendot_registry::Error;

use super::address::{self, BadAddress};
use super::answer::{Answer, HTML, PAGE_POLICY, answer};
use super::location::{Candidate, Origin};
use super::{BadRequest, status};

/// The stylesheet of all pages.
pub(crate) const STYLE: &str = include_str!("style.css");

pub(crate) const ICON: &[u8] = include_bytes!("favicon.svg");

#[derive(Template)]
#[template(path = "record.html")]
struct RecordPage<'a> {
    name: &'a str,
    rows: Vec<Row>,
    problem: Option<String>,
}

/// A value as it is shown.
struct Row {
    index: u32,
    value_type: String,
    data: String,
    /// Where its data leads to, if that is an address that can be followed.
    link: Option<String>,
    ttl: String,
}

impl Row {
    fn of(value: &Value<'_>) -> Self {
        let json = serde_json::to_value(value).unwrap_or_default();
        let data = json.pointer("/data/value").cloned().unwrap_or_default();
        let data = data.as_str().map_or_else(|| data.to_string(), str::to_owned);
        let link = value.has_type("URL").then(|| address::location(&data).ok().map(String::from)).flatten();
        let ttl = json.get("ttl").map(|ttl| ttl.as_str().map_or_else(|| ttl.to_string(), str::to_owned));
        Self {
            index: value.index,
            value_type: value.type_name().into_owned(),
            data,
            link,
            ttl: ttl.unwrap_or_default(),
        }
    }
}

/// A record.
pub(crate) fn record(name: &str, values: &[Value<'_>], problem: Option<BadAddress>) -> Answer {
    let rows = values.iter().map(Row::of).collect();
    let problem = problem
        .map(|problem| format!("This name is not redirected: the address is not followed, {problem}."));
    show(StatusCode::OK, &RecordPage { name, rows, problem })
}

#[derive(Template)]
#[template(path = "message.html")]
struct MessagePage<'a> {
    title: &'a str,
    name: &'a str,
    reasons: Vec<String>,
}

/// A name that leads nowhere, and why that may be.
pub(crate) fn no_way(name: &str, error: &Error) -> Answer {
    let code = error.response_code();
    let mut status = status::of(code, false);
    let (title, reasons): (&str, Vec<String>) = match error {
        Error::NotFound => (
            "Not found",
            vec![
                "It may be wrong where you found it.".into(),
                "It may have been copied with a sign too many or too few: a full stop, a bracket, a comma."
                    .into(),
                "It may not be registered yet.".into(),
            ],
        ),
        Error::Tombstone => {
            status = StatusCode::GONE;
            ("Gone", vec!["This name was ended. It is not given again.".into()])
        }
        Error::NoValues => {
            status = StatusCode::NOT_FOUND;
            ("Nothing to show", vec!["The record has no such values that everybody may read.".into()])
        }
        Error::NotResponsible { .. } => ("Not kept here", vec![format!("{error}.")]),
        Error::Store(_) => ("Failed", vec!["The store failed.".into()]),
        _ => ("Not possible", vec![format!("{error}.")]),
    };
    show(status, &MessagePage { title, name, reasons })
}

/// A name whose prefix is not served at present.
pub(crate) fn inactive(name: &str, namespace: &Namespace<'_>) -> Answer {
    let message = namespace.status_message().unwrap_or("Names of this prefix are not served at present.");
    let contact = namespace.contact().map(|contact| format!("Whom to ask: {contact}."));
    let reasons = [message.to_owned()].into_iter().chain(contact).collect();
    show(StatusCode::NOT_FOUND, &MessagePage { title: "Not served", name, reasons })
}

/// A request that is not understood.
pub(crate) fn bad_request(error: &BadRequest) -> Answer {
    let page = MessagePage { title: "Bad request", name: "", reasons: vec![format!("{error}.")] };
    show(StatusCode::BAD_REQUEST, &page)
}

/// A name that stands for another, which stands for another, and so on.
pub(crate) fn endless(chain: &[String]) -> Answer {
    let reasons = chain.iter().map(|name| format!("It stands for {name}.")).collect();
    let page = MessagePage { title: "Endless", name: chain.first().map_or("", |name| name), reasons };
    show(StatusCode::LOOP_DETECTED, &page)
}

#[derive(Template)]
#[template(path = "home.html")]
struct HomePage;

/// The first page.
pub(crate) fn home() -> Answer {
    show(StatusCode::OK, &HomePage)
}

#[derive(Template)]
#[template(path = "link.html")]
struct LinkPage<'a> {
    address: &'a str,
}

/// The body of a redirect.
pub(crate) fn link(address: &str) -> Bytes {
    LinkPage { address }.render().unwrap_or_default().into()
}

#[derive(Template)]
#[template(path = "places.xml")]
struct PlacesPage<'a> {
    places: Vec<Vec<(&'a str, &'a str)>>,
}

/// The places of a record, as XML.
pub(crate) fn places(candidates: &[Candidate<'_>]) -> Answer {
    let weights: Vec<String> = candidates.iter().map(|candidate| candidate.weight.to_string()).collect();
    let weighed = candidates.iter().zip(&weights);
    let page =
        PlacesPage { places: weighed.map(|(candidate, weight)| attributes(candidate, weight)).collect() };
    let kind = HeaderValue::from_static("text/xml;charset=utf-8");
    answer(StatusCode::OK, kind, page.render().unwrap_or_default())
}

fn attributes<'c>(candidate: &'c Candidate<'_>, weight: &'c str) -> Vec<(&'c str, &'c str)> {
    match candidate.origin {
        Origin::Url(_) => vec![("mode", "legacy"), ("weight", weight), ("href", &candidate.href)],
        Origin::Location(location) => {
            let given = location.attributes().filter(|(name, _)| *name != "href");
            given.chain([("href", &*candidate.href)]).collect()
        }
    }
}

fn show(status: StatusCode, page: &impl Template) -> Answer {
    let Ok(body) = page.render() else { return answer(StatusCode::INTERNAL_SERVER_ERROR, HTML, "") };
    let mut response = answer(status, HTML, body);
    response.headers_mut().extend([PAGE_POLICY]);
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}
