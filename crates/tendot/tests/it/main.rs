//! Tests of the program `tendot`: its commands, the server and what others do with it.

mod debug;
mod docs;
mod explain;
mod help;
mod interop;
mod names;
mod names_vectors;
mod postgres;
mod registry;
mod resolve;
mod serve;
mod store;
mod support;
