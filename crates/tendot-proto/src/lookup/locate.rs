//! Locates the sites of a prefix.

use alloc::collections::{BTreeSet, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::error::LookupError;
use crate::handle::Handle;
use crate::now::Now;
use crate::record::{HandleValue, ServerInterface, Site, SiteServer, Ttl};
use crate::wire::WireList;

/// Value types that name the sites of a prefix.
pub(super) const SITE_TYPES: &[&[u8]] = &[b"HS_SITE", b"HS_SITE.6", b"HS_SERV"];

/// Value types that name the sites of derived prefixes.
pub(super) const DERIVED_PREFIX_SITE_TYPES: &[&[u8]] =
    &[b"HS_SITE.PREFIX", b"HS_NA_DELEGATE", b"HS_SERV.PREFIX"];

/// Collects the sites of a prefix from `HS_SITE` and `HS_SERV` values.
pub(super) struct SiteLocator {
    pub(super) sites: Vec<Arc<Site<'static>>>,
    /// Records to resolve, with their depth.
    pub(super) pending: VecDeque<(Vec<u8>, u32)>,
    seen: BTreeSet<Vec<u8>>,
    /// Whether values for derived prefixes take precedence.
    pub(super) for_derived_prefix: bool,
    /// Prefix handle that is located; none for a referral.
    pub(super) prefix_handle: Option<Vec<u8>>,
    /// Whether the prefix is resolved a second time, at a primary site.
    pub(super) is_authoritative_retry: bool,
    /// Cache expiration of the result as Unix time in seconds.
    pub(super) expires_at: u64,
    /// Error of a record that could not be resolved.
    pub(super) error: Option<LookupError>,
}

impl SiteLocator {
    /// Maximum number of sites and of records to resolve; a lookup could not query more.
    const MAX_SITES_AND_RECORDS: usize = 64;

    pub(super) fn new(now: Now, for_derived_prefix: bool) -> Self {
        Self {
            sites: Vec::new(),
            pending: VecDeque::new(),
            seen: BTreeSet::new(),
            for_derived_prefix,
            prefix_handle: None,
            is_authoritative_retry: false,
            expires_at: now.unix.saturating_add(Ttl::MAX.as_secs()),
            error: None,
        }
    }

    /// Starts with the record of a prefix.
    pub(super) fn for_prefix(now: Now, prefix: Vec<u8>, depth: u32) -> Self {
        let mut locator = Self { prefix_handle: Some(prefix.clone()), ..Self::new(now, false) };
        locator.add_record(Handle::new(&prefix), depth);
        locator
    }

    /// Whether neither sites nor further records were found.
    pub(super) fn found_nothing(&self) -> bool {
        self.sites.is_empty() && self.seen.len() <= 1 && self.error.is_none()
    }

    pub(super) fn add_record(&mut self, handle: Handle<'_>, depth: u32) {
        if self.seen.len() < Self::MAX_SITES_AND_RECORDS && self.seen.insert(handle.canonical().into_owned())
        {
            self.pending.push_back((handle.as_bytes().to_vec(), depth));
        }
    }

    /// Adds a site, unless the same servers are known with a newer serial number. Servers at one address with different
    /// ports are different.
    pub(super) fn add_site(&mut self, site: &Arc<Site<'static>>) {
        // Comparing the first port suffices; comparing all with all could take long.
        let has_first = |a: &SiteServer<'_>, b: &SiteServer<'_>| {
            let mut interfaces = b.interfaces.iter();
            let is_at = |first: &ServerInterface| {
                interfaces.any(|other| (other.protocol, other.port) == (first.protocol, first.port))
            };
            a.interfaces.first().is_none_or(is_at)
        };
        let is_same = |a: &SiteServer<'_>, b: &SiteServer<'_>| {
            a.id == b.id && a.address == b.address && (has_first(a, b) || has_first(b, a))
        };
        let has_same_servers = |known: &&mut Arc<Site<'static>>| {
            let (a, b) = (&known.servers, &site.servers);
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b))
        };
        let is_full = self.sites.len() >= Self::MAX_SITES_AND_RECORDS;
        match self.sites.iter_mut().find(has_same_servers) {
            Some(known) if known.serial < site.serial => *known = Arc::clone(site),
            Some(_) => {}
            None if is_full => {}
            None => self.sites.push(Arc::clone(site)),
        }
    }

    /// Adds the sites in `values`; `depth` is that of their record.
    pub(super) fn add_values(
        &mut self,
        values: WireList<'_, HandleValue<'_>>,
        root: &[Arc<Site<'static>>],
        depth: u32,
        now: Now,
    ) {
        let is_one_of = |value: &HandleValue<'_>, types: &[&[u8]]| types.contains(&&*value.value_type);
        let uses_derived = self.for_derived_prefix
            && values.iter().any(|value| is_one_of(&value, DERIVED_PREFIX_SITE_TYPES));
        let types = if uses_derived { DERIVED_PREFIX_SITE_TYPES } else { SITE_TYPES };
        for value in values.iter().filter(|value| is_one_of(value, types)) {
            self.expires_at = self.expires_at.min(match value.ttl {
                Ttl::Relative(seconds) => now.unix.saturating_add(u64::from(seconds)),
                Ttl::Absolute(date) => u64::from(date),
                Ttl::Unknown { .. } => now.unix,
            });
            if !value.value_type.starts_with(b"HS_SERV") {
                if let Ok(site) = Site::from_bytes(&value.data) {
                    self.add_site(&Arc::new(site.into_owned()));
                }
            } else if Handle::new(&value.data).eq_ignore_case(Handle::ROOT) {
                root.iter().for_each(|site| self.add_site(site));
            } else {
                self.add_record(Handle::new(&value.data), depth + 1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;
    use crate::record::{InterfaceKind, InterfaceProtocol};

    #[test]
    fn deduplicates_sites() {
        check(&[(1, &[2641]), (2, &[2641])], &[2]);
        check(&[(2, &[2641]), (1, &[2641])], &[2]);
        check(&[(1, &[2641]), (2, &[8000, 2641])], &[2]);
        check(&[(2, &[8000, 2641]), (1, &[2641])], &[2]);
        check(&[(1, &[2641]), (2, &[2642])], &[1, 2]);
        check(&[(1, &[]), (2, &[])], &[2]);
    }

    /// Serial numbers of the retained sites of one server, given serial numbers and ports.
    #[track_caller]
    fn check(sites: &[(u16, &[u32])], expected: &[u16]) {
        let mut locator = SiteLocator::new(Now { elapsed: Duration::ZERO, unix: 0 }, false);
        for (serial, ports) in sites {
            let interface = |port: &u32| ServerInterface {
                kind: InterfaceKind::BOTH,
                protocol: InterfaceProtocol::TCP,
                port: *port,
            };
            let server =
                SiteServer { interfaces: ports.iter().map(interface).collect(), ..SiteServer::default() };
            let site = Site { serial: *serial, servers: alloc::vec![server], ..Site::default() };
            locator.add_site(&Arc::new(site));
        }
        let serials: Vec<u16> = locator.sites.iter().map(|site| site.serial).collect();
        assert_eq!(serials, expected, "{sites:?}");
    }
}
