//! Stores over which tests run.

use tendot_store::{AnyStore, MemoryStore, PostgresSettings, PostgresStore};
use tendot_testing::postgres::{database_from_template, shared_server};
use tendot_testing::{WAIT_TIMEOUT, block_on, wait_until};

/// A kind of store; a test that takes one is run over several by [`over_stores`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum StoreKind {
    Memory,
    Postgres,
}

impl StoreKind {
    /// Opens an empty store for one test.
    pub(crate) fn open(self) -> AnyStore {
        match self {
            Self::Memory => MemoryStore::new().into(),
            Self::Postgres => open_postgres(&postgres_url()),
        }
    }
}

/// The URL of an empty database with the tables of a store.
pub(crate) fn postgres_url() -> String {
    database_from_template("tendot_server_tests", |url| {
        drop(open_postgres(url));
        let database = url.rsplit('/').next().unwrap();
        let sql = format!("select count(*) from pg_stat_activity where datname = '{database}'");
        wait_until("the connections to the template are closed", || shared_server().psql(&sql) == "0");
    })
}

/// Opens the store of a database.
pub(crate) fn open_postgres(url: &str) -> AnyStore {
    // No test here waits for a database that does not respond; on a busy machine it may be slow.
    let settings = PostgresSettings {
        max_connections: 4,
        wait_timeout: WAIT_TIMEOUT,
        // A busy machine is not an outage.
        probe_timeout: WAIT_TIMEOUT,
        ..PostgresSettings::default()
    };
    block_on(PostgresStore::open(url, &settings)).unwrap_or_else(|error| panic!("{error}")).into()
}

/// Runs each function, which takes a [`StoreKind`], as a test `memory::name` and a test `postgres::name`.
macro_rules! over_stores {
    ($($test:ident),+ $(,)?) => {
        mod memory {
            $(#[test]
            fn $test() {
                super::$test($crate::support::stores::StoreKind::Memory);
            })+
        }

        mod postgres {
            $(#[test]
            fn $test() {
                super::$test($crate::support::stores::StoreKind::Postgres);
            })+
        }
    };
}

pub(crate) use over_stores;
