//! `tendot serve --store postgres://…`: errors at startup, several servers on one database, failover of the database, two primaries.

mod failover;
mod split_brain;
mod startup_errors;
mod two_servers;
