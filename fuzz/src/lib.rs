//! Fuzz targets: functions that panic when the code under test breaks a promise.
//!
//! `cargo test` runs each on its seeds, its saved corpus and mutations of them that are the same in every run; `cargo xtask fuzz` runs
//! them with libFuzzer, guided by coverage.

mod authentication;
mod extract;
mod lookup;
mod message;
mod message_body;
mod name_forms;
mod name_parse;
mod reassembly;
mod record_json;
#[cfg(test)]
mod replay;
mod replication;
mod value_data;

/// A function that panics on inputs that reveal a fault.
pub type Target = fn(&[u8]);

/// The targets by name, in the order of `tendot_testing::fuzz_inputs::TARGETS`.
pub const TARGETS: [(&str, Target); 11] = [
    ("name_parse", name_parse::check),
    ("name_forms", name_forms::check),
    ("extract", extract::check),
    ("message", message::check),
    ("message_body", message_body::check),
    ("value_data", value_data::check),
    ("record_json", record_json::check),
    ("reassembly", reassembly::check),
    ("authentication", authentication::check),
    ("lookup", lookup::check),
    ("replication", replication::check),
];

/// The target with this name.
pub fn target(name: &str) -> Option<Target> {
    TARGETS.iter().find(|(known, _)| *known == name).map(|(_, target)| *target)
}
