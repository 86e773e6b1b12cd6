//! Server that administers a handle.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use tendot_proto::lookup::LookupResponse;
use tendot_proto::record::{InterfaceProtocol, PublicKey, Site, SiteServer};
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
pub struct AdminServer {
    site: Arc<Site<'static>>,
    server_index: usize,
    ip: IpAddr,
}

impl AdminServer {
    /// Server responsible for `name` in the first primary site.
    pub fn for_handle(sites: &RootSites, name: &str) -> Option<Self> {
        let site = sites.sites().iter().find(|site| site.is_primary() && !site.servers.is_empty())?;
        let server_index = Handle::from(name).server_index(site.hash_option, site.servers.len())?;
        let ip = site.servers.get(server_index)?.ip();
        Some(Self { site: Arc::clone(site), server_index, ip })
    }

    /// Server that sent a response.
    pub(in crate::native) fn from_response(response: &LookupResponse) -> Self {
        Self { site: Arc::clone(&response.site), server_index: response.server_index, ip: response.from.ip() }
    }

    /// IP address of the server.
    pub const fn ip(&self) -> IpAddr {
        self.ip
    }

    /// Site of the server.
    pub fn site(&self) -> &Site<'static> {
        &self.site
    }

    fn server(&self) -> Option<&SiteServer<'static>> {
        self.site.servers.get(self.server_index)
    }

    /// Public key of the server in the site record, if it can be decoded.
    pub(super) fn public_key(&self) -> Option<PublicKey<'_>> {
        PublicKey::from_bytes(&self.server()?.public_key).ok()
    }

    /// Protocol version for requests to the server.
    pub(super) fn protocol_version(&self) -> ProtocolVersion {
        self.site.protocol_version.negotiated()
    }

    /// Address of the administration interface for a transport.
    pub(super) fn admin_address(&self, transport: InterfaceProtocol) -> Option<SocketAddr> {
        let interfaces = &self.server()?.interfaces;
        let admin_interfaces = interfaces
            .iter()
            .filter(|interface| interface.protocol == transport && interface.kind.is_admin());
        let port = admin_interfaces
            .filter_map(|interface| u16::try_from(interface.port).ok())
            .find(|port| *port != 0)?;
        Some(SocketAddr::new(self.ip, port))
    }

    /// Identity over TLS: domain name, if there is one, and encoded public key of the site record.
    pub(super) fn tls_identity(&self) -> (Option<&str>, &[u8]) {
        (self.site.domain(self.server_index), self.server().map_or(&[], |server| &server.public_key))
    }

    /// `Host` of HTTP requests to an address, and the prefix of their paths.
    pub(super) fn http_host_and_path(&self, to: SocketAddr) -> (String, &str) {
        let host = match self.site.domain(self.server_index) {
            Some(domain) => format!("{domain}:{}", to.port()),
            None => to.to_string(),
        };
        (host, self.site.http_path(self.server_index).unwrap_or_default())
    }
}
