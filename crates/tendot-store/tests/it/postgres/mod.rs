//! PostgreSQL store, tested with real servers.

mod chaos_proxy;
mod concurrency;
mod connection_loss;
mod failover;
mod import;
mod migration;
mod open;
mod server_kill;
mod split_brain;
mod sql_errors;
mod store_dump;
mod verify;

use std::time::Duration;

use tendot_proto::HandleValue;
use tendot_store::{ChangeSet, CommitError, Edit, PostgresSettings, PostgresStore, Precondition, Store as _};
use tendot_testing::block_on;
use tendot_testing::postgres::{PostgresServer, database_from_template, shared_server};

mod suite {
    tendot_store::store_test_suite!(super::block_on, super::block_on(super::new_store()));
}

/// The name of a new database of the shared server, with the current schema.
fn new_database() -> String {
    let url = database_from_template("tendot_store", |url| drop(block_on(open(url))));
    url.rsplit('/').next().unwrap().to_owned()
}

/// The shared server, and a new database in it with the current schema.
fn server_and_database() -> (&'static PostgresServer, String) {
    (shared_server(), new_database())
}

async fn new_store() -> PostgresStore {
    open(&shared_server().url(&new_database())).await
}

async fn open(url: &str) -> PostgresStore {
    PostgresStore::open(url, &settings()).await.unwrap_or_else(|error| panic!("{error}"))
}

fn settings() -> PostgresSettings {
    PostgresSettings {
        max_connections: 4,
        wait_timeout: Duration::from_secs(20),
        ..PostgresSettings::default()
    }
}

fn put(name: &str, data: &str, precondition: Precondition) -> Edit {
    Edit::Put { name: name.into(), values: vec![HandleValue::new(1, "URL", data.to_owned())], precondition }
}

async fn commit(store: &PostgresStore, edits: Vec<Edit>) -> Result<u64, CommitError> {
    let change = ChangeSet { author: "tester".into(), timestamp_ms: 1_700_000_000_000, edits };
    store.commit(change).await.map(|committed| committed.revision)
}

/// The names of all log entries; asserts that their sequence numbers have no gap.
async fn logged_names(store: &PostgresStore) -> Vec<String> {
    let (mut names, mut after) = (Vec::new(), 0);
    loop {
        let entries = store.read_log(after, 1_000).await.unwrap();
        if entries.is_empty() {
            return names;
        }
        for entry in entries {
            assert_eq!(entry.sequence, after + 1, "the log has a gap");
            after = entry.sequence;
            names.push(entry.name.into_string());
        }
    }
}
