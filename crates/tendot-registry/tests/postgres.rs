//! What depends on the store, once more over PostgreSQL: the tests of these files, in one program with one server.

#[path = "operations.rs"]
mod operations;
