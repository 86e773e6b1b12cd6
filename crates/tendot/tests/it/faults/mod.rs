//! Fault injection under a mixed load over HTTP and the native protocol: every acknowledged change is found in records, history,
//! change feed, lists, quotas and idempotency keys, and no refused change is.
//!
//! Clients send random requests to real servers and record what they learn; meanwhile servers are killed or stopped, their
//! database fails over, or their disk becomes full. Then everything is read and compared. `TENDOT_TEST_SEED` repeats the
//! requests and faults of a run; their interleaving differs.
//!
//! In reading order:
//!
//! - `ledger.rs`: operations, when each began and ended, and what its client learned
//! - `service.rs`: servers with a registry, that can be killed and restarted
//! - `request.rs`: sends a request and classifies its outcome
//! - `workload.rs`: random operations of a client; `transfers.rs`, `batches.rs`, `native.rs`: those with several steps
//! - `load.rs`: clients, a reader of the change feed, and the fault
//! - `history_check.rs`: the history of a name explains every outcome and every read
//! - `check.rs`: records, histories, change feed, lists, quotas, tokens, transfers
//! - `replay_check.rs`: idempotency keys
//! - `kill.rs`, `stop.rs`, `failover.rs`, `full_disk.rs`: the faults

mod batches;
mod check;
mod failover;
mod full_disk;
mod history_check;
mod kill;
mod ledger;
mod load;
mod native;
mod replay_check;
mod request;
mod service;
mod stop;
mod transfers;
mod workload;
