//! The store of a test: in memory, or in the program `postgres`, which has the same tests once more, in a database of its own.

#![allow(dead_code, reason = "each file of tests uses its own part")]

use tendot_store::{Memory, Postgres, PostgresSettings, Store};
use tendot_testing::block_on;
use tendot_testing::postgres::create_database_url;

/// The store of all tests of this program.
pub(crate) type Kept = <Chosen<IS_POSTGRES> as Choice>::Kept;

const IS_POSTGRES: bool = matches!(env!("CARGO_CRATE_NAME").as_bytes(), b"postgres");

pub(crate) struct Chosen<const POSTGRES: bool>;

pub(crate) trait Choice {
    type Kept: Store + 'static;
    fn new() -> Self::Kept;
}

impl Choice for Chosen<false> {
    type Kept = Memory;

    fn new() -> Memory {
        Memory::new()
    }
}

impl Choice for Chosen<true> {
    type Kept = Postgres;

    fn new() -> Postgres {
        postgres()
    }
}

/// A store that is empty.
pub(crate) fn new() -> Kept {
    Chosen::<IS_POSTGRES>::new()
}

/// One in a database.
pub(crate) fn postgres() -> Postgres {
    open(&create_database_url())
}

/// The store of a database.
pub(crate) fn open(address: &str) -> Postgres {
    let settings = PostgresSettings { connections: 4, ..PostgresSettings::default() };
    block_on(Postgres::open(address, &settings)).unwrap_or_else(|error| panic!("{error}"))
}
