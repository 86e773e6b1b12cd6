//! Reading records to be imported: which format it is (`format`), a file for each of them, what is taken and what is
//! refused (`check`), and what is said about it (`report`).

mod check;
mod csv;
mod format;
mod handle_batch;
mod handle_net;
mod jsonl;
mod report;
mod source;

pub(crate) use check::check;
pub(crate) use format::Format;
pub(crate) use report::Report;
pub(crate) use source::Source;
use tendot_proto::record::Record;

use crate::Failure;

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

/// Reads all that a source has.
pub(crate) fn read(source: Source, format: Format, take: &mut Take<'_>) -> Result<(), Failure> {
    match format {
        Format::Jsonl => jsonl::read(source, take),
        Format::Csv => csv::read(source, take),
        Format::HandleNet => handle_net::read(source, take),
        Format::HandleBatch => handle_batch::read(source, take),
    }
}
