//! Data types of the store interface.
//!
//! In reading order: `name_key`, `record`, `change_set`, `aux_counter`, `log_entry`, `audit_chain`, `history`; then the encodings that
//! stores share: `values_codec`, `varint`, `sha256`.

pub(crate) mod audit_chain;
pub(crate) mod aux_counter;
pub(crate) mod change_set;
pub(crate) mod history;
pub(crate) mod log_entry;
pub(crate) mod name_key;
pub(crate) mod record;
mod sha256;
pub(crate) mod values_codec;
pub(crate) mod varint;
