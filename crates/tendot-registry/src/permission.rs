//! Who has a right: by the `HS_ADMIN` values of a record, by those of its prefix, or by the settings.

use tendot_proto::record::{Admin, AdminPermissions};
use tendot_proto::{Budget, Handle, HandleValue, ValueReference};

use crate::caller::{Claimant, reference_covers};
use crate::{Error, Registry};

/// Authorization requirement of an operation.
#[derive(Clone, Debug)]
pub(crate) enum Requirement {
    /// Nothing: everybody may.
    Nothing,
    /// To be known, whoever it is: nothing is given away or changed.
    Proof,
    /// All rights of one of these sets.
    Rights(Vec<Vec<AdminSet>>),
    /// The same, or to administer the server.
    RightOrServer(AdminSet),
    /// To administer the server, or at least what is homed.
    Server,
    /// To administer the server, or to be among those who may search.
    Search,
}

/// Admins of whom one is required: identities, or admin groups.
pub(crate) type AdminSet = Vec<ValueReference<'static>>;

impl Requirement {
    pub(crate) fn admin(right: AdminSet) -> Self {
        Self::Rights(vec![vec![right]])
    }
}

impl Registry {
    /// Whether who asks has what is needed.
    pub(crate) async fn authorize(
        &self,
        needed: &Requirement,
        asker: Claimant<'_>,
        work: &mut Budget,
    ) -> Result<(), Error> {
        let who = match (asker, needed) {
            (Claimant::Operator, _) | (_, Requirement::Nothing) => return Ok(()),
            (Claimant::Anonymous, _) => return Err(Error::NeedsAuthentication),
            (Claimant::Token(caller, at), _) => {
                return self.authorize_operator_token(needed, caller, at, work).await;
            }
            (Claimant::Handle(who), _) => who,
        };
        let settings = &self.settings;
        let listed = |list: &[ValueReference<'_>]| list.iter().any(|listed| reference_covers(listed, who));
        let is_server_admin = listed(&settings.server_admins);
        if settings.server_admins_full_access && is_server_admin {
            return Ok(());
        }
        let settled = match needed {
            Requirement::Nothing | Requirement::Proof => true,
            Requirement::Server => is_server_admin || listed(&settings.home_only_admins),
            Requirement::Search => is_server_admin || listed(&settings.searchers),
            Requirement::RightOrServer(right) => is_server_admin || self.is_member(who, right, work).await?,
            Requirement::Rights(sets) => self.satisfies_any(who, sets, work).await?,
        };
        if settled { Ok(()) } else { Err(Error::NotAdministrator { who: who.to_string().into() }) }
    }

    async fn satisfies_any(
        &self,
        who: &ValueReference<'_>,
        sets: &[Vec<AdminSet>],
        work: &mut Budget,
    ) -> Result<bool, Error> {
        'sets: for rights in sets {
            for right in rights {
                if !self.is_member(who, right, work).await? {
                    continue 'sets;
                }
            }
            return Ok(true);
        }
        Ok(false)
    }

    /// The right to do something to the record of `name`, which has these values.
    ///
    /// A record that nobody administers would stay as it is for ever: there the administrators of the prefix have the
    /// rights that they have over the prefix's own record, if they may create names.
    pub(crate) async fn record_admins(
        &self,
        name: Handle<'_>,
        values: &[HandleValue<'_>],
        bits: AdminPermissions,
        work: &mut Budget,
    ) -> Result<AdminSet, Error> {
        if has_admin(values) {
            return Ok(admins_with(values, bits));
        }
        self.prefix_admins(&name.prefix_handle(), bits | AdminPermissions::ADD_HANDLE, work).await
    }

    /// The right that the record of a prefix gives, if our site keeps it: nobody else is asked.
    pub(crate) async fn prefix_admins(
        &self,
        prefix_handle: &[u8],
        bits: AdminPermissions,
        work: &mut Budget,
    ) -> Result<AdminSet, Error> {
        if !self.settings.prefix_admins {
            return Ok(AdminSet::new());
        }
        let values = self.site_values(Handle::new(prefix_handle), work).await?;
        Ok(values.map(|values| admins_with(&values, bits)).unwrap_or_default())
    }
}

/// The administrators that have all of `bits` by one single value: two that have a half each are none.
pub(crate) fn admins_with(values: &[HandleValue<'_>], bits: AdminPermissions) -> AdminSet {
    let admins = decode_admins(values).filter(|admin| admin.permissions.has(bits));
    admins.map(|admin| admin.reference.into_owned()).collect()
}

/// Whether there is anybody who administers the record: an `HS_ADMIN` that gives no right is nobody's.
pub(crate) fn has_admin(values: &[HandleValue<'_>]) -> bool {
    let rights = AdminPermissions::ALL | AdminPermissions::LIST_DERIVED_PREFIXES;
    decode_admins(values).any(|admin| admin.permissions.0 & rights.0 != 0)
}

/// Values that cannot be read as what they should be give no right.
fn decode_admins<'v>(values: &'v [HandleValue<'_>]) -> impl Iterator<Item = Admin<'v>> {
    values
        .iter()
        .filter(|value| is_admin_value(value))
        .filter_map(|value| Admin::from_bytes(&value.data).ok())
}

/// Whether the value gives rights: `HS_ADMIN`, or a type below it.
pub(crate) fn is_admin_value(value: &HandleValue<'_>) -> bool {
    value.has_type("HS_ADMIN")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_value_has_all_bits() {
        let admin = |index, value_type: &'static str, bits| {
            let reference = ValueReference::new(index, &b"0.NA/10.1"[..]);
            let admin = Admin { permissions: AdminPermissions(bits), reference, legacy_byte_length: false };
            HandleValue::with_data(index, value_type, admin.to_bytes())
        };
        let values = [
            admin(1, "HS_ADMIN", 0x0010),
            admin(2, "HS_ADMIN", 0x0020),
            admin(3, "HS_ADMIN.x", 0x0fff),
            admin(4, "HS_ADMINX", 0x0fff),
            HandleValue::new(5, "HS_ADMIN", "not one"),
        ];
        let check = |bits, expected: &[u32]| {
            let found = admins_with(&values, AdminPermissions(bits));
            assert_eq!(found.iter().map(|one| one.index).collect::<Vec<_>>(), expected, "{bits:x}");
        };
        check(0x0010, &[1, 3]);
        check(0x0030, &[3]);
        check(0x1000, &[]);
        check(0, &[1, 2, 3]);
        assert!(has_admin(&values) && !has_admin(&values[3..]));
        for (bits, expected) in [(0, false), (0xe000, false), (1, true), (0x1000, true)] {
            assert_eq!(has_admin(&[admin(1, "HS_ADMIN", bits)]), expected, "{bits:x}");
        }
    }
}
