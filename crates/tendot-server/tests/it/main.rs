//! Tests of the server over real connections.

mod support;

mod api_v1;
mod browser;
mod change_feed;
mod client_certificates;
mod database_outage;
mod handle_api;
mod handle_api_conformance;
mod http_attacks;
mod http_response_cache;
mod multi_server;
mod nginx;
mod openapi;
mod operability;
mod page_snapshots;
mod redirects;
mod registered_dois;
mod reports;
mod reverse_lookup;
mod tls;
mod upstream_resolver;
