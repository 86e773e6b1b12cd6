//! `tendot serve --store postgres://…`: errors at startup, several servers on one database, failover of the database.

mod failover;
mod startup_errors;
mod two_servers;
