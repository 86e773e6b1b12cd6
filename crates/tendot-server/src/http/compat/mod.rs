//! APIs of other services, for their clients.
//!
//! In reading order:
//!
//! - `doi_ra.rs`: `/doiRA`, the registration agency of a name, as at doi.org
//! - `reverse_lookup.rs`: `/hrls/handles`, names by their values, as in EUDAT's servlet

pub(crate) mod doi_ra;
pub(crate) mod reverse_lookup;

use crate::http::middleware::metrics::RequestKind;
use crate::http::resolve::spec;
use crate::http::response::errors::ErrorFormat;
use crate::http::routing::endpoint::{Access, Api, ApiEndpoint, Operation};

/// APIs of other services: EUDAT's reverse lookup, and doi.org's agency lookup and OpenURL resolver.
pub(crate) static API: Api = Api {
    root: None,
    errors: ErrorFormat::Text,
    endpoints: &[
        ApiEndpoint::new(&["/hrls/handles/{prefix}"], reverse_lookup::describe_under, &REVERSE_LOOKUP),
        ApiEndpoint::new(&["/hrls/handles"], reverse_lookup::describe, &REVERSE_LOOKUP),
        ApiEndpoint::new(
            &["/doiRA/{names}", "/ra/{names}"],
            doi_ra::describe,
            &[Operation::get(|server, call| {
                Box::pin(server.resolver.get_doi_agencies(call.path_param, call.head))
            })],
        ),
        ApiEndpoint::new(
            &["/resolve", "/openurl"],
            spec::describe_open_url,
            &[Operation::get(|server, call| Box::pin(server.open_url(call.head)))
                .kind(RequestKind::Redirect)],
        )
        .aliases(&["/resolve/", "/openurl/"]),
    ],
};

static REVERSE_LOOKUP: [Operation; 1] =
    [Operation::get(|server, call| Box::pin(server.get_reverse_lookup(call.path_param, call.head)))
        .access(Access::Authenticated)];
