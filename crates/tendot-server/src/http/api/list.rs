//! `/api/handles?prefix=…`: the names under a prefix, all of them or a page.

use http::StatusCode;
use hyper::body::Incoming;
use serde::Serialize;
use tendot_proto::{Handle, ResponseCode, Work};
use tendot_registry::{Caller, Error};
use utoipa::ToSchema;
use utoipa::openapi::HttpMethod;

use super::body::{Form, empty_name, fail, print, refuse, unknown_caller, unread};
use super::handles::{JSON, failure};
use crate::http::answer::Answer;
use crate::http::describe::{Described, Doing, number, text};
use crate::http::parameters::Parameters;
use crate::http::request::Request;
use crate::http::{FORM, Http, caching, status};

/// What a list may cost: about a second of one core, which is a million names, or thirty times as many counted.
const LIST_BUDGET: u32 = 1_000_000;

/// Names that are looked at before others have their turn.
const PIECE: u64 = 10_000;

/// Bytes of the names in one answer.
const NAMES: usize = 16 << 20;

/// What an answer says of a list.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = List)]
pub(super) struct HandleListBody<'a> {
    response_code: u32,
    /// The prefix as it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    prefix: Option<&'a str>,
    /// How many there are on all pages, as text.
    total_count: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    page: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    page_size: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<String>>)]
    handles: Option<Vec<Box<str>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<String>>)]
    prefixes: Option<Vec<Box<str>>>,
}

/// Which part of a list is wanted; none of both if all of it is.
#[derive(Clone, Copy)]
struct Part(Option<(u32, u32)>);

impl Part {
    fn asked(parameters: &Parameters<'_>) -> Result<Self, String> {
        let number = |name| match parameters.get(name).map(|text| (text, text.parse::<i32>())) {
            None => Ok(None),
            Some((_, Ok(number))) => Ok(u32::try_from(number).ok()),
            Some((text, Err(_))) => Err(format!("`{text}` in the query is no number")),
        };
        Ok(Self(number("page")?.zip(number("pageSize")?)))
    }

    /// How many come before it.
    fn begin(self) -> u64 {
        self.0.map_or(0, |(page, size)| u64::from(page) * u64::from(size))
    }

    /// How many are in it at most.
    fn size(self) -> u64 {
        self.0.map_or(u64::MAX, |(_, size)| size.into())
    }
}

/// What has been listed so far.
#[derive(Default)]
struct Gathered {
    total: u64,
    names: Vec<Box<str>>,
    bytes: usize,
}

/// Why there is no list.
enum ListError {
    Registry(Error),
    TooLong,
}

impl From<Error> for ListError {
    fn from(error: Error) -> Self {
        Self::Registry(error)
    }
}

impl Gathered {
    fn take(&mut self, names: Vec<Box<str>>) -> Result<(), ListError> {
        self.total += names.len() as u64;
        self.bytes += names.iter().map(|name| name.len()).sum::<usize>();
        self.names.extend(names);
        if self.bytes > NAMES { Err(ListError::TooLong) } else { Ok(()) }
    }
}

impl Http {
    /// Answers `GET /api/handles?prefix=…`.
    pub(crate) async fn list_handles(&self, request: &Request<'_>) -> Answer {
        let parameters = match Parameters::parse(request.query) {
            Ok(parameters) => parameters,
            Err(error) => return refuse(&error.to_string()),
        };
        let Some(prefix) = parameters.get("prefix") else { return empty_name() };
        self.list(Some(prefix), &parameters, request).await
    }

    /// Answers `GET /api/prefixes`.
    pub(crate) async fn list_prefixes(&self, request: &Request<'_>) -> Answer {
        match Parameters::parse(request.query) {
            Ok(parameters) => self.list(None, &parameters, request).await,
            Err(error) => refuse(&error.to_string()),
        }
    }

    async fn list(&self, prefix: Option<&str>, parameters: &Parameters<'_>, request: &Request<'_>) -> Answer {
        let name = prefix.unwrap_or_default();
        let caller = match self.caller(request).await {
            Ok(caller) => caller,
            Err(error) => return unknown_caller(error, name, request),
        };
        let part = match Part::asked(parameters) {
            Ok(part) => part,
            Err(why) => return refuse(&why),
        };
        let form = Form::asked(parameters);
        let gathered = match prefix {
            Some(prefix) => self.collect_names(prefix, part, &caller).await,
            None => self.collect_prefixes(part, &caller).await,
        };
        let gathered = match gathered {
            Ok(gathered) => gathered,
            Err(ListError::TooLong) => return refuse("the list is too long; ask for pages of it"),
            Err(ListError::Registry(error)) => {
                let status = status::of(error.response_code(), request.takes_credentials);
                return fail(&error, status, name, &form);
            }
        };
        let (names, is_homed) = (gathered.names, prefix.is_none());
        let (handles, prefixes) = if is_homed { (None, Some(names)) } else { (Some(names), None) };
        let body = HandleListBody {
            response_code: ResponseCode::SUCCESS.0,
            prefix,
            total_count: gathered.total.to_string(),
            page: part.0.map(|(page, _)| page),
            page_size: part.0.map(|(_, size)| size),
            handles,
            prefixes,
        };
        let mut response = print(StatusCode::OK, &body, &form);
        caching::set_private_no_store(response.headers_mut());
        response
    }

    /// A part of the names under a prefix, and how many there are: those before and after it are only counted.
    async fn collect_names(&self, prefix: &str, part: Part, caller: &Caller) -> Result<Gathered, ListError> {
        let _turn = self.lists.acquire().await;
        let (prefix, mut work) = (Handle::from(prefix), Work::new(LIST_BUDGET));
        let (mut gathered, mut after) = (Gathered::default(), None);
        loop {
            let wanted = part.size() - gathered.names.len() as u64;
            let before = part.begin().saturating_sub(gathered.total);
            let is_in_part = before == 0 && wanted > 0;
            let piece = if is_in_part {
                wanted
            } else if before > 0 {
                before
            } else {
                PIECE
            };
            let limit = usize::try_from(piece.min(PIECE)).unwrap_or(usize::MAX);
            let after_now: Option<&str> = after.as_deref();
            after = if is_in_part {
                let page = self.registry.list(prefix, after_now, limit, caller, &mut work).await?;
                gathered.take(page.names)?;
                page.next
            } else {
                let count = self.registry.count(prefix, after_now, limit, caller, &mut work).await?;
                gathered.total += count.names;
                count.next
            };
            if after.is_none() {
                return Ok(gathered);
            }
            tokio::task::yield_now().await;
        }
    }

    /// The same of homed prefixes, of which there are fewer.
    async fn collect_prefixes(&self, part: Part, caller: &Caller) -> Result<Gathered, ListError> {
        let _turn = self.lists.acquire().await;
        let (mut gathered, mut after, mut work) = (Gathered::default(), None::<Box<str>>, Work::new(LIST_BUDGET));
        let limit = usize::try_from(PIECE).unwrap_or(usize::MAX);
        let mut seen = 0;
        loop {
            let page = self.registry.list_homed(after.as_deref(), limit, caller, &mut work).await?;
            let found = page.names.len() as u64;
            let is_wanted = |place: u64| place >= part.begin() && place - part.begin() < part.size();
            let names = page.names.into_iter().zip(seen..).filter(|(_, place)| is_wanted(*place));
            gathered.take(names.map(|(name, _)| name).collect())?;
            seen += found;
            gathered.total = seen;
            after = page.next;
            if after.is_none() {
                return Ok(gathered);
            }
            tokio::task::yield_now().await;
        }
    }

    /// What stands in the body of a request as it could stand in its query, after what does stand there.
    pub(crate) async fn merge_body_into_query(&self, body: Incoming, request: &Request<'_>) -> Result<String, Answer> {
        let body = self.bodies.read(body, FORM).await.map_err(unread)?;
        let mut query = request.query.unwrap_or_default().to_owned();
        let kind = request.headers.get(http::header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let is = |wanted: &str| kind.is_some_and(|kind| kind.starts_with(wanted));
        if is(JSON) && !body.trim_ascii().is_empty() {
            let no_object = |_| refuse("the body is no JSON object");
            let members: serde_json::Map<String, serde_json::Value> =
                serde_json::from_slice(&body).map_err(no_object)?;
            for (name, value) in &members {
                let all = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
                for value in all {
                    let text = value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
                    query += &format!("&{}={}", encoded(name), encoded(&text));
                }
            }
        } else if is("application/x-www-form-urlencoded") {
            query += "&";
            // In a form, a plus sign is a space.
            query += &String::from_utf8_lossy(&body).replace('+', "%20");
        }
        Ok(query)
    }
}

fn encoded(text: &str) -> impl std::fmt::Display {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC)
}

/// The parameters and answers of a list.
pub(super) fn describe_part(doing: Doing) -> Doing {
    let doing = doing
        .group("Records")
        .query_param("page", "Which page, counted from 0; without it, or below 0, everything", number())
        .query_param("pageSize", "Names on a page; with 0, they are only counted", number())
        .query_param("pretty", "On several lines", text())
        .query_param("callback", "A function that a script calls with it", text())
        .credentials(true)
        .answer(StatusCode::OK, "The list")
        .json::<HandleListBody<'_>>(JSON)
        .text("application/javascript");
    describe_refusals(doing)
}

/// What is answered where something is not done.
pub(super) fn describe_refusals(doing: Doing) -> Doing {
    let doing =
        failure(doing, StatusCode::BAD_REQUEST, "Not understood, no name, or not kept here (code 301)");
    let doing = failure(doing, StatusCode::UNAUTHORIZED, "Credentials are needed, or not right")
        .header("WWW-Authenticate", "Which are taken");
    let doing =
        failure(doing, StatusCode::FORBIDDEN, "Who asks may not do this, or credentials are not taken here");
    let doing = failure(doing, StatusCode::REQUEST_TIMEOUT, "The body did not come in time");
    let doing = failure(doing, StatusCode::PAYLOAD_TOO_LARGE, "The body is too large");
    let doing = failure(doing, StatusCode::INTERNAL_SERVER_ERROR, "The store failed");
    let doing = failure(doing, StatusCode::NOT_IMPLEMENTED, "Names are not listed here");
    failure(doing, StatusCode::SERVICE_UNAVAILABLE, "There is too much to do")
}

/// What is done at `/api/handles`.
pub(crate) fn describe() -> Described {
    let list = || {
        let doing = Doing::new("The names under a prefix");
        describe_part(doing.query_param("prefix", "The prefix, such as `10.5555`", text()))
    };
    let sample = "curl -s \"$SERVER/api/handles?prefix=10.5555&page=0&pageSize=2\" -H \"Authorization: Bearer $TOKEN\"";
    Described::read(list().sample(sample)).and(
        HttpMethod::Post,
        list().about("As GET; the parameters may be in the body, as a form or as JSON."),
    )
}
