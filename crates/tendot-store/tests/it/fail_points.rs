//! The process ends at every named child_directory of the write path, of the import, of the move and of the restore, several times at each: what
//! was acknowledged is there whole, what was not is not there in part, and what was interrupted can be done again.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use pollster::block_on;
use tendot_proto::Value;
use tendot_store::{
    Before, Change, Edit, EditKind, Embedded, Expect, FAIL_POINTS, Importer, Key, OpenError, Order, Store,
    migrate, restore,
};

/// Set in the process that ends: where it works.
const DIRECTORY_VAR: &str = "TENDOT_FAIL_DIRECTORY";

/// How often a point is passed before the process ends there.
const MAX_HITS: u32 = 4;

/// Changes that are made, one after the other.
const CHANGE_COUNT: u64 = 6;

/// Records that are imported, in transactions of ten.
const IMPORTED_RECORDS: u32 = 35;

#[test]
fn abort_at_every_fail_point() {
    for point in FAIL_POINTS {
        let mut ended = 0;
        let passes = if point.starts_with("move") { 4 * MAX_HITS } else { MAX_HITS };
        for pass in 1..=passes {
            let directory = ram_dir();
            let (child, scenario) = match point.split(':').next().unwrap() {
                "create" | "commit" => ("child_commits", check_changes as fn(&Path, &Output)),
                "import" => ("child_imports", check_import as fn(&Path, &Output)),
                "move" => ("child_migrates", check_move as fn(&Path, &Output)),
                _ => ("child_restores", check_restore as fn(&Path, &Output)),
            };
            prepare(child, directory.path());
            let output = run(child, directory.path(), Some((point, pass)));
            let was_ended = !output.status.success();
            ended += u32::from(was_ended);
            scenario(directory.path(), &output);
        }
        assert!(ended > 0, "`{point}` was never passed");
    }
}

/// Without a point nothing ends: else the test above would see only what it does itself.
#[test]
fn completes_without_fail_point() {
    for (child, check) in
        [("child_commits", check_changes as fn(&Path, &Output)), ("child_imports", check_import), ("child_migrates", check_move)]
    {
        let directory = ram_dir();
        prepare(child, directory.path());
        let output = run(child, directory.path(), None);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        check(directory.path(), &output);
    }
}

fn run(child: &str, directory: &Path, point: Option<(&str, u32)>) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", child, "--nocapture", "--test-threads=1"]).env(DIRECTORY_VAR, directory);
    if let Some((point, pass)) = point {
        command.env("TENDOT_FAIL_POINT", point).env("TENDOT_FAIL_PASS", pass.to_string());
    }
    command.output().unwrap()
}

fn child_directory() -> Option<PathBuf> {
    std::env::var_os(DIRECTORY_VAR).map(PathBuf::from)
}

/// Says what is durable, so that whoever waits outside knows it.
fn emit(what: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "\nsaid {what}").unwrap();
    out.flush().unwrap();
}

fn emitted(output: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().filter_map(|line| line.strip_prefix("emitted ")).map(str::to_owned).collect()
}

/// What is there before the process that ends begins.
fn prepare(child: &str, directory: &Path) {
    let store = directory.join("store");
    match child {
        "child_imports" => {
            // An import that was interrupted, which the next one has to settle.
            let mut importer = Importer::open(&store, "first", 1).unwrap().together(10);
            for number in 0..IMPORTED {
                importer.put(format!("10.1/before-{number:03}").into(), &values("before")).unwrap();
            }
            let interrupted = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                importer.finish(|_| std::panic::resume_unwind(Box::new("interrupted")))
            }));
            assert!(interrupted.is_err());
        }
        "child_migrates" => {
            let source = Embedded::open(&directory.join("source")).unwrap();
            for number in 1..=CHANGE_COUNT {
                block_on(source.commit(put(&format!("name-{}", number % 3), number))).unwrap();
            }
        }
        "child_restores" => {
            for (name, to) in [("old", "store"), ("new", "other")] {
                let store = Embedded::open(&directory.join(to)).unwrap();
                block_on(store.commit(put(name, 1))).unwrap();
            }
            let mut file = File::create_new(directory.join("backup")).unwrap();
            Embedded::open_read_only(&directory.join("other")).unwrap().backup(&mut file).unwrap();
        }
        _ => {}
    }
}

fn values(data: &str) -> Vec<Value<'static>> {
    vec![Value::new(1, "URL", format!("https://example.org/{data}"))]
}

fn put(name: &str, number: u64) -> Change {
    let edit = |name: String| Edit::Put {
        name: name.into(),
        values: values(&number.to_string()),
        expect: Expect::Any,
    };
    let twin = Edit::Register {
        name: format!("10.1/{name}-twin").into(),
        values: values(&number.to_string()),
        registration: number.to_string().into_bytes().into(),
        expect: Expect::Any,
    };
    let note = Edit::PutNote { key: name.as_bytes().into(), body: number.to_string().into_bytes().into() };
    let edits = vec![edit(format!("10.1/{name}")), note, twin];
    Change { by: "somebody".into(), at: number, edits }
}

/// Not a test by itself: child_commits, one after the other.
#[test]
fn child_commits() {
    let Some(directory) = child_directory() else { return };
    let store = Embedded::open(&directory.join("store")).unwrap();
    for number in 1..=CHANGE_COUNT {
        block_on(store.commit(put(&format!("name-{}", number % 3), number))).unwrap();
        emit(&number.to_string());
    }
}

fn check_changes(directory: &Path, output: &Output) {
    let last = emitted(output).last().map_or(0, |last| last.parse::<u64>().unwrap());
    let store = Embedded::open(&directory.join("store")).unwrap();
    assert_eq!(store.verify(|_| {}).unwrap().damage, [""; 0]);
    let log = block_on(store.changes(0, 1_000)).unwrap();
    let there = log.last().map_or(0, |line| line.at);
    assert!(there == last || there == last + 1, "{last} was acknowledged, {there} is there");
    assert_eq!(log.len() as u64, 2 * there, "two lines for each change");
    for name in 0..3 {
        let newest = (1..=there).rev().find(|number| number % 3 == name);
        let expected = newest.map(|number| values(&number.to_string()));
        for name in [format!("10.1/name-{name}"), format!("10.1/name-{name}-twin")] {
            let entry = block_on(store.get(&Key::new(&name).unwrap())).unwrap();
            assert_eq!(entry.map(|entry| entry.values), expected, "{name}");
        }
        let written = newest.map(|number| number.to_string().into_bytes().into_boxed_slice());
        let note = block_on(store.note(format!("name-{name}").as_bytes())).unwrap();
        assert_eq!(note, written, "{name}");
        let twin = block_on(store.get(&Key::new(&format!("10.1/name-{name}-twin")).unwrap())).unwrap();
        assert_eq!(twin.map(|twin| twin.registration), written, "{name}");
        // Its history is that of the same child_commits, each with what the one before made.
        let name = Key::new(&format!("10.1/name-{name}-twin")).unwrap();
        let history = block_on(store.history(&name, Order::OldestFirst { after: 0 }, 100)).unwrap();
        let of_it: Vec<u64> = (1..=there)
            .filter(|number| format!("10.1/NAME-{}-TWIN", number % 3) == name.to_string())
            .collect();
        let before: Vec<_> = of_it
            .iter()
            .scan(None, |last, number| Some(last.replace(*number).map(|last| values(&last.to_string()))))
            .collect();
        let found: Vec<_> = history
            .items
            .into_iter()
            .map(|past| match past.before {
                Before::Record(entry) => Some(entry.values),
                _ => None,
            })
            .collect();
        assert_eq!(found, before, "{name}");
    }
    block_on(store.commit(put("afterwards", 1))).unwrap();
    assert!(!directory.join("store/creating").exists());
}

/// Not a test by itself: an import in several runs and several transactions.
#[test]
fn child_imports() {
    let Some(directory) = child_directory() else { return };
    import(&directory.join("store"));
    emit("imported");
}

fn import(store: &Path) {
    let mut importer = Importer::open(store, "second", 2).unwrap().together(10).buffer(1_500);
    for number in (0..IMPORTED).rev() {
        importer.put(format!("10.1/Import-{number:03}").into(), &values(&number.to_string())).unwrap();
    }
    importer.home("10.1").unwrap();
    importer.finish(|_| {}).unwrap();
}

fn check_import(directory: &Path, output: &Output) {
    let path = directory.join("store");
    let expected: BTreeMap<String, Vec<Value<'_>>> = (0..IMPORTED)
        .map(|number| (format!("10.1/Import-{number:03}"), values(&number.to_string())))
        .chain((0..10).map(|number| (format!("10.1/before-{number:03}"), values("before"))))
        .collect();
    let is_whole = emitted(output) == ["imported"];
    for again in [false, true] {
        if again {
            import(&path);
        }
        let store = Embedded::open(&path).unwrap();
        assert_eq!(store.verify(|_| {}).unwrap().damage, [""; 0]);
        let found = store.scan(None, 1_000).unwrap();
        for entry in &found {
            assert_eq!(Some(&entry.values), expected.get(&*entry.name), "{}", entry.name);
        }
        // The log has a line for all records of a run of the import, and each record is of one of them.
        let log = block_on(store.changes(0, 1_000)).unwrap();
        for line in log.iter().filter(|line| line.kind == EditKind::Import) {
            let of_it = found.iter().filter(|entry| entry.revision == line.revision).count();
            assert_eq!(of_it as u64, line.count, "revision {}", line.revision);
        }
        let logged: u64 =
            log.iter().filter(|line| line.kind == EditKind::Import).map(|line| line.count).sum();
        assert_eq!(logged, found.len() as u64);
        if is_whole || again {
            assert_eq!(found.len(), expected.len());
            assert!(block_on(store.is_homed(b"10.1")).unwrap());
            assert_eq!(log.iter().filter(|line| line.kind == EditKind::Home).count(), 1);
        }
    }
    assert!(!path.join("tendot-import-runs").exists());
}

/// Not a test by itself: a store is moved to another, and again when it has changed.
#[test]
fn child_migrates() {
    let Some(directory) = child_directory() else { return };
    move_store(&directory);
    let source = Embedded::open(&directory.join("source")).unwrap();
    block_on(source.commit(put("name-0", CHANGE_COUNT + 1))).unwrap();
    drop(source);
    move_store(&directory);
    emit("moved");
}

fn move_store(directory: &Path) {
    let source = Embedded::open_read_only(&directory.join("source")).unwrap();
    let mut target = Embedded::open_target(&directory.join("store")).unwrap();
    let moved = block_on(migrate(&source, &mut target, false, |_| {})).unwrap();
    assert_eq!(moved.differences, [""; 0]);
}

/// What is not whole is not opened; what is whole is what the source was, and the same again makes it so.
fn check_move(directory: &Path, output: &Output) {
    let log = |store: &Embedded| block_on(store.changes(0, 1_000)).unwrap();
    let source = log(&Embedded::open_read_only(&directory.join("source")).unwrap());
    match Embedded::open(&directory.join("store")) {
        Err(OpenError::Unfinished { .. }) => assert!(emitted(output).is_empty()),
        opened => {
            let there = log(&opened.unwrap()).len();
            // Nothing yet, or all of the first or of the second time.
            assert!([0, 2 * CHANGE_COUNT as usize, 2 * CHANGE_COUNT as usize + 2].contains(&there), "{there}");
        }
    }
    move_store(directory);
    let store = Embedded::open(&directory.join("store")).unwrap();
    assert_eq!(store.verify(|_| {}).unwrap().damage, [""; 0]);
    assert_eq!(log(&store), source);
    block_on(store.commit(put("afterwards", 1))).unwrap();
}

/// Not a test by itself: a backup takes the child_directory of a store.
#[test]
fn child_restores() {
    let Some(directory) = child_directory() else { return };
    let aside = replace(&directory);
    assert_eq!(aside, Some(directory.join("store/old-1")));
    emit("restored");
}

fn replace(directory: &Path) -> Option<PathBuf> {
    let mut backup = File::open(directory.join("backup")).unwrap();
    restore(&mut backup, &directory.join("store"), true).unwrap()
}

fn check_restore(directory: &Path, output: &Output) {
    let path = directory.join("store");
    let has = |path: &Path, name: &str| {
        let store = Embedded::open(path).unwrap();
        assert_eq!(store.verify(|_| {}).unwrap().damage, [""; 0]);
        ["", "-twin"]
            .map(|twin| Key::new(&format!("10.1/{name}{twin}")).unwrap())
            .map(|key| block_on(store.get(&key)).unwrap().is_some())
    };
    // Readers come first: they find a store, whichever, and settle nothing.
    drop(Embedded::open_read_only(&path).unwrap());
    let (old, new) = (has(&path, "old"), has(&path, "new"));
    assert!(
        old == [true; 2] && new == [false; 2] || old == [false; 2] && new == [true; 2],
        "{old:?} {new:?}"
    );
    if emitted(output) == ["restored"] {
        assert_eq!(new, [true; 2]);
    }
    if new == [true; 2] {
        assert_eq!(has(&path.join("old-1"), "old"), [true; 2], "the one that was replaced is aside");
    } else {
        assert!(!path.join("old-1").exists());
    }
    assert!(!path.join("restoring").exists());
    replace(directory);
    assert_eq!(has(&path, "new"), [true; 2]);
}
