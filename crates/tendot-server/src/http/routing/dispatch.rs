//! Dispatch: route and method to the handler.

use std::time::SystemTime;

use http::header::{self, HeaderValue};
use http::request::Parts;
use http::{Method, StatusCode};
use hyper::body::{Body as _, Incoming};

use crate::http::HttpServer;
use crate::http::authentication::{AuthenticationCell, is_cross_site_credential};
use crate::http::middleware::change_guard::check_change;
use crate::http::middleware::client_address::RemoteClient;
use crate::http::middleware::metrics::RequestKind;
use crate::http::pages;
use crate::http::request::body::RequestBody;
use crate::http::request::encoding;
use crate::http::request::request_head::{RequestHead, tolerates_stale};
use crate::http::resolve;
use crate::http::response::errors::ErrorFormat;
use crate::http::response::reply::{Reply, TEXT, reply};
use crate::http::routing::endpoint::{ApiEndpoint, Call, Operation, RequestMethod};
use crate::http::routing::routes::Route;

impl HttpServer {
    /// Calls the handler of a request.
    pub(crate) async fn dispatch(
        &self,
        route: Route,
        parts: &Parts,
        body: Incoming,
        client: &RemoteClient,
    ) -> Reply {
        let path = parts.uri.path();
        let Some(endpoint) = route.endpoint else {
            return route.api.errors.unknown_endpoint(&parts.method, path);
        };
        if parts.method == Method::OPTIONS {
            return options_reply(endpoint);
        }
        let Some(operation) = endpoint.operation(&parts.method) else {
            return route.api.errors.method_not_allowed(
                endpoint.allowed_methods(),
                &parts.method,
                path,
                &parts.headers,
            );
        };
        let authentication = AuthenticationCell::default();
        let head = RequestHead {
            query: parts.uri.query(),
            headers: &parts.headers,
            version: parts.version,
            client: Some(client.address).filter(|_| !self.is_client_hidden(client)),
            is_loopback: client.is_loopback,
            is_proxied: client.is_proxied,
            accepts_credentials: client.accepts_credentials && !is_cross_site_credential(&parts.headers),
            certificate: client.certificate.as_deref(),
            authentication: &authentication,
            identity: &self.resolver.identity,
            now: SystemTime::now(),
        };
        if let Err(error) = encoding::check_target(&parts.uri) {
            let text = if error.part == "path" { path } else { head.query.unwrap_or_default() };
            return match route.api.errors {
                ErrorFormat::Text => pages::syntax_error_page(&error, text, &head),
                format => format.syntax_error(&error, &parts.headers),
            };
        }
        if operation.kind == RequestKind::Write
            && let Err(refused) = check_change(
                &parts.headers,
                parts.uri.authority(),
                !body.is_end_stream(),
                client.is_encrypted,
            )
        {
            return route.api.errors.refused_change(&refused);
        }
        let (head, path_param) = (&head, route.path_param(path));
        let (method, access, body) =
            (operation.method, operation.access, RequestBody::new(body, head.client));
        let call = Call { head, client, endpoint, method, access, path_param, body };
        let handled = async {
            let reply = self.handle(endpoint, operation, call).await;
            if method == RequestMethod::Get { self.resolver.cache_response(path, reply).await } else { reply }
        };
        let mut reply = if operation.tolerates_stale && tolerates_stale(head) {
            tendot_store::with_stale_reads(handled).await
        } else {
            handled.await
        };
        if reply.status() == StatusCode::UNAUTHORIZED {
            self.authenticator.add_challenge_headers(&mut reply, head).await;
        }
        reply
    }

    async fn handle(&self, endpoint: &'static ApiEndpoint, operation: &Operation, call: Call<'_>) -> Reply {
        // The most frequent handler is called directly, without an allocation.
        if std::ptr::eq(endpoint, &resolve::NAME) {
            return self.get_name(call.path_param, call.head).await;
        }
        (operation.handler)(self, call).await
    }
}

fn options_reply(endpoint: &ApiEndpoint) -> Reply {
    let mut response = reply(StatusCode::OK, TEXT, "");
    let headers = response.headers_mut();
    headers.insert(header::ALLOW, endpoint.allowed_methods());
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, endpoint.allowed_methods());
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("*"));
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("86400"));
    response
}
