//! Big-endian integers, length-prefixed bytes and counted lists (RFC 3652, 2.1).

mod list;
mod reader;
mod writer;

pub use list::{ListItem, WireList, WireListIter};
pub use reader::WireReader;
pub use writer::WireWriter;
