use tendot_proto::record::AdminPermissions;
use tendot_proto::{Budget, Handle};
use tendot_store::{NameKey, RecordStatus, Store, StoredRecord};

use crate::caller::Claimant;
use crate::doi::is_reserved;
use crate::party::RESERVED_PREFIX;
use crate::party::Scope;
use crate::permission::Requirement;
use crate::{Caller, Error, Registry, price};

/// Handles of one list request, and where to continue.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct HandleList {
    /// The names, in the order of their keys. There may be fewer than were asked for, even none, and yet more to come.
    pub names: Vec<Box<str>>,
    /// Where to go on, if there is more.
    pub next: Option<Box<str>>,
}

/// Number of handles in one count request, and where to continue.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct HandleCount {
    /// How many.
    pub names: u64,
    /// Where to go on, if there may be more.
    pub next: Option<Box<str>>,
}

/// Parties that are counted out; of more, the rest is counted as names.
const MAX_COUNTED_OBJECTS: usize = 100_000;

/// Handle met while listing.
struct ListedHandle {
    name: Box<str>,
    /// Whether it resolves.
    is_shown: bool,
}

/// List request: its requirement, prefix and start.
pub(crate) struct HandleListing {
    pub(crate) needed: Requirement,
    /// Names under this prefix …
    prefix: Vec<u8>,
    /// … that begin so; folded.
    start: Vec<u8>,
}

impl Registry {
    /// The names under a prefix, which is given as `0.NA/10.1000` or `10.1000`; or as `0.NA/0.NA/10.1000` the records of
    /// all prefixes derived from it. At most `limit` of them, after `after`, which is what they cost. Names that have
    /// ended or are only reserved are left out.
    pub async fn list_handles(
        &self,
        prefix: Handle<'_>,
        after: Option<&str>,
        limit: usize,
        caller: &Caller,
        work: &mut Budget,
    ) -> Result<HandleList, Error> {
        let listing = self.plan_listing(prefix, work).await?;
        self.authorize_list(prefix, &listing.needed, Claimant::new(caller), work).await?;
        // Where names begin so; one that is nothing else is no name of a derived prefix.
        let start = std::str::from_utf8(&listing.start).ok().and_then(|start| NameKey::new(start).ok());
        let after = after.and_then(|after| NameKey::new(after).ok()).max(start);
        work.charge(price::list(limit))?;
        let listed = self.scan_handles(&listing.prefix, after.as_ref(), limit, work).await?;
        let begins = |name: &str| {
            let start = name.as_bytes().get(..listing.start.len());
            start.is_some_and(|start| start.eq_ignore_ascii_case(&listing.start))
        };
        let full = listed.len() >= limit;
        let next = listed.last().filter(|last| full && begins(&last.name)).map(|last| last.name.clone());
        // What another server of the site keeps is listed there.
        let is_ours = |name: &str| begins(name) && self.owns(Handle::from(name));
        let shown = listed.into_iter().filter(|listed| listed.is_shown && is_ours(&listed.name));
        Ok(HandleList { names: shown.map(|listed| listed.name).collect(), next })
    }

    /// The next names under a prefix. Only where the registry gave the prefix to somebody can names be reserved, and only
    /// there whole records are read for that.
    async fn scan_handles(
        &self,
        prefix: &[u8],
        after: Option<&NameKey>,
        limit: usize,
        work: &mut Budget,
    ) -> Result<Vec<ListedHandle>, Error> {
        if !self.lists_allocated_names(prefix, work).await? {
            let listed = self.store.list_names(prefix, after, limit).await?.into_iter();
            let shown = |listed: &tendot_store::NameEntry| listed.state == RecordStatus::Live;
            return Ok(listed.map(|one| ListedHandle { is_shown: shown(&one), name: one.name }).collect());
        }
        let mut listed = Vec::new();
        let visit = |entry: &StoredRecord| {
            let is_shown = entry.state == RecordStatus::Live && !is_reserved(entry);
            listed.push(ListedHandle { name: entry.name.clone(), is_shown });
            listed.len() < limit
        };
        if limit > 0 {
            self.store.scan_records(Some(prefix), after, visit).await?;
        }
        Ok(listed)
    }

    async fn lists_allocated_names(&self, prefix: &[u8], work: &mut Budget) -> Result<bool, Error> {
        let Ok(prefix) = std::str::from_utf8(prefix) else { return Ok(false) };
        Ok(self.prefix_entry(prefix, work).await?.is_some())
    }

    /// How many names there are, without what is the registry's own; none if that would have to be counted.
    pub async fn count_all_handles(&self) -> Result<Option<u64>, Error> {
        let Some(size) = self.store.name_count().await? else { return Ok(None) };
        let own = self.store.count_names(RESERVED_PREFIX.as_bytes(), None, MAX_COUNTED_OBJECTS).await?;
        Ok(Some(size.saturating_sub(own.live)))
    }

    /// How many names [`list_handles`](Self::list_handles) would give: of the next `limit` after `after`. Who asks for all of them goes on at
    /// [`HandleCount::next`], and decides how far.
    pub async fn count_handles(
        &self,
        prefix: Handle<'_>,
        after: Option<&str>,
        limit: usize,
        caller: &Caller,
        work: &mut Budget,
    ) -> Result<HandleCount, Error> {
        let listing = self.plan_listing(prefix, work).await?;
        // What is counted without being looked at may be another server's, or only reserved.
        let is_allocated = self.lists_allocated_names(&listing.prefix, work).await?;
        if !listing.start.is_empty() || self.settings.share.is_some() || is_allocated {
            let page = self.list_handles(prefix, after, limit, caller, work).await?;
            return Ok(HandleCount { names: page.names.len() as u64, next: page.next });
        }
        self.authorize_list(prefix, &listing.needed, Claimant::new(caller), work).await?;
        work.charge(price::count(limit))?;
        let after = after.and_then(|after| NameKey::new(after).ok());
        let counted = self.store.count_names(&listing.prefix, after.as_ref(), limit).await?;
        Ok(HandleCount { names: counted.live, next: counted.next.map(|next| next.to_string().into()) })
    }

    /// The homed prefixes as they are written for the protocol, `0.NA/10.1000`. At most `limit` of them, after `after`.
    pub async fn list_homed_prefixes(
        &self,
        after: Option<&str>,
        limit: usize,
        caller: &Caller,
        work: &mut Budget,
    ) -> Result<HandleList, Error> {
        self.authorize(&Requirement::Server, Claimant::new(caller), work).await?;
        let after = after.map(|after| parse_homed_prefix(Handle::from(after))).transpose()?;
        work.charge(price::list(limit))?;
        let homed = self.store.list_homed(after.as_deref().map(str::as_bytes), limit).await?;
        let names: Vec<Box<str>> = homed.iter().map(|prefix| format!("0.NA/{prefix}").into()).collect();
        let next = names.last().filter(|_| names.len() >= limit).cloned();
        Ok(HandleList { names, next })
    }

    /// Whether who asks may have a list: of a prefix that the registry gave to somebody, as of a name there.
    pub(crate) async fn authorize_list(
        &self,
        prefix: Handle<'_>,
        needed: &Requirement,
        asker: Claimant<'_>,
        work: &mut Budget,
    ) -> Result<(), Error> {
        let name = format!("{}/", parse_homed_prefix(prefix)?);
        self.authorize_for_name(Some(Handle::from(&*name)), needed, asker, Scope::Read, work).await
    }

    pub(crate) async fn plan_listing(
        &self,
        prefix: Handle<'_>,
        work: &mut Budget,
    ) -> Result<HandleListing, Error> {
        if !self.settings.list_handles {
            return Err(Error::ListingDisabled);
        }
        // Nothing is kept under what is no prefix.
        let elsewhere = |_| Error::NotResponsible { prefix: prefix.to_string().into() };
        let homed = parse_homed_prefix(prefix).map_err(elsewhere)?;
        let (governing, prefix, start) = match homed.split_once('/') {
            // Derived prefixes.
            Some((_, of)) => {
                // Of any of them it is known whether it would be here.
                self.check_site_responsible(Handle::new(format!("0.NA/{of}.1").as_bytes()), work).await?;
                let start = format!("0.NA/{of}.").to_ascii_uppercase().into_bytes();
                (format!("0.NA/{of}"), b"0.NA".to_vec(), start)
            }
            None => {
                self.check_site_responsible(Handle::new(format!("{homed}/").as_bytes()), work).await?;
                (format!("0.NA/{homed}"), homed.as_bytes().to_vec(), Vec::new())
            }
        };
        work.charge(price::LOOKUP)?;
        let right = self.prefix_admins(governing.as_bytes(), AdminPermissions::LIST_HANDLES, work).await?;
        Ok(HandleListing { needed: Requirement::RightOrServer(right), prefix, start })
    }
}

/// Bytes of a prefix that can be homed. Nobody has one that comes near, and stores keep prefixes as short keys.
const MAX_HOMED_PREFIX_LEN: usize = 255;

/// What is kept of a homed prefix: what follows `0.NA/`.
pub(crate) fn parse_homed_prefix(prefix: Handle<'_>) -> Result<Box<str>, Error> {
    prefix.validate()?;
    let full = prefix.qualified();
    let name = Handle::new(&full);
    let not_prefix = || Error::NotPrefix { name: prefix.to_string().into() };
    let is_prefix = |suffix: &&[u8]| name.is_prefix_handle() && suffix.len() <= MAX_HOMED_PREFIX_LEN;
    let suffix = name.suffix().filter(is_prefix).ok_or_else(not_prefix)?;
    let text = std::str::from_utf8(suffix).map_err(|_| not_prefix())?;
    // A slash is in it only for the prefixes derived from another.
    let prefix = text.split_once('/').map_or(Some(text), |(start, of)| {
        (start.eq_ignore_ascii_case("0.NA") && !of.contains('/')).then_some(of)
    });
    let well_formed = |prefix: &str| !prefix.is_empty() && prefix.split('.').all(|part| !part.is_empty());
    if prefix.is_some_and(well_formed) { Ok(text.into()) } else { Err(not_prefix()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes() {
        check("0.NA/10.1000", Some("10.1000"));
        check("10.1000", Some("10.1000"));
        check("0.na/20.abc", Some("20.abc"));
        check("0.NA/0.NA", Some("0.NA"));
        check("0.NA/0.NA/10", Some("0.NA/10"));
        check("0.NA/10/x", None);
        check("0.NA/0.NA/10/x", None);
        check("0.NA/0.NA/", None);
        check("0.NA/", None);
        check("", None);
        check("10.1000/x", None);
        check("10..1", None);
        check(".", None);
        let long = "1".repeat(256);
        check(&long, None);
        check(&long[1..], Some(&long[1..]));
    }

    #[track_caller]
    fn check(written: &str, expected: Option<&str>) {
        assert_eq!(parse_homed_prefix(Handle::from(written)).ok().as_deref(), expected, "{written}");
    }
}
