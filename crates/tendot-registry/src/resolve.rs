use tendot_proto::record::AdminPermissions;
use tendot_proto::{Budget, Handle, HandleValue, ValuePermissions};
use tendot_store::RecordStatus;

use crate::caller::Claimant;
use crate::doi::{has_metadata, is_reserved};
use crate::party::Scope;
use crate::permission::{Requirement, admins_with};
use crate::{Caller, Error, Registry, price};

/// Resolution request: a handle, and the values selected by index and type.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ResolveQuery<'a> {
    /// The name; without a slash it is that of a prefix.
    pub name: Handle<'a>,
    /// Indexes of values.
    pub indexes: Vec<u32>,
    /// Types of values; a dot at the end takes in all below. Values are selected by index or by type; all are if there
    /// is neither.
    pub types: Vec<&'a [u8]>,
    /// Whether only values are wanted that everybody may read.
    pub public_only: bool,
    /// Whether it is asked in a session: then who asks has to be known unless only public values are wanted.
    pub in_session: bool,
    /// Whether the answer may be that another service keeps this derived prefix.
    pub refer: bool,
}

impl<'a> ResolveQuery<'a> {
    /// All public values of a record.
    pub const fn new(name: Handle<'a>) -> Self {
        Self {
            name,
            indexes: Vec::new(),
            types: Vec::new(),
            public_only: true,
            in_session: false,
            refer: true,
        }
    }

    /// The public values of a record that is kept elsewhere, selected as those of our own are.
    pub fn select(
        &self,
        values: &[HandleValue<'static>],
        work: &mut Budget,
    ) -> Result<Vec<HandleValue<'static>>, Error> {
        work.charge(price::selection(values.len(), self.indexes.len().saturating_add(self.types.len())))?;
        let selected = values.iter().filter(|value| value.permissions.is_public() && self.is_selected(value));
        let selected: Vec<_> = selected.cloned().collect();
        if selected.is_empty() { Err(Error::NoValues) } else { Ok(selected) }
    }

    fn is_selected(&self, value: &HandleValue<'_>) -> bool {
        self.indexes.is_empty() && self.types.is_empty()
            || self.indexes.contains(&value.index)
            || self.types.iter().any(|asked| value.matches_type_filter(asked))
    }
}

/// Result of a resolution.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Resolution {
    /// The values, in the order of the record. Aliases are among them as they are: who asked may follow them.
    Values(Vec<HandleValue<'static>>),
    /// Another service keeps this derived prefix, and these values say which.
    Referral(Vec<HandleValue<'static>>),
}

/// Where a name led to.
pub(crate) enum Found {
    /// To a record; before it is known whether who asks may have it.
    Here { values: Vec<HandleValue<'static>>, needed: Requirement, has_metadata: bool },
    /// To another service.
    Elsewhere(Vec<HandleValue<'static>>),
}

impl Registry {
    /// Resolves a name.
    ///
    /// Values that nobody may read never leave, whoever asks.
    pub async fn resolve(
        &self,
        query: &ResolveQuery<'_>,
        caller: &Caller,
        work: &mut Budget,
    ) -> Result<Resolution, Error> {
        self.resolve_with_metadata_flag(query, caller, work).await.map(|(resolution, _)| resolution)
    }

    /// The same, and whether there is metadata of the name, see [`Registry::get_doi`]: this takes no further lookup.
    pub async fn resolve_with_metadata_flag(
        &self,
        query: &ResolveQuery<'_>,
        caller: &Caller,
        work: &mut Budget,
    ) -> Result<(Resolution, bool), Error> {
        match self.lookup_record(query, work).await? {
            Found::Elsewhere(values) => Ok((Resolution::Referral(values), false)),
            Found::Here { values, needed, has_metadata } => {
                self.authorize_for_name(Some(query.name), &needed, Claimant::new(caller), Scope::Read, work)
                    .await?;
                Ok((Resolution::Values(values), has_metadata))
            }
        }
    }

    /// What there is, and what is needed to read it.
    pub(crate) async fn lookup_record(
        &self,
        query: &ResolveQuery<'_>,
        work: &mut Budget,
    ) -> Result<Found, Error> {
        query.name.validate()?;
        let full = query.name.qualified();
        let name = Handle::new(&full);
        self.check_server_responsible(name, work).await?;
        let text = name.to_str().unwrap_or_default();
        let mut is_described = false;
        let values = match self.get_record(text, work).await? {
            // A name that is only reserved is for nobody yet.
            Some(entry) if is_reserved(&entry) => return Err(Error::NotFound),
            Some(entry) if entry.state == RecordStatus::Live => {
                is_described = has_metadata(&entry);
                entry.values
            }
            Some(_) => return Err(Error::Tombstone),
            None => {
                if query.refer
                    && let Some(values) = self.referral(name, work).await?
                {
                    return Ok(Found::Elsewhere(values));
                }
                self.resolve_template(text, work).await?.ok_or(Error::NotFound)?
            }
        };
        let (values, needed) = read(query, values, work)?;
        Ok(Found::Here { values, needed, has_metadata: is_described })
    }
}

/// The selected values that can be read at all, and what is needed to read them.
fn read(
    query: &ResolveQuery<'_>,
    mut values: Vec<HandleValue<'static>>,
    work: &mut Budget,
) -> Result<(Vec<HandleValue<'static>>, Requirement), Error> {
    work.charge(price::selection(values.len(), query.indexes.len().saturating_add(query.types.len())))?;
    if query.public_only {
        values.retain(|value| value.permissions.is_public() && query.is_selected(value));
        return some(values, Requirement::Nothing);
    }
    let mut selected = values.iter().filter(|value| query.is_selected(value));
    let needed = match selected.find(|value| !value.permissions.is_public()) {
        None if query.in_session => Requirement::Proof,
        None => Requirement::Nothing,
        Some(hidden) if !hidden.permissions.has(ValuePermissions::ADMIN_READ) => {
            return Err(Error::Unreadable { index: hidden.index });
        }
        Some(_) => Requirement::admin(admins_with(&values, AdminPermissions::READ_VALUE)),
    };
    // The deployed software sends an administrator also what comes after the first hidden value and nobody may read.
    let readable = ValuePermissions::ADMIN_READ.0 | ValuePermissions::PUBLIC_READ.0;
    values.retain(|value| value.permissions.0 & readable != 0 && query.is_selected(value));
    some(values, needed)
}

fn some(
    values: Vec<HandleValue<'static>>,
    needed: Requirement,
) -> Result<(Vec<HandleValue<'static>>, Requirement), Error> {
    if values.is_empty() { Err(Error::NoValues) } else { Ok((values, needed)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1 and 2 are public, 3 is for administrators, 4 for nobody.
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
        let (values, needed) =
            read(query, values(), &mut Budget::new(1_000)).map_err(|error| error.to_string())?;
        let needed = match needed {
            Requirement::Nothing => "nothing",
            Requirement::Proof => "proof",
            _ => "right",
        };
        Ok((values.iter().map(|value| value.index).collect(), needed))
    }

    #[test]
    fn selection() {
        let check = |indexes: &[u32], types: &[&'static str], expected: &[u32]| {
            let types = types.iter().map(|one| one.as_bytes()).collect();
            let query = ResolveQuery {
                indexes: indexes.to_vec(),
                types,
                ..ResolveQuery::new(Handle::from("10.1/x"))
            };
            let expected = if expected.is_empty() {
                Err("the record has no such values".into())
            } else {
                Ok((expected.to_vec(), "nothing"))
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
    fn who_may_read() {
        let check = |indexes: &[u32], in_session, expected: Result<(&[u32], &'static str), &str>| {
            let query = ResolveQuery {
                indexes: indexes.to_vec(),
                public_only: false,
                in_session,
                ..ResolveQuery::new(Handle::from("10.1/x"))
            };
            let expected = expected.map(|(values, needed)| (values.to_vec(), needed)).map_err(Into::into);
            assert_eq!(outcome(&query), expected, "{indexes:?} {in_session}");
        };
        check(&[1, 2], false, Ok((&[1, 2], "nothing")));
        check(&[1, 2], true, Ok((&[1, 2], "proof")));
        check(&[1, 3], false, Ok((&[1, 3], "right")));
        check(&[1, 3], true, Ok((&[1, 3], "right")));
        check(&[], false, Ok((&[1, 2, 3], "right")));
        check(&[3, 4], false, Ok((&[3], "right")));
        check(&[4], false, Err("the value at index 4 can be read by nobody"));
        check(&[1, 4], true, Err("the value at index 4 can be read by nobody"));
        check(&[9], false, Err("the record has no such values"));
    }
}
