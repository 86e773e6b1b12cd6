use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;
use core::time::Duration;

use crate::auth::AuthPolicy;
use crate::crypto::CryptoProvider;
use crate::handle::Handle;
use crate::record::{InterfaceProtocol, Site};

/// Lookup settings shared by all lookups of a program: root sites, transports, timeouts, limits.
#[derive(Clone, Debug)]
pub struct LookupConfig {
    /// The sites of the root, who know about prefixes.
    pub root: Vec<Arc<Site<'static>>>,
    /// Prefixes, in upper case, whose sites are known without asking.
    pub overrides: BTreeMap<Vec<u8>, Vec<Arc<Site<'static>>>>,
    /// What is tried, in this order: one at all sites before the next at any.
    pub transports: Vec<InterfaceProtocol>,
    /// Whether IPv4 can be used.
    pub ipv4: bool,
    /// Whether IPv6 can be used.
    pub ipv6: bool,
    /// Whether records may send a lookup to addresses that are not public, as of this machine or of a network behind a
    /// firewall. If not, anybody who has a prefix could make us send requests there (SSRF). It does not matter for
    /// `root` and `overrides`, which are the caller's own choice; sites from [`ReplicationEvent::Located`](super::Event::Located)
    /// are from records.
    pub private_addresses: bool,
    /// Whether answers must be signed by the server that was asked, with the SHA-256 digest of what it was asked. It
    /// needs `crypto`, and servers that speak 2.7 or later.
    pub certify: bool,
    /// What checks signatures and digests.
    pub crypto: Option<Arc<dyn CryptoProvider>>,
    /// What signatures and digests may be made by. Many servers have keys that need more than the default.
    pub policy: AuthPolicy,
    /// How fast servers were before.
    pub response_times: Option<Arc<dyn RttEstimates>>,
    /// When a lookup ends at the latest.
    pub time: Duration,
    /// How many messages a lookup may send, repeated ones included.
    pub messages: u32,
    /// How many names of servers a lookup may have resolved in the DNS; servers with further names are not asked.
    pub domains: u32,
    /// How often a lookup lets itself be referred to other sites.
    pub referrals: u32,
    /// How many records deep sites are looked for.
    pub service_depth: u32,
    /// How long an answer is waited for over UDP: the message is sent once for each of these.
    pub datagram_waits: Vec<Duration>,
    /// Whether questions that must not be repeated, but change no record (a session, the answer to a challenge), may go
    /// over UDP, as clients of the deployed software send them: one message to one server, which is waited for as long
    /// as for a repeated one. If not, they go over connections only, as changes always do.
    pub single_datagrams: bool,
    /// How long an answer is waited for over connections.
    pub stream_wait: Duration,
    /// When the next site is tried beside one that has not answered.
    pub next_site: Duration,
    /// The same if the next one is of the other family of addresses.
    pub next_family: Duration,
}

impl LookupConfig {
    /// A client that knows the root sites, with the times and bounds of the deployed software where it has some.
    ///
    /// HTTPS is not among the transports, since not everybody can do it.
    pub fn new(root: Vec<Arc<Site<'static>>>) -> Self {
        Self {
            root,
            overrides: BTreeMap::new(),
            transports: [InterfaceProtocol::UDP, InterfaceProtocol::TCP, InterfaceProtocol::HTTP].to_vec(),
            ipv4: true,
            ipv6: true,
            private_addresses: false,
            certify: false,
            crypto: None,
            policy: AuthPolicy::default(),
            response_times: None,
            time: Duration::from_secs(10),
            messages: 64,
            domains: 8,
            referrals: 40,
            service_depth: 20,
            datagram_waits: [500, 1000, 1500].map(Duration::from_millis).to_vec(),
            single_datagrams: false,
            stream_wait: Duration::from_secs(4),
            next_site: Duration::from_millis(500),
            next_family: Duration::from_millis(300),
        }
    }

    /// The sites that keep a handle, if that is known without asking.
    pub(super) fn known_sites(&self, handle: Handle<'_>) -> Option<(&[Arc<Site<'static>>], SiteSource)> {
        let prefix = match handle.suffix() {
            Some(_) => handle.prefix().to_ascii_uppercase(),
            None => b"0.NA".to_vec(),
        };
        match self.overrides.get(&prefix) {
            Some(sites) => Some((sites, SiteSource::Override)),
            None => handle.is_global().then_some((&self.root, SiteSource::Root)),
        }
    }
}

/// From where it is known which sites to ask.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(super) enum SiteSource {
    /// [`LookupConfig::root`].
    Root,
    /// [`LookupConfig::overrides`].
    Override,
    /// Records of others, now or earlier.
    Records,
}

/// Round-trip time estimates per server, maintained by the caller.
pub trait RttEstimates: fmt::Debug + Send + Sync {
    /// The time that a server needed, if it was ever asked.
    fn rtt(&self, server: IpAddr) -> Option<Duration>;
}
