//! Values, URLs and lists of any size.

use super::*;

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
        // An unauthorized caller gets the authorization error, not the validation error.
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
