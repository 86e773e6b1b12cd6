//! Permissions required to turn one record into another.

use tendot_proto::record::AdminPermissions;
use tendot_proto::{HandleValue, ValuePermissions};

use crate::Error;
use crate::authorization::{Requirement, grants_access, is_admin_value};
use crate::call::handle_timestamp;

/// Difference between two records, as the admin permissions required to make it.
#[derive(Debug, Default)]
pub(super) struct RecordDiff {
    /// Required permissions, all of them.
    pub(super) required: AdminPermissions,
    /// Whether anything changes, including publicly writable values.
    pub(super) has_changes: bool,
    /// Whether values change that grant access.
    pub(super) changes_access: bool,
    /// Index of a read-only value that would change.
    read_only_index: Option<u32>,
}

impl RecordDiff {
    pub(super) fn add(&mut self, new: &HandleValue<'_>) {
        self.has_changes = true;
        self.changes_access |= grants_access(new);
        self.require(if is_admin_value(new) {
            AdminPermissions::ADD_ADMIN
        } else {
            AdminPermissions::ADD_VALUE
        });
    }

    pub(super) fn remove(&mut self, old: &HandleValue<'_>) {
        self.has_changes = true;
        self.changes_access |= grants_access(old);
        self.require_writable(old);
        self.require(if is_admin_value(old) {
            AdminPermissions::REMOVE_ADMIN
        } else {
            AdminPermissions::REMOVE_VALUE
        });
    }

    /// Depends on both types: turning a plain value into `HS_ADMIN` requires permission to add admins.
    pub(super) fn modify(&mut self, old: &HandleValue<'_>, new: &HandleValue<'_>) {
        self.has_changes = true;
        self.changes_access |= grants_access(old) || grants_access(new);
        self.require_writable(old);
        self.require(match (is_admin_value(old), is_admin_value(new)) {
            (false, false) if is_public_write(old, new) => AdminPermissions::default(),
            (false, false) => AdminPermissions::MODIFY_VALUE,
            (true, true) => AdminPermissions::MODIFY_ADMIN,
            (true, false) => AdminPermissions::REMOVE_ADMIN | AdminPermissions::MODIFY_VALUE,
            (false, true) => AdminPermissions::MODIFY_VALUE | AdminPermissions::ADD_ADMIN,
        });
    }

    /// Replaces a value if the new one differs.
    pub(super) fn replace(&mut self, old: &HandleValue<'_>, new: &HandleValue<'_>) {
        if is_same_value(old, new) { self.keep_unchanged(old) } else { self.modify(old, new) }
    }

    /// Keeps a value that the writer gives. A non-public one requires read permission, and a secret the right to change keys:
    /// otherwise its content could be guessed by writing.
    pub(super) fn keep_unchanged(&mut self, old: &HandleValue<'_>) {
        self.changes_access |= old.is_secret();
        if !old.is_public() {
            self.require(AdminPermissions::READ_VALUE);
        }
    }

    /// Requirement if no permission is required: public for publicly writable values. If nothing changes, authentication is
    /// required, as by deployed servers.
    pub(super) fn requirement_without_admin(&self) -> Option<Requirement> {
        let requirement = if self.has_changes { Requirement::Public } else { Requirement::Authenticated };
        (self.required == AdminPermissions::default()).then_some(requirement)
    }

    /// Fails if a read-only value would change.
    pub(super) fn check_writable(&self) -> Result<(), Error> {
        self.read_only_index.map_or(Ok(()), |index| Err(Error::ValueReadOnly { index }))
    }

    fn require_writable(&mut self, old: &HandleValue<'_>) {
        if !old.permissions.contains(ValuePermissions::ADMIN_WRITE) {
            self.read_only_index.get_or_insert(old.index);
        }
    }

    fn require(&mut self, required: AdminPermissions) {
        self.required |= required;
    }
}

/// Whether a publicly writable value changes in its data only. Type and permissions are not publicly writable, nor are
/// keys and groups.
fn is_public_write(old: &HandleValue<'_>, new: &HandleValue<'_>) -> bool {
    !grants_access(old)
        && old.permissions.contains(ValuePermissions::PUBLIC_WRITE)
        && old.permissions == new.permissions
        && old.value_type == new.value_type
}

/// Whether a stored value and a new one differ in their timestamps at most.
pub(crate) fn is_same_value(old: &HandleValue<'_>, new: &HandleValue<'_>) -> bool {
    old.index == new.index
        && old.ttl == new.ttl
        && (old.permissions == new.permissions || old.permissions == new.stored_permissions())
        && old.value_type == new.value_type
        && old.data == new.data
        && old.references == new.references
}

/// Sets the timestamps of the values of a record: those of unchanged values stay.
pub(crate) fn set_timestamps(values: &mut [HandleValue<'_>], previous: &[HandleValue<'_>], now_ms: u64) {
    for value in values {
        let same = previous.iter().find(|old| is_same_value(old, value));
        value.timestamp = same.map_or_else(|| handle_timestamp(now_ms), |old| old.timestamp);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(value_type: &'static str, permissions: u8) -> HandleValue<'static> {
        HandleValue { permissions: ValuePermissions(permissions), ..HandleValue::new(1, value_type, "x") }
    }

    #[test]
    fn bits_by_type() {
        check(None, Some("URL"), 0x0040);
        check(None, Some("HS_ADMIN"), 0x0200);
        check(None, Some("hs_admin.x"), 0x0200);
        check(Some("URL"), None, 0x0020);
        check(Some("HS_ADMIN"), None, 0x0100);
        check(Some("URL"), Some("EMAIL"), 0x0010);
        check(Some("HS_ADMIN"), Some("HS_ADMIN"), 0x0080);
        check(Some("HS_ADMIN"), Some("URL"), 0x0110);
        check(Some("URL"), Some("HS_ADMIN"), 0x0210);
    }

    #[track_caller]
    fn check(old: Option<&'static str>, new: Option<&'static str>, required: u16) {
        let mut diff = RecordDiff::default();
        let (old, new) = (old.map(|old| value(old, 0x0e)), new.map(|new| value(new, 0x0e)));
        match (&old, &new) {
            (None, Some(new)) => diff.add(new),
            (Some(old), None) => diff.remove(old),
            (Some(old), Some(new)) => diff.modify(old, new),
            (None, None) => {}
        }
        assert_eq!(diff.required, AdminPermissions(required), "{old:?} {new:?}");
        assert!(diff.check_writable().is_ok());
    }

    #[test]
    fn bits_by_permission() {
        let check = |old: u8, new: u8, new_type, required, writable| {
            let mut diff = RecordDiff::default();
            diff.modify(&value("NOTE", old), &value(new_type, new));
            assert_eq!(diff.required, AdminPermissions(required), "{old:x} {new:x} {new_type}");
            assert_eq!(diff.check_writable().is_ok(), writable, "{old:x}");
        };
        check(0x0f, 0x0f, "NOTE", 0, true);
        check(0x0f, 0x0e, "NOTE", 0x0010, true);
        check(0x0f, 0x0f, "URL", 0x0010, true);
        check(0x0f, 0x0f, "HS_ADMIN", 0x0210, true);
        check(0x0e, 0x0f, "NOTE", 0x0010, true);
        check(0x0a, 0x0e, "NOTE", 0x0010, false);
        check(0x03, 0x03, "NOTE", 0, false);
        let mut removed = RecordDiff::default();
        removed.remove(&value("NOTE", 0x0a));
        assert!(removed.check_writable().is_err());
    }

    #[test]
    fn timestamps_are_ignored() {
        let mut diff = RecordDiff::default();
        let old = HandleValue { timestamp: 5, ..value("URL", 0x08) };
        diff.replace(&old, &value("URL", 0x08));
        assert!(!diff.has_changes && diff.check_writable().is_ok());
        assert_eq!(diff.required, AdminPermissions::READ_VALUE, "it is hidden");
        let mut public = RecordDiff::default();
        public.replace(&value("URL", 0x02), &value("URL", 0x02));
        assert_eq!(public.required, AdminPermissions::default());
        diff.replace(&old, &value("URL", 0x0e));
        assert!(diff.has_changes && diff.check_writable().is_err());
    }
}
