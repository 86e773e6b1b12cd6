//! Administration of records over the native protocol.
//!
//! Files in reading order:
//!
//! - `client.rs`: administration operations
//! - `admin_server.rs`: server that administers a handle
//! - `identity.rs`: administrator identity and key
//! - `exchange.rs`: request, challenge, validated response
//! - `session.rs`: session setup, sealing, opening
//! - `connection.rs`: one request over TCP or HTTP

mod admin_server;
mod client;
mod connection;
mod exchange;
mod identity;
mod session;

pub use admin_server::AdminServer;
pub use client::AdminClient;
pub use identity::AdminIdentity;
