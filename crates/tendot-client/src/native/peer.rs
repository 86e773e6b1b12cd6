use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use tendot_proto::lookup::{LookupRequest, LookupResponse};
use tendot_proto::record::{InterfaceProtocol, PublicKey, Site, SiteServer};
use tendot_proto::{Handle, OpFlags, ProtocolVersion};

use super::{NativeClient, ResolveError, RootSites};

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
    place: usize,
    ip: IpAddr,
}

impl AdminServer {
    /// Server responsible for `name` in the first primary site.
    pub fn for_handle(sites: &RootSites, name: &str) -> Option<Self> {
        let site = sites.sites().iter().find(|site| site.is_primary() && !site.servers.is_empty())?;
        let place = Handle::from(name).server_index(site.hash_option, site.servers.len())?;
        let ip = site.servers.get(place)?.ip();
        Some(Self { site: Arc::clone(site), place, ip })
    }

    /// The server that gave an answer.
    fn from_response(answer: &LookupResponse) -> Self {
        Self { site: Arc::clone(&answer.site), place: answer.place, ip: answer.from.ip() }
    }

    /// Its address.
    pub const fn ip(&self) -> IpAddr {
        self.ip
    }

    /// Its site.
    pub fn site(&self) -> &Site<'static> {
        &self.site
    }

    fn server(&self) -> Option<&SiteServer<'static>> {
        self.site.servers.get(self.place)
    }

    /// The key by which it signs, if its site has one that can be read.
    pub(super) fn public_key(&self) -> Option<PublicKey<'_>> {
        PublicKey::from_bytes(&self.server()?.public_key).ok()
    }

    /// The version that is spoken with it.
    pub(super) fn protocol_version(&self) -> ProtocolVersion {
        ProtocolVersion::new(self.site.protocol_major, self.site.protocol_minor).negotiated()
    }

    /// Where it takes changes by this transport.
    pub(super) fn admin_address(&self, transport: InterfaceProtocol) -> Option<SocketAddr> {
        let interfaces = &self.server()?.interfaces;
        let fits = interfaces.iter().filter(|one| one.transport == transport && one.kind.is_admin());
        let port = fits.filter_map(|one| u16::try_from(one.port).ok()).find(|port| *port != 0)?;
        Some(SocketAddr::new(self.ip, port))
    }

    /// By what it is known over TLS: its name in the DNS, if it has one, and its key as its site has it.
    pub(super) fn tls_identity(&self) -> (Option<&str>, &[u8]) {
        (self.site.domain(self.place), self.server().map_or(&[], |server| &server.public_key))
    }

    /// The host of HTTP requests to this address, and what their paths begin with.
    pub(super) fn http_host_and_path(&self, to: SocketAddr) -> (String, &str) {
        let host = match self.site.domain(self.place) {
            Some(domain) => format!("{domain}:{}", to.port()),
            None => to.to_string(),
        };
        (host, self.site.http_path(self.place).unwrap_or_default())
    }
}

impl NativeClient {
    /// Finds the primary site's server that administers (or would create) a record.
    pub async fn locate_admin_server(&self, name: &str) -> Result<AdminServer, ResolveError> {
        let question = LookupRequest::resolve(Handle::from(name), &[], &[b"HS_SITE"]);
        let flags = question.flags().with(OpFlags::AUTHORITATIVE);
        Ok(AdminServer::from_response(&self.lookup(question.with_flags(flags)).await?))
    }
}
