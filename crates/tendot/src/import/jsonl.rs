//! A record a line: read by one thread, parsed by several.

use std::io::Read;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use tendot_proto::record::Record;

use super::piece::{Piece, SIZE, Taken};
use super::{Item, LONGEST, Source};
use crate::Failure;
use crate::lines::Lines;

/// Bytes of lines that are being parsed or wait for it, unless a single line has more.
const ROOM: usize = 4 << 20;

/// The lines of a source, in blocks that are parsed one by one.
pub(super) fn blocks(source: Source) -> impl Iterator<Item = Result<Block, Failure>> + Send {
    let (name, reader) = source.into_parts();
    let mut lines = Lines::of(reader, &name, LONGEST);
    let (room, mut number) = (Arc::new(Room::default()), 0);
    std::iter::from_fn(move || {
        let block = Block::read(&mut lines, number, &room).transpose()?;
        number += block.as_ref().map_or(0, |block| block.count);
        Some(block)
    })
}

/// Lines that are parsed together.
pub(super) struct Block {
    /// The number of lines before them.
    before: u64,
    count: u64,
    /// Each with its end.
    text: Vec<u8>,
    _place: Place,
}

impl Block {
    fn read(lines: &mut Lines<impl Read>, before: u64, room: &Arc<Room>) -> Result<Option<Self>, Failure> {
        let (mut text, mut count) = (Vec::with_capacity(SIZE), 0);
        while text.len() < SIZE
            && let Some(line) = lines.next()?
        {
            count += 1;
            text.extend_from_slice(line);
            text.push(b'\n');
        }
        if count == 0 {
            return Ok(None);
        }
        let place = room.enter(text.len());
        Ok(Some(Self { before, count, text, _place: place }))
    }

    pub(super) fn parse(&self, taken: Taken) -> Piece {
        let mut piece = Piece::new(taken);
        let mut begin = 0;
        for (end, number) in memchr::memchr_iter(b'\n', &self.text).zip(self.before + 1..) {
            let line = &self.text[begin..end];
            begin = end + 1;
            if line.len() > LONGEST {
                piece.take(number, Item::Refused(format!("the line has more than {LONGEST} bytes")));
            } else if !line.trim_ascii().is_empty() {
                piece.take(
                    number,
                    match Record::from_json(line) {
                        Ok(record) => Item::Record(record),
                        Err(error) => Item::Refused(error.to_string()),
                    },
                );
            }
        }
        piece
    }
}

/// Keeps the memory bounded: many short lines at a time, or one that is long.
#[derive(Default)]
struct Room {
    taken: Mutex<usize>,
    left: Condvar,
}

impl Room {
    /// Waits until there is room, or nobody else.
    fn enter(self: &Arc<Self>, size: usize) -> Place {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = |taken: &mut usize| *taken > 0 && *taken + size > ROOM;
        let mut taken = self.left.wait_while(taken, is_full).unwrap_or_else(PoisonError::into_inner);
        *taken += size;
        Place { room: Arc::clone(self), size }
    }
}

/// A place in the room, as long as it is kept.
struct Place {
    room: Arc<Room>,
    size: usize,
}

impl Drop for Place {
    fn drop(&mut self) {
        *self.room.taken.lock().unwrap_or_else(PoisonError::into_inner) -= self.size;
        self.room.left.notify_one();
    }
}
