//! Value references, `index:handle`.

use alloc::borrow::Cow;
use core::fmt;

use crate::error::DecodeError;
use crate::handle::Handle;
use crate::wire::{ListItem, WireReader, WireWriter};

/// Value reference `index:handle`; names admins, keys and group members.
///
/// Example: `300:0.NA/10`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ValueReference<'a> {
    /// Handle of the record.
    pub handle: Cow<'a, [u8]>,
    /// Index of the value; 0 for any.
    pub index: u32,
}

impl<'a> ValueReference<'a> {
    /// Reference to the value at `index` of `handle`.
    pub fn new(index: u32, handle: impl Into<Cow<'a, [u8]>>) -> Self {
        Self { handle: handle.into(), index }
    }

    /// Parses `index:handle`; without an index it is 0.
    pub fn parse(text: &'a str) -> Self {
        match text.split_once(':').map(|(index, handle)| (index.parse(), handle)) {
            Some((Ok(index), handle)) => Self::new(index, handle.as_bytes()),
            _ => Self::new(0, text.as_bytes()),
        }
    }

    /// Handle of the record.
    pub fn handle(&self) -> Handle<'_> {
        Handle::new(&self.handle)
    }

    /// Copies all borrowed data.
    pub fn into_owned(self) -> ValueReference<'static> {
        ValueReference { handle: Cow::Owned(self.handle.into_owned()), index: self.index }
    }

    /// Compares identities: ASCII case is ignored in the prefix, and everywhere in `0.…`.
    pub fn eq_identity(&self, other: &ValueReference<'_>) -> bool {
        self.index == other.index && self.handle().eq_identity(other.handle())
    }
}

impl fmt::Display for ValueReference<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.index, self.handle())
    }
}

impl<'a> ListItem<'a> for ValueReference<'a> {
    const MIN_LEN: usize = 8;

    fn decode(reader: &mut WireReader<'a>) -> Result<Self, DecodeError> {
        let handle = Cow::Borrowed(reader.bytes("reference handle")?);
        Ok(Self { handle, index: reader.u32("reference index")? })
    }

    fn encode(&self, writer: &mut WireWriter<'_>) {
        writer.bytes(&self.handle);
        writer.u32(self.index);
    }

    fn reborrow(item: &'a Self) -> Self {
        Self { handle: Cow::Borrowed(&item.handle), index: item.index }
    }
}
