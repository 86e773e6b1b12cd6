//! Kernel metadata of a DOI: parsed, validated and rendered. No store, no I/O.
//!
//! - `basic`: documents from title, creators, date and type; `kernel`: the document; `system_metadata`: the reduced view of ISO 26324:2025; `fault`: errors in documents;
//! - `model`: elements and their values, in the sequence of kernel XML 2.3;
//! - `codec`: reading and writing of JSON and XML;
//! - `schema`: JSON schemas of documents;
//! - `format`: output formats such as CSL JSON and BibTeX.

mod basic;
mod codec;
mod fault;
mod format;
mod kernel;
mod model;
mod schema;
mod system_metadata;
#[cfg(test)]
mod tests;

pub use basic::BasicMetadata;
pub use fault::{MetadataFault, MetadataFaultCode};
pub use format::{CitationSummary, MetadataFormat};
pub(crate) use kernel::ExpectedDoi;
pub use kernel::{KernelMetadata, RegistryFields};
pub use model::extension::ExtensionSummary;
pub use schema::metadata_schemas;
pub use system_metadata::SystemMetadata;
