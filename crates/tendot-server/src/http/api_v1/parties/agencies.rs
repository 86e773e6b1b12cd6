//! Agencies: `/api/v1/agencies`.

use http::StatusCode;
use serde::Serialize;
use tendot_registry::ResultPage;
use tendot_registry::party::{Agency, CreateAgency, MetadataPolicy, PrefixRange, UpdateAgency, Versioned};
use utoipa::ToSchema;
use utoipa::openapi::{HttpMethod, Required, Schema};

use crate::http::HttpServer;
use crate::http::api_v1::schemas::{AgencyUpdateForm, NewAgencyForm, metadata_policy_schema};
use crate::http::api_v1::{
    ApiRequest, ApiResult, JSON, ListItem, ListJson, created_reply, format_millis, json_reply, list_reply,
    request_budget, with_common_responses, with_paging, with_write_responses,
};
use crate::http::request::body::RequestBody;
use crate::http::routing::operation_spec::{OperationSpec, PathSpec, enum_schema, text_schema};

/// Registration agency.
#[derive(Serialize, ToSchema)]
#[schema(as = Agency)]
struct AgencyJson<'a> {
    /// Unique code, case-insensitive.
    code: &'a str,
    name: &'a str,
    #[schema(schema_with = state_schema)]
    state: &'static str,
    #[schema(schema_with = metadata_policy_schema)]
    metadata: MetadataPolicy,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = PrefixRangeSchema, inline)]
    range: Option<&'a PrefixRange>,
    /// Handle whose locations apply to all DOIs of the agency.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String)]
    locations: Option<&'a str>,
    /// Creation time (RFC 3339).
    #[schema(format = DateTime)]
    created: String,
    /// Closing time (RFC 3339).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = DateTime)]
    closed: Option<String>,
    /// Successor agency.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String)]
    successor: Option<&'a str>,
}

/// Schema only: prefix range.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "schema only")]
struct PrefixRangeSchema {
    /// First prefix, such as `10.70000`.
    first: String,
    /// Last prefix.
    last: String,
}

impl ListItem for AgencyJson<'_> {
    const LIST_NAME: &'static str = "AgencyList";
    const LIST_DESCRIPTION: &'static str = "Page of agencies";
}

fn state_schema() -> Schema {
    enum_schema(["active", "closed"])
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

    pub(crate) async fn create_agency(&self, request: &ApiRequest<'_>, body: RequestBody) -> ApiResult {
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

    pub(crate) async fn update_agency(&self, request: &ApiRequest<'_>, body: RequestBody) -> ApiResult {
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
    let get = with_paging(with_common_responses(OperationSpec::new("List agencies")))
        .example_command("curl -s $SERVER/api/v1/agencies")
        .response(StatusCode::OK, "The agencies, ordered by code")
        .json_content::<ListJson<AgencyJson<'_>>>(JSON);
    let post = with_write_responses(OperationSpec::new("Create an agency"))
        .description(
            "Operator only. Registrations need kernel metadata, unless `metadata` of the agency or of the policy of the prefix is \
             `optional`, or the prefix is a test prefix.",
        )
        .request_body::<NewAgencyForm>(JSON, "The agency", Required::True)
        .example_command(
            "curl -s $SERVER/api/v1/agencies -H \"Authorization: Bearer $TOKEN\" \\\n  \
             -d '{\"code\": \"LIB\", \"name\": \"The library\"}'",
        )
        .response(StatusCode::CREATED, "The agency")
        .json_content::<AgencyJson<'_>>(JSON)
        .response_header("Location", "URL of the agency")
        .response_header("ETag", "Revision");
    PathSpec::readable(get).with_method(HttpMethod::Post, post)
}

pub(crate) fn describe_one() -> PathSpec {
    let path = |spec: OperationSpec| spec.path_param("code", "Agency code", text_schema());
    let get = path(with_common_responses(OperationSpec::new("Get an agency")))
        .response(StatusCode::OK, "The agency")
        .json_content::<AgencyJson<'_>>(JSON)
        .response_header("ETag", "Revision")
        .response(StatusCode::NOT_MODIFIED, "Not modified (`If-None-Match`)");
    let get = get.problem(StatusCode::NOT_FOUND, "Agency not found");
    let put = path(with_write_responses(OperationSpec::new("Update an agency")))
        .description("Omitted fields are unchanged.")
        .request_body::<AgencyUpdateForm>(JSON, "Fields to update", Required::True)
        .response(StatusCode::OK, "The updated agency")
        .json_content::<AgencyJson<'_>>(JSON)
        .response_header("ETag", "Revision");
    PathSpec::readable(get).with_method(HttpMethod::Put, put)
}
