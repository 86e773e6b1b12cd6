//! Dispatch: route and method to the handler.

use std::time::SystemTime;

use http::header::{self, HeaderValue};
use http::request::Parts;
use http::{Method, StatusCode};
use hyper::body::Incoming;

use crate::http::authentication::is_cross_site_credential;
use crate::http::handle_api::{self, tunnel};
use crate::http::middleware::client_address::RemoteClient;
use crate::http::pages::static_files::{self, static_file};
use crate::http::request::request_head::{RequestHead, tolerates_stale};
use crate::http::response::codes;
use crate::http::response::reply::{Reply, TEXT, reply};
use crate::http::routing::openapi;
use crate::http::routing::routes::Route;
use crate::http::{HttpServer, pages};

impl HttpServer {
    pub(crate) async fn dispatch(&self, parts: &Parts, body: Incoming, client: &RemoteClient) -> Reply {
        let now = SystemTime::now();
        let path = parts.uri.path();
        let head = RequestHead {
            query: parts.uri.query(),
            headers: &parts.headers,
            version: parts.version,
            client: Some(client.address).filter(|_| !self.is_client_hidden(client)),
            is_loopback: client.is_loopback,
            accepts_credentials: client.accepts_credentials && !is_cross_site_credential(&parts.headers),
            certificate: client.certificate.as_deref(),
        };
        if tunnel::is_handle_message(&parts.method, &parts.headers) {
            return self.post_handle_message(body, client).await;
        }
        let Some((route, path_param)) = Route::find(path) else {
            return handle_api::unknown_endpoint(&parts.method, path);
        };
        if !route.allows(&parts.method) {
            return method_not_allowed(route, &parts.method, path);
        }
        if parts.method == Method::OPTIONS {
            return options_reply(route);
        }
        let mut response = match route {
            Route::Session => self.session_request(&parts.method, path_param, body, &head).await,
            Route::Sessions => self.create_session(body, &head).await,
            Route::ApiV1(resource) => {
                self.serve_api_v1(resource, &parts.method, path_param, body, &head, now).await
            }
            _ => {
                self.dispatch_method(&parts.method, (route, path, path_param), body, client, &head, now).await
            }
        };
        if response.status() == StatusCode::UNAUTHORIZED {
            self.add_challenge_headers(&mut response, &head).await;
        }
        response
    }

    /// Calls the handler of a route for this method.
    async fn dispatch_method(
        &self,
        method: &Method,
        (route, path, path_param): (Route, &str, &str),
        body: Incoming,
        client: &RemoteClient,
        head: &RequestHead<'_>,
        now: SystemTime,
    ) -> Reply {
        if *method == Method::GET || *method == Method::HEAD {
            let handled = async {
                let response = self.dispatch_get(route, path_param, client, head, now).await;
                self.cache_response(path, response).await
            };
            return if tolerates_stale(head) {
                tendot_store::with_stale_reads(handled).await
            } else {
                handled.await
            };
        }
        match (method, route) {
            (&Method::PUT, _) => return self.put_handle(path_param, head, body, now).await,
            (&Method::DELETE, Route::Prefix | Route::Prefixes) => {
                return self.unhome_prefix(path_param, head, now).await;
            }
            (&Method::DELETE, _) => return self.delete_handle(path_param, head, now).await,
            (_, Route::Home) => return self.post_resolve_form(body, head, now).await,
            _ => {}
        }
        // With POST, parameters may be in the body.
        let query = match self.merge_body_into_query(body, head).await {
            Ok(query) => query,
            Err(rejected) => return rejected,
        };
        let head = RequestHead { query: Some(&query), ..*head };
        match route {
            Route::Prefixes | Route::Prefix => self.home_prefix(path_param, &head, now).await,
            _ => self.dispatch_get(route, path_param, client, &head, now).await,
        }
    }

    async fn dispatch_get(
        &self,
        route: Route,
        path_param: &str,
        client: &RemoteClient,
        request: &RequestHead<'_>,
        now: SystemTime,
    ) -> Reply {
        match route {
            Route::Home => self.get_home_or_search(request).await,
            Route::Liveness => reply(StatusCode::OK, TEXT, "ok\n"),
            Route::Readiness => self.get_readiness(),
            Route::Metrics => self.get_metrics(client).await,
            Route::OpenApi => openapi::get_openapi(request.headers),
            Route::Docs => pages::get_docs(request.headers),
            Route::Robots => reply(StatusCode::OK, TEXT, "User-agent: *\nCrawl-delay: 1\n"),
            Route::Favicon => static_file("image/svg+xml", static_files::FAVICON),
            Route::Stylesheet => static_file("text/css;charset=utf-8", static_files::STYLESHEET.as_bytes()),
            Route::OpenUrl => self.open_url(request, now).await,
            Route::DoiAgencies => self.get_doi_agencies(path_param, request).await,
            Route::Handle => self.get_handle(path_param, request, now).await,
            Route::Handles => self.list_handles(request).await,
            Route::Prefixes | Route::Prefix => self.list_prefixes(request).await,
            Route::Verifications => self.get_verification(path_param, request).await,
            // Dispatched earlier.
            Route::Sessions | Route::Session => handle_api::unknown_endpoint(&Method::GET, "/api/sessions"),
            Route::Site => self.get_site(request),
            Route::ReverseLookup | Route::ReverseLookupInPrefix => {
                self.get_reverse_lookup(path_param, request).await
            }
            Route::History => self.get_history(path_param, request).await,
            Route::Metadata => self.get_metadata(path_param, request, now).await,
            Route::Changes => self.get_changes(request).await,
            // Dispatched separately.
            Route::ApiV1(_) => handle_api::unknown_endpoint(&Method::GET, path_param),
            Route::Resolve => self.get_name(path_param, request, now).await,
        }
    }
}

fn options_reply(route: Route) -> Reply {
    let mut response = reply(StatusCode::OK, TEXT, "");
    let headers = response.headers_mut();
    headers.insert(header::ALLOW, route.methods());
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, route.methods());
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("*"));
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("86400"));
    response
}

fn method_not_allowed(route: Route, method: &Method, path: &str) -> Reply {
    let mut response = match path.starts_with("/api/") {
        true if path.starts_with("/api/v1/") => {
            let allowed = route.methods();
            let detail =
                format!("Method {method} is not allowed; allowed: {}.", allowed.to_str().unwrap_or_default());
            pages::problem(StatusCode::METHOD_NOT_ALLOWED, codes::METHOD_NOT_ALLOWED, detail).into()
        }
        true => handle_api::unknown_endpoint(method, path),
        false => reply(StatusCode::METHOD_NOT_ALLOWED, TEXT, "method not allowed\n"),
    };
    *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
    response.headers_mut().insert(header::ALLOW, route.methods());
    response
}
