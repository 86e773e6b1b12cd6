//! Record format on disk: see `docs/background/storage-format.md`.
//!
//! In reading order: `record`, `value_layout`, `log_entry`, `dictionary`, `hash_block`, `checksum`.

pub(crate) mod checksum;
pub(crate) mod dictionary;
pub(crate) mod hash_block;
pub(crate) mod log_entry;
pub(crate) mod record;
pub(crate) mod value_layout;
