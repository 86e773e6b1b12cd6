//! HTTP server: connections, routing, authentication, and the handlers of all endpoints.
//!
//! `http_server.rs` has the state and settings, `health.rs` the endpoints for operators; the folders follow a request.
//! `server/` serves the connections that `crate::connection` accepts; `middleware/` finds the client's address, limits its
//! rate, and answers from the response cache; `routing/` maps the path to a handler; `request/` parses what the handler reads;
//! `authentication/` turns credentials into a caller; `response/` builds the reply. The handlers are in `resolve/`
//! (redirects), `handle_api/` (Handle.Net's JSON API), `api_v1/` (the registry API), `compat/` (APIs of other services) and
//! `pages/` (HTML).

mod api_v1;
mod authentication;
mod compat;
mod handle_api;
mod health;
mod http_server;
mod middleware;
mod pages;
mod request;
mod resolve;
mod response;
mod routing;
mod server;

pub use health::Readiness;
pub use http_server::HttpServer;
pub(crate) use middleware::access_log::LogSafe;
pub(crate) use middleware::client_address::RemoteClient;
pub use middleware::client_address::{ForwardedBy, ProxyTrust};
pub use middleware::rate_limit::HttpRateLimits;
pub(crate) use middleware::rate_limit::too_many_requests;
pub use pages::ServiceIdentity;
pub use resolve::locations::country::{CountryDatabase, CountryDatabaseError};
pub use resolve::trace::{ResolutionTrace, TraceOutcome, TraceStep};
pub use resolve::upstream::UpstreamClient;
pub use response::codes::{HTTP_ERROR_CODES, HttpErrorCodeSpec};
pub use response::errors::registry_error_status;
pub use server::listener::{HttpLimits, HttpListener, HttpListeners, StreamServer, serve};
pub use server::tls::{ServerCertificate, TlsError};

pub use crate::gcra::Rate;

/// Work budget of one request, in steps.
const REQUEST_BUDGET: u32 = 20_000;

/// Maximum size of a submitted form.
const MAX_FORM_BYTES: usize = 64 << 10;
