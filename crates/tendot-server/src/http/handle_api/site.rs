//! `/api/site`: site record of this server.

use http::{Method, StatusCode};
use utoipa::openapi::HttpMethod;

use crate::http::HttpServer;
use crate::http::handle_api::handles::{JSON, with_error};
use crate::http::handle_api::reply_body::{HandleBody, JsonOptions, json_reply, protocol_error};
use crate::http::request::query::QueryParams;
use crate::http::request::request_head::RequestHead;
use crate::http::response::errors::ErrorFormat;
use crate::http::response::reply::Reply;
use crate::http::routing::operation_spec::{OperationSpec, PathSpec, text_schema};

impl HttpServer {
    /// Handles `GET /api/site`; not found if the native protocol is disabled.
    pub(crate) async fn get_site(&self, request: &RequestHead<'_>) -> Reply {
        let Some(native) = &self.native_server else {
            return ErrorFormat::HandleJson.unknown_endpoint(&Method::GET, "/api/site");
        };
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
    let post = get_spec().description("Same as GET, for clients that only send POST.");
    let post = with_error(post, StatusCode::REQUEST_TIMEOUT, "Timeout while reading the body");
    let post = with_error(post, StatusCode::PAYLOAD_TOO_LARGE, "Body too large");
    PathSpec::readable(get).with_method(HttpMethod::Post, post)
}

fn get_spec() -> OperationSpec {
    let spec = OperationSpec::new("Get the site record")
        .tag("Operations")
        .query_param("pretty", "Pretty-print the JSON", text_schema())
        .query_param("callback", "JSONP callback function", text_schema())
        .response(StatusCode::OK, "Addresses and keys (HS_SITE)")
        .json_content::<HandleBody<'_>>(JSON)
        .text_content("application/javascript");
    let spec = with_error(spec, StatusCode::BAD_REQUEST, "Malformed request");
    with_error(spec, StatusCode::NOT_FOUND, "Native protocol disabled")
}
