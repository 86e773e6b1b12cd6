//! Stores over which tests run.

use std::cell::RefCell;

use tempfile::TempDir;
use tendot_store::{AnyStore, EmbeddedStore, MemoryStore, PostgresSettings, PostgresStore};
use tendot_testing::postgres::{database_from_template, shared_server};
use tendot_testing::{WAIT_TIMEOUT, block_on, ram_dir, wait_until};

thread_local! {
    /// Directories of the embedded stores of a test, which end with its thread.
    static DIRECTORIES: RefCell<Vec<TempDir>> = const { RefCell::new(Vec::new()) };
}

/// A kind of store; a test that takes one is run over several by [`over_stores`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum StoreKind {
    Memory,
    Embedded,
    Postgres,
}

impl StoreKind {
    /// Opens an empty store for one test; call it on the thread of the test.
    pub(crate) fn open(self) -> AnyStore {
        match self {
            Self::Memory => MemoryStore::new().into(),
            Self::Embedded => {
                let directory = ram_dir();
                let store = EmbeddedStore::open(directory.path()).unwrap();
                DIRECTORIES.with_borrow_mut(|directories| directories.push(directory));
                store.into()
            }
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

/// Runs each function, which takes a [`StoreKind`], as the tests `memory::name`, `embedded::name` and `postgres::name`. Those after
/// `not embedded` take long and hardly depend on the store.
macro_rules! over_stores {
    ($($test:ident),+ $(,)? $(; not embedded: $($other:ident),+ $(,)?)?) => {
        mod memory {
            $crate::support::stores::over_stores!(@tests Memory: $($test),+ $($(, $other)+)?);
        }

        mod embedded {
            $crate::support::stores::over_stores!(@tests Embedded: $($test),+);
        }

        mod postgres {
            $crate::support::stores::over_stores!(@tests Postgres: $($test),+ $($(, $other)+)?);
        }
    };
    (@tests $kind:ident: $($test:ident),+) => {
        $(#[test]
        fn $test() {
            super::$test($crate::support::stores::StoreKind::$kind);
        })+
    };
}

pub(crate) use over_stores;
