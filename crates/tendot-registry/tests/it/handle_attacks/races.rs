//! Changes between the plan of a write and its commit.

use super::*;

/// A fixture with the record `10.1/x`, in a store that commits one of the edits before each commit of the registry.
fn hooked_registry(fill_more: impl Fn(&MemoryStore), edits: Vec<Edit>) -> (Registry, HookedStore) {
    let memory = MemoryStore::new();
    fill(&memory);
    put_record(&memory, "10.1/x", vec![url_value(1, "https://a/"), admin_value(100, 0x0fff, ADMIN)]);
    fill_more(&memory);
    let store = HookedStore::new(memory);
    for edit in edits {
        store.before_commit(move |store| commit(store, edit));
    }
    (Registry::new(store.clone(), RegistrySettings::default()), store)
}

/// A permission that is revoked between plan and commit is not used.
#[test]
fn attack_p9_permission_revoked_before_commit() {
    let put = |values| Edit::Put { name: "10.1/x".into(), values, precondition: Precondition::NotTombstone };
    let revoked = || put(vec![url_value(1, "https://b/"), admin_value(100, 0x0fff, "300:10.1/b")]);
    for change in [
        modify("10.1/x", vec![url_value(1, "https://e/")]),
        add("10.1/x", false, vec![url_value(2, "https://e/")]),
        remove("10.1/x", &[1]),
        forced(overwrite("10.1/x", vec![url_value(1, "https://e/")])),
        delete("10.1/x"),
    ] {
        let (registry, store) = hooked_registry(|_| (), vec![revoked()]);
        assert_eq!(response_code(&write(&registry, ADMIN, &change)), 400, "{change:?}");
        assert_eq!(store.commit_calls(), 1);
        assert_eq!(&*stored_values(registry.store(), "10.1/x").unwrap()[0].data, b"https://b/");
    }
    // A concurrent change is not lost.
    let other =
        put(vec![url_value(1, "https://a/"), url_value(3, "https://c/"), admin_value(100, 0x0fff, ADMIN)]);
    let (registry, _) = hooked_registry(|_| (), vec![other]);
    assert_eq!(
        response_code(&write(&registry, ADMIN, &modify("10.1/x", vec![url_value(1, "https://b/")]))),
        1
    );
    let data: Vec<_> =
        stored_values(registry.store(), "10.1/x").unwrap().iter().map(|value| value.index).collect();
    assert_eq!(data, [1, 3, 100]);
    // A name that was created concurrently.
    let created = Edit::Put { name: "10.1/NEW".into(), values: vec![], precondition: Precondition::Absent };
    let (registry, _) = hooked_registry(|_| (), vec![created]);
    assert_eq!(response_code(&write(&registry, "300:0.NA/10.1", &create("10.1/new", vec![]))), 101);
}

/// Permission by a group, a prefix record or a homed prefix counts as it is at commit.
#[test]
fn attack_p9_permission_source_changed_before_commit() {
    let put = |name: &str, values| Edit::Put {
        name: name.into(),
        values,
        precondition: Precondition::NotTombstone,
    };
    let tombstone = |name: &str| Edit::Tombstone { name: name.into(), precondition: Precondition::Live };
    let remove_record = |name: &str| Edit::Remove { name: name.into(), precondition: Precondition::Live };
    let unhome = |prefix: &str| Edit::Unhome { prefix: prefix.into() };
    let member = "300:10.1/b";
    // The group `10.2/g` administers the prefix 10.1 and the record `10.1/x`, and `10.2/h` is in it.
    let fixture = |before: Vec<Edit>| {
        let add_group = |store: &MemoryStore| {
            put_record(store, "0.NA/10.1", vec![admin_value(100, 0x0fff, "200:10.2/g")]);
            let values = vec![url_value(1, "https://a/"), admin_value(100, 0x0fff, "200:10.2/g")];
            put_record(store, "10.1/x", values);
            put_record(store, "10.1/orphan", vec![url_value(1, "https://a/")]);
            put_record(store, "10.2/g", vec![group_value(200, &["200:10.2/h"])]);
            put_record(store, "10.2/h", vec![group_value(200, &[member])]);
        };
        hooked_registry(add_group, before)
    };
    let attempt = |caller_name, change: &HandleWrite<'_>, before: &Edit, expected| {
        assert_eq!(response_code(&write(&fixture(vec![]).0, caller_name, change)), 1, "{change:?}");
        let (registry, store) = fixture(vec![before.clone()]);
        assert_eq!(response_code(&write(&registry, caller_name, change)), expected, "{change:?} {before:?}");
        assert_eq!(store.commit_calls(), 1);
        let log: Vec<_> = block_on(registry.store().read_log(0, 100)).unwrap();
        assert!(log.iter().all(|line| &*line.author == "test"), "{change:?} {before:?}");
    };
    let by_prefix = [
        create("10.1/new", vec![]),
        create("0.NA/10.1.5", vec![]),
        modify("10.1/orphan", vec![url_value(1, "https://e/")]),
    ];
    for change in &by_prefix {
        attempt(member, change, &put("0.NA/10.1", vec![admin_value(100, 0x0fff, "300:0.NA/10.1")]), 400);
        attempt(member, change, &put("0.NA/10.1", vec![admin_value(100, 0x0800, "200:10.2/g")]), 400);
        attempt(member, change, &remove_record("0.NA/10.1"), 400);
        attempt(member, change, &tombstone("0.NA/10.1"), 400);
    }
    let by_group = [
        delete("10.1/x"),
        modify("10.1/x", vec![url_value(1, "https://e/")]),
        add("10.1/x", false, vec![url_value(2, "https://e/")]),
        remove("10.1/x", &[1]),
        overwrite("10.1/x", vec![url_value(1, "https://e/"), admin_value(100, 0x0fff, "200:10.2/g")]),
    ];
    for change in by_group.iter().chain(&by_prefix) {
        attempt(member, change, &put("10.2/h", vec![]), 400);
        attempt(member, change, &put("10.2/g", vec![group_value(200, &["300:10.1/c"])]), 400);
        attempt(member, change, &remove_record("10.2/h"), 400);
        attempt(member, change, &tombstone("10.2/g"), 400);
        attempt(member, change, &unhome("10.2"), 400);
    }
    // No caller writes names for which the service is no longer responsible.
    for change in by_group.iter().chain([&by_prefix[0], &by_prefix[2]]) {
        attempt(member, change, &unhome("10.1"), 301);
        attempt("operator", change, &unhome("10.1"), 301);
    }
    attempt(member, &by_prefix[0], &unhome("0.NA"), 400);
    // Planned again, not rejected: the change still grants the permission, or is unrelated.
    for (before, commits) in [
        (put("10.2/g", vec![group_value(200, &[member])]), 2),
        (put("0.NA/10.1", vec![admin_value(100, 0x0001, member)]), 2),
        (put("10.2/other", vec![]), 1),
        (put("10.1/x", vec![]), 1),
        (unhome("10.9"), 1),
    ] {
        let (registry, store) = fixture(vec![before.clone()]);
        assert_eq!(response_code(&write(&registry, member, &by_prefix[0])), 1, "{before:?}");
        assert_eq!(store.commit_calls(), commits, "{before:?}");
    }
}

/// A permission is granted and revoked while others use it, in the embedded store: every write in the log was allowed at its
/// position.
#[test]
fn attack_p9_concurrent_grant_and_revoke() {
    let directory = ram_dir();
    let registry = with_store(EmbeddedStore::open(directory.path()).unwrap(), RegistrySettings::default());
    let prefix = |bits| Edit::Put {
        name: "0.NA/10.1".into(),
        values: vec![admin_value(100, bits, "300:10.1/b")],
        precondition: Precondition::NotTombstone,
    };
    commit(registry.store(), prefix(0));
    let (is_finished, created) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let writers = [0, 1, 2, 3].map(|thread| {
            let (registry, is_finished, created) = (&registry, &is_finished, &created);
            scope.spawn(move || {
                for number in 0.. {
                    if is_finished.load(Ordering::Relaxed) {
                        break;
                    }
                    let name = format!("10.1/{thread}-{number}");
                    let outcome = write(registry, "300:10.1/b", &create(&name, vec![]));
                    assert!([1, 3, 400].contains(&response_code(&outcome)), "{outcome:?}");
                    created.fetch_add(usize::from(outcome.is_ok()), Ordering::Relaxed);
                }
            })
        });
        for number in 0..60 {
            let before = created.load(Ordering::Relaxed);
            commit(registry.store(), prefix(number % 2));
            if number % 2 == 1 {
                // Each of the four threads may count one name that it created under the previous grant.
                wait_until("the permission is used", || created.load(Ordering::Relaxed) > before + 4);
            }
        }
        is_finished.store(true, Ordering::Relaxed);
        // A scope does not wait for thread-local destructors: see `EmbeddedStore`.
        writers.into_iter().for_each(|writer| writer.join().unwrap());
    });
    let (mut changes, mut written, mut is_granted) = (0, 0, false);
    for line in block_on(registry.store().read_log(0, 1_000_000)).unwrap() {
        if &*line.name == "0.NA/10.1" {
            // The first change is from the fixture, the second revokes; then revoked and granted alternate.
            changes += 1;
            is_granted = changes > 2 && changes % 2 == 0;
        } else if &*line.author == "300:10.1/b" {
            written += 1;
            assert!(is_granted, "{line:?} after {changes} changes");
        }
    }
    assert_eq!(changes, 62);
    assert!(written >= 30, "at least one write per grant");
}

/// A write that conflicts each time gives up after eight attempts.
#[test]
fn attack_p9_retries_are_bounded() {
    let edit = |number: u32| {
        let values = vec![HandleValue::new(number, "X", ""), admin_value(100, 0x0fff, ADMIN)];
        Edit::Put { name: "10.1/x".into(), values, precondition: Precondition::NotTombstone }
    };
    let (registry, store) = hooked_registry(|_| (), (200..300).map(edit).collect());
    let outcome = write(&registry, ADMIN, &add("10.1/x", false, vec![url_value(2, "https://b/")]));
    assert!(matches!(outcome, Err(Error::WriteConflict { attempts: 8 })), "{outcome:?}");
    assert_eq!(store.commit_calls(), 8);
}
