//! Imports into PostgreSQL: same result as into an embedded store, with concurrent writers, interrupted, and cut at any byte.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tendot_proto::HandleValue;
use tendot_store::{
    ChangeSet, Edit, EditKind, EmbeddedImporter, EmbeddedStore, HistoryEntry, HistoryOrder, ImportError,
    ImportSummary, NameKey, PostgresStore, Precondition, RecordStatus, Store, StoreError,
};

use tendot_testing::{SeededRng, ram_dir, repetitions, wait_until, wait_until_async};

use super::chaos_proxy::{ChaosProxy, CutMode, Direction};
use super::store_dump::{StoreDump, assert_same, dump};
use super::{
    block_on, commit, logged_names, new_database, new_store, open, put, server_and_database, shared_server,
};

const TIMESTAMP_MS: u64 = 1_700_000_000_000;

fn values(data: &str) -> Vec<HandleValue<'static>> {
    let mut values = vec![HandleValue::new(1, "URL", data.to_owned())];
    if data.ends_with('7') {
        values.push(HandleValue::new(2, "hs_seckey", format!("secret of {data}")));
    }
    values
}

async fn import(store: &PostgresStore, per_transaction: u64, records: &[(String, String)]) -> ImportSummary {
    import_with(store, per_transaction, records, |_| {}).await
}

/// Imports and calls `progress` after each transaction.
async fn import_with(
    store: &PostgresStore,
    per_transaction: u64,
    records: &[(String, String)],
    mut progress: impl FnMut(&ImportSummary),
) -> ImportSummary {
    let importer = store.start_import("importer", TIMESTAMP_MS).unwrap();
    let mut importer = importer.buffer_bytes(2_000).records_per_transaction(per_transaction);
    for (name, data) in records {
        importer.add((**name).into(), &values(data)).unwrap();
        importer.home_prefix(name.split('/').next().unwrap()).unwrap();
    }
    let mut last = ImportSummary::default();
    let imported = importer
        .finish(|imported| {
            last = imported.clone();
            progress(imported);
        })
        .await
        .unwrap();
    assert_eq!(imported, last);
    imported
}

/// Both stores have the same content after random changes and imports.
#[test]
fn matches_embedded_import() {
    let mut rng = SeededRng::new(7);
    let mut random = |below: usize| rng.below(below) as u64;
    let long_suffix = "x".repeat(2_000);
    let name = |number: u64| match number {
        0..=2 => format!("10.{}/{long_suffix}{number}", number % 3),
        number => format!("10.{}/Name-{number}", number % 3),
    };
    let names: Vec<String> = (0..24).map(name).collect();
    let directory = ram_dir();
    let store = block_on(new_store());
    for _ in 0..repetitions("TENDOT_TEST_IMPORTS", 6, 40) {
        let embedded = EmbeddedStore::open(directory.path()).unwrap();
        for _ in 0..random(12) {
            let name: Box<str> = names[random(24) as usize].as_str().into();
            let registration = random(9).to_be_bytes();
            let values = values(&format!("deposited {}", random(10)));
            let edit = match random(6) {
                0 => Edit::Remove { name, precondition: Precondition::NotTombstone },
                1 => Edit::Tombstone { name, precondition: Precondition::NotTombstone },
                2 => Edit::Register {
                    name,
                    values,
                    registration: registration.into(),
                    precondition: Precondition::NotTombstone,
                },
                _ => Edit::Put { name, values, precondition: Precondition::NotTombstone },
            };
            let change = || ChangeSet {
                author: "tester".into(),
                timestamp_ms: TIMESTAMP_MS,
                edits: vec![edit.clone()],
            };
            let (embedded_result, postgres_result) =
                (block_on(embedded.commit(change())), block_on(store.commit(change())));
            assert_eq!(
                embedded_result.map_err(|error| error.to_string()),
                postgres_result.map_err(|error| error.to_string())
            );
        }
        drop(embedded);
        let records: Vec<(String, String)> = (0..random(30))
            .map(|_| {
                let name = &names[random(24) as usize];
                let name = if random(2) == 0 { name.to_ascii_uppercase() } else { name.clone() };
                (name, format!("imported {}", random(10)))
            })
            .collect();
        let embedded_result = import_embedded(directory.path(), &records);
        assert_eq!(embedded_result, block_on(import(&store, 1_000, &records)));
        let embedded = EmbeddedStore::open(directory.path()).unwrap();
        assert_same(&block_on(dump(&embedded)), &block_on(dump(&store)));
    }
    let secret = "secret of";
    let has_secret = |history_entry: &HistoryEntry| format!("{history_entry:?}").contains(secret);
    let dump = block_on(dump(&store));
    assert!(!dump.histories.values().flatten().any(has_secret), "a secret is in the history");
    assert!(
        dump.log.iter().any(|log_entry| log_entry.kind == EditKind::Import && log_entry.record_count > 5)
    );
}

fn import_embedded(directory: &Path, records: &[(String, String)]) -> ImportSummary {
    let mut importer = EmbeddedImporter::open(directory, "importer", TIMESTAMP_MS).unwrap();
    for (name, data) in records {
        importer.add((**name).into(), &values(data)).unwrap();
        importer.home_prefix(name.split('/').next().unwrap()).unwrap();
    }
    importer.finish(|_| {}).unwrap()
}

fn records(count: usize, data: &str) -> Vec<(String, String)> {
    (0..count).map(|number| (format!("10.{}/{number:05}", number % 7), format!("{data} {number}"))).collect()
}

/// Each transaction of an import has its own log entry and its own names.
#[test]
fn several_transactions() {
    let store = block_on(new_store());
    let imported = block_on(import(&store, 10, &records(25, "first")));
    assert_eq!((imported.created, imported.changed), (25, 0));
    let first = block_on(dump(&store));
    let counts = |dump: &StoreDump| -> Vec<(EditKind, u64)> {
        dump.log
            .iter()
            .filter(|log_entry| log_entry.kind == EditKind::Import)
            .map(|log_entry| (log_entry.kind, log_entry.record_count))
            .collect()
    };
    assert_eq!(counts(&first), [10, 10, 5].map(|count| (EditKind::Import, count)));
    assert_eq!(first.imports.iter().map(Vec::len).collect::<Vec<_>>(), [10, 10, 5]);
    assert!(first.histories.values().all(|history_entry| history_entry.len() == 1));
    let imported = block_on(import(&store, 10, &records(25, "second")));
    assert_eq!((imported.created, imported.changed), (0, 25));
    let second = block_on(dump(&store));
    assert!(second.histories.values().all(|history_entry| history_entry.len() == 2));
    assert_eq!(second.imports.iter().map(Vec::len).collect::<Vec<_>>(), [0, 0, 0, 10, 10, 5]);
    let imported = block_on(import(&store, 10, &records(25, "second")));
    assert_eq!((imported.created, imported.changed, imported.unchanged), (0, 0, 25));
    assert_eq!(block_on(dump(&store)), second);
}

/// Values up to the size limit of a record are imported; larger records are rejected when they are added.
#[test]
fn large_values() {
    block_on(async {
        let store = new_store().await;
        let mut importer = store.start_import("importer", TIMESTAMP_MS).unwrap();
        let data = |bytes: usize| [HandleValue::new(1, "URL", "x".repeat(bytes))];
        // Index, timestamp, TTL, permissions, lengths and type of a value take 29 bytes.
        let max = (4 << 20) - 29;
        for (name, bytes) in [("10.1/2", 2 << 20), ("10.1/4", max)] {
            importer.add(name.into(), &data(bytes)).unwrap();
        }
        let error = importer.add("10.1/5".into(), &data(max + 1)).unwrap_err();
        assert!(matches!(error, ImportError::TooLarge { .. }), "{error}");
        assert_eq!(importer.finish(|_| {}).await.unwrap().created, 2);
        let record = store.get(&NameKey::new("10.1/4").unwrap()).await.unwrap().unwrap();
        assert_eq!(record.values, data(max));
    });
}

/// An import ends between two transactions: the written records stay, and a repeated import writes the rest.
#[test]
fn interrupted_import_is_completed() {
    block_on(async {
        let store = new_store().await;
        let records = records(50, "data");
        let mut importer = store.start_import("importer", TIMESTAMP_MS).unwrap().records_per_transaction(10);
        for (name, data) in &records {
            importer.add((**name).into(), &values(data)).unwrap();
        }
        let (sender, received) = tokio::sync::oneshot::channel();
        let mut sender = Some(sender);
        let finish = importer.finish(move |imported| {
            if imported.created == 30 {
                sender.take().map(|sender| sender.send(()));
            }
        });
        tokio::select! {
            biased;
            _ = received => {}
            _ = finish => panic!("the import was not interrupted"),
        }
        let log = store.read_log(0, 100).await.unwrap();
        assert!(log.iter().all(|log_entry| log_entry.record_count == 10));
        let written = 10 * log.len() as u64;
        assert!((30..50).contains(&written), "{written}");
        let imported = import(&store, 10, &records).await;
        assert_eq!((imported.created, imported.unchanged), (50 - written, written));
    });
}

/// Other clients write the same names through another store during an import: no change is lost, and prior states are right.
#[test]
fn concurrent_writers() {
    block_on(async {
        let url = shared_server().url(&new_database());
        let (store, other) = (open(&url).await, open(&url).await);
        let all = records(3_000, "imported");
        let committed = Arc::new(AtomicUsize::new(0));
        let writer = tokio::spawn({
            let (all, committed) = (all.clone(), Arc::clone(&committed));
            async move {
                let mut written = Vec::new();
                for number in 0..200_usize {
                    let name = &all[number * 7_919 % all.len()].0;
                    // A new name or an existing one, depending on the progress of the import.
                    let edit = put(name, &format!("deposited {number}"), Precondition::NotTombstone);
                    written.push((name.clone(), commit(&other, vec![edit]).await.unwrap()));
                    if number % 50 == 0 {
                        let new_name = format!("10.1/ended-{number}");
                        commit(&other, vec![put(&new_name, "x", Precondition::Absent)]).await.unwrap();
                    }
                    committed.fetch_add(1, Ordering::SeqCst);
                }
                written
            }
        });
        // Holds the import up until the others have committed something since its last transaction.
        let mut before = 0;
        let imported = import_with(&store, 100, &all, |_| {
            let has_more = || committed.load(Ordering::SeqCst) > before || writer.is_finished();
            wait_until("the others commit something", has_more);
            before = committed.load(Ordering::SeqCst);
        })
        .await;
        let written = writer.await.unwrap();
        assert_eq!(imported.created + imported.changed, 3_000);
        logged_names(&store).await;
        for (name, revision) in written {
            let key = NameKey::new(&name).unwrap();
            let history_entry =
                store.history(&key, HistoryOrder::OldestFirst { after: 0 }, 100).await.unwrap().entries;
            let entry = store.get(&key).await.unwrap().unwrap();
            assert_eq!(entry.status, RecordStatus::Live);
            assert!(
                history_entry.iter().any(|history_entry| history_entry.log_entry.revision == revision),
                "{name}: lost"
            );
            assert!(
                history_entry.iter().any(|history_entry| history_entry.log_entry.kind == EditKind::Import),
                "{name}: not imported"
            );
            assert_eq!(history_entry.last().unwrap().log_entry.revision, entry.revision, "{name}");
            // The prior state of each change is the result of the one before.
            for pair in history_entry.windows(2) {
                let tendot_store::PriorState::Record(found) = &pair[1].prior else {
                    panic!("{name}: no prior record")
                };
                assert_eq!(found.revision, pair[0].log_entry.revision, "{name}");
            }
        }
        let kinds: Vec<EditKind> =
            store.read_log(0, 10_000).await.unwrap().into_iter().map(|log_entry| log_entry.kind).collect();
        let is_import = |kind: &EditKind| *kind == EditKind::Import;
        let (first, last) = (kinds.iter().position(is_import), kinds.iter().rposition(is_import));
        let between = &kinds[first.unwrap()..last.unwrap()];
        assert!(!between.iter().all(is_import), "nothing was written in between");
    });
}

/// An import whose session is terminated while it waits for the lock reports it.
#[test]
fn connection_terminated() {
    block_on(async {
        let (server, database) = server_and_database();
        let store = open(&server.url(&database)).await;
        let mut importer = store.start_import("importer", TIMESTAMP_MS).unwrap();
        importer.add("10.1/1".into(), &values("1")).unwrap();
        let holder = server.connect(&database).await;
        holder.batch_execute("begin; select * from tendot_counters for update").await.unwrap();
        let terminate = async {
            let sql = "select count(pg_terminate_backend(pid)) from pg_stat_activity \
                 where datname = current_database() and wait_event_type = 'Lock'";
            let is_terminated = async || server.query_text(&database, sql).await != "0";
            wait_until_async("the waiting session is terminated", is_terminated).await;
        };
        let (imported, ()) = tokio::join!(importer.finish(|_| {}), terminate);
        let error = imported.unwrap_err().to_string();
        assert!(error.starts_with("importing records failed: "), "{error}");
        holder.batch_execute("rollback").await.unwrap();
        assert_eq!(logged_names(&store).await, [""; 0]);
    });
}

/// The connection is cut at many positions in both directions: everything that was reported as written is stored, and nothing
/// else unless the outcome is reported as in doubt; a repeated import writes the rest.
#[test]
fn cut_at_any_byte() {
    block_on(async {
        let (server, database) = server_and_database();
        let direct = open(&server.url(&database)).await;
        let proxy = ChaosProxy::start(server.port).await;
        let address = format!("postgres://postgres@127.0.0.1:{}/{database}", proxy.port);
        let proxied = open(&address).await;
        let attempt = async |store: &PostgresStore, number: usize, reported: &mut u64| {
            let mut importer =
                store.start_import("importer", TIMESTAMP_MS).unwrap().records_per_transaction(10);
            for name in 0..20 {
                importer.add(format!("10.1/{number}-{name:02}").into(), &values("1")).unwrap();
            }
            importer.finish(|imported| *reported = imported.created).await
        };
        proxy.take_byte_counts();
        attempt(&proxied, 0, &mut 0).await.unwrap();
        let [to_server, to_client] = proxy.take_byte_counts();
        let cuts = usize::try_from(repetitions("TENDOT_TEST_IMPORT_CUTS", 40, 400)).unwrap();
        let positions =
            (0..to_server).step_by((to_server * 2 / cuts).max(1)).map(|bytes| (Direction::ToServer, bytes));
        // The reply to the commit comes last and has few bytes.
        let middle = to_client / 2;
        let replies = (0..middle)
            .step_by((middle * 8 / cuts).max(1))
            .chain((middle..to_client).step_by((middle * 3 / cuts).max(1)));
        let positions: Vec<_> = positions.chain(replies.map(|bytes| (Direction::ToClient, bytes))).collect();
        // Polls of the monitor pass the proxy, too, more of them on a busy machine, so that the reply to the last commit comes later: go
        // on until one was cut.
        let last_reply =
            (to_client - 40..to_client + 600).step_by(4).map(|bytes| (Direction::ToClient, bytes));
        let extra_positions = std::iter::repeat_n(last_reply, 4).flatten();
        let planned = positions.len();
        let (mut in_doubt, mut failed) = (0, 0);
        for (number, (direction, bytes)) in positions.into_iter().chain(extra_positions).enumerate() {
            if number >= planned && in_doubt > 0 {
                break;
            }
            proxy.cut_after(direction, bytes, CutMode::Both);
            let mut reported = 0;
            let result = attempt(&proxied, number + 1, &mut reported).await;
            // The lock is free when the transaction that was cut has ended.
            commit(&direct, vec![put("10.1/after", "x", Precondition::NotTombstone)]).await.unwrap();
            let mut repeated_count = 0;
            let repeated = attempt(&direct, number + 1, &mut repeated_count).await.unwrap();
            let found = repeated.unchanged;
            let context = format!("{bytes} bytes {direction:?}: reported {reported}, found {found}");
            match result {
                Ok(_) => assert_eq!(found, 20, "{context}"),
                Err(ImportError::Store(StoreError::InDoubt { .. })) => {
                    assert!(found == reported || found == reported + 10, "{context}");
                    in_doubt += 1;
                }
                Err(error) => {
                    assert_eq!(found, reported, "{context}: {error}");
                    failed += 1;
                }
            }
            assert_eq!(repeated.created + found, 20, "{context}");
        }
        assert!(in_doubt > 0 && failed > planned / 4, "{in_doubt} in doubt, {failed} failed");
        logged_names(&direct).await;
    });
}
