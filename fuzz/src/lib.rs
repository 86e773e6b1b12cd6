//! Fuzz targets: functions that panic when the code under test violates a property.
//!
//! `cargo test` runs each on its seeds, its saved corpus and reproducible mutations of them; `cargo xtask fuzz` runs them with
//! libFuzzer, guided by coverage.

mod auth;
mod batch_body;
mod extract;
mod http_credentials;
mod http_head;
mod http_query;
mod http_service;
mod kernel_xml;
mod lookup;
mod message;
mod message_body;
mod name_format;
mod name_parse;
mod reassembly;
mod record_json;
#[cfg(test)]
mod replay;
mod replication;
mod seeded_random;
mod value_data;

/// Fuzz target: panics on inputs that reveal a fault.
pub type Target = fn(&[u8]);

/// Targets by name, in the order of `tendot_testing::fuzz_inputs::TARGETS`.
pub const TARGETS: [(&str, Target); 16] = [
    ("name_parse", name_parse::check),
    ("name_format", name_format::check),
    ("extract", extract::check),
    ("message", message::check),
    ("message_body", message_body::check),
    ("value_data", value_data::check),
    ("record_json", record_json::check),
    ("reassembly", reassembly::check),
    ("auth", auth::check),
    ("lookup", lookup::check),
    ("replication", replication::check),
    ("http_head", http_head::check),
    ("http_query", http_query::check),
    ("http_credentials", http_credentials::check),
    ("batch_body", batch_body::check),
    ("kernel_xml", kernel_xml::check),
];

/// Target with this name.
pub fn target(name: &str) -> Option<Target> {
    TARGETS.iter().find(|(known, _)| *known == name).map(|(_, target)| *target)
}
