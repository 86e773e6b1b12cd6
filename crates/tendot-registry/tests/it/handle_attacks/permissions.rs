//! Permissions of values and identities.

use super::*;

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
