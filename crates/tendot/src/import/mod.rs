//! Reading records to be imported: which format it is (`format`), a file for each of them, what is taken and what is
//! refused (`check`), what a part of it comes to (`piece`), and what is said about it (`report`).

mod check;
mod csv;
mod format;
mod handle_batch;
mod handle_net;
mod jsonl;
mod piece;
mod report;
mod source;

use std::num::NonZero;
use std::thread;

use check::check;
pub(crate) use format::Format;
use piece::Told;
pub(crate) use piece::{Piece, Taken};
pub(crate) use report::Report;
pub(crate) use source::Source;
use tendot_proto::record::Record;

use crate::Failure;
use crate::pool::{Results, in_order};

/// What was read.
pub(crate) enum Item {
    /// A record, not checked yet.
    Record(Record<'static>),
    /// A prefix that is to be homed.
    Home(String),
    /// Something that is neither, and why.
    Refused(String),
}

/// Takes what is read, and the line where it begins.
pub(crate) type Take<'a> = dyn FnMut(u64, Item) -> Result<(), Failure> + 'a;

/// Bytes that one record may take in a file; a longer one is refused before it fills the memory.
const LONGEST: usize = 64 << 20;

/// Threads that parse; with more, the one that takes what they have parsed would be behind.
const THREADS: usize = 4;

/// Reads all that a source has, and gives it to `take` piece by piece, in order.
pub(crate) fn read(
    source: Source,
    format: Format,
    taken: Taken,
    mut take: impl FnMut(Piece) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let read = match format {
        Format::Jsonl => {
            let threads = thread::available_parallelism().map_or(1, NonZero::get).min(THREADS);
            let threads = NonZero::new(threads).unwrap_or(NonZero::<usize>::MIN);
            // Nobody wants it when the import has failed.
            let parse = |block: Result<jsonl::Block, Failure>, pieces: &Results<_>| {
                let _ = pieces.send(block.map(|block| block.parse(taken)));
            };
            return in_order(threads, jsonl::blocks(source), parse, |piece| take(piece?));
        }
        Format::Csv => csv::read,
        Format::HandleNet => handle_net::read,
        Format::HandleBatch => handle_batch::read,
    };
    // These are read as a whole, beside the one who takes what was read.
    let parse = |source: Source, pieces: &Results<_>| {
        let mut piece = Piece::new(taken);
        let read = read(source, &mut |line, item| {
            piece.take(line, item);
            if piece.is_full() {
                let full = std::mem::replace(&mut piece, Piece::new(taken));
                pieces.send(Ok(full)).map_err(|_| Failure::new("nothing more is taken"))?;
            }
            Ok(())
        });
        let _ =
            pieces.send(Ok(piece)).and_then(|()| read.map_or_else(|failure| pieces.send(Err(failure)), Ok));
    };
    in_order(NonZero::<usize>::MIN, std::iter::once(source), parse, |piece| take(piece?))
}
