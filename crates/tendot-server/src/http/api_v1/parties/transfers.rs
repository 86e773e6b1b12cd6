//! Transfers: `/api/v1/transfers`.

use http::StatusCode;
use hyper::body::Incoming;
use serde::{Deserialize, Serialize};
use tendot_registry::party::Versioned;
use tendot_registry::transfer::{
    DecideTransfer, ProposeTransfer, Transfer, TransferListItem, TransferState, TransferSubject,
};
use utoipa::openapi::{HttpMethod, Required};

use crate::http::HttpServer;
use crate::http::api_v1::schemas::{NewTransferForm, TransferForm, TransferListForm};
use crate::http::api_v1::{
    ApiRequest, ApiResult, JSON, created_reply, format_millis, json_reply, list_reply, malformed, random,
    request_budget, with_common_responses, with_paging, with_problem, with_write_responses,
};
use crate::http::routing::operation_spec::{OperationSpec, PathSpec, text_schema};

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

/// Transfer in responses.
#[derive(Serialize)]
struct TransferJson<'a> {
    id: &'a str,
    #[serde(flatten)]
    what: &'a TransferSubject,
    /// Number of names, where not all of them are listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<usize>,
    from: &'a [Box<str>],
    to: &'a str,
    state: TransferState,
    proposed: String,
    by: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    decided: Option<String>,
}

impl<'a> From<&'a Transfer> for TransferJson<'a> {
    fn from(transfer: &'a Transfer) -> Self {
        Self {
            id: &transfer.id,
            what: &transfer.subject,
            count: None,
            from: &transfer.from,
            to: &transfer.to,
            state: transfer.state,
            proposed: format_millis(transfer.proposed_ms),
            by: &transfer.proposed_by,
            decided: transfer.decided_ms.map(format_millis),
        }
    }
}

impl HttpServer {
    pub(crate) async fn list_transfers(&self, request: &ApiRequest<'_>) -> ApiResult {
        let (after, limit) = request.page_params()?;
        let (items, next) = self
            .registry
            .list_transfers(after, limit, &request.caller, request.now_ms, &mut request_budget())
            .await?;
        let transfers = items.iter().map(|TransferListItem { transfer, count }| TransferJson {
            count: *count,
            ..TransferJson::from(transfer)
        });
        Ok(list_reply(transfers.collect(), next))
    }

    pub(crate) async fn propose_transfer(&self, request: &ApiRequest<'_>, body: Incoming) -> ApiResult {
        let form: NewTransferJson = self.read_json(body).await?;
        let what = match (form.names, form.prefix, form.agency) {
            (Some(names), None, None) => TransferSubject::Names(names),
            (None, Some(prefix), None) => TransferSubject::Prefix(prefix),
            (None, None, Some(code)) => TransferSubject::Agency(code),
            _ => return Err(malformed("give exactly one of `names`, `prefix`, `agency`")),
        };
        let task = ProposeTransfer { subject: what, to: form.to, force: form.force, random_bytes: random()? };
        let carried =
            self.registry.execute(&task, &request.caller, request.now_ms, &mut request_budget()).await?;
        let path = format!("/api/v1/transfers/{}", carried.output.id);
        Ok(created_reply(&TransferJson::from(&carried.output), carried.revision, &path, request.head.headers))
    }

    pub(crate) async fn get_transfer(&self, request: &ApiRequest<'_>) -> ApiResult {
        let found = self
            .registry
            .get_transfer(&request.path_param, &request.caller, request.now_ms, &mut request_budget())
            .await?;
        let Versioned { value: it, revision } = found;
        Ok(json_reply(&TransferJson::from(&it), revision, request))
    }

    pub(crate) async fn decide_transfer(&self, request: &ApiRequest<'_>, accept: bool) -> ApiResult {
        let task = DecideTransfer { id: request.path_param.as_str().into(), accept };
        self.registry.execute(&task, &request.caller, request.now_ms, &mut request_budget()).await?;
        self.get_transfer(request).await
    }
}

pub(crate) fn describe() -> PathSpec {
    let get = with_paging(with_common_responses(OperationSpec::new("Transfers in which who asks gives or receives"), true))
        .description("Of each the first ten names and their `count`. There may be fewer transfers than were asked for, and yet more: `next` tells.")
        .response(StatusCode::OK, "The transfers, by their ids")
        .json_content::<TransferListForm>(JSON);
    let post = with_write_responses(OperationSpec::new("Proposes a transfer"))
        .description(
            "Names or a prefix to another registrant, or all of an agency to another agency, which ends the first. It is \
             done when who is to receive accepts it, or at once if the operator forces it. Names stay as they are.",
        )
        .request_body::<NewTransferForm>(JSON, "What, and to whom", Required::True)
        .response(StatusCode::CREATED, "The transfer, `proposed` or `done`")
        .json_content::<TransferForm>(JSON)
        .response_header("Location", "Where it is")
        .response_header("ETag", "Its revision");
    PathSpec::readable(get).with_method(HttpMethod::Post, post)
}

pub(crate) fn describe_one() -> PathSpec {
    let get = with_common_responses(OperationSpec::new("A transfer"), true)
        .path_param("id", "The id of a transfer", text_schema())
        .response(StatusCode::OK, "The transfer")
        .json_content::<TransferForm>(JSON)
        .response_header("ETag", "Its revision")
        .response(StatusCode::NOT_MODIFIED, "The client has it already (`If-None-Match`)");
    PathSpec::readable(with_problem(
        get,
        StatusCode::NOT_FOUND,
        "There is no such transfer, or it is not of who asks",
    ))
}

pub(crate) fn describe_decision(accept: bool) -> PathSpec {
    let summary = if accept { "Accepts a transfer" } else { "Declines a transfer, or takes it back" };
    let post = with_write_responses(OperationSpec::new(summary))
        .path_param("id", "The id of a transfer", text_schema())
        .response(StatusCode::OK, "The transfer as it is now")
        .json_content::<TransferForm>(JSON)
        .response_header("ETag", "Its revision");
    PathSpec::single(HttpMethod::Post, post)
}
