//! Homed and derived prefixes, referrals.

use super::*;

store_tests!(memory, embedded, postgres => { homed_prefixes, names_without_a_slash_and_derived_prefixes, referrals });

fn homed_prefixes(kind: StoreKind) {
    let settings = RegistrySettings {
        server_admins: vec![ValueReference::parse("300:10.1/server")],
        home_only_admins: vec![ValueReference::parse("0:10.1/homer")],
        ..RegistrySettings::default()
    };
    let registry = fixture(kind, settings);
    let listed = |caller_name: &str, after: Option<&str>, limit| {
        block_on(registry.list_homed_prefixes(after, limit, &caller(caller_name), &mut Budget::new(1_000)))
    };
    for caller_name in ["300:10.1/server", "7:10.1/homer", "operator"] {
        check_write(&registry, caller_name, &home("0.NA/20.a"), 1);
        assert_eq!(resolve(&registry, "anonymous", &ResolveQuery::new(Handle::from("20.A/x"))), Err(100));
        check_write(&registry, caller_name, &unhome("20.A"), 1);
        check_write(&registry, caller_name, &unhome("20.A"), 1);
        assert_eq!(resolve(&registry, "anonymous", &ResolveQuery::new(Handle::from("20.A/x"))), Err(301));
        let page = listed(caller_name, None, 2).unwrap();
        assert_eq!(page.items, ["0.NA/0.NA".into(), "0.NA/10.1".into()]);
        let second_page = listed(caller_name, page.next.as_deref(), 2).unwrap();
        assert_eq!(second_page, ResultPage { items: vec!["0.NA/10.2".into()], next: None });
    }
    assert_eq!(response_code(&listed("301:10.1/server", None, 2)), 400);
    assert_eq!(response_code(&listed("anonymous", None, 2)), 402);
    // Server admins administer the server, not records.
    put_record(registry.store(), "10.1/x", vec![admin_value(100, 0x0fff, ADMIN)]);
    check_write(&registry, "300:10.1/server", &delete("10.1/x"), 400);
    check_write(&registry, "300:10.1/server", &create("10.1/new", vec![]), 400);
}

fn names_without_a_slash_and_derived_prefixes(kind: StoreKind) {
    let registry = fixture(kind, RegistrySettings::default());
    let resolved = |name: &str| resolve(&registry, "anonymous", &ResolveQuery::new(Handle::from(name)));
    assert_eq!(resolved("10.1"), Ok(vec![100]));
    assert_eq!(resolved("0.na/10.1"), Ok(vec![100]));
    assert_eq!(resolved("10.7"), Err(100));
    // Without 0.NA, responsible only for prefixes derived from one whose derived prefixes are all homed here.
    commit(registry.store(), Edit::Unhome { prefix: "0.NA".into() });
    assert_eq!(resolved("10.1"), Err(301));
    check_write(&registry, "operator", &home("0.NA/0.NA/10.1"), 1);
    assert_eq!(resolved("10.1.2"), Err(100));
    assert_eq!(resolved("0.NA/10.1"), Err(301));
    // Another service has the prefix record now; the stale copy here grants nothing.
    check_write(&registry, PREFIX_ADMIN, &create("10.1/new", vec![]), 400);
}

fn referrals(kind: StoreKind) {
    let registry = fixture(kind, RegistrySettings::default());
    let site = |index, value_type: &'static str| HandleValue::new(index, value_type, "x");
    put_record(registry.store(), "0.NA/10", vec![site(1, "HS_SERV.PREFIX")]);
    put_record(
        registry.store(),
        "0.NA/10.1",
        vec![site(1, "HS_SITE"), site(2, "HS_SITE.PREFIX"), site(3, "HS_NA_DELEGATE")],
    );
    put_record(registry.store(), "0.NA/10.1.5", vec![url_value(7, "https://a/")]);
    let referred = |name: &str, allow_referral| {
        let query = ResolveQuery { allow_referral, ..ResolveQuery::new(Handle::from(name)) };
        match block_on(registry.resolve(&query, &caller("anonymous"), &mut Budget::new(1_000))) {
            Ok(Resolution::Referral(values)) => {
                Ok(values.iter().map(|value| value.index).collect::<Vec<_>>())
            }
            Ok(Resolution::Values(_)) => Err(1),
            Err(error) => Err(error.response_code().0),
        }
    };
    assert_eq!(referred("0.NA/10.1.2", true), Ok(vec![2, 3]));
    assert_eq!(referred("10.1.2.3", true), Ok(vec![2, 3]));
    assert_eq!(referred("0.NA/10.7", true), Ok(vec![1]));
    assert_eq!(referred("0.NA/10.1.2", false), Err(100));
    assert_eq!(referred("0.NA/10.1.5", true), Err(1));
    assert_eq!(referred("0.NA/20.1", true), Err(100));
    assert_eq!(referred("10.1/none", true), Err(100));
}
