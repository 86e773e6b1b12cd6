//! Searching files: which (`paths`), what there is to do (`job`), in which parts (`part`), and how one is searched
//! in bounded memory (`search`).

mod job;
mod part;
mod paths;
mod search;
mod separator;

pub(crate) use job::{Job, Told};
pub(crate) use part::Part;
pub(crate) use paths::Paths;
pub(crate) use search::Hit;
