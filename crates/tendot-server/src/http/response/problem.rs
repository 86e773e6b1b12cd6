//! Problem details (`application/problem+json`, RFC 9457).

use std::borrow::Cow;
use std::collections::BTreeMap;

use http::StatusCode;
use http::header::{CACHE_CONTROL, HeaderValue};
use serde::Serialize;
use serde_json::{Map, Value as Json, json};
use tendot_registry::{look_alike, uri_form};
use utoipa::ToSchema;

use crate::clock::format_millis;
use crate::http::pages::RegistrationDetails;
use crate::http::request::name_path;
use crate::http::resolve::suggestions::Suggestion;
use crate::http::response::codes;
use crate::http::response::reply::{PROBLEM, Reply, add_retry_after, reply};

/// Problem details (RFC 9457) before rendering as JSON or HTML.
#[derive(Debug)]
pub(crate) struct Problem<'a> {
    pub(crate) status: StatusCode,
    /// Stable error code.
    pub(crate) code: &'static str,
    pub(crate) title: Cow<'static, str>,
    pub(crate) detail: String,
    /// Position of the error in the request body, as a JSON pointer.
    pub(crate) pointer: Option<String>,
    pub(crate) line: Option<u64>,
    /// Suggested action.
    pub(crate) hint: Option<String>,
    /// Additional members.
    pub(crate) members: Map<String, Json>,
    /// Requested name, decoded; empty if the problem does not concern one.
    pub(crate) name: &'a str,
    /// Text of the search box, if it has no name.
    pub(crate) search_text: &'a str,
    pub(crate) reasons: Vec<&'static str>,
    pub(crate) suggestions: Vec<Suggestion>,
    /// Whether the page links the name at the resolver of other services.
    pub(crate) links_resolver: bool,
    /// Text of the request, split around the error.
    pub(crate) excerpt: Option<(&'a str, &'a str, &'a str)>,
    /// Registry data of a retired name.
    pub(crate) retired: Option<RegistrationDetails>,
}

/// Codes of errors for which a retry would fail, too.
const NOT_RETRYABLE_CODES: [&str; 1] = [codes::BUDGET_EXCEEDED];

impl Problem<'_> {
    fn new(status: StatusCode, code: &'static str, detail: String) -> Self {
        Self {
            status,
            code,
            title: default_title(code),
            detail,
            pointer: None,
            line: None,
            hint: None,
            members: Map::new(),
            name: "",
            search_text: "",
            reasons: Vec::new(),
            suggestions: Vec::new(),
            links_resolver: false,
            excerpt: None,
            retired: None,
        }
    }

    /// Adds registry data of a retired name.
    pub(crate) fn add_retirement(&mut self, details: RegistrationDetails) {
        if let Some(retired) = details.retired_at {
            self.members.insert("retired".into(), format_millis(retired).into());
        }
        // Not `title`, which is the title of the problem.
        if let Some(title) = details.title() {
            self.members.insert("referent".into(), title.into());
        }
        if let Some((id, name)) = details.registrant() {
            self.members.insert("registrant".into(), json!({"id": id, "name": name}));
        }
        let history = format!("/api/v1/history{}", name_path::format(self.name));
        self.members.insert("history".into(), history.into());
        self.retired = Some(details);
    }

    /// URI forms of the requested name and of suggestions that look like it, by name; empty if none does. Only that form tells
    /// them apart.
    pub(crate) fn look_alike_uris(&self) -> BTreeMap<&str, String> {
        let names = self.suggestions.iter().map(|suggestion| &*suggestion.name);
        let alike = names.filter(|name| look_alike(name, self.name));
        let mut uris: BTreeMap<&str, String> = alike.map(|name| (name, uri_form(name))).collect();
        if !uris.is_empty() {
            uris.insert(self.name, uri_form(self.name));
        }
        uris
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
            suggestions: self.suggestions.iter().map(|suggestion| &*suggestion.name).collect(),
            uris: self.look_alike_uris(),
            members: &self.members,
        }
    }

    /// Reply with the JSON form.
    pub(crate) fn json_reply(&self) -> Reply {
        self.with_retry_after(reply(
            self.status,
            PROBLEM,
            serde_json::to_vec(&self.to_json()).unwrap_or_default(),
        ))
    }

    /// Reply with the JSON form and `Cache-Control: no-cache`.
    pub(crate) fn uncached_json_reply(&self) -> Reply {
        let mut response = self.json_reply();
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        response
    }

    /// Adds `Retry-After`, unless a retry would fail, too.
    pub(crate) fn with_retry_after(&self, mut response: Reply) -> Reply {
        if self.status == StatusCode::SERVICE_UNAVAILABLE && !NOT_RETRYABLE_CODES.contains(&self.code) {
            add_retry_after(response.headers_mut());
        }
        response
    }

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

    /// Replaces the error code, and the title by that of the code.
    pub(crate) fn with_code(mut self: Box<Self>, code: &'static str) -> Box<Self> {
        self.code = code;
        self.title = default_title(code);
        self
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
    /// Error code; stable across versions, unlike `title` and `detail`.
    code: &'static str,
    detail: &'a str,
    /// Requested name, decoded.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    /// Position of the error in the request body: a JSON pointer (RFC 6901).
    #[serde(skip_serializing_if = "Option::is_none")]
    pointer: Option<&'a str>,
    /// Line of the request body, counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
    /// Suggested action.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'a str>,
    /// Registered names that are similar to the requested one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    suggestions: Vec<&'a str>,
    /// URI forms of the requested name and of suggestions that look like it, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    uris: BTreeMap<&'a str, String>,
    #[serde(flatten)]
    #[schema(ignore)]
    members: &'a Map<String, Json>,
}

/// Problem for programs, with the default title of its code; convert it to a [`Reply`] when complete.
pub(crate) fn problem(
    status: StatusCode,
    code: &'static str,
    detail: impl Into<String>,
) -> Box<Problem<'static>> {
    debug_assert!(
        codes::HTTP_ERROR_CODES.iter().all(|spec| spec.code != code
            || is_registry_code(code)
            || spec.statuses.contains(&status.as_u16())),
        "{code} is not sent with {status}"
    );
    Box::new(Problem::new(status, code, detail.into()))
}

/// Default title of an error code.
fn default_title(code: &str) -> Cow<'static, str> {
    match code {
        codes::MALFORMED => "Malformed request".into(),
        code => capitalize(code).replace('-', " ").into(),
    }
}

/// Whether the registry sends this code, too: then its statuses are those of both.
fn is_registry_code(code: &str) -> bool {
    tendot_registry::codes::ERROR_CODES.iter().any(|spec| spec.code == code)
}

/// Text with its first letter in upper case.
pub(crate) fn capitalize(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map(|first| first.to_uppercase().chain(characters).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problem_json() {
        let json = |problem: Box<Problem<'_>>| serde_json::to_value(problem.to_json()).unwrap();
        let minimal = problem(StatusCode::CONFLICT, "already-registered", "It is.");
        let expected = serde_json::json!({
            "type": "about:blank", "title": "Already registered", "status": 409, "code": "already-registered",
            "detail": "It is."
        });
        assert_eq!(json(minimal), expected);
        let complete = problem(StatusCode::CONFLICT, "already-registered", "It is.")
            .title("Taken")
            .pointer("/name")
            .line(7)
            .hint("Take another.")
            .member("existing", "10.1/X");
        let json = json(complete);
        assert_eq!(
            (&json["title"], &json["pointer"], &json["line"]),
            (&"Taken".into(), &"/name".into(), &7.into())
        );
        assert_eq!((&json["hint"], &json["existing"]), (&"Take another.".into(), &"10.1/X".into()));
        let response = Reply::from(problem(StatusCode::NOT_FOUND, "not-found", ""));
        assert_eq!(
            (response.status(), &response.headers()["content-type"]),
            (StatusCode::NOT_FOUND, &PROBLEM)
        );
    }
}
