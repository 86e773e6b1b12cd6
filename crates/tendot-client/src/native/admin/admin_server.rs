//! Server that administers a handle.

use std::net::{IpAddr, SocketAddr};

use tendot_proto::lookup::{LookupResponse, ServerTarget};
use tendot_proto::record::{InterfaceKind, InterfaceProtocol, PublicKey, Site};
use tendot_proto::{Handle, ProtocolVersion};

use crate::native::RootSites;

/// Server of a primary site that administers a handle.
///
/// ```
/// use tendot_client::native::{AdminServer, RootSites};
///
/// let root = RootSites::from_addresses(&["127.0.0.1:2641".parse()?], None);
/// assert_eq!(AdminServer::for_handle(&root, "10.1000/182").unwrap().ip().to_string(), "127.0.0.1");
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
#[derive(Clone, Debug)]
pub struct AdminServer(ServerTarget);

impl AdminServer {
    /// Server responsible for `name` in the first primary site.
    pub fn for_handle(sites: &RootSites, name: &str) -> Option<Self> {
        let site = sites.sites().iter().find(|site| site.is_primary() && !site.servers.is_empty())?;
        ServerTarget::for_handle(site, Handle::from(name)).map(Self)
    }

    /// Server that sent a response.
    pub(in crate::native) fn from_response(response: &LookupResponse) -> Self {
        Self(response.server.clone())
    }

    /// IP address of the server.
    pub const fn ip(&self) -> IpAddr {
        self.0.ip
    }

    /// Site of the server.
    pub fn site(&self) -> &Site<'static> {
        &self.0.site
    }

    /// Public key of the server in the site record, if it can be decoded.
    pub(super) fn public_key(&self) -> Option<PublicKey<'_>> {
        PublicKey::from_bytes(self.0.public_key()).ok()
    }

    /// Protocol version for requests to the server.
    pub(super) fn protocol_version(&self) -> ProtocolVersion {
        self.site().protocol_version.negotiated()
    }

    /// Address of the administration interface for a transport.
    pub(super) fn admin_address(&self, transport: InterfaceProtocol) -> Option<SocketAddr> {
        self.0.address(transport, InterfaceKind::is_admin)
    }

    /// Identity over TLS: domain name, if there is one, and encoded public key of the site record.
    pub(super) fn tls_identity(&self) -> (Option<&str>, &[u8]) {
        (self.0.domain(), self.0.public_key())
    }

    /// `Host` of HTTP requests to an address, and the prefix of their paths.
    pub(super) fn http_host_and_path(&self, to: SocketAddr) -> (String, &str) {
        self.0.http_host_and_path(to)
    }
}
