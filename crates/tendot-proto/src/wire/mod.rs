//! Big-endian integers, length-prefixed bytes and counted lists (RFC 3652, 2.1).
//!
//! In reading order:
//!
//! - `reader`: bounded reader of untrusted bytes
//! - `writer`: writer of encoded fields
//! - `list`: counted lists, decoded lazily

mod list;
mod reader;
mod writer;

pub use list::{ListItem, WireList, WireListIter};
pub use reader::WireReader;
pub use writer::WireWriter;
