//! Tests of HTTP and the Handle protocol over real sockets.

mod native_attacks_messages;
mod native_attacks_permissions;
mod native_attacks_udp;
mod native_conformance;
mod native_response_cache;
mod native_service;
mod support;
