//! `/api/v1/dois`: names, one at a time.

use http::StatusCode;
use hyper::body::Incoming;
use serde::Serialize;
use serde_json::value::RawValue;
use tendot_proto::{Handle, Value};
use tendot_registry::doi::{RegistrationRequest, UpdateDoi, RetireDoi, DoiListItem, RegisterDoi, Registered};
use utoipa::openapi::{HttpMethod, Required};

use super::form::{NameChangeForm, ResolveFormSchema, NameListForm, NewNameForm};
use super::receipt::IdempotencyKey;
use super::{
    ApiResult, Asking, JSON, Wrong, common, created, date, listed, pages, random, shown, work, writes, wrong,
};
use crate::http::api::WritePrecondition;
use crate::http::describe::{Described, Doing, text};
use crate::http::page::problem;
use crate::http::{Http, redirect};

/// A name as it is told.
#[derive(Serialize)]
pub(in crate::http) struct DoiJson<'a> {
    name: &'a str,
    state: &'static str,
    registrant: &'a str,
    agency: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<&'a str>,
    values: &'a [Value<'static>],
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<&'a RawValue>,
    created: String,
    updated: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended: Option<String>,
    /// What who registers it should know.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

impl<'a> DoiJson<'a> {
    pub(in crate::http) fn of(name: &'a Registered) -> Self {
        Self {
            name: &name.name,
            state: name.state.name(),
            registrant: &name.registrant,
            agency: &name.agency,
            url: name.url(),
            values: &name.values,
            metadata: name.metadata.as_deref(),
            created: date(name.created),
            updated: date(name.updated),
            ended: name.ended.map(date),
            warnings: name.notes.iter().map(ToString::to_string).collect(),
        }
    }
}

/// A name in a list.
#[derive(Serialize)]
struct DoiItemJson<'a> {
    name: &'a str,
    state: &'static str,
    registrant: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<&'a str>,
    updated: String,
}

impl<'a> DoiItemJson<'a> {
    fn of(item: &'a DoiListItem) -> Self {
        Self {
            name: &item.name,
            state: item.state.name(),
            registrant: &item.registrant,
            url: item.url.as_deref(),
            updated: date(item.updated),
        }
    }
}

impl Http {
    pub(super) async fn list_names(&self, asking: &Asking<'_>) -> ApiResult {
        let (after, limit) = asking.page()?;
        let (prefix, registrant) = (asking.parameters.get("prefix"), asking.parameters.get("registrant"));
        let mut work = work();
        let names =
            self.registry.names(prefix, registrant, after, limit, &asking.caller, asking.at, &mut work);
        let names = names.await?;
        Ok(listed(names.items.iter().map(DoiItemJson::of).collect(), names.next))
    }

    pub(super) async fn register_doi(&self, asking: &Asking<'_>, body: Incoming) -> ApiResult {
        let bytes = self.read_json_bytes(body).await?;
        let receipt = IdempotencyKey::asked(&self.registry, asking, &bytes).await?;
        if let Some(answer) = receipt.as_ref().map(|receipt| receipt.given(asking.at)).transpose()?.flatten()
        {
            return Ok(answer);
        }
        let answered = self.register(asking, RegistrationRequest::from_json(&bytes)?, receipt.as_ref()).await;
        // The same request may have been faster, or carried out though nobody heard of it. What was refused stays so if that
        // can't be read.
        if answered.is_err()
            && receipt.is_some()
            && let Ok(Some(receipt)) = IdempotencyKey::asked(&self.registry, asking, &bytes).await
            && let Some(answer) = receipt.given(asking.at)?
        {
            return Ok(answer);
        }
        answered
    }

    async fn register(&self, asking: &Asking<'_>, draft: RegistrationRequest, receipt: Option<&IdempotencyKey>) -> ApiResult {
        let task = RegisterDoi { draft, random: random()? };
        let mut work = work();
        if asking.parameters.is_set("dry-run") {
            let done = self.registry.dry_run(&task, &asking.caller, asking.at, &mut work).await?;
            return Ok(shown(&DoiJson::of(&done), 0, asking));
        }
        let beside = |done: &Registered| {
            receipt.map(|receipt| receipt.edits(&DoiJson::of(done), asking.at)).unwrap_or_default()
        };
        let carried =
            self.registry.execute_with(&task, &asking.caller, asking.at, &mut work, beside).await?;
        let path = path_of(&carried.done.name);
        let headers = asking.request.headers;
        Ok(created(&DoiJson::of(&carried.done), carried.revision, &path, headers))
    }

    pub(super) async fn get_doi(&self, asking: &Asking<'_>) -> ApiResult {
        let found = self.registry.registered(&asking.rest, &asking.caller, asking.at, &mut work()).await?;
        Ok(shown(&DoiJson::of(&found), found.revision, asking))
    }

    pub(super) async fn update_doi(&self, asking: &Asking<'_>, body: Incoming) -> ApiResult {
        let bytes = self.read_json_bytes(body).await?;
        let mut draft = RegistrationRequest::from_json(&bytes)?;
        if asking.condition()? == WritePrecondition::Absent {
            let is_other = |name: &str| !Handle::from(name).is_same(Handle::from(&*asking.rest));
            if draft.name.as_deref().is_some_and(is_other) {
                let detail = "the body is about another name than the path";
                return Err(problem(StatusCode::UNPROCESSABLE_ENTITY, "other-name", detail)
                    .pointer("/name")
                    .into());
            }
            draft.name = Some(asking.rest.as_str().into());
            return self.register(asking, draft, None).await.map_err(|wrong| precondition(*wrong));
        }
        let expect = asking.expected()?;
        let task = UpdateDoi { name: asking.rest.as_str().into(), draft, expect };
        let mut work = work();
        if asking.parameters.is_set("dry-run") {
            let done = self.registry.dry_run(&task, &asking.caller, asking.at, &mut work).await?;
            return Ok(shown(&DoiJson::of(&done), 0, asking));
        }
        let carried = self.registry.carry_out(&task, &asking.caller, asking.at, &mut work).await?;
        let revision = carried.revision.unwrap_or(carried.done.revision);
        Ok(shown(&DoiJson::of(&carried.done), revision, asking))
    }

    pub(super) async fn retire_doi(&self, asking: &Asking<'_>) -> ApiResult {
        let task = RetireDoi { name: asking.rest.as_str().into(), expect: asking.expected()? };
        if asking.parameters.is_set("dry-run") {
            let done = self.registry.dry_run(&task, &asking.caller, asking.at, &mut work()).await?;
            return Ok(shown(&DoiJson::of(&done), 0, asking));
        }
        let carried = self.registry.carry_out(&task, &asking.caller, asking.at, &mut work()).await?;
        Ok(shown(&DoiJson::of(&carried.done), carried.revision.unwrap_or_default(), asking))
    }
}

/// Where a name is told of.
pub(super) fn path_of(name: &str) -> String {
    format!("/api/v1/dois{}", redirect::own_path(name))
}

/// What was to be there only if nothing was.
fn precondition(wrong: Wrong) -> Box<Wrong> {
    match wrong {
        Wrong::Problem(problem) if problem.code() == "already-registered" => {
            problem.with_status(StatusCode::PRECONDITION_FAILED).into()
        }
        wrong => Box::new(wrong),
    }
}

const DRY: &str = "Tells what would be done, and does nothing";

pub(super) fn describe() -> Described {
    let get = pages(common(Doing::new("Names of a prefix or a registrant"), false))
        .about(
            "In the order of their names. There may be fewer than were asked for, and yet more to come, as long as there is \
             `next`. Names that are only reserved are told to those concerned.",
        )
        .query_param("prefix", "Only those under this prefix", text())
        .query_param("registrant", "Only those of the registrant with this id", text())
        .answer(StatusCode::OK, "The names")
        .json::<NameListForm>(JSON);
    let get = wrong(get, StatusCode::NOT_FOUND, "There is no such prefix or registrant");
    let post = writes(Doing::new("Registers a new name"))
        .about(
            "The name that is given, or a new one under a prefix. It resolves as soon as it is answered. A name that exists in \
             other letter case exists. With `Idempotency-Key`, the same request gets the same answer for 24 hours.",
        )
        .query_param("dry-run", DRY, text())
        .body::<NewNameForm>(JSON, "The name, where it leads, and what it is about", Required::True)
        .answer(StatusCode::CREATED, "The name")
        .json::<ResolveFormSchema>(JSON)
        .header("Location", "Where it is told of")
        .header("ETag", "Its revision; none if this is what was answered before")
        .header("Idempotency-Replayed", "`true` if it was done before, and this is what was answered then")
        .answer(StatusCode::OK, "What would be registered (`dry-run`)")
        .json::<ResolveFormSchema>(JSON);
    Described::read(get).and(HttpMethod::Post, post)
}

pub(super) fn describe_one() -> Described {
    let path = |doing: Doing| {
        doing.in_path("name", "A name, with the slashes that it has, percent-encoded or not", text())
    };
    let get = path(common(Doing::new("A name: its record, metadata, state, registrant and times"), false))
        .answer(StatusCode::OK, "The name")
        .json::<ResolveFormSchema>(JSON)
        .header("ETag", "Its revision")
        .answer(StatusCode::NOT_MODIFIED, "The client has it already (`If-None-Match`)");
    let get = wrong(get, StatusCode::NOT_FOUND, "There is no such name");
    let put = path(writes(Doing::new("Changes a name")))
        .about(
            "What is given replaces what was there, what is not given stays. With `If-Match`, only if nobody else has changed \
             it; with `If-None-Match: *` it is registered if it is not there.",
        )
        .query_param("dry-run", DRY, text())
        .body::<NameChangeForm>(JSON, "What is to be otherwise", Required::True)
        .answer(StatusCode::OK, "The name as it is now")
        .json::<ResolveFormSchema>(JSON)
        .header("ETag", "Its revision")
        .answer(StatusCode::CREATED, "The name, which is new")
        .json::<ResolveFormSchema>(JSON)
        .header("Location", "Where it is told of")
        .header("ETag", "Its revision");
    let delete = path(writes(Doing::new("Ends a name")))
        .about(
            "It does not resolve any more, is never given again, and its history stays. One that was only reserved, or is under \
             a prefix to test, is `removed` and may be given again.",
        )
        .query_param("dry-run", DRY, text())
        .answer(StatusCode::OK, "The name as it was, and that it has ended")
        .json::<ResolveFormSchema>(JSON)
        .header("ETag", "Its revision");
    Described::read(get).and(HttpMethod::Put, put).and(HttpMethod::Delete, delete)
}
