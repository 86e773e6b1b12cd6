//! Locations of a record: its own, those of included records, and those of its prefix.

use std::time::SystemTime;

use tendot_proto::record::{Locations, Namespace};
use tendot_proto::{Handle, HandleValue};
use tendot_registry::{Caller, Error, ResolveQuery};
use tendot_store::StoreError;

use crate::http::resolve::locations::selection::RedirectCandidate;
use crate::http::resolve::lookup::{FoundRecord, LookupContext, MissingRecord, RecordLookupError};
use crate::http::resolve::resolver::RecordResolver;
use crate::http::response::caching;

/// Records whose locations are combined for one redirect.
const MAX_INCLUDED_RECORDS: usize = 20;

/// Maximum number of candidates.
const MAX_CANDIDATES: usize = 256;

/// Type of location values.
pub(crate) const LOCATION_TYPE: &str = "10320/loc";

/// `10320/loc` values that apply to a record, its own first.
#[derive(Debug, Default)]
pub(crate) struct LocationSet {
    values: Vec<HandleValue<'static>>,
    /// Whether the first one is the record's own.
    has_own: bool,
    /// Whether some of them could not be fetched.
    is_incomplete: bool,
}

impl LocationSet {
    /// Parses the values.
    pub(crate) fn parse(&self) -> Vec<Locations<'_>> {
        self.values.iter().filter_map(|value| Locations::from_bytes(&value.data).ok()).collect()
    }

    /// The record's own locations among the parsed ones.
    pub(crate) fn own_locations<'l, 'a>(&self, parsed: &'l [Locations<'a>]) -> Option<&'l Locations<'a>> {
        if self.has_own { parsed.first() } else { None }
    }

    /// Seconds for which a selection may be cached: the shortest TTL of these and of the other values used. Zero if locations
    /// are missing only because they could not be fetched.
    pub(crate) fn min_ttl_seconds<'v, 'a: 'v>(
        &'v self,
        others: impl Iterator<Item = &'v HandleValue<'a>>,
        now: SystemTime,
    ) -> u64 {
        if self.is_incomplete { 0 } else { caching::min_ttl_seconds(self.values.iter().chain(others), now) }
    }

    /// All values that take part in the selection.
    pub(crate) fn values(&self) -> &[HandleValue<'static>] {
        &self.values
    }
}

impl RecordResolver {
    /// Collects the locations of a record. Invalid or missing ones are skipped; a store failure is an error, since the result
    /// would be incomplete.
    pub(crate) async fn collect_locations(
        &self,
        name: &str,
        values: &[HandleValue<'static>],
        namespace: Option<&Namespace<'_>>,
        context: &mut LookupContext<'_>,
    ) -> Result<LocationSet, StoreError> {
        let mut set = LocationSet::default();
        let mut pending = Vec::new();
        let mut without_namespace = false;
        let own = values.iter().find(|value| value.has_type(LOCATION_TYPE));
        if let Some((own, parsed)) = own.and_then(|own| Some((own, Locations::from_bytes(&own.data).ok()?))) {
            without_namespace = parsed.excludes_prefix_locations() || parsed.attribute("nshdl").is_some();
            pending = parsed.included_handles().map(str::to_owned).collect();
            pending.extend(parsed.prefix_location_handles().map(str::to_owned));
            set.values.push(own.clone());
            set.has_own = true;
        }
        if !without_namespace && let Some(handles) = namespace.and_then(Namespace::locations_handle) {
            pending.extend(split_handles(handles));
        }
        let mut seen = vec![name.to_owned()];
        while let Some(handle) = pending.pop() {
            if seen.len() > MAX_INCLUDED_RECORDS || seen.iter().any(|name| name.eq_ignore_ascii_case(&handle))
            {
                continue;
            }
            let query = ResolveQuery {
                types: vec![LOCATION_TYPE.as_bytes()],
                ..ResolveQuery::new(Handle::from(&*handle))
            };
            let found = self.lookup(&query, &Caller::Anonymous, context).await;
            context.missing.extend(MissingRecord::of_lookup(&handle, &found));
            let found = store_error_or_none(found)?;
            if let Some(FoundRecord { values, is_referral: false, .. }) = found {
                for value in values {
                    let Ok(parsed) = Locations::from_bytes(&value.data) else { continue };
                    pending.extend(parsed.included_handles().map(str::to_owned));
                    set.values.push(value);
                }
            }
            seen.push(handle);
        }
        // Also the prefix record, which may name further locations.
        set.is_incomplete = context.missing.iter().any(|missing| missing.is_unknown);
        Ok(set)
    }

    /// Namespace settings of a prefix. The upstream is queried only on request: local names must not depend on it. A store
    /// failure or an exceeded budget is an error: an inactive prefix must not be served by accident.
    pub(crate) async fn lookup_namespace(
        &self,
        name: &str,
        query_upstream: bool,
        context: &mut LookupContext<'_>,
    ) -> Result<Option<HandleValue<'static>>, Error> {
        let prefix = if name.contains('/') {
            Handle::from(name).prefix_handle()
        } else {
            [b"0.NA/", name.as_bytes()].concat()
        };
        // With subtypes.
        let query = ResolveQuery { types: vec![b"HS_NAMESPACE."], ..ResolveQuery::new(Handle::new(&prefix)) };
        let found = if query_upstream {
            self.lookup(&query, &Caller::Anonymous, context).await
        } else {
            let found = self.registry.resolve_record(&query, &Caller::Anonymous, &mut context.budget).await;
            found.map(Into::into).map_err(Into::into)
        };
        // A prefix without a record has no settings.
        let missing = MissingRecord::of_lookup(&String::from_utf8_lossy(&prefix), &found);
        context.missing.extend(missing.filter(|missing| missing.is_unknown));
        let found = match found {
            Err(RecordLookupError::Local(error @ Error::BudgetExceeded(_))) => return Err(error),
            found => store_error_or_none(found)?.filter(|found| !found.is_referral),
        };
        Ok(found.and_then(|found| Namespace::find_value(&found.values).cloned()))
    }
}

/// Result, `None` if not found; an error if the store failed.
fn store_error_or_none<T>(found: Result<T, RecordLookupError>) -> Result<Option<T>, StoreError> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(RecordLookupError::Local(Error::Store(error))) => Err(error),
        Err(_) => Ok(None),
    }
}

fn split_handles(list: &str) -> impl Iterator<Item = String> {
    list.split([',', ' ', '\n', '\t']).filter(|name| !name.is_empty()).map(str::to_owned)
}

/// All redirect candidates, in order.
pub(crate) fn redirect_candidates<'a>(
    name: &str,
    values: &'a [HandleValue<'a>],
    own: Option<&Locations<'_>>,
    parsed: &'a [Locations<'a>],
) -> Vec<RedirectCandidate<'a>> {
    let locations = parsed.iter().flat_map(|locations| &locations.locations);
    let mut candidates: Vec<RedirectCandidate<'_>> = locations
        .filter_map(|location| RedirectCandidate::from_location(location, name))
        .take(MAX_CANDIDATES)
        .collect();
    if own.is_some_and(Locations::excludes_url_values) {
        return candidates;
    }
    // Beside own locations, `URL` values are for clients that do not support locations.
    let default = if own.is_some() { 0.0 } else { 1.0 };
    let weight = own.and_then(Locations::url_weight).unwrap_or(default);
    let subtype_weight = own.and_then(Locations::url_subtype_weight).unwrap_or_default();
    for value in values.iter().filter(|value| value.has_type("URL")).take(MAX_CANDIDATES) {
        let is_exact = value.value_type.len() == "URL".len();
        candidates
            .push(RedirectCandidate::from_url_value(value, if is_exact { weight } else { subtype_weight }));
    }
    candidates
}
