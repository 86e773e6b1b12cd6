//! Servers and clients for the tests of this crate.

pub(crate) mod native_server;
