//! Migration between embedded and PostgreSQL stores preserves everything, also while the source is being written.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tendot_proto::HandleValue;
use tendot_store::{
    ChangeSet, CommitError, Edit, EmbeddedImporter, EmbeddedStore, HistoryOrder, MigrationError, NameKey,
    PostgresOpenError, PostgresStore, Precondition, PreviousRun, PriorState, RecordStatus, Store,
    StoredRecord, migrate,
};

use tendot_testing::{SeededRng, is_full_run, ram_dir, test_seed};

use super::store_dump::{assert_same, dump};
use super::{block_on, open, settings, shared_server};

/// More edits than the store searches for one name.
const LARGE_CHANGE_SET: usize = 4_300;

/// Edits of the largest change set: in ordinary runs only [`large_change_set_is_preserved`] has a large one.
fn change_set_size() -> usize {
    if is_full_run() { LARGE_CHANGE_SET } else { 200 }
}

/// A random change set of a few names.
fn change(rng: &mut SeededRng) -> ChangeSet {
    let edits = (0..=rng.below(4)).map(|_| edit(rng)).collect();
    ChangeSet {
        author: format!("user {}", rng.below(3)).into(),
        // In the past: PostgreSQL stores no time after the present.
        timestamp_ms: rng.next_u64() % 1_700_000_000_000,
        edits,
    }
}

fn edit(rng: &mut SeededRng) -> Edit {
    let long_suffix = "x".repeat(2_000);
    let name = match rng.below(30) {
        0 => format!("10.1/{long_suffix}{}", rng.below(3)),
        1 => "10.1".into(),
        n if n < 15 => format!("10.1/Name-{}", rng.below(12)),
        _ => format!("10.2/{}\u{e9}", rng.below(40)),
    };
    let name: Box<str> = if rng.coin() { name.to_uppercase().into() } else { name.into() };
    let kinds = ["URL", "HS_SECKEY", "EMAIL", "HS_ADMIN"];
    let values = (1..=rng.below(3) as u32)
        .map(|index| HandleValue {
            timestamp: rng.next_u64() as u32,
            ..HandleValue::new(index, kinds[rng.below(4)], format!("https://example.org/a/{}", rng.below(50)))
        })
        .collect();
    let precondition = Precondition::NotTombstone;
    match rng.below(12) {
        0..4 => Edit::Put { name, values, precondition },
        4..8 => {
            let registration = format!("registration {}", rng.below(3)).into_bytes();
            let registration = if rng.below(5) == 0 { Box::default() } else { registration.into() };
            Edit::Register { name, values, registration, precondition }
        }
        8 if rng.below(6) == 0 => Edit::Tombstone { name, precondition: Precondition::Live },
        8 => Edit::Remove { name, precondition: Precondition::Live },
        9 if rng.coin() => Edit::Home { prefix: format!("10.{}", rng.below(5)).into() },
        9 => Edit::Unhome { prefix: format!("10.{}", rng.below(5)).into() },
        10 => {
            let key = format!("aux/{}", rng.below(20)).into_bytes();
            Edit::PutAux { key: key.into(), value: vec![rng.next_u64() as u8; rng.below(300)].into() }
        }
        _ => Edit::RemoveAux { key: format!("aux/{}", rng.below(20)).into_bytes().into() },
    }
}

/// A redaction of the whole history of a name, and of its record if that is a tombstone.
async fn redaction(store: &impl Store, rng: &mut SeededRng) -> ChangeSet {
    let name = format!("10.1/Name-{}", rng.below(12));
    let key = NameKey::new(&name).unwrap();
    let current = store.get(&key).await.unwrap();
    let redacted = |state: &StoredRecord| -> Box<[u8]> {
        if state.registration.is_empty() { Box::default() } else { b"redacted"[..].into() }
    };
    let order = HistoryOrder::OldestFirst { after: 0 };
    let entries = store.history(&key, order, 1_000).await.unwrap().entries;
    let history = entries.iter().filter_map(|entry| match &entry.prior {
        PriorState::Record(state) => Some((entry.log_entry.sequence, redacted(state))),
        PriorState::Absent => None,
    });
    let is_retired = current.as_ref().is_some_and(|record| record.status == RecordStatus::Tombstone);
    let prior_registration = current.as_ref().map(redacted).unwrap_or_default();
    let registration = match &current {
        Some(record) if !is_retired => record.registration.clone(),
        _ => prior_registration.clone(),
    };
    let redact = Edit::Redact {
        name: name.as_str().into(),
        mark: HandleValue::new(1, "MARK", "redacted"),
        redacts_current: is_retired,
        registration,
        prior_registration,
        history: history.collect(),
    };
    let revision = current.map(|record| record.revision);
    let edits = vec![Edit::RequireRevision { name: name.into(), revision }, redact];
    ChangeSet { author: "redactor".into(), timestamp_ms: 8, edits }
}

async fn make_changes(store: &impl Store, rng: &mut SeededRng, number: usize) {
    for _ in 0..number {
        let change = if rng.below(12) == 0 { redaction(store, rng).await } else { change(rng) };
        match store.commit(change).await {
            Ok(_) | Err(CommitError::RecordConflict(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// A store with imports, random changes and one large change set of this many edits.
fn build_store(directory: &std::path::Path, rng: &mut SeededRng, large_edits: usize) -> EmbeddedStore {
    import(directory, rng, 30);
    let store = EmbeddedStore::open(directory).unwrap();
    block_on(make_changes(&store, rng, 150));
    let put = |number| Edit::Put {
        name: format!("10.9/{number}").into(),
        values: Vec::new(),
        precondition: Precondition::NotTombstone,
    };
    let edits = (0..large_edits).map(put).collect();
    block_on(store.commit(ChangeSet { author: "many".into(), timestamp_ms: 5, edits })).unwrap();
    drop(store);
    import(directory, rng, 40);
    let store = EmbeddedStore::open(directory).unwrap();
    block_on(make_changes(&store, rng, 100));
    // Aux entries and homed prefixes that do not depend on the random changes.
    let aux =
        |number| Edit::PutAux { key: format!("fixed/{number}").into_bytes().into(), value: b"x"[..].into() };
    let homes = ["10.7", "10.8"].map(|prefix| Edit::Home { prefix: prefix.into() });
    let edits = (0..4).map(aux).chain(homes).collect();
    block_on(store.commit(ChangeSet { author: "tester".into(), timestamp_ms: 6, edits })).unwrap();
    store
}

fn import(directory: &std::path::Path, rng: &mut SeededRng, records: usize) {
    let mut importer = EmbeddedImporter::open(directory, "importer", 7).unwrap();
    importer.home_prefix("10.2").unwrap();
    for number in 0..records {
        let values = [HandleValue::new(1, "URL", format!("https://example.org/{}", rng.below(9)))];
        importer.add(format!("10.2/{number}\u{e9}").into(), &values).unwrap();
    }
    importer.finish(|_| {}).unwrap();
}

fn empty_database_url() -> String {
    shared_server().url(&shared_server().create_database())
}

/// From embedded to PostgreSQL, between two databases, back, and between two directories.
#[test]
fn round_trip_preserves_everything() {
    let seed = test_seed();
    println!("TENDOT_TEST_SEED={seed}");
    let rng = &mut SeededRng::new(seed);
    let directory = ram_dir();
    let large = change_set_size();
    let first = build_store(&directory.path().join("first"), rng, large);
    let url = empty_database_url();
    let other_url = empty_database_url();
    let expected = block_on(dump(&first));
    assert!(expected.records.len() > large && expected.aux_entries.len() > 3 && expected.homed.len() > 1);
    block_on(async {
        let mut target = PostgresStore::open_target(&url, &settings()).await.unwrap();
        let report = migrate(&first, &mut target, false, |_| {}).await.unwrap();
        assert_eq!((report.difference_count, report.previous_run), (0, None), "{:?}", report.differences);
        assert_eq!(report.sequence, expected.log.last().unwrap().sequence);
        drop(target);
        let second = open(&url).await;
        assert_same(&expected, &dump(&second).await);
        assert_eq!(second.verify(|_| {}).await.unwrap().errors, [""; 0]);

        let mut target = PostgresStore::open_target(&other_url, &settings()).await.unwrap();
        let report = migrate(&second, &mut target, false, |_| {}).await.unwrap();
        assert_eq!(report.difference_count, 0, "{:?}", report.differences);
        drop(target);
        let third = open(&other_url).await;
        assert_same(&expected, &dump(&third).await);

        for (number, name) in ["back", "again"].into_iter().enumerate() {
            let mut target = EmbeddedStore::open_target(&directory.path().join(name)).unwrap();
            let report = match number {
                0 => migrate(&third, &mut target, false, |_| {}).await.unwrap(),
                _ => {
                    let back = EmbeddedStore::open_read_only(&directory.path().join("back")).unwrap();
                    migrate(&back, &mut target, false, |_| {}).await.unwrap()
                }
            };
            assert_eq!(report.difference_count, 0, "{:?}", report.differences);
            drop(target);
            let back = EmbeddedStore::open(&directory.path().join(name)).unwrap();
            assert_same(&expected, &dump(&back).await);
            assert_eq!(back.verify(|_| {}).unwrap().errors, [""; 0]);
        }
        // A record that an import created may have no history row, as in an embedded store.
        let server = shared_server();
        let database = other_url.rsplit('/').next().unwrap();
        let sql = "delete from tendot_history h using tendot_log l \
                   where l.sequence = h.sequence and l.kind = 7 and h.name is null";
        server.execute(database, sql).await;
        let without_history = directory.path().join("without");
        let report =
            migrate(&third, &mut EmbeddedStore::open_target(&without_history).unwrap(), false, |_| {})
                .await
                .unwrap();
        assert_eq!(report.difference_count, 0, "{:?}", report.differences);
        assert_same(&expected, &dump(&EmbeddedStore::open_read_only(&without_history).unwrap()).await);

        // Later changes have the same results in both stores.
        let stores = (EmbeddedStore::open(&directory.path().join("again")).unwrap(), second);
        let state = rng.next_u64();
        make_changes(&stores.0, &mut SeededRng::new(state), 40).await;
        make_changes(&stores.1, &mut SeededRng::new(state), 40).await;
        assert_same(&dump(&stores.0).await, &dump(&stores.1).await);
        assert_eq!(stores.0.verify(|_| {}).unwrap().errors, [""; 0]);
    });
}

/// Migration keeps the history of a change set with more edits than the store searches for one name.
#[test]
fn large_change_set_is_preserved() {
    let rng = &mut SeededRng::new(11);
    let directory = ram_dir();
    let first = build_store(&directory.path().join("first"), rng, LARGE_CHANGE_SET);
    let url = empty_database_url();
    let expected = block_on(dump(&first));
    assert!(expected.records.len() > LARGE_CHANGE_SET);
    block_on(async {
        let mut target = PostgresStore::open_target(&url, &settings()).await.unwrap();
        assert_eq!(migrate(&first, &mut target, false, |_| {}).await.unwrap().difference_count, 0);
        drop(target);
        let second = open(&url).await;
        assert_same(&expected, &dump(&second).await);
        let back = directory.path().join("back");
        let report =
            migrate(&second, &mut EmbeddedStore::open_target(&back).unwrap(), false, |_| {}).await.unwrap();
        assert_eq!(report.difference_count, 0, "{:?}", report.differences);
        assert_same(&expected, &dump(&EmbeddedStore::open_read_only(&back).unwrap()).await);
    });
}

/// Migrates several times while the source is written; when the writer has stopped, a last run makes both equal.
async fn run_under_load<S: Store + 'static>(
    source: Arc<S>,
    rng: &mut SeededRng,
    mut run: impl AsyncFnMut() -> tendot_store::MigrationReport,
) {
    let is_finished = Arc::new(AtomicBool::new(false));
    let state = rng.next_u64();
    let writer = tokio::spawn({
        let (source, is_finished) = (Arc::clone(&source), Arc::clone(&is_finished));
        async move {
            let mut rng = SeededRng::new(state);
            let mut changes = 0;
            while !is_finished.load(Ordering::SeqCst) {
                make_changes(&*source, &mut rng, 1).await;
                changes += 1;
                // Slower than the migration, or it would never catch up.
                tokio::time::sleep(std::time::Duration::from_millis(2)).await;
            }
            changes
        }
    });
    for number in 0..3 {
        let report = run().await;
        assert_eq!(report.difference_count, 0, "{:?}", report.differences);
        assert_eq!(
            matches!(report.previous_run, Some(PreviousRun::Completed(_))),
            number > 0,
            "{:?}",
            report.previous_run
        );
    }
    is_finished.store(true, Ordering::SeqCst);
    assert!(writer.await.unwrap() > 20);
    let report = run().await;
    assert_eq!((report.difference_count, report.concurrently_changed), (0, 0));
    let report = run().await;
    assert_eq!(
        (report.records, report.log_entries, report.history_entries, report.aux_entries, report.compared),
        (0, 0, 0, 0, 0)
    );
}

#[test]
fn migrate_under_load() {
    let seed = test_seed();
    println!("TENDOT_TEST_SEED={seed}");
    let rng = &mut SeededRng::new(seed);
    let directory = ram_dir();
    let source = Arc::new(build_store(&directory.path().join("first"), rng, change_set_size()));
    block_on(async {
        let address = empty_database_url();
        run_under_load(Arc::clone(&source), rng, async || {
            let mut target = PostgresStore::open_target(&address, &settings()).await.unwrap();
            migrate(&*source, &mut target, false, |_| {}).await.unwrap()
        })
        .await;
        let second = Arc::new(open(&address).await);
        assert_same(&dump(&*source).await, &dump(&*second).await);
        let back = directory.path().join("back");
        run_under_load(Arc::clone(&second), rng, async || {
            let mut target = EmbeddedStore::open_target(&back).unwrap();
            migrate(&*second, &mut target, false, |_| {}).await.unwrap()
        })
        .await;
        let back = EmbeddedStore::open(&back).unwrap();
        assert_same(&dump(&*second).await, &dump(&back).await);
        assert_eq!(back.verify(|_| {}).unwrap().errors, [""; 0]);
    });
}

/// Foreign changes in a target are detected, and a target that is not a copy of the source is not overwritten.
#[test]
fn detects_differences_and_foreign_targets() {
    let rng = &mut SeededRng::new(7);
    let directory = ram_dir();
    let source = build_store(&directory.path().join("first"), rng, 200);
    let other = build_store(&directory.path().join("other"), rng, 200);
    block_on(async {
        let server = shared_server();
        let database = server.create_database();
        let address = server.url(&database);
        let run = async |compare_all| {
            let mut target = PostgresStore::open_target(&address, &settings()).await.unwrap();
            migrate(&source, &mut target, compare_all, |_| {}).await
        };
        assert_eq!(run(false).await.unwrap().difference_count, 0);
        let undo = "update tendot_records set revision = revision - 1 where name = '10.9/77'";
        let cases = [
            ("update tendot_records set revision = revision + 1 where name = '10.9/77'", undo, "`10.9/77`"),
            (
                "update tendot_log set author = author || 'x'::bytea where sequence = 9",
                "update tendot_log set author = substr(author, 1, length(author) - 1) where sequence = 9",
                "log entry 9",
            ),
            (
                "insert into tendot_records select 'A'::bytea, 'a'::bytea, 1, 0, body, registration \
                 from tendot_records where name = '10.9/78'",
                "delete from tendot_records where name = 'a'",
                "`A`: not in the source",
            ),
            (
                "create table saved_record as select * from tendot_records where name = '10.9/79'; \
                 delete from tendot_records where name = '10.9/79'",
                "insert into tendot_records select * from saved_record",
                "`10.9/79`: missing in the target",
            ),
            (
                "create table saved_history as select * from tendot_history where name_key = '10.9/80'; \
                 delete from tendot_history where name_key = '10.9/80'",
                "insert into tendot_history select * from saved_history",
                "history of `10.9/80`",
            ),
            (
                "insert into tendot_homed values ('10.77')",
                "delete from tendot_homed where name_key = '10.77'",
                "prefix `10.77`",
            ),
        ];
        for (sql, undo, expected) in cases {
            server.execute(&database, sql).await;
            let report = run(true).await.unwrap();
            assert!(
                report.differences.iter().any(|difference| difference.contains(expected)),
                "{sql}: {report:?}"
            );
            // An incomplete target cannot be opened.
            let error = PostgresStore::open(&address, &settings()).await.unwrap_err();
            assert!(matches!(error, PostgresOpenError::IncompleteMigration { .. }), "{error}");
            server.execute(&database, undo).await;
        }
        assert_eq!(run(true).await.unwrap().difference_count, 0);

        // A copy of another source.
        let mut target = PostgresStore::open_target(&address, &settings()).await.unwrap();
        let error = migrate(&other, &mut target, false, |_| {}).await.unwrap_err();
        assert!(matches!(error, MigrationError::SourceMismatch), "{error}");
        drop(target);
        // A copy that was written, even if only an aux entry.
        let store = open(&address).await;
        let aux = Edit::PutAux { key: b"new"[..].into(), value: b"x"[..].into() };
        store
            .commit(ChangeSet { author: "tester".into(), timestamp_ms: 1, edits: vec![aux.clone()] })
            .await
            .unwrap();
        assert!(matches!(run(false).await.unwrap_err(), MigrationError::TargetModified));
        // An embedded target that was written.
        let target_path = directory.path().join("to");
        let migrate_embedded = async || {
            migrate(&source, &mut EmbeddedStore::open_target(&target_path).unwrap(), false, |_| {}).await
        };
        migrate_embedded().await.unwrap();
        migrate_embedded().await.unwrap();
        let store = EmbeddedStore::open(&target_path).unwrap();
        store.commit(ChangeSet { author: "tester".into(), timestamp_ms: 1, edits: vec![aux] }).await.unwrap();
        drop(store);
        assert!(matches!(migrate_embedded().await.unwrap_err(), MigrationError::TargetModified));
        let mut target = EmbeddedStore::open_target(&directory.path().join("other-to")).unwrap();
        migrate(&other, &mut target, false, |_| {}).await.unwrap();
        assert!(matches!(
            migrate(&source, &mut target, false, |_| {}).await,
            Err(MigrationError::SourceMismatch)
        ));
        // A store that is not a copy.
        drop(other);
        let mut target = EmbeddedStore::open_target(&directory.path().join("other")).unwrap();
        assert!(matches!(
            migrate(&source, &mut target, false, |_| {}).await,
            Err(MigrationError::TargetNotEmpty)
        ));
    });
}

/// Each transaction of a migration or import writes a commit id, and old ones are removed as after other commits.
#[test]
fn commit_ids_are_written() {
    let directory = ram_dir();
    let source = build_store(&directory.path().join("from"), &mut SeededRng::new(11), 200);
    block_on(async {
        let server = shared_server();
        let database = server.create_database();
        let address = server.url(&database);
        let mut target = PostgresStore::open_target(&address, &settings()).await.unwrap();
        let sql = "update tendot_counters set commits = 100000; \
                   insert into tendot_commits (number, commit_id) select n, 'old' from generate_series(1, 100000) n";
        server.execute(&database, sql).await;
        let numbers = async || {
            let sql = "select commits || ' ' || min(number) + 99999 || ' ' || max(number) || ' ' || count(*) \
                        from tendot_counters, tendot_commits group by commits";
            let text = server.query_text(&database, sql).await;
            text.split(' ').map(|number| number.parse().unwrap()).collect::<Vec<u32>>()
        };
        migrate(&source, &mut target, false, |_| {}).await.unwrap();
        drop(target);
        let report = numbers().await;
        assert!(report[0] > 100_000, "{report:?}");
        assert_eq!(report, [report[0], report[0], report[0], 100_000]);
        let store = open(&address).await;
        let mut importer = store.start_import("importer", 1).unwrap();
        importer.add("10.7/1".into(), &[HandleValue::new(1, "URL", "x")]).unwrap();
        importer.finish(|_| {}).await.unwrap();
        let next = report[0] + 1;
        assert_eq!(numbers().await, [next, next, next, 100_000]);
    });
}
