//! Endpoints of the registry API: one entry per path, with its handlers and its OpenAPI spec.

use tendot_registry::report::ReportKind;

use crate::http::api_v1::api_request::api_reply;
use crate::http::api_v1::parties::{agencies, prefixes, registrants, tokens, transfers};
use crate::http::api_v1::{batch, changes, dois, history, metadata, redactions, reports, sessions};
use crate::http::response::errors::ErrorFormat;
use crate::http::routing::endpoint::{Access, Api, ApiEndpoint, Handler, Operation};

/// Makes a handler from a method that takes an authenticated request and its body, and returns an `ApiResult`.
macro_rules! resource {
    (|$server:ident, $request:ident, $body:pat_param| $handled:expr) => {
        |$server, call| {
            Box::pin(async move {
                let head = call.head;
                let result = match $server.parse_api_request(call).await {
                    Ok(($request, $body)) => $handled.await,
                    Err(error) => Err(error),
                };
                api_reply(result, head.accepts_credentials)
            })
        }
    };
}

/// The registry API.
pub(in crate::http) static API: Api = Api {
    root: Some("/api/v1"),
    errors: ErrorFormat::Problem,
    endpoints: &[
        ApiEndpoint::new(
            &["/api/v1/metadata/{name}"],
            metadata::describe,
            &[Operation::get(resource!(|server, request, _| server.get_metadata(&request)))
                .access(Access::Optional)],
        ),
        ApiEndpoint::new(
            &["/api/v1/history/{name}"],
            history::describe,
            &[Operation::get(resource!(|server, request, _| server.get_history(&request)))
                .access(Access::Optional)],
        ),
        ApiEndpoint::new(
            &["/api/v1/agencies"],
            agencies::describe,
            &[
                read(resource!(|server, request, _| server.list_agencies(&request))),
                Operation::post(resource!(|server, request, body| server.create_agency(&request, body))),
            ],
        ),
        ApiEndpoint::new(
            &["/api/v1/agencies/{code}"],
            agencies::describe_one,
            &[
                read(resource!(|server, request, _| server.get_agency(&request))),
                Operation::put(resource!(|server, request, body| server.update_agency(&request, body))),
            ],
        ),
        ApiEndpoint::new(
            &["/api/v1/registrants"],
            registrants::describe,
            &[
                read(resource!(|server, request, _| server.list_registrants(&request))),
                Operation::post(resource!(|server, request, body| server.create_registrant(&request, body))),
            ],
        ),
        ApiEndpoint::new(
            &["/api/v1/registrants/{id}"],
            registrants::describe_one,
            &[
                read(resource!(|server, request, _| server.get_registrant(&request))),
                Operation::put(resource!(|server, request, body| server.update_registrant(&request, body))),
            ],
        ),
        ApiEndpoint::new(
            &["/api/v1/prefixes"],
            prefixes::describe,
            &[
                read(resource!(|server, request, _| server.list_allocated_prefixes(&request))),
                Operation::post(resource!(|server, request, body| server.allocate_prefix(&request, body))),
            ],
        ),
        ApiEndpoint::new(
            &["/api/v1/prefixes/{prefix}"],
            prefixes::describe_one,
            &[
                read(resource!(|server, request, _| server.get_prefix(&request))),
                Operation::put(resource!(|server, request, body| server.update_prefix(&request, body))),
            ],
        ),
        ApiEndpoint::new(
            &["/api/v1/dois"],
            dois::describe,
            &[
                read(resource!(|server, request, _| server.list_dois(&request))),
                Operation::post(resource!(|server, request, body| server.register_doi(&request, body))),
            ],
        ),
        ApiEndpoint::new(
            &["/api/v1/dois/{name}"],
            dois::describe_one,
            &[
                read(resource!(|server, request, _| server.get_doi(&request))),
                Operation::put(resource!(|server, request, body| server.update_doi(&request, body))),
                Operation::delete(resource!(|server, request, _| server.retire_doi(&request))),
            ],
        ),
        ApiEndpoint::new(
            &["/api/v1/dois/batch"],
            batch::endpoint::describe,
            &[Operation::post(resource!(|server, request, body| server.post_batch(request, body)))],
        ),
        ApiEndpoint::new(
            &["/api/v1/redactions"],
            redactions::describe,
            &[Operation::post(resource!(|server, request, body| server.redact_doi(&request, body)))],
        ),
        ApiEndpoint::new(
            &["/api/v1/tokens"],
            tokens::describe,
            &[
                private_read(resource!(|server, request, _| server.list_tokens(&request))),
                Operation::post(resource!(|server, request, body| server.create_token(&request, body))),
            ],
        ),
        ApiEndpoint::new(
            &["/api/v1/tokens/{id}"],
            tokens::describe_one,
            &[Operation::delete(resource!(|server, request, _| server.revoke_token(&request)))],
        ),
        ApiEndpoint::new(
            &["/api/v1/sessions"],
            sessions::describe,
            &[private_read(resource!(|server, request, _| server.list_sessions(&request)))],
        ),
        ApiEndpoint::new(
            &["/api/v1/sessions/{id}"],
            sessions::describe_one,
            &[Operation::delete(resource!(|server, request, _| server.end_session(&request)))],
        ),
        ApiEndpoint::new(
            &["/api/v1/transfers"],
            transfers::describe,
            &[
                private_read(resource!(|server, request, _| server.list_transfers(&request))),
                Operation::post(resource!(|server, request, body| server.propose_transfer(&request, body))),
            ],
        ),
        ApiEndpoint::new(
            &["/api/v1/transfers/{id}"],
            transfers::describe_one,
            &[private_read(resource!(|server, request, _| server.get_transfer(&request)))],
        ),
        ApiEndpoint::new(
            &["/api/v1/transfers/{id}/accept"],
            transfers::describe_accept,
            &[Operation::post(resource!(|server, request, _| server.decide_transfer(&request, true)))],
        ),
        ApiEndpoint::new(
            &["/api/v1/transfers/{id}/decline"],
            transfers::describe_decline,
            &[Operation::post(resource!(|server, request, _| server.decide_transfer(&request, false)))],
        ),
        ApiEndpoint::new(
            &["/api/v1/reports/{prefix}"],
            reports::describe_summary,
            &[private_read(resource!(|server, request, _| server.get_report_summary(&request)))],
        ),
        ApiEndpoint::new(
            &["/api/v1/reports/{prefix}/resolved"],
            || reports::describe(ReportKind::Resolved),
            &[private_read(resource!(|server, request, _| server.get_report(ReportKind::Resolved, request)))],
        ),
        ApiEndpoint::new(
            &["/api/v1/reports/{prefix}/never-resolved"],
            || reports::describe(ReportKind::NeverResolved),
            &[private_read(resource!(|server, request, _| {
                server.get_report(ReportKind::NeverResolved, request)
            }))],
        ),
        ApiEndpoint::new(
            &["/api/v1/reports/{prefix}/failed-resolutions"],
            || reports::describe(ReportKind::FailedResolutions),
            &[private_read(resource!(|server, request, _| {
                server.get_report(ReportKind::FailedResolutions, request)
            }))],
        ),
        ApiEndpoint::new(
            &["/api/v1/reports/{prefix}/invalid-links"],
            || reports::describe(ReportKind::Links),
            &[private_read(resource!(|server, request, _| server.get_report(ReportKind::Links, request)))],
        ),
        ApiEndpoint::new(
            &["/api/v1/reports/{prefix}/confusable-names"],
            || reports::describe(ReportKind::Confusable),
            &[private_read(resource!(|server, request, _| {
                server.get_report(ReportKind::Confusable, request)
            }))],
        ),
        ApiEndpoint::new(
            &["/api/v1/changes"],
            changes::endpoint::describe,
            &[Operation::get(resource!(|server, request, _| server.get_changes(request)))
                .access(Access::Optional)],
        ),
    ],
};

/// Read of the newest data, with or without a token.
const fn read(handler: Handler) -> Operation {
    Operation::get(handler).access(Access::Optional).consistent()
}

/// Read of the newest data with a token.
const fn private_read(handler: Handler) -> Operation {
    read(handler).access(Access::Authenticated)
}
