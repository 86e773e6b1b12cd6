//! Searching files: which (`paths`), what there is to do (`job`), in which parts (`part`), how one is searched in
//! bounded memory (`search`), and many at the same time with the results in order (`pool`).

mod job;
mod part;
mod paths;
mod pool;
mod search;
mod separator;

pub(crate) use job::{Job, Told};
pub(crate) use part::Part;
pub(crate) use paths::Paths;
pub(crate) use pool::in_order;
pub(crate) use search::Hit;
