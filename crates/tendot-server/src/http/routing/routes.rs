//! Route table: path template to endpoint; also the source of the OpenAPI document.

use http::{HeaderValue, Method, StatusCode};
use tendot_registry::report::ReportKind;

use crate::http::api_v1::Resource;
use crate::http::compat::{doi_ra, reverse_lookup};
use crate::http::resolve::redirect;
use crate::http::routing::operation_spec::{OperationSpec, PathSpec};
use crate::http::{api_v1, handle_api, pages};

/// Endpoint that a path belongs to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Route {
    Home,
    Liveness,
    Readiness,
    Metrics,
    OpenApi,
    Docs,
    Robots,
    Favicon,
    Stylesheet,
    OpenUrl,
    DoiAgencies,
    Handle,
    Handles,
    Prefix,
    Prefixes,
    Session,
    Sessions,
    Verifications,
    Site,
    ReverseLookup,
    ReverseLookupInPrefix,
    History,
    Metadata,
    Changes,
    ApiV1(Resource),
    Resolve,
}

/// All paths; the first match wins, and the API reference lists them from the last to the first. A parameter in braces at the
/// end of a template matches the rest of the path; elsewhere it matches up to the next slash.
pub(crate) const ROUTES: [(&str, Route); 49] = [
    ("/static/style.css", Route::Stylesheet),
    ("/favicon.svg", Route::Favicon),
    ("/favicon.ico", Route::Favicon),
    ("/robots.txt", Route::Robots),
    ("/", Route::Home),
    ("/docs", Route::Docs),
    ("/openapi.json", Route::OpenApi),
    ("/metrics", Route::Metrics),
    ("/readyz", Route::Readiness),
    ("/livez", Route::Liveness),
    ("/openurl", Route::OpenUrl),
    ("/resolve", Route::OpenUrl),
    ("/ra/{names}", Route::DoiAgencies),
    ("/doiRA/{names}", Route::DoiAgencies),
    ("/hrls/handles", Route::ReverseLookup),
    ("/hrls/handles/{prefix}", Route::ReverseLookupInPrefix),
    ("/api/site", Route::Site),
    ("/api/v1/changes", Route::Changes),
    ("/api/v1/reports/{prefix}/confusable-names", Route::ApiV1(Resource::Report(ReportKind::Confusable))),
    ("/api/v1/reports/{prefix}/invalid-links", Route::ApiV1(Resource::Report(ReportKind::Links))),
    (
        "/api/v1/reports/{prefix}/failed-resolutions",
        Route::ApiV1(Resource::Report(ReportKind::FailedResolutions)),
    ),
    ("/api/v1/reports/{prefix}/never-resolved", Route::ApiV1(Resource::Report(ReportKind::NeverResolved))),
    ("/api/v1/reports/{prefix}/resolved", Route::ApiV1(Resource::Report(ReportKind::Resolved))),
    ("/api/v1/reports/{prefix}", Route::ApiV1(Resource::ReportSummary)),
    ("/api/v1/transfers/{id}/decline", Route::ApiV1(Resource::DeclineTransfer)),
    ("/api/v1/transfers/{id}/accept", Route::ApiV1(Resource::AcceptTransfer)),
    ("/api/v1/transfers/{id}", Route::ApiV1(Resource::Transfer)),
    ("/api/v1/transfers", Route::ApiV1(Resource::Transfers)),
    ("/api/v1/tokens/{id}", Route::ApiV1(Resource::Token)),
    ("/api/v1/tokens", Route::ApiV1(Resource::Tokens)),
    ("/api/v1/dois/batch", Route::ApiV1(Resource::Batch)),
    ("/api/v1/dois/{name}", Route::ApiV1(Resource::Doi)),
    ("/api/v1/dois", Route::ApiV1(Resource::Dois)),
    ("/api/v1/prefixes/{prefix}", Route::ApiV1(Resource::Prefix)),
    ("/api/v1/prefixes", Route::ApiV1(Resource::Prefixes)),
    ("/api/v1/registrants/{id}", Route::ApiV1(Resource::Registrant)),
    ("/api/v1/registrants", Route::ApiV1(Resource::Registrants)),
    ("/api/v1/agencies/{code}", Route::ApiV1(Resource::Agency)),
    ("/api/v1/agencies", Route::ApiV1(Resource::Agencies)),
    ("/api/v1/history/{name}", Route::History),
    ("/api/v1/metadata/{name}", Route::Metadata),
    ("/api/verifications/{identity}", Route::Verifications),
    ("/api/sessions", Route::Sessions),
    ("/api/sessions/this", Route::Session),
    ("/api/prefixes/{prefix}", Route::Prefix),
    ("/api/prefixes", Route::Prefixes),
    ("/api/handles", Route::Handles),
    ("/api/handles/{name}", Route::Handle),
    ("/{name}", Route::Resolve),
];

impl Route {
    /// Route of a path, and the value of its parameter; `None` for unknown API paths.
    pub(crate) fn find(path: &str) -> Option<(Self, &str)> {
        // Handle.Net accepts these with or without a trailing slash.
        let path = match path {
            "/api/site/" | "/api/sessions/" | "/api/sessions/this/" | "/api/prefixes/" => {
                path.trim_end_matches('/')
            }
            "/api/verifications" => "/api/verifications/",
            path => path,
        };
        // The only session that can be addressed is the caller's own, `this`.
        if let Some(other) = path.strip_prefix("/api/sessions/").filter(|other| *other != "this") {
            return Some((Self::Session, other));
        }
        let found =
            ROUTES.iter().find_map(|(template, route)| Some((*route, match_template(template, path)?)));
        match found {
            // A name is the whole path, so that error positions count from its slash. So is a path without a slash, such as
            // `*`.
            Some((Self::Resolve, _)) | None => (!path.starts_with("/api/")).then_some((Self::Resolve, path)),
            found => found,
        }
    }

    /// Allowed methods, for `Allow`.
    pub(crate) const fn methods(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Handle | Self::Session => "GET, HEAD, OPTIONS, POST, PUT, DELETE",
            Self::ApiV1(resource) => resource.methods(),
            Self::Prefixes => "GET, HEAD, OPTIONS, POST, DELETE",
            Self::Prefix => "OPTIONS, POST, DELETE",
            Self::Sessions => "OPTIONS, POST",
            Self::Home | Self::Handles | Self::Verifications | Self::Site => "GET, HEAD, OPTIONS, POST",
            _ => "GET, HEAD, OPTIONS",
        })
    }

    /// Whether the method is allowed.
    pub(crate) fn allows(self, method: &Method) -> bool {
        let methods = self.methods();
        methods.to_str().is_ok_and(|methods| methods.split(", ").any(|allowed| allowed == method.as_str()))
    }

    /// OpenAPI spec of the endpoint.
    pub(crate) fn spec(self) -> PathSpec {
        let plain = |tag: &str, summary: &str, response: &str, media_type: &str| {
            OperationSpec::new(summary).tag(tag).response(StatusCode::OK, response).text_content(media_type)
        };
        let with_etag = |spec: OperationSpec| {
            spec.response_header("ETag", "Entity tag")
                .response(StatusCode::NOT_MODIFIED, "Not modified (`If-None-Match`)")
        };
        match self {
            Self::Home => pages::describe_home(),
            Self::Liveness => PathSpec::readable(
                plain("Operations", "Check liveness", "Running", "text/plain")
                    .example_command("curl -s $SERVER/livez"),
            ),
            Self::Readiness => PathSpec::readable(
                plain("Operations", "Check readiness", "Ready", "text/plain")
                    .example_command("curl -s $SERVER/readyz")
                    .response(StatusCode::SERVICE_UNAVAILABLE, "Starting, draining, or store unreachable")
                    .text_content("text/plain"),
            ),
            Self::Metrics => PathSpec::readable(
                plain(
                    "Operations",
                    "Get metrics",
                    "Metrics in OpenMetrics format",
                    "application/openmetrics-text",
                )
                .example_command("curl -s $SERVER/metrics")
                .response(StatusCode::FORBIDDEN, "Not available to this address")
                .text_content("text/plain"),
            ),
            Self::OpenApi => PathSpec::readable(with_etag(
                plain(
                    "Documentation",
                    "Get the OpenAPI document",
                    "OpenAPI 3.1 document",
                    "application/json",
                )
                .example_command("curl -s $SERVER/openapi.json"),
            )),
            Self::Docs => PathSpec::readable(with_etag(plain(
                "Documentation",
                "Get this API reference",
                "API reference",
                "text/html",
            ))),
            Self::Robots => {
                PathSpec::readable(plain("Pages", "Get robots.txt", "Crawler rules", "text/plain"))
            }
            Self::Favicon => {
                PathSpec::readable(plain("Pages", "Get the favicon", "Favicon", "image/svg+xml"))
            }
            Self::Stylesheet => {
                PathSpec::readable(plain("Pages", "Get the stylesheet", "Stylesheet", "text/css"))
            }
            Self::OpenUrl => redirect::describe_open_url(),
            Self::DoiAgencies => doi_ra::describe(),
            Self::Handle => handle_api::describe_handles(),
            Self::Handles => handle_api::describe_list(),
            Self::Prefix => handle_api::describe_prefix(),
            Self::Prefixes => handle_api::describe_prefixes(),
            Self::Session => handle_api::describe_session(),
            Self::Sessions => handle_api::describe_sessions(),
            Self::Verifications => handle_api::describe_verifications(),
            Self::Site => handle_api::describe_site(),
            Self::ReverseLookup => reverse_lookup::describe(),
            Self::ReverseLookupInPrefix => reverse_lookup::describe_under(),
            Self::History => api_v1::describe_history(),
            Self::Metadata => api_v1::describe_metadata(),
            Self::Changes => api_v1::describe_changes(),
            Self::ApiV1(resource) => resource.describe(),
            Self::Resolve => redirect::describe(),
        }
    }
}

/// Value of the parameter of a template, or an empty string if it has none; `None` if the path does not match.
fn match_template<'p>(template: &str, path: &'p str) -> Option<&'p str> {
    let Some((start, rest)) = template.split_once('{') else { return (path == template).then_some("") };
    let part = path.strip_prefix(start)?;
    match rest.split_once('}') {
        None | Some((_, "")) => Some(part),
        Some((_, end)) => part.strip_suffix(end).filter(|part| !part.is_empty() && !part.contains('/')),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates() {
        let accept = "/api/v1/transfers/{id}/accept";
        assert_eq!(match_template(accept, "/api/v1/transfers/12/accept"), Some("12"));
        assert_eq!(match_template(accept, "/api/v1/transfers/accept/accept"), Some("accept"));
        assert_eq!(match_template(accept, "/api/v1/transfers//accept"), None);
        assert_eq!(match_template(accept, "/api/v1/transfers/accept"), None);
        assert_eq!(match_template(accept, "/api/v1/transfers/1/2/accept"), None);
        assert_eq!(match_template(accept, "/api/v1/transfers/12"), None);
        assert_eq!(match_template(accept, "/api/v1/transfers/12/accept/"), None);
        assert_eq!(match_template("/a/{name}", "/a/10.1/x/accept"), Some("10.1/x/accept"));
        assert_eq!(match_template("/a/{name}", "/a/"), Some(""));
        assert_eq!(match_template("/a", "/a"), Some(""));
        assert_eq!(match_template("/a", "/a/"), None);
    }

    #[test]
    fn paths() {
        check("/", Some((Route::Home, "")));
        check("/livez", Some((Route::Liveness, "")));
        check("/livez/", Some((Route::Resolve, "/livez/")));
        check("/docs", Some((Route::Docs, "")));
        check("/10/docs", Some((Route::Resolve, "/10/docs")));
        check("/10.1000//182", Some((Route::Resolve, "/10.1000//182")));
        check("//10.1000/182", Some((Route::Resolve, "//10.1000/182")));
        check("/doiRA/10.1,10.2", Some((Route::DoiAgencies, "10.1,10.2")));
        check("/api/handles/10.1/x", Some((Route::Handle, "10.1/x")));
        check("/api/handles/", Some((Route::Handle, "")));
        check("/api/handles", Some((Route::Handles, "")));
        check("/api/prefixes/0.NA/10.1", Some((Route::Prefix, "0.NA/10.1")));
        check("/api/prefixes/", Some((Route::Prefixes, "")));
        check("/api/sessions/", Some((Route::Sessions, "")));
        check("/api/sessions/this/", Some((Route::Session, "")));
        check("/api/sessions/other", Some((Route::Session, "other")));
        check("/api/verifications", Some((Route::Verifications, "")));
        check("/api/verifications/1:10.1/x", Some((Route::Verifications, "1:10.1/x")));
        check("/api/handlesx", None);
        check("/api/site", Some((Route::Site, "")));
        check("/api/site/", Some((Route::Site, "")));
        check("/hrls/handles", Some((Route::ReverseLookup, "")));
        check("/hrls/handles/", Some((Route::ReverseLookupInPrefix, "")));
        check("/hrls/handles/10.1", Some((Route::ReverseLookupInPrefix, "10.1")));
        check("/hrls", Some((Route::Resolve, "/hrls")));
        check("/api/v1/history/10.1//x", Some((Route::History, "10.1//x")));
        check("/api/v1/history", None);
        check("/api/v1/metadata/10.1/x/y", Some((Route::Metadata, "10.1/x/y")));
        let failed = Route::ApiV1(Resource::Report(ReportKind::FailedResolutions));
        check("/api/v1/reports/10.1/failed-resolutions", Some((failed, "10.1")));
        check("/api/v1/reports/10.1", Some((Route::ApiV1(Resource::ReportSummary), "10.1")));
        check("/api/v1/changes", Some((Route::Changes, "")));
        check("/api/v1/changes/", None);
        check("/api/", None);
        check("/api", Some((Route::Resolve, "/api")));
        check("*", Some((Route::Resolve, "*")));
        check("", Some((Route::Resolve, "")));
    }

    #[track_caller]
    fn check(path: &str, expected: Option<(Route, &str)>) {
        assert_eq!(Route::find(path), expected, "{path}");
    }
}
