//! Kernel metadata: what is named, as every agency has to be able to tell.
//!
//! - `kernel`: the document; `creation`, `party`, `identifier`: its elements, in the sequence of kernel XML 2.3;
//! - `lists`, `value`: which values they may have;
//! - `element`, `read`, `node`, `xml`: how they are read from JSON and XML, and written;
//! - `fault`: what is told of what is wrong.

mod creation;
mod element;
mod fault;
mod format;
mod identifier;
mod kernel;
mod lists;
mod node;
mod party;
mod read;
#[cfg(test)]
mod tests;
mod value;
mod xml;

pub use fault::{FaultCode, MetadataFault};
pub use format::Format;
pub use kernel::{Facts, Kernel};
