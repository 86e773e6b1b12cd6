use core::fmt;

/// Read and write permissions of a value. Unknown bits are preserved.
///
/// Bits without a meaning are kept.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct ValuePermissions(pub u8);

impl ValuePermissions {
    /// Administrators may read the value.
    pub const ADMIN_READ: Self = Self(0x08);
    /// Administrators may change it.
    pub const ADMIN_WRITE: Self = Self(0x04);
    /// Everybody may read it.
    pub const PUBLIC_READ: Self = Self(0x02);
    /// Everybody may change it.
    pub const PUBLIC_WRITE: Self = Self(0x01);
    /// What a new value gets: everything but writing by everybody.
    pub const DEFAULT: Self = Self(0x0e);

    /// Whether all of `bits` are set.
    pub const fn has(self, bits: Self) -> bool {
        self.0 & bits.0 == bits.0
    }

    /// Whether everybody may read the value.
    pub const fn is_public(self) -> bool {
        self.has(Self::PUBLIC_READ)
    }
}

/// Four digits, as JSON has them: `1110`.
impl fmt::Display for ValuePermissions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04b}", self.0 & 0x0f)
    }
}
