//! OpenAPI document (`/openapi.json`), built from the specs beside the handlers.

use std::sync::LazyLock;

use bytes::Bytes;
use http::StatusCode;
use http::header::{CACHE_CONTROL, HeaderMap, HeaderValue};
use utoipa::openapi::path::Operation;
use utoipa::openapi::schema::{Components, Type};
use utoipa::openapi::security::{
    ApiKey, ApiKeyValue, Http as HttpScheme, HttpAuthScheme, SecurityRequirement, SecurityScheme,
};
use utoipa::openapi::server::ServerBuilder;
use utoipa::openapi::tag::TagBuilder;
use utoipa::openapi::{
    ContentBuilder, Header, HeaderBuilder, InfoBuilder, LicenseBuilder, ObjectBuilder, OpenApi,
    OpenApiBuilder, Paths, Ref, ResponseBuilder,
};

use crate::http::response::caching;
use crate::http::response::reply::{JSON, Reply, reply};
use crate::http::routing::operation_spec::{COMMON_RESPONSES, OperationSpec, PathSpec};
use crate::http::routing::routes::APIS;

/// Tags: the sections of the API reference, in order.
const TAGS: [(&str, &str); 7] = [
    ("Resolution", "Redirects, metadata, history, changes and registration agencies of names."),
    ("Registry", "Agencies, registrants, prefixes, tokens, DOIs, transfers and reports."),
    ("Handle API", "Records as JSON, compatible with Handle.Net; and reverse lookup."),
    ("Sessions", "Authentication, compatible with Handle.Net."),
    ("Operations", "Health, metrics and the site record."),
    ("Documentation", "This reference."),
    ("Pages", "HTML pages and static files."),
];

const API_DESCRIPTION: &str = "Resolves and registers DOIs and handles. A name is the last part of a path, literal or percent-encoded, \
    including its slashes. HEAD is GET without a body. Every response has an `X-Request-Id` header and allows \
    cross-origin reads.";

const HANDLE_SCHEME_DESCRIPTION: &str = "`Handle sessionId=\"…\", cnonce=\"…\", id=\"INDEX:HANDLE\", type=\"HS_PUBKEY\", alg=\"SHA256\", \
    signature=\"…\"`: signature over the session nonce and the client nonce with the key at that index; then \
    `Handle sessionId=\"…\"`. Or `Handle clientCert=\"true\"`, with a client certificate whose subject is the identity";

/// OpenAPI document, built on first use.
pub(crate) static DOCUMENT: LazyLock<OpenApi> = LazyLock::new(build_document);

static DOCUMENT_JSON: LazyLock<Bytes> =
    LazyLock::new(|| serde_json::to_vec(&*DOCUMENT).unwrap_or_default().into());

/// OpenAPI spec of `/openapi.json`.
pub(crate) fn describe() -> PathSpec {
    let (summary, media_type) = ("Get the OpenAPI document", "application/json");
    PathSpec::readable(
        OperationSpec::text("Documentation", summary, "OpenAPI 3.1 document", media_type)
            .example_command("curl -s $SERVER/openapi.json")
            .entity_tag(),
    )
}

/// Handles `GET /openapi.json`.
pub(crate) fn get_openapi(request: &HeaderMap) -> Reply {
    let mut response = reply(StatusCode::OK, JSON, DOCUMENT_JSON.clone());
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=300"));
    caching::add_etag(response, &DOCUMENT_JSON, request)
}

fn build_document() -> OpenApi {
    let mut paths = Paths::new();
    let mut components = Components::new();
    let endpoints = APIS.iter().flat_map(|api| api.endpoints);
    let documented = endpoints.flat_map(|endpoint| endpoint.paths.iter().map(move |path| (*path, endpoint)));
    for (template, endpoint) in documented {
        let Some(describe) = endpoint.describe else { continue };
        let mut spec = describe();
        spec.set_security(endpoint.operations);
        components.schemas.extend(spec.schemas);
        let path = &mut spec.path;
        let operations = [
            ("get", &mut path.get),
            ("head", &mut path.head),
            ("options", &mut path.options),
            ("post", &mut path.post),
            ("put", &mut path.put),
            ("delete", &mut path.delete),
        ];
        for (method, operation) in operations {
            if let Some(operation) = operation {
                operation.operation_id = Some(operation_id(method, template));
            }
        }
        paths.paths.insert(template.into(), spec.path);
    }
    add_common_components(&mut components);
    let license = LicenseBuilder::new().name("MIT OR Apache-2.0").identifier(Some("MIT OR Apache-2.0"));
    let info = InfoBuilder::new()
        .title("Tendot")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(API_DESCRIPTION))
        .license(Some(license.build()));
    let tags =
        TAGS.map(|(name, description)| TagBuilder::new().name(name).description(Some(description)).build());
    OpenApiBuilder::new()
        .info(info.build())
        .paths(paths)
        .components(Some(components))
        .servers(Some([ServerBuilder::new().url("/").description(Some("This server")).build()]))
        // Without authentication, unless an operation says otherwise.
        .security(Some([SecurityRequirement::default()]))
        .tags(Some(tags))
        .build()
}

/// Adds the responses, headers and authentication schemes that operations share.
fn add_common_components(components: &mut Components) {
    components.headers.insert("X-Request-Id".into(), request_id_header().into());
    for (name, description) in
        COMMON_RESPONSES.map(|(_, name)| name).into_iter().zip(COMMON_RESPONSE_DESCRIPTIONS)
    {
        let text = ObjectBuilder::new().schema_type(Type::String);
        let response = ResponseBuilder::new()
            .description(description)
            .content("text/plain", ContentBuilder::new().schema(Some(text)).build())
            .header_ref("X-Request-Id", Ref::new("#/components/headers/X-Request-Id"));
        components.responses.insert(name.into(), response.build().into());
    }
    for (name, scheme, description) in [
        ("basic", HttpAuthScheme::Basic, "`INDEX%3AHANDLE` and the secret of its `HS_SECKEY` value"),
        ("bearer", HttpAuthScheme::Bearer, "API token"),
    ] {
        let mut scheme = HttpScheme::new(scheme);
        scheme.description =
            Some(format!("{description}. Accepted over TLS, from loopback and through trusted proxies."));
        components.add_security_scheme(name, SecurityScheme::Http(scheme));
    }
    // OpenAPI has no type for a custom HTTP authentication scheme of this kind.
    let handle = ApiKey::Header(ApiKeyValue::with_description("Authorization", HANDLE_SCHEME_DESCRIPTION));
    components.add_security_scheme("handle", SecurityScheme::ApiKey(handle));
}

const COMMON_RESPONSE_DESCRIPTIONS: [&str; COMMON_RESPONSES.len()] = [
    "Request target longer than 64 KiB",
    "Rate limit exceeded; retry after the seconds in `Retry-After`",
    "Too many or too large header fields",
];

fn request_id_header() -> Header {
    HeaderBuilder::new()
        .schema(Some(ObjectBuilder::new().schema_type(Type::String).pattern(Some("^[A-Za-z0-9._-]{1,128}$"))))
        .description(Some("Request id, as in the access log"))
        .build()
}

/// Operation id, such as `getApiHandlesName`.
fn operation_id(method: &str, template: &str) -> String {
    let mut identifier = method.to_owned();
    for word in template.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()) {
        let (first, rest) = word.split_at(1);
        identifier += &first.to_ascii_uppercase();
        identifier += rest;
    }
    identifier
}

/// Operations of a path with their methods, without HEAD and OPTIONS.
pub(crate) fn documented_operations(
    path: &utoipa::openapi::PathItem,
) -> impl Iterator<Item = (&'static str, &Operation)> {
    let all = [("GET", &path.get), ("POST", &path.post), ("PUT", &path.put), ("DELETE", &path.delete)];
    all.into_iter().filter_map(|(method, operation)| Some((method, operation.as_ref()?)))
}
