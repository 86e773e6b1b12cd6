//! Empty stores of every kind.

use std::fs;
use std::path::Path;

use tempfile::TempDir;
use tendot_store::{AnyStore, EmbeddedStore, MemoryStore, PostgresSettings, PostgresStore};
use tendot_testing::postgres::database_from_template;
use tendot_testing::{WAIT_TIMEOUT, block_on, ram_dir};

/// Kind of a store.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum StoreKind {
    Memory,
    Embedded,
    Postgres,
}

/// An empty store, and the directory that it is in.
pub(crate) fn empty_store(kind: StoreKind) -> (AnyStore, Option<TempDir>) {
    match kind {
        StoreKind::Memory => (MemoryStore::new().into(), None),
        StoreKind::Embedded => {
            let directory = ram_dir();
            (EmbeddedStore::open(directory.path()).unwrap().into(), Some(directory))
        }
        StoreKind::Postgres => {
            let url = database_from_template("registry_empty", |url| drop(open_postgres(url)));
            (open_postgres(&url).into(), None)
        }
    }
}

/// Opens the store of a database.
pub(crate) fn open_postgres(url: &str) -> PostgresStore {
    let settings = PostgresSettings {
        max_connections: 4,
        wait_timeout: WAIT_TIMEOUT,
        // A busy machine is not an outage.
        probe_timeout: WAIT_TIMEOUT,
        ..PostgresSettings::default()
    };
    block_on(PostgresStore::open(url, &settings)).unwrap_or_else(|error| panic!("{error}"))
}

/// Copies the files of a directory and of those in it.
pub(crate) fn copy_dir(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_file() {
            fs::copy(entry.path(), target).unwrap();
        } else {
            fs::create_dir(&target).unwrap();
            copy_dir(&entry.path(), &target);
        }
    }
}
