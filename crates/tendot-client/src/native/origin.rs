use std::fmt;
use std::net::SocketAddr;

use tendot_proto::record::InterfaceProtocol;

/// Address and transport of a server.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TransportAddress {
    /// The server.
    pub address: SocketAddr,
    /// How it was asked.
    pub transport: InterfaceProtocol,
}

impl fmt::Display for TransportAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} over {}", self.address, self.transport)
    }
}
