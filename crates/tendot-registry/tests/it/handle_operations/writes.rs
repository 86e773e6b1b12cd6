//! Outcomes of writes.

use super::*;

store_tests!(memory, embedded, postgres => { response_codes_by_caller, timestamps_and_order, write_outcomes, minted_suffixes, deleted_names, server_admins_with_full_access, delete_and_create_is_overwrite, audit_f1_overwrite_of_secrets });

fn response_codes_by_caller(kind: StoreKind) {
    let registry = fixture(kind, RegistrySettings::default());
    let source = HandleFixtureSource::new(kind);
    put_record(registry.store(), "10.1/x", vec![url_value(1, "https://a/"), admin_value(100, 0x0fff, ADMIN)]);
    let new = || vec![url_value(2, "https://b/")];
    for (attempt, anonymous, stranger, authorized_caller) in [
        (create("10.1/new", vec![]), 402, 400, PREFIX_ADMIN),
        (create("10.1/X", vec![]), 101, 101, ""),
        (create("10.9/x", vec![]), 301, 301, ""),
        (forced(overwrite("10.1/x", new())), 402, 400, ADMIN),
        (
            overwrite("10.1/x", vec![url_value(1, "https://a/"), admin_value(100, 0x0fff, ADMIN)]),
            402,
            1,
            ADMIN,
        ),
        (add("10.1/x", false, new()), 402, 400, ADMIN),
        (add("10.1/none", false, new()), 402, 100, ""),
        (add("10.9/x", false, new()), 301, 301, ""),
        (modify("10.1/x", vec![url_value(1, "https://b/")]), 402, 400, ADMIN),
        (modify("10.1/x", new()), 200, 200, ""),
        (modify("10.1/none", new()), 100, 100, ""),
        (remove("10.1/x", &[1]), 402, 400, ADMIN),
        (remove("10.1/x", &[7]), 402, 400, ""),
        (remove("10.1/none", &[1]), 402, 100, ""),
        (delete("10.1/x"), 402, 400, ADMIN),
        (delete("10.1/none"), 402, 100, ""),
        (delete("10.9/x"), 301, 301, ""),
        (home("10.3"), 402, 400, "operator"),
        (unhome("10.1"), 402, 400, "operator"),
        (home("10.1/x"), 102, 102, ""),
    ] {
        check_write(&registry, "anonymous", &attempt, anonymous);
        check_write(&registry, "300:10.1/b", &attempt, stranger);
        let claim = ValueReference::parse("300:10.1/b");
        let operation = HandleOperation::Write(attempt.clone());
        let authorized = block_on(registry.precheck(&operation, &claim, &mut Budget::new(20_000)));
        // The precheck reveals nothing else before the proof is verified.
        let expected = if anonymous == 402 && stranger != 400 { 1 } else { stranger };
        assert_eq!(response_code(&authorized), expected, "{attempt:?}");
        if !authorized_caller.is_empty() {
            let registry = source.fixture(RegistrySettings::default());
            put_record(
                registry.store(),
                "10.1/x",
                vec![url_value(1, "https://a/"), admin_value(100, 0x0fff, ADMIN)],
            );
            check_write(&registry, authorized_caller, &attempt, 1);
        }
    }
    check_write(&registry, ADMIN, &remove("10.1/x", &[7]), 200);
    check_write(&registry, ADMIN, &remove("10.1/x", &[1, 7]), 200);
}

/// The server sets timestamps, and keeps those of unchanged values; values are in the order of the record, then of the request.
fn timestamps_and_order(kind: StoreKind) {
    let source = HandleFixtureSource::new(kind);
    let check = |attempt: &HandleWrite<'_>, expected: &[(u32, u32)]| {
        let registry = source.fixture(RegistrySettings::default());
        let record =
            vec![url_value(5, "https://a/"), url_value(2, "https://b/"), admin_value(100, 0x0fff, ADMIN)];
        put_record(registry.store(), "10.1/x", record);
        let outcome = write(&registry, "operator", attempt).unwrap();
        let values = stored_values(registry.store(), &outcome.name).unwrap();
        let actual: Vec<_> = values.iter().map(|value| (value.index, value.timestamp)).collect();
        assert_eq!(actual, expected, "{attempt:?}");
    };
    let from_client = HandleValue { timestamp: 7, ..url_value(9, "https://new/") };
    let old = FIXTURE_TIMESTAMP;
    let unchanged = || admin_value(100, 0x0fff, ADMIN);
    check(&create("10.1/new", vec![from_client.clone(), url_value(1, "https://c/")]), &[(9, NOW), (1, NOW)]);
    check(&add("10.1/x", false, vec![from_client.clone()]), &[(5, old), (2, old), (100, old), (9, NOW)]);
    check(
        &add(
            "10.1/x",
            true,
            vec![url_value(2, "https://b/"), from_client.clone(), url_value(5, "https://c/")],
        ),
        &[(5, NOW), (2, old), (100, old), (9, NOW)],
    );
    check(&modify("10.1/x", vec![url_value(2, "https://c/")]), &[(5, old), (2, NOW), (100, old)]);
    check(&remove("10.1/x", &[5, 5]), &[(2, old), (100, old)]);
    check(
        &overwrite("10.1/x", vec![url_value(2, "https://b/"), unchanged(), from_client]),
        &[(2, old), (100, old), (9, NOW)],
    );
    let other_ttl = HandleValue { ttl: tendot_proto::Ttl::Relative(5), ..url_value(2, "https://b/") };
    check(&overwrite("10.1/x", vec![other_ttl, unchanged()]), &[(2, NOW), (100, old)]);
}

fn write_outcomes(kind: StoreKind) {
    let registry = fixture(kind, RegistrySettings::default());
    let first =
        write(&registry, PREFIX_ADMIN, &create("10.1/Abc", vec![admin_value(100, 0x0fff, ADMIN)])).unwrap();
    assert_eq!((&*first.name, first.replaced, first.warnings.len()), ("10.1/Abc", false, 0));
    let added = write(&registry, ADMIN, &add("10.1/ABC", true, vec![url_value(1, "https://a/")])).unwrap();
    assert!(!added.replaced && added.revision > first.revision);
    let replaced = write(&registry, ADMIN, &add("10.1/ABC", true, vec![url_value(1, "https://b/")])).unwrap();
    assert!(replaced.replaced);
    let unchanged =
        write(&registry, ADMIN, &add("10.1/ABC", true, vec![url_value(1, "https://b/")])).unwrap();
    assert_eq!((unchanged.replaced, unchanged.revision), (true, None), "nothing changed");
    let error = write(&registry, PREFIX_ADMIN, &create("10.1/aBC", vec![])).unwrap_err();
    assert_eq!(error.to_string(), "handle already exists as `10.1/Abc`");
    let log = block_on(registry.store().read_log(0, 1_000)).unwrap();
    let last = log.last().unwrap();
    assert_eq!((&*last.author, last.timestamp_ms, last.kind), (ADMIN, NOW_MS, EditKind::Update));
    assert_eq!(&*last.name, "10.1/Abc");
}

fn minted_suffixes(kind: StoreKind) {
    let registry = fixture(kind, RegistrySettings::default());
    let mint = |random_bytes| HandleWrite::Create {
        name: Handle::from("10.1/M-"),
        values: vec![],
        overwrite: true,
        keep_secrets: false,
        uuid_bytes: Some(random_bytes),
        force: false,
    };
    let outcome = write(&registry, PREFIX_ADMIN, &mint([7; 16])).unwrap();
    assert_eq!(&*outcome.name, "10.1/M-07070707-0707-4707-8707-070707070707");
    check_write(&registry, PREFIX_ADMIN, &mint([7; 16]), 101);
    check_write(&registry, PREFIX_ADMIN, &mint([8; 16]), 1);
    check_write(&registry, "anonymous", &mint([9; 16]), 402);
    let without_slash = HandleWrite::Create {
        name: Handle::from("10.1"),
        values: vec![],
        overwrite: false,
        keep_secrets: false,
        uuid_bytes: Some([7; 16]),
        force: false,
    };
    check_write(&registry, PREFIX_ADMIN, &without_slash, 102);
}

/// Deleted names can be created again, unless the prefix or the deletion is permanent.
fn deleted_names(kind: StoreKind) {
    let settings =
        RegistrySettings { permanent_prefixes: vec!["10.2".into()], ..RegistrySettings::default() };
    let registry = fixture(kind, settings);
    for name in ["10.1/x", "10.1/y", "10.2/x"] {
        check_write(&registry, "operator", &create(name, vec![admin_value(100, 0x0fff, ADMIN)]), 1);
    }
    check_write(&registry, ADMIN, &delete("10.1/X"), 1);
    check_write(&registry, ADMIN, &delete("10.2/x"), 1);
    check_write(&registry, ADMIN, &HandleWrite::Delete { name: Handle::from("10.1/y"), permanent: true }, 1);
    check_write(&registry, "operator", &create("10.1/x", vec![]), 1);
    for retired in ["10.2/X", "10.1/y"] {
        check_write(&registry, "operator", &create(retired, vec![]), 101);
        check_write(&registry, "operator", &overwrite(retired, vec![]), 101);
        check_write(&registry, "operator", &delete(retired), 100);
        check_write(&registry, "operator", &add(retired, false, vec![url_value(1, "https://a/")]), 100);
        let query = ResolveQuery::new(Handle::from(retired));
        let outcome = block_on(registry.resolve(&query, &caller("operator"), &mut Budget::new(1_000)));
        assert!(matches!(outcome, Err(Error::Retired)), "{outcome:?}");
    }
}

fn server_admins_with_full_access(kind: StoreKind) {
    let settings = RegistrySettings {
        server_admins: vec![ValueReference::parse("300:10.1/server")],
        server_admins_full_access: true,
        prefix_admins_can_create: false,
        ..RegistrySettings::default()
    };
    let registry = fixture(kind, settings);
    check_write(&registry, PREFIX_ADMIN, &create("10.1/x", vec![]), 400);
    check_write(&registry, "300:10.1/server", &create("10.1/x", vec![note_value(1, 0x0c)]), 1);
    let query = ResolveQuery { public_only: false, ..ResolveQuery::new(Handle::from("10.1/x")) };
    assert_eq!(resolve(&registry, "300:10.1/server", &query), Ok(vec![1]));
    check_write(&registry, "300:10.1/server", &delete("10.1/x"), 1);
}

/// Permission to delete and to create a record includes overwriting it.
fn delete_and_create_is_overwrite(kind: StoreKind) {
    let registry = fixture(kind, RegistrySettings::default());
    put_record(registry.store(), "0.NA/10.1", vec![admin_value(100, 0x0001, ADMIN)]);
    put_record(registry.store(), "10.1/x", vec![url_value(1, "https://a/"), admin_value(100, 0x0002, ADMIN)]);
    check_write(&registry, ADMIN, &forced(overwrite("10.1/x", vec![url_value(1, "https://b/")])), 1);
}

/// Overwriting a record by the native protocol removes its secrets; over HTTP, where no client can read them to send them back, it
/// does not.
fn audit_f1_overwrite_of_secrets(kind: StoreKind) {
    let registry = fixture(kind, RegistrySettings::default());
    let secret =
        || HandleValue { permissions: ValuePermissions(0x0c), ..HandleValue::new(301, "HS_SECKEY", "s") };
    for is_kept in [true, false] {
        put_record(registry.store(), "10.1/x", vec![secret(), admin_value(100, 0x0fff, ADMIN)]);
        let mut write =
            overwrite("10.1/x", vec![url_value(1, "https://a/"), admin_value(100, 0x0fff, ADMIN)]);
        if let HandleWrite::Create { keep_secrets, .. } = &mut write {
            *keep_secrets = is_kept;
        }
        check_write(&registry, ADMIN, &write, 1);
        let values = stored_values(registry.store(), "10.1/x").unwrap();
        assert_eq!(values.iter().any(|value| value.index == 301), is_kept, "{values:?}");
    }
}
