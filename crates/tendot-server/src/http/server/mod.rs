//! HTTP connections, from accept to close.

pub(crate) mod client_verifier;
pub(crate) mod connection;
pub(crate) mod listener;
pub(crate) mod parse_error;
pub(crate) mod smuggling_guard;
pub(crate) mod timeouts;
pub(crate) mod tls;
pub(crate) mod x509;
