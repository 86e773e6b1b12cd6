//! `/api/v1/metadata/{name}`: metadata of a name, in any format.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use http::StatusCode;
use serde_json::Value as Json;
use tendot_registry::metadata::{MetadataFormat, metadata_schemas};
use tendot_registry::{Caller, Error};
use utoipa::openapi::{ObjectBuilder, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::http::HttpServer;
use crate::http::api_v1::{ApiRequest, ApiResult, malformed, request_budget};
use crate::http::request::accept::metadata_media_types;
use crate::http::resolve::metadata::{
    METADATA_FORMATS, MetadataPreference, metadata_only, metadata_reply, not_acceptable,
};
use crate::http::resolve::requested_name::RequestedName;
use crate::http::response::caching;
use crate::http::response::errors::{lookup_failed, no_metadata, unreadable_metadata};
use crate::http::routing::operation_spec::{OperationSpec, PathSpec, enum_schema, text_schema};

/// Schema only: metadata as JSON.
pub(crate) struct MetadataSchema;

impl PartialSchema for MetadataSchema {
    fn schema() -> RefOr<Schema> {
        metadata_schema("Metadata")
    }
}

/// Schema of a metadata document or of one of its elements, from the registry.
fn metadata_schema(name: &str) -> RefOr<Schema> {
    let schema = METADATA_SCHEMAS.get(name).cloned().unwrap_or_default();
    serde_json::from_value(schema).unwrap_or_default()
}

static METADATA_SCHEMAS: LazyLock<BTreeMap<String, Json>> = LazyLock::new(metadata_schemas);

impl ToSchema for MetadataSchema {
    fn name() -> std::borrow::Cow<'static, str> {
        "Metadata".into()
    }

    fn schemas(all: &mut Vec<(String, RefOr<Schema>)>) {
        all.extend(METADATA_SCHEMAS.keys().map(|name| (name.clone(), metadata_schema(name))));
    }
}

/// Schema only: metadata in a JSON format that is defined elsewhere.
struct ForeignMetadataSchema;

impl PartialSchema for ForeignMetadataSchema {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new().description(Some("Metadata in the format of the media type")).into()
    }
}

impl ToSchema for ForeignMetadataSchema {
    fn name() -> std::borrow::Cow<'static, str> {
        "ForeignMetadata".into()
    }
}

/// Adds responses with metadata of all types to an OpenAPI spec.
pub(crate) fn describe_types(spec: OperationSpec, is_described: impl Fn(&str) -> bool) -> OperationSpec {
    let types = metadata_media_types().filter(|(_, media_type)| is_described(media_type));
    types.fold(spec, |spec, (format, media_type)| match format {
        MetadataFormat::KernelJson | MetadataFormat::SystemJson => {
            spec.json_content::<MetadataSchema>(media_type)
        }
        _ if media_type.ends_with("json") => spec.json_content::<ForeignMetadataSchema>(media_type),
        _ => spec.text_content(media_type),
    })
}

impl HttpServer {
    /// Handles `GET /api/v1/metadata/{name}`.
    pub(crate) async fn get_metadata(&self, request: &ApiRequest<'_>) -> ApiResult {
        let head = request.head;
        let preference = match request.parameters.get("format").map(format_by_name) {
            Some(Some(format)) => {
                MetadataPreference::Format(format, format.media_types().first().copied().unwrap_or_default())
            }
            Some(None) => return Err(malformed("unknown `format`")),
            None => metadata_only(head.headers),
        };
        let name = RequestedName::new(&*request.path_param);
        let mut budget = request_budget();
        let found = self.resolver.registration(name.as_str(), &request.caller, &mut budget).await;
        let registered = match found.and_then(|registered| registered.ok_or(Error::NotFound)) {
            Ok(registered) => registered,
            Err(error) => return Ok(lookup_failed(&name, &error, head.accepts_credentials)),
        };
        if registered.metadata.is_none() {
            return Err(no_metadata(&registered.name).into());
        }
        let MetadataPreference::Format(format, media_type) = preference else {
            return Ok(not_acceptable(name.as_str()));
        };
        let Some(text) = registered.metadata_in(format) else {
            tracing::error!(name = %registered.name, "stored metadata is unreadable");
            return Err(unreadable_metadata().into());
        };
        let mut response = metadata_reply(text, media_type, head.headers);
        if request.caller != Caller::Anonymous {
            caching::set_private_no_store(response.headers_mut());
        }
        Ok(response)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A keyword that utoipa's types do not support would be dropped silently.
    #[test]
    fn metadata_schemas_round_trip() {
        assert!(METADATA_SCHEMAS.len() > 20, "{}", METADATA_SCHEMAS.len());
        for (name, schema) in METADATA_SCHEMAS.iter() {
            assert_eq!(&serde_json::to_value(metadata_schema(name)).unwrap(), schema, "{name}");
        }
    }
}
