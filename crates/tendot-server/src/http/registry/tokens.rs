//! `/api/v1/tokens`.

use http::StatusCode;
use http::header::{CACHE_CONTROL, HeaderValue};
use hyper::body::Incoming;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tendot_registry::party::{CreateToken, Role, Scope, Token, RevokeToken};
use utoipa::openapi::{HttpMethod, Required};

use super::form::{MadeTokenForm, NewTokenForm, TokenListForm};
use super::{ApiResult, Asking, JSON, Wrong, common, created, date, listed, pages, random, work, writes};
use crate::http::Http;
use crate::http::answer::{self, answer};
use crate::http::describe::{Described, Doing, text};
use crate::http::page::problem;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Form {
    role: Role,
    #[serde(default)]
    subject: Option<Box<str>>,
    #[serde(default)]
    scopes: Option<Vec<Scope>>,
    #[serde(default)]
    prefixes: Vec<Box<str>>,
    #[serde(default)]
    expires: Option<String>,
    #[serde(default)]
    label: Option<Box<str>>,
}

/// A token as it is told; its secret only once.
#[derive(Serialize)]
struct TokenJson<'a> {
    id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
    role: Role,
    #[serde(skip_serializing_if = "Option::is_none")]
    subject: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scopes: Option<&'a [Scope]>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    prefixes: &'a [Box<str>],
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<&'a str>,
    created: String,
}

impl<'a> TokenJson<'a> {
    fn of(it: &'a Token, token: Option<String>) -> Self {
        Self {
            id: &it.id,
            token,
            role: it.role,
            subject: it.subject.as_deref(),
            scopes: it.scopes.as_deref(),
            prefixes: &it.prefixes,
            expires: it.expires.map(date),
            label: it.label.as_deref(),
            created: date(it.created),
        }
    }
}

impl Http {
    pub(super) async fn list_tokens(&self, asking: &Asking<'_>) -> ApiResult {
        let (after, limit) = asking.page()?;
        let (items, next) =
            self.registry.tokens(after, limit, &asking.caller, asking.at, &mut work()).await?;
        Ok(listed(items.iter().map(|held| TokenJson::of(&held.it, None)).collect(), next))
    }

    pub(super) async fn make_token(&self, asking: &Asking<'_>, body: Incoming) -> ApiResult {
        let form: Form = self.form(body).await?;
        let expires = form.expires.as_deref().map(moment).transpose()?;
        let task = CreateToken {
            role: form.role,
            subject: form.subject,
            scopes: form.scopes,
            prefixes: form.prefixes,
            expires,
            label: form.label,
            random: random()?,
        };
        let carried = self.registry.carry_out(&task, &asking.caller, asking.at, &mut work()).await?;
        let shown = TokenJson::of(&carried.done, Some(task.text()));
        let path = format!("/api/v1/tokens/{}", carried.done.id);
        Ok(created(&shown, carried.revision, &path, asking.request.headers))
    }

    pub(super) async fn revoke_token(&self, asking: &Asking<'_>) -> ApiResult {
        let task = RevokeToken { id: asking.rest.as_str().into() };
        self.registry.carry_out(&task, &asking.caller, asking.at, &mut work()).await?;
        let mut response = answer(StatusCode::NO_CONTENT, answer::JSON, "");
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        Ok(response)
    }
}

/// When a token ends, in milliseconds since 1970.
fn moment(written: &str) -> Result<u64, Box<Wrong>> {
    let moment = written.parse::<Timestamp>().ok().and_then(|at| u64::try_from(at.as_millisecond()).ok());
    moment.ok_or_else(|| {
        let detail = format!("`{written}` is no time, such as 2027-01-31T12:00:00Z");
        problem(StatusCode::UNPROCESSABLE_ENTITY, "bad-time", detail).pointer("/expires").into()
    })
}

pub(super) fn describe() -> Described {
    let get = pages(common(Doing::new("Tokens, without their secrets"), true))
        .about("Of those for whom who asks acts.")
        .answer(StatusCode::OK, "The tokens, by their ids")
        .json::<TokenListForm>(JSON);
    let post = writes(Doing::new("Makes a token"))
        .about(
            "`subject` is an agency's code or a registrant's id; the operator's has none. It is shown once. Without `scopes` \
             it is for all that its role may.",
        )
        .body::<NewTokenForm>(JSON, "For whom, what for, and until when", Required::True)
        .answer(StatusCode::CREATED, "The token: `token` is what is sent as `Authorization: Bearer …`")
        .json::<MadeTokenForm>(JSON)
        .header("Location", "Where it is")
        .header("ETag", "Its revision");
    Described::read(get).and(HttpMethod::Post, post)
}

pub(super) fn describe_one() -> Described {
    let delete = writes(Doing::new("Revokes a token, at once"))
        .in_path("id", "The id of a token", text())
        .answer(StatusCode::NO_CONTENT, "It is worth nothing any more");
    Described::only(HttpMethod::Delete, delete)
}
