//! Data types of the store interface.
//!
//! In reading order: `name_key`, `record`, `change_set`, `log_entry`, `history`, `values_codec`.

pub(crate) mod change_set;
pub(crate) mod history;
pub(crate) mod log_entry;
pub(crate) mod name_key;
pub(crate) mod record;
#[cfg(feature = "postgres")]
pub(crate) mod values_codec;
