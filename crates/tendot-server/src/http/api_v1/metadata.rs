//! `/api/v1/metadata/{name}`: metadata of a name, in any format.

use std::time::SystemTime;

use http::StatusCode;
use tendot_proto::Budget;
use tendot_registry::metadata::MetadataFormat;
use tendot_registry::{Caller, Error};
use utoipa::openapi::{ObjectBuilder, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::http::pages::{self, ProblemJson};
use crate::http::request::accept::metadata_media_types;
use crate::http::request::percent;
use crate::http::request::query::QueryParams;
use crate::http::request::request_head::RequestHead;
use crate::http::resolve::metadata::{
    METADATA_FORMATS, MetadataPreference, metadata_only, metadata_reply, not_acceptable,
};
use crate::http::response::reply::Reply;
use crate::http::response::{caching, codes};
use crate::http::routing::operation_spec::{OperationSpec, PathSpec, enum_schema, text_schema};
use crate::http::{HttpServer, REQUEST_BUDGET};

/// Schema only: metadata as JSON.
pub(crate) struct MetadataSchema;

impl PartialSchema for MetadataSchema {
    fn schema() -> RefOr<Schema> {
        let about = "Metadata. Kernel elements have their XML names; repeatable elements are arrays.";
        ObjectBuilder::new().description(Some(about)).into()
    }
}

impl ToSchema for MetadataSchema {
    fn name() -> std::borrow::Cow<'static, str> {
        "Metadata".into()
    }
}

/// Adds responses with metadata of all types to an OpenAPI spec.
pub(crate) fn describe_types(spec: OperationSpec, is_described: impl Fn(&str) -> bool) -> OperationSpec {
    let types = metadata_media_types().filter(|(_, media_type)| is_described(media_type));
    types.fold(spec, |spec, (_, media_type)| {
        let is_json = media_type.ends_with("json");
        if is_json { spec.json_content::<MetadataSchema>(media_type) } else { spec.text_content(media_type) }
    })
}

impl HttpServer {
    /// Handles `GET /api/v1/metadata/{name}`; `path` is the name, not decoded yet.
    pub(crate) async fn get_metadata(&self, path: &str, request: &RequestHead<'_>, now: SystemTime) -> Reply {
        let parsed = percent::decode_text(path, "path")
            .and_then(|name| Ok((name, QueryParams::parse(request.query)?)))
            .map_err(|error| error.to_string());
        let (name, parameters) = match parsed {
            Ok(parsed) => parsed,
            Err(reason) => return pages::problem_of_request(&reason),
        };
        let preference = match parameters.get("format").map(format_by_name) {
            Some(Some(format)) => {
                MetadataPreference::Format(format, format.media_types().first().copied().unwrap_or_default())
            }
            Some(None) => return pages::problem_of_request("unknown `format`"),
            None => metadata_only(request.headers),
        };
        let caller = match self.authenticate(request).await {
            Ok(caller) => caller,
            Err(error) => return pages::problem_of_caller(error, request.accepts_credentials),
        };
        let found = self.registration(&name, &caller, now, &mut Budget::new(REQUEST_BUDGET)).await;
        let registered = match found {
            Ok(Some(registered)) => registered,
            Ok(None) => return pages::problem_of_name(&name, &Error::NotFound),
            Err(error) => {
                if let Error::Store(error) = &error {
                    tracing::error!(%error, "store error");
                }
                return pages::problem_of_name(&name, &error);
            }
        };
        if registered.metadata.is_none() {
            let detail = format!("`{}` has no metadata.", registered.name);
            return pages::problem(StatusCode::NOT_FOUND, codes::NO_METADATA, detail).into();
        }
        let MetadataPreference::Format(format, media_type) = preference else { return not_acceptable(&name) };
        match registered.metadata_in(format) {
            Some(text) => {
                let mut response = metadata_reply(text, media_type, request.headers);
                if caller != Caller::Anonymous {
                    caching::set_private_no_store(response.headers_mut());
                }
                response
            }
            None => {
                tracing::error!(name = %registered.name, "stored metadata is unreadable");
                let detail = "The stored metadata is unreadable.";
                pages::problem(StatusCode::INTERNAL_SERVER_ERROR, codes::STORE_FAILED, detail).into()
            }
        }
    }
}

fn format_by_name(name: &str) -> Option<MetadataFormat> {
    METADATA_FORMATS.iter().find(|(format_name, ..)| *format_name == name).map(|(.., format)| *format)
}

/// OpenAPI spec of `/api/v1/metadata/{name}`.
pub(crate) fn describe() -> PathSpec {
    let problem = |spec: OperationSpec, status, about: &str| {
        spec.response(status, about).json_content::<ProblemJson<'_>>("application/problem+json")
    };
    let names: Vec<String> = METADATA_FORMATS.iter().map(|(name, ..)| format!("`{name}`")).collect();
    let spec = OperationSpec::new("Get the metadata of a name")
        .description(
            "In the format selected by `Accept`: kernel metadata as JSON or XML, or a format derived from it. Retired names \
             keep their metadata. `GET /{name}` returns the same if `Accept` prefers it to HTML.",
        )
        .tag("Resolution")
        .path_param("name", "Name; slashes may be literal or percent-encoded", text_schema())
        .query_param("format", &format!("Format, overriding `Accept`: {}", names.join(", ")), enum_schema(METADATA_FORMATS.iter().map(|(name, ..)| *name)))
        .security(false)
        .response(StatusCode::OK, "The metadata")
        .response_header("ETag", "Entity tag");
    let spec = describe_types(spec, |_| true);
    let spec = spec.response(StatusCode::NOT_MODIFIED, "Not modified (`If-None-Match`)");
    let spec = problem(spec, StatusCode::BAD_REQUEST, "Malformed request, or invalid name");
    let spec = problem(spec, StatusCode::UNAUTHORIZED, "Authentication failed")
        .response_header("WWW-Authenticate", "Supported authentication schemes");
    let spec = problem(spec, StatusCode::FORBIDDEN, "Credentials not accepted on this connection");
    let spec = problem(spec, StatusCode::NOT_FOUND, "Name not found, or no metadata");
    let spec = problem(spec, StatusCode::NOT_ACCEPTABLE, "No format matches `Accept`");
    let spec = problem(spec, StatusCode::INTERNAL_SERVER_ERROR, "Store error");
    PathSpec::readable(problem(spec, StatusCode::SERVICE_UNAVAILABLE, "Server busy"))
}
