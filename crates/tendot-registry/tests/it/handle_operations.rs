//! Handle operations over memory and PostgreSQL: resolution, writes, lists, templates and reverse lookup.

use std::sync::Arc;

use tendot_proto::auth::Challenge;
use tendot_proto::record::{HashOption, Site, SiteServer};
use tendot_proto::{Budget, Handle, HandleValue, ValuePermissions, ValueReference};
use tendot_registry::{
    Caller, Error, HandleList, HandleOperation, HandleWrite, HashPartition, PeerFuture, Registry,
    RegistrySettings, Resolution, ResolveQuery, ReverseLookup, SitePeers, TemplateSettings,
};
use tendot_store::{Edit, EditKind, Precondition, Store};
use tendot_testing::block_on;

use crate::fixtures::handle_fixture::*;
use crate::support::{StoreKind, store_tests};

store_tests!(memory, postgres => {
    response_codes_by_caller,
    timestamps_and_order,
    write_outcomes,
    minted_suffixes,
    deleted_names,
    homed_prefixes,
    server_admins_with_full_access,
    lists_and_counts,
    names_without_a_slash_and_derived_prefixes,
    referrals,
    sessions_require_authentication,
    futures_are_send,
    names_derived_by_templates,
    templates_in_settings,
    delete_and_create_is_overwrite,
    keys_for_authentication,
    reverse_lookup,
    records_outside_the_partition,
    derived_values_grant_nothing,
});

const PREFIX_ADMIN: &str = "300:0.NA/10.1";
const ADMIN: &str = "300:10.1/a";

fn home(prefix: &str) -> HandleWrite<'_> {
    HandleWrite::Home { prefix: Handle::from(prefix) }
}

fn unhome(prefix: &str) -> HandleWrite<'_> {
    HandleWrite::Unhome { prefix: Handle::from(prefix) }
}

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
    let now = u32::try_from(NOW.unix).unwrap();
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
    check(&create("10.1/new", vec![from_client.clone(), url_value(1, "https://c/")]), &[(9, now), (1, now)]);
    check(&add("10.1/x", false, vec![from_client.clone()]), &[(5, old), (2, old), (100, old), (9, now)]);
    check(
        &add(
            "10.1/x",
            true,
            vec![url_value(2, "https://b/"), from_client.clone(), url_value(5, "https://c/")],
        ),
        &[(5, now), (2, old), (100, old), (9, now)],
    );
    check(&modify("10.1/x", vec![url_value(2, "https://c/")]), &[(5, old), (2, now), (100, old)]);
    check(&remove("10.1/x", &[5, 5]), &[(2, old), (100, old)]);
    check(
        &overwrite("10.1/x", vec![url_value(2, "https://b/"), unchanged(), from_client]),
        &[(2, old), (100, old), (9, now)],
    );
    let other_ttl = HandleValue { ttl: tendot_proto::Ttl::Relative(5), ..url_value(2, "https://b/") };
    check(&overwrite("10.1/x", vec![other_ttl, unchanged()]), &[(2, now), (100, old)]);
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
    assert_eq!((&*last.author, last.timestamp_ms, last.kind), (ADMIN, NOW.unix * 1_000, EditKind::Update));
    assert_eq!(&*last.name, "10.1/Abc");
}

fn minted_suffixes(kind: StoreKind) {
    let registry = fixture(kind, RegistrySettings::default());
    let mint = |random_bytes| HandleWrite::Create {
        name: Handle::from("10.1/M-"),
        values: vec![],
        overwrite: true,
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
        assert_eq!(page.names, ["0.NA/0.NA".into(), "0.NA/10.1".into()]);
        let second_page = listed(caller_name, page.next.as_deref(), 2).unwrap();
        assert_eq!(second_page, HandleList { names: vec!["0.NA/10.2".into()], next: None });
    }
    assert_eq!(response_code(&listed("301:10.1/server", None, 2)), 400);
    assert_eq!(response_code(&listed("anonymous", None, 2)), 402);
    // Server admins administer the server, not records.
    put_record(registry.store(), "10.1/x", vec![admin_value(100, 0x0fff, ADMIN)]);
    check_write(&registry, "300:10.1/server", &delete("10.1/x"), 400);
    check_write(&registry, "300:10.1/server", &create("10.1/new", vec![]), 400);
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
            names.extend(page.names);
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

fn sessions_require_authentication(kind: StoreKind) {
    let registry = fixture(kind, RegistrySettings::default());
    put_record(registry.store(), "10.1/x", vec![url_value(1, "https://a/")]);
    let query = |public_only| ResolveQuery {
        public_only,
        in_session: true,
        ..ResolveQuery::new(Handle::from("10.1/x"))
    };
    assert_eq!(resolve(&registry, "anonymous", &query(false)), Err(402));
    assert_eq!(resolve(&registry, "anonymous", &query(true)), Ok(vec![1]));
    assert_eq!(resolve(&registry, "300:10.1/b", &query(false)), Ok(vec![1]));
}

/// A server moves these futures between threads.
fn futures_are_send(kind: StoreKind) {
    fn assert_send<T: Send>(_: T) {}
    let (registry, budget) = (fixture(kind, RegistrySettings::default()), &mut Budget::new(1_000));
    let (caller_name, prefix) = (caller("operator"), Handle::from("10.1"));
    assert_send(registry.resolve(&ResolveQuery::new(prefix), &caller_name, budget));
    assert_send(registry.write(&home("10.1"), &caller_name, NOW, budget));
    assert_send(registry.list_handles(prefix, None, 1, &caller_name, budget));
    assert_send(registry.list_homed_prefixes(None, 1, &caller_name, budget));
    assert_send(registry.precheck(&HandleOperation::ListHomed, &ValueReference::parse("x"), budget));
    assert_send(registry.key_values(prefix, budget));
}

fn resolve_data(registry: &Registry, name: &str) -> Result<String, u32> {
    let query = ResolveQuery::new(Handle::from(name));
    match block_on(registry.resolve(&query, &caller("anonymous"), &mut Budget::new(50_000))) {
        Ok(Resolution::Values(values)) => {
            Ok(values.iter().map(|value| String::from_utf8_lossy(&value.data)).collect::<Vec<_>>().join(" "))
        }
        Ok(_) => Err(303),
        Err(error) => Err(error.response_code().0),
    }
}

fn names_derived_by_templates(kind: StoreKind) {
    let template =
        |inside: &str| format!("<namespace><template delimiter='@'{inside}</template></namespace>");
    let namespace = |index, xml: String| HandleValue::new(index, "HS_NAMESPACE", xml);
    let registry = fixture(kind, RegistrySettings::default());
    put_record(registry.store(), "10.1/x", vec![url_value(1, "https://a/")]);
    put_record(registry.store(), "10.1/x@stored", vec![url_value(1, "https://stored/")]);
    assert_eq!(resolve_data(&registry, "10.1/x@y"), Err(100));
    let first = template("><foreach><value data='${data}${extension}'/></foreach>");
    let second = template("><notfound/>");
    put_record(registry.store(), "0.NA/10.1", vec![namespace(2, second), namespace(1, first)]);
    assert_eq!(resolve_data(&registry, "10.1/x@y"), Ok("https://a/y".into()));
    assert_eq!(resolve_data(&registry, "10.1/X@Y@Z"), Ok("https://a/Y@Z".into()));
    assert_eq!(resolve_data(&registry, "10.1/x@stored"), Ok("https://stored/".into()));
    assert_eq!(resolve_data(&registry, "10.1/none@y"), Err(100));
    assert_eq!(resolve_data(&registry, "10.1/none"), Err(100));
    assert_eq!(resolve_data(&registry, "10.2/x@y"), Err(100));
    // A template by reference: missing, found, not public, and referring to itself.
    put_record(registry.store(), "0.NA/10.1", vec![namespace(1, template(" ref='7:10.2/t'>"))]);
    assert_eq!(resolve_data(&registry, "10.1/x@y"), Err(2));
    put_record(
        registry.store(),
        "10.2/t",
        vec![HandleValue::new(7, "X", "<template><value type='A'>b</value></template>")],
    );
    assert_eq!(resolve_data(&registry, "10.1/x@y"), Ok("b".into()));
    // A reference must not reveal a value that is not public.
    let hidden = HandleValue::new(7, "X", "<template><value type='A'>secret</value></template>");
    put_record(
        registry.store(),
        "10.2/t",
        vec![HandleValue { permissions: ValuePermissions(0x0c), ..hidden }],
    );
    assert_eq!(resolve_data(&registry, "10.1/x@y"), Err(2));
    put_record(registry.store(), "10.2/t", vec![namespace(7, template(" ref='7:10.2/t'>"))]);
    assert_eq!(resolve_data(&registry, "10.1/x@y"), Err(2));
    put_record(registry.store(), "0.NA/10.1", vec![namespace(1, template("><notfound/>"))]);
    assert_eq!(resolve_data(&registry, "10.1/x@y"), Err(100));
    put_record(registry.store(), "0.NA/10.1", vec![namespace(1, "not XML".into())]);
    assert_eq!(resolve_data(&registry, "10.1/x@y"), Err(100));
    // Prefix records are never derived, whatever template the root record has.
    put_record(registry.store(), "0.NA/0.NA", vec![namespace(1, template("><value type='A'>b</value>"))]);
    assert_eq!(resolve_data(&registry, "0.NA/10.1@y"), Err(100));
    // Retired names are not derived again.
    put_record(registry.store(), "0.NA/10.1", vec![namespace(1, template("><value type='A'>b</value>"))]);
    commit(
        registry.store(),
        Edit::Tombstone { name: "10.1/x@stored".into(), precondition: Precondition::Live },
    );
    assert_eq!(resolve_data(&registry, "10.1/x@stored"), Err(100));
    commit(registry.store(), Edit::Tombstone { name: "10.1/x".into(), precondition: Precondition::Live });
    assert_eq!(resolve_data(&registry, "10.1/x@y"), Err(100));
}

fn templates_in_settings(kind: StoreKind) {
    let registry_with = |templates| {
        let registry = fixture(kind, RegistrySettings { templates, ..RegistrySettings::default() });
        put_record(registry.store(), "10.1/x", vec![url_value(1, "https://a/")]);
        let xml = "<namespace><template delimiter='@'><value type='A'>prefix</value></template></namespace>";
        put_record(registry.store(), "0.NA/10.2", vec![HandleValue::new(1, "HS_NAMESPACE", xml)]);
        put_record(registry.store(), "10.2/x", vec![url_value(1, "https://b/")]);
        registry
    };
    let namespace =
        "<namespace><template delimiter='!'><value type='A'>settings</value></template></namespace>";
    let both = registry_with(TemplateSettings {
        use_prefix_namespace: true,
        default_namespace: Some(namespace.into()),
        default_delimiter: Some("?".into()),
    });
    assert_eq!(resolve_data(&both, "10.1/x!y"), Ok("settings".into()));
    assert_eq!(resolve_data(&both, "10.1/x?y"), Err(100));
    assert_eq!(resolve_data(&both, "10.2/x@y"), Ok("prefix".into()));
    let only_delimiter = registry_with(TemplateSettings {
        use_prefix_namespace: false,
        default_namespace: None,
        default_delimiter: Some("?".into()),
    });
    assert_eq!(resolve_data(&only_delimiter, "10.1/x?y"), Ok("https://a/".into()));
    assert_eq!(resolve_data(&only_delimiter, "10.2/x@y"), Err(100));
}

/// Permission to delete and to create a record includes overwriting it.
fn delete_and_create_is_overwrite(kind: StoreKind) {
    let registry = fixture(kind, RegistrySettings::default());
    put_record(registry.store(), "0.NA/10.1", vec![admin_value(100, 0x0001, ADMIN)]);
    put_record(registry.store(), "10.1/x", vec![url_value(1, "https://a/"), admin_value(100, 0x0002, ADMIN)]);
    check_write(&registry, ADMIN, &forced(overwrite("10.1/x", vec![url_value(1, "https://b/")])), 1);
}

fn keys_for_authentication(kind: StoreKind) {
    let registry = fixture(kind, RegistrySettings::default());
    let secret =
        HandleValue { permissions: ValuePermissions(0), ..HandleValue::new(301, "HS_SECKEY", "secret") };
    put_record(
        registry.store(),
        "10.1/a",
        vec![url_value(1, "https://a/"), secret.clone(), HandleValue::new(300, "HS_PUBKEY", "x")],
    );
    put_record(registry.store(), "10.9/a", vec![secret]);
    let keys = |name| {
        let keys = block_on(registry.key_values(Handle::from(name), &mut Budget::new(1_000))).unwrap();
        keys.iter().map(|value| value.index).collect::<Vec<_>>()
    };
    assert_eq!(keys("10.1/A"), [301, 300]);
    assert!(keys("10.1/none").is_empty());
    assert!(keys("10.9/a").is_empty(), "records of other services grant no authentication");
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
            assert!(matches.records.iter().all(|found| found.values.is_empty()));
            found.extend(matches.records.into_iter().map(|record| record.name.into_string()));
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
    let found =
        block_on(registry.reverse_lookup(&lookup, None, &caller("operator"), budget)).unwrap().records;
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
        block_on(registry.list_handles(prefix, None, 100, &operator, &mut Budget::new(1_000))).unwrap().names;
    assert!((1..30).contains(&listed.len()), "{listed:?}");
    let mut lookup = ReverseLookup::default();
    lookup.add_pattern("URL", "*");
    let found =
        block_on(registry.reverse_lookup(&lookup, None, &operator, &mut Budget::new(1_000))).unwrap().records;
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

/// Site peer that is a registry in the same process.
#[derive(Debug)]
struct PeerRegistry(Registry);

impl SitePeers for PeerRegistry {
    fn public_values<'a>(
        &'a self,
        name: &'a str,
        budget: &'a mut Budget,
    ) -> PeerFuture<'a, Option<Vec<HandleValue<'static>>>> {
        Box::pin(async move {
            match self.0.resolve(&ResolveQuery::new(Handle::from(name)), &Caller::Anonymous, budget).await {
                Ok(Resolution::Values(values)) => Ok(Some(values)),
                Ok(Resolution::Referral(_)) | Err(Error::NotFound) => Ok(None),
                Err(error) => Err(error),
            }
        })
    }

    fn verify_secret<'a>(
        &'a self,
        _: &'a ValueReference<'a>,
        _: Challenge<'a>,
        _: &'a [u8],
        _: &'a mut Budget,
    ) -> PeerFuture<'a, bool> {
        Box::pin(async { Ok(false) })
    }
}

/// Values derived by a template are not keys, neither locally nor at a site peer.
fn derived_values_grant_nothing(kind: StoreKind) {
    let site =
        Site { hash_option: HashOption::WHOLE, servers: vec![SiteServer::default(); 2], ..Site::default() };
    let xml =
        "<namespace><template delimiter='@'><value type='HS_PUBKEY'>derived</value></template></namespace>";
    let sources = [0; 3].map(|_| HandleFixtureSource::new(kind));
    let check = |index: usize, base: &str, is_in_settings: bool| {
        let server = |source: &HandleFixtureSource, index| {
            let default_namespace = is_in_settings.then(|| xml.into());
            let templates = TemplateSettings { default_namespace, ..TemplateSettings::default() };
            let partition = HashPartition::new(&site, index);
            let registry =
                source.fixture(RegistrySettings { partition, templates, ..RegistrySettings::default() });
            if !is_in_settings {
                put_record(registry.store(), "0.NA/10.1", vec![HandleValue::new(1, "HS_NAMESPACE", xml)]);
            }
            put_record(registry.store(), base, vec![HandleValue::new(300, "HS_PUBKEY", "stored")]);
            registry
        };
        let [first, second, third] = &sources;
        let peer = server(first, 1 - index).with_site_peers(Arc::new(PeerRegistry(server(second, index))));
        let derived = format!("{base}@x");
        assert_eq!(
            resolve(&peer, "anonymous", &ResolveQuery::new(Handle::from(&*derived))),
            Ok(vec![1]),
            "{derived}"
        );
        let local = server(third, index).with_site_peers(Arc::new(PeerRegistry(peer)));
        let keys =
            |name| block_on(local.key_values(Handle::from(name), &mut Budget::new(1_000))).unwrap().len();
        assert_eq!((keys(base), keys(&derived)), (1, 0), "{derived}");
    };
    for index in 0..2 {
        let is_at_peer = |name: &str| HashPartition::new(&site, 1 - index).unwrap().owns(Handle::from(name));
        let mut names = (0..).map(|number| format!("10.1/{number}"));
        let base = names.find(|name| is_at_peer(name) && is_at_peer(&format!("{name}@x"))).unwrap();
        check(index, &base, false);
        check(index, &base, true);
    }
}
