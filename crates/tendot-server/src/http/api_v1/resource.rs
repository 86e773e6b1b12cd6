//! Resources of the registry API: methods, OpenAPI spec, and dispatch to the handlers.

use std::time::SystemTime;

use http::{Method, StatusCode};
use hyper::body::Incoming;
use tendot_registry::report::ReportKind;

use crate::clock::to_unix_millis;
use crate::http::api_v1::api_request::{ApiError, ApiRequest, ApiResult, malformed};
use crate::http::api_v1::{batch, dois, parties, reports};
use crate::http::request::percent;
use crate::http::request::query::QueryParams;
use crate::http::request::request_head::RequestHead;
use crate::http::response::codes;
use crate::http::response::reply::Reply;
use crate::http::routing::operation_spec::PathSpec;
use crate::http::{HttpServer, pages};

/// Resource of the registry API.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::http) enum Resource {
    Agencies,
    Agency,
    Registrants,
    Registrant,
    Prefixes,
    Prefix,
    Tokens,
    Token,
    Dois,
    Batch,
    Doi,
    Transfers,
    Transfer,
    AcceptTransfer,
    DeclineTransfer,
    ReportSummary,
    Report(ReportKind),
}

impl Resource {
    /// Allowed methods.
    pub(in crate::http) const fn methods(self) -> &'static str {
        match self {
            Self::Agencies
            | Self::Registrants
            | Self::Prefixes
            | Self::Tokens
            | Self::Dois
            | Self::Transfers => "GET, HEAD, OPTIONS, POST",
            Self::Agency | Self::Registrant | Self::Prefix => "GET, HEAD, OPTIONS, PUT",
            Self::Doi => "GET, HEAD, OPTIONS, PUT, DELETE",
            Self::Token => "OPTIONS, DELETE",
            Self::Transfer | Self::ReportSummary | Self::Report(_) => "GET, HEAD, OPTIONS",
            Self::Batch | Self::AcceptTransfer | Self::DeclineTransfer => "OPTIONS, POST",
        }
    }

    pub(in crate::http) fn describe(self) -> PathSpec {
        match self {
            Self::Agencies => parties::agencies::describe(),
            Self::Agency => parties::agencies::describe_one(),
            Self::Registrants => parties::registrants::describe(),
            Self::Registrant => parties::registrants::describe_one(),
            Self::Prefixes => parties::prefixes::describe(),
            Self::Prefix => parties::prefixes::describe_one(),
            Self::Tokens => parties::tokens::describe(),
            Self::Token => parties::tokens::describe_one(),
            Self::Dois => dois::describe(),
            Self::Batch => batch::endpoint::describe(),
            Self::Doi => dois::describe_one(),
            Self::Transfers => parties::transfers::describe(),
            Self::Transfer => parties::transfers::describe_one(),
            Self::AcceptTransfer => parties::transfers::describe_decision(true),
            Self::DeclineTransfer => parties::transfers::describe_decision(false),
            Self::ReportSummary => reports::describe_summary(),
            Self::Report(report) => reports::describe(report),
        }
    }
}

impl HttpServer {
    /// Handles a request to the registry API.
    pub(in crate::http) async fn serve_api_v1(
        &self,
        resource: Resource,
        method: &Method,
        path_param: &str,
        body: Incoming,
        request: &RequestHead<'_>,
        now: SystemTime,
    ) -> Reply {
        let result = self.dispatch_api_v1(resource, method, path_param, body, request, now).await;
        match result.map_err(|error| *error) {
            Ok(reply) => reply,
            Err(ApiError::Reply(reply)) => reply,
            Err(ApiError::Problem(problem)) => problem.into(),
        }
    }

    async fn dispatch_api_v1(
        &self,
        resource: Resource,
        method: &Method,
        path_param: &str,
        body: Incoming,
        request: &RequestHead<'_>,
        now: SystemTime,
    ) -> ApiResult {
        let path_param =
            percent::decode_text(path_param, "path").map_err(|error| malformed(&error.to_string()))?;
        let parameters = QueryParams::parse(request.query).map_err(|error| malformed(&error.to_string()))?;
        let caller = self.authenticate(request).await.map_err(|error| {
            Box::new(ApiError::Reply(pages::problem_of_caller(error, request.accepts_credentials)))
        })?;
        let api_request = ApiRequest {
            head: request,
            caller,
            now_ms: to_unix_millis(now),
            path_param: path_param.into_owned(),
            parameters,
        };
        let is_read = *method == Method::GET || *method == Method::HEAD;
        let result = match (resource, is_read) {
            (Resource::Agencies, true) => self.list_agencies(&api_request).await,
            (Resource::Agencies, false) => self.create_agency(&api_request, body).await,
            (Resource::Agency, true) => self.get_agency(&api_request).await,
            (Resource::Agency, false) => self.update_agency(&api_request, body).await,
            (Resource::Registrants, true) => self.list_registrants(&api_request).await,
            (Resource::Registrants, false) => self.create_registrant(&api_request, body).await,
            (Resource::Registrant, true) => self.get_registrant(&api_request).await,
            (Resource::Registrant, false) => self.update_registrant(&api_request, body).await,
            (Resource::Prefixes, true) => self.list_allocated_prefixes(&api_request).await,
            (Resource::Prefixes, false) => self.allocate_prefix(&api_request, body).await,
            (Resource::Prefix, true) => self.get_prefix(&api_request).await,
            (Resource::Prefix, false) => self.update_prefix(&api_request, body).await,
            (Resource::Tokens, true) => self.list_tokens(&api_request).await,
            (Resource::Tokens, false) => self.create_token(&api_request, body).await,
            (Resource::Token, _) => self.revoke_token(&api_request).await,
            (Resource::Dois, true) => self.list_dois(&api_request).await,
            (Resource::Dois, false) => self.register_doi(&api_request, body).await,
            (Resource::Batch, _) => self.post_batch(api_request, body).await,
            (Resource::Doi, true) => self.get_doi(&api_request).await,
            (Resource::Doi, false) if *method == Method::PUT => self.update_doi(&api_request, body).await,
            (Resource::Doi, false) => self.retire_doi(&api_request).await,
            (Resource::Transfers, true) => self.list_transfers(&api_request).await,
            (Resource::Transfers, false) => self.propose_transfer(&api_request, body).await,
            (Resource::Transfer, _) => self.get_transfer(&api_request).await,
            (Resource::AcceptTransfer, _) => self.decide_transfer(&api_request, true).await,
            (Resource::DeclineTransfer, _) => self.decide_transfer(&api_request, false).await,
            (Resource::ReportSummary, _) => self.get_report_summary(&api_request).await,
            (Resource::Report(report), _) => self.get_report(report, api_request).await,
        };
        // Credentials that are not accepted on this connection were not examined: 403 instead of 401.
        result.map_err(|error| match *error {
            ApiError::Problem(problem)
                if problem.status() == StatusCode::UNAUTHORIZED && !request.accepts_credentials =>
            {
                problem.with_status(StatusCode::FORBIDDEN).with_code(codes::INSECURE_TRANSPORT).into()
            }
            error => Box::new(error),
        })
    }
}
