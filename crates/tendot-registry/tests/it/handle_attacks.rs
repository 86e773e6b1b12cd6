//! Attacks on permissions, names and records by handle operations, each with its expected response code. `registry_attacks.rs`
//! has the attacks on the registry.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tendot_proto::record::ValueList;
use tendot_proto::{Budget, Handle, HandleValue, ValuePermissions, ValueReference};
use tendot_registry::{
    Error, HandleOperation, HandleWrite, RecordLimits, Registry, RegistrySettings, ResolveQuery, WriteWarning,
};
use tendot_store::{Edit, EmbeddedStore, MemoryStore, Precondition, Store};
use tendot_testing::{block_on, ram_dir, wait_until};

use crate::fixtures::HookedStore;
use crate::fixtures::handle_fixture::*;

const ADMIN: &str = "300:10.1/a";

/// Permission to change values does not include changing administrators.
#[test]
fn attack_p1_modify_value_is_not_modify_admin() {
    let check_with = |bits, attempt: &HandleWrite<'_>, expected| {
        let registry = registry();
        put_record(
            registry.store(),
            "10.1/x",
            vec![url_value(1, "https://a/"), admin_value(100, bits, ADMIN)],
        );
        check_write(&registry, ADMIN, attempt, expected);
    };
    let full_admin = || admin_value(100, 0x0fff, ADMIN);
    check_with(0x0010, &modify("10.1/x", vec![full_admin()]), 400);
    check_with(0x0f7f, &modify("10.1/x", vec![full_admin()]), 400);
    check_with(0x0080, &modify("10.1/x", vec![full_admin()]), 1);
    check_with(0x0010, &modify("10.1/x", vec![url_value(1, "https://b/")]), 1);
    // A value becomes an administrator.
    let become_admin = || HandleValue { index: 1, ..full_admin() };
    check_with(0x0010, &modify("10.1/x", vec![become_admin()]), 400);
    check_with(0x0200, &modify("10.1/x", vec![become_admin()]), 400);
    check_with(0x0210, &modify("10.1/x", vec![become_admin()]), 1);
    // An administrator becomes a value.
    check_with(0x0010, &modify("10.1/x", vec![url_value(100, "https://b/")]), 400);
    check_with(0x0110, &forced(modify("10.1/x", vec![url_value(100, "https://b/")])), 1);
    // Other operations with this effect.
    check_with(0x0050, &add("10.1/x", true, vec![full_admin()]), 400);
    check_with(0x0080, &add("10.1/x", true, vec![full_admin()]), 1);
    check_with(0x0040, &add("10.1/x", false, vec![admin_value(101, 0x0fff, ADMIN)]), 400);
    check_with(0x0200, &add("10.1/x", false, vec![admin_value(101, 0x0fff, ADMIN)]), 1);
    check_with(
        0x0200,
        &add("10.1/x", false, vec![admin_value(101, 1, ADMIN), url_value(2, "https://b/")]),
        400,
    );
    check_with(
        0x0240,
        &add("10.1/x", false, vec![admin_value(101, 1, ADMIN), url_value(2, "https://b/")]),
        1,
    );
    check_with(0x0020, &remove("10.1/x", &[100]), 400);
    check_with(0x0100, &forced(remove("10.1/x", &[100])), 1);
    check_with(0x0100, &remove("10.1/x", &[1]), 400);
    check_with(0x0070, &overwrite("10.1/x", vec![url_value(1, "https://a/"), full_admin()]), 400);
    check_with(0x0080, &overwrite("10.1/x", vec![url_value(1, "https://a/"), full_admin()]), 1);
    check_with(0x0070, &overwrite("10.1/x", vec![url_value(2, "https://a/")]), 400);
    check_with(0x0170, &forced(overwrite("10.1/x", vec![url_value(2, "https://a/")])), 1);
    check_with(0x0200, &overwrite("10.1/x", vec![url_value(2, "https://a/"), full_admin()]), 1);
    // Deleting and creating again would have the same effect; only the prefix grants creation.
    check_with(0x0002, &overwrite("10.1/x", vec![url_value(2, "https://a/"), full_admin()]), 400);
    check_with(0x0ffd, &delete("10.1/x"), 400);
    check_with(0x0002, &delete("10.1/x"), 1);
}

/// Two values with half of the permissions each do not grant both halves.
#[test]
fn attack_p1_permissions_of_two_values_do_not_combine() {
    let registry = registry();
    let halves =
        vec![url_value(1, "https://a/"), admin_value(100, 0x0010, ADMIN), admin_value(101, 0x0200, ADMIN)];
    put_record(registry.store(), "10.1/x", halves);
    check_write(&registry, ADMIN, &modify("10.1/x", vec![admin_value(1, 1, ADMIN)]), 400);
}

/// No operation changes a read-only value, or replaces an existing value without `overwrite`.
#[test]
fn attack_p2_read_only_values() {
    let registry = registry();
    let (writable, read_only) = (note_value(1, 0x0e), note_value(2, 0x0a));
    put_record(registry.store(), "10.1/x", vec![writable, read_only, admin_value(100, 0x0fff, ADMIN)]);
    let other = |index| HandleValue::new(index, "NOTE", "y");
    check_write(&registry, ADMIN, &modify("10.1/x", vec![other(2)]), 401);
    check_write(&registry, "operator", &modify("10.1/x", vec![other(2)]), 401);
    check_write(&registry, ADMIN, &add("10.1/x", false, vec![other(2)]), 201);
    check_write(&registry, ADMIN, &add("10.1/x", true, vec![other(2)]), 401);
    check_write(&registry, ADMIN, &remove("10.1/x", &[1, 2]), 401);
    check_write(&registry, ADMIN, &overwrite("10.1/x", vec![note_value(1, 0x0e)]), 401);
    check_write(&registry, "anonymous", &modify("10.1/x", vec![other(2)]), 402);
    check_write(&registry, "300:10.1/b", &modify("10.1/x", vec![other(2)]), 400);
    check_write(&registry, ADMIN, &add("10.1/x", false, vec![other(1)]), 201);
    check_write(&registry, ADMIN, &add("10.1/x", true, vec![note_value(2, 0x0a)]), 1);
    check_write(&registry, ADMIN, &add("10.1/x", true, vec![other(1)]), 1);
    assert_eq!(stored_values(registry.store(), "10.1/x").unwrap()[1].timestamp, FIXTURE_TIMESTAMP);
}

/// Public write allows new data, not other permissions, another type or an administrator.
#[test]
fn attack_p2_public_write() {
    let registry = registry();
    put_record(registry.store(), "10.1/x", vec![note_value(1, 0x0f), admin_value(100, 0x0fff, ADMIN)]);
    let public = |value: HandleValue<'static>| HandleValue { permissions: ValuePermissions(0x0f), ..value };
    let new = || public(HandleValue::new(1, "NOTE", "y"));
    check_write(&registry, "anonymous", &modify("10.1/x", vec![new()]), 1);
    check_write(&registry, "anonymous", &remove("10.1/x", &[1]), 402);
    check_write(&registry, "anonymous", &modify("10.1/x", vec![HandleValue::new(1, "NOTE", "y")]), 402);
    check_write(&registry, "anonymous", &modify("10.1/x", vec![public(admin_value(1, 0x0fff, ADMIN))]), 402);
    check_write(
        &registry,
        "anonymous",
        &modify("10.1/x", vec![public(HandleValue::new(1, "URL", "https://e/"))]),
        402,
    );
    check_write(&registry, "anonymous", &modify("10.1/x", vec![new(), url_value(100, "https://e/")]), 402);
}

/// Index 0 in a record stands for any key of that identity; a client that names index 0 has the permissions of the key that
/// it proves, and of no other.
#[test]
fn attack_p3_index_0() {
    let attempt = |entry: &str, claimed: &str, proven: &str, prechecked: u32, expected: u32| {
        let registry = registry();
        put_record(
            registry.store(),
            "10.1/x",
            vec![url_value(1, "https://a/"), admin_value(100, 0x0fff, entry)],
        );
        let change = delete("10.1/x");
        let operation = HandleOperation::Write(change.clone());
        let claim = ValueReference::parse(claimed);
        let outcome = block_on(registry.precheck(&operation, &claim, &mut Budget::new(20_000)));
        assert_eq!(response_code(&outcome), prechecked, "{entry} {claimed}");
        check_write(&registry, proven, &change, expected);
    };
    attempt("300:10.1/a", "300:10.1/a", "300:10.1/a", 1, 1);
    attempt("300:10.1/a", "301:10.1/a", "301:10.1/a", 400, 400);
    attempt("0:10.1/a", "300:10.1/a", "300:10.1/a", 1, 1);
    attempt("0:10.1/a", "301:10.1/a", "301:10.1/a", 1, 1);
    attempt("300:10.1/a", "0:10.1/a", "300:10.1/a", 1, 1);
    attempt("300:10.1/a", "0:10.1/a", "301:10.1/a", 1, 400);
    attempt("0:10.1/a", "0:10.1/a", "7:10.1/a", 1, 1);
    attempt("0:10.1/a", "0:10.1/b", "300:10.1/b", 400, 400);
    attempt("0:10.1/a", "300:10.1/a/b", "300:10.1/a/b", 400, 400);
}

/// A reference with index 0 stands for the keys of a record, not for the groups in it.
#[test]
fn attack_p3_index_0_is_not_a_group() {
    let registry = registry();
    put_record(registry.store(), "10.1/g", vec![group_value(200, &["300:10.1/b"])]);
    put_record(registry.store(), "10.1/x", vec![admin_value(100, 0x0fff, "0:10.1/g")]);
    check_write(&registry, "300:10.1/b", &delete("10.1/x"), 400);
    // Not even if a value has index 0, which no operation can create.
    put_record(registry.store(), "10.1/g", vec![group_value(0, &["300:10.1/b"])]);
    check_write(&registry, "300:10.1/b", &delete("10.1/x"), 400);
}

#[test]
fn attack_p4_nested_groups() {
    let chain = |depth: usize| {
        let registry = registry();
        for number in 1..=depth {
            let member =
                if number == depth { "300:10.1/b".to_owned() } else { format!("200:10.1/g{}", number + 1) };
            put_record(registry.store(), &format!("10.1/g{number}"), vec![group_value(200, &[&member])]);
        }
        put_record(registry.store(), "0.NA/10.1", vec![admin_value(100, 0x0001, "200:10.1/g1")]);
        registry
    };
    for (depth, expected) in [(1, 1), (7, 1), (8, 1), (9, 400), (30, 400)] {
        check_write(&chain(depth), "300:10.1/b", &create("10.1/new", vec![]), expected);
    }
}

#[test]
fn attack_p5_cyclic_and_large_groups() {
    let check_with = |groups: Vec<(&str, HandleValue<'static>)>, expected| {
        let registry = registry();
        for (name, group) in groups {
            put_record(registry.store(), name, vec![group]);
        }
        put_record(registry.store(), "10.1/x", vec![admin_value(100, 0x0fff, "200:10.1/g")]);
        check_write(&registry, "300:10.1/b", &delete("10.1/x"), expected);
    };
    check_with(vec![("10.1/g", group_value(200, &["300:10.1/b"]))], 1);
    check_with(vec![("10.1/G", group_value(200, &["200:10.1/g", "300:10.1/b"]))], 1);
    // A cycle, and one that writes its names in another case each time.
    let cycle =
        || vec![("10.1/g", group_value(200, &["200:10.1/h"])), ("10.1/h", group_value(200, &["200:10.1/G"]))];
    check_with(cycle(), 400);
    // More members than the limit.
    let group_of_size = |count: u32| {
        let mut members: Vec<_> =
            (0..count).map(|index| ValueReference::new(index + 1, &b"10.1/c"[..])).collect();
        members.push(ValueReference::parse("300:10.1/b"));
        HandleValue::with_data(200, "HS_VLIST", ValueList { members }.to_bytes())
    };
    check_with(vec![("10.1/g", group_of_size(255))], 1);
    check_with(vec![("10.1/g", group_of_size(256))], 400);
    check_with(vec![("10.1/g", group_of_size(50_000))], 400);
    // A group of another service, though a record of that name is still in the store.
    let foreign_group =
        vec![("10.1/g", group_value(200, &["200:10.9/h"])), ("10.9/h", group_value(200, &["300:10.1/b"]))];
    check_with(foreign_group, 400);
    // Values that are not groups.
    check_with(
        vec![(
            "10.1/g",
            HandleValue { value_type: b"HS_VLIST.x"[..].into(), ..group_value(200, &["300:10.1/b"]) },
        )],
        400,
    );
    check_with(vec![("10.1/g", HandleValue::new(200, "HS_VLIST", "not one"))], 400);
    check_with(vec![("10.1/g", group_value(201, &["300:10.1/b"]))], 400);
}

/// Retired records grant nothing: a group, a prefix record, a key.
#[test]
fn attack_p5_retired_records() {
    let registry = registry();
    put_record(
        registry.store(),
        "10.1/g",
        vec![group_value(200, &["300:10.1/b"]), HandleValue::new(300, "HS_SECKEY", "x")],
    );
    put_record(registry.store(), "10.1/x", vec![admin_value(100, 0x0fff, "200:10.1/g")]);
    for retired in ["10.1/g", "0.NA/10.1"] {
        commit(registry.store(), Edit::Tombstone { name: retired.into(), precondition: Precondition::Live });
    }
    check_write(&registry, "300:10.1/b", &delete("10.1/x"), 400);
    check_write(&registry, "300:0.NA/10.1", &create("10.1/new", vec![]), 400);
    let keys = block_on(registry.key_values(Handle::from("10.1/g"), &mut Budget::new(1_000))).unwrap();
    assert_eq!(keys, []);
}

/// A group walk that exceeds the budget of a request fails.
#[test]
fn attack_p5_group_walk_exceeds_budget() {
    let registry = registry();
    put_record(registry.store(), "10.1/g", vec![group_value(200, &["300:10.1/b"])]);
    put_record(registry.store(), "10.1/x", vec![admin_value(100, 0x0fff, "200:10.1/g")]);
    for steps in 0..200 {
        let change = delete("10.1/x");
        let outcome = block_on(registry.write(&change, &caller("300:10.1/b"), NOW, &mut Budget::new(steps)));
        if outcome.is_ok() {
            assert!(steps > 40, "{steps} steps were enough");
            return;
        }
        assert!(matches!(outcome, Err(Error::BudgetExceeded(_))), "{outcome:?}");
    }
    panic!("200 steps were not enough");
}

/// Removing the last administrator, or its last permission, needs `force` and returns a warning.
#[test]
fn attack_p6_removing_the_last_admin() {
    let attempts = [
        remove("10.1/x", &[100]),
        modify("10.1/x", vec![url_value(100, "https://b/")]),
        modify("10.1/x", vec![admin_value(100, 0, ADMIN)]),
        add("10.1/x", true, vec![admin_value(100, 0xe000, ADMIN)]),
        overwrite("10.1/x", vec![url_value(1, "https://a/")]),
        overwrite("10.1/x", vec![url_value(1, "https://a/"), admin_value(100, 0, ADMIN)]),
    ];
    for change in attempts {
        let registry = registry();
        put_record(
            registry.store(),
            "10.1/x",
            vec![url_value(1, "https://a/"), admin_value(100, 0x0fff, ADMIN)],
        );
        for caller_name in [ADMIN, "operator"] {
            assert!(
                matches!(write(&registry, caller_name, &change), Err(Error::RemovesLastAdmin)),
                "{change:?}"
            );
            check_write(&registry, caller_name, &change, 401);
        }
        // Unauthorized callers do not learn what the effect would be.
        check_write(&registry, "300:10.1/b", &change, 400);
        check_write(&registry, "anonymous", &change, 402);
        let outcome = write(&registry, ADMIN, &forced(change.clone())).unwrap();
        assert_eq!(outcome.warnings, [WriteWarning::NoAdmin], "{change:?}");
        // Prefix admins can recover the record; the former administrator cannot.
        let add_admin = || add("10.1/x", true, vec![admin_value(100, 0x0fff, ADMIN)]);
        check_write(&registry, ADMIN, &add_admin(), 400);
        check_write(&registry, "300:0.NA/10.2", &add_admin(), 400);
        check_write(&registry, "300:0.NA/10.1", &add_admin(), 1);
        // With another administrator, removal needs no `force`.
        check_write(&registry, ADMIN, &add("10.1/x", false, vec![admin_value(101, 1, "300:10.1/b")]), 1);
        check_write(&registry, ADMIN, &remove("10.1/x", &[100]), 1);
    }
    // A record that never had an administrator: a warning each time.
    let registry = registry();
    let prefix_admin = "300:0.NA/10.1";
    for change in [
        create("10.1/y", vec![admin_value(100, 0, ADMIN)]),
        add("10.1/y", false, vec![url_value(1, "https://a/")]),
    ] {
        assert_eq!(write(&registry, prefix_admin, &change).unwrap().warnings, [WriteWarning::NoAdmin]);
    }
}

/// Only prefix admins can add an administrator to a record that has none.
#[test]
fn attack_p6_recovery_by_prefix_admins() {
    let registry = registry();
    put_record(registry.store(), "10.1/x", vec![url_value(1, "https://a/"), admin_value(100, 0x0fff, ADMIN)]);
    let outcome = write(&registry, ADMIN, &forced(remove("10.1/x", &[100]))).unwrap();
    assert_eq!(outcome.warnings, [WriteWarning::NoAdmin]);
    let add_admin = || add("10.1/x", false, vec![admin_value(100, 0x0fff, ADMIN)]);
    check_write(&registry, ADMIN, &add_admin(), 400);
    check_write(&registry, "300:0.NA/10.2", &add_admin(), 400);
    // Prefix admins without permission to create names cannot.
    put_record(registry.store(), "0.NA/10.1", vec![admin_value(100, 0x0ffe, "300:0.NA/10.1")]);
    check_write(&registry, "300:0.NA/10.1", &add_admin(), 400);
    put_record(registry.store(), "0.NA/10.1", vec![admin_value(100, 0x0201, "300:0.NA/10.1")]);
    check_write(&registry, "300:0.NA/10.1", &delete("10.1/x"), 400);
    check_write(&registry, "300:0.NA/10.1", &add_admin(), 1);
    // With an administrator, the prefix admins have no permission again.
    check_write(&registry, "300:0.NA/10.1", &delete("10.1/x"), 400);
    let outcome =
        write(&registry, ADMIN, &forced(overwrite("10.1/x", vec![url_value(1, "https://a/")]))).unwrap();
    assert_eq!(outcome.warnings, [WriteWarning::NoAdmin]);
    // Prefix admins cannot read hidden values.
    put_record(registry.store(), "10.1/y", vec![note_value(1, 0x0c)]);
    let query = ResolveQuery { public_only: false, ..ResolveQuery::new(Handle::from("10.1/y")) };
    assert_eq!(resolve(&registry, "300:0.NA/10.1", &query), Err(400));
}

#[test]
fn attack_p7_foreign_prefixes() {
    let registry = registry();
    let (own_admin, other_admin) = ("300:0.NA/10.1", "300:0.NA/10.2");
    check_write(&registry, other_admin, &create("10.1/new", vec![]), 400);
    check_write(&registry, other_admin, &create("0.NA/10.1234", vec![]), 400);
    check_write(&registry, other_admin, &create("0.NA/10.1.5", vec![]), 400);
    check_write(
        &registry,
        other_admin,
        &overwrite("0.NA/10.1", vec![admin_value(100, 0x0fff, other_admin)]),
        400,
    );
    check_write(&registry, other_admin, &create("10.1.5/new", vec![]), 301);
    check_write(&registry, other_admin, &HandleWrite::Home { prefix: Handle::from("10.1.5") }, 400);
    check_write(&registry, other_admin, &HandleWrite::Unhome { prefix: Handle::from("10.1") }, 400);
    // Creating names and deriving prefixes are separate permissions.
    put_record(registry.store(), "0.NA/10.1", vec![admin_value(100, 0x0ffb, own_admin)]);
    check_write(&registry, own_admin, &create("0.NA/10.1.5", vec![]), 400);
    put_record(registry.store(), "0.NA/10.1", vec![admin_value(100, 0x0004, own_admin)]);
    check_write(&registry, own_admin, &create("10.1/new", vec![]), 400);
    check_write(&registry, own_admin, &create("0.NA/10.1.5", vec![]), 1);
    // Permission to derive a prefix grants nothing under the derived prefix.
    commit(registry.store(), Edit::Home { prefix: "10.1.5".into() });
    put_record(registry.store(), "0.NA/10.1.5", vec![admin_value(100, 0x0fff, "300:0.NA/10.1.5")]);
    check_write(&registry, own_admin, &create("10.1.5/new", vec![]), 400);
    check_write(&registry, "300:0.NA/10.1.5", &create("10.1.5/new", vec![]), 1);
    // Top-level prefixes need permission of the root record.
    check_write(&registry, own_admin, &create("0.NA/30", vec![]), 400);
    put_record(registry.store(), "0.NA/0.NA", vec![admin_value(100, 0x0001, "300:0.NA/0.NA")]);
    check_write(&registry, "300:0.NA/0.NA", &create("0.NA/30", vec![]), 1);
}

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

/// Hidden values are returned only to callers that may read them; values without read permission never.
#[test]
fn attack_p10_hidden_values() {
    let registry = registry();
    let record = vec![
        url_value(1, "https://a/"),
        note_value(2, 0x0c),
        note_value(3, 0x04),
        admin_value(100, 0x0400, ADMIN),
    ];
    put_record(registry.store(), "10.1/x", record);
    let xml = "<namespace><template delimiter='@'><foreach><value/></foreach></template></namespace>";
    let prefix = vec![HandleValue::new(1, "HS_NAMESPACE", xml), admin_value(100, 0x0fff, "300:0.NA/10.1")];
    put_record(registry.store(), "0.NA/10.1", prefix);
    let name = Handle::from("10.1/x");
    let derived = Handle::from("10.1/x@y");
    for name in [name, derived] {
        for caller_name in ["anonymous", "300:10.1/b", ADMIN, "operator"] {
            for (indexes, types) in [
                (vec![], vec![]),
                (vec![1, 2, 3], vec![]),
                (vec![1], vec![&b"NOTE"[..]]),
                (vec![1], vec![b"note."]),
            ] {
                let query = ResolveQuery { indexes, types, ..ResolveQuery::new(name) };
                let returned = resolve(&registry, caller_name, &query).unwrap();
                assert!(returned.iter().all(|index| [1, 100].contains(index)), "{caller_name} {query:?}");
            }
        }
    }
    let all = |indexes: &[u32]| ResolveQuery {
        public_only: false,
        indexes: indexes.to_vec(),
        ..ResolveQuery::new(name)
    };
    assert_eq!(resolve(&registry, "anonymous", &all(&[])), Err(402));
    assert_eq!(resolve(&registry, "300:10.1/b", &all(&[])), Err(400));
    assert_eq!(resolve(&registry, "300:0.NA/10.1", &all(&[])), Err(400));
    assert_eq!(resolve(&registry, ADMIN, &all(&[])), Ok(vec![1, 2, 100]));
    assert_eq!(resolve(&registry, "operator", &all(&[])), Ok(vec![1, 2, 100]));
    assert_eq!(resolve(&registry, ADMIN, &all(&[2, 3])), Ok(vec![2]));
    for caller_name in ["anonymous", "300:10.1/b", ADMIN, "operator"] {
        assert_eq!(resolve(&registry, caller_name, &all(&[3])), Err(401), "{caller_name}");
    }
    // Referrals do not use values that are not public.
    let site = |permissions| HandleValue {
        permissions: ValuePermissions(permissions),
        ..HandleValue::new(2, "HS_SERV.PREFIX", "x")
    };
    put_record(registry.store(), "0.NA/10.2", vec![site(0x0c)]);
    assert_eq!(resolve(&registry, ADMIN, &ResolveQuery::new(Handle::from("0.NA/10.2.1"))), Err(100));
    put_record(registry.store(), "0.NA/10.2", vec![site(0x0e)]);
    assert_eq!(resolve(&registry, ADMIN, &ResolveQuery::new(Handle::from("0.NA/10.2.1"))), Err(303));
}

/// A secret cannot be guessed by writing a value and observing whether that changes the record.
#[test]
fn attack_p10_guessing_by_writing() {
    let registry = registry();
    let secret = |data: &'static str| HandleValue {
        permissions: ValuePermissions(0x0c),
        ..HandleValue::new(301, "HS_SECKEY", data)
    };
    let owner = || admin_value(100, 0x0fff, ADMIN);
    put_record(registry.store(), "10.1/x", vec![secret("right"), owner()]);
    for guess in ["right", "wrong"] {
        check_write(&registry, "300:10.1/b", &add("10.1/x", true, vec![secret(guess)]), 400);
        check_write(&registry, "300:10.1/b", &overwrite("10.1/x", vec![secret(guess), owner()]), 400);
        check_write(&registry, "anonymous", &add("10.1/x", true, vec![secret(guess)]), 402);
    }
    check_write(&registry, ADMIN, &add("10.1/x", true, vec![secret("right")]), 1);
    check_write(&registry, ADMIN, &overwrite("10.1/x", vec![secret("right"), owner()]), 1);
}

/// 64 clients create one name in 64 spellings: exactly one succeeds.
#[test]
fn attack_r1_one_name_many_spellings() {
    check_one_wins(&registry());
    let directory = ram_dir();
    check_one_wins(&with_store(EmbeddedStore::open(directory.path()).unwrap(), RegistrySettings::default()));
}

fn check_one_wins(registry: &Registry) {
    let start = std::sync::Barrier::new(64);
    let created: Vec<bool> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..64_u32)
            .map(|number| {
                let start = &start;
                scope.spawn(move || {
                    let recased = |(position, letter): (usize, char)| {
                        if number >> position & 1 == 1 { letter.to_ascii_uppercase() } else { letter }
                    };
                    let name =
                        format!("10.1/{}", "abcdef".chars().enumerate().map(recased).collect::<String>());
                    start.wait();
                    let outcome = write(registry, "300:0.NA/10.1", &create(&name, vec![]));
                    match &outcome {
                        Ok(outcome) => assert_eq!(*outcome.name, *name),
                        Err(Error::AlreadyExists { name: first }) => assert_ne!(**first, *name),
                        Err(error) => panic!("{error}"),
                    }
                    outcome.is_ok()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(created.iter().filter(|created| **created).count(), 1);
}

/// Letters that are equal only in some languages, or only by Unicode case folding, are different.
#[test]
fn attack_r2_other_letters() {
    let registry = registry();
    for suffix in ["é", "É", "k", "\u{212a}", "i", "ı", "İ", "ß", "ẞ"] {
        check_write(&registry, "operator", &create(&format!("10.1/{suffix}"), vec![]), 1);
    }
    for suffix in ["K", "I"] {
        check_write(&registry, "operator", &create(&format!("10.1/{suffix}"), vec![]), 101);
    }
}

/// The same text composed and decomposed is two names; the second gets a warning, or an error if the settings say so.
#[test]
fn attack_r3_composed_and_decomposed() {
    let registry = registry();
    let owner = || admin_value(100, 0x0fff, ADMIN);
    let warnings = |name: &str, values| write(&registry, "operator", &create(name, values)).unwrap().warnings;
    assert_eq!(warnings("10.1/\u{e9}", vec![url_value(1, "https://composed/"), owner()]), []);
    let confusable_with = |name: &str| WriteWarning::ConfusableWith { name: name.into() };
    assert_eq!(
        warnings("10.1/e\u{301}", vec![url_value(2, "https://decomposed/"), owner()]),
        [confusable_with("10.1/\u{e9}")]
    );
    // The other way round, in another ASCII case, and with a retired name.
    assert_eq!(warnings("10.1/Xe\u{301}", vec![owner()]), []);
    assert_eq!(warnings("10.1/x\u{e9}", vec![owner()]), [confusable_with("10.1/Xe\u{301}")]);
    assert_eq!(warnings("10.1/\u{f6}", vec![owner()]), []);
    commit(
        registry.store(),
        Edit::Tombstone { name: "10.1/\u{f6}".into(), precondition: Precondition::Live },
    );
    assert_eq!(warnings("10.1/o\u{308}", vec![owner()]), [confusable_with("10.1/\u{f6}")]);
    let limits = RecordLimits { allow_confusable_names: false, ..RecordLimits::default() };
    let strict = with_store(MemoryStore::new(), RegistrySettings { limits, ..RegistrySettings::default() });
    check_write(&strict, "operator", &create("10.1/\u{e9}", vec![]), 1);
    check_write(&strict, "operator", &create("10.1/e\u{301}", vec![]), 102);
    check_write(&strict, "300:0.NA/10.2", &create("10.1/e\u{301}", vec![]), 400);
    check_write(&strict, "operator", &create("10.1/a\u{301}", vec![]), 1);
    assert_eq!(
        resolve(&registry, "anonymous", &ResolveQuery::new(Handle::from("10.1/\u{e9}"))),
        Ok(vec![1, 100])
    );
    assert_eq!(
        resolve(&registry, "anonymous", &ResolveQuery::new(Handle::from("10.1/E\u{301}"))),
        Ok(vec![2, 100])
    );
}

/// Invisible characters are rejected in new names, and resolved in existing ones.
#[test]
fn attack_r4_invisible_characters() {
    let registry = registry();
    check_write(&registry, "operator", &create("10.1/a\u{200b}", vec![]), 102);
    check_write(&registry, "operator", &create("10.1/\u{202e}a", vec![]), 102);
    check_write(&registry, "operator", &create("10.1/а", vec![]), 1);
    put_record(registry.store(), "10.1/a\u{200b}", vec![url_value(1, "https://a/")]);
    assert_eq!(
        resolve(&registry, "anonymous", &ResolveQuery::new(Handle::from("10.1/a\u{200b}"))),
        Ok(vec![1])
    );
}

/// Mixed scripts are accepted with a warning.
#[test]
fn attack_r4_mixed_scripts() {
    let registry = registry();
    let warnings = |name: &str| {
        let create = create(name, vec![admin_value(100, 0x0fff, ADMIN)]);
        write(&registry, "operator", &create).unwrap().warnings
    };
    assert_eq!(warnings("10.1/p\u{430}per"), [WriteWarning::MixedScripts]);
    for name in ["10.1/paper", "10.1/дом-1", "10.1/例-paper", "10.1/Ü é"] {
        assert_eq!(warnings(name), [], "{name}");
    }
    assert_eq!(
        resolve(&registry, "anonymous", &ResolveQuery::new(Handle::from("10.1/p\u{430}per"))),
        Ok(vec![100])
    );
}

/// A list is charged for its limit before anything is read.
#[test]
fn attack_list_of_any_length() {
    let registry = registry();
    let list = |limit, steps| {
        let mut budget = Budget::new(steps);
        let prefix = Handle::from("10.1");
        response_code(&block_on(registry.list_handles(prefix, None, limit, &caller("operator"), &mut budget)))
    };
    assert_eq!(list(1_000, 2_000), 1);
    assert_eq!(list(1_000, 900), 3);
    assert_eq!(list(usize::MAX, 250_000), 3);
    let homed = |limit| {
        response_code(&block_on(registry.list_homed_prefixes(
            None,
            limit,
            &caller("operator"),
            &mut Budget::new(1_000),
        )))
    };
    assert_eq!((homed(1_000), homed(1_001), homed(usize::MAX)), (1, 3, 3));
}

#[test]
fn attack_n7_n8_names() {
    let registry = registry();
    let long_name = format!("10.1/{}", "x".repeat(2_044));
    for name in ["", "10.1", "/", "//", "/x", &long_name] {
        check_write(&registry, "operator", &create(name, vec![]), 102);
    }
    check_write(&registry, "operator", &create(&format!("10.1/{}", "/".repeat(255)), vec![]), 1);
    check_write(&registry, "operator", &create(&long_name[..2_048], vec![]), 1);
    let resolved = |name: &[u8]| resolve(&registry, "anonymous", &ResolveQuery::new(Handle::new(name)));
    for suffix in [&b"\x80"[..], b"\xc0\xaf", b"\xed\xa0\x80"] {
        let name = [b"10.1/", suffix].concat();
        let handle = Handle::new(&name);
        let values = || vec![url_value(1, "https://a/")];
        for change in [
            HandleWrite::Create {
                name: handle,
                values: values(),
                overwrite: true,
                uuid_bytes: None,
                force: false,
            },
            HandleWrite::Create {
                name: handle,
                values: values(),
                overwrite: false,
                uuid_bytes: Some([7; 16]),
                force: false,
            },
            HandleWrite::Delete { name: handle, permanent: true },
            HandleWrite::AddValues { name: handle, values: values(), overwrite: true, force: false },
            HandleWrite::ModifyValues { name: handle, values: values(), force: false },
            HandleWrite::RemoveValues { name: handle, indexes: vec![1], force: false },
            HandleWrite::Home { prefix: handle },
        ] {
            check_write(&registry, "operator", &change, 102);
        }
        assert_eq!(resolved(&name), Err(102));
    }
    assert_eq!(resolved(long_name.as_bytes()), Err(102));
    assert_eq!(resolved(b""), Err(100));
    assert_eq!(resolved(b"/"), Err(301));
}

/// Prefixes longer than a store key can be.
#[test]
fn attack_r8_long_prefixes() {
    let directory = ram_dir();
    let stored = with_store(EmbeddedStore::open(directory.path()).unwrap(), RegistrySettings::default());
    let prefixes = ["1".repeat(2_046), "1.".repeat(1_022) + "1", "0.NA/1".to_owned() + &".1".repeat(1_000)];
    for prefix in prefixes {
        let name = if prefix.contains('/') { prefix.clone() } else { format!("{prefix}/x") };
        let query = ResolveQuery::new(Handle::from(&*name));
        let expected = if prefix.contains('/') { Err(100) } else { Err(301) };
        assert_eq!(resolve(&stored, "anonymous", &query), expected);
        assert_eq!(resolve(&registry(), "anonymous", &query), expected);
        check_write(&stored, "operator", &HandleWrite::Home { prefix: Handle::from(&*prefix) }, 102);
    }
    check_write(&stored, "operator", &HandleWrite::Home { prefix: Handle::from(&*"1".repeat(255)) }, 1);
}

#[test]
fn attack_n9_n10_values() {
    let registry = registry();
    put_record(
        registry.store(),
        "10.1/x",
        (1..=2_048).map(|index| HandleValue::new(index, "X", "")).collect(),
    );
    let values = |count| (1..=count).map(|index| HandleValue::new(index, "X", "")).collect();
    check_write(&registry, "operator", &create("10.1/new", values(2_049)), 202);
    check_write(&registry, "operator", &add("10.1/x", false, vec![HandleValue::new(3_000, "X", "")]), 202);
    let large = |length| vec![HandleValue::new(1, "X", "x".repeat(length))];
    check_write(&registry, "operator", &create("10.1/new", large((1 << 20) + 1)), 202);
    check_write(&registry, "operator", &create("10.1/new", large(262_144)), 202);
    let duplicate_index = || vec![url_value(1, "https://a/"), url_value(1, "https://b/")];
    check_write(&registry, "operator", &create("10.1/new", duplicate_index()), 201);
    check_write(&registry, "operator", &add("10.1/x", true, duplicate_index()), 201);
    check_write(&registry, "operator", &modify("10.1/x", duplicate_index()), 201);
    for index in [0, 1 << 31, u32::MAX] {
        check_write(&registry, "operator", &create("10.1/new", vec![url_value(index, "https://a/")]), 202);
    }
    check_write(&registry, "operator", &add("10.1/x", false, vec![]), 202);
    check_write(&registry, "operator", &modify("10.1/x", vec![]), 202);
    check_write(&registry, "operator", &remove("10.1/x", &[]), 202);
    check_write(&registry, "operator", &create("10.1/new", values(2_048)), 1);
}

/// A query with many indexes for a record with many values exceeds the budget.
#[test]
fn attack_n9_expensive_query() {
    let registry = registry();
    put_record(
        registry.store(),
        "10.1/x",
        (1..=2_048).map(|index| HandleValue::new(index, "X", "")).collect(),
    );
    let query =
        ResolveQuery { indexes: (10_000..60_000).collect(), ..ResolveQuery::new(Handle::from("10.1/x")) };
    assert_eq!(resolve(&registry, "anonymous", &query), Err(3));
    let query = ResolveQuery { indexes: (2_000..2_050).collect(), ..query };
    assert_eq!(resolve(&registry, "anonymous", &query).map(|values| values.len()), Ok(49));
}

#[test]
fn attack_h1_h2_d8_urls() {
    let registry = registry();
    put_record(
        registry.store(),
        "10.1/x",
        vec![url_value(1, "relative/but/old"), url_value(2, "https://a/")],
    );
    for url in [
        "https://x/\r\nSet-Cookie:a=1",
        "https://x/\0",
        "javascript:alert(1)",
        "data:text/html,x",
        "vbscript:x",
        "file:///etc/passwd",
        " java\tscript:alert(1)",
        "/relative",
        "//example.org/",
        "https://user:password@example.org/",
        "https://\u{430}pple.example/",
        "https://xn--pple-43d.example/",
        "https://xn--80ak6aa92e.com/",
    ] {
        check_write(&registry, "operator", &create("10.1/new", vec![url_value(1, url)]), 202);
        check_write(&registry, "operator", &add("10.1/x", false, vec![url_value(3, url)]), 202);
        check_write(&registry, "operator", &add("10.1/x", true, vec![url_value(2, url)]), 202);
        check_write(&registry, "operator", &modify("10.1/x", vec![url_value(2, url)]), 202);
        check_write(&registry, "operator", &overwrite("10.1/x", vec![url_value(2, url)]), 202);
        // Unauthorized callers do not learn what is invalid.
        check_write(&registry, "anonymous", &create("10.1/new", vec![url_value(1, url)]), 402);
        check_write(&registry, "300:0.NA/10.2", &create("10.1/new", vec![url_value(1, url)]), 400);
    }
    // Existing invalid values do not prevent other changes.
    let unchanged = vec![url_value(1, "relative/but/old"), url_value(2, "https://b/")];
    check_write(&registry, "operator", &overwrite("10.1/x", unchanged), 1);
    check_write(
        &registry,
        "operator",
        &add("10.1/x", true, vec![url_value(1, "relative/but/old"), url_value(3, "https://c/")]),
        1,
    );
}
