//! The registry of a running service, as the commands see it: `session.rs` asks, `shown.rs` prints for people, `import.rs`
//! sends batches, and `report.rs` writes what became of them.

mod import;
mod report;
mod session;
mod shown;

pub(crate) use import::import;
pub(crate) use session::{ApiSession, flag_value, json_object};
pub(crate) use shown::ResourceKind;
