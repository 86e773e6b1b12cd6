//! Lists, counts and reverse lookup.

use super::*;

store_tests!(memory, embedded, postgres => { lists_and_counts, reverse_lookup, records_outside_the_partition });

fn lists_and_counts(kind: StoreKind) {
    let settings = RegistrySettings {
        server_admins: vec![ValueReference::parse("300:10.1/server")],
        ..RegistrySettings::default()
    };
    let registry = fixture(kind, settings);
    for name in ["10.1/b", "10.1/A", "10.1/c", "10.2/x", "0.NA/10.1.2", "0.NA/10.1.2.3", "0.NA/10.11"] {
        put_record(registry.store(), name, vec![]);
    }
    commit(registry.store(), Edit::Tombstone { name: "10.1/b".into(), precondition: Precondition::Live });
    let count = |caller_name: &str, prefix: &str, limit| {
        let (mut total, mut after): (u64, Option<Box<str>>) = (0, None);
        loop {
            let (caller, mut budget) = (caller(caller_name), Budget::new(1_000));
            let counted =
                registry.count_handles(Handle::from(prefix), after.as_deref(), limit, &caller, &mut budget);
            let page = block_on(counted).unwrap();
            total += page.names;
            after = page.next;
            if after.is_none() {
                return total;
            }
        }
    };
    let list = |caller_name: &str, prefix: &str, limit| -> Result<String, u32> {
        let (mut names, mut after): (Vec<Box<str>>, Option<Box<str>>) = (Vec::new(), None);
        loop {
            let (caller, mut budget) = (caller(caller_name), Budget::new(1_000));
            let listed =
                registry.list_handles(Handle::from(prefix), after.as_deref(), limit, &caller, &mut budget);
            let page = block_on(listed).map_err(|error| error.response_code().0)?;
            names.extend(page.items);
            after = page.next;
            if after.is_none() {
                assert_eq!(
                    count(caller_name, prefix, limit),
                    names.len() as u64,
                    "{caller_name} {prefix} {limit}"
                );
                return Ok(names.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "));
            }
        }
    };
    for limit in [1, 2, 3, 100] {
        for prefix in ["10.1", "0.NA/10.1", "0.na/10.1"] {
            assert_eq!(list(PREFIX_ADMIN, prefix, limit), Ok("10.1/A 10.1/c".into()));
        }
        assert_eq!(list("operator", "0.NA/0.NA/10.1", limit), Ok("0.NA/10.1.2 0.NA/10.1.2.3".into()));
        assert_eq!(list("operator", "0.NA/0.NA/10.2", limit), Ok(String::new()));
    }
    assert_eq!(list("300:10.1/server", "10.2", 10), Ok("10.2/x".into()));
    assert_eq!(list(PREFIX_ADMIN, "10.2", 10), Err(400));
    assert_eq!(list("anonymous", "10.1", 10), Err(402));
    assert_eq!(list(PREFIX_ADMIN, "10.9", 10), Err(301));
    assert_eq!(list(PREFIX_ADMIN, "10.1/A", 10), Err(301));
    // Counting needs the same permissions as listing.
    for (caller_name, prefix, expected) in
        [(PREFIX_ADMIN, "10.2", 400), ("anonymous", "10.1", 402), (PREFIX_ADMIN, "10.9", 301)]
    {
        let (caller, mut budget) = (caller(caller_name), Budget::new(1_000));
        let counted = block_on(registry.count_handles(Handle::from(prefix), None, 9, &caller, &mut budget));
        assert_eq!(counted.map_err(|error| error.response_code().0), Err(expected), "{caller_name} {prefix}");
    }
    let without_listing =
        fixture(kind, RegistrySettings { allow_listing: false, ..RegistrySettings::default() });
    let listed = block_on(without_listing.list_handles(
        Handle::from("10.1"),
        None,
        9,
        &caller("operator"),
        &mut Budget::new(100),
    ));
    assert_eq!(response_code(&listed), 5);
}

/// Reverse lookup finds records by their public values, in as many requests as its budget needs.
fn reverse_lookup(kind: StoreKind) {
    let settings = RegistrySettings {
        server_admins: vec![ValueReference::parse("300:10.1/server")],
        reverse_lookup_users: vec![
            ValueReference::parse("301:10.1/finder"),
            ValueReference::parse("0:10.1/any"),
        ],
        home_only_admins: vec![ValueReference::parse("300:10.1/homes")],
        ..RegistrySettings::default()
    };
    let registry = fixture(kind, settings);
    let typed = |index, value_type, data| HandleValue::new(index, value_type, data);
    let hidden = HandleValue { permissions: ValuePermissions(0x0c), ..url_value(2, "https://hidden/") };
    put_record(
        registry.store(),
        "10.1/One",
        vec![url_value(1, "https://a/1"), typed(2, "SUM", "1"), typed(3, "SUM", "22")],
    );
    put_record(registry.store(), "10.1/two", vec![url_value(1, "https://a/2"), hidden]);
    put_record(
        registry.store(),
        "10.2/three",
        vec![typed(1, "URL.mobile", "https://a/3"), typed(2, "sum", "2")],
    );
    put_record(registry.store(), "10.9/left", vec![url_value(1, "https://a/left behind")]);
    put_record(registry.store(), "10.1/retired", vec![url_value(1, "https://a/retired")]);
    commit(
        registry.store(),
        Edit::Tombstone { name: "10.1/retired".into(), precondition: Precondition::Live },
    );
    let find = |caller_name: &str, prefix: Option<&str>, terms: &[(&str, &str)], steps| {
        let mut lookup = ReverseLookup::default();
        lookup.prefix = prefix.map(Into::into);
        terms.iter().for_each(|(value_type, pattern)| lookup.add_pattern(value_type, pattern));
        let (mut found, mut after) = (Vec::new(), None::<Box<str>>);
        loop {
            let budget = &mut Budget::new(steps);
            let matches =
                block_on(registry.reverse_lookup(&lookup, after.as_deref(), &caller(caller_name), budget));
            let matches = matches.map_err(|error| error.response_code().0)?;
            assert!(matches.items.iter().all(|found| found.values.is_empty()));
            found.extend(matches.items.into_iter().map(|record| record.name.into_string()));
            after = matches.next;
            if after.is_none() {
                return Ok::<_, u32>(found);
            }
        }
    };
    let check = |prefix, terms: &[(&str, &str)], expected: &[&str]| {
        for steps in [0, 1, 2, 1_000] {
            assert_eq!(
                find("operator", prefix, terms, steps).unwrap(),
                expected,
                "{prefix:?} {terms:?} {steps}"
            );
        }
    };
    check(None, &[], &[]);
    check(None, &[("URL", "https://a/*")], &["10.1/One", "10.1/two"]);
    check(None, &[("url", "https://a/1")], &["10.1/One"]);
    check(None, &[("URL.", "*")], &["10.1/One", "10.1/two", "10.2/three"]);
    check(Some("10.2"), &[("URL.", "*")], &["10.2/three"]);
    check(Some("10"), &[("URL.", "*")], &[]);
    check(None, &[("URL", "*hidden*")], &[]);
    check(None, &[("URL", "https://a/*"), ("SUM", "1")], &["10.1/One"]);
    // One value has to match both patterns.
    check(None, &[("SUM", "2*"), ("sum", "*2")], &["10.1/One", "10.2/three"]);
    check(None, &[("SUM", "1*"), ("SUM", "*2")], &[]);
    for (caller_name, expected) in [
        ("anonymous", Err(402)),
        ("300:10.1/server", Ok(1)),
        ("301:10.1/finder", Ok(1)),
        ("300:10.1/finder", Err(400)),
        ("7:10.1/any", Ok(1)),
        ("300:10.1/homes", Err(400)),
        (PREFIX_ADMIN, Err(400)),
    ] {
        let found = find(caller_name, None, &[("URL", "https://a/1")], 1_000);
        assert_eq!(found.map(|found| found.len()), expected, "{caller_name}");
        assert_eq!(find(caller_name, None, &[], 1_000).map(|_| 1), expected, "{caller_name}");
    }
    let mut lookup = ReverseLookup::default();
    lookup.with_values = true;
    lookup.add_pattern("URL", "https://a/2");
    let budget = &mut Budget::new(1_000);
    let found = block_on(registry.reverse_lookup(&lookup, None, &caller("operator"), budget)).unwrap().items;
    assert_eq!(found[0].values.iter().map(|value| value.index).collect::<Vec<_>>(), [1]);
}

/// Records of another partition, left in the store, are neither listed, found nor counted.
fn records_outside_the_partition(kind: StoreKind) {
    let site =
        Site { hash_option: HashOption::WHOLE, servers: vec![SiteServer::default(); 3], ..Site::default() };
    let partition = HashPartition::new(&site, 1);
    let registry = fixture(kind, RegistrySettings { partition, ..RegistrySettings::default() });
    for number in 0..30 {
        put_record(registry.store(), &format!("10.1/{number}"), vec![url_value(1, "https://a/")]);
    }
    let (prefix, operator) = (Handle::from("10.1"), caller("operator"));
    let listed =
        block_on(registry.list_handles(prefix, None, 100, &operator, &mut Budget::new(1_000))).unwrap().items;
    assert!((1..30).contains(&listed.len()), "{listed:?}");
    let mut lookup = ReverseLookup::default();
    lookup.add_pattern("URL", "*");
    let found =
        block_on(registry.reverse_lookup(&lookup, None, &operator, &mut Budget::new(1_000))).unwrap().items;
    assert_eq!(found.into_iter().map(|record| record.name).collect::<Vec<_>>(), listed);
    let (mut total, mut after) = (0, None::<Box<str>>);
    loop {
        let budget = &mut Budget::new(1_000);
        let count = block_on(registry.count_handles(prefix, after.as_deref(), 7, &operator, budget)).unwrap();
        total += count.names;
        after = count.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(total, listed.len() as u64);
}
