//! `/api/site`: who we are.

use http::{Method, StatusCode};
use utoipa::openapi::HttpMethod;

use super::body::{HandleBody, JsonOptions, json_reply, protocol_error};
use super::handles::{JSON, with_error};
use crate::http::answer::Reply;
use crate::http::describe::{OperationSpec, PathSpec, text_schema};
use crate::http::parameters::QueryParams;
use crate::http::request::RequestHead;
use crate::http::{HttpServer, api};

impl HttpServer {
    /// Answers `GET /api/site`; without the native protocol there is none.
    pub(crate) fn get_site(&self, request: &RequestHead<'_>) -> Reply {
        let Some(native) = &self.native else { return api::unknown_endpoint(&Method::GET, "/api/site") };
        match QueryParams::parse(request.query) {
            Ok(parameters) => json_reply(
                StatusCode::OK,
                &HandleBody::for_site(native.site().site()),
                &JsonOptions::from_query(&parameters),
            ),
            Err(error) => protocol_error(&error.to_string()),
        }
    }
}

pub(crate) fn describe() -> PathSpec {
    let get = get_spec().example_command("curl -s \"$SERVER/api/site?pretty\"");
    let post = get_spec().description("As GET, for clients that can do no other.");
    let post = with_error(post, StatusCode::REQUEST_TIMEOUT, "The body did not come in time");
    let post = with_error(post, StatusCode::PAYLOAD_TOO_LARGE, "The body is too large");
    PathSpec::readable(get).with_method(HttpMethod::Post, post)
}

fn get_spec() -> OperationSpec {
    let doing = OperationSpec::new("Who this service is in the Handle System")
        .tag("Operation")
        .query_param("pretty", "On several lines", text_schema())
        .query_param("callback", "A function that a script calls with it", text_schema())
        .response(StatusCode::OK, "Its addresses and keys, as HS_SITE has them")
        .json_content::<HandleBody<'_>>(JSON)
        .text_content("application/javascript");
    let doing = with_error(doing, StatusCode::BAD_REQUEST, "Not understood");
    with_error(doing, StatusCode::NOT_FOUND, "It does not speak the native protocol")
}
