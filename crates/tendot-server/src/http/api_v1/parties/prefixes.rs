//! Prefixes: `/api/v1/prefixes`.

use http::StatusCode;
use serde::Serialize;
use tendot_registry::ResultPage;
use tendot_registry::party::{AllocatePrefix, Prefix, PrefixPolicy, UpdatePrefix, Versioned};
use utoipa::ToSchema;
use utoipa::openapi::{HttpMethod, Required};

use crate::http::HttpServer;
use crate::http::api_v1::schemas::{NewPrefixForm, PolicyForm, PrefixUpdateForm};
use crate::http::api_v1::{
    ApiRequest, ApiResult, JSON, ListItem, ListJson, created_reply, format_millis, json_reply, list_reply,
    request_budget, with_common_responses, with_paging, with_write_responses,
};
use crate::http::request::body::RequestBody;
use crate::http::routing::operation_spec::{OperationSpec, PathSpec, text_schema};

/// Allocated prefix.
#[derive(Serialize, ToSchema)]
#[schema(as = Prefix)]
struct PrefixJson<'a> {
    /// Prefix, such as `10.70000`.
    prefix: &'a str,
    /// Registrant id.
    registrant: &'a str,
    /// Agency code of the registrant.
    agency: &'a str,
    /// Allocation time (RFC 3339).
    #[schema(format = DateTime)]
    allocated: String,
    /// Whether it is a test prefix, whose DOIs can be deleted.
    test: bool,
    #[schema(value_type = PolicyForm)]
    policy: &'a PrefixPolicy,
}

impl ListItem for PrefixJson<'_> {
    const LIST_NAME: &'static str = "PrefixList";
    const LIST_DESCRIPTION: &'static str = "Page of prefixes";
}

impl<'a> From<&'a Prefix> for PrefixJson<'a> {
    fn from(prefix: &'a Prefix) -> Self {
        Self {
            prefix: &prefix.prefix,
            registrant: &prefix.registrant,
            agency: &prefix.agency,
            allocated: format_millis(prefix.allocated_ms),
            test: prefix.is_test,
            policy: &prefix.policy,
        }
    }
}

impl HttpServer {
    pub(crate) async fn list_allocated_prefixes(&self, request: &ApiRequest<'_>) -> ApiResult {
        let (after, limit) = request.page_params()?;
        let (registrant, agency) = (request.parameters.get("registrant"), request.parameters.get("agency"));
        let ResultPage { items, next } =
            self.registry.list_prefixes(registrant, agency, after, limit, &mut request_budget()).await?;
        Ok(list_reply(items.iter().map(|stored| PrefixJson::from(&stored.value)).collect(), next))
    }

    pub(crate) async fn allocate_prefix(&self, request: &ApiRequest<'_>, body: RequestBody) -> ApiResult {
        let command: AllocatePrefix = self.read_json(body).await?;
        let outcome = self.registry.execute(&command, request.call(&mut request_budget())).await?;
        let path = format!("/api/v1/prefixes/{}", outcome.output.prefix);
        Ok(created_reply(&PrefixJson::from(&outcome.output), outcome.revision, &path, request.head.headers))
    }

    pub(crate) async fn get_prefix(&self, request: &ApiRequest<'_>) -> ApiResult {
        let Versioned { value: prefix, revision } =
            self.registry.get_prefix(&request.path_param, &mut request_budget()).await?;
        Ok(json_reply(&PrefixJson::from(&prefix), revision, request))
    }

    pub(crate) async fn update_prefix(&self, request: &ApiRequest<'_>, body: RequestBody) -> ApiResult {
        let update: UpdatePrefix = self.read_json(body).await?;
        let command = UpdatePrefix {
            prefix: request.path_param.as_str().into(),
            expected_revision: request.expected_revision()?,
            ..update
        };
        self.registry.execute(&command, request.call(&mut request_budget())).await?;
        self.get_prefix(request).await
    }
}

pub(crate) fn describe() -> PathSpec {
    let get = with_paging(with_common_responses(OperationSpec::new("List allocated prefixes")))
        .query_param("registrant", "Filter by registrant id", text_schema())
        .query_param("agency", "Filter by agency code", text_schema())
        .response(StatusCode::OK, "The prefixes, in record order")
        .json_content::<ListJson<PrefixJson<'_>>>(JSON);
    let post = with_write_responses(OperationSpec::new("Allocate a prefix"))
        .description(
            "The requested prefix, or the next free one of the agency. DOIs under a test prefix can be deleted.",
        )
        .request_body::<NewPrefixForm>(JSON, "Registrant and prefix", Required::True)
        .response(StatusCode::CREATED, "The prefix")
        .json_content::<PrefixJson<'_>>(JSON)
        .response_header("Location", "URL of the prefix")
        .response_header("ETag", "Revision");
    PathSpec::readable(get).with_method(HttpMethod::Post, post)
}

pub(crate) fn describe_one() -> PathSpec {
    let path = |spec: OperationSpec| spec.path_param("prefix", "Prefix, such as `10.70000`", text_schema());
    let get = path(with_common_responses(OperationSpec::new("Get a prefix")))
        .response(StatusCode::OK, "The prefix")
        .json_content::<PrefixJson<'_>>(JSON)
        .response_header("ETag", "Revision")
        .response(StatusCode::NOT_MODIFIED, "Not modified (`If-None-Match`)");
    let get = get.problem(StatusCode::NOT_FOUND, "Prefix not allocated");
    let put = path(with_write_responses(OperationSpec::new("Update the policy of a prefix")))
        .description("Agency of the prefix and operator only.")
        .request_body::<PrefixUpdateForm>(JSON, "Fields to update", Required::True)
        .response(StatusCode::OK, "The updated prefix")
        .json_content::<PrefixJson<'_>>(JSON)
        .response_header("ETag", "Revision");
    PathSpec::readable(get).with_method(HttpMethod::Put, put)
}
