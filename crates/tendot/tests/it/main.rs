//! Tests of the program `tendot`: commands, server, documentation and interoperability.

mod debug;
mod docs;
mod explain;
mod faults;
mod handle;
mod help;
mod interop;
mod names;
mod names_vectors;
mod postgres;
mod registry;
mod resolve;
mod serve;
mod signed;
mod statements;
mod store;
mod support;
mod written_forms;
