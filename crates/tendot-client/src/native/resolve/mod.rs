//! Resolution over the native protocol.
//!
//! Files in reading order:
//!
//! - `client.rs`: client; finds the sites of a prefix in its cache, or through the root
//! - `single_flight.rs`: one lookup per prefix at a time
//! - `site_cache.rs`: cache of prefix sites
//! - `io_loop.rs`: runs a [`Lookup`](tendot_proto::lookup::Lookup) over sockets
//! - `sockets.rs`: sockets of one lookup
//! - `rtt.rs`: smoothed response times of servers

mod client;
mod io_loop;
mod rtt;
mod single_flight;
mod site_cache;
mod sockets;

pub use client::{NativeClient, ResolveOptions, ServerReply};
