//! Kernel metadata: what is named, as every agency has to be able to tell.
//!
//! - `kernel`: the document; `creation`, `party`, `identifier`: its elements, in the sequence of kernel XML 2.3;
//! - `system`: the other view, of 2025, made from the kernel and kept as one;
//! - `lists`, `value`: which values they may have;
//! - `element`, `read`, `node`, `xml`: how they are read from JSON and XML, and written;
//! - `format`: what others want, made from the kernel;
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
mod system;
#[cfg(test)]
mod tests;
mod value;
mod xml;

pub use fault::{MetadataFault, MetadataFaultCode};
pub use format::{CitationSummary, MetadataFormat};
pub use kernel::{KernelMetadata, RegistryFields};
pub use system::SystemMetadata;
