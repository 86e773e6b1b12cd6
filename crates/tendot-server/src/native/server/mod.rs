//! Sockets and connections of the native protocol.
//!
//! In reading order:
//!
//! - `listener.rs`: sockets, accept loop, drain
//! - `tcp.rs`: one TCP connection
//! - `udp.rs`: UDP worker threads
//! - `udp_reply_cache.rs`: copies of UDP requests
//! - `udp_socket.rs`: batched receive, reply from the receiving address
//! - `tls.rs`: TLS with a self-signed certificate

pub(crate) mod listener;
pub(crate) mod tcp;
pub(crate) mod tls;
pub(crate) mod udp;
pub(crate) mod udp_reply_cache;
pub(crate) mod udp_socket;
