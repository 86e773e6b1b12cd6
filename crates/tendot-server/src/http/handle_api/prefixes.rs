//! `/api/prefixes`: list, home and unhome prefixes.

use http::StatusCode;
use tendot_proto::Handle;
use tendot_registry::HandleWrite;
use utoipa::openapi::HttpMethod;

use crate::http::HttpServer;
use crate::http::handle_api::handle_list::{describe_errors, describe_part};
use crate::http::handle_api::handles::JSON;
use crate::http::handle_api::reply_body::{HandleBody, protocol_error};
use crate::http::request::name_path::parse_name_and_query;
use crate::http::request::request_head::RequestHead;
use crate::http::response::reply::Reply;
use crate::http::routing::operation_spec::{OperationSpec, PathSpec, text_schema};

impl HttpServer {
    /// Handles `POST /api/prefixes/{prefix}`: homes a prefix, which may also be in the query.
    pub(crate) async fn home_prefix(&self, path: &str, request: &RequestHead<'_>) -> Reply {
        self.write_prefix(path, request, |prefix| HandleWrite::Home { prefix }).await
    }

    /// Handles `DELETE /api/prefixes/{prefix}`: unhomes a prefix.
    pub(crate) async fn unhome_prefix(&self, path: &str, request: &RequestHead<'_>) -> Reply {
        self.write_prefix(path, request, |prefix| HandleWrite::Unhome { prefix }).await
    }

    async fn write_prefix(
        &self,
        path: &str,
        request: &RequestHead<'_>,
        to_write: fn(Handle<'_>) -> HandleWrite<'_>,
    ) -> Reply {
        let (name, parameters) = match parse_name_and_query(path, request) {
            Ok(read) => read,
            Err(error) => return protocol_error(&error.to_string()),
        };
        let name = if name.is_empty() { parameters.get("prefix").unwrap_or_default() } else { &*name };
        if name.is_empty() {
            return protocol_error("missing prefix");
        }
        self.execute_write(name, &to_write(Handle::from(name)), &parameters, request).await
    }
}

fn with_write_responses(spec: OperationSpec) -> OperationSpec {
    let spec = spec
        .tag("Handle API")
        .query_param("pretty", "Pretty-print the JSON", text_schema())
        .query_param("callback", "JSONP callback function", text_schema())
        .response(StatusCode::OK, "Done")
        .json_content::<HandleBody<'_>>(JSON)
        .text_content("application/javascript");
    describe_errors(spec)
}

const HOME_SUMMARY: &str = "Home a prefix";
const UNHOME_SUMMARY: &str = "Unhome a prefix; records are kept";

/// OpenAPI spec of `/api/prefixes`.
pub(crate) fn describe() -> PathSpec {
    let named = |summary| {
        with_write_responses(OperationSpec::new(summary).query_param("prefix", "Prefix", text_schema()))
    };
    let list = describe_part(OperationSpec::new("List homed prefixes"))
        .example_command("curl -s \"$SERVER/api/prefixes?pretty\" -H \"Authorization: Bearer $TOKEN\"");
    PathSpec::readable(list)
        .with_method(HttpMethod::Post, named(HOME_SUMMARY))
        .with_method(HttpMethod::Delete, named(UNHOME_SUMMARY))
}

/// OpenAPI spec of `/api/prefixes/{prefix}`.
pub(crate) fn describe_one() -> PathSpec {
    let named = |summary| {
        with_write_responses(OperationSpec::new(summary).path_param(
            "prefix",
            "Prefix, `0.NA/10.5555` or `10.5555`",
            text_schema(),
        ))
    };
    let home = "curl -s -X POST $SERVER/api/prefixes/0.NA/10.5556 -H \"Authorization: Bearer $TOKEN\"";
    let unhome = "curl -s -X DELETE $SERVER/api/prefixes/0.NA/10.5556 -H \"Authorization: Bearer $TOKEN\"";
    PathSpec::single(HttpMethod::Post, named(HOME_SUMMARY).example_command(home))
        .with_method(HttpMethod::Delete, named(UNHOME_SUMMARY).example_command(unhome))
}
