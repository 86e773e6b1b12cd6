//! Route of a request: the entry of its path in the table of an API.
//!
//! A name at the end of a path contains slashes, and some paths continue after a parameter of one segment (`{id}/accept`), which
//! `matchit` does not distinguish at the same place.

use std::cmp::Reverse;
use std::sync::LazyLock;

use http::Method;

use crate::http::middleware::metrics::RequestKind;
use crate::http::routing::endpoint::{Api, ApiEndpoint};
use crate::http::{api_v1, compat, handle_api, health, pages, resolve};

/// All APIs, in the order of the API reference.
pub(crate) static APIS: [&Api; 6] =
    [&resolve::API, &handle_api::API, &api_v1::API, &compat::API, &health::API, &pages::API];

/// Route of a request: API and endpoint of its path, and the position of the path parameter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route {
    pub(crate) api: &'static Api,
    /// Endpoint; `None` for an unknown path of an API.
    pub(crate) endpoint: Option<&'static ApiEndpoint>,
    param: (usize, usize),
}

impl Route {
    /// Finds the route of a path.
    pub(crate) fn find(path: &str) -> Self {
        // Nearly all paths are DOIs, and no endpoint begins like one.
        if path.starts_with("/10.") {
            return Self::name(path);
        }
        let first = first_segment(path);
        let Some((_, group)) = ENDPOINTS.iter().find(|(segment, _)| *segment == first) else {
            return Self::name(path);
        };
        if let Some(route) = group.find(path) {
            return route;
        }
        // The API with the longest root.
        let apis = APIS.iter().filter(|api| api.contains(path));
        match apis.max_by_key(|api| api.root.map_or(0, str::len)) {
            // `/api` alone is a name.
            Some(api) if path.matches('/').count() > 1 => Self { api, endpoint: None, param: (0, 0) },
            _ => Self::name(path),
        }
    }

    /// Route of a name: its parameter is the whole path, so that error positions count from its slash.
    fn name(path: &str) -> Self {
        Self { api: &resolve::API, endpoint: Some(&resolve::NAME), param: (0, path.len()) }
    }

    /// Route of a native message, whatever its path.
    pub(crate) fn native_message() -> Self {
        Self { api: &handle_api::API, endpoint: Some(&handle_api::tunnel::ENDPOINT), param: (0, 0) }
    }

    /// Parameter in the path that the route was found for, not decoded.
    pub(crate) fn path_param<'p>(&self, path: &'p str) -> &'p str {
        path.get(self.param.0..self.param.1).unwrap_or_default()
    }

    /// Kind of the request, for the metrics.
    pub(crate) fn request_kind(&self, method: &Method) -> RequestKind {
        let operation = self.endpoint.and_then(|endpoint| endpoint.operation(method));
        match (operation, self.endpoint) {
            (Some(operation), _) => operation.kind,
            // OPTIONS, or a method that is not allowed.
            (None, Some(endpoint)) => {
                endpoint.operations.first().map_or(RequestKind::Read, |first| first.kind)
            }
            (None, None) => RequestKind::Read,
        }
    }
}

/// Endpoints by the first segment of their paths. Few strings of different lengths: comparing them is faster than hashing.
static ENDPOINTS: LazyLock<Vec<(&'static str, SegmentGroup)>> = LazyLock::new(|| {
    let mut groups: Vec<(&str, SegmentGroup)> = Vec::new();
    for api in APIS {
        for endpoint in api.endpoints {
            for template in endpoint.paths.iter().chain(endpoint.aliases) {
                let first = first_segment(template);
                // The template of names matches everything else.
                if first.starts_with('{') {
                    continue;
                }
                match groups.iter_mut().find(|(segment, _)| *segment == first) {
                    Some((_, group)) => group.insert(template, api, endpoint),
                    None => {
                        let mut group = SegmentGroup::default();
                        group.insert(template, api, endpoint);
                        groups.push((first, group));
                    }
                }
            }
        }
    }
    groups
});

/// Endpoints whose paths have the same first segment.
#[derive(Debug, Default)]
struct SegmentGroup {
    literal: Vec<(&'static str, &'static Api, &'static ApiEndpoint)>,
    /// Templates with a parameter, in the order in which they are tried.
    with_param: Vec<ParamTemplate>,
    /// Length of the longest literal path.
    max_literal_len: usize,
}

/// Template with a parameter.
#[derive(Debug)]
struct ParamTemplate {
    /// Parts before and after the parameter.
    start: &'static str,
    end: &'static str,
    api: &'static Api,
    endpoint: &'static ApiEndpoint,
}

impl ParamTemplate {
    fn find(&self, path: &str) -> Option<Route> {
        let param = path.strip_prefix(self.start)?.strip_suffix(self.end)?;
        let is_match = self.end.is_empty() || !param.is_empty() && !param.contains('/');
        let param = (self.start.len(), self.start.len() + param.len());
        is_match.then_some(Route { api: self.api, endpoint: Some(self.endpoint), param })
    }
}

impl SegmentGroup {
    fn insert(&mut self, template: &'static str, api: &'static Api, endpoint: &'static ApiEndpoint) {
        let Some((start, rest)) = template.split_once('{') else {
            self.literal.push((template, api, endpoint));
            self.max_literal_len = self.max_literal_len.max(template.len());
            return;
        };
        let end = rest.split_once('}').map_or("", |(_, end)| end);
        self.with_param.push(ParamTemplate { start, end, api, endpoint });
        // The longest part before the parameter first; then a parameter for the rest of the path last.
        self.with_param.sort_by_key(|template| (Reverse(template.start.len()), template.end.is_empty()));
    }

    fn find(&self, path: &str) -> Option<Route> {
        if path.len() <= self.max_literal_len
            && let Some((_, api, endpoint)) = self.literal.iter().find(|(literal, ..)| *literal == path)
        {
            return Some(Route { api, endpoint: Some(endpoint), param: (0, 0) });
        }
        self.with_param.iter().find_map(|template| template.find(path))
    }
}

/// First segment of a path or template.
fn first_segment(path: &str) -> &str {
    let path = path.strip_prefix('/').unwrap_or(path);
    path.split_once('/').map_or(path, |(first, _)| first)
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use tendot_testing::{Allocations, count_allocations};

    use super::*;
    use crate::http::routing::endpoint::{Access, RequestMethod};

    const NAME: &str = "/{name}";

    #[test]
    fn paths() {
        check("/", "/", "");
        check("/livez", "/livez", "");
        check("/livez/", NAME, "/livez/");
        check("/docs", "/docs", "");
        check("/favicon.svg", "/favicon.ico", "");
        check("/static/style.css", "/static/style.css", "");
        check("/static/other.css", NAME, "/static/other.css");
        check("/10/docs", NAME, "/10/docs");
        check("/10.1000//182", NAME, "/10.1000//182");
        check("//10.1000/182", NAME, "//10.1000/182");
        check("//api/handles/10.1/x", NAME, "//api/handles/10.1/x");
        check("/doiRA/10.1,10.2", "/doiRA/{names}", "10.1,10.2");
        check("/ra/10.1", "/doiRA/{names}", "10.1");
        check("/ra", NAME, "/ra");
        check("/openurl/", "/resolve", "");
        check("/api/handles/10.1/x", "/api/handles/{name}", "10.1/x");
        check("/api/handles/", "/api/handles/{name}", "");
        check("/api/handles", "/api/handles", "");
        check("/api/prefixes/0.NA/10.1", "/api/prefixes/{prefix}", "0.NA/10.1");
        check("/api/prefixes/", "/api/prefixes", "");
        check("/api/sessions/", "/api/sessions", "");
        check("/api/sessions/this", "/api/sessions/this", "");
        check("/api/sessions/this/", "/api/sessions/this", "");
        check("/api/sessions/other", "/api/sessions/this", "other");
        check("/api/verifications", "/api/verifications/{identity}", "");
        check("/api/verifications/1:10.1/x", "/api/verifications/{identity}", "1:10.1/x");
        check("/api/handlesx", "unknown", "");
        check("/api/site", "/api/site", "");
        check("/api/site/", "/api/site", "");
        check("/hrls/handles", "/hrls/handles", "");
        check("/hrls/handles/", "/hrls/handles/{prefix}", "");
        check("/hrls/handles/10.1", "/hrls/handles/{prefix}", "10.1");
        check("/hrls", NAME, "/hrls");
        check("/api/v1/history/10.1//x", "/api/v1/history/{name}", "10.1//x");
        check("/api/v1/history", "unknown", "");
        check("/api/v1/metadata/10.1/x/y", "/api/v1/metadata/{name}", "10.1/x/y");
        check("/api/v1/dois/batch", "/api/v1/dois/batch", "");
        check("/api/v1/dois/10.1/batch", "/api/v1/dois/{name}", "10.1/batch");
        check(
            "/api/v1/reports/10.1/failed-resolutions",
            "/api/v1/reports/{prefix}/failed-resolutions",
            "10.1",
        );
        check("/api/v1/reports/10.1", "/api/v1/reports/{prefix}", "10.1");
        check("/api/v1/changes", "/api/v1/changes", "");
        check("/api/v1/changes/", "unknown", "");
        check("/api/v1", "unknown", "");
        check("/api/", "unknown", "");
        check("/api", NAME, "/api");
        check("*", NAME, "*");
        check("", NAME, "");
    }

    #[test]
    fn parameters_within_a_path() {
        let (one, accept) = ("/api/v1/transfers/{id}", "/api/v1/transfers/{id}/accept");
        check("/api/v1/transfers/12/accept", accept, "12");
        check("/api/v1/transfers/accept/accept", accept, "accept");
        check("/api/v1/transfers//accept", one, "/accept");
        check("/api/v1/transfers/accept", one, "accept");
        check("/api/v1/transfers/1/2/accept", one, "1/2/accept");
        check("/api/v1/transfers/12", one, "12");
        check("/api/v1/transfers/12/accept/", one, "12/accept/");
        check("/api/v1/transfers/", one, "");
    }

    #[track_caller]
    fn check(path: &str, template: &str, param: &str) {
        let route = Route::find(path);
        let found = route.endpoint.map_or("unknown", |endpoint| endpoint.paths[0]);
        assert_eq!((found, route.path_param(path)), (template, param), "{path}");
    }

    /// Routing precedes the response cache, so every request pays for it.
    #[test]
    fn routing_does_not_allocate() {
        let find = |path: &str| {
            black_box(Route::find(path));
        };
        // Builds the table.
        find("/api/handles");
        for path in [
            "/10.1000/182",
            "/20.500/x",
            "/docs",
            "/api/handles/10.1000/182",
            "/api/handles/10.1000/a/b/c/d/e",
            "/api/v1/dois/10.1000/182",
            "/api/v1/transfers/12/accept",
            "/api/none",
        ] {
            assert_eq!(count_allocations(|| find(path)), Allocations::default(), "{path}");
        }
        assert_eq!(count_allocations(|| drop(black_box(vec![0_u8]))), Allocations { count: 1, bytes: 1 });
    }

    #[test]
    fn error_formats() {
        for (path, expected) in
            [("/api/v1/none", "/api/v1"), ("/api/v1", "/api/v1"), ("/api/v1x", "/api"), ("/api/none", "/api")]
        {
            assert_eq!(Route::find(path).api.root, Some(expected), "{path}");
        }
        assert_eq!(Route::find("/10.1/x").api.root, None);
    }

    /// Every path is the template of one endpoint.
    #[test]
    fn templates_are_unique() {
        let mut templates: Vec<&str> = APIS
            .iter()
            .flat_map(|api| api.endpoints)
            .flat_map(|endpoint| endpoint.paths.iter().chain(endpoint.aliases))
            .copied()
            .collect();
        let count = templates.len();
        templates.sort_unstable();
        templates.dedup();
        assert_eq!(templates.len(), count);
    }

    #[test]
    fn request_kinds() {
        let kind = |method: &str, path: &str| {
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            Route::find(path).request_kind(&method).as_str()
        };
        for (method, path, expected) in [
            ("GET", "/10.1000/182", "redirect"),
            ("HEAD", "/10.1000/182", "redirect"),
            ("PATCH", "/10.1000/182", "redirect"),
            ("GET", "/resolve", "redirect"),
            ("POST", "/", "redirect"),
            ("GET", "/", "page"),
            ("GET", "/docs", "page"),
            ("GET", "/livez", "operations"),
            ("GET", "/doiRA/10.1", "read"),
            ("GET", "/hrls/handles", "read"),
            ("GET", "/api/handles/10.1000/182", "read"),
            ("POST", "/api/handles/10.1000/182", "read"),
            ("PUT", "/api/handles/10.1000/182", "write"),
            ("OPTIONS", "/api/handles/10.1000/182", "read"),
            ("POST", "/api/prefixes", "write"),
            ("DELETE", "/api/prefixes/10.1", "write"),
            ("POST", "/api/v1/dois", "write"),
            ("POST", "/api/v1/dois/batch", "write"),
            ("POST", "/api/v1/transfers/1/accept", "write"),
            ("GET", "/api/v1/dois", "read"),
            ("GET", "/api/none", "read"),
        ] {
            assert_eq!(kind(method, path), expected, "{method} {path}");
        }
        // In the registry API, every operation except GET is a write and requires authentication.
        for operation in api_v1::API.endpoints.iter().flat_map(|endpoint| endpoint.operations) {
            let is_read = operation.method == RequestMethod::Get;
            assert_eq!(operation.kind == RequestKind::Read, is_read, "{operation:?}");
            assert!(is_read || operation.access == Access::Authenticated, "{operation:?}");
        }
    }
}
