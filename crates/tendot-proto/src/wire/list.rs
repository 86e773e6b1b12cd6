use core::fmt;
use core::marker::PhantomData;

use super::{Reader, Writer};
use crate::error::DecodeError;

/// What a [`List`] can be made of.
pub trait Item<'a>: Sized {
    /// The fewest bytes that one takes.
    const LEAST: usize;

    /// Reads one.
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError>;

    /// Checks one and passes over it.
    fn skip(reader: &mut Reader<'a>) -> Result<(), DecodeError> {
        Self::decode(reader).map(drop)
    }

    /// Writes one.
    fn encode(&self, writer: &mut Writer<'_>);

    /// The same, borrowing what it can.
    fn borrowed(item: &'a Self) -> Self;
}

/// A counted list in a message: checked, but left as it came, so that reading a message allocates nothing; or the
/// caller's own items, to be written.
///
/// ```
/// use tendot_proto::wire::{List, Reader};
///
/// let read: List<u32> = List::decode(&mut Reader::new(&[0, 0, 0, 2, 0, 0, 0, 7, 0, 0, 0, 9]), "indexes")?;
/// assert!(read.iter().eq([7, 9]));
/// assert_eq!(read, List::from(&[7, 9][..]));
/// # Ok::<(), tendot_proto::DecodeError>(())
/// ```
pub struct List<'a, T>(Kept<'a, T>);

enum Kept<'a, T> {
    /// `count` items, each of which has been found decodable.
    Wire {
        count: u32,
        bytes: &'a [u8],
    },
    Items(&'a [T]),
}

impl<'a, T: Item<'a>> List<'a, T> {
    /// A list without items.
    pub const EMPTY: Self = Self(Kept::Wire { count: 0, bytes: &[] });

    /// Checks a list and all of its items.
    pub fn decode(reader: &mut Reader<'a>, field: &'static str) -> Result<Self, DecodeError> {
        let count = reader.count(field, T::LEAST)?;
        let from = *reader;
        for _ in 0..count {
            T::skip(reader)?;
        }
        let length = reader.at() - from.at();
        Ok(Self(Kept::Wire { count, bytes: from.rest().get(..length).unwrap_or_default() }))
    }

    /// Writes the number of items and all of them.
    pub fn encode(&self, writer: &mut Writer<'_>) {
        match self.0 {
            Kept::Wire { count, bytes } => {
                writer.u32(count);
                writer.raw(bytes);
            }
            Kept::Items(items) => {
                writer.count(items.len());
                for item in items {
                    item.encode(writer);
                }
            }
        }
    }

    /// The number of items.
    pub fn len(&self) -> usize {
        match self.0 {
            Kept::Wire { count, .. } => count as usize,
            Kept::Items(items) => items.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The items.
    pub fn iter(&self) -> WireListIter<'a, T> {
        WireListIter {
            left: match self.0 {
                Kept::Wire { count, bytes } => {
                    Left::Wire { count, reader: Reader::new(bytes), items: PhantomData }
                }
                Kept::Items(items) => Left::Items(items.iter()),
            },
        }
    }
}

// By hand, since a list of items that cannot be copied can be: it only points at them.
impl<T> Clone for List<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for List<'_, T> {}

impl<T> Clone for Kept<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Kept<'_, T> {}

impl<'a, T> From<&'a [T]> for List<'a, T> {
    fn from(items: &'a [T]) -> Self {
        Self(Kept::Items(items))
    }
}

impl<'a, T: Item<'a>> IntoIterator for List<'a, T> {
    type Item = T;
    type IntoIter = WireListIter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a, T: Item<'a> + PartialEq> PartialEq for List<'a, T> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<'a, T: Item<'a> + Eq> Eq for List<'a, T> {}

impl<'a, T: Item<'a> + fmt::Debug> fmt::Debug for List<'a, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// The items of a [`List`].
#[derive(Clone, Debug)]
pub struct WireListIter<'a, T> {
    left: Left<'a, T>,
}

#[derive(Clone, Debug)]
enum Left<'a, T> {
    Wire { count: u32, reader: Reader<'a>, items: PhantomData<T> },
    Items(core::slice::Iter<'a, T>),
}

impl<'a, T: Item<'a>> Iterator for WireListIter<'a, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        match &mut self.left {
            Left::Wire { count, reader, .. } => {
                *count = count.checked_sub(1)?;
                // Checked when the list was decoded, so an error cannot come; if it did, the list would end.
                T::decode(reader).ok()
            }
            Left::Items(items) => items.next().map(T::borrowed),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = match &self.left {
            Left::Wire { count, .. } => *count as usize,
            Left::Items(items) => items.len(),
        };
        (left, Some(left))
    }
}

impl<'a, T: Item<'a>> ExactSizeIterator for WireListIter<'a, T> {}

impl Item<'_> for u32 {
    const LEAST: usize = 4;

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.u32("index")
    }

    fn encode(&self, writer: &mut Writer<'_>) {
        writer.u32(*self);
    }

    fn borrowed(item: &Self) -> Self {
        *item
    }
}

impl<'a> Item<'a> for &'a [u8] {
    const LEAST: usize = 4;

    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        reader.bytes("string")
    }

    fn encode(&self, writer: &mut Writer<'_>) {
        writer.bytes(self);
    }

    fn borrowed(item: &'a Self) -> Self {
        item
    }
}
