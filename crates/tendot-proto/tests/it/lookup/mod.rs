//! Lookups in a simulated network with virtual time.

mod limits;
mod referrals;
mod resolution;
mod signatures;
mod simulated_network;
