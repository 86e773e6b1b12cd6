//! Records without an administrator, and foreign prefixes.

use super::*;

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
