//! Integration tests of the registry, one module per topic.

mod batch;
mod batch_run;
mod crash_consistency;
mod fixtures;
mod handle_attacks;
mod handle_operations;
mod handle_properties;
mod idempotency;
mod metadata_formats;
mod paging;
mod permission_matrix;
mod registry_attacks;
mod registry_model;
mod source_rules;
mod support;
