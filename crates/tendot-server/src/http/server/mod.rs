//! HTTP connections, from accept to close.
//!
//! In reading order:
//!
//! - `listener.rs`: accept loops, connection limits, drain
//! - `connection.rs`: serves one connection, detects idle and stalled clients
//! - `response_body.rs`: response future and body, in chunks
//! - `timeouts.rs`: head, write and linger timeouts
//! - `smuggling_guard.rs`: HTTP/1 head validation
//! - `request_target.rs`: request targets that are not percent-encoded
//! - `parse_error.rs`: body for hyper's own 4xx responses, or a redirect
//! - `tls.rs`: server certificate, reload, expiry warning
//! - `x509.rs`: expiry, subject and RSA key of certificates
//! - `client_verifier.rs`: client certificates without a CA

pub(crate) mod client_verifier;
pub(crate) mod connection;
pub(crate) mod listener;
pub(crate) mod parse_error;
pub(crate) mod request_target;
mod response_body;
pub(crate) mod smuggling_guard;
pub(crate) mod timeouts;
pub(crate) mod tls;
pub(crate) mod x509;
