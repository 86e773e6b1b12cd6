//! `HS_ADMIN`: administrators and their permissions.

use bitflags::bitflags;

use crate::error::{DecodeError, DecodeErrorKind};
use crate::record::ValueReference;
use crate::wire::{ListItem, WireReader, WireWriter};

/// Data of an `HS_ADMIN` value: admin reference and permissions (RFC 3651, 3.2; Handle.Net's field order).
///
/// Encoded as permissions, handle, index. RFC 3651 has another order, which no implementation uses.
///
/// ```
/// use tendot_proto::{ValueReference, record::{Admin, AdminPermissions}};
///
/// let admin = Admin {
///     permissions: AdminPermissions::ADD_VALUE | AdminPermissions::MODIFY_VALUE,
///     reference: ValueReference::parse("200:0.NA/10"),
///     legacy_byte_length: false,
/// };
/// let bytes = admin.to_bytes();
/// assert_eq!(bytes, *b"\0\x50\0\0\0\x070.NA/10\0\0\0\xc8");
/// assert_eq!(Admin::from_bytes(&bytes)?, admin);
///
/// let error = Admin::from_bytes(&bytes[..10]).unwrap_err();
/// assert_eq!(error.to_string(), "reference handle at byte 2: needs 7 bytes, only 4 left");
/// # Ok::<(), tendot_proto::DecodeError>(())
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Admin<'a> {
    /// Permissions of the administrator.
    pub permissions: AdminPermissions,
    /// Administrator: a key, or a group (`HS_VLIST`); index 0 is any key of the record.
    pub reference: ValueReference<'a>,
    /// Whether two zero bytes follow, as Handle.Net wrote them up to version 7.3. Signatures cover them, so they are
    /// preserved.
    pub legacy_byte_length: bool,
}

impl<'a> Admin<'a> {
    /// Decodes the data of a value.
    pub fn from_bytes(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = WireReader::new(bytes);
        let permissions = AdminPermissions(reader.u16("admin permissions")?);
        let reference = ValueReference::decode(&mut reader)?;
        let legacy_byte_length = match *reader.remaining() {
            [] => false,
            [0, 0] => true,
            ref rest => {
                return Err(reader.error("HS_ADMIN", DecodeErrorKind::TrailingBytes { count: rest.len() }));
            }
        };
        Ok(Self { permissions, reference, legacy_byte_length })
    }

    /// Encodes the data of a value.
    pub fn to_bytes(&self) -> alloc::vec::Vec<u8> {
        let mut out = alloc::vec::Vec::new();
        let mut writer = WireWriter::new(&mut out);
        writer.u16(self.permissions.0);
        self.reference.encode(&mut writer);
        if self.legacy_byte_length {
            writer.u16(0);
        }
        out
    }
}

/// Permission bits of an admin. Unknown bits are preserved.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct AdminPermissions(pub u16);

bitflags! {
    impl AdminPermissions: u16 {
        /// Create records under the prefix.
        const ADD_HANDLE = 0x0001;
        /// Delete the record.
        const DELETE_HANDLE = 0x0002;
        /// Create prefixes derived from this one.
        const ADD_DERIVED_PREFIX = 0x0004;
        /// Delete prefixes derived from this one. Not checked by Handle.Net.
        const DELETE_DERIVED_PREFIX = 0x0008;
        /// Change values.
        const MODIFY_VALUE = 0x0010;
        /// Remove values.
        const REMOVE_VALUE = 0x0020;
        /// Add values.
        const ADD_VALUE = 0x0040;
        /// Change values of the type `HS_ADMIN`.
        const MODIFY_ADMIN = 0x0080;
        /// Remove values of the type `HS_ADMIN`.
        const REMOVE_ADMIN = 0x0100;
        /// Add values of the type `HS_ADMIN`.
        const ADD_ADMIN = 0x0200;
        /// Read values that only administrators may read.
        const READ_VALUE = 0x0400;
        /// List the records under the prefix.
        const LIST_HANDLES = 0x0800;
        /// List the prefixes derived from this one: only in RFC 3651 and its successor; Handle.Net drops it.
        const LIST_DERIVED_PREFIXES = 0x1000;
    }
}

impl AdminPermissions {
    /// All permissions of Handle.Net.
    pub const ALL: Self = Self(0x0fff);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn legacy_trailing_bytes() {
        check(b"", Ok(false));
        check(b"\0\0", Ok(true));
        check(b"\0", Err(1));
        check(b"\0\x01", Err(2));
        check(b"\0\0\0", Err(3));
    }

    #[track_caller]
    fn check(rest: &[u8], legacy: Result<bool, usize>) {
        let bytes = [b"\x07\xf3\0\0\0\x070.NA/10\0\0\0\xc8", rest].concat();
        let decoded = Admin::from_bytes(&bytes);
        if let Ok(admin) = &decoded {
            assert_eq!(admin.to_bytes(), bytes);
        }
        let expected = legacy
            .map_err(|count| DecodeError::new("HS_ADMIN", 17, DecodeErrorKind::TrailingBytes { count }));
        assert_eq!(decoded.map(|admin| admin.legacy_byte_length), expected);
    }
}
