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
        let about = "Metadata; of the kernel, its elements by their names in XML, in a list where an element may repeat";
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
    let spec = OperationSpec::new("Metadata of a name")
        .description(
            "In the form that `Accept` asks for: the kernel as JSON or XML, or what is made of it. A name that has ended \
             keeps its metadata. `GET /{name}` answers the same if `Accept` prefers it to a page.",
        )
        .tag("Names")
        .path_param("name", "A name, with the slashes that it has, percent-encoded or not", text_schema())
        .query_param("format", &format!("The form, whatever `Accept` says: {}", names.join(", ")), enum_schema(METADATA_FORMATS.iter().map(|(name, ..)| *name)))
        .security(false)
        .response(StatusCode::OK, "The metadata")
        .response_header("ETag", "Changes when the answer does");
    let spec = describe_types(spec, |_| true);
    let spec = spec.response(StatusCode::NOT_MODIFIED, "The client has it already (`If-None-Match`)");
    let spec = problem(spec, StatusCode::BAD_REQUEST, "Not understood, or no name");
    let spec = problem(spec, StatusCode::UNAUTHORIZED, "The credentials are not right")
        .response_header("WWW-Authenticate", "Which are taken");
    let spec = problem(spec, StatusCode::FORBIDDEN, "Credentials are not taken here");
    let spec = problem(spec, StatusCode::NOT_FOUND, "There is no such name, or no metadata of it");
    let spec = problem(spec, StatusCode::NOT_ACCEPTABLE, "It can't be given as any type that `Accept` names");
    let spec = problem(spec, StatusCode::INTERNAL_SERVER_ERROR, "The store failed");
    PathSpec::readable(problem(spec, StatusCode::SERVICE_UNAVAILABLE, "There is too much to do"))
}
