//! Server of a site, and where to reach it.

use alloc::string::String;
use alloc::sync::Arc;
use core::net::{IpAddr, SocketAddr};

use crate::handle::Handle;
use crate::record::{InterfaceKind, InterfaceProtocol, Site, SiteServer};

/// Server of a site, at one of its addresses.
///
/// ```
/// use std::sync::Arc;
/// use tendot_proto::Handle;
/// use tendot_proto::lookup::ServerTarget;
/// use tendot_proto::record::{InterfaceKind, InterfaceProtocol, ServerInterface, Site, SiteServer};
///
/// let tcp = ServerInterface { kind: InterfaceKind::BOTH, protocol: InterfaceProtocol::TCP, port: 2641 };
/// let address = SiteServer::encode_address("192.0.2.1".parse()?);
/// let server = SiteServer { address, interfaces: vec![tcp], ..SiteServer::default() };
/// let site = Arc::new(Site { servers: vec![server], ..Site::default() });
///
/// let target = ServerTarget::for_handle(&site, Handle::from("10.1000/182")).unwrap();
/// let address = target.address(InterfaceProtocol::TCP, InterfaceKind::is_admin);
/// assert_eq!(address, Some("192.0.2.1:2641".parse()?));
/// assert_eq!(target.address(InterfaceProtocol::UDP, InterfaceKind::is_query), None);
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ServerTarget {
    /// Site of the server.
    pub site: Arc<Site<'static>>,
    /// Index of the server in its site.
    pub server_index: usize,
    /// Address of the server.
    pub ip: IpAddr,
}

impl ServerTarget {
    /// Server of a site that is responsible for a handle, at the address in the site record.
    pub fn for_handle(site: &Arc<Site<'static>>, handle: Handle<'_>) -> Option<Self> {
        let server_index = handle.server_index(site.hash_option, site.servers.len())?;
        let ip = site.servers.get(server_index)?.ip();
        Some(Self { site: Arc::clone(site), server_index, ip })
    }

    /// Server in the site record.
    pub fn server(&self) -> Option<&SiteServer<'static>> {
        self.site.servers.get(self.server_index)
    }

    /// Encoded public key of the server; empty if the site record has none.
    pub fn public_key(&self) -> &[u8] {
        self.server().map_or(&[], |server| &server.public_key)
    }

    /// Domain name of the server, if it has one.
    pub fn domain(&self) -> Option<&str> {
        self.site.domain(self.server_index)
    }

    /// Address of the first interface for a transport and a kind of request.
    pub fn address(
        &self,
        transport: InterfaceProtocol,
        accepts: impl Fn(InterfaceKind) -> bool,
    ) -> Option<SocketAddr> {
        let interfaces = self.server()?.interfaces.iter();
        let usable =
            interfaces.filter(|interface| interface.protocol == transport && accepts(interface.kind));
        let port =
            usable.filter_map(|interface| u16::try_from(interface.port).ok()).find(|port| *port != 0)?;
        Some(SocketAddr::new(self.ip, port))
    }

    /// `Host` of HTTP requests to an address of the server, and the prefix of their paths.
    pub fn http_host_and_path(&self, to: SocketAddr) -> (String, &str) {
        let host = match self.domain() {
            Some(domain) => alloc::format!("{domain}:{}", to.port()),
            None => alloc::format!("{to}"),
        };
        (host, self.site.http_path(self.server_index).unwrap_or_default())
    }

    /// Whether both are the same server, whatever the transport.
    pub(super) fn is_same_server(&self, other: &Self) -> bool {
        self.ip == other.ip
            && self.server().map(|server| &server.interfaces)
                == other.server().map(|server| &server.interfaces)
    }
}
