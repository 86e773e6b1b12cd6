//! Concurrent clients of two stores on one database: no name is registered twice, no update is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tendot_store::{CommitError, Edit, NameKey, PostgresStore, Precondition, Store as _};

use super::{block_on, commit, logged_names, new_database, open, put, shared_server};

const CLIENTS: usize = 64;

async fn two_stores() -> [Arc<PostgresStore>; 2] {
    let url = shared_server().url(&new_database());
    [Arc::new(open(&url).await), Arc::new(open(&url).await)]
}

/// Of 64 clients that register the same names, one wins each; a reader of the log sees every entry once and in order.
#[test]
fn one_of_64_registrations_wins() {
    const NAMES: usize = 40;
    block_on(async {
        let stores = two_stores().await;
        let is_finished = Arc::new(AtomicBool::new(false));
        let follower = tokio::spawn(follow(Arc::clone(&stores[0]), Arc::clone(&is_finished)));
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let store = Arc::clone(&stores[client % 2]);
                tokio::spawn(async move {
                    let mut registered = Vec::new();
                    for number in 0..NAMES {
                        // Each client begins with another name and writes two, so that transactions overlap crosswise.
                        let name = |number: usize| format!("10.1000/{}", (number + client) % NAMES);
                        let edits = vec![
                            put(&name(number), &client.to_string(), Precondition::Absent),
                            put(&name(number + NAMES / 2), &client.to_string(), Precondition::NotTombstone),
                        ];
                        match commit(&store, edits).await {
                            Ok(_) => registered.push(name(number)),
                            Err(CommitError::RecordConflict(_)) => {}
                            Err(error) => panic!("{error}"),
                        }
                    }
                    registered
                })
            })
            .collect();
        let mut registered = Vec::new();
        for client in clients {
            registered.extend(client.await.unwrap());
        }
        is_finished.store(true, Ordering::SeqCst);
        let followed = follower.await.unwrap();
        let log = logged_names(&stores[1]).await;
        assert_eq!(followed, log);
        assert_eq!(log.len(), 2 * registered.len(), "two log entries for each change set");
        registered.sort();
        registered.dedup();
        assert_eq!(2 * registered.len(), log.len(), "no name was registered twice");
        for number in 0..NAMES {
            let key = NameKey::new(&format!("10.1000/{number}")).unwrap();
            assert!(stores[0].get(&key).await.unwrap().is_some());
        }
    });
}

async fn follow(store: Arc<PostgresStore>, is_finished: Arc<AtomicBool>) -> Vec<String> {
    let (mut names, mut after) = (Vec::new(), 0);
    loop {
        let was_finished = is_finished.load(Ordering::SeqCst);
        let log_entries = store.read_log(after, 50).await.unwrap();
        if was_finished && log_entries.is_empty() {
            return names;
        }
        for log_entry in log_entries {
            assert_eq!(log_entry.sequence, after + 1, "a log entry was skipped");
            after = log_entry.sequence;
            names.push(log_entry.name.into_string());
        }
    }
}

/// Counters that are incremented by compare-and-set, in a record and in an aux entry, count every increment.
#[test]
fn no_lost_updates() {
    block_on(async {
        let stores = two_stores().await;
        let mut last = commit(&stores[0], vec![put("10.1000/1", "0", Precondition::Absent)]).await.unwrap();
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let store = Arc::clone(&stores[client % 2]);
                tokio::spawn(async move { while !increment(&store).await {} })
            })
            .collect();
        for client in clients {
            client.await.unwrap();
        }
        let key = NameKey::new("10.1000/1").unwrap();
        let entry = stores[0].get(&key).await.unwrap().unwrap();
        assert_eq!(entry.values[0].data, CLIENTS.to_string().as_bytes());
        let aux = stores[1].get_aux(b"count").await.unwrap().unwrap();
        assert_eq!(&*aux, CLIENTS.to_string().as_bytes());
        for log_entry in stores[1].read_log(1, 1_000).await.unwrap() {
            assert_eq!(log_entry.revision, last + 1);
            last = log_entry.revision;
        }
        assert_eq!(logged_names(&stores[1]).await.len(), CLIENTS + 1);
    });
}

async fn increment(store: &PostgresStore) -> bool {
    let entry = store.get(&NameKey::new("10.1000/1").unwrap()).await.unwrap().unwrap();
    let count: usize = std::str::from_utf8(&entry.values[0].data).unwrap().parse().unwrap();
    let aux = store.get_aux(b"count").await.unwrap();
    let next = (count + 1).to_string();
    let edits = vec![
        put("10.1000/1", &next, Precondition::AtRevision(entry.revision)),
        Edit::RequireAux { key: b"count"[..].into(), value: aux },
        Edit::PutAux { key: b"count"[..].into(), value: next.as_bytes().into() },
    ];
    match commit(store, edits).await {
        Ok(_) => true,
        Err(CommitError::RecordConflict(_) | CommitError::AuxConflict { .. }) => false,
        Err(error) => panic!("{error}"),
    }
}
