//! A repeated migration copies only new history entries, regardless of the length of the history, and loses none.

use pollster::block_on;
use tendot_proto::HandleValue;
use tendot_store::{
    ChangeSet, Edit, EmbeddedImporter, EmbeddedStore, HistoryOrder, NameKey, Precondition, Store as _,
    migrate,
};
use tendot_testing::ram_dir;

/// Changes of each name before the first run.
const CHANGES: u64 = 200;

/// Names: without registration, with one that each change replaces, and with one that stays.
const NAMES: [&str; 3] = ["10.1/none", "10.1/replaced", "10.1/kept"];

fn edits(number: u64) -> Vec<Edit> {
    let edit = |name: &str| {
        let values = vec![HandleValue::new(1, "URL", format!("https://example.org/{number}"))];
        let (name, precondition): (Box<str>, _) = (name.into(), Precondition::NotTombstone);
        let registration = match &*name {
            "10.1/none" => return Edit::Put { name, values, precondition },
            "10.1/kept" => b"registration".to_vec(),
            _ => format!("registration {number}").into_bytes(),
        };
        Edit::Register { name, values, registration: registration.into(), precondition }
    };
    NAMES.map(edit).into()
}

#[test]
fn only_new_history_is_copied() {
    let directory = ram_dir();
    let source = EmbeddedStore::open(&directory.path().join("source")).unwrap();
    let target = directory.path().join("target");
    let commit = |number, edits| {
        block_on(source.commit(ChangeSet { author: "test".into(), timestamp_ms: number, edits })).unwrap();
    };
    let run = || {
        let mut target = EmbeddedStore::open_target(&target).unwrap();
        let report = block_on(migrate(&source, &mut target, false, |_| {})).unwrap();
        assert_eq!(report.differences, [""; 0]);
        report.history_entries
    };
    (0..CHANGES).for_each(|number| commit(number, edits(number)));
    assert!(run() >= 3 * CHANGES);
    for round in 1..=3 {
        let number = CHANGES + round;
        commit(number, edits(number));
        // Only of the last name, it is not known which change introduced its registration.
        assert!(run() <= CHANGES + round + 3, "round {round}");
    }
    let (key, marked) = (NameKey::new(NAMES[0]).unwrap(), CHANGES / 2);
    let remove = Edit::Remove { name: NAMES[1].into(), precondition: Precondition::Live };
    commit(1_000, vec![remove]);
    commit(1_001, edits(1_001));
    let redact = Edit::Redact {
        name: NAMES[0].into(),
        mark: HandleValue::new(1, "MARK", "redacted"),
        redacts_current: false,
        registration: Box::default(),
        prior_registration: Box::default(),
        history: vec![(3 * marked + 1, Box::default())],
    };
    commit(1_002, vec![redact]);
    run();
    let target = EmbeddedStore::open(&target).unwrap();
    assert_eq!(target.verify(|_| {}).unwrap().errors, [""; 0]);
    for name in NAMES {
        let key = NameKey::new(name).unwrap();
        let order = HistoryOrder::OldestFirst { after: 0 };
        let histories = [&source, &target].map(|store| block_on(store.history(&key, order, 1_000)).unwrap());
        assert_eq!(histories[0].entries, histories[1].entries, "{name}");
        assert_eq!(block_on(source.get(&key)).unwrap(), block_on(target.get(&key)).unwrap(), "{name}");
    }
    assert!(block_on(target.get(&key)).unwrap().is_some());
}

/// A name that is changed while the changes of an import are being copied keeps the history entry of the import.
#[test]
fn names_changed_during_the_copy_of_an_import() {
    let directory = ram_dir();
    let (source, target) = (directory.path().join("source"), directory.path().join("target"));
    let values = |data: &str| vec![HandleValue::new(1, "URL", format!("https://example.org/{data}"))];
    let commit = |store: &EmbeddedStore, edit: Edit| {
        let change = ChangeSet { author: "test".into(), timestamp_ms: 1, edits: vec![edit] };
        block_on(store.commit(change)).unwrap();
    };
    let put = |name: &str, data: &str| Edit::Put {
        name: name.into(),
        values: values(data),
        precondition: Precondition::NotTombstone,
    };
    let run = |store: &EmbeddedStore, mut edits: Vec<Edit>| {
        let mut target = EmbeddedStore::open_target(&target).unwrap();
        // The first step is the log, after the position was read and before the names of the import are listed.
        let report = migrate(store, &mut target, false, |_| {
            std::mem::take(&mut edits).into_iter().for_each(|edit| commit(store, edit));
        });
        assert_eq!(block_on(report).unwrap().differences, [""; 0]);
    };
    let store = EmbeddedStore::open(&source).unwrap();
    NAMES.iter().for_each(|name| commit(&store, put(name, "first")));
    run(&store, Vec::new());
    drop(store);
    let mut importer = EmbeddedImporter::open(&source, "importer", 2).unwrap();
    NAMES.iter().for_each(|name| importer.add((*name).into(), &values("import")).unwrap());
    importer.finish(|_| {}).unwrap();
    let store = EmbeddedStore::open(&source).unwrap();
    let removal = Edit::Remove { name: NAMES[1].into(), precondition: Precondition::Live };
    run(&store, vec![put(NAMES[0], "later"), removal]);
    run(&store, Vec::new());
    let target = EmbeddedStore::open(&target).unwrap();
    for name in NAMES {
        let order = HistoryOrder::OldestFirst { after: 0 };
        let key = NameKey::new(name).unwrap();
        let histories = [&store, &target].map(|store| block_on(store.history(&key, order, 100)).unwrap());
        assert_eq!(histories[0].entries, histories[1].entries, "{name}");
    }
}
