//! Integration tests of the HTTP API and the native protocol over real sockets, one module per topic.

mod support;

mod api_v1;
mod api_v1_batches;
mod browser;
mod change_feed;
mod client_certificates;
mod database_outage;
mod handle_api;
mod handle_api_conformance;
mod http_attacks;
mod http_response_cache;
mod multi_server;
mod native_attacks_messages;
mod native_attacks_permissions;
mod native_attacks_udp;
mod native_conformance;
mod native_duplicates;
mod native_response_cache;
mod native_service;
mod nginx;
mod openapi;
mod operability;
mod page_snapshots;
mod redirects;
mod registered_dois;
mod reports;
mod reverse_lookup;
mod suggestions;
mod tls;
mod upstream_resolver;
