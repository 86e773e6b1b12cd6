//! Resolution of a name: `GET /{name}`.
//!
//! In reading order:
//!
//! - `resolver.rs`: state for resolving names: registry, upstream, response cache, counters
//! - `redirect.rs`: resolve a name to a redirect
//! - `entry_points.rs`: search box, form post, OpenURL
//! - `open_url.rs`: name of an OpenURL request
//! - `lookup.rs`: local or upstream lookup
//! - `upstream.rs`: upstream resolver
//! - `signature.rs`: verification of signed records
//! - `metadata.rs`: metadata by content negotiation
//! - `requested_name.rs`: name of a request, parsed once
//! - `trace.rs`: events and trace of `?explain`
//! - `explain.rs`: steps of a trace, with hints
//! - `suggestions.rs`: registered names that are similar
//! - `locations/`: choice of one of several locations
//! - `spec.rs`: OpenAPI specs

pub(crate) mod entry_points;
mod explain;
pub(crate) mod locations;
pub(crate) mod lookup;
pub(crate) mod metadata;
mod open_url;
pub(crate) mod redirect;
pub(crate) mod requested_name;
pub(crate) mod resolver;
pub(crate) mod signature;
pub(crate) mod spec;
pub(crate) mod suggestions;
pub(crate) mod trace;
pub(crate) mod upstream;

use crate::http::middleware::metrics::RequestKind;
use crate::http::response::errors::ErrorFormat;
use crate::http::routing::endpoint::{Api, ApiEndpoint, Operation};

/// `GET /{name}`: every path that is no other endpoint.
pub(crate) static NAME: ApiEndpoint = ApiEndpoint::new(
    &["/{name}"],
    spec::describe,
    &[Operation::get(|server, call| Box::pin(server.get_name(call.path_param, call.head)))
        .kind(RequestKind::Redirect)],
);

/// Resolution of names.
pub(crate) static API: Api =
    Api { root: None, errors: ErrorFormat::Text, endpoints: std::slice::from_ref(&NAME) };
