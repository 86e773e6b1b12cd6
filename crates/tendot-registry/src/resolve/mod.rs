//! Resolution of a handle to its values.
//!
//! In reading order: this file selects the values; `responsibility` decides whether this service has the name; `site_peers`
//! queries the other servers of the site for names of their [`HashPartition`]; `template` derives names that are not stored.

mod responsibility;
mod site_peers;
mod template;

pub use site_peers::{PeerFuture, SitePeers};
pub(crate) use template::check_namespace;
pub use tendot_proto::message::HashPartition;

use tendot_proto::record::AdminPermissions;
use tendot_proto::{Budget, Handle, HandleValue, ValuePermissions};
use tendot_store::RecordStatus;

use crate::authorization::{Claimant, Requirement, admins_with};
use crate::party::Scope;
use crate::registration::{has_metadata, is_reserved};
use crate::rules::SiteReader;
use crate::{Caller, Error, Registry, cost};

/// Resolution request: a handle, and the values selected by index and type.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ResolveQuery<'a> {
    /// Handle; without a slash it is a prefix.
    pub handle: Handle<'a>,
    /// Indexes of the selected values.
    pub indexes: Vec<u32>,
    /// Types of the selected values; a trailing dot includes subtypes. Values are selected by index or type; without either,
    /// all are selected.
    pub types: Vec<&'a [u8]>,
    /// Whether only public values are selected.
    pub public_only: bool,
    /// Whether the request belongs to a session: then the caller must be authenticated unless only public values are
    /// selected.
    pub in_session: bool,
    /// Whether secrets may be returned, to administrators with read permission who proved a key: only if the response is
    /// encrypted. Otherwise they are left out.
    pub with_secrets: bool,
    /// Whether a referral to the service of a derived prefix may be returned.
    pub allow_referral: bool,
}

impl<'a> ResolveQuery<'a> {
    /// Query for all public values of a record.
    pub const fn new(handle: Handle<'a>) -> Self {
        Self {
            handle,
            indexes: Vec::new(),
            types: Vec::new(),
            public_only: true,
            in_session: false,
            with_secrets: false,
            allow_referral: true,
        }
    }

    /// Selects among the public values of a record of another service.
    pub fn select(
        &self,
        values: &[HandleValue<'static>],
        budget: &mut Budget,
    ) -> Result<Vec<HandleValue<'static>>, Error> {
        budget.charge(cost::selection(values.len(), self.indexes.len().saturating_add(self.types.len())))?;
        let selected = values.iter().filter(|value| value.is_public() && self.is_selected(value));
        let selected: Vec<_> = selected.cloned().collect();
        if selected.is_empty() { Err(Error::ValuesNotFound) } else { Ok(selected) }
    }

    fn is_selected(&self, value: &HandleValue<'_>) -> bool {
        self.indexes.is_empty() && self.types.is_empty()
            || self.indexes.contains(&value.index)
            || self.types.iter().any(|filter| value.matches_type_filter(filter))
    }
}

/// Result of a resolution.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Resolution {
    /// Values in record order. Aliases (`HS_ALIAS`) are included and not followed.
    Values(Vec<HandleValue<'static>>),
    /// Delegation values of the service that is responsible for this derived prefix.
    Referral(Vec<HandleValue<'static>>),
}

/// Result of a resolution, with facts about the record that need no further lookup.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ResolvedRecord {
    /// Selected values, or a referral.
    pub resolution: Resolution,
    /// Whether the name has kernel metadata; see [`Registry::get_doi`].
    pub has_metadata: bool,
    /// Whether the values are those of a stored record, rather than derived by a template.
    pub is_stored: bool,
    /// Stored name that a template derived the values from.
    pub derived_from: Option<Box<str>>,
}

/// Record lookup before authorization.
pub(crate) enum RecordLookup {
    /// Selected values and the requirement for reading them.
    Found {
        values: Vec<HandleValue<'static>>,
        requirement: Requirement,
        has_metadata: bool,
        is_stored: bool,
        derived_from: Option<Box<str>>,
    },
    /// Referral to another service.
    Referral(Vec<HandleValue<'static>>),
}

impl Registry {
    /// Resolves a handle.
    ///
    /// Values without read permission are never returned, not even to the operator; secrets only to handle identities, see
    /// [`ResolveQuery::with_secrets`].
    pub async fn resolve(
        &self,
        query: &ResolveQuery<'_>,
        caller: &Caller,
        budget: &mut Budget,
    ) -> Result<Resolution, Error> {
        self.resolve_record(query, caller, budget).await.map(|record| record.resolution)
    }

    /// Resolves a handle like [`Registry::resolve`], and reports facts about its record.
    pub async fn resolve_record(
        &self,
        query: &ResolveQuery<'_>,
        caller: &Caller,
        budget: &mut Budget,
    ) -> Result<ResolvedRecord, Error> {
        match self.rules.lookup_record(query, budget).await? {
            RecordLookup::Referral(values) => {
                let resolution = Resolution::Referral(values);
                Ok(ResolvedRecord { resolution, has_metadata: false, is_stored: false, derived_from: None })
            }
            RecordLookup::Found { mut values, requirement, has_metadata, is_stored, derived_from } => {
                let (name, claimant) = (Some(query.handle), Claimant::authenticated(caller));
                self.rules.authorize_for_name(name, &requirement, claimant, Scope::Read, budget).await?;
                if !matches!(caller, Caller::Handle(_)) {
                    values.retain(|value| !value.is_secret());
                }
                if values.is_empty() {
                    return Err(Error::ValuesNotFound);
                }
                let resolution = Resolution::Values(values);
                Ok(ResolvedRecord { resolution, has_metadata, is_stored, derived_from })
            }
        }
    }
}

impl SiteReader {
    /// Looks up a record and determines the requirement for reading it.
    pub(crate) async fn lookup_record(
        &self,
        query: &ResolveQuery<'_>,
        budget: &mut Budget,
    ) -> Result<RecordLookup, Error> {
        query.handle.validate_up_to(self.settings.limits.max_name_bytes)?;
        let full = query.handle.qualified();
        let name = Handle::new(&full);
        self.check_server_responsible(name, budget).await?;
        let text = name.to_str().unwrap_or_default();
        let (mut with_metadata, mut is_stored, mut derived_from) = (false, false, None);
        let values = match self.get_record(text, budget).await? {
            // Reserved names do not resolve.
            Some(entry) if is_reserved(&entry) => return Err(Error::NotFound),
            Some(entry) if entry.status == RecordStatus::Live => {
                (with_metadata, is_stored) = (has_metadata(&entry), true);
                entry.values
            }
            Some(_) => return Err(Error::Retired),
            None => {
                if query.allow_referral
                    && let Some(values) = self.referral(name, budget).await?
                {
                    return Ok(RecordLookup::Referral(values));
                }
                let derived = self.resolve_template(text, budget).await?.ok_or(Error::NotFound)?;
                derived_from = Some(derived.base);
                derived.values
            }
        };
        let (values, requirement) = select_readable(query, values, budget)?;
        Ok(RecordLookup::Found { values, requirement, has_metadata: with_metadata, is_stored, derived_from })
    }
}

/// Selects the readable values and the requirement for reading them.
fn select_readable(
    query: &ResolveQuery<'_>,
    mut values: Vec<HandleValue<'static>>,
    budget: &mut Budget,
) -> Result<(Vec<HandleValue<'static>>, Requirement), Error> {
    budget.charge(cost::selection(values.len(), query.indexes.len().saturating_add(query.types.len())))?;
    if query.public_only {
        values.retain(|value| value.is_public() && query.is_selected(value));
        return non_empty(values, Requirement::Public);
    }
    if !query.with_secrets {
        values.retain(|value| !value.is_secret());
    }
    let mut selected = values.iter().filter(|value| query.is_selected(value));
    let requirement = match selected.find(|value| !value.is_public()) {
        None if query.in_session => Requirement::Authenticated,
        None => Requirement::Public,
        Some(hidden) if !hidden.permissions.contains(ValuePermissions::ADMIN_READ) => {
            return Err(Error::ValueUnreadable { index: hidden.index });
        }
        Some(_) => Requirement::admin(admins_with(&values, AdminPermissions::READ_VALUE)),
    };
    // Like deployed servers, unreadable values after the first non-public one are dropped instead of rejected.
    let has_read = |value: &HandleValue<'_>| {
        value.is_public() || value.permissions.contains(ValuePermissions::ADMIN_READ)
    };
    values.retain(|value| has_read(value) && query.is_selected(value));
    non_empty(values, requirement)
}

/// Whether a value is readable: public ones for all callers, those with the permission for administrators. Secrets never are;
/// only a resolution in an encrypted session returns them, see [`ResolveQuery::with_secrets`].
pub(crate) fn is_readable(value: &HandleValue<'_>, is_admin: bool) -> bool {
    value.is_public()
        || is_admin && value.permissions.contains(ValuePermissions::ADMIN_READ) && !value.is_secret()
}

fn non_empty(
    values: Vec<HandleValue<'static>>,
    requirement: Requirement,
) -> Result<(Vec<HandleValue<'static>>, Requirement), Error> {
    if values.is_empty() { Err(Error::ValuesNotFound) } else { Ok((values, requirement)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values 1 and 2 are public, 3 is readable for admins, 4 is not readable.
    fn values() -> Vec<HandleValue<'static>> {
        let value = |index, value_type, permissions| HandleValue {
            permissions: ValuePermissions(permissions),
            ..HandleValue::new(index, value_type, "x")
        };
        vec![
            value(1, "URL", 0x0e),
            value(2, "URL.mobile", 0x02),
            value(3, "NOTE", 0x0c),
            value(4, "NOTE", 0x04),
        ]
    }

    fn outcome(query: &ResolveQuery<'_>) -> Result<(Vec<u32>, &'static str), String> {
        let (values, requirement) =
            select_readable(query, values(), &mut Budget::new(1_000)).map_err(|error| error.to_string())?;
        let requirement = match requirement {
            Requirement::Public => "public",
            Requirement::Authenticated => "authenticated",
            _ => "admin",
        };
        Ok((values.iter().map(|value| value.index).collect(), requirement))
    }

    #[test]
    fn selection() {
        let check = |indexes: &[u32], types: &[&'static str], expected: &[u32]| {
            let types = types.iter().map(|value_type| value_type.as_bytes()).collect();
            let query = ResolveQuery {
                indexes: indexes.to_vec(),
                types,
                ..ResolveQuery::new(Handle::from("10.1/x"))
            };
            let expected = if expected.is_empty() {
                Err("values not found".into())
            } else {
                Ok((expected.to_vec(), "public"))
            };
            assert_eq!(outcome(&query), expected, "{indexes:?} {:?}", query.types);
        };
        check(&[], &[], &[1, 2]);
        check(&[2], &[], &[2]);
        check(&[], &["url"], &[1]);
        check(&[], &["URL."], &[1, 2]);
        check(&[2], &["URL"], &[1, 2]);
        check(&[3, 4], &["NOTE"], &[]);
        check(&[0], &[], &[]);
        check(&[], &[""], &[]);
        check(&[1, 3, 4], &["NOTE."], &[1]);
    }

    #[test]
    fn read_requirements() {
        let check = |indexes: &[u32], in_session, expected: Result<(&[u32], &'static str), &str>| {
            let query = ResolveQuery {
                indexes: indexes.to_vec(),
                public_only: false,
                in_session,
                ..ResolveQuery::new(Handle::from("10.1/x"))
            };
            let expected =
                expected.map(|(values, requirement)| (values.to_vec(), requirement)).map_err(Into::into);
            assert_eq!(outcome(&query), expected, "{indexes:?} {in_session}");
        };
        check(&[1, 2], false, Ok((&[1, 2], "public")));
        check(&[1, 2], true, Ok((&[1, 2], "authenticated")));
        check(&[1, 3], false, Ok((&[1, 3], "admin")));
        check(&[1, 3], true, Ok((&[1, 3], "admin")));
        check(&[], false, Ok((&[1, 2, 3], "admin")));
        check(&[3, 4], false, Ok((&[3], "admin")));
        check(&[4], false, Err("value at index 4 has no read permission"));
        check(&[1, 4], true, Err("value at index 4 has no read permission"));
        check(&[9], false, Err("values not found"));
    }
}
