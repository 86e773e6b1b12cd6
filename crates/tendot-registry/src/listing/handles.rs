//! Lists and counts handles under a prefix; lists homed prefixes.

use tendot_proto::record::AdminPermissions;
use tendot_proto::{Budget, Handle};
use tendot_store::{NameKey, RecordStatus, Store, StoredRecord};

use crate::authorization::{Claimant, Requirement};
use crate::handle_write::parse_homed_prefix;
use crate::party::{RESERVED_PREFIX, Scope};
use crate::registration::is_reserved;
use crate::rules::{Authorizer, RecordReader};
use crate::{Caller, Error, Registry, ResultPage, cost};

/// Number of handles in one count request, and where to continue.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct HandleCount {
    /// Number of names.
    pub names: u64,
    /// Cursor for the next request, if there may be more names.
    pub next: Option<Box<str>>,
}

/// Maximum number of registry objects that are subtracted from the total.
const MAX_COUNTED_OBJECTS: usize = 100_000;

/// Handle found by a scan.
struct ListedHandle {
    name: Box<str>,
    /// Whether the name resolves.
    is_visible: bool,
}

/// List request: its requirement, prefix and start.
pub(crate) struct HandleListing {
    pub(crate) requirement: Requirement,
    /// Prefix to scan.
    prefix: Vec<u8>,
    /// Start of the listed names, case-folded.
    start: Vec<u8>,
}

impl Registry {
    /// Lists names under a prefix, given as `0.NA/10.1000` or `10.1000`; or with `0.NA/0.NA/10.1000` the records of all
    /// prefixes derived from it. Returns at most `limit` names after `after` and costs `limit`. Retired and reserved names
    /// are left out.
    pub async fn list_handles(
        &self,
        prefix: Handle<'_>,
        after: Option<&str>,
        limit: usize,
        caller: &Caller,
        budget: &mut Budget,
    ) -> Result<ResultPage<Box<str>>, Error> {
        let rules = &self.rules;
        let listing = rules.plan_listing(prefix, budget).await?;
        rules.authorize_list(prefix, &listing.requirement, Claimant::authenticated(caller), budget).await?;
        // Skips to the start of the listed names; the start itself is not the name of a derived prefix.
        let start = std::str::from_utf8(&listing.start).ok().and_then(|start| NameKey::new(start).ok());
        let after = after.and_then(|after| NameKey::new(after).ok()).max(start);
        budget.charge(cost::list(limit))?;
        let listed = rules.scan_handles(&listing.prefix, after.as_ref(), limit, budget).await?;
        let has_start = |name: &str| {
            let start = name.as_bytes().get(..listing.start.len());
            start.is_some_and(|start| start.eq_ignore_ascii_case(&listing.start))
        };
        let is_full = listed.len() >= limit;
        let next =
            listed.last().filter(|last| is_full && has_start(&last.name)).map(|last| last.name.clone());
        // Names of other partitions are listed by their servers.
        let is_own = |name: &str| has_start(name) && rules.owns(Handle::from(name));
        let visible = listed.into_iter().filter(|listed| listed.is_visible && is_own(&listed.name));
        Ok(ResultPage { items: visible.map(|listed| listed.name).collect(), next })
    }

    /// Total number of names without registry objects; `None` if the store would have to count.
    pub async fn count_all_handles(&self) -> Result<Option<u64>, Error> {
        let Some(size) = self.rules.store.name_count().await? else { return Ok(None) };
        let registry_objects =
            self.rules.store.count_names(RESERVED_PREFIX.as_bytes(), None, MAX_COUNTED_OBJECTS).await?;
        Ok(Some(size.saturating_sub(registry_objects.live)))
    }

    /// Counts the names that [`list_handles`](Self::list_handles) would return, among the next `limit` after `after`.
    /// Continue at [`HandleCount::next`] for the total.
    pub async fn count_handles(
        &self,
        prefix: Handle<'_>,
        after: Option<&str>,
        limit: usize,
        caller: &Caller,
        budget: &mut Budget,
    ) -> Result<HandleCount, Error> {
        let rules = &self.rules;
        let listing = rules.plan_listing(prefix, budget).await?;
        // The store's count would include names of other partitions and reserved names.
        let is_allocated = rules.lists_allocated_names(&listing.prefix, budget).await?;
        if !listing.start.is_empty() || rules.settings.partition.is_some() || is_allocated {
            let page = self.list_handles(prefix, after, limit, caller, budget).await?;
            return Ok(HandleCount { names: page.items.len() as u64, next: page.next });
        }
        rules.authorize_list(prefix, &listing.requirement, Claimant::authenticated(caller), budget).await?;
        budget.charge(cost::count(limit))?;
        let after = after.and_then(|after| NameKey::new(after).ok());
        let counted = rules.store.count_names(&listing.prefix, after.as_ref(), limit).await?;
        Ok(HandleCount { names: counted.live, next: counted.next.map(|next| next.to_string().into()) })
    }

    /// Lists homed prefixes in the form of the protocol, `0.NA/10.1000`: at most `limit` after `after`.
    pub async fn list_homed_prefixes(
        &self,
        after: Option<&str>,
        limit: usize,
        caller: &Caller,
        budget: &mut Budget,
    ) -> Result<ResultPage<Box<str>>, Error> {
        self.rules.authorize(&Requirement::ServerAdmin, Claimant::authenticated(caller), budget).await?;
        let after = after.map(|after| parse_homed_prefix(Handle::from(after))).transpose()?;
        budget.charge(cost::list(limit))?;
        let homed = self.rules.store.list_homed(after.as_deref().map(str::as_bytes), limit).await?;
        let items: Vec<Box<str>> = homed.iter().map(|prefix| format!("0.NA/{prefix}").into()).collect();
        let next = items.last().filter(|_| items.len() >= limit).cloned();
        Ok(ResultPage { items, next })
    }
}

impl Authorizer {
    /// Authorizes listing: under an allocated prefix like reading a name there.
    pub(crate) async fn authorize_list(
        &self,
        prefix: Handle<'_>,
        requirement: &Requirement,
        claimant: Claimant<'_>,
        budget: &mut Budget,
    ) -> Result<(), Error> {
        let name = format!("{}/", parse_homed_prefix(prefix)?);
        self.authorize_for_name(Some(Handle::from(&*name)), requirement, claimant, Scope::Read, budget).await
    }

    pub(crate) async fn plan_listing(
        &self,
        prefix: Handle<'_>,
        budget: &mut Budget,
    ) -> Result<HandleListing, Error> {
        if !self.settings.allow_listing {
            return Err(Error::ListingDisabled);
        }
        // This service is not responsible for an invalid prefix.
        let not_responsible = |_| Error::NotResponsible { prefix: prefix.to_string().into() };
        let homed = parse_homed_prefix(prefix).map_err(not_responsible)?;
        let (governing, prefix, start) = match homed.split_once('/') {
            // Records of derived prefixes.
            Some((_, of)) => {
                // Responsibility is the same for every derived prefix.
                self.check_site_responsible(Handle::new(format!("0.NA/{of}.1").as_bytes()), budget).await?;
                let start = format!("0.NA/{of}.").to_ascii_uppercase().into_bytes();
                (format!("0.NA/{of}"), b"0.NA".to_vec(), start)
            }
            None => {
                self.check_site_responsible(Handle::new(format!("{homed}/").as_bytes()), budget).await?;
                (format!("0.NA/{homed}"), homed.as_bytes().to_vec(), Vec::new())
            }
        };
        budget.charge(cost::LOOKUP)?;
        let admins = self.prefix_admins(governing.as_bytes(), AdminPermissions::LIST_HANDLES, budget).await?;
        Ok(HandleListing { requirement: Requirement::AdminOrServerAdmin(admins), prefix, start })
    }
}

impl RecordReader {
    /// Scans names under a prefix. Reserved names exist under allocated prefixes only, so complete records are read only
    /// there.
    async fn scan_handles(
        &self,
        prefix: &[u8],
        after: Option<&NameKey>,
        limit: usize,
        budget: &mut Budget,
    ) -> Result<Vec<ListedHandle>, Error> {
        if !self.lists_allocated_names(prefix, budget).await? {
            let listed = self.store.list_names(prefix, after, limit).await?.into_iter();
            let is_visible = |listed: &tendot_store::NameEntry| listed.status == RecordStatus::Live;
            return Ok(listed
                .map(|handle| ListedHandle { is_visible: is_visible(&handle), name: handle.name })
                .collect());
        }
        let mut listed = Vec::new();
        let visit = |entry: &StoredRecord| {
            let is_visible = entry.status == RecordStatus::Live && !is_reserved(entry);
            listed.push(ListedHandle { name: entry.name.clone(), is_visible });
            listed.len() < limit
        };
        if limit > 0 {
            self.store.scan_records(Some(prefix), after, visit).await?;
        }
        Ok(listed)
    }

    async fn lists_allocated_names(&self, prefix: &[u8], budget: &mut Budget) -> Result<bool, Error> {
        let Ok(prefix) = std::str::from_utf8(prefix) else { return Ok(false) };
        Ok(self.prefix_record(prefix, budget).await?.is_some())
    }
}
