//! Integration tests: caching resolver, HTTP upstream, registry client, Handle protocol client.

mod http_upstream;
mod native_admin;
mod native_resolve;
mod registry;
mod resolver;
mod stopped_clock;
