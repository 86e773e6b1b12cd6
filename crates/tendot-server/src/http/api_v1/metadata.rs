//! `/api/v1/metadata/{name}`: metadata of a name, in any format.

use http::StatusCode;
use tendot_proto::Budget;
use tendot_registry::metadata::MetadataFormat;
use tendot_registry::{Caller, Error};
use utoipa::openapi::{ObjectBuilder, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::http::request::accept::metadata_media_types;
use crate::http::request::name_path::parse_name_and_query;
use crate::http::request::request_head::RequestHead;
use crate::http::resolve::metadata::{
    METADATA_FORMATS, MetadataPreference, metadata_only, metadata_reply, not_acceptable,
};
use crate::http::resolve::requested_name::RequestedName;
use crate::http::response::errors::{authentication_failed, lookup_failed, malformed_request};
use crate::http::response::problem::problem;
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
    pub(crate) async fn get_metadata(&self, path: &str, request: &RequestHead<'_>) -> Reply {
        let (name, parameters) = match parse_name_and_query(path, request) {
            Ok((name, parameters)) => (RequestedName::new(name), parameters),
            Err(error) => return malformed_request(&error.to_string()).into(),
        };
        let preference = match parameters.get("format").map(format_by_name) {
            Some(Some(format)) => {
                MetadataPreference::Format(format, format.media_types().first().copied().unwrap_or_default())
            }
            Some(None) => return malformed_request("unknown `format`").into(),
            None => metadata_only(request.headers),
        };
        let caller = match self.authenticator.authenticate(request).await {
            Ok(caller) => caller,
            Err(error) => return authentication_failed(error, request.accepts_credentials),
        };
        let budget = &mut Budget::new(REQUEST_BUDGET);
        let found = self.resolver.registration(name.as_str(), &caller, request.now, budget).await;
        let registered = match found {
            Ok(Some(registered)) => registered,
            Ok(None) => return lookup_failed(&name, &Error::NotFound),
            Err(error) => return lookup_failed(&name, &error),
        };
        if registered.metadata.is_none() {
            let detail = format!("`{}` has no metadata.", registered.name);
            return problem(StatusCode::NOT_FOUND, codes::NO_METADATA, detail).into();
        }
        let MetadataPreference::Format(format, media_type) = preference else {
            return not_acceptable(name.as_str());
        };
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
                problem(StatusCode::INTERNAL_SERVER_ERROR, codes::STORE_FAILED, detail).into()
            }
        }
    }
}

fn format_by_name(name: &str) -> Option<MetadataFormat> {
    METADATA_FORMATS.iter().find(|(format_name, ..)| *format_name == name).map(|(.., format)| *format)
}

/// OpenAPI spec of `/api/v1/metadata/{name}`.
pub(crate) fn describe() -> PathSpec {
    let names: Vec<String> = METADATA_FORMATS.iter().map(|(name, ..)| format!("`{name}`")).collect();
    let spec = OperationSpec::new("Get the metadata of a name")
        .description(
            "In the format selected by `Accept`: kernel metadata as JSON or XML, or a format derived from it. Retired names \
             keep their metadata. `GET /{name}` returns the same if `Accept` prefers it to HTML.",
        )
        .tag("Resolution")
        .path_param("name", "Name; slashes may be literal or percent-encoded", text_schema())
        .query_param("format", &format!("Format, overriding `Accept`: {}", names.join(", ")), enum_schema(METADATA_FORMATS.iter().map(|(name, ..)| *name)))
        .response(StatusCode::OK, "The metadata")
        .response_header("ETag", "Entity tag");
    let spec = describe_types(spec, |_| true)
        .response(StatusCode::NOT_MODIFIED, "Not modified (`If-None-Match`)")
        .problem(StatusCode::BAD_REQUEST, "Malformed request, or invalid name")
        .authentication_problems("Authentication failed", "Credentials not accepted on this connection")
        .problem(StatusCode::NOT_FOUND, "Name not found, or no metadata")
        .problem(StatusCode::NOT_ACCEPTABLE, "No format matches `Accept`")
        .server_problems("Server busy");
    PathSpec::readable(spec)
}
