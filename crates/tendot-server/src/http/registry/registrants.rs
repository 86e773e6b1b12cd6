//! `/api/v1/registrants`.

use http::StatusCode;
use hyper::body::Incoming;
use serde::Serialize;
use tendot_registry::party::{Held, CreateRegistrant, Registrant, UpdateRegistrant};
use utoipa::openapi::{HttpMethod, Required};

use super::form::{NewRegistrantForm, RegistrantChangeForm, RegistrantForm, RegistrantListForm};
use super::{
    ApiResult, Asking, JSON, common, created, date, listed, pages, random, shown, work, writes, wrong,
};
use crate::http::Http;
use crate::http::describe::{Described, Doing, text};

/// A registrant as it is told.
#[derive(Serialize)]
struct RegistrantJson<'a> {
    id: &'a str,
    agency: &'a str,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    contact: Option<&'a str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    admins: &'a [Box<str>],
    created: String,
}

impl<'a> RegistrantJson<'a> {
    fn of(registrant: &'a Registrant) -> Self {
        Self {
            id: &registrant.id,
            agency: &registrant.agency,
            name: &registrant.name,
            contact: registrant.contact.as_deref(),
            admins: &registrant.admins,
            created: date(registrant.created),
        }
    }
}

impl Http {
    pub(super) async fn list_registrants(&self, asking: &Asking<'_>) -> ApiResult {
        let (after, limit) = asking.page()?;
        let agency = asking.parameters.get("agency");
        let mut work = work();
        let list = self.registry.registrants(agency, after, limit, &asking.caller, asking.at, &mut work);
        let (items, next) = list.await?;
        Ok(listed(items.iter().map(|held| RegistrantJson::of(&held.it)).collect(), next))
    }

    pub(super) async fn create_registrant(&self, asking: &Asking<'_>, body: Incoming) -> ApiResult {
        let form: CreateRegistrant = self.form(body).await?;
        let task = CreateRegistrant { random: random()?, ..form };
        let carried = self.registry.carry_out(&task, &asking.caller, asking.at, &mut work()).await?;
        let path = format!("/api/v1/registrants/{}", carried.done.id);
        Ok(created(&RegistrantJson::of(&carried.done), carried.revision, &path, asking.request.headers))
    }

    pub(super) async fn get_registrant(&self, asking: &Asking<'_>) -> ApiResult {
        let found = self.registry.registrant(&asking.rest, &asking.caller, asking.at, &mut work()).await?;
        let Held { it, revision } = found;
        Ok(shown(&RegistrantJson::of(&it), revision, asking))
    }

    pub(super) async fn update_registrant(&self, asking: &Asking<'_>, body: Incoming) -> ApiResult {
        let form: UpdateRegistrant = self.form(body).await?;
        let task = UpdateRegistrant { id: asking.rest.as_str().into(), expect: asking.expected()?, ..form };
        self.registry.carry_out(&task, &asking.caller, asking.at, &mut work()).await?;
        self.get_registrant(asking).await
    }
}

pub(super) fn describe() -> Described {
    let get = pages(common(Doing::new("Registrants"), false))
        .about("How they are reached and who acts for them is told only to themselves, their agency and the operator.")
        .query_param("agency", "Only those of the agency with this code", text())
        .answer(StatusCode::OK, "The registrants, by their ids")
        .json::<RegistrantListForm>(JSON);
    let post = writes(Doing::new("Makes a registrant"))
        .about("For an agency, which need not be named then, or the operator.")
        .body::<NewRegistrantForm>(JSON, "The registrant", Required::True)
        .answer(StatusCode::CREATED, "The registrant, with its `id`")
        .json::<RegistrantForm>(JSON)
        .header("Location", "Where it is")
        .header("ETag", "Its revision");
    Described::read(get).and(HttpMethod::Post, post)
}

pub(super) fn describe_one() -> Described {
    let path = |doing: Doing| doing.in_path("id", "The id of a registrant", text());
    let get = path(common(Doing::new("A registrant"), false))
        .answer(StatusCode::OK, "The registrant")
        .json::<RegistrantForm>(JSON)
        .header("ETag", "Its revision")
        .answer(StatusCode::NOT_MODIFIED, "The client has it already (`If-None-Match`)");
    let get = wrong(get, StatusCode::NOT_FOUND, "There is no such registrant");
    let put = path(writes(Doing::new("Changes a registrant")))
        .about("What is not given stays as it is. Who is listed in `admins` acts for it in the Handle System, at once.")
        .body::<RegistrantChangeForm>(JSON, "What is to be otherwise", Required::True)
        .answer(StatusCode::OK, "The registrant as it is now")
        .json::<RegistrantForm>(JSON)
        .header("ETag", "Its revision");
    Described::read(get).and(HttpMethod::Put, put)
}
