use tendot_testing::block_on;
use tendot_testing::postgres::{create_database_url, shared_server};

/// Empty database of one test, on the server that all tests share.
#[derive(Debug)]
pub(crate) struct TestDatabase {
    name: String,
}

impl TestDatabase {
    pub(crate) fn new() -> Self {
        Self { name: shared_server().create_database() }
    }

    pub(crate) fn url(&self) -> String {
        shared_server().url(&self.name)
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Runs statements.
    pub(crate) fn execute(&self, sql: &str) {
        block_on(shared_server().execute(&self.name, sql));
    }

    /// First column of the first row.
    pub(crate) fn query(&self, sql: &str) -> String {
        block_on(shared_server().query_text(&self.name, sql))
    }
}

/// Kind of store, for tests that run once per kind.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum StoreKind {
    Embedded,
    Postgres,
}

impl StoreKind {
    /// Environment variable that selects a new store of this kind; none for the embedded store in the data directory.
    pub(crate) fn env(self) -> Option<(&'static str, String)> {
        (self == Self::Postgres).then(|| ("TENDOT_STORE", create_database_url()))
    }
}

/// Defines two tests per function: `embedded::name` and `postgres::name`.
macro_rules! tests_per_store {
    ($($name:ident),+ $(,)?) => {
        mod embedded {
            $(#[test]
            fn $name() {
                super::$name($crate::support::StoreKind::Embedded);
            })+
        }

        mod postgres {
            $(#[test]
            fn $name() {
                super::$name($crate::support::StoreKind::Postgres);
            })+
        }
    };
}
pub(crate) use tests_per_store;
