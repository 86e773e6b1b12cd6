//! Transfers: `/api/v1/transfers`.

use http::StatusCode;
use serde::{Deserialize, Serialize};
use tendot_registry::ResultPage;
use tendot_registry::party::Versioned;
use tendot_registry::transfer::{
    DecideTransfer, ProposeTransfer, Transfer, TransferListItem, TransferState, TransferSubject,
};
use utoipa::ToSchema;
use utoipa::openapi::{HttpMethod, Required, Schema};

use crate::http::HttpServer;
use crate::http::api_v1::dois::DRY_RUN_DESCRIPTION;
use crate::http::api_v1::schemas::NewTransferForm;
use crate::http::api_v1::{
    ApiRequest, ApiResult, JSON, ListItem, ListJson, created_reply, format_millis, json_reply, list_reply,
    malformed, request_budget, with_common_responses, with_paging, with_write_responses,
};
use crate::http::request::body::RequestBody;
use crate::http::routing::operation_spec::{OperationSpec, PathSpec, enum_schema, text_schema};
use crate::random::random_bytes;

/// Body of `POST /api/v1/transfers`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewTransferJson {
    #[serde(default)]
    names: Option<Vec<Box<str>>>,
    #[serde(default)]
    prefix: Option<Box<str>>,
    #[serde(default)]
    agency: Option<Box<str>>,
    to: Box<str>,
    #[serde(default)]
    force: bool,
}

/// Transfer.
#[derive(Serialize, ToSchema)]
#[schema(as = Transfer)]
struct TransferJson<'a> {
    id: &'a str,
    /// Names to transfer to a registrant, at most 10,000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Vec<String>)]
    names: Option<&'a [Box<str>]>,
    /// Number of names; a list shows the first ten.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = usize)]
    count: Option<usize>,
    /// Prefix to transfer to a registrant, with its names.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String)]
    prefix: Option<&'a str>,
    /// Agency whose registrants and prefixes go to another agency; it is closed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String)]
    agency: Option<&'a str>,
    /// Previous owners: registrant ids, or an agency code.
    #[schema(value_type = Vec<String>)]
    from: &'a [Box<str>],
    /// Recipient: registrant id or agency code.
    to: &'a str,
    #[schema(schema_with = state_schema)]
    state: TransferState,
    /// Proposal time (RFC 3339).
    #[schema(format = DateTime)]
    proposed: String,
    /// Proposer.
    by: &'a str,
    /// Time until which the proposal can be accepted (RFC 3339).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = DateTime)]
    expires: Option<String>,
    /// Decision time (RFC 3339).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = DateTime)]
    decided: Option<String>,
}

impl ListItem for TransferJson<'_> {
    const LIST_NAME: &'static str = "TransferList";
    const LIST_DESCRIPTION: &'static str = "Page of transfers";
}

fn state_schema() -> Schema {
    enum_schema(["proposed", "done", "declined", "expired"])
}

impl<'a> TransferJson<'a> {
    /// Transfer in its state at a time in milliseconds since 1970.
    fn at_time(transfer: &'a Transfer, now_ms: u64) -> Self {
        let (names, prefix, agency) = match &transfer.subject {
            TransferSubject::Names(names) => (Some(&**names), None, None),
            TransferSubject::Prefix(prefix) => (None, Some(&**prefix), None),
            TransferSubject::Agency(code) => (None, None, Some(&**code)),
        };
        Self {
            id: &transfer.id,
            names,
            count: None,
            prefix,
            agency,
            from: &transfer.from,
            to: &transfer.to,
            state: transfer.state_at(now_ms),
            proposed: format_millis(transfer.proposed_ms),
            by: &transfer.proposed_by,
            expires: transfer.expires_ms.map(format_millis),
            decided: transfer.decided_ms.map(format_millis),
        }
    }
}

impl HttpServer {
    pub(crate) async fn list_transfers(&self, request: &ApiRequest<'_>) -> ApiResult {
        let (after, limit) = request.page_params()?;
        let ResultPage { items, next } =
            self.registry.list_transfers(after, limit, request.call(&mut request_budget())).await?;
        let transfers = items.iter().map(|TransferListItem { transfer, count }| TransferJson {
            count: *count,
            ..TransferJson::at_time(transfer, request.now_ms)
        });
        Ok(list_reply(transfers.collect(), next))
    }

    pub(crate) async fn propose_transfer(&self, request: &ApiRequest<'_>, body: RequestBody) -> ApiResult {
        let proposal: NewTransferJson = self.read_json(body).await?;
        let subject = match (proposal.names, proposal.prefix, proposal.agency) {
            (Some(names), None, None) => TransferSubject::Names(names),
            (None, Some(prefix), None) => TransferSubject::Prefix(prefix),
            (None, None, Some(code)) => TransferSubject::Agency(code),
            _ => return Err(malformed("give exactly one of `names`, `prefix`, `agency`")),
        };
        let command =
            ProposeTransfer { subject, to: proposal.to, force: proposal.force, random_bytes: random_bytes() };
        if request.parameters.is_set("dry-run") {
            let planned = self.registry.dry_run(&command, request.call(&mut request_budget())).await?;
            return Ok(json_reply(&TransferJson::at_time(&planned, request.now_ms), 0, request));
        }
        let outcome = self.registry.execute(&command, request.call(&mut request_budget())).await?;
        let path = format!("/api/v1/transfers/{}", outcome.output.id);
        let created = TransferJson::at_time(&outcome.output, request.now_ms);
        Ok(created_reply(&created, outcome.revision, &path, request.head.headers))
    }

    pub(crate) async fn get_transfer(&self, request: &ApiRequest<'_>) -> ApiResult {
        let versioned =
            self.registry.get_transfer(&request.path_param, request.call(&mut request_budget())).await?;
        let Versioned { value: transfer, revision } = versioned;
        Ok(json_reply(&TransferJson::at_time(&transfer, request.now_ms), revision, request))
    }

    pub(crate) async fn decide_transfer(&self, request: &ApiRequest<'_>, accept: bool) -> ApiResult {
        let command = DecideTransfer { id: request.path_param.as_str().into(), accept };
        self.registry.execute(&command, request.call(&mut request_budget())).await?;
        self.get_transfer(request).await
    }
}

pub(crate) fn describe() -> PathSpec {
    let get = with_paging(with_common_responses(OperationSpec::new("List your incoming and outgoing transfers")))
        .description("Each with its first ten names and their `count`. A page may have fewer items than `limit`; continue while `next` is present.")
        .response(StatusCode::OK, "The transfers, ordered by id")
        .json_content::<ListJson<TransferJson<'_>>>(JSON);
    let post = with_write_responses(OperationSpec::new("Propose a transfer"))
        .description(
            "Names or a prefix to another registrant, or everything of an agency to another agency, which closes the first. \
             Takes effect when the recipient accepts, or immediately if the operator forces it. The names do not change.",
        )
        .query_param("dry-run", DRY_RUN_DESCRIPTION, text_schema())
        .request_body::<NewTransferForm>(JSON, "Subject and recipient", Required::True)
        .response(StatusCode::CREATED, "The transfer, `proposed` or `done`")
        .json_content::<TransferJson<'_>>(JSON)
        .response_header("Location", "URL of the transfer")
        .response_header("ETag", "Revision")
        .response(StatusCode::OK, "Dry run: the transfer as it would be")
        .json_content::<TransferJson<'_>>(JSON);
    PathSpec::readable(get).with_method(HttpMethod::Post, post)
}

pub(crate) fn describe_one() -> PathSpec {
    let get = with_common_responses(OperationSpec::new("Get a transfer"))
        .path_param("id", "Transfer id", text_schema())
        .response(StatusCode::OK, "The transfer")
        .json_content::<TransferJson<'_>>(JSON)
        .response_header("ETag", "Revision")
        .response(StatusCode::NOT_MODIFIED, "Not modified (`If-None-Match`)");
    PathSpec::readable(get.problem(StatusCode::NOT_FOUND, "Transfer not found, or not yours"))
}

pub(crate) fn describe_accept() -> PathSpec {
    describe_decision("Accept a transfer")
}

pub(crate) fn describe_decline() -> PathSpec {
    describe_decision("Decline or withdraw a transfer")
}

fn describe_decision(summary: &str) -> PathSpec {
    let post = with_write_responses(OperationSpec::new(summary))
        .path_param("id", "Transfer id", text_schema())
        .response(StatusCode::OK, "The updated transfer")
        .json_content::<TransferJson<'_>>(JSON)
        .response_header("ETag", "Revision");
    PathSpec::single(HttpMethod::Post, post)
}
