//! Error pages, and problem details (`application/problem+json`, RFC 9457).

use std::borrow::Cow;

use askama::Template;
use http::StatusCode;
use http::header::{CACHE_CONTROL, HeaderValue};
use serde::Serialize;
use serde_json::{Map, Value as Json, json};
use tendot_names::DoiOrShortDoi;
use tendot_registry::Error;
use tendot_store::StoreError;
use utoipa::ToSchema;

use crate::http::HttpServer;
use crate::http::api_v1::format_millis;
use crate::http::authentication::AuthenticationError;
use crate::http::pages::page_budget::{PageBudget, escape_invisible, truncate_chars};
use crate::http::pages::registration::{RegistrationCard, RegistrationDetails};
use crate::http::pages::{render, vary_by_accept};
use crate::http::request::accept;
use crate::http::request::percent::RequestSyntaxError;
use crate::http::request::request_head::RequestHead;
use crate::http::resolve::explain::{NameKind, public_url};
use crate::http::resolve::lookup::{LookupContext, RecordLookupError};
use crate::http::resolve::redirect::format;
use crate::http::resolve::suggestions::Suggestion;
use crate::http::resolve::upstream::UpstreamError;
use crate::http::response::reply::{PROBLEM, Reply, add_retry_after, reply};
use crate::http::response::{caching, codes, status};

/// Problem details (RFC 9457) before rendering as JSON or HTML.
#[derive(Debug)]
pub(crate) struct Problem<'a> {
    status: StatusCode,
    /// Stable error code.
    code: &'static str,
    title: Cow<'static, str>,
    detail: String,
    /// Position of the error in the request body, as a JSON pointer.
    pointer: Option<String>,
    line: Option<u64>,
    /// Suggested action.
    hint: Option<String>,
    /// Additional members.
    members: Map<String, Json>,
    /// Requested name, decoded; empty if the problem does not concern one.
    name: &'a str,
    reasons: Vec<&'static str>,
    near: Vec<Suggestion>,
    /// Public URL where the name may be found.
    elsewhere: Option<String>,
    /// Text of the request, split around the error.
    place: Option<(&'a str, &'a str, &'a str)>,
    /// Registry data of a retired name.
    known: Option<RegistrationDetails>,
}

/// Codes of problems for which a retry would fail, too.
const NOT_RETRYABLE_CODES: [&str; 2] = [codes::BUDGET_EXCEEDED, "too-much-work"];

impl Problem<'_> {
    fn new(status: StatusCode, code: &'static str, title: &'static str, detail: String) -> Self {
        Self {
            status,
            code,
            title: title.into(),
            detail,
            pointer: None,
            line: None,
            hint: None,
            members: Map::new(),
            name: "",
            reasons: Vec::new(),
            near: Vec::new(),
            elsewhere: None,
            place: None,
            known: None,
        }
    }

    fn negotiated_reply(&self, request: &RequestHead<'_>) -> Reply {
        vary_by_accept(if accept::prefers_json(request.headers) {
            self.json_reply()
        } else {
            self.with_retry_after(render(self.status, &ProblemPage::new(self)))
        })
    }

    /// Adds registry data of a retired name.
    fn add_retirement(&mut self, known: RegistrationDetails) {
        if let Some(ended) = known.ended {
            self.members.insert("ended".into(), format_millis(ended).into());
        }
        if let Some(title) = known.title() {
            self.members.insert("referent".into(), title.into());
        }
        if let Some((id, name)) = known.registrant() {
            self.members.insert("registrant".into(), json!({"id": id, "name": name}));
        }
        let history = format!("/api/v1/history{}", format(self.name));
        self.members.insert("history".into(), history.into());
        self.known = Some(known);
    }

    /// JSON form, also for embedding.
    pub(crate) fn to_json(&self) -> ProblemJson<'_> {
        ProblemJson {
            problem_type: "about:blank",
            title: &self.title,
            status: self.status.as_u16(),
            code: self.code,
            detail: &self.detail,
            name: Some(self.name).filter(|name| !name.is_empty()),
            pointer: self.pointer.as_deref(),
            line: self.line,
            hint: self.hint.as_deref(),
            near: self.near.iter().map(|near| &*near.name).collect(),
            members: &self.members,
        }
    }

    fn json_reply(&self) -> Reply {
        self.with_retry_after(reply(
            self.status,
            PROBLEM,
            serde_json::to_vec(&self.to_json()).unwrap_or_default(),
        ))
    }

    /// Adds `Retry-After`, unless a retry would fail, too.
    fn with_retry_after(&self, mut response: Reply) -> Reply {
        if self.status == StatusCode::SERVICE_UNAVAILABLE && !NOT_RETRYABLE_CODES.contains(&self.code) {
            add_retry_after(response.headers_mut());
        }
        response
    }

    fn uncached_json_reply(&self) -> Reply {
        let mut response = self.json_reply();
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        response
    }

    /// Replaces the default title of the code.
    pub(crate) fn title(mut self: Box<Self>, title: &'static str) -> Box<Self> {
        self.title = title.into();
        self
    }

    /// Sets the hint.
    pub(crate) fn hint(mut self: Box<Self>, hint: impl Into<String>) -> Box<Self> {
        self.hint = Some(hint.into());
        self
    }
}

impl Problem<'_> {
    /// HTTP status.
    pub(crate) const fn status(&self) -> StatusCode {
        self.status
    }

    /// Error code.
    pub(crate) const fn code(&self) -> &'static str {
        self.code
    }

    /// Replaces the status.
    pub(crate) fn with_status(mut self: Box<Self>, status: StatusCode) -> Box<Self> {
        self.status = status;
        self
    }

    /// Replaces the error code.
    pub(crate) fn with_code(mut self: Box<Self>, code: &'static str) -> Box<Self> {
        self.code = code;
        self
    }

    /// Sets the position in the request body: a JSON pointer.
    pub(crate) fn pointer(mut self: Box<Self>, pointer: impl Into<String>) -> Box<Self> {
        self.pointer = Some(pointer.into());
        self
    }

    /// Sets the line of the request body, counted from 1.
    pub(crate) fn line(mut self: Box<Self>, line: u64) -> Box<Self> {
        self.line = Some(line);
        self
    }

    /// Adds a member; its name must not be that of another one.
    pub(crate) fn member(mut self: Box<Self>, name: &str, value: impl Into<Json>) -> Box<Self> {
        self.members.insert(name.into(), value.into());
        self
    }
}

impl From<Box<Problem<'_>>> for Reply {
    fn from(problem: Box<Problem<'_>>) -> Self {
        problem.uncached_json_reply()
    }
}

/// Problem details object (RFC 9457).
#[derive(Serialize, ToSchema)]
#[schema(as = Problem)]
pub(crate) struct ProblemJson<'a> {
    #[serde(rename = "type")]
    problem_type: &'static str,
    title: &'a str,
    status: u16,
    /// Stays the same whatever the words are.
    code: &'static str,
    detail: &'a str,
    /// The name that was asked for, decoded.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    /// Where in the document that was sent: a JSON pointer (RFC 6901).
    #[serde(skip_serializing_if = "Option::is_none")]
    pointer: Option<&'a str>,
    /// In which line of what was sent, counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
    /// What to do instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'a str>,
    /// Names that exist and may have been meant.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    near: Vec<&'a str>,
    #[serde(flatten)]
    #[schema(ignore)]
    members: &'a Map<String, Json>,
}

/// Error page.
#[derive(Template)]
#[template(path = "problem.html")]
struct ProblemPage {
    status: u16,
    title: Cow<'static, str>,
    detail: String,
    name: String,
    /// Text of the search box: the requested name, if all of it is visible, for correction.
    again: String,
    reasons: Vec<&'static str>,
    near: Vec<SuggestionRow>,
    elsewhere: Option<String>,
    place: Option<(String, String, String)>,
    /// Whether the name is retired, with its registry data.
    is_ended: bool,
    registration: Option<RegistrationCard>,
    path: String,
}

/// Suggestion as shown.
struct SuggestionRow {
    path: String,
    name: String,
    why: &'static str,
}

impl ProblemPage {
    fn new(problem: &Problem<'_>) -> Self {
        let mut page_budget = PageBudget::new();
        Self {
            status: problem.status.as_u16(),
            title: problem.title.clone(),
            detail: page_budget.line(&problem.detail),
            name: page_budget.line(problem.name),
            again: escape_invisible(&truncate_chars(problem.name, 1_000)),
            reasons: problem.reasons.clone(),
            near: problem
                .near
                .iter()
                .filter_map(|near| {
                    let path = page_budget.url(&format(&near.name))?;
                    Some(SuggestionRow { path, name: page_budget.line(&near.name), why: near.why })
                })
                .collect(),
            elsewhere: problem.elsewhere.as_deref().and_then(|address| page_budget.url(address)),
            place: problem.place.map(|(before, at, after)| {
                let skipped = before.chars().count().saturating_sub(60);
                let start: String = before.chars().skip(skipped).collect();
                let start = if skipped > 0 { format!("…{start}") } else { start };
                (page_budget.line(&start), page_budget.line(at), page_budget.line(&truncate_chars(after, 60)))
            }),
            is_ended: problem.known.is_some(),
            registration: problem
                .known
                .as_ref()
                .map(|known| RegistrationCard::new(known, &mut page_budget))
                .filter(|registration| !registration.rows.is_empty()),
            path: if problem.name.is_empty() { String::new() } else { format(problem.name) },
        }
    }
}

impl HttpServer {
    /// Reply for a failed lookup, with suggestions.
    pub(crate) async fn lookup_failed(
        &self,
        name: &str,
        error: &RecordLookupError,
        request: &RequestHead<'_>,
        context: &mut LookupContext<'_>,
    ) -> Reply {
        let mut problem = match error {
            RecordLookupError::Local(error) => problem_for_lookup(name, error),
            RecordLookupError::Upstream(error, _) => {
                Problem { elsewhere: public_url(name), ..problem_for_lookup(name, error) }
            }
            RecordLookupError::UpstreamUnavailable(error) => problem_for_upstream(name, error),
        };
        match (error, problem.code) {
            (RecordLookupError::Upstream(..), codes::NOT_FOUND) => {
                problem.detail =
                    format!("It is not kept here, and {} has no record of it.", self.upstream_name());
            }
            (RecordLookupError::Upstream(..), codes::NOT_RESPONSIBLE) => {
                problem.detail =
                    format!("It is not kept here, and {} does not know where.", self.upstream_name());
                problem.reasons.remove(0);
            }
            _ => {}
        }
        problem.name = name;
        if let (NameKind::Prefix(prefix), codes::MISSING_SUFFIX) = (NameKind::classify(name), problem.code) {
            problem.detail = self.describe_prefix(prefix).await;
        }
        if matches!(error, RecordLookupError::Local(Error::Retired)) {
            problem.add_retirement(self.retired_details(name).await);
        }
        if matches!(error.error(), Some(Error::NotFound | Error::NotResponsible { .. } | Error::OtherServer))
        {
            problem.near = self.suggest_names(name, &mut context.budget).await;
        }
        let mut response = problem.negotiated_reply(request);
        if let Some(provenance) = error.provenance() {
            caching::add_cache_status(response.headers_mut(), provenance);
        }
        response
    }
}

/// Problem for programs, with the default title of its code; convert it to a [`Reply`] when complete.
pub(crate) fn problem(
    status: StatusCode,
    code: &'static str,
    detail: impl Into<String>,
) -> Box<Problem<'static>> {
    let title = capitalize(code).replace('-', " ").into();
    Box::new(Problem { title, ..Problem::new(status, code, "", detail.into()) })
}

fn problem_for_lookup(name: &str, error: &Error) -> Problem<'static> {
    let status = status::status_for(error.response_code(), false);
    let read = NameKind::classify(name);
    match (error, &read) {
        (_, NameKind::Empty) => {
            let detail = "A name is a prefix, a slash and a suffix, such as 10.1000/182.".into();
            Problem::new(StatusCode::BAD_REQUEST, codes::MISSING_NAME, "There is no name here", detail)
        }
        (Error::NotFound | Error::NotResponsible { .. } | Error::OtherServer, NameKind::Prefix(_)) => {
            Problem {
                reasons: vec![
                    "A name has a slash and a suffix after its prefix; the rest may have been cut off.",
                ],
                ..Problem::new(
                    StatusCode::NOT_FOUND,
                    codes::MISSING_SUFFIX,
                    "A prefix, and no name",
                    String::new(),
                )
            }
        }
        (Error::NotResponsible { .. }, NameKind::Doi(DoiOrShortDoi::ShortDoi(_))) => {
            let detail =
                "This is a shortDOI: it stands for a longer name, and only the DOI Foundation knows which.";
            Problem {
                elsewhere: public_url(name),
                ..Problem::new(status, codes::SHORT_DOI, "A shortDOI, which is not kept here", detail.into())
            }
        }
        (Error::NotResponsible { .. }, _) => Problem {
            reasons: vec![
                "It may be kept by another service; this one asks no others.",
                "Its prefix, the part before the first slash, may be wrong.",
            ],
            elsewhere: public_url(name),
            ..Problem::new(
                status,
                codes::NOT_RESPONSIBLE,
                "Not kept here",
                format!("{}.", capitalize(&error.to_string())),
            )
        },
        (Error::OtherServer, _) => {
            let detail = "Another server of this service keeps it; this one asks no others.".into();
            Problem {
                elsewhere: public_url(name),
                ..Problem::new(status, codes::NOT_RESPONSIBLE, "Not kept at this server", detail)
            }
        }
        (Error::NotFound, _) if name.ends_with('/') && name.matches('/').count() == 1 => {
            let detail =
                "There is nothing after the slash: the rest of the name may have been cut off.".into();
            Problem::new(status, codes::EMPTY_SUFFIX, "The name has no end", detail)
        }
        (Error::NotFound, _) => Problem {
            reasons: vec![
                "It may be wrong where you found it.",
                "It may have been copied with a sign too many or too few: a full stop, a bracket, a part of the line.",
                "It may not be registered yet. Who published it should know.",
            ],
            ..Problem::new(
                status,
                codes::NOT_FOUND,
                "This name is not registered",
                "Names under its prefix are kept here, but there is no record of this one.".into(),
            )
        },
        (Error::Retired, _) => Problem::new(
            StatusCode::GONE,
            codes::RETIRED,
            "This name was ended",
            "It was registered once and no longer leads anywhere. It will not be given to anything else."
                .into(),
        ),
        (Error::ValuesNotFound, _) => Problem::new(
            StatusCode::NOT_FOUND,
            codes::NO_VALUES,
            "Nothing to show",
            "There is a record, but it has no such values that everybody may read.".into(),
        ),
        (Error::Name(_), _) => Problem::new(
            status,
            codes::INVALID_NAME,
            "This cannot be a name",
            format!("{}.", capitalize(&error.to_string())),
        ),
        (Error::BudgetExceeded(_), _) => Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            codes::BUDGET_EXCEEDED,
            "Too much to do",
            "To answer this would take more than a request may cost.".into(),
        ),
        (Error::Store(error), _) => *problem_for_store(error),
        _ => Problem::new(
            status,
            codes::UNSUPPORTED,
            "Not possible",
            format!("{}.", capitalize(&error.to_string())),
        ),
    }
}

/// Problem for a store failure; details are only logged.
pub(crate) fn problem_for_store(error: &StoreError) -> Box<Problem<'static>> {
    let (status, code, what) = match error {
        StoreError::Unreachable { .. } => (
            StatusCode::SERVICE_UNAVAILABLE,
            codes::STORE_UNAVAILABLE,
            "The database is not reached at present",
        ),
        _ => (StatusCode::INTERNAL_SERVER_ERROR, codes::STORE_FAILED, "The store failed"),
    };
    let detail = format!("{what}. It is not your fault; try again later.");
    Box::new(Problem::new(status, code, "This did not work", detail))
}

/// Problem for a name whose responsible service could not be queried.
fn problem_for_upstream(name: &str, error: &UpstreamError) -> Problem<'static> {
    Problem {
        reasons: vec!["The name may well be right: nobody could say."],
        elsewhere: public_url(name),
        ..Problem::new(
            error.status(),
            error.code(),
            "This name could not be asked for",
            format!(
                "It is kept elsewhere, but {}. It is not your fault; try again later.",
                error.public_message()
            ),
        )
    }
}

/// Page for a syntax error, with the text around it.
pub(crate) fn syntax_error_page(error: &RequestSyntaxError, text: &str, request: &RequestHead<'_>) -> Reply {
    let cut = text.split_at_checked(error.offset).map(|(before, rest)| {
        let end = rest.char_indices().nth(3).map_or(rest.len(), |(end, _)| end);
        let (at, after) = rest.split_at(end);
        (before, at, after)
    });
    Problem {
        place: cut.filter(|(_, at, _)| !at.is_empty()),
        ..Problem::new(
            StatusCode::BAD_REQUEST,
            codes::MALFORMED,
            "This request is not understood",
            format!("{}.", capitalize(&error.to_string())),
        )
    }
    .negotiated_reply(request)
}

/// Problem for a failed lookup, for programs.
pub(crate) fn problem_of_name(name: &str, error: &Error) -> Reply {
    let mut problem = Problem { name, ..problem_for_lookup(name, error) };
    if problem.detail.is_empty() {
        problem.detail = format!("{}.", capitalize(&error.to_string()));
    }
    problem.uncached_json_reply()
}

/// Problem for an invalid request, for programs.
pub(crate) fn problem_of_request(why: &str) -> Reply {
    let title = "This request is not understood";
    Problem::new(StatusCode::BAD_REQUEST, codes::MALFORMED, title, format!("{}.", capitalize(why)))
        .uncached_json_reply()
}

/// Problem for failed authentication, for programs.
pub(crate) fn problem_of_caller(error: AuthenticationError, accepts_credentials: bool) -> Reply {
    if let Some(answer) = error.retry_reply() {
        return answer;
    }
    let status = status::unauthenticated_status(accepts_credentials);
    let code = status::unauthenticated_code(accepts_credentials);
    let detail = format!("{}.", capitalize(&error.to_string()));
    Problem::new(status, code, "Nobody knows who asks", detail).uncached_json_reply()
}

/// Page for an alias loop.
pub(crate) fn alias_loop(name: &str, chain: &[String], request: &RequestHead<'_>) -> Reply {
    let detail = format!(
        "It stands for {}, and so on without an end. Who keeps the records has to change one of them.",
        chain.join(", which stands for ")
    );
    Problem {
        name,
        ..Problem::new(StatusCode::LOOP_DETECTED, codes::ALIAS_LOOP, "This name leads in a circle", detail)
    }
    .negotiated_reply(request)
}

/// Page for a name whose prefix is inactive, with the message of the prefix record.
pub(crate) fn prefix_inactive(name: &str, says: String, request: &RequestHead<'_>) -> Reply {
    let title = "Names of this prefix are not served at present";
    Problem { name, ..Problem::new(StatusCode::NOT_FOUND, codes::PREFIX_INACTIVE, title, says) }
        .negotiated_reply(request)
}

fn capitalize(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map(|first| first.to_uppercase().chain(characters).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_programs_are_told() {
        let told = |problem: Box<Problem<'_>>| serde_json::to_value(problem.to_json()).unwrap();
        let plain = problem(StatusCode::CONFLICT, "already-registered", "It is.");
        let expected = serde_json::json!({
            "type": "about:blank", "title": "Already registered", "status": 409, "code": "already-registered",
            "detail": "It is."
        });
        assert_eq!(told(plain), expected);
        let more = problem(StatusCode::CONFLICT, "already-registered", "It is.")
            .title("Taken")
            .pointer("/name")
            .line(7)
            .hint("Take another.")
            .member("existing", "10.1/X");
        let told = told(more);
        assert_eq!(
            (&told["title"], &told["pointer"], &told["line"]),
            (&"Taken".into(), &"/name".into(), &7.into())
        );
        assert_eq!((&told["hint"], &told["existing"]), (&"Take another.".into(), &"10.1/X".into()));
        let answer = Reply::from(problem(StatusCode::NOT_FOUND, "not-found", ""));
        assert_eq!((answer.status(), &answer.headers()["content-type"]), (StatusCode::NOT_FOUND, &PROBLEM));
    }
}
