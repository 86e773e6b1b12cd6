//! API reference page (`/docs`).

use std::sync::OnceLock;

use askama::Template;
use bytes::Bytes;
use http::StatusCode;
use http::header::{CACHE_CONTROL, HeaderMap, HeaderValue};
use utoipa::openapi::RefOr;
use utoipa::openapi::path::{Operation, ParameterIn};

use crate::http::pages::ServiceIdentity;
use crate::http::pages::code_spans::CodeSpans;
use crate::http::response::caching;
use crate::http::response::reply::{HTML, PAGE_SECURITY_HEADERS, Reply, reply};
use crate::http::routing::openapi::{DOCUMENT, documented_operations};
use crate::http::routing::operation_spec::{CODE_SAMPLES, COMMON_RESPONSES, OperationSpec, PathSpec};
use crate::http::routing::routes::APIS;

#[derive(Template)]
#[template(path = "docs.html")]
struct DocsPage<'a> {
    site: &'a ServiceIdentity,
    description: CodeSpans,
    groups: Vec<OperationGroup>,
    common_responses: Vec<(String, CodeSpans)>,
}

/// One section of the API reference.
struct OperationGroup {
    name: String,
    description: CodeSpans,
    operations: Vec<OperationEntry>,
}

/// One operation of the API reference.
struct OperationEntry {
    id: String,
    method: &'static str,
    /// Paths with the same operation.
    paths: Vec<&'static str>,
    summary: String,
    description: CodeSpans,
    parameters: Vec<(String, &'static str, CodeSpans)>,
    body: Option<(String, CodeSpans)>,
    /// `optional` or `required`; none if credentials are ignored.
    authentication: Option<&'static str>,
    responses: Vec<(String, CodeSpans, Vec<String>)>,
    samples: Vec<String>,
}

/// OpenAPI spec of `/docs`.
pub(crate) fn describe() -> PathSpec {
    let summary = "Get this API reference";
    PathSpec::readable(
        OperationSpec::text("Documentation", summary, "API reference", "text/html").entity_tag(),
    )
}

/// Handles `GET /docs`.
pub(crate) fn get_docs(request: &HeaderMap, site: &ServiceIdentity, cache: &OnceLock<Bytes>) -> Reply {
    let page = cache.get_or_init(|| build_page(site).render().unwrap_or_default().into());
    let mut response = reply(StatusCode::OK, HTML, page.clone());
    response.headers_mut().extend(PAGE_SECURITY_HEADERS);
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=300"));
    caching::add_etag(response, page, request)
}

fn build_page(site: &ServiceIdentity) -> DocsPage<'_> {
    let groups = DOCUMENT.tags.iter().flatten().map(|tag| OperationGroup {
        name: tag.name.clone(),
        description: CodeSpans::new(tag.description.as_deref().unwrap_or_default()),
        operations: operations_in(&tag.name),
    });
    let responses = DOCUMENT.components.iter().flat_map(|components| &components.responses);
    let common_responses = COMMON_RESPONSES.iter().filter_map(|(status, name)| {
        let component = responses.clone().find(|(component, _)| component == name);
        let RefOr::T(response) = component?.1 else { return None };
        Some(((*status).to_owned(), CodeSpans::new(&*response.description)))
    });
    DocsPage {
        site,
        description: CodeSpans::new(DOCUMENT.info.description.as_deref().unwrap_or_default()),
        groups: groups.collect(),
        common_responses: common_responses.collect(),
    }
}

/// Operations of a section.
fn operations_in(group: &str) -> Vec<OperationEntry> {
    let mut entries = Vec::new();
    for endpoint in APIS.iter().flat_map(|api| api.endpoints) {
        let item = endpoint.paths.first().and_then(|path| DOCUMENT.paths.get_path_item(path));
        for (method, operation) in item.into_iter().flat_map(documented_operations) {
            if operation.tags.iter().flatten().any(|tag| tag == group) {
                entries.push(OperationEntry::of(method, endpoint.paths.to_vec(), operation));
            }
        }
    }
    entries
}

impl OperationEntry {
    fn of(method: &'static str, paths: Vec<&'static str>, operation: &Operation) -> Self {
        let parameters = operation.parameters.iter().flatten().filter_map(|parameter| match parameter {
            RefOr::T(parameter) => {
                let location = if parameter.parameter_in == ParameterIn::Path { "path" } else { "query" };
                let description = CodeSpans::new(parameter.description.as_deref().unwrap_or_default());
                Some((parameter.name.clone(), location, description))
            }
            RefOr::Ref(_) => None,
        });
        let body = operation.request_body.iter().find_map(|body| match body {
            RefOr::T(body) => {
                let media_type = body.content.keys().next()?.clone();
                Some((media_type, CodeSpans::new(body.description.as_deref().unwrap_or_default())))
            }
            RefOr::Ref(_) => None,
        });
        let responses =
            operation.responses.responses.iter().filter_map(|(status, response)| match response {
                RefOr::T(response) => {
                    let media_types = response.content.keys().cloned().collect();
                    Some((status.clone(), CodeSpans::new(&*response.description), media_types))
                }
                // Common responses are described once.
                RefOr::Ref(_) => None,
            });
        let samples =
            operation.extensions.iter().filter_map(|extensions| extensions.get(CODE_SAMPLES)?.as_array());
        let samples = samples.flatten().filter_map(|sample| Some(sample["source"].as_str()?.to_owned()));
        Self {
            id: operation.operation_id.clone().unwrap_or_default(),
            method,
            paths,
            summary: operation.summary.clone().unwrap_or_default(),
            description: CodeSpans::new(operation.description.as_deref().unwrap_or_default()),
            parameters: parameters.collect(),
            body,
            authentication: operation.security.as_ref().map(|alternatives| {
                if alternatives.contains(&Default::default()) { "optional" } else { "required" }
            }),
            responses: responses.collect(),
            samples: samples.collect(),
        }
    }
}
