//! `/api/v1/prefixes`.

use http::StatusCode;
use hyper::body::Incoming;
use serde::Serialize;
use tendot_registry::party::{Held, AllocatePrefix, Policy, Prefix, UpdatePrefix};
use utoipa::openapi::{HttpMethod, Required};

use super::form::{NewPrefixForm, PrefixChangeForm, PrefixForm, PrefixListForm};
use super::{ApiResult, Asking, JSON, common, created, date, listed, pages, shown, work, writes, wrong};
use crate::http::Http;
use crate::http::describe::{Described, Doing, text};

/// A prefix as it is told.
#[derive(Serialize)]
struct PrefixJson<'a> {
    prefix: &'a str,
    registrant: &'a str,
    agency: &'a str,
    allocated: String,
    test: bool,
    policy: &'a Policy,
}

impl<'a> PrefixJson<'a> {
    fn of(prefix: &'a Prefix) -> Self {
        Self {
            prefix: &prefix.prefix,
            registrant: &prefix.registrant,
            agency: &prefix.agency,
            allocated: date(prefix.allocated),
            test: prefix.test,
            policy: &prefix.policy,
        }
    }
}

impl Http {
    pub(super) async fn list_allocated_prefixes(&self, asking: &Asking<'_>) -> ApiResult {
        let (after, limit) = asking.page()?;
        let (registrant, agency) = (asking.parameters.get("registrant"), asking.parameters.get("agency"));
        let (items, next) = self.registry.prefixes(registrant, agency, after, limit, &mut work()).await?;
        Ok(listed(items.iter().map(|held| PrefixJson::of(&held.it)).collect(), next))
    }

    pub(super) async fn allocate_prefix(&self, asking: &Asking<'_>, body: Incoming) -> ApiResult {
        let task: AllocatePrefix = self.form(body).await?;
        let carried = self.registry.carry_out(&task, &asking.caller, asking.at, &mut work()).await?;
        let path = format!("/api/v1/prefixes/{}", carried.done.prefix);
        Ok(created(&PrefixJson::of(&carried.done), carried.revision, &path, asking.request.headers))
    }

    pub(super) async fn get_prefix(&self, asking: &Asking<'_>) -> ApiResult {
        let Held { it, revision } = self.registry.prefix(&asking.rest, &mut work()).await?;
        Ok(shown(&PrefixJson::of(&it), revision, asking))
    }

    pub(super) async fn update_prefix(&self, asking: &Asking<'_>, body: Incoming) -> ApiResult {
        let form: UpdatePrefix = self.form(body).await?;
        let task = UpdatePrefix { prefix: asking.rest.as_str().into(), expect: asking.expected()?, ..form };
        self.registry.carry_out(&task, &asking.caller, asking.at, &mut work()).await?;
        self.get_prefix(asking).await
    }
}

pub(super) fn describe() -> Described {
    let get = pages(common(Doing::new("Prefixes that were given to registrants"), false))
        .query_param("registrant", "Only those of the registrant with this id", text())
        .query_param("agency", "Only those of the agency with this code", text())
        .answer(StatusCode::OK, "The prefixes, in the order of their records")
        .json::<PrefixListForm>(JSON);
    let post = writes(Doing::new("Gives a prefix to a registrant"))
        .about(
            "The one that is asked for, or the next free one of the agency. Names under a prefix that is only to test may \
             be removed again.",
        )
        .body::<NewPrefixForm>(JSON, "For whom, and which", Required::True)
        .answer(StatusCode::CREATED, "The prefix")
        .json::<PrefixForm>(JSON)
        .header("Location", "Where it is")
        .header("ETag", "Its revision");
    Described::read(get).and(HttpMethod::Post, post)
}

pub(super) fn describe_one() -> Described {
    let path = |doing: Doing| doing.in_path("prefix", "A prefix, such as `10.70000`", text());
    let get = path(common(Doing::new("A prefix"), false))
        .answer(StatusCode::OK, "The prefix")
        .json::<PrefixForm>(JSON)
        .header("ETag", "Its revision")
        .answer(StatusCode::NOT_MODIFIED, "The client has it already (`If-None-Match`)");
    let get = wrong(get, StatusCode::NOT_FOUND, "It was given to nobody here");
    let put = path(writes(Doing::new("Changes what may be registered under a prefix")))
        .about("For its agency and the operator.")
        .body::<PrefixChangeForm>(JSON, "What is to be otherwise", Required::True)
        .answer(StatusCode::OK, "The prefix as it is now")
        .json::<PrefixForm>(JSON)
        .header("ETag", "Its revision");
    Described::read(get).and(HttpMethod::Put, put)
}
