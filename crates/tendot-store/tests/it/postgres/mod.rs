//! The store in PostgreSQL, with real servers: Debian's, installed if missing, as an unprivileged user.

mod clients;
mod cut;
mod import;
mod kill;
mod moving;
mod open;
mod proxy;
mod standbys;
mod trouble;

use std::sync::OnceLock;
use std::time::Duration;

use tendot_proto::Value;
use tendot_store::{Change, CommitError, Edit, Expect, Postgres, PostgresSettings, Store as _};
use tokio::runtime::Runtime;

mod suite {
    tendot_store::store_suite!(super::block_on, super::block_on(super::new_store()));
}

fn block_on<F: Future>(future: F) -> F::Output {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| Runtime::new().unwrap()).block_on(future)
}

async fn new_store() -> Postgres {
    let server = tokio::task::spawn_blocking(tendot_testing::postgres::shared_server).await.unwrap();
    open(&server.url(&server.create_database())).await
}

async fn open(address: &str) -> Postgres {
    Postgres::open(address, &settings()).await.unwrap_or_else(|error| panic!("{error}"))
}

fn settings() -> PostgresSettings {
    PostgresSettings { connections: 4, patience: Duration::from_secs(20), ..PostgresSettings::default() }
}

fn put(name: &str, data: &str, expect: Expect) -> Edit {
    Edit::Put { name: name.into(), values: vec![Value::new(1, "URL", data.to_owned())], expect }
}

async fn commit(store: &Postgres, edits: Vec<Edit>) -> Result<u64, CommitError> {
    let change = Change { by: "tester".into(), at: 1_700_000_000_000, edits };
    store.commit(change).await.map(|committed| committed.revision)
}

/// The names of all lines of the log, whose numbers have no gap.
async fn logged(store: &Postgres) -> Vec<String> {
    let (mut names, mut after) = (Vec::new(), 0);
    loop {
        let lines = store.changes(after, 1_000).await.unwrap();
        if lines.is_empty() {
            return names;
        }
        for line in lines {
            assert_eq!(line.sequence, after + 1, "the log has a gap");
            after = line.sequence;
            names.push(line.name.into_string());
        }
    }
}
