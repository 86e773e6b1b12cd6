//! Searching files: which (`paths`), what there is to do (`job`), in which parts (`part`), and how one is searched
//! in bounded memory (`search`).

mod job;
mod part;
mod paths;
mod search;
mod separator;

pub(crate) use job::{ExtractEvent, ExtractJob};
pub(crate) use part::FileChunk;
pub(crate) use paths::FileWalk;
pub(crate) use search::Hit;
