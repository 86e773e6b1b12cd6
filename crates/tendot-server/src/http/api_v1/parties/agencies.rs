//! Agencies: `/api/v1/agencies`.

use http::StatusCode;
use hyper::body::Incoming;
use serde::Serialize;
use tendot_registry::ResultPage;
use tendot_registry::party::{Agency, CreateAgency, UpdateAgency, Versioned};
use utoipa::openapi::HttpMethod;
use utoipa::openapi::Required;

use crate::http::HttpServer;
use crate::http::api_v1::schemas::{AgencyForm, AgencyListForm, AgencyUpdateForm, NewAgencyForm};
use crate::http::api_v1::{
    ApiRequest, ApiResult, JSON, created_reply, format_millis, json_reply, list_reply, request_budget,
    with_common_responses, with_paging, with_problem, with_write_responses,
};
use crate::http::routing::operation_spec::{OperationSpec, PathSpec, text_schema};

/// Agency in responses.
#[derive(Serialize)]
struct AgencyJson<'a> {
    code: &'a str,
    name: &'a str,
    state: &'static str,
    metadata: tendot_registry::party::MetadataPolicy,
    #[serde(skip_serializing_if = "Option::is_none")]
    range: Option<&'a tendot_registry::party::PrefixRange>,
    #[serde(skip_serializing_if = "Option::is_none")]
    locations: Option<&'a str>,
    created: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    closed: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    successor: Option<&'a str>,
}

impl<'a> From<&'a Agency> for AgencyJson<'a> {
    fn from(agency: &'a Agency) -> Self {
        Self {
            code: &agency.code,
            name: &agency.name,
            state: if agency.closed.is_some() { "closed" } else { "active" },
            metadata: agency.metadata_policy,
            range: agency.prefix_range.as_ref(),
            locations: agency.locations.as_deref(),
            created: format_millis(agency.created_ms),
            closed: agency.closed.as_ref().map(|closure| format_millis(closure.time_ms)),
            successor: agency.closed.as_ref().map(|closure| &*closure.successor),
        }
    }
}

impl HttpServer {
    pub(crate) async fn list_agencies(&self, request: &ApiRequest<'_>) -> ApiResult {
        let (after, limit) = request.page_params()?;
        let ResultPage { items, next } =
            self.registry.list_agencies(after, limit, &mut request_budget()).await?;
        Ok(list_reply(items.iter().map(|stored| AgencyJson::from(&stored.value)).collect(), next))
    }

    pub(crate) async fn create_agency(&self, request: &ApiRequest<'_>, body: Incoming) -> ApiResult {
        let command: CreateAgency = self.read_json(body).await?;
        let outcome = self.registry.execute(&command, request.call(&mut request_budget())).await?;
        let path = format!("/api/v1/agencies/{}", outcome.output.code);
        Ok(created_reply(&AgencyJson::from(&outcome.output), outcome.revision, &path, request.head.headers))
    }

    pub(crate) async fn get_agency(&self, request: &ApiRequest<'_>) -> ApiResult {
        let Versioned { value: agency, revision } =
            self.registry.get_agency(&request.path_param, &mut request_budget()).await?;
        Ok(json_reply(&AgencyJson::from(&agency), revision, request))
    }

    pub(crate) async fn update_agency(&self, request: &ApiRequest<'_>, body: Incoming) -> ApiResult {
        let update: UpdateAgency = self.read_json(body).await?;
        let command = UpdateAgency {
            code: request.path_param.as_str().into(),
            expected_revision: request.expected_revision()?,
            ..update
        };
        self.registry.execute(&command, request.call(&mut request_budget())).await?;
        self.get_agency(request).await
    }
}

pub(crate) fn describe() -> PathSpec {
    let get = with_paging(with_common_responses(OperationSpec::new("List agencies"), false))
        .example_command("curl -s $SERVER/api/v1/agencies")
        .response(StatusCode::OK, "The agencies, ordered by code")
        .json_content::<AgencyListForm>(JSON);
    let post = with_write_responses(OperationSpec::new("Create an agency"))
        .description("Operator only. With `metadata: required`, DOIs of the agency need kernel metadata.")
        .request_body::<NewAgencyForm>(JSON, "The agency", Required::True)
        .example_command(
            "curl -s $SERVER/api/v1/agencies -H \"Authorization: Bearer $TOKEN\" \\\n  \
             -d '{\"code\": \"LIB\", \"name\": \"The library\"}'",
        )
        .response(StatusCode::CREATED, "The agency")
        .json_content::<AgencyForm>(JSON)
        .response_header("Location", "URL of the agency")
        .response_header("ETag", "Revision");
    PathSpec::readable(get).with_method(HttpMethod::Post, post)
}

pub(crate) fn describe_one() -> PathSpec {
    let path = |spec: OperationSpec| spec.path_param("code", "Agency code", text_schema());
    let get = path(with_common_responses(OperationSpec::new("Get an agency"), false))
        .response(StatusCode::OK, "The agency")
        .json_content::<AgencyForm>(JSON)
        .response_header("ETag", "Revision")
        .response(StatusCode::NOT_MODIFIED, "Not modified (`If-None-Match`)");
    let get = with_problem(get, StatusCode::NOT_FOUND, "Agency not found");
    let put = path(with_write_responses(OperationSpec::new("Update an agency")))
        .description("Omitted fields are unchanged.")
        .request_body::<AgencyUpdateForm>(JSON, "Fields to update", Required::True)
        .response(StatusCode::OK, "The updated agency")
        .json_content::<AgencyForm>(JSON)
        .response_header("ETag", "Revision");
    PathSpec::readable(get).with_method(HttpMethod::Put, put)
}
