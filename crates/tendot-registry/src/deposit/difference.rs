//! Which rights it takes to make one record of another.

use tendot_proto::record::AdminPermissions;
use tendot_proto::{HandleValue, ValuePermissions};

use crate::Error;
use crate::permission::{Requirement, is_admin_value};

/// Difference between two records, as the admin permissions required to make it.
#[derive(Debug, Default)]
pub(super) struct RecordDiff {
    /// The rights that are needed, all of them.
    pub(super) bits: AdminPermissions,
    /// Whether anything changes, be it something that everybody may change.
    pub(super) any: bool,
    /// A value that nobody may change, and that would change.
    read_only: Option<u32>,
}

impl RecordDiff {
    pub(super) fn add(&mut self, new: &HandleValue<'_>) {
        self.any = true;
        self.require(if is_admin_value(new) {
            AdminPermissions::ADD_ADMIN
        } else {
            AdminPermissions::ADD_VALUE
        });
    }

    pub(super) fn remove(&mut self, old: &HandleValue<'_>) {
        self.any = true;
        self.require_writable(old);
        self.require(if is_admin_value(old) {
            AdminPermissions::REMOVE_ADMIN
        } else {
            AdminPermissions::REMOVE_VALUE
        });
    }

    /// By the types of both: what gives rights is not to be made of what does not by somebody who may only do that.
    pub(super) fn modify(&mut self, old: &HandleValue<'_>, new: &HandleValue<'_>) {
        self.any = true;
        self.require_writable(old);
        self.require(match (is_admin_value(old), is_admin_value(new)) {
            (false, false) if is_public_write(old, new) => AdminPermissions::default(),
            (false, false) => AdminPermissions::MODIFY_VALUE,
            (true, true) => AdminPermissions::MODIFY_ADMIN,
            (true, false) => AdminPermissions::REMOVE_ADMIN | AdminPermissions::MODIFY_VALUE,
            (false, true) => AdminPermissions::MODIFY_VALUE | AdminPermissions::ADD_ADMIN,
        });
    }

    /// One value in the place of another, if they differ.
    pub(super) fn replace(&mut self, old: &HandleValue<'_>, new: &HandleValue<'_>) {
        if is_same_value(old, new) { self.keep_unchanged(old) } else { self.modify(old, new) }
    }

    /// A value stays as it is. Who learns that has read it: else a secret could be guessed by writing it.
    pub(super) fn keep_unchanged(&mut self, old: &HandleValue<'_>) {
        if !old.permissions.is_public() {
            self.require(AdminPermissions::READ_VALUE);
        }
    }

    /// What is needed if no right is: nothing for what everybody may change. If nothing changes, who asks has to be known
    /// even so, as with the deployed software.
    pub(super) fn requirement_without_admin(&self) -> Option<Requirement> {
        let needed = if self.any { Requirement::Nothing } else { Requirement::Proof };
        (self.bits == AdminPermissions::default()).then_some(needed)
    }

    /// The error that those get who may do it, but for values that nobody may change.
    pub(super) fn check_writable(&self) -> Result<(), Error> {
        self.read_only.map_or(Ok(()), |index| Err(Error::ReadOnly { index }))
    }

    fn require_writable(&mut self, old: &HandleValue<'_>) {
        if !old.permissions.has(ValuePermissions::ADMIN_WRITE) {
            self.read_only.get_or_insert(old.index);
        }
    }

    fn require(&mut self, bits: AdminPermissions) {
        self.bits = self.bits | bits;
    }
}

/// Everybody may write into a value that says so, but not decide what it is and who may read and write it.
fn is_public_write(old: &HandleValue<'_>, new: &HandleValue<'_>) -> bool {
    old.permissions.has(ValuePermissions::PUBLIC_WRITE)
        && old.permissions == new.permissions
        && old.value_type == new.value_type
}

/// Whether both are the same but for their dates.
pub(crate) fn is_same_value(old: &HandleValue<'_>, new: &HandleValue<'_>) -> bool {
    old.index == new.index
        && old.ttl == new.ttl
        && old.permissions == new.permissions
        && old.value_type == new.value_type
        && old.data == new.data
        && old.references == new.references
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
    fn check(old: Option<&'static str>, new: Option<&'static str>, bits: u16) {
        let mut difference = RecordDiff::default();
        let (old, new) = (old.map(|old| value(old, 0x0e)), new.map(|new| value(new, 0x0e)));
        match (&old, &new) {
            (None, Some(new)) => difference.add(new),
            (Some(old), None) => difference.remove(old),
            (Some(old), Some(new)) => difference.modify(old, new),
            (None, None) => {}
        }
        assert_eq!(difference.bits, AdminPermissions(bits), "{old:?} {new:?}");
        assert!(difference.check_writable().is_ok());
    }

    #[test]
    fn bits_by_permission() {
        let check = |old: u8, new: u8, new_type, bits, writable| {
            let mut difference = RecordDiff::default();
            difference.modify(&value("NOTE", old), &value(new_type, new));
            assert_eq!(difference.bits, AdminPermissions(bits), "{old:x} {new:x} {new_type}");
            assert_eq!(difference.check_writable().is_ok(), writable, "{old:x}");
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
    fn dates_are_no_difference() {
        let mut difference = RecordDiff::default();
        let old = HandleValue { timestamp: 5, ..value("URL", 0x08) };
        difference.replace(&old, &value("URL", 0x08));
        assert!(!difference.any && difference.check_writable().is_ok());
        assert_eq!(difference.bits, AdminPermissions::READ_VALUE, "it is hidden");
        let mut public = RecordDiff::default();
        public.replace(&value("URL", 0x02), &value("URL", 0x02));
        assert_eq!(public.bits, AdminPermissions::default());
        difference.replace(&old, &value("URL", 0x0e));
        assert!(difference.any && difference.check_writable().is_err());
    }
}
