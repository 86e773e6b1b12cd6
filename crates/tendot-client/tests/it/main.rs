//! Tests of the caching resolver and of its upstreams, over HTTP and over the Handle protocol.

mod http_upstream;
mod native_admin;
mod native_resolve;
mod resolver;
mod stopped_clock;
