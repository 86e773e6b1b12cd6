//! Lookup settings: root sites, transports, timeouts, limits.

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
    /// Root sites, which resolve prefix handles.
    pub root: Vec<Arc<Site<'static>>>,
    /// Sites by prefix, in upper case, that replace resolution at the root.
    pub overrides: BTreeMap<Vec<u8>, Vec<Arc<Site<'static>>>>,
    /// Transports in order of preference: each is tried at all sites before the next.
    pub transports: Vec<InterfaceProtocol>,
    /// Whether IPv4 is available.
    pub ipv4: bool,
    /// Whether IPv6 is available.
    pub ipv6: bool,
    /// Whether records may direct a lookup to addresses that are not public, such as loopback or private networks.
    /// Otherwise the owner of any prefix could make the client send requests there (SSRF). Does not apply to `root` and
    /// `overrides`, which the caller configures; sites from [`LookupEvent::Located`](super::LookupEvent::Located) come
    /// from records.
    pub private_addresses: bool,
    /// Whether responses must be signed by the queried server and have the SHA-256 digest of the request. Needs
    /// `crypto`, and servers with version 2.7 or later.
    pub certify: bool,
    /// Cryptography provider that verifies signatures and digests.
    pub crypto: Option<Arc<dyn CryptoProvider>>,
    /// Algorithms accepted in signatures and digests. Many servers have keys that need more than the default.
    pub policy: AuthPolicy,
    /// Round-trip times of earlier requests.
    pub response_times: Option<Arc<dyn RttEstimates>>,
    /// Timeout of a lookup.
    pub time: Duration,
    /// Maximum number of messages of a lookup, with retransmissions.
    pub messages: u32,
    /// Maximum number of domain names to resolve per lookup; servers with further names are not queried.
    pub domains: u32,
    /// Maximum number of referrals to follow.
    pub referrals: u32,
    /// Maximum number of service handles in a chain.
    pub service_depth: u32,
    /// UDP timeouts: the message is sent once for each.
    pub datagram_waits: Vec<Duration>,
    /// Whether requests that must not be repeated but change no record (session setup, challenge response) may use UDP,
    /// as in Handle.Net's client: one message to one server, with the total UDP timeout. Otherwise they use connections
    /// only, as writes always do.
    pub single_datagrams: bool,
    /// Timeout of a response over a connection.
    pub stream_wait: Duration,
    /// Delay before the next site is queried in parallel.
    pub next_site: Duration,
    /// Delay before the next site is queried in parallel, if its address is of the other family.
    pub next_family: Duration,
}

impl LookupConfig {
    /// Configuration with the root sites, and the timeouts and limits of Handle.Net where it has any.
    ///
    /// HTTPS is not among the transports, since not every caller supports it.
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

    /// Sites responsible for a handle, if the configuration has them.
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

/// Source of the sites to query.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(super) enum SiteSource {
    /// [`LookupConfig::root`].
    Root,
    /// [`LookupConfig::overrides`].
    Override,
    /// Untrusted records.
    Records,
}

/// Round-trip time estimates per server, maintained by the caller.
pub trait RttEstimates: fmt::Debug + Send + Sync {
    /// Estimated round-trip time of a server, if it was queried before.
    fn rtt(&self, server: IpAddr) -> Option<Duration>;
}
