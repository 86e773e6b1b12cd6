//! `/api/v1/transfers`.

use http::StatusCode;
use hyper::body::Incoming;
use serde::{Deserialize, Serialize};
use tendot_registry::party::Held;
use tendot_registry::transfer::{ProposeTransfer, Transfer, DecideTransfer, TransferListItem, TransferState, What};
use utoipa::openapi::{HttpMethod, Required};

use super::form::{NewTransferForm, TransferForm, TransferListForm};
use super::{
    ApiResult, Asking, JSON, bad_request, common, created, date, listed, pages, random, shown, work, writes,
    wrong,
};
use crate::http::Http;
use crate::http::describe::{Described, Doing, text};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Form {
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

/// A transfer as it is told.
#[derive(Serialize)]
struct TransferJson<'a> {
    id: &'a str,
    #[serde(flatten)]
    what: &'a What,
    /// How many names there are, where not all of them are told.
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

impl<'a> TransferJson<'a> {
    fn of(transfer: &'a Transfer) -> Self {
        Self {
            id: &transfer.id,
            what: &transfer.what,
            count: None,
            from: &transfer.from,
            to: &transfer.to,
            state: transfer.state,
            proposed: date(transfer.proposed),
            by: &transfer.by,
            decided: transfer.decided.map(date),
        }
    }
}

impl Http {
    pub(super) async fn list_transfers(&self, asking: &Asking<'_>) -> ApiResult {
        let (after, limit) = asking.page()?;
        let (items, next) =
            self.registry.transfers(after, limit, &asking.caller, asking.at, &mut work()).await?;
        let told = items.iter().map(|TransferListItem { transfer, count }| TransferJson {
            count: *count,
            ..TransferJson::of(transfer)
        });
        Ok(listed(told.collect(), next))
    }

    pub(super) async fn propose_transfer(&self, asking: &Asking<'_>, body: Incoming) -> ApiResult {
        let form: Form = self.form(body).await?;
        let what = match (form.names, form.prefix, form.agency) {
            (Some(names), None, None) => What::Names(names),
            (None, Some(prefix), None) => What::Prefix(prefix),
            (None, None, Some(code)) => What::Agency(code),
            _ => return Err(bad_request("a transfer is of `names`, a `prefix` or an `agency`, one of them")),
        };
        let task = ProposeTransfer { what, to: form.to, force: form.force, random: random()? };
        let carried = self.registry.carry_out(&task, &asking.caller, asking.at, &mut work()).await?;
        let path = format!("/api/v1/transfers/{}", carried.done.id);
        Ok(created(&TransferJson::of(&carried.done), carried.revision, &path, asking.request.headers))
    }

    pub(super) async fn get_transfer(&self, asking: &Asking<'_>) -> ApiResult {
        let found = self.registry.transfer(&asking.rest, &asking.caller, asking.at, &mut work()).await?;
        let Held { it, revision } = found;
        Ok(shown(&TransferJson::of(&it), revision, asking))
    }

    pub(super) async fn decide_transfer(&self, asking: &Asking<'_>, accept: bool) -> ApiResult {
        let task = DecideTransfer { id: asking.rest.as_str().into(), accept };
        self.registry.carry_out(&task, &asking.caller, asking.at, &mut work()).await?;
        self.get_transfer(asking).await
    }
}

pub(super) fn describe() -> Described {
    let get = pages(common(Doing::new("Transfers in which who asks gives or receives"), true))
        .about("Of each the first ten names and their `count`. There may be fewer transfers than were asked for, and yet more: `next` tells.")
        .answer(StatusCode::OK, "The transfers, by their ids")
        .json::<TransferListForm>(JSON);
    let post = writes(Doing::new("Proposes a transfer"))
        .about(
            "Names or a prefix to another registrant, or all of an agency to another agency, which ends the first. It is \
             done when who is to receive accepts it, or at once if the operator forces it. Names stay as they are.",
        )
        .body::<NewTransferForm>(JSON, "What, and to whom", Required::True)
        .answer(StatusCode::CREATED, "The transfer, `proposed` or `done`")
        .json::<TransferForm>(JSON)
        .header("Location", "Where it is")
        .header("ETag", "Its revision");
    Described::read(get).and(HttpMethod::Post, post)
}

pub(super) fn describe_one() -> Described {
    let get = common(Doing::new("A transfer"), true)
        .in_path("id", "The id of a transfer", text())
        .answer(StatusCode::OK, "The transfer")
        .json::<TransferForm>(JSON)
        .header("ETag", "Its revision")
        .answer(StatusCode::NOT_MODIFIED, "The client has it already (`If-None-Match`)");
    Described::read(wrong(get, StatusCode::NOT_FOUND, "There is no such transfer, or it is not of who asks"))
}

pub(super) fn describe_decision(accept: bool) -> Described {
    let summary = if accept { "Accepts a transfer" } else { "Declines a transfer, or takes it back" };
    let post = writes(Doing::new(summary))
        .in_path("id", "The id of a transfer", text())
        .answer(StatusCode::OK, "The transfer as it is now")
        .json::<TransferForm>(JSON)
        .header("ETag", "Its revision");
    Described::only(HttpMethod::Post, post)
}
