//! Sockets and connections of the native protocol.

pub(crate) mod listener;
pub(crate) mod tcp;
pub(crate) mod tls;
pub(crate) mod udp;
pub(crate) mod udp_socket;
