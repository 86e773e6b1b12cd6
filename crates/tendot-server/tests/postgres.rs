//! What depends on the store, once more over PostgreSQL: the tests of these files, in one program with one server.

#![allow(clippy::duplicate_mod, reason = "each file has its own services")]

#[path = "native_attacks_rights.rs"]
mod native_attacks_rights;
#[path = "native_kept.rs"]
mod native_kept;
#[path = "native_recorded.rs"]
mod native_recorded;
#[path = "native_service.rs"]
mod native_service;
