//! What depends on the store, once more over PostgreSQL: the tests of these files, in one program with one server.

#![allow(clippy::duplicate_mod, reason = "each file has its own services")]

#[path = "changes.rs"]
mod changes;
#[path = "kept.rs"]
mod kept;
#[path = "recorded.rs"]
mod recorded;
#[path = "redirect.rs"]
mod redirect;
#[path = "registered.rs"]
mod registered;
#[path = "reports.rs"]
mod reports;
#[path = "rest.rs"]
mod rest;
#[path = "reverse.rs"]
mod reverse;
