//! Statements of the source documents, tried from outside: by command, over HTTP and over the native protocol.
//!
//! `docs/reference/standards.md` lists all statements by number, each with its test; `docs/standards.rs` checks that page.

mod names;
mod registration;
mod resolution;
