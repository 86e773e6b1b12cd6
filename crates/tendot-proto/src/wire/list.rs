//! Counted lists, decoded lazily.

use core::fmt;
use core::marker::PhantomData;

use super::{WireReader, WireWriter};
use crate::error::DecodeError;

/// Element type of a [`WireList`].
pub trait ListItem<'a>: Sized {
    /// Minimum encoded length in bytes.
    const MIN_LEN: usize;

    /// Decodes one item.
    fn decode(reader: &mut WireReader<'a>) -> Result<Self, DecodeError>;

    /// Validates and skips one item.
    fn skip(reader: &mut WireReader<'a>) -> Result<(), DecodeError> {
        Self::decode(reader).map(drop)
    }

    /// Encodes one item.
    fn encode(&self, writer: &mut WireWriter<'_>);

    /// Copy that borrows from `item`.
    fn reborrow(item: &'a Self) -> Self;
}

/// Counted list: validated wire bytes decoded on iteration, or borrowed items to encode. Never allocates.
///
/// ```
/// use tendot_proto::wire::{WireList, WireReader};
///
/// let decoded: WireList<u32> = WireList::decode(&mut WireReader::new(&[0, 0, 0, 2, 0, 0, 0, 7, 0, 0, 0, 9]), "indexes")?;
/// assert!(decoded.iter().eq([7, 9]));
/// assert_eq!(decoded, WireList::from(&[7, 9][..]));
/// # Ok::<(), tendot_proto::DecodeError>(())
/// ```
pub struct WireList<'a, T>(Repr<'a, T>);

/// Wire bytes or borrowed items.
enum Repr<'a, T> {
    /// `count` items, each already validated.
    Wire {
        count: u32,
        bytes: &'a [u8],
    },
    Items(&'a [T]),
}

impl<'a, T: ListItem<'a>> WireList<'a, T> {
    /// Empty list.
    pub const EMPTY: Self = Self(Repr::Wire { count: 0, bytes: &[] });

    /// Validates a list and all of its items.
    pub fn decode(reader: &mut WireReader<'a>, field: &'static str) -> Result<Self, DecodeError> {
        let count = reader.count(field, T::MIN_LEN)?;
        let start = *reader;
        for _ in 0..count {
            T::skip(reader)?;
        }
        let length = reader.offset() - start.offset();
        Ok(Self(Repr::Wire { count, bytes: start.remaining().get(..length).unwrap_or_default() }))
    }

    /// Encodes the count and the items.
    pub fn encode(&self, writer: &mut WireWriter<'_>) {
        match self.0 {
            Repr::Wire { count, bytes } => {
                writer.u32(count);
                writer.raw(bytes);
            }
            Repr::Items(items) => {
                writer.count(items.len());
                for item in items {
                    item.encode(writer);
                }
            }
        }
    }

    /// Number of items.
    pub fn len(&self) -> usize {
        match self.0 {
            Repr::Wire { count, .. } => count as usize,
            Repr::Items(items) => items.len(),
        }
    }

    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Iterates over the items.
    pub fn iter(&self) -> WireListIter<'a, T> {
        WireListIter {
            remaining: match self.0 {
                Repr::Wire { count, bytes } => {
                    IterRepr::Wire { count, reader: WireReader::new(bytes), items: PhantomData }
                }
                Repr::Items(items) => IterRepr::Items(items.iter()),
            },
        }
    }
}

// Not derived: the list only points to its items, so it is `Copy` even if `T` is not.
impl<T> Clone for WireList<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for WireList<'_, T> {}

impl<T> Clone for Repr<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Repr<'_, T> {}

impl<'a, T> From<&'a [T]> for WireList<'a, T> {
    fn from(items: &'a [T]) -> Self {
        Self(Repr::Items(items))
    }
}

impl<'a, T: ListItem<'a>> IntoIterator for WireList<'a, T> {
    type Item = T;
    type IntoIter = WireListIter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a, T: ListItem<'a> + PartialEq> PartialEq for WireList<'a, T> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<'a, T: ListItem<'a> + Eq> Eq for WireList<'a, T> {}

impl<'a, T: ListItem<'a> + fmt::Debug> fmt::Debug for WireList<'a, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Iterator over the items of a [`WireList`].
#[derive(Clone, Debug)]
pub struct WireListIter<'a, T> {
    remaining: IterRepr<'a, T>,
}

/// Remaining wire bytes or items.
#[derive(Clone, Debug)]
enum IterRepr<'a, T> {
    Wire { count: u32, reader: WireReader<'a>, items: PhantomData<T> },
    Items(core::slice::Iter<'a, T>),
}

impl<'a, T: ListItem<'a>> Iterator for WireListIter<'a, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        match &mut self.remaining {
            IterRepr::Wire { count, reader, .. } => {
                *count = count.checked_sub(1)?;
                // Validated by `WireList::decode`, so there is no error; if there were one, the iteration would end.
                T::decode(reader).ok()
            }
            IterRepr::Items(items) => items.next().map(T::reborrow),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let remaining = match &self.remaining {
            IterRepr::Wire { count, .. } => *count as usize,
            IterRepr::Items(items) => items.len(),
        };
        (remaining, Some(remaining))
    }
}

impl<'a, T: ListItem<'a>> ExactSizeIterator for WireListIter<'a, T> {}

impl ListItem<'_> for u32 {
    const MIN_LEN: usize = 4;

    fn decode(reader: &mut WireReader<'_>) -> Result<Self, DecodeError> {
        reader.u32("index")
    }

    fn encode(&self, writer: &mut WireWriter<'_>) {
        writer.u32(*self);
    }

    fn reborrow(item: &Self) -> Self {
        *item
    }
}

impl<'a> ListItem<'a> for &'a [u8] {
    const MIN_LEN: usize = 4;

    fn decode(reader: &mut WireReader<'a>) -> Result<Self, DecodeError> {
        reader.bytes("string")
    }

    fn encode(&self, writer: &mut WireWriter<'_>) {
        writer.bytes(self);
    }

    fn reborrow(item: &'a Self) -> Self {
        item
    }
}
