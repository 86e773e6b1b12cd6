//! The server is killed in the middle of commits, and comes back.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tendot_store::{CommitError, Expect, Key, Postgres, PostgresSettings, Store as _, StoreError};

use crate::{block_on, commit, logged, open, put, settings};
use tendot_testing::postgres::PostgresServer;

const ROUNDS: u32 = 6;
const CLIENTS: usize = 16;

/// What was acknowledged is there, once; what was refused is not; and of nothing there is a part.
#[test]
fn acknowledged_commits_survive_crash() {
    let server = Arc::new(PostgresServer::start(""));
    block_on(async {
        let address = server.url(&server.create_database());
        let store = Arc::new(open(&address).await);
        let (end, ended) = tokio::sync::watch::channel(false);
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let (store, ended) = (Arc::clone(&store), ended.clone());
                tokio::spawn(async move {
                    let mut told = HashMap::new();
                    for number in 0.. {
                        if *ended.borrow() {
                            break;
                        }
                        let name = format!("10.1000/{client}-{number}");
                        let edits = vec![
                            put(&name, "x", Expect::Absent),
                            put(&format!("{name}-b"), "x", Expect::Any),
                        ];
                        let result = match commit(&store, edits).await {
                            Ok(revision) => Some(Some(revision)),
                            Err(CommitError::Store(StoreError::Unknown { .. })) => None,
                            Err(CommitError::Store(_)) => {
                                tokio::time::sleep(Duration::from_millis(10)).await;
                                Some(None)
                            }
                            Err(error) => panic!("{name}: {error}"),
                        };
                        told.insert(name, result);
                    }
                    told
                })
            })
            .collect();
        for round in 0..ROUNDS {
            tokio::time::sleep(Duration::from_millis(300 + u64::from(round) * 37)).await;
            let server = Arc::clone(&server);
            let restarted = tokio::task::spawn_blocking(move || {
                server.kill();
                server.restart();
            });
            restarted.await.unwrap();
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
        end.send(true).unwrap();
        let (mut acknowledged, mut unknown) = (0, 0);
        let mut log: HashMap<String, u32> = HashMap::new();
        let mut told = HashMap::new();
        for client in clients {
            told.extend(client.await.unwrap());
        }
        for name in logged(&store).await {
            *log.entry(name).or_default() += 1;
        }
        for (name, result) in &told {
            let lines =
                [log.get(name), log.get(&format!("{name}-b"))].map(|count| count.copied().unwrap_or(0));
            match result {
                Some(Some(revision)) => {
                    acknowledged += 1;
                    assert_eq!(lines, [1, 1], "{name} was acknowledged");
                    let entry = store.get(&Key::new(name).unwrap()).await.unwrap().unwrap();
                    assert_eq!(entry.revision, *revision);
                }
                Some(None) => assert_eq!(lines, [0, 0], "{name} was refused"),
                None => {
                    unknown += 1;
                    assert!(lines == [0, 0] || lines == [1, 1], "{name}: {lines:?}");
                }
            }
        }
        assert!(acknowledged > 100, "{acknowledged} acknowledged, {unknown} unknown, of {}", told.len());
        assert_eq!(unknown, 0, "the server was back in time");
    });
}

/// A server that is there and says nothing is not waited for without end.
#[test]
fn unresponsive_server_times_out() {
    let server = PostgresServer::start("");
    let time = Duration::from_millis(500);
    let settings = PostgresSettings { patience: time, statement: time, ..settings() };
    block_on(async {
        let store = Postgres::open(&server.url("postgres"), &settings).await.unwrap();
        let key = Key::new("10.1000/1").unwrap();
        commit(&store, vec![put("10.1000/1", "x", Expect::Absent)]).await.unwrap();
        store.get(&key).await.unwrap().unwrap();
        server.signal("STOP");
        let start = Instant::now();
        let (read, written, listed) = tokio::join!(
            store.get(&key),
            commit(&store, vec![put("10.1000/2", "x", Expect::Absent)]),
            store.list(b"10.1000", None, 10),
        );
        let told = [read.is_err(), written.is_err(), listed.is_err()];
        assert_eq!(told, [true; 3]);
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
        server.signal("CONT");
        let end = Instant::now() + Duration::from_secs(20);
        while let Err(error) = commit(&store, vec![put("10.1000/3", "x", Expect::Any)]).await {
            assert!(Instant::now() < end, "{error}");
        }
        assert!(store.get(&key).await.unwrap().is_some());
    });
}
