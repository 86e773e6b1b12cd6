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

use check::check_record;
pub(crate) use format::ImportFormat;
use piece::LineDiagnostic;
pub(crate) use piece::{ImportChunk, ImportOptions};
pub(crate) use report::ImportReport;
pub(crate) use source::ImportSource;
use tendot_proto::record::HandleRecord;

use crate::CliError;
use crate::pool::{ResultSender, map_ordered};

/// What was read.
pub(crate) enum ImportItem {
    /// A record, not checked yet.
    Record(HandleRecord<'static>),
    /// A prefix that is to be homed.
    Home(String),
    /// Something that is neither, and why.
    Refused(String),
}

/// Callback for items, with the line they begin at.
pub(crate) type ItemSink<'a> = dyn FnMut(u64, ImportItem) -> Result<(), CliError> + 'a;

/// Bytes that one record may take in a file; a longer one is refused before it fills the memory.
const MAX_RECORD_BYTES: usize = 64 << 20;

/// Threads that parse; with more, the one that takes what they have parsed would be behind.
const MAX_PARSER_THREADS: usize = 4;

/// Reads all that a source has, and gives it to `take` piece by piece, in order.
pub(crate) fn read_chunks(
    source: ImportSource,
    format: ImportFormat,
    taken: ImportOptions,
    mut take: impl FnMut(ImportChunk) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let read = match format {
        ImportFormat::Jsonl => {
            let threads = thread::available_parallelism().map_or(1, NonZero::get).min(MAX_PARSER_THREADS);
            let threads = NonZero::new(threads).unwrap_or(NonZero::<usize>::MIN);
            // Nobody wants it when the import has failed.
            let parse = |block: Result<jsonl::LineBlock, CliError>, pieces: &ResultSender<_>| {
                let _ = pieces.send(block.map(|block| block.parse(taken)));
            };
            return map_ordered(threads, jsonl::line_blocks(source), parse, |piece| take(piece?));
        }
        ImportFormat::Csv => csv::read,
        ImportFormat::HandleNet => handle_net::read,
        ImportFormat::HandleBatch => handle_batch::read,
    };
    // These are read as a whole, beside the one who takes what was read.
    let parse = |source: ImportSource, pieces: &ResultSender<_>| {
        let mut piece = ImportChunk::new(taken);
        let read = read(source, &mut |line, item| {
            piece.push(line, item);
            if piece.is_full() {
                let full = std::mem::replace(&mut piece, ImportChunk::new(taken));
                pieces.send(Ok(full)).map_err(|_| CliError::new("nothing more is taken"))?;
            }
            Ok(())
        });
        let _ =
            pieces.send(Ok(piece)).and_then(|()| read.map_or_else(|failure| pieces.send(Err(failure)), Ok));
    };
    map_ordered(NonZero::<usize>::MIN, std::iter::once(source), parse, |piece| take(piece?))
}
