//! Redaction of histories: `/api/v1/redactions`.

use http::StatusCode;
use serde::Serialize;
use tendot_registry::registration::{RedactDoi, Redaction, RedactionMark};
use utoipa::ToSchema;
use utoipa::openapi::{HttpMethod, Required};

use crate::clock::format_millis;
use crate::http::HttpServer;
use crate::http::api_v1::dois::DRY_RUN_DESCRIPTION;
use crate::http::api_v1::schemas::NewRedactionForm;
use crate::http::api_v1::{ApiRequest, ApiResult, JSON, json_reply, request_budget, with_write_responses};
use crate::http::request::body::RequestBody;
use crate::http::routing::operation_spec::{OperationSpec, PathSpec, text_schema};

/// Redaction of the history of a DOI.
#[derive(Serialize, ToSchema)]
#[schema(as = Redaction)]
struct RedactionJson<'a> {
    /// Name as registered.
    name: &'a str,
    /// Number of states whose values and metadata were removed.
    states: usize,
    #[serde(flatten)]
    mark: RedactionMarkJson<'a>,
}

/// Mark of redacted states.
#[derive(Serialize, ToSchema)]
#[schema(as = RedactionMark)]
pub(super) struct RedactionMarkJson<'a> {
    /// Time of the redaction (RFC 3339).
    #[schema(format = DateTime)]
    at: String,
    /// Author of the redaction.
    by: &'a str,
    /// Reason.
    reason: &'a str,
}

impl<'a> From<&'a RedactionMark> for RedactionMarkJson<'a> {
    fn from(mark: &'a RedactionMark) -> Self {
        Self { at: format_millis(mark.time_ms), by: &mark.author, reason: &mark.reason }
    }
}

impl HttpServer {
    /// Handles `POST /api/v1/redactions`.
    pub(crate) async fn redact_doi(&self, request: &ApiRequest<'_>, body: RequestBody) -> ApiResult {
        let command: RedactDoi = self.read_json(body).await?;
        let (redaction, revision) = if request.parameters.is_set("dry-run") {
            (self.registry.dry_run(&command, request.call(&mut request_budget())).await?, None)
        } else {
            let outcome = self.registry.execute(&command, request.call(&mut request_budget())).await?;
            (outcome.output, outcome.revision)
        };
        let Redaction { name, redacted_states, mark } = &redaction;
        let json = RedactionJson { name, states: *redacted_states, mark: mark.into() };
        Ok(json_reply(&json, revision.unwrap_or_default(), request))
    }
}

pub(crate) fn describe() -> PathSpec {
    let post = with_write_responses(OperationSpec::new("Redact the history of a DOI"))
        .description(
            "Agency or operator. Removes values and metadata from all earlier states of the DOI; time, author and kind of \
             each change stay, and the audit chain is unbroken. The current state stays, except of a retired DOI. The \
             redaction is a change of kind `redact`, and redacted states are marked with time, author and reason. The \
             reason is public.",
        )
        .query_param("dry-run", DRY_RUN_DESCRIPTION, text_schema())
        .request_body::<NewRedactionForm>(JSON, "DOI and reason", Required::True)
        .response(StatusCode::OK, "The redaction; `states` is 0 if there was nothing to redact")
        .json_content::<RedactionJson<'_>>(JSON);
    PathSpec::single(HttpMethod::Post, post.problem(StatusCode::NOT_FOUND, "DOI not found"))
}
