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
    pub root_sites: Vec<Arc<Site<'static>>>,
    /// Sites by prefix, in upper case, that replace resolution at the root.
    pub prefix_overrides: BTreeMap<Vec<u8>, Vec<Arc<Site<'static>>>>,
    /// Transports in order of preference: each is tried at all sites before the next.
    pub transports: Vec<InterfaceProtocol>,
    /// Whether IPv4 is available.
    pub ipv4: bool,
    /// Whether IPv6 is available.
    pub ipv6: bool,
    /// Whether records may direct a lookup to addresses that are not public, such as loopback or private networks.
    /// Otherwise the owner of any prefix could make the client send requests there (SSRF). Does not apply to
    /// `root_sites` and `prefix_overrides`, which the caller configures; sites from
    /// [`LookupEvent::SitesLocated`](super::LookupEvent::SitesLocated) come from records.
    pub allow_private_addresses: bool,
    /// Whether responses must be signed by the queried server and have the SHA-256 digest of the request. Needs
    /// `crypto`, and servers with version 2.7 or later.
    pub require_signatures: bool,
    /// Cryptography provider that verifies signatures and digests.
    pub crypto: Option<Arc<dyn CryptoProvider>>,
    /// Algorithms accepted in signatures and digests. Many servers have keys that need more than the default.
    pub policy: AuthPolicy,
    /// Round-trip times of earlier requests.
    pub rtt_estimates: Option<Arc<dyn RttEstimates>>,
    /// Timeout of a lookup.
    pub timeout: Duration,
    /// Maximum number of messages of a lookup, with retransmissions.
    pub max_messages: u32,
    /// Maximum number of domain names to resolve per lookup; servers with further names are not queried.
    pub max_domains: u32,
    /// Maximum number of referrals to follow.
    pub max_referrals: u32,
    /// Maximum number of service handles in a chain.
    pub max_service_depth: u32,
    /// UDP timeouts: the message is sent once for each.
    pub udp_timeouts: Vec<Duration>,
    /// Whether requests that must not be repeated but change no record (session setup, challenge response) may use UDP,
    /// as in Handle.Net's client: one message to one server, with the total UDP timeout. Otherwise they use connections
    /// only, as writes always do.
    pub allow_single_shot_udp: bool,
    /// Timeout of a response over a connection.
    pub stream_timeout: Duration,
    /// Delay before the next site is queried in parallel (RFC 8305: connection attempt delay).
    pub next_site_delay: Duration,
    /// Delay before the next site is queried in parallel, if its address is of the other family.
    pub other_family_delay: Duration,
}

impl LookupConfig {
    /// Configuration with the root sites, and the timeouts and limits of Handle.Net where it has any.
    ///
    /// HTTPS is not among the transports, since not every caller supports it.
    pub fn new(root_sites: Vec<Arc<Site<'static>>>) -> Self {
        Self {
            root_sites,
            prefix_overrides: BTreeMap::new(),
            transports: [InterfaceProtocol::UDP, InterfaceProtocol::TCP, InterfaceProtocol::HTTP].to_vec(),
            ipv4: true,
            ipv6: true,
            allow_private_addresses: false,
            require_signatures: false,
            crypto: None,
            policy: AuthPolicy::default(),
            rtt_estimates: None,
            timeout: Duration::from_secs(10),
            max_messages: 64,
            max_domains: 8,
            max_referrals: 40,
            max_service_depth: 20,
            udp_timeouts: [500, 1000, 1500].map(Duration::from_millis).to_vec(),
            allow_single_shot_udp: false,
            stream_timeout: Duration::from_secs(4),
            next_site_delay: Duration::from_millis(500),
            other_family_delay: Duration::from_millis(300),
        }
    }

    /// Sites responsible for a handle, if the configuration has them.
    pub(super) fn known_sites(&self, handle: Handle<'_>) -> Option<(&[Arc<Site<'static>>], SiteSource)> {
        let prefix = match handle.suffix() {
            Some(_) => handle.prefix().to_ascii_uppercase(),
            None => b"0.NA".to_vec(),
        };
        match self.prefix_overrides.get(&prefix) {
            Some(sites) => Some((sites, SiteSource::Override)),
            None => handle.is_global().then_some((&self.root_sites, SiteSource::Root)),
        }
    }
}

/// Source of the sites to query.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(super) enum SiteSource {
    /// [`LookupConfig::root_sites`].
    Root,
    /// [`LookupConfig::prefix_overrides`].
    Override,
    /// Untrusted records.
    Records,
}

/// Round-trip time estimates per server, maintained by the caller.
pub trait RttEstimates: fmt::Debug + Send + Sync {
    /// Estimated round-trip time of a server, if it was queried before.
    fn rtt(&self, server: IpAddr) -> Option<Duration>;
}
