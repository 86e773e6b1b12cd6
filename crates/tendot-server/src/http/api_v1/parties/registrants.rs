//! Registrants: `/api/v1/registrants`.

use http::StatusCode;
use serde::Serialize;
use tendot_registry::ResultPage;
use tendot_registry::party::{CreateRegistrant, Registrant, UpdateRegistrant, Versioned};
use utoipa::ToSchema;
use utoipa::openapi::{HttpMethod, Required};

use crate::http::HttpServer;
use crate::http::api_v1::schemas::{NewRegistrantForm, RegistrantUpdateForm};
use crate::http::api_v1::{
    ApiRequest, ApiResult, JSON, ListItem, ListJson, created_reply, format_millis, json_reply, list_reply,
    request_budget, with_common_responses, with_paging, with_write_responses,
};
use crate::http::request::body::RequestBody;
use crate::http::routing::operation_spec::{OperationSpec, PathSpec, text_schema};
use crate::random::random_bytes;

/// Registrant.
#[derive(Serialize, ToSchema)]
#[schema(as = Registrant)]
struct RegistrantJson<'a> {
    id: &'a str,
    /// Agency code.
    agency: &'a str,
    name: &'a str,
    /// Contact, visible to the registrant, its agency and the operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String)]
    contact: Option<&'a str>,
    /// Handle identities that act for the registrant, visible to the registrant, its agency and the operator.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    #[schema(value_type = Vec<String>)]
    admins: &'a [Box<str>],
    /// Creation time (RFC 3339).
    #[schema(format = DateTime)]
    created: String,
}

impl ListItem for RegistrantJson<'_> {
    const LIST_NAME: &'static str = "RegistrantList";
    const LIST_DESCRIPTION: &'static str = "Page of registrants";
}

impl<'a> From<&'a Registrant> for RegistrantJson<'a> {
    fn from(registrant: &'a Registrant) -> Self {
        Self {
            id: &registrant.id,
            agency: &registrant.agency,
            name: &registrant.name,
            contact: registrant.contact.as_deref(),
            admins: &registrant.admins,
            created: format_millis(registrant.created_ms),
        }
    }
}

impl HttpServer {
    pub(crate) async fn list_registrants(&self, request: &ApiRequest<'_>) -> ApiResult {
        let (after, limit) = request.page_params()?;
        let agency = request.parameters.get("agency");
        let ResultPage { items, next } =
            self.registry.list_registrants(agency, after, limit, request.call(&mut request_budget())).await?;
        Ok(list_reply(items.iter().map(|stored| RegistrantJson::from(&stored.value)).collect(), next))
    }

    pub(crate) async fn create_registrant(&self, request: &ApiRequest<'_>, body: RequestBody) -> ApiResult {
        let parsed: CreateRegistrant = self.read_json(body).await?;
        let command = CreateRegistrant { random_bytes: random_bytes(), ..parsed };
        let outcome = self.registry.execute(&command, request.call(&mut request_budget())).await?;
        let path = format!("/api/v1/registrants/{}", outcome.output.id);
        Ok(created_reply(
            &RegistrantJson::from(&outcome.output),
            outcome.revision,
            &path,
            request.head.headers,
        ))
    }

    pub(crate) async fn get_registrant(&self, request: &ApiRequest<'_>) -> ApiResult {
        let versioned =
            self.registry.get_registrant(&request.path_param, request.call(&mut request_budget())).await?;
        let Versioned { value: registrant, revision } = versioned;
        Ok(json_reply(&RegistrantJson::from(&registrant), revision, request))
    }

    pub(crate) async fn update_registrant(&self, request: &ApiRequest<'_>, body: RequestBody) -> ApiResult {
        let update: UpdateRegistrant = self.read_json(body).await?;
        let command = UpdateRegistrant {
            id: request.path_param.as_str().into(),
            expected_revision: request.expected_revision()?,
            ..update
        };
        self.registry.execute(&command, request.call(&mut request_budget())).await?;
        self.get_registrant(request).await
    }
}

pub(crate) fn describe() -> PathSpec {
    let get = with_paging(with_common_responses(OperationSpec::new("List registrants")))
        .description(
            "`contact` and `admins` are visible only to the registrant, its agency and the operator.",
        )
        .query_param("agency", "Filter by agency code", text_schema())
        .response(StatusCode::OK, "The registrants, ordered by id")
        .json_content::<ListJson<RegistrantJson<'_>>>(JSON);
    let post = with_write_responses(OperationSpec::new("Create a registrant"))
        .description("Agencies and operator only; an agency may omit `agency`.")
        .request_body::<NewRegistrantForm>(JSON, "The registrant", Required::True)
        .response(StatusCode::CREATED, "The registrant, with its `id`")
        .json_content::<RegistrantJson<'_>>(JSON)
        .response_header("Location", "URL of the registrant")
        .response_header("ETag", "Revision");
    PathSpec::readable(get).with_method(HttpMethod::Post, post)
}

pub(crate) fn describe_one() -> PathSpec {
    let path = |spec: OperationSpec| spec.path_param("id", "Registrant id", text_schema());
    let get = path(with_common_responses(OperationSpec::new("Get a registrant")))
        .response(StatusCode::OK, "The registrant")
        .json_content::<RegistrantJson<'_>>(JSON)
        .response_header("ETag", "Revision")
        .response(StatusCode::NOT_MODIFIED, "Not modified (`If-None-Match`)");
    let get = get.problem(StatusCode::NOT_FOUND, "Registrant not found");
    let put = path(with_write_responses(OperationSpec::new("Update a registrant")))
        .description("Omitted fields are unchanged. `admins` take effect in the Handle System immediately.")
        .request_body::<RegistrantUpdateForm>(JSON, "Fields to update", Required::True)
        .response(StatusCode::OK, "The updated registrant")
        .json_content::<RegistrantJson<'_>>(JSON)
        .response_header("ETag", "Revision");
    PathSpec::readable(get).with_method(HttpMethod::Put, put)
}
