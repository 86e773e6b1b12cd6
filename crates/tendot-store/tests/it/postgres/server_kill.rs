//! Server failure: the server is killed in the middle of commits, or stops responding.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tendot_store::{
    CommitError, NameKey, PostgresSettings, PostgresStore, Precondition, Store as _, StoreError,
};
use tendot_testing::postgres::PostgresServer;
use tendot_testing::{SeededRng, WAIT_TIMEOUT, repetitions, test_seed, wait_until_async};

use super::{block_on, commit, logged_names, open, put, settings};

const CLIENTS: usize = 16;

/// Every acknowledged change set is stored once, no rejected one is stored, and none is stored in part.
#[test]
fn acknowledged_commits_survive_crash() {
    let server = PostgresServer::start_volatile("");
    block_on(async {
        let address = server.url(&server.create_database());
        let store = Arc::new(open(&address).await);
        let acknowledged = Arc::new(AtomicU64::new(0));
        let (stop, is_stopped) = tokio::sync::watch::channel(false);
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let (store, mut is_stopped) = (Arc::clone(&store), is_stopped.clone());
                let acknowledged = Arc::clone(&acknowledged);
                tokio::spawn(async move {
                    let mut results = HashMap::new();
                    for number in 0.. {
                        if *is_stopped.borrow() {
                            break;
                        }
                        let name = format!("10.1000/{client}-{number}");
                        let edits = vec![
                            put(&name, "x", Precondition::Absent),
                            put(&format!("{name}-b"), "x", Precondition::NotTombstone),
                        ];
                        let result = match commit(&store, edits).await {
                            Ok(revision) => {
                                acknowledged.fetch_add(1, Ordering::SeqCst);
                                Some(Some(revision))
                            }
                            Err(CommitError::Store(StoreError::InDoubt { .. })) => None,
                            Err(CommitError::Store(_)) => {
                                // Not more often than this while the server is down.
                                let _ = tokio::time::timeout(Duration::from_millis(10), is_stopped.changed())
                                    .await;
                                Some(None)
                            }
                            Err(error) => panic!("{name}: {error}"),
                        };
                        results.insert(name, result);
                    }
                    results
                })
            })
            .collect();
        let seed = test_seed();
        println!("TENDOT_TEST_SEED={seed}");
        let mut rng = SeededRng::new(seed);
        let more_commits = async |number: usize| {
            let expected = acknowledged.load(Ordering::SeqCst) + number as u64;
            let is_reached = async || acknowledged.load(Ordering::SeqCst) >= expected;
            wait_until_async("more change sets are acknowledged", is_reached).await;
        };
        for _ in 0..repetitions("TENDOT_TEST_POSTGRES_KILLS", 3, 12) {
            more_commits(20 + rng.below(100)).await;
            server.kill();
            server.restart();
        }
        more_commits(20).await;
        stop.send(true).unwrap();
        let mut in_doubt = 0;
        let mut log: HashMap<String, u32> = HashMap::new();
        let mut results = HashMap::new();
        for client in clients {
            results.extend(client.await.unwrap());
        }
        for name in logged_names(&store).await {
            *log.entry(name).or_default() += 1;
        }
        for (name, result) in &results {
            let entries =
                [log.get(name), log.get(&format!("{name}-b"))].map(|count| count.copied().unwrap_or(0));
            match result {
                Some(Some(revision)) => {
                    assert_eq!(entries, [1, 1], "{name} was acknowledged");
                    let entry = store.get(&NameKey::new(name).unwrap()).await.unwrap().unwrap();
                    assert_eq!(entry.revision, *revision);
                }
                Some(None) => assert_eq!(entries, [0, 0], "{name} was rejected"),
                None => {
                    in_doubt += 1;
                    assert!(entries == [0, 0] || entries == [1, 1], "{name}: {entries:?}");
                }
            }
        }
        assert_eq!(in_doubt, 0, "commits in doubt were resolved, since the server was back in time");
    });
}

/// Calls to a server that accepts connections and never responds end with a timeout.
#[test]
fn unresponsive_server_times_out() {
    let server = PostgresServer::start_volatile("");
    let timeout = Duration::from_secs(2);
    let settings = PostgresSettings { wait_timeout: timeout, statement_timeout: timeout, ..settings() };
    block_on(async {
        let store = PostgresStore::open(&server.url("postgres"), &settings).await.unwrap();
        let key = NameKey::new("10.1000/1").unwrap();
        commit(&store, vec![put("10.1000/1", "x", Precondition::Absent)]).await.unwrap();
        store.get(&key).await.unwrap().unwrap();
        server.signal("STOP");
        let calls = async {
            tokio::join!(
                store.get(&key),
                commit(&store, vec![put("10.1000/2", "x", Precondition::Absent)]),
                store.list_names(b"10.1000", None, 10),
            )
        };
        let (read, written, listed) =
            tokio::time::timeout(WAIT_TIMEOUT, calls).await.expect("the calls did not time out");
        assert_eq!([read.is_err(), written.is_err(), listed.is_err()], [true; 3]);
        server.signal("CONT");
        wait_until_async("commits succeed again", async || {
            commit(&store, vec![put("10.1000/3", "x", Precondition::NotTombstone)]).await.is_ok()
        })
        .await;
        assert!(store.get(&key).await.unwrap().is_some());
    });
}
