//! Migration between embedded and PostgreSQL stores preserves everything, also while the source is written.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tendot_proto::HandleValue;
use tendot_store::{
    ChangeSet, CommitError, Edit, EmbeddedImporter, EmbeddedStore, HistoryEntry, HistoryOrder,
    MigrationError, NameKey, PostgresOpenError, PostgresStore, Precondition, PreviousRun, Store,
    StoredRecord, migrate,
};

use tendot_testing::{SeededRng, is_full_run, ram_dir, test_seed};

use super::{block_on, commit, open, put, server_and_database, settings, shared_server};

/// More edits than are searched for one of them.
const LARGE_CHANGE_SET: usize = 4_300;

/// Edits of the largest change set: in ordinary runs only [`large_change_set_is_preserved`] has a large one.
fn change_set_size() -> usize {
    if is_full_run() { LARGE_CHANGE_SET } else { 200 }
}

/// Everything readable in a store.
#[derive(Debug, PartialEq)]
struct StoreDump {
    records: Vec<StoredRecord>,
    lists: Vec<String>,
    log: Vec<tendot_store::LogEntry>,
    histories: Vec<(String, Vec<HistoryEntry>, Vec<HistoryEntry>)>,
    revisions: Vec<String>,
    homed: Vec<Box<str>>,
    notes: Vec<tendot_store::Note>,
}

async fn dump(store: &impl Store) -> StoreDump {
    let mut records = Vec::new();
    let visit = |entry: &StoredRecord| {
        records.push(entry.clone());
        true
    };
    store.scan_records(None, None, visit).await.unwrap();
    let log = store.read_log(0, usize::MAX >> 1).await.unwrap();
    let mut names: Vec<String> = records.iter().map(|entry| entry.name.to_string()).collect();
    names.extend(log.iter().map(|line| line.name.to_string()));
    names.sort_by_key(|name| name.to_ascii_uppercase());
    names.dedup_by(|a, b| a.eq_ignore_ascii_case(b));
    let (mut histories, mut lists) = (Vec::new(), Vec::new());
    for name in names {
        // Some of the many similar names are enough.
        let is_one_of_many = name.strip_prefix("10.9/").is_some_and(|number| !number.ends_with("77"));
        let Some(key) = NameKey::new(&name).ok().filter(|_| !is_one_of_many) else { continue };
        lists.push(format!("{:?} {:?}", key, store.get(&key).await.unwrap()));
        let oldest = history(store, &key, |after| HistoryOrder::OldestFirst { after }, 0).await;
        let newest = history(store, &key, |before| HistoryOrder::NewestFirst { before }, u64::MAX).await;
        histories.push((name.to_ascii_uppercase(), oldest, newest));
    }
    for prefix in ["10.1", "10.2", "10.9"] {
        lists.push(format!("{:?}", store.list_names(prefix.as_bytes(), None, 10_000).await.unwrap()));
        lists.push(format!("{:?}", store.count_names(prefix.as_bytes(), None, 10_000).await.unwrap()));
    }
    let last = log.last().map_or(0, |line| line.revision);
    let mut revisions = Vec::new();
    for revision in (1..=last).rev().take(50).chain(1..=3) {
        let piece = store.names_at_revision(revision, None, 1_000).await.unwrap();
        revisions.push(format!("{revision} {piece:?}"));
    }
    let homed = store.list_homed(None, 1_000).await.unwrap();
    let notes = store.list_aux(b"", None, 10_000).await.unwrap();
    StoreDump { records, lists, log, histories, revisions, homed, notes }
}

/// The whole history of a name, page by page.
async fn history(
    store: &impl Store,
    key: &NameKey,
    order: impl Fn(u64) -> HistoryOrder,
    first: u64,
) -> Vec<HistoryEntry> {
    let (mut items, mut next) = (Vec::new(), Some(first));
    while let Some(at) = next {
        let history = store.history(key, order(at), 7).await.unwrap();
        items.extend(history.items);
        next = history.next;
    }
    items
}

#[track_caller]
fn assert_same(one: &StoreDump, other: &StoreDump) {
    assert_eq!(one.log, other.log);
    for (one, other) in one.records.iter().zip(&other.records) {
        assert_eq!(one, other);
    }
    for (one, other) in one.histories.iter().zip(&other.histories) {
        assert_eq!(one, other);
    }
    assert_eq!(one, other);
}

/// A random change set of a few names.
fn change(rng: &mut SeededRng) -> ChangeSet {
    let edits = (0..=rng.below(4)).map(|_| edit(rng)).collect();
    ChangeSet {
        author: format!("user {}", rng.below(3)).into(),
        timestamp_ms: rng.next_u64() % 1_800_000_000_000,
        edits,
    }
}

fn edit(rng: &mut SeededRng) -> Edit {
    let long = "x".repeat(2_000);
    let name = match rng.below(30) {
        0 => format!("10.1/{long}{}", rng.below(3)),
        1 => "10.1".into(),
        n if n < 15 => format!("10.1/Name-{}", rng.below(12)),
        _ => format!("10.2/{}\u{e9}", rng.below(40)),
    };
    let name: Box<str> = if rng.flip() { name.to_uppercase().into() } else { name.into() };
    let kinds = ["URL", "HS_SECKEY", "EMAIL", "HS_ADMIN"];
    let values = (1..=rng.below(3) as u32)
        .map(|index| HandleValue {
            timestamp: rng.next_u64() as u32,
            ..HandleValue::new(index, kinds[rng.below(4)], format!("https://example.org/a/{}", rng.below(50)))
        })
        .collect();
    let expect = Precondition::NotTombstone;
    match rng.below(12) {
        0..4 => Edit::Put { name, values, precondition: expect },
        4..8 => {
            let registration = format!("known {}", rng.below(3)).into_bytes();
            let registration = if rng.below(5) == 0 { Box::default() } else { registration.into() };
            Edit::Register { name, values, registration, precondition: expect }
        }
        8 if rng.below(6) == 0 => Edit::Tombstone { name, precondition: Precondition::Live },
        8 => Edit::Remove { name, precondition: Precondition::Live },
        9 if rng.flip() => Edit::Home { prefix: format!("10.{}", rng.below(5)).into() },
        9 => Edit::Unhome { prefix: format!("10.{}", rng.below(5)).into() },
        10 => {
            let key = format!("note/{}", rng.below(20)).into_bytes();
            Edit::PutAux { key: key.into(), value: vec![rng.next_u64() as u8; rng.below(300)].into() }
        }
        _ => Edit::RemoveAux { key: format!("note/{}", rng.below(20)).into_bytes().into() },
    }
}

async fn make_changes(store: &impl Store, rng: &mut SeededRng, number: usize) {
    for _ in 0..number {
        match store.commit(change(rng)).await {
            Ok(_) | Err(CommitError::RecordConflict(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// A store with imports, random changes and one large change set of this many edits.
fn grown_store(directory: &std::path::Path, rng: &mut SeededRng, large: usize) -> EmbeddedStore {
    import(directory, rng, 30);
    let store = EmbeddedStore::open(directory).unwrap();
    block_on(make_changes(&store, rng, 150));
    let put = |number| Edit::Put {
        name: format!("10.9/{number}").into(),
        values: Vec::new(),
        precondition: Precondition::NotTombstone,
    };
    let edits = (0..large).map(put).collect();
    block_on(store.commit(ChangeSet { author: "many".into(), timestamp_ms: 5, edits })).unwrap();
    drop(store);
    import(directory, rng, 40);
    let store = EmbeddedStore::open(directory).unwrap();
    block_on(make_changes(&store, rng, 100));
    // Some aux entries and homed prefixes, whatever the random changes have left.
    let note =
        |number| Edit::PutAux { key: format!("kept/{number}").into_bytes().into(), value: b"x"[..].into() };
    let homes = ["10.7", "10.8"].map(|prefix| Edit::Home { prefix: prefix.into() });
    let edits = (0..4).map(note).chain(homes).collect();
    block_on(store.commit(ChangeSet { author: "keeper".into(), timestamp_ms: 6, edits })).unwrap();
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
    let folder = ram_dir();
    let large = change_set_size();
    let first = grown_store(&folder.path().join("first"), rng, large);
    let there = empty_database_url();
    let further = empty_database_url();
    let expected = block_on(dump(&first));
    assert!(expected.records.len() > large && expected.notes.len() > 3 && expected.homed.len() > 1);
    block_on(async {
        let mut target = PostgresStore::open_target(&there, &settings()).await.unwrap();
        let moved = migrate(&first, &mut target, false, |_| {}).await.unwrap();
        assert_eq!((moved.different, moved.resumed), (0, None), "{:?}", moved.differences);
        assert_eq!(moved.sequence, expected.log.last().unwrap().sequence);
        drop(target);
        let second = open(&there).await;
        assert_same(&expected, &dump(&second).await);
        assert_eq!(second.verify(|_| {}).await.unwrap().damage, [""; 0]);

        let mut target = PostgresStore::open_target(&further, &settings()).await.unwrap();
        let moved = migrate(&second, &mut target, false, |_| {}).await.unwrap();
        assert_eq!(moved.different, 0, "{:?}", moved.differences);
        drop(target);
        let third = open(&further).await;
        assert_same(&expected, &dump(&third).await);

        for (number, name) in ["back", "again"].into_iter().enumerate() {
            let mut target = EmbeddedStore::open_target(&folder.path().join(name)).unwrap();
            let moved = match number {
                0 => migrate(&third, &mut target, false, |_| {}).await.unwrap(),
                _ => {
                    let back = EmbeddedStore::open_read_only(&folder.path().join("back")).unwrap();
                    migrate(&back, &mut target, false, |_| {}).await.unwrap()
                }
            };
            assert_eq!(moved.different, 0, "{:?}", moved.differences);
            drop(target);
            let back = EmbeddedStore::open(&folder.path().join(name)).unwrap();
            assert_same(&expected, &dump(&back).await);
            assert_eq!(back.verify(|_| {}).unwrap().damage, [""; 0]);
        }
        // A record that an import created may have no history row, as in an embedded store.
        let server = shared_server();
        let database = further.rsplit('/').next().unwrap();
        let sql = "delete from tendot_history h using tendot_log l \
                   where l.sequence = h.sequence and l.kind = 7 and h.name is null";
        server.execute(database, sql).await;
        let without = folder.path().join("without");
        let moved =
            migrate(&third, &mut EmbeddedStore::open_target(&without).unwrap(), false, |_| {}).await.unwrap();
        assert_eq!(moved.different, 0, "{:?}", moved.differences);
        assert_same(&expected, &dump(&EmbeddedStore::open_read_only(&without).unwrap()).await);

        // The same changes afterwards have the same results.
        let stores = (EmbeddedStore::open(&folder.path().join("again")).unwrap(), second);
        let state = rng.next_u64();
        make_changes(&stores.0, &mut SeededRng::new(state), 40).await;
        make_changes(&stores.1, &mut SeededRng::new(state), 40).await;
        assert_same(&dump(&stores.0).await, &dump(&stores.1).await);
        assert_eq!(stores.0.verify(|_| {}).unwrap().damage, [""; 0]);
    });
}

/// Migration keeps the history of a change set with more edits than the store searches for one name.
#[test]
fn large_change_set_is_preserved() {
    let rng = &mut SeededRng::new(11);
    let folder = ram_dir();
    let first = grown_store(&folder.path().join("first"), rng, LARGE_CHANGE_SET);
    let there = empty_database_url();
    let expected = block_on(dump(&first));
    assert!(expected.records.len() > LARGE_CHANGE_SET);
    block_on(async {
        let mut target = PostgresStore::open_target(&there, &settings()).await.unwrap();
        assert_eq!(migrate(&first, &mut target, false, |_| {}).await.unwrap().different, 0);
        drop(target);
        let second = open(&there).await;
        assert_same(&expected, &dump(&second).await);
        let back = folder.path().join("back");
        let moved =
            migrate(&second, &mut EmbeddedStore::open_target(&back).unwrap(), false, |_| {}).await.unwrap();
        assert_eq!(moved.different, 0, "{:?}", moved.differences);
        assert_same(&expected, &dump(&EmbeddedStore::open_read_only(&back).unwrap()).await);
    });
}

/// Migrates several times while the source is written; when the writer has stopped, a last run makes both the same.
async fn run_under_load<S: Store + 'static>(
    source: Arc<S>,
    rng: &mut SeededRng,
    mut run: impl AsyncFnMut() -> tendot_store::MigrationReport,
) {
    let is_over = Arc::new(AtomicBool::new(false));
    let state = rng.next_u64();
    let writing = tokio::spawn({
        let (source, is_over) = (Arc::clone(&source), Arc::clone(&is_over));
        async move {
            let mut rng = SeededRng::new(state);
            let mut changes = 0;
            while !is_over.load(Ordering::SeqCst) {
                make_changes(&*source, &mut rng, 1).await;
                changes += 1;
                // Slower than the migration, or it would never catch up.
                tokio::time::sleep(std::time::Duration::from_millis(2)).await;
            }
            changes
        }
    });
    for number in 0..3 {
        let moved = run().await;
        assert_eq!(moved.different, 0, "{:?}", moved.differences);
        assert_eq!(
            matches!(moved.resumed, Some(PreviousRun::Completed(_))),
            number > 0,
            "{:?}",
            moved.resumed
        );
    }
    is_over.store(true, Ordering::SeqCst);
    assert!(writing.await.unwrap() > 20);
    let moved = run().await;
    assert_eq!((moved.different, moved.restless_notes), (0, 0));
    let moved = run().await;
    assert_eq!((moved.records, moved.lines, moved.history, moved.notes, moved.compared), (0, 0, 0, 0, 0));
}

#[test]
fn migrate_under_load() {
    let seed = test_seed();
    println!("TENDOT_TEST_SEED={seed}");
    let rng = &mut SeededRng::new(seed);
    let folder = ram_dir();
    let source = Arc::new(grown_store(&folder.path().join("first"), rng, change_set_size()));
    block_on(async {
        let address = empty_database_url();
        run_under_load(Arc::clone(&source), rng, async || {
            let mut target = PostgresStore::open_target(&address, &settings()).await.unwrap();
            migrate(&*source, &mut target, false, |_| {}).await.unwrap()
        })
        .await;
        let second = Arc::new(open(&address).await);
        assert_same(&dump(&*source).await, &dump(&*second).await);
        let back = folder.path().join("back");
        run_under_load(Arc::clone(&second), rng, async || {
            let mut target = EmbeddedStore::open_target(&back).unwrap();
            migrate(&*second, &mut target, false, |_| {}).await.unwrap()
        })
        .await;
        let back = EmbeddedStore::open(&back).unwrap();
        assert_same(&dump(&*second).await, &dump(&back).await);
        assert_eq!(back.verify(|_| {}).unwrap().damage, [""; 0]);
    });
}

/// Changes of others in a target are detected, and a target that is not a copy of the source is not overwritten.
#[test]
fn detects_differences_and_foreign_targets() {
    let rng = &mut SeededRng::new(7);
    let folder = ram_dir();
    let source = grown_store(&folder.path().join("first"), rng, 200);
    let other = grown_store(&folder.path().join("other"), rng, 200);
    block_on(async {
        let server = shared_server();
        let database = server.create_database();
        let address = server.url(&database);
        let run = async |compare_all| {
            let mut target = PostgresStore::open_target(&address, &settings()).await.unwrap();
            migrate(&source, &mut target, compare_all, |_| {}).await
        };
        assert_eq!(run(false).await.unwrap().different, 0);
        let undo = "update tendot_records set revision = revision - 1 where name = '10.9/77'";
        let cases = [
            ("update tendot_records set revision = revision + 1 where name = '10.9/77'", undo, "`10.9/77`"),
            (
                "update tendot_log set made_by = made_by || 'x'::bytea where sequence = 9",
                "update tendot_log set made_by = substr(made_by, 1, length(made_by) - 1) where sequence = 9",
                "line 9 of the log",
            ),
            (
                "insert into tendot_records select 'A'::bytea, 'a'::bytea, 1, 0, body, registration \
                 from tendot_records where name = '10.9/78'",
                "delete from tendot_records where name = 'a'",
                "`A`: the source has none",
            ),
            (
                "create table kept as select * from tendot_records where name = '10.9/79'; \
                 delete from tendot_records where name = '10.9/79'",
                "insert into tendot_records select * from kept",
                "`10.9/79`: it is missing",
            ),
            (
                "create table past as select * from tendot_history where name_key = '10.9/80'; \
                 delete from tendot_history where name_key = '10.9/80'",
                "insert into tendot_history select * from past",
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
            let moved = run(true).await.unwrap();
            assert!(moved.differences.iter().any(|what| what.contains(expected)), "{sql}: {moved:?}");
            // An incomplete target cannot be opened.
            let refused = PostgresStore::open(&address, &settings()).await.unwrap_err();
            assert!(matches!(refused, PostgresOpenError::IncompleteMigration { .. }), "{refused}");
            server.execute(&database, undo).await;
        }
        assert_eq!(run(true).await.unwrap().different, 0);

        // A copy of another source.
        let mut target = PostgresStore::open_target(&address, &settings()).await.unwrap();
        let refused = migrate(&other, &mut target, false, |_| {}).await.unwrap_err();
        assert!(matches!(refused, MigrationError::SourceMismatch), "{refused}");
        drop(target);
        // A copy that was written, even if only an aux entry.
        let store = open(&address).await;
        let note = Edit::PutAux { key: b"new"[..].into(), value: b"x"[..].into() };
        store
            .commit(ChangeSet { author: "somebody".into(), timestamp_ms: 1, edits: vec![note.clone()] })
            .await
            .unwrap();
        assert!(matches!(run(false).await.unwrap_err(), MigrationError::TargetModified));
        // The same for an embedded target.
        let to = folder.path().join("to");
        let into =
            async || migrate(&source, &mut EmbeddedStore::open_target(&to).unwrap(), false, |_| {}).await;
        into().await.unwrap();
        into().await.unwrap();
        let store = EmbeddedStore::open(&to).unwrap();
        store
            .commit(ChangeSet { author: "somebody".into(), timestamp_ms: 1, edits: vec![note] })
            .await
            .unwrap();
        drop(store);
        assert!(matches!(into().await.unwrap_err(), MigrationError::TargetModified));
        let mut target = EmbeddedStore::open_target(&folder.path().join("other-to")).unwrap();
        migrate(&other, &mut target, false, |_| {}).await.unwrap();
        assert!(matches!(
            migrate(&source, &mut target, false, |_| {}).await,
            Err(MigrationError::SourceMismatch)
        ));
        // A store that never was a copy.
        drop(other);
        let mut target = EmbeddedStore::open_target(&folder.path().join("other")).unwrap();
        assert!(matches!(
            migrate(&source, &mut target, false, |_| {}).await,
            Err(MigrationError::TargetNotEmpty)
        ));
    });
}

/// Each transaction of a migration or import writes a commit id, and old ones are removed as after other commits.
#[test]
fn commit_ids_are_written() {
    let folder = ram_dir();
    let source = grown_store(&folder.path().join("from"), &mut SeededRng::new(11), 200);
    block_on(async {
        let server = shared_server();
        let database = server.create_database();
        let address = server.url(&database);
        let mut target = PostgresStore::open_target(&address, &settings()).await.unwrap();
        let sql = "update tendot_counters set commits = 100000; \
                   insert into tendot_commits (number, id) select n, 'old' from generate_series(1, 100000) n";
        server.execute(&database, sql).await;
        let numbers = async || {
            let told = "select commits || ' ' || min(number) + 99999 || ' ' || max(number) || ' ' || count(*) \
                        from tendot_counters, tendot_commits group by commits";
            let told = server.query_text(&database, told).await;
            told.split(' ').map(|number| number.parse().unwrap()).collect::<Vec<u32>>()
        };
        migrate(&source, &mut target, false, |_| {}).await.unwrap();
        drop(target);
        let moved = numbers().await;
        assert!(moved[0] > 100_000, "{moved:?}");
        assert_eq!(moved, [moved[0], moved[0], moved[0], 100_000]);
        let store = open(&address).await;
        let mut importer = store.importer("importer", 1).unwrap();
        importer.put("10.7/1".into(), &[HandleValue::new(1, "URL", "x")]).unwrap();
        importer.finish(|_| {}).await.unwrap();
        let next = moved[0] + 1;
        assert_eq!(numbers().await, [next, next, next, 100_000]);
    });
}

/// Unknown prior states of stores that once had no history stay unknown.
#[test]
fn unknown_prior_states() {
    let folder = ram_dir();
    block_on(async {
        let (server, database) = server_and_database();
        let store = open(&server.url(&database)).await;
        for data in ["1", "2", "3", "4"] {
            let edits = vec![
                put("10.1/a", data, Precondition::NotTombstone),
                put("10.1/b", data, Precondition::NotTombstone),
            ];
            commit(&store, edits).await.unwrap();
        }
        let sql = "delete from tendot_history where sequence < 3; update tendot_history \
                   set name = null, revision = null, state = 2, body = null, registration = null where sequence in (3, 4)";
        server.execute(&database, sql).await;
        let expected = dump(&store).await;
        assert!(format!("{:?}", expected.histories).contains("Unknown"));
        let back = folder.path().join("back");
        migrate(&store, &mut EmbeddedStore::open_target(&back).unwrap(), false, |_| {}).await.unwrap();
        let back = EmbeddedStore::open(&back).unwrap();
        assert_same(&expected, &dump(&back).await);
        assert_eq!(back.verify(|_| {}).unwrap().damage, [""; 0]);
        let again = empty_database_url();
        let mut target = PostgresStore::open_target(&again, &settings()).await.unwrap();
        migrate(&back, &mut target, false, |_| {}).await.unwrap();
        drop(target);
        assert_same(&expected, &dump(&open(&again).await).await);
    });
}
