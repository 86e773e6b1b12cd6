//! `/api/v1/dois`: DOIs, one at a time.

use http::StatusCode;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use tendot_names::InputForm;
use tendot_proto::{Handle, HandleValue};
use tendot_registry::registration::{
    DoiFilter, DoiListItem, DoiRecord, RegisterDoi, RegistrationRequest, RetireDoi, UpdateDoi,
};
use tendot_registry::{IdempotentOutcome, IdempotentRequest};
use utoipa::ToSchema;
use utoipa::openapi::{HttpMethod, Required, Schema};

use crate::http::HttpServer;
use crate::http::api_v1::idempotency::{idempotency_key, replay};
use crate::http::api_v1::schemas::{DoiUpdateForm, NewDoiForm, described};
use crate::http::api_v1::{
    ApiError, ApiRequest, ApiResult, JSON, ListItem, ListJson, MetadataSchema, created_reply, format_millis,
    json_reply, list_reply, request_budget, with_common_responses, with_paging, with_write_responses,
};
use crate::http::handle_api::ValueForm;
use crate::http::request::body::RequestBody;
use crate::http::request::conditional::WritePrecondition;
use crate::http::request::name_path;
use crate::http::response::errors::{as_precondition_failed, name_mismatch};
use crate::http::routing::operation_spec::{OperationSpec, PathSpec, enum_schema, text_schema};
use crate::random::random_bytes;

/// DOI.
#[derive(Serialize, ToSchema)]
#[schema(as = Doi)]
pub(crate) struct DoiJson<'a> {
    /// Name as registered.
    name: &'a str,
    #[schema(schema_with = state_schema)]
    state: &'static str,
    /// Registrant id.
    registrant: &'a str,
    /// Agency code.
    agency: &'a str,
    /// Target URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String)]
    url: Option<&'a str>,
    /// Values of the record.
    #[schema(value_type = Vec<ValueForm>)]
    values: &'a [HandleValue<'static>],
    /// Kernel metadata with the element names of kernel XML 2.3.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = MetadataSchema)]
    metadata: Option<&'a RawValue>,
    /// Creation time (RFC 3339).
    #[schema(format = DateTime)]
    created: String,
    /// Time of the last update (RFC 3339).
    #[schema(format = DateTime)]
    updated: String,
    /// Retirement time (RFC 3339).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = DateTime)]
    retired: Option<String>,
    /// Form in which the name was written, if it was not bare; only in the response to a registration.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String)]
    form: Option<&'static str>,
    /// Warnings about the registration.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

fn state_schema() -> Schema {
    described(enum_schema(["reserved", "registered", "tombstone", "deleted"]), "State")
}

impl<'a> From<&'a DoiRecord> for DoiJson<'a> {
    fn from(record: &'a DoiRecord) -> Self {
        Self {
            name: &record.name,
            state: record.state.as_str(),
            registrant: &record.registrant,
            agency: &record.agency,
            url: record.url(),
            values: &record.values,
            metadata: record.metadata.as_deref(),
            created: format_millis(record.created_ms),
            updated: format_millis(record.updated_ms),
            retired: record.retired_ms.map(format_millis),
            form: record.input_form.map(InputForm::as_str),
            warnings: record.warnings.iter().map(ToString::to_string).collect(),
        }
    }
}

/// DOI in a list.
#[derive(Serialize, ToSchema)]
#[schema(as = DoiItem)]
struct DoiItemJson<'a> {
    name: &'a str,
    #[schema(schema_with = item_state_schema)]
    state: &'static str,
    registrant: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String)]
    url: Option<&'a str>,
    /// Time of the last update (RFC 3339).
    #[schema(format = DateTime)]
    updated: String,
}

impl ListItem for DoiItemJson<'_> {
    const LIST_NAME: &'static str = "DoiList";
    const LIST_DESCRIPTION: &'static str = "Page of DOIs";
}

/// Deleted DOIs are not listed.
fn item_state_schema() -> Schema {
    described(enum_schema(["reserved", "registered", "tombstone"]), "State")
}

impl<'a> From<&'a DoiListItem> for DoiItemJson<'a> {
    fn from(item: &'a DoiListItem) -> Self {
        Self {
            name: &item.name,
            state: item.state.as_str(),
            registrant: &item.registrant,
            url: item.url.as_deref(),
            updated: format_millis(item.updated_ms),
        }
    }
}

impl HttpServer {
    pub(crate) async fn list_dois(&self, request: &ApiRequest<'_>) -> ApiResult {
        let (after, limit) = request.page_params()?;
        let (prefix, registrant) = (request.parameters.get("prefix"), request.parameters.get("registrant"));
        let filter = DoiFilter { prefix, registrant };
        let mut budget = request_budget();
        let names = self.registry.list_dois(filter, after, limit, request.call(&mut budget)).await?;
        Ok(list_reply(names.items.iter().map(DoiItemJson::from).collect(), names.next))
    }

    pub(crate) async fn register_doi(&self, request: &ApiRequest<'_>, body: RequestBody) -> ApiResult {
        let bytes = self.read_json_bytes(body).await?;
        let dry_run = request.parameters.is_set("dry-run");
        let idempotent = match idempotency_key(request)?.filter(|_| !dry_run) {
            Some(key) => Some(self.registry.load_idempotent_request(key, "POST /dois", &bytes).await?),
            None => None,
        };
        if let Some(idempotent) = &idempotent
            && let Some(stored) = idempotent.stored_reply(request.now_ms)?
        {
            return Ok(replay(&stored));
        }
        self.execute_registration(request, RegistrationRequest::from_json(&bytes)?, idempotent.as_ref()).await
    }

    async fn execute_registration(
        &self,
        request: &ApiRequest<'_>,
        draft: RegistrationRequest,
        idempotent: Option<&IdempotentRequest>,
    ) -> ApiResult {
        let command = RegisterDoi { request: draft, random_bytes: random_bytes() };
        let mut budget = request_budget();
        if request.parameters.is_set("dry-run") {
            let record = self.registry.dry_run(&command, request.call(&mut budget)).await?;
            return Ok(json_reply(&DoiJson::from(&record), 0, request));
        }
        let call = request.call(&mut budget);
        let outcome = match idempotent {
            None => self.registry.execute(&command, call).await?,
            Some(idempotent) => {
                let reply = |record: &DoiRecord| to_raw_value(&DoiJson::from(record)).ok();
                match self.registry.execute_idempotent(&command, call, idempotent, reply).await? {
                    IdempotentOutcome::Executed(outcome) => outcome,
                    IdempotentOutcome::Replayed(stored) => return Ok(replay(&stored)),
                }
            }
        };
        let path = doi_path(&outcome.output.name);
        let headers = request.head.headers;
        Ok(created_reply(&DoiJson::from(&outcome.output), outcome.revision, &path, headers))
    }

    pub(crate) async fn get_doi(&self, request: &ApiRequest<'_>) -> ApiResult {
        let record = self.registry.get_doi(&request.path_param, request.call(&mut request_budget())).await?;
        Ok(json_reply(&DoiJson::from(&record), record.revision, request))
    }

    pub(crate) async fn update_doi(&self, request: &ApiRequest<'_>, body: RequestBody) -> ApiResult {
        let bytes = self.read_json_bytes(body).await?;
        let mut draft = RegistrationRequest::from_json_for(&bytes, &request.path_param)?;
        if request.precondition()? == WritePrecondition::Absent {
            let is_other =
                |name: &str| !Handle::from(name).eq_ignore_case(Handle::from(&*request.path_param));
            if draft.name.as_deref().is_some_and(is_other) {
                return Err(name_mismatch().into());
            }
            draft.name = Some(request.path_param.as_str().into());
            return self.execute_registration(request, draft, None).await.map_err(|error| match *error {
                ApiError::Problem(problem) => as_precondition_failed(problem).into(),
                error => Box::new(error),
            });
        }
        let expected_revision = request.expected_revision()?;
        let command =
            UpdateDoi { name: request.path_param.as_str().into(), request: draft, expected_revision };
        let mut budget = request_budget();
        if request.parameters.is_set("dry-run") {
            let record = self.registry.dry_run(&command, request.call(&mut budget)).await?;
            return Ok(json_reply(&DoiJson::from(&record), 0, request));
        }
        let outcome = self.registry.execute(&command, request.call(&mut budget)).await?;
        let revision = outcome.revision.unwrap_or(outcome.output.revision);
        Ok(json_reply(&DoiJson::from(&outcome.output), revision, request))
    }

    pub(crate) async fn retire_doi(&self, request: &ApiRequest<'_>) -> ApiResult {
        let command = RetireDoi {
            name: request.path_param.as_str().into(),
            expected_revision: request.expected_revision()?,
        };
        if request.parameters.is_set("dry-run") {
            let record = self.registry.dry_run(&command, request.call(&mut request_budget())).await?;
            return Ok(json_reply(&DoiJson::from(&record), 0, request));
        }
        let outcome = self.registry.execute(&command, request.call(&mut request_budget())).await?;
        Ok(json_reply(&DoiJson::from(&outcome.output), outcome.revision.unwrap_or_default(), request))
    }
}

/// API path of a DOI.
pub(crate) fn doi_path(name: &str) -> String {
    format!("/api/v1/dois{}", name_path::format(name))
}

/// Description of the query parameter `dry-run`.
pub(super) const DRY_RUN_DESCRIPTION: &str = "Dry run: validate without writing";

pub(crate) fn describe() -> PathSpec {
    let get = with_paging(with_common_responses(OperationSpec::new("List the DOIs of a prefix or registrant")))
        .description(
            "In name order. A page may have fewer items than `limit`; continue while `next` is present. Reserved DOIs are \
             listed only for their registrant, its agency and the operator.",
        )
        .query_param("prefix", "Filter by prefix", text_schema())
        .query_param("registrant", "Filter by registrant id", text_schema())
        .response(StatusCode::OK, "The DOIs")
        .json_content::<ListJson<DoiItemJson<'_>>>(JSON);
    let get = get.problem(StatusCode::NOT_FOUND, "Prefix or registrant not found");
    let post = with_write_responses(OperationSpec::new("Register a DOI"))
        .description(
            "`name` in any written form, such as `doi:` or a doi.org URL, which is decoded, or a generated suffix under \
             `prefix`. The DOI resolves when the response arrives. DOIs are \
             case-insensitive. With `Idempotency-Key`, a repeated request gets the stored response for 24 hours.",
        )
        .query_param("dry-run", DRY_RUN_DESCRIPTION, text_schema())
        .request_body::<NewDoiForm>(JSON, "Name, URL, metadata", Required::True)
        .response(StatusCode::CREATED, "The DOI")
        .json_content::<DoiJson<'_>>(JSON)
        .response_header("Location", "URL of the DOI in this API")
        .response_header("ETag", "Revision; absent in a replayed response")
        .response_header("Idempotency-Replayed", "`true` for a replayed response")
        .response(StatusCode::OK, "The DOI that would be registered (`dry-run`)")
        .json_content::<DoiJson<'_>>(JSON);
    PathSpec::readable(get).with_method(HttpMethod::Post, post)
}

pub(crate) fn describe_one() -> PathSpec {
    let path = |spec: OperationSpec| {
        spec.path_param("name", "Name; slashes may be literal or percent-encoded", text_schema())
    };
    let get = path(with_common_responses(OperationSpec::new("Get a DOI")))
        .response(StatusCode::OK, "The DOI with its record, metadata, state, registrant and timestamps")
        .json_content::<DoiJson<'_>>(JSON)
        .response_header("ETag", "Revision")
        .response(StatusCode::NOT_MODIFIED, "Not modified (`If-None-Match`)");
    let get = get.problem(StatusCode::NOT_FOUND, "DOI not found");
    let put = path(with_write_responses(OperationSpec::new("Update a DOI")))
        .description(
            "Replaces the given fields; omitted fields are unchanged. With `If-Match`, only if the revision matches; with \
             `If-None-Match: *`, registers the DOI if it does not exist.",
        )
        .query_param("dry-run", DRY_RUN_DESCRIPTION, text_schema())
        .request_body::<DoiUpdateForm>(JSON, "Fields to update", Required::True)
        .response(StatusCode::OK, "The updated DOI")
        .json_content::<DoiJson<'_>>(JSON)
        .response_header("ETag", "Revision")
        .response(StatusCode::CREATED, "The new DOI")
        .json_content::<DoiJson<'_>>(JSON)
        .response_header("Location", "URL of the DOI in this API")
        .response_header("ETag", "Revision");
    let delete = path(with_write_responses(OperationSpec::new("Retire a DOI")))
        .description(
            "It no longer resolves and is never reused; its history is kept. Reserved DOIs, and those under a test prefix, \
             are `deleted` and can be registered again.",
        )
        .query_param("dry-run", DRY_RUN_DESCRIPTION, text_schema())
        .response(StatusCode::OK, "The retired DOI")
        .json_content::<DoiJson<'_>>(JSON)
        .response_header("ETag", "Revision");
    PathSpec::readable(get).with_method(HttpMethod::Put, put).with_method(HttpMethod::Delete, delete)
}
