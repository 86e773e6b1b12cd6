//! Values that the caller may not read.

use super::*;

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
