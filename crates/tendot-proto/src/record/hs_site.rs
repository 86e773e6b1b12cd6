/// Which part of a handle decides its server.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct HashOption(pub u8);

impl HashOption {
    /// The prefix alone, so that all names of a prefix are on one server.
    pub const PREFIX: Self = Self(0);
    /// The suffix alone.
    pub const SUFFIX: Self = Self(1);
    /// The whole handle.
    pub const WHOLE: Self = Self(2);
}
