//! `/api/v1/agencies`.

use http::StatusCode;
use hyper::body::Incoming;
use serde::Serialize;
use tendot_registry::party::{Agency, UpdateAgency, Held, CreateAgency};
use utoipa::openapi::HttpMethod;
use utoipa::openapi::Required;

use super::form::{AgencyChangeForm, AgencyForm, AgencyListForm, NewAgencyForm};
use super::{ApiResult, Asking, JSON, common, created, date, listed, pages, shown, work, writes, wrong};
use crate::http::Http;
use crate::http::describe::{Described, Doing, text};

/// An agency as it is told.
#[derive(Serialize)]
struct AgencyJson<'a> {
    code: &'a str,
    name: &'a str,
    state: &'static str,
    metadata: tendot_registry::party::Demand,
    #[serde(skip_serializing_if = "Option::is_none")]
    range: Option<&'a tendot_registry::party::Range>,
    #[serde(skip_serializing_if = "Option::is_none")]
    locations: Option<&'a str>,
    created: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    successor: Option<&'a str>,
}

impl<'a> AgencyJson<'a> {
    fn of(agency: &'a Agency) -> Self {
        Self {
            code: &agency.code,
            name: &agency.name,
            state: if agency.ended.is_some() { "ended" } else { "active" },
            metadata: agency.metadata,
            range: agency.range.as_ref(),
            locations: agency.locations.as_deref(),
            created: date(agency.created),
            ended: agency.ended.as_ref().map(|ended| date(ended.at)),
            successor: agency.ended.as_ref().map(|ended| &*ended.successor),
        }
    }
}

impl Http {
    pub(super) async fn list_agencies(&self, asking: &Asking<'_>) -> ApiResult {
        let (after, limit) = asking.page()?;
        let (items, next) = self.registry.agencies(after, limit, &mut work()).await?;
        Ok(listed(items.iter().map(|held| AgencyJson::of(&held.it)).collect(), next))
    }

    pub(super) async fn create_agency(&self, asking: &Asking<'_>, body: Incoming) -> ApiResult {
        let task: CreateAgency = self.form(body).await?;
        let carried = self.registry.carry_out(&task, &asking.caller, asking.at, &mut work()).await?;
        let path = format!("/api/v1/agencies/{}", carried.done.code);
        Ok(created(&AgencyJson::of(&carried.done), carried.revision, &path, asking.request.headers))
    }

    pub(super) async fn get_agency(&self, asking: &Asking<'_>) -> ApiResult {
        let Held { it, revision } = self.registry.agency(&asking.rest, &mut work()).await?;
        Ok(shown(&AgencyJson::of(&it), revision, asking))
    }

    pub(super) async fn update_agency(&self, asking: &Asking<'_>, body: Incoming) -> ApiResult {
        let form: UpdateAgency = self.form(body).await?;
        let task = UpdateAgency { code: asking.rest.as_str().into(), expect: asking.expected()?, ..form };
        self.registry.carry_out(&task, &asking.caller, asking.at, &mut work()).await?;
        self.get_agency(asking).await
    }
}

pub(super) fn describe() -> Described {
    let get = pages(common(Doing::new("All registration agencies"), false))
        .sample("curl -s $SERVER/api/v1/agencies")
        .answer(StatusCode::OK, "The agencies, by their codes")
        .json::<AgencyListForm>(JSON);
    let post = writes(Doing::new("Makes an agency"))
        .about(
            "For the operator. Names of an agency whose `metadata` is `required` come with kernel metadata.",
        )
        .body::<NewAgencyForm>(JSON, "The agency", Required::True)
        .sample(
            "curl -s $SERVER/api/v1/agencies -H \"Authorization: Bearer $TOKEN\" \\\n  \
             -d '{\"code\": \"LIB\", \"name\": \"The library\"}'",
        )
        .answer(StatusCode::CREATED, "The agency")
        .json::<AgencyForm>(JSON)
        .header("Location", "Where it is")
        .header("ETag", "Its revision");
    Described::read(get).and(HttpMethod::Post, post)
}

pub(super) fn describe_one() -> Described {
    let path = |doing: Doing| doing.in_path("code", "The code of an agency", text());
    let get = path(common(Doing::new("An agency"), false))
        .answer(StatusCode::OK, "The agency")
        .json::<AgencyForm>(JSON)
        .header("ETag", "Its revision")
        .answer(StatusCode::NOT_MODIFIED, "The client has it already (`If-None-Match`)");
    let get = wrong(get, StatusCode::NOT_FOUND, "There is no such agency");
    let put = path(writes(Doing::new("Changes an agency")))
        .about("What is not given stays as it is.")
        .body::<AgencyChangeForm>(JSON, "What is to be otherwise", Required::True)
        .answer(StatusCode::OK, "The agency as it is now")
        .json::<AgencyForm>(JSON)
        .header("ETag", "Its revision");
    Described::read(get).and(HttpMethod::Put, put)
}
