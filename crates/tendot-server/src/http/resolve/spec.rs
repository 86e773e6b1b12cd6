//! OpenAPI specs of requests for a name.

use http::StatusCode;
use utoipa::ToSchema;

use crate::http::api_v1;
use crate::http::resolve::trace::ResolutionTrace;
use crate::http::routing::operation_spec::{OperationSpec, PathSpec, array_schema, text_schema};

/// OpenAPI spec of `/{name}`.
pub(crate) fn describe() -> PathSpec {
    let get = OperationSpec::new("Resolve a name")
        .description(
            "Redirects to the location selected from the record, the parameters and the request headers. `Accept`, \
             `Accept-Language` and `User-Agent` are used if the record has matching locations. Returns metadata if \
             `Accept` prefers it to HTML.",
        )
        .tag("Resolution")
        .path_param(
            "name",
            "Name in any written form: `10.5555/DEMO`, `doi:…`, `hdl:…`, `urn:doi:…`, `info:doi/…`, or a proxy URL; \
             without slash and dot, a shortDOI",
            text_schema(),
        )
        .example_command("curl -si $SERVER/10.5555/DEMO")
        .example_command("curl -si \"$SERVER/10.5555/DEMO-COPIES?locatt=country:gb\"")
        .example_command("curl -s \"$SERVER/10.5555/DEMO?explain=json\"");
    PathSpec::readable(with_resolution_responses(with_resolution_params(get)))
}

/// OpenAPI spec of `/resolve` and `/openurl`.
pub(crate) fn describe_open_url() -> PathSpec {
    let get = OperationSpec::new("Resolve an OpenURL request")
        .description(
            "Same as `GET /{name}` for the first name in `id`, `rft_id` and `rft.doi`, in the order of the query, or for a \
             name as the whole query. A URI such as `doi:…` is percent-encoded twice: as a URI, and as a parameter. A \
             request with metadata only is 404; without a query, the home page.",
        )
        .tag("Resolution")
        .query_param("id", "Identifier, such as `doi:10.5555/DEMO`; may be repeated", array_schema(text_schema()))
        .query_param("rft_id", "Identifier, such as `info:doi/10.5555/DEMO`; may be repeated", array_schema(text_schema()))
        .query_param("rft.doi", "DOI, such as `10.5555/DEMO`", text_schema())
        .example_command("curl -si \"$SERVER/resolve?id=doi:10.5555/DEMO\"");
    PathSpec::readable(with_resolution_responses(with_resolution_params(get)))
}

fn with_resolution_params(spec: OperationSpec) -> OperationSpec {
    spec.query_param("noredirect", "Show the record", text_schema())
        .query_param(
            "history",
            "Show the history; with `before`, only changes before this sequence number",
            text_schema(),
        )
        .query_param("explain", "Trace the resolution; `json` for JSON", text_schema())
        .query_param("type", "Use only values of this type", array_schema(text_schema()))
        .query_param(
            "index",
            "Use only values at this index; non-numbers are ignored",
            array_schema(text_schema()),
        )
        .query_param(
            "locatt",
            "Preferred location attribute: `country:gb`, or `country` for any value",
            array_schema(text_schema()),
        )
        .query_param("country", "Country for location selection", text_schema())
        .query_param("ip", "Client address for location selection", text_schema())
        .query_param("urlappend", "Appended to the target URL, unless that changes the host", text_schema())
        .query_param("ignore_aliases", "Do not follow `HS_ALIAS`", text_schema())
        .query_param("auth", "Bypass the caches of upstream resolvers", text_schema())
        .query_param("cert", "Accept only signed responses from upstream", text_schema())
        .query_param("redirectionHeaders", "Return 200 with the redirect headers", text_schema())
        .query_param("action", "`redirect`; `showurls`: locations as XML; `showvalues`: the record; `metadata`: redirect to the location with \
             `role` `metadata`; `api`: the record as JSON, as `/api/handles`", text_schema())
}

/// Schema only: JSON body of `GET /{name}`.
#[derive(ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "schema only")]
enum TraceOrMetadata {
    Trace(Box<ResolutionTrace>),
    Metadata(api_v1::MetadataSchema),
}

/// Responses of a request for a name.
pub(crate) fn with_resolution_responses(spec: OperationSpec) -> OperationSpec {
    // As a page, or as JSON.
    let problem = |spec: OperationSpec, status, about: &str| {
        spec.response(status, about).text_content("text/html").problem_content()
    };
    let spec = spec
        .response(
            StatusCode::OK,
            "Record or trace, if requested; record, if it has no redirect target; metadata, if `Accept` prefers it",
        )
        .text_content("text/html")
        .text_content("text/xml");
    let is_new = |media_type: &str| !matches!(media_type, "application/json" | "text/xml");
    let spec = api_v1::describe_types(spec, is_new).json_content::<TraceOrMetadata>("application/json");
    let redirects = [
        (StatusCode::MOVED_PERMANENTLY, "Alias, or status set by the record"),
        (StatusCode::FOUND, "Redirect"),
        (StatusCode::SEE_OTHER, "Redirect with the status set by the record"),
        (StatusCode::TEMPORARY_REDIRECT, "Redirect with the status set by the record"),
        (StatusCode::PERMANENT_REDIRECT, "Redirect with the status set by the record"),
    ];
    let spec = redirects.into_iter().fold(spec, |spec, (status, about)| {
        let spec =
            spec.response(status, about).text_content("text/html").response_header("Location", "Target URL");
        spec.response_header("Cache-Control", "Freshness lifetime from the values' TTL")
            .response_header("ETag", "Entity tag")
    });
    let spec = spec.response(StatusCode::NOT_MODIFIED, "Not modified (`If-None-Match`)");
    let spec = problem(spec, StatusCode::BAD_REQUEST, "Malformed, or not responsible");
    let spec = problem(spec, StatusCode::NOT_FOUND, "Not found; see `suggestions`");
    let spec = spec.problem(StatusCode::NOT_ACCEPTABLE, "No metadata format matches `Accept`");
    let spec = problem(spec, StatusCode::GONE, "Retired");
    let spec = problem(spec, StatusCode::INTERNAL_SERVER_ERROR, "Store error");
    let spec = problem(spec, StatusCode::SERVICE_UNAVAILABLE, "Work limit exceeded, or server busy");
    problem(spec, StatusCode::LOOP_DETECTED, "Alias loop")
}
