//! Aborts at every fail point of commit, import, migration and restore: every acknowledged change is durable, none is stored in
//! part, and the interrupted operation can be repeated.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::Mutex;

use pollster::block_on;
use tendot_proto::HandleValue;
use tendot_store::{
    ChangeSet, Edit, EditKind, EmbeddedImporter, EmbeddedStore, FAIL_POINTS, HistoryOrder, NameKey,
    OpenError, Precondition, PriorState, Store, migrate, restore,
};
use tendot_testing::{child_test, emit, emitted_lines, ram_dir};

use crate::import::scan;

/// Set in child processes: their directory.
const DIRECTORY_VAR: &str = "TENDOT_TEST_FAIL_DIRECTORY";

/// The process aborts when it reaches the point for the first, second, … time, up to this one.
const MAX_HITS: u32 = 4;

/// Change sets that are committed one after the other.
const CHANGE_COUNT: u64 = 6;

/// Records that are imported, in transactions of ten.
const IMPORTED_RECORDS: u32 = 35;

/// The child test that reaches a fail point, and the check of the store afterwards.
fn scenario(point: &str) -> (&'static str, fn(&Path, &Output)) {
    match point.split('-').next().unwrap() {
        "create" | "commit" => ("child_commits", check_commits),
        "import" => ("child_imports", check_import),
        "migrate" => ("child_migrates", check_migration),
        _ => ("child_restores", check_restore),
    }
}

#[test]
fn abort_at_every_fail_point() {
    // In parallel, because most of the time is spent on starting processes.
    let points = Mutex::new(FAIL_POINTS.iter());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let Some(point) = points.lock().unwrap().next() else { break };
                    abort_at(point);
                }
            });
        }
    });
}

fn abort_at(point: &str) {
    let (child, check) = scenario(point);
    let hits = if child == "child_migrates" { 4 * MAX_HITS } else { MAX_HITS };
    let mut aborted = 0;
    for hit in 1..=hits {
        let directory = ram_dir();
        prepare(child, directory.path());
        let output = run(child, directory.path(), Some((point, hit)));
        aborted += u32::from(!output.status.success());
        check(directory.path(), &output);
    }
    assert!(aborted > 0, "`{point}` was never reached");
}

/// Control: without a fail point the children succeed.
#[test]
fn completes_without_fail_point() {
    for point in ["commit", "import", "migrate"] {
        let (child, check) = scenario(point);
        let directory = ram_dir();
        prepare(child, directory.path());
        let output = run(child, directory.path(), None);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        check(directory.path(), &output);
    }
}

fn run(child: &str, directory: &Path, point: Option<(&str, u32)>) -> Output {
    let mut command = child_test(&format!("fail_points::{child}"));
    command.env(DIRECTORY_VAR, directory);
    if let Some((point, hit)) = point {
        command.env("TENDOT_FAIL_POINT", point).env("TENDOT_FAIL_HIT", hit.to_string());
    }
    command.output().unwrap()
}

fn child_directory() -> Option<PathBuf> {
    std::env::var_os(DIRECTORY_VAR).map(PathBuf::from)
}

/// The changes that a child reported as durable.
fn emitted(output: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stdout);
    emitted_lines(&text).filter_map(|line| line.strip_prefix("durable ")).map(str::to_owned).collect()
}

/// Creates the files that the child needs.
fn prepare(child: &str, directory: &Path) {
    let store = directory.join("store");
    match child {
        "child_imports" => {
            // An interrupted import, which the next one has to recover.
            let mut importer =
                EmbeddedImporter::open(&store, "first", 1).unwrap().records_per_transaction(10);
            for number in 0..IMPORTED_RECORDS {
                importer.add(format!("10.1/before-{number:03}").into(), &values("before")).unwrap();
            }
            let interrupted = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                importer.finish(|_| std::panic::resume_unwind(Box::new("interrupted")))
            }));
            assert!(interrupted.is_err());
        }
        "child_migrates" => {
            let source = EmbeddedStore::open(&directory.join("source")).unwrap();
            for number in 1..=CHANGE_COUNT {
                block_on(source.commit(put(&format!("name-{}", number % 3), number))).unwrap();
            }
        }
        "child_restores" => {
            for (name, directory_name) in [("old", "store"), ("new", "other")] {
                let store = EmbeddedStore::open(&directory.join(directory_name)).unwrap();
                block_on(store.commit(put(name, 1))).unwrap();
            }
            let mut file = File::create_new(directory.join("backup")).unwrap();
            EmbeddedStore::open_read_only(&directory.join("other")).unwrap().backup(&mut file).unwrap();
        }
        _ => {}
    }
}

fn values(data: &str) -> Vec<HandleValue<'static>> {
    vec![HandleValue::new(1, "URL", format!("https://example.org/{data}"))]
}

fn put(name: &str, number: u64) -> ChangeSet {
    let edit = |name: String| Edit::Put {
        name: name.into(),
        values: values(&number.to_string()),
        precondition: Precondition::NotTombstone,
    };
    let twin = Edit::Register {
        name: format!("10.1/{name}-twin").into(),
        values: values(&number.to_string()),
        registration: number.to_string().into_bytes().into(),
        precondition: Precondition::NotTombstone,
    };
    let aux = Edit::PutAux { key: name.as_bytes().into(), value: number.to_string().into_bytes().into() };
    let edits = vec![edit(format!("10.1/{name}")), aux, twin];
    ChangeSet { author: "tester".into(), timestamp_ms: number, edits }
}

/// Child process: commits change sets one after the other.
#[test]
fn child_commits() {
    let Some(directory) = child_directory() else { return };
    let store = EmbeddedStore::open(&directory.join("store")).unwrap();
    for number in 1..=CHANGE_COUNT {
        block_on(store.commit(put(&format!("name-{}", number % 3), number))).unwrap();
        emit(&format!("durable {number}"));
    }
}

fn check_commits(directory: &Path, output: &Output) {
    let last = emitted(output).last().map_or(0, |last| last.parse::<u64>().unwrap());
    let store = EmbeddedStore::open(&directory.join("store")).unwrap();
    assert_eq!(store.verify(|_| {}).unwrap().errors, [""; 0]);
    let log = block_on(store.read_log(0, 1_000)).unwrap();
    let stored = log.last().map_or(0, |log_entry| log_entry.timestamp_ms);
    assert!(stored == last || stored == last + 1, "{last} was acknowledged, {stored} is stored");
    assert_eq!(log.len() as u64, 2 * stored, "two log entries for each change set");
    for name in 0..3 {
        let newest = (1..=stored).rev().find(|number| number % 3 == name);
        let expected = newest.map(|number| values(&number.to_string()));
        for name in [format!("10.1/name-{name}"), format!("10.1/name-{name}-twin")] {
            let entry = block_on(store.get(&NameKey::new(&name).unwrap())).unwrap();
            assert_eq!(entry.map(|entry| entry.values), expected, "{name}");
        }
        let written = newest.map(|number| number.to_string().into_bytes().into_boxed_slice());
        let aux = block_on(store.get_aux(format!("name-{name}").as_bytes())).unwrap();
        assert_eq!(aux, written, "{name}");
        let twin = block_on(store.get(&NameKey::new(&format!("10.1/name-{name}-twin")).unwrap())).unwrap();
        assert_eq!(twin.map(|twin| twin.registration), written, "{name}");
        // The history has the same changes, each with the result of the one before as prior state.
        let name = NameKey::new(&format!("10.1/name-{name}-twin")).unwrap();
        let history = block_on(store.history(&name, HistoryOrder::OldestFirst { after: 0 }, 100)).unwrap();
        let changes: Vec<u64> = (1..=stored)
            .filter(|number| format!("10.1/NAME-{}-TWIN", number % 3) == name.to_string())
            .collect();
        let expected: Vec<_> = changes
            .iter()
            .scan(None, |last, number| Some(last.replace(*number).map(|last| values(&last.to_string()))))
            .collect();
        let found: Vec<_> = history
            .entries
            .into_iter()
            .map(|history_entry| match history_entry.prior {
                PriorState::Record(entry) => Some(entry.values),
                _ => None,
            })
            .collect();
        assert_eq!(found, expected, "{name}");
    }
    block_on(store.commit(put("afterwards", 1))).unwrap();
    assert!(!directory.join("store/creating").exists());
}

/// Child process: imports in several sorted runs and several transactions.
#[test]
fn child_imports() {
    let Some(directory) = child_directory() else { return };
    import(&directory.join("store"));
    emit("durable import");
}

fn import(store: &Path) {
    let mut importer =
        EmbeddedImporter::open(store, "second", 2).unwrap().records_per_transaction(10).buffer_bytes(1_500);
    for number in (0..IMPORTED_RECORDS).rev() {
        importer.add(format!("10.1/Import-{number:03}").into(), &values(&number.to_string())).unwrap();
    }
    importer.home_prefix("10.1").unwrap();
    importer.finish(|_| {}).unwrap();
}

fn check_import(directory: &Path, output: &Output) {
    let path = directory.join("store");
    let expected: BTreeMap<String, Vec<HandleValue<'_>>> = (0..IMPORTED_RECORDS)
        .map(|number| (format!("10.1/Import-{number:03}"), values(&number.to_string())))
        .chain((0..10).map(|number| (format!("10.1/before-{number:03}"), values("before"))))
        .collect();
    let is_complete = emitted(output) == ["import"];
    for is_repeated in [false, true] {
        if is_repeated {
            import(&path);
        }
        let store = EmbeddedStore::open(&path).unwrap();
        assert_eq!(store.verify(|_| {}).unwrap().errors, [""; 0]);
        let found = scan(&store);
        for entry in &found {
            assert_eq!(Some(&entry.values), expected.get(&*entry.name), "{}", entry.name);
        }
        // Every imported record belongs to one log entry, which counts them.
        let log = block_on(store.read_log(0, 1_000)).unwrap();
        for log_entry in log.iter().filter(|log_entry| log_entry.kind == EditKind::Import) {
            let count = found.iter().filter(|record| record.revision == log_entry.revision).count();
            assert_eq!(count as u64, log_entry.record_count, "revision {}", log_entry.revision);
        }
        let logged: u64 = log
            .iter()
            .filter(|log_entry| log_entry.kind == EditKind::Import)
            .map(|log_entry| log_entry.record_count)
            .sum();
        assert_eq!(logged, found.len() as u64);
        if is_complete || is_repeated {
            assert_eq!(found.len(), expected.len());
            assert!(block_on(store.is_homed(b"10.1")).unwrap());
            assert_eq!(log.iter().filter(|log_entry| log_entry.kind == EditKind::Home).count(), 1);
        }
    }
    assert!(!path.join("import-runs").exists());
}

/// Child process: migrates a store, and once more after a change.
#[test]
fn child_migrates() {
    let Some(directory) = child_directory() else { return };
    migrate_store(&directory);
    let source = EmbeddedStore::open(&directory.join("source")).unwrap();
    block_on(source.commit(put("name-0", CHANGE_COUNT + 1))).unwrap();
    drop(source);
    migrate_store(&directory);
    emit("durable migration");
}

fn migrate_store(directory: &Path) {
    let source = EmbeddedStore::open_read_only(&directory.join("source")).unwrap();
    let mut target = EmbeddedStore::open_target(&directory.join("store")).unwrap();
    let report = block_on(migrate(&source, &mut target, false, |_| {})).unwrap();
    assert_eq!(report.differences, [""; 0]);
}

/// An incomplete target cannot be opened; a complete one equals the source; repeating the migration completes it.
fn check_migration(directory: &Path, output: &Output) {
    let log = |store: &EmbeddedStore| block_on(store.read_log(0, 1_000)).unwrap();
    let source = log(&EmbeddedStore::open_read_only(&directory.join("source")).unwrap());
    match EmbeddedStore::open(&directory.join("store")) {
        Err(OpenError::IncompleteMigration { .. }) => assert!(emitted(output).is_empty()),
        opened => {
            let stored = log(&opened.unwrap()).len();
            // Empty, or the complete result of the first or the second migration.
            assert!(
                [0, 2 * CHANGE_COUNT as usize, 2 * CHANGE_COUNT as usize + 2].contains(&stored),
                "{stored}"
            );
        }
    }
    migrate_store(directory);
    let store = EmbeddedStore::open(&directory.join("store")).unwrap();
    assert_eq!(store.verify(|_| {}).unwrap().errors, [""; 0]);
    assert_eq!(log(&store), source);
    block_on(store.commit(put("afterwards", 1))).unwrap();
}

/// Child process: replaces a store by a backup.
#[test]
fn child_restores() {
    let Some(directory) = child_directory() else { return };
    let replaced = replace(&directory);
    assert_eq!(replaced, Some(directory.join("store/old-1")));
    emit("durable restore");
}

fn replace(directory: &Path) -> Option<PathBuf> {
    let mut backup = File::open(directory.join("backup")).unwrap();
    restore(&mut backup, &directory.join("store"), true).unwrap()
}

fn check_restore(directory: &Path, output: &Output) {
    let path = directory.join("store");
    let has_record = |path: &Path, name: &str| {
        let store = EmbeddedStore::open(path).unwrap();
        assert_eq!(store.verify(|_| {}).unwrap().errors, [""; 0]);
        ["", "-twin"]
            .map(|twin| NameKey::new(&format!("10.1/{name}{twin}")).unwrap())
            .map(|key| block_on(store.get(&key)).unwrap().is_some())
    };
    // Readers open one of the stores and recover nothing.
    drop(EmbeddedStore::open_read_only(&path).unwrap());
    let (old, new) = (has_record(&path, "old"), has_record(&path, "new"));
    assert!(
        old == [true; 2] && new == [false; 2] || old == [false; 2] && new == [true; 2],
        "{old:?} {new:?}"
    );
    if emitted(output) == ["restore"] {
        assert_eq!(new, [true; 2]);
    }
    if new == [true; 2] {
        assert_eq!(has_record(&path.join("old-1"), "old"), [true; 2], "the replaced store still exists");
    } else {
        assert!(!path.join("old-1").exists());
    }
    assert!(!path.join("restoring").exists());
    replace(directory);
    assert_eq!(has_record(&path, "new"), [true; 2]);
}
