//! Authorization requirement of an operation, from the `HS_ADMIN` values of a record or of its prefix.

use tendot_proto::record::{Admin, AdminPermissions};
use tendot_proto::{Budget, Handle, HandleValue, ValueReference};

use crate::Error;
use crate::prefix::GROUP_INDEX;
use crate::rules::Authorizer;

/// Authorization requirement of an operation.
#[derive(Clone, Debug)]
pub(crate) enum Requirement {
    /// Public operation.
    Public,
    /// Any authenticated identity.
    Authenticated,
    /// A member of every admin set of one of these alternatives.
    AnyOf(Vec<Vec<AdminSet>>),
    /// A member of the admin set, or a server administrator.
    AdminOrServerAdmin(AdminSet),
    /// A server administrator, or an administrator of homed prefixes.
    ServerAdmin,
    /// A server administrator, or an identity allowed to use reverse lookup.
    ReverseLookup,
}

/// Admins of whom one is required: identities, or admin groups.
pub(crate) type AdminSet = Vec<ValueReference<'static>>;

impl Requirement {
    pub(crate) fn admin(admins: AdminSet) -> Self {
        Self::AnyOf(vec![vec![admins]])
    }
}

impl Authorizer {
    /// Admins with the permissions `bits` over the record of `name`.
    ///
    /// A record without admins could never be changed: there the admins of the prefix have the permissions that they have
    /// over the prefix record, provided that they may create names; those of an allocated prefix have all permissions.
    pub(crate) async fn record_admins(
        &self,
        name: Handle<'_>,
        values: &[HandleValue<'_>],
        bits: AdminPermissions,
        budget: &mut Budget,
    ) -> Result<AdminSet, Error> {
        if has_admin(values) {
            return Ok(admins_with(values, bits));
        }
        // Over the record of an allocated prefix, its admins have few permissions; over the names under it, all.
        if let (false, Ok(prefix)) = (name.is_prefix_handle(), std::str::from_utf8(name.prefix()))
            && self.settings.prefix_admins_can_create
            && self.prefix_record(prefix, budget).await?.is_some()
        {
            return Ok(vec![ValueReference::new(GROUP_INDEX, name.prefix_handle())]);
        }
        self.prefix_admins(&name.prefix_handle(), bits | AdminPermissions::ADD_HANDLE, budget).await
    }

    /// Admins listed in the record of a prefix, if this site has it. Other services are not queried.
    pub(crate) async fn prefix_admins(
        &self,
        prefix_handle: &[u8],
        bits: AdminPermissions,
        budget: &mut Budget,
    ) -> Result<AdminSet, Error> {
        if !self.settings.prefix_admins_can_create {
            return Ok(AdminSet::new());
        }
        let values = self.site_values(Handle::new(prefix_handle), budget).await?;
        Ok(values.map(|values| admins_with(&values, bits)).unwrap_or_default())
    }
}

/// Admins that have all of `bits` by a single value. Permissions of several values are not combined.
pub(crate) fn admins_with(values: &[HandleValue<'_>], bits: AdminPermissions) -> AdminSet {
    let admins = decode_admins(values).filter(|admin| admin.permissions.contains(bits));
    admins.map(|admin| admin.reference.into_owned()).collect()
}

/// Whether the record has an admin. An `HS_ADMIN` value without permissions does not count.
pub(crate) fn has_admin(values: &[HandleValue<'_>]) -> bool {
    let any_permission = AdminPermissions::ALL | AdminPermissions::LIST_DERIVED_PREFIXES;
    decode_admins(values).any(|admin| admin.permissions.0 & any_permission.0 != 0)
}

/// Decodes the `HS_ADMIN` values; malformed ones grant nothing.
fn decode_admins<'v>(values: &'v [HandleValue<'_>]) -> impl Iterator<Item = Admin<'v>> {
    values
        .iter()
        .filter(|value| is_admin_value(value))
        .filter_map(|value| Admin::from_bytes(&value.data).ok())
}

/// Whether the value is of type `HS_ADMIN` or a subtype.
pub(crate) fn is_admin_value(value: &HandleValue<'_>) -> bool {
    value.has_type("HS_ADMIN")
}

/// Whether the value is a credential: a key, or a group of identities. Types are `HS_SECKEY`, `HS_PUBKEY`, `HS_VLIST` and their
/// subtypes.
pub(crate) fn is_credential(value: &HandleValue<'_>) -> bool {
    value.is_secret() || value.has_type("HS_PUBKEY") || value.has_type("HS_VLIST")
}

/// Whether the value grants access: a credential, or an admin value.
pub(crate) fn grants_access(value: &HandleValue<'_>) -> bool {
    is_credential(value) || is_admin_value(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_of_values_do_not_combine() {
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
            assert_eq!(
                found.iter().map(|reference| reference.index).collect::<Vec<_>>(),
                expected,
                "{bits:x}"
            );
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
