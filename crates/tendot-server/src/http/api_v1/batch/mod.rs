//! Batch registration: `/api/v1/dois/batch`.
//!
//! Lines are grouped as they arrive, parsed on all cores, and committed in order, some hundreds at a time; each gets its result
//! line when it is durable. With an idempotency key, the results are journaled in the same transaction: an interrupted batch
//! that is sent again resumes, and a complete one is replayed.
//!
//! In reading order:
//!
//! - `endpoint.rs`: the request and its checks
//! - `row_reader.rs`: JSON lines or CSV rows
//! - `csv.rs`: CSV columns and rows (RFC 4180)
//! - `run.rs`: executes groups of lines in order, several in flight
//! - `journal.rs`: batch journal, resume and replay
//! - `outcomes.rs`: one result line per input line

pub(crate) mod csv;
pub(crate) mod endpoint;
mod journal;
mod outcomes;
mod row_reader;
mod run;
