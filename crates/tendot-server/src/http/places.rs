//! All places that a record could lead to: its own, those that it includes, and those of its prefix.

use tendot_proto::record::{Locations, Namespace};
use tendot_proto::{Handle, Value};
use tendot_registry::{Caller, Error, Query, Resolution};
use tendot_store::StoreError;

use super::Http;
use super::location::Candidate;
use super::search::{LookupError, Search};

/// Records whose locations are put together for one redirect.
const RECORDS: usize = 20;

/// Places that are chosen among.
const PLACES: usize = 256;

/// The type of values that have several locations.
pub(crate) const TYPE: &str = "10320/loc";

/// Values of locations that can be read, the record's own first.
#[derive(Debug, Default)]
pub(crate) struct Places {
    values: Vec<Value<'static>>,
    /// Whether the first of them is the record's own.
    has_own: bool,
}

impl Places {
    /// What the values say.
    pub(crate) fn read(&self) -> Vec<Locations<'_>> {
        self.values.iter().filter_map(|value| Locations::from_bytes(&value.data).ok()).collect()
    }

    /// The record's own among those.
    pub(crate) fn own<'l, 'a>(&self, read: &'l [Locations<'a>]) -> Option<&'l Locations<'a>> {
        if self.has_own { read.first() } else { None }
    }

    /// All values that have a part in the choice.
    pub(crate) fn values(&self) -> &[Value<'static>] {
        &self.values
    }
}

impl Http {
    /// Finds the locations of a record. What cannot be understood or is not here is left out: the record has others. A store
    /// that fails is told: nobody knows what it would have said.
    pub(crate) async fn places(
        &self,
        name: &str,
        values: &[Value<'static>],
        namespace: Option<&Namespace<'_>>,
        search: &mut Search<'_>,
    ) -> Result<Places, StoreError> {
        let mut places = Places::default();
        let mut waiting = Vec::new();
        let mut without_namespace = false;
        let own = values.iter().find(|value| value.has_type(TYPE));
        if let Some((own, read)) = own.and_then(|own| Some((own, Locations::from_bytes(&own.data).ok()?))) {
            without_namespace = read.is_without_namespace() || read.attribute("nshdl").is_some();
            waiting = included(&read);
            waiting.extend(read.attribute("nshdl").into_iter().flat_map(names));
            places.values.push(own.clone());
            places.has_own = true;
        }
        if !without_namespace && let Some(named) = namespace.and_then(Namespace::locations) {
            waiting.extend(names(named));
        }
        let mut seen = vec![name.to_owned()];
        while let Some(handle) = waiting.pop() {
            if seen.len() > RECORDS || seen.iter().any(|one| one.eq_ignore_ascii_case(&handle)) {
                continue;
            }
            let query = Query { types: vec![TYPE.as_bytes()], ..Query::new(Handle::from(&*handle)) };
            let found = found_or_failed(self.look_up(&query, &Caller::Anonymous, search).await)?;
            if let Some((Resolution::Values(found), _)) = found {
                for value in found {
                    let Ok(read) = Locations::from_bytes(&value.data) else { continue };
                    waiting.extend(included(&read));
                    places.values.push(value);
                }
            }
            seen.push(handle);
        }
        Ok(places)
    }

    /// How the prefix of a name, or a prefix itself, wants its names to be treated; elsewhere is asked only if it is to be:
    /// names that are kept here lead where they do whatever becomes of others. A store that fails is told: names of a prefix that
    /// is not served would be served otherwise.
    pub(crate) async fn namespace_value(
        &self,
        name: &str,
        asks_elsewhere: bool,
        search: &mut Search<'_>,
    ) -> Result<Option<Value<'static>>, StoreError> {
        let prefix = if name.contains('/') {
            Handle::from(name).prefix_handle()
        } else {
            [b"0.NA/", name.as_bytes()].concat()
        };
        let query = Query { types: vec![b"HS_NAMESPACE"], ..Query::new(Handle::new(&prefix)) };
        let found = if asks_elsewhere {
            self.look_up(&query, &Caller::Anonymous, search).await.map(|(found, _)| found)
        } else {
            self.registry.resolve(&query, &Caller::Anonymous, &mut search.work).await.map_err(Into::into)
        };
        Ok(match found_or_failed(found)? {
            Some(Resolution::Values(values)) => values.into_iter().next(),
            _ => None,
        })
    }
}

/// What was found, none if there is nothing; or that the store failed.
fn found_or_failed<T>(found: Result<T, LookupError>) -> Result<Option<T>, StoreError> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(LookupError::Here(Error::Store(error))) => Err(error),
        Err(_) => Ok(None),
    }
}

/// The records that locations include.
fn included(locations: &Locations<'_>) -> Vec<String> {
    let attributes = ["include", "includeNamespace"].into_iter().filter_map(|name| locations.attribute(name));
    let elements =
        locations.others.iter().filter(|other| matches!(other.tag, "include" | "includeNamespace"));
    attributes.chain(elements.map(|element| &*element.text)).flat_map(names).collect()
}

fn names(list: &str) -> impl Iterator<Item = String> {
    list.split([',', ' ', '\n', '\t']).filter(|name| !name.is_empty()).map(str::to_owned)
}

/// Everything that could be redirected to, in order.
pub(crate) fn candidates<'a>(
    name: &str,
    values: &'a [Value<'a>],
    own: Option<&Locations<'_>>,
    read: &'a [Locations<'a>],
) -> Vec<Candidate<'a>> {
    let locations = read.iter().flat_map(|locations| &locations.locations);
    let mut candidates: Vec<Candidate<'_>> =
        locations.filter_map(|location| Candidate::of_location(location, name)).take(PLACES).collect();
    if own.is_some_and(Locations::is_without_urls) {
        return candidates;
    }
    // With locations of its own, a record has addresses only for those who know nothing else.
    let default = if own.is_some() { 0.0 } else { 1.0 };
    let weight = own.and_then(Locations::url_weight).unwrap_or(default);
    let weight_below = own.and_then(Locations::url_subtype_weight).unwrap_or_default();
    for value in values.iter().filter(|value| value.has_type("URL")).take(PLACES) {
        let is_exact = value.value_type.len() == "URL".len();
        candidates.push(Candidate::of_url(value, if is_exact { weight } else { weight_below }));
    }
    candidates
}
