//! TCP connections of both protocols.
//!
//! In reading order:
//!
//! - `acceptor.rs`: accept loop, connection limits, draining at shutdown
//! - `client_limit.rs`: connections per client network
//! - `slow_client.rs`: minimum transfer rate, lingering close

mod acceptor;
mod client_limit;
mod slow_client;

pub(crate) use acceptor::{CloseSignal, ConnectionAcceptor, ConnectionMetrics};
pub(crate) use slow_client::{LingeringClose, TransferAllowance, lingering_close, transfer_timeout};
