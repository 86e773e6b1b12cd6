//! Batch registration: `/api/v1/dois/batch`.
//!
//! The lines of the body and the result lines of the response; `tendot_registry::batch` executes them.
//!
//! In reading order:
//!
//! - `endpoint.rs`: the request and its checks
//! - `row_reader.rs`: JSON lines or CSV rows
//! - `line_format.rs`: syntax of the lines
//! - `csv.rs`: CSV columns and rows (RFC 4180)
//! - `outcomes.rs`: one result line per input line

pub(crate) mod csv;
pub(crate) mod endpoint;
mod line_format;
mod outcomes;
mod row_reader;
