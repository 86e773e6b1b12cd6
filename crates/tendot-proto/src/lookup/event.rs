//! Output of a lookup: bytes to send, events, responses.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

use super::{LookupError, ServerTarget};
use crate::error::DecodeError;
use crate::message::Message;
use crate::record::{InterfaceProtocol, Site};

/// Bytes to send, with destination and transport.
#[derive(Clone, Eq, PartialEq)]
pub struct Transmit {
    /// Attempt id. Open a connection for each attempt, and pass back received bytes with this id.
    pub attempt: u32,
    /// Transport: UDP, TCP, HTTP (over TCP) or HTTPS (over TLS).
    pub transport: InterfaceProtocol,
    /// Destination.
    pub to: SocketAddr,
    /// Domain name of the server for TLS, if it has one.
    pub domain: Option<String>,
    /// Public key of the server from its site, to compare with that of the TLS connection.
    pub server_key: Vec<u8>,
    /// Datagram, message, or HTTP request with a message.
    pub bytes: Vec<u8>,
}

/// Event of a lookup.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum LookupEvent {
    /// Final response, whatever its code.
    Finished(LookupResponse),
    /// Final failure.
    Failed(LookupError),
    /// First messages of a response that consists of several.
    PartialResponse(LookupResponse),
    /// Request to resolve a domain name: see [`Lookup::handle_addresses`](super::Lookup::handle_addresses).
    ResolveDomain {
        /// Domain name.
        domain: String,
    },
    /// Round-trip time sample, also for a timeout: see [`RttEstimates`](super::RttEstimates).
    RttSample {
        /// Server address.
        server: IpAddr,
        /// Round-trip time, or time waited.
        rtt: Duration,
    },
    /// Sites of a prefix, which may be cached for [`Lookup::with_sites`](super::Lookup::with_sites).
    SitesLocated {
        /// Prefix handle, for example `0.NA/10.1000`.
        prefix_handle: Vec<u8>,
        /// Sites of the prefix.
        sites: Vec<Arc<Site<'static>>>,
        /// Expiration as Unix time in seconds.
        expires_at: u64,
    },
    /// The root sites changed: their serial number is larger than in
    /// [`LookupConfig::root_sites`](super::LookupConfig::root_sites).
    RootChanged,
}

/// Response of a server, with its origin.
#[derive(Clone)]
pub struct LookupResponse {
    /// Encoded message.
    pub bytes: Vec<u8>,
    /// Transport.
    pub transport: InterfaceProtocol,
    /// Server address.
    pub from: SocketAddr,
    /// The server.
    pub server: ServerTarget,
}

impl LookupResponse {
    /// Decodes the message.
    pub fn message(&self) -> Result<Message<'_>, DecodeError> {
        Message::from_bytes(&self.bytes)
    }
}

/// Without message bytes, which may contain secrets.
impl fmt::Debug for Transmit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transmit")
            .field("attempt", &self.attempt)
            .field("transport", &self.transport)
            .field("to", &self.to)
            .field("domain", &self.domain)
            .field("server_key_length", &self.server_key.len())
            .field("length", &self.bytes.len())
            .finish()
    }
}

/// Without message bytes, which may contain secrets.
impl fmt::Debug for LookupResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LookupResponse")
            .field("length", &self.bytes.len())
            .field("transport", &self.transport)
            .field("from", &self.from)
            .field("server_index", &self.server.server_index)
            .finish_non_exhaustive()
    }
}
