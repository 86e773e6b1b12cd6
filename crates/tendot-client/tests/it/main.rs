//! Integration tests: caching resolver, HTTP upstream, Handle protocol client.

mod http_upstream;
mod native_admin;
mod native_resolve;
mod resolver;
mod stopped_clock;
