//! Prefixes: `/api/v1/prefixes`.

use http::StatusCode;
use hyper::body::Incoming;
use serde::Serialize;
use tendot_registry::party::{AllocatePrefix, Prefix, PrefixPolicy, UpdatePrefix, Versioned};
use utoipa::openapi::{HttpMethod, Required};

use crate::http::HttpServer;
use crate::http::api_v1::schemas::{NewPrefixForm, PrefixChangeForm, PrefixForm, PrefixListForm};
use crate::http::api_v1::{
    ApiRequest, ApiResult, JSON, created_reply, format_millis, json_reply, list_reply, request_budget,
    with_common_responses, with_paging, with_problem, with_write_responses,
};
use crate::http::routing::operation_spec::{OperationSpec, PathSpec, text_schema};

/// Allocated prefix in responses.
#[derive(Serialize)]
struct PrefixJson<'a> {
    prefix: &'a str,
    registrant: &'a str,
    agency: &'a str,
    allocated: String,
    test: bool,
    policy: &'a PrefixPolicy,
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
        let (items, next) =
            self.registry.list_prefixes(registrant, agency, after, limit, &mut request_budget()).await?;
        Ok(list_reply(items.iter().map(|held| PrefixJson::from(&held.value)).collect(), next))
    }

    pub(crate) async fn allocate_prefix(&self, request: &ApiRequest<'_>, body: Incoming) -> ApiResult {
        let task: AllocatePrefix = self.read_json(body).await?;
        let carried =
            self.registry.execute(&task, &request.caller, request.now_ms, &mut request_budget()).await?;
        let path = format!("/api/v1/prefixes/{}", carried.output.prefix);
        Ok(created_reply(&PrefixJson::from(&carried.output), carried.revision, &path, request.head.headers))
    }

    pub(crate) async fn get_prefix(&self, request: &ApiRequest<'_>) -> ApiResult {
        let Versioned { value: it, revision } =
            self.registry.get_prefix(&request.path_param, &mut request_budget()).await?;
        Ok(json_reply(&PrefixJson::from(&it), revision, request))
    }

    pub(crate) async fn update_prefix(&self, request: &ApiRequest<'_>, body: Incoming) -> ApiResult {
        let form: UpdatePrefix = self.read_json(body).await?;
        let task = UpdatePrefix {
            prefix: request.path_param.as_str().into(),
            expected_revision: request.expected_revision()?,
            ..form
        };
        self.registry.execute(&task, &request.caller, request.now_ms, &mut request_budget()).await?;
        self.get_prefix(request).await
    }
}

pub(crate) fn describe() -> PathSpec {
    let get = with_paging(with_common_responses(
        OperationSpec::new("Prefixes that were given to registrants"),
        false,
    ))
    .query_param("registrant", "Only those of the registrant with this id", text_schema())
    .query_param("agency", "Only those of the agency with this code", text_schema())
    .response(StatusCode::OK, "The prefixes, in the order of their records")
    .json_content::<PrefixListForm>(JSON);
    let post = with_write_responses(OperationSpec::new("Gives a prefix to a registrant"))
        .description(
            "The one that is asked for, or the next free one of the agency. Names under a prefix that is only to test may \
             be removed again.",
        )
        .request_body::<NewPrefixForm>(JSON, "For whom, and which", Required::True)
        .response(StatusCode::CREATED, "The prefix")
        .json_content::<PrefixForm>(JSON)
        .response_header("Location", "Where it is")
        .response_header("ETag", "Its revision");
    PathSpec::readable(get).with_method(HttpMethod::Post, post)
}

pub(crate) fn describe_one() -> PathSpec {
    let path = |spec: OperationSpec| spec.path_param("prefix", "A prefix, such as `10.70000`", text_schema());
    let get = path(with_common_responses(OperationSpec::new("A prefix"), false))
        .response(StatusCode::OK, "The prefix")
        .json_content::<PrefixForm>(JSON)
        .response_header("ETag", "Its revision")
        .response(StatusCode::NOT_MODIFIED, "The client has it already (`If-None-Match`)");
    let get = with_problem(get, StatusCode::NOT_FOUND, "It was given to nobody here");
    let put = path(with_write_responses(OperationSpec::new("Changes what may be registered under a prefix")))
        .description("For its agency and the operator.")
        .request_body::<PrefixChangeForm>(JSON, "What is to be otherwise", Required::True)
        .response(StatusCode::OK, "The prefix as it is now")
        .json_content::<PrefixForm>(JSON)
        .response_header("ETag", "Its revision");
    PathSpec::readable(get).with_method(HttpMethod::Put, put)
}
