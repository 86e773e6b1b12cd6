//! Client of a native message, for rate and resource limits.

use std::fmt;
use std::net::IpAddr;

use crate::http::RemoteClient;

/// Client of a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct MessageClient {
    /// Address; `None` if a trusted proxy hides it. Such clients share no limit, which would be that of the proxy.
    pub(crate) address: Option<IpAddr>,
    /// Whether the client is on this machine, and not behind a proxy on it.
    pub(crate) is_loopback: bool,
}

impl MessageClient {
    /// Client that sends datagrams or connects to the native port.
    pub(crate) fn direct(address: IpAddr) -> Self {
        Self { address: Some(address), is_loopback: address.to_canonical().is_loopback() }
    }

    /// Client of a message tunneled over HTTP, determined as for other HTTP requests.
    pub(crate) fn tunnelled(client: &RemoteClient, is_hidden: bool) -> Self {
        Self { address: Some(client.address).filter(|_| !is_hidden), is_loopback: client.is_loopback }
    }
}

impl fmt::Display for MessageClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address {
            Some(address) => address.fmt(f),
            None => f.write_str("unknown"),
        }
    }
}
