//! Elements of kernel metadata and their values.
//!
//! In reading order: `creation`, `party`, `identifier` are the elements, `vocabulary` the allowed value sets, `text` and
//! `date` the simple types, `extension` elements of other namespaces.

pub(super) mod creation;
pub(super) mod date;
pub(super) mod extension;
pub(super) mod identifier;
pub(super) mod party;
pub(super) mod text;
pub(super) mod vocabulary;
