//! What comes of what is asked for.

mod scene;

use std::sync::Arc;

use scene::*;
use tendot_proto::auth::Challenge;
use tendot_proto::record::{HashOption, Server, Site};
use tendot_proto::{Handle, Permissions, Reference, Value, Work};
use tendot_registry::{
    Caller, Error, Neighbours, Operation, Page, Query, Registry, Resolution, Said, Search, Settings, Share,
    TemplateSettings, Write,
};
use tendot_store::{Edit, EditKind, Expect, Store};
use tendot_testing::block_on;

const ONE: &str = "300:0.NA/10.1";
const ADMIN: &str = "300:10.1/a";

fn home(prefix: &str) -> Write<'_> {
    Write::Home { prefix: Handle::from(prefix) }
}

fn unhome(prefix: &str) -> Write<'_> {
    Write::Unhome { prefix: Handle::from(prefix) }
}

#[test]
fn who_is_asked_for_what() {
    let registry = registry();
    put(registry.store(), "10.1/x", vec![url(1, "https://a/"), admin(100, 0x0fff, ADMIN)]);
    let new = || vec![url(2, "https://b/")];
    for (what, anonymous, stranger, rightful) in [
        (create("10.1/new", vec![]), 402, 400, ONE),
        (create("10.1/X", vec![]), 101, 101, ""),
        (create("10.9/x", vec![]), 301, 301, ""),
        (forced(overwrite("10.1/x", new())), 402, 400, ADMIN),
        (overwrite("10.1/x", vec![url(1, "https://a/"), admin(100, 0x0fff, ADMIN)]), 402, 1, ADMIN),
        (add("10.1/x", false, new()), 402, 400, ADMIN),
        (add("10.1/none", false, new()), 402, 100, ""),
        (add("10.9/x", false, new()), 301, 301, ""),
        (modify("10.1/x", vec![url(1, "https://b/")]), 402, 400, ADMIN),
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
        check(&registry, "anonymous", &what, anonymous);
        check(&registry, "300:10.1/b", &what, stranger);
        let claim = Reference::parse("300:10.1/b");
        let operation = Operation::Write(what.clone());
        let authorized = block_on(registry.authorize(&operation, &claim, &mut Work::new(20_000)));
        // Those who pass learn the rest only after the proof.
        let expected = if anonymous == 402 && stranger != 400 { 1 } else { stranger };
        assert_eq!(code(&authorized), expected, "{what:?}");
        if !rightful.is_empty() {
            let registry = self::registry();
            put(registry.store(), "10.1/x", vec![url(1, "https://a/"), admin(100, 0x0fff, ADMIN)]);
            check(&registry, rightful, &what, 1);
        }
    }
    check(&registry, ADMIN, &remove("10.1/x", &[7]), 200);
    check(&registry, ADMIN, &remove("10.1/x", &[1, 7]), 200);
}

/// Dates are ours; what does not change keeps its own; the order is that of the record, then that of the deposit.
#[test]
fn dates_and_order() {
    let now = u32::try_from(NOW.unix).unwrap();
    let check = |what: &Write<'_>, expected: &[(u32, u32)]| {
        let registry = registry();
        let record = vec![url(5, "https://a/"), url(2, "https://b/"), admin(100, 0x0fff, ADMIN)];
        put(registry.store(), "10.1/x", record);
        let done = write(&registry, "operator", what).unwrap();
        let values = values(registry.store(), &done.name).unwrap();
        let found: Vec<_> = values.iter().map(|value| (value.index, value.timestamp)).collect();
        assert_eq!(found, expected, "{what:?}");
    };
    let from_client = Value { timestamp: 7, ..url(9, "https://new/") };
    let was = BEFORE;
    let kept = || admin(100, 0x0fff, ADMIN);
    check(&create("10.1/new", vec![from_client.clone(), url(1, "https://c/")]), &[(9, now), (1, now)]);
    check(&add("10.1/x", false, vec![from_client.clone()]), &[(5, was), (2, was), (100, was), (9, now)]);
    check(
        &add("10.1/x", true, vec![url(2, "https://b/"), from_client.clone(), url(5, "https://c/")]),
        &[(5, now), (2, was), (100, was), (9, now)],
    );
    check(&modify("10.1/x", vec![url(2, "https://c/")]), &[(5, was), (2, now), (100, was)]);
    check(&remove("10.1/x", &[5, 5]), &[(2, was), (100, was)]);
    check(
        &overwrite("10.1/x", vec![url(2, "https://b/"), kept(), from_client]),
        &[(2, was), (100, was), (9, now)],
    );
    let longer = Value { ttl: tendot_proto::Ttl::Relative(5), ..url(2, "https://b/") };
    check(&overwrite("10.1/x", vec![longer, kept()]), &[(2, now), (100, was)]);
}

#[test]
fn what_is_reported() {
    let registry = registry();
    let first = write(&registry, ONE, &create("10.1/Abc", vec![admin(100, 0x0fff, ADMIN)])).unwrap();
    assert_eq!((&*first.name, first.replaced, first.notes.len()), ("10.1/Abc", false, 0));
    let added = write(&registry, ADMIN, &add("10.1/ABC", true, vec![url(1, "https://a/")])).unwrap();
    assert!(!added.replaced && added.revision > first.revision);
    let again = write(&registry, ADMIN, &add("10.1/ABC", true, vec![url(1, "https://b/")])).unwrap();
    assert!(again.replaced);
    let same = write(&registry, ADMIN, &add("10.1/ABC", true, vec![url(1, "https://b/")])).unwrap();
    assert_eq!((same.replaced, same.revision), (true, None), "nothing changed");
    let error = write(&registry, ONE, &create("10.1/aBC", vec![])).unwrap_err();
    assert_eq!(error.to_string(), "the handle exists as `10.1/Abc`");
    let log = block_on(registry.store().changes(0, 1_000)).unwrap();
    let last = log.last().unwrap();
    assert_eq!((&*last.by, last.at, last.kind), (ADMIN, NOW.unix * 1_000, EditKind::Update));
    assert_eq!(&*last.name, "10.1/Abc");
}

#[test]
fn new_suffixes() {
    let registry = registry();
    let mint = |random| Write::Create {
        name: Handle::from("10.1/M-"),
        values: vec![],
        overwrite: true,
        mint: Some(random),
        force: false,
    };
    let done = write(&registry, ONE, &mint([7; 16])).unwrap();
    assert_eq!(&*done.name, "10.1/M-07070707-0707-4707-8707-070707070707");
    check(&registry, ONE, &mint([7; 16]), 101);
    check(&registry, ONE, &mint([8; 16]), 1);
    check(&registry, "anonymous", &mint([9; 16]), 402);
    let without_slash = Write::Create {
        name: Handle::from("10.1"),
        values: vec![],
        overwrite: false,
        mint: Some([7; 16]),
        force: false,
    };
    check(&registry, ONE, &without_slash, 102);
}

/// Deleted names may be given again, unless they were given for ever.
#[test]
fn deleted_names() {
    let settings = Settings { permanent_prefixes: vec!["10.2".into()], ..Settings::default() };
    let registry = with(store::new(), settings);
    for name in ["10.1/x", "10.1/y", "10.2/x"] {
        check(&registry, "operator", &create(name, vec![admin(100, 0x0fff, ADMIN)]), 1);
    }
    check(&registry, ADMIN, &delete("10.1/X"), 1);
    check(&registry, ADMIN, &delete("10.2/x"), 1);
    check(&registry, ADMIN, &Write::Delete { name: Handle::from("10.1/y"), for_ever: true }, 1);
    check(&registry, "operator", &create("10.1/x", vec![]), 1);
    for ended in ["10.2/X", "10.1/y"] {
        check(&registry, "operator", &create(ended, vec![]), 101);
        check(&registry, "operator", &overwrite(ended, vec![]), 101);
        check(&registry, "operator", &delete(ended), 100);
        check(&registry, "operator", &add(ended, false, vec![url(1, "https://a/")]), 100);
        let query = Query::new(Handle::from(ended));
        let outcome = block_on(registry.resolve(&query, &caller("operator"), &mut Work::new(1_000)));
        assert!(matches!(outcome, Err(Error::Tombstone)), "{outcome:?}");
    }
}

#[test]
fn homed_prefixes() {
    let settings = Settings {
        server_admins: vec![Reference::parse("300:10.1/server")],
        home_only_admins: vec![Reference::parse("0:10.1/homer")],
        ..Settings::default()
    };
    let registry = with(store::new(), settings);
    let listed = |who: &str, after: Option<&str>, limit| {
        block_on(registry.list_homed(after, limit, &caller(who), &mut Work::new(1_000)))
    };
    for who in ["300:10.1/server", "7:10.1/homer", "operator"] {
        check(&registry, who, &home("0.NA/20.a"), 1);
        assert_eq!(resolve(&registry, "anonymous", &Query::new(Handle::from("20.A/x"))), Err(100));
        check(&registry, who, &unhome("20.A"), 1);
        check(&registry, who, &unhome("20.A"), 1);
        assert_eq!(resolve(&registry, "anonymous", &Query::new(Handle::from("20.A/x"))), Err(301));
        let page = listed(who, None, 2).unwrap();
        assert_eq!(page.names, ["0.NA/0.NA".into(), "0.NA/10.1".into()]);
        let rest = listed(who, page.next.as_deref(), 2).unwrap();
        assert_eq!(rest, Page { names: vec!["0.NA/10.2".into()], next: None });
    }
    assert_eq!(code(&listed("301:10.1/server", None, 2)), 400);
    assert_eq!(code(&listed("anonymous", None, 2)), 402);
    // They administer the server, and no records.
    put(registry.store(), "10.1/x", vec![admin(100, 0x0fff, ADMIN)]);
    check(&registry, "300:10.1/server", &delete("10.1/x"), 400);
    check(&registry, "300:10.1/server", &create("10.1/new", vec![]), 400);
}

#[test]
fn server_admins_with_full_access() {
    let settings = Settings {
        server_admins: vec![Reference::parse("300:10.1/server")],
        server_admins_full_access: true,
        prefix_admins: false,
        ..Settings::default()
    };
    let registry = with(store::new(), settings);
    check(&registry, ONE, &create("10.1/x", vec![]), 400);
    check(&registry, "300:10.1/server", &create("10.1/x", vec![note(1, 0x0c)]), 1);
    let query = Query { public_only: false, ..Query::new(Handle::from("10.1/x")) };
    assert_eq!(resolve(&registry, "300:10.1/server", &query), Ok(vec![1]));
    check(&registry, "300:10.1/server", &delete("10.1/x"), 1);
}

#[test]
fn lists() {
    let settings =
        Settings { server_admins: vec![Reference::parse("300:10.1/server")], ..Settings::default() };
    let registry = with(store::new(), settings);
    for name in ["10.1/b", "10.1/A", "10.1/c", "10.2/x", "0.NA/10.1.2", "0.NA/10.1.2.3", "0.NA/10.11"] {
        put(registry.store(), name, vec![]);
    }
    commit(registry.store(), Edit::Tombstone { name: "10.1/b".into(), expect: Expect::Live });
    let count = |who: &str, prefix: &str, limit| {
        let (mut total, mut after): (u64, Option<Box<str>>) = (0, None);
        loop {
            let (caller, mut work) = (caller(who), Work::new(1_000));
            let counted = registry.count(Handle::from(prefix), after.as_deref(), limit, &caller, &mut work);
            let part = block_on(counted).unwrap();
            total += part.names;
            after = part.next;
            if after.is_none() {
                return total;
            }
        }
    };
    let list = |who: &str, prefix: &str, limit| -> Result<String, u32> {
        let (mut names, mut after): (Vec<Box<str>>, Option<Box<str>>) = (Vec::new(), None);
        loop {
            let (caller, mut work) = (caller(who), Work::new(1_000));
            let listed = registry.list(Handle::from(prefix), after.as_deref(), limit, &caller, &mut work);
            let page = block_on(listed).map_err(|error| error.response_code().0)?;
            names.extend(page.names);
            after = page.next;
            if after.is_none() {
                assert_eq!(count(who, prefix, limit), names.len() as u64, "{who} {prefix} {limit}");
                return Ok(names.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "));
            }
        }
    };
    for limit in [1, 2, 3, 100] {
        for prefix in ["10.1", "0.NA/10.1", "0.na/10.1"] {
            assert_eq!(list(ONE, prefix, limit), Ok("10.1/A 10.1/c".into()));
        }
        assert_eq!(list("operator", "0.NA/0.NA/10.1", limit), Ok("0.NA/10.1.2 0.NA/10.1.2.3".into()));
        assert_eq!(list("operator", "0.NA/0.NA/10.2", limit), Ok(String::new()));
    }
    assert_eq!(list("300:10.1/server", "10.2", 10), Ok("10.2/x".into()));
    assert_eq!(list(ONE, "10.2", 10), Err(400));
    assert_eq!(list("anonymous", "10.1", 10), Err(402));
    assert_eq!(list(ONE, "10.9", 10), Err(301));
    assert_eq!(list(ONE, "10.1/A", 10), Err(301));
    // To count is to list.
    for (who, prefix, expected) in [(ONE, "10.2", 400), ("anonymous", "10.1", 402), (ONE, "10.9", 301)] {
        let (caller, mut work) = (caller(who), Work::new(1_000));
        let counted = block_on(registry.count(Handle::from(prefix), None, 9, &caller, &mut work));
        assert_eq!(counted.map_err(|error| error.response_code().0), Err(expected), "{who} {prefix}");
    }
    let closed = with(store::new(), Settings { list_handles: false, ..Settings::default() });
    let listed =
        block_on(closed.list(Handle::from("10.1"), None, 9, &caller("operator"), &mut Work::new(100)));
    assert_eq!(code(&listed), 5);
}

#[test]
fn names_without_a_slash_and_derived_prefixes() {
    let registry = registry();
    let resolved = |name: &str| resolve(&registry, "anonymous", &Query::new(Handle::from(name)));
    assert_eq!(resolved("10.1"), Ok(vec![100]));
    assert_eq!(resolved("0.na/10.1"), Ok(vec![100]));
    assert_eq!(resolved("10.7"), Err(100));
    // Without 0.NA, only what is derived from a prefix of which all derived ones are kept here.
    commit(registry.store(), Edit::Unhome { prefix: "0.NA".into() });
    assert_eq!(resolved("10.1"), Err(301));
    check(&registry, "operator", &home("0.NA/0.NA/10.1"), 1);
    assert_eq!(resolved("10.1.2"), Err(100));
    assert_eq!(resolved("0.NA/10.1"), Err(301));
    // The prefix's own record is elsewhere now, and what is left of it here gives no rights.
    check(&registry, ONE, &create("10.1/new", vec![]), 400);
}

#[test]
fn referrals() {
    let registry = registry();
    let site = |index, value_type: &'static str| Value::new(index, value_type, "x");
    put(registry.store(), "0.NA/10", vec![site(1, "HS_SERV.PREFIX")]);
    put(
        registry.store(),
        "0.NA/10.1",
        vec![site(1, "HS_SITE"), site(2, "HS_SITE.PREFIX"), site(3, "HS_NA_DELEGATE")],
    );
    put(registry.store(), "0.NA/10.1.5", vec![url(7, "https://a/")]);
    let referred = |name: &str, refer| {
        let query = Query { refer, ..Query::new(Handle::from(name)) };
        match block_on(registry.resolve(&query, &caller("anonymous"), &mut Work::new(1_000))) {
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

#[test]
fn sessions_ask_who_it_is() {
    let registry = registry();
    put(registry.store(), "10.1/x", vec![url(1, "https://a/")]);
    let query = |public_only| Query { public_only, in_session: true, ..Query::new(Handle::from("10.1/x")) };
    assert_eq!(resolve(&registry, "anonymous", &query(false)), Err(402));
    assert_eq!(resolve(&registry, "anonymous", &query(true)), Ok(vec![1]));
    assert_eq!(resolve(&registry, "300:10.1/b", &query(false)), Ok(vec![1]));
}

/// What a server hands to its threads.
#[test]
fn futures_can_be_sent() {
    fn sent<T: Send>(_: T) {}
    let (registry, work) = (registry(), &mut Work::new(1_000));
    let (who, prefix) = (caller("operator"), Handle::from("10.1"));
    sent(registry.resolve(&Query::new(prefix), &who, work));
    sent(registry.write(&home("10.1"), &who, NOW, work));
    sent(registry.list(prefix, None, 1, &who, work));
    sent(registry.list_homed(None, 1, &who, work));
    sent(registry.authorize(&Operation::ListHomed, &Reference::parse("x"), work));
    sent(registry.keys(prefix, work));
}

fn made(registry: &Registry<impl Store>, name: &str) -> Result<String, u32> {
    let query = Query::new(Handle::from(name));
    match block_on(registry.resolve(&query, &caller("anonymous"), &mut Work::new(50_000))) {
        Ok(Resolution::Values(values)) => {
            Ok(values.iter().map(|value| String::from_utf8_lossy(&value.data)).collect::<Vec<_>>().join(" "))
        }
        Ok(_) => Err(303),
        Err(error) => Err(error.response_code().0),
    }
}

#[test]
fn names_made_by_templates() {
    let template =
        |inside: &str| format!("<namespace><template delimiter='@'{inside}</template></namespace>");
    let namespace = |index, xml: String| Value::new(index, "HS_NAMESPACE", xml);
    let registry = registry();
    put(registry.store(), "10.1/x", vec![url(1, "https://a/")]);
    put(registry.store(), "10.1/x@stored", vec![url(1, "https://stored/")]);
    assert_eq!(made(&registry, "10.1/x@y"), Err(100));
    let first = template("><foreach><value data='${data}${extension}'/></foreach>");
    let second = template("><notfound/>");
    put(registry.store(), "0.NA/10.1", vec![namespace(2, second), namespace(1, first)]);
    assert_eq!(made(&registry, "10.1/x@y"), Ok("https://a/y".into()));
    assert_eq!(made(&registry, "10.1/X@Y@Z"), Ok("https://a/Y@Z".into()));
    assert_eq!(made(&registry, "10.1/x@stored"), Ok("https://stored/".into()));
    assert_eq!(made(&registry, "10.1/none@y"), Err(100));
    assert_eq!(made(&registry, "10.1/none"), Err(100));
    assert_eq!(made(&registry, "10.2/x@y"), Err(100));
    // A template that is elsewhere; one that leads in a circle; one that is not here.
    put(registry.store(), "0.NA/10.1", vec![namespace(1, template(" ref='7:10.2/t'>"))]);
    assert_eq!(made(&registry, "10.1/x@y"), Err(2));
    put(
        registry.store(),
        "10.2/t",
        vec![Value::new(7, "X", "<template><value type='A'>b</value></template>")],
    );
    assert_eq!(made(&registry, "10.1/x@y"), Ok("b".into()));
    // One that not everybody may read: whoever writes a template would read it by this.
    let hidden = Value::new(7, "X", "<template><value type='A'>secret</value></template>");
    put(registry.store(), "10.2/t", vec![Value { permissions: Permissions(0x0c), ..hidden }]);
    assert_eq!(made(&registry, "10.1/x@y"), Err(2));
    put(registry.store(), "10.2/t", vec![namespace(7, template(" ref='7:10.2/t'>"))]);
    assert_eq!(made(&registry, "10.1/x@y"), Err(2));
    put(registry.store(), "0.NA/10.1", vec![namespace(1, template("><notfound/>"))]);
    assert_eq!(made(&registry, "10.1/x@y"), Err(100));
    put(registry.store(), "0.NA/10.1", vec![namespace(1, "not XML".into())]);
    assert_eq!(made(&registry, "10.1/x@y"), Err(100));
    // Records of prefixes are never made, whatever the root says.
    put(registry.store(), "0.NA/0.NA", vec![namespace(1, template("><value type='A'>b</value>"))]);
    assert_eq!(made(&registry, "0.NA/10.1@y"), Err(100));
    // What was ended is not made again.
    put(registry.store(), "0.NA/10.1", vec![namespace(1, template("><value type='A'>b</value>"))]);
    commit(registry.store(), Edit::Tombstone { name: "10.1/x@stored".into(), expect: Expect::Live });
    assert_eq!(made(&registry, "10.1/x@stored"), Err(100));
    commit(registry.store(), Edit::Tombstone { name: "10.1/x".into(), expect: Expect::Live });
    assert_eq!(made(&registry, "10.1/x@y"), Err(100));
}

#[test]
fn templates_of_the_settings() {
    let registry_with = |templates| {
        let registry = with(store::new(), Settings { templates, ..Settings::default() });
        put(registry.store(), "10.1/x", vec![url(1, "https://a/")]);
        let xml = "<namespace><template delimiter='@'><value type='A'>prefix</value></template></namespace>";
        put(registry.store(), "0.NA/10.2", vec![Value::new(1, "HS_NAMESPACE", xml)]);
        put(registry.store(), "10.2/x", vec![url(1, "https://b/")]);
        registry
    };
    let namespace =
        "<namespace><template delimiter='!'><value type='A'>settings</value></template></namespace>";
    let both = registry_with(TemplateSettings {
        by_prefix: true,
        namespace: Some(namespace.into()),
        delimiter: Some("?".into()),
    });
    assert_eq!(made(&both, "10.1/x!y"), Ok("settings".into()));
    assert_eq!(made(&both, "10.1/x?y"), Err(100));
    assert_eq!(made(&both, "10.2/x@y"), Ok("prefix".into()));
    let only_delimiter =
        registry_with(TemplateSettings { by_prefix: false, namespace: None, delimiter: Some("?".into()) });
    assert_eq!(made(&only_delimiter, "10.1/x?y"), Ok("https://a/".into()));
    assert_eq!(made(&only_delimiter, "10.2/x@y"), Err(100));
}

/// To delete a record and to create it again is to overwrite it.
#[test]
fn delete_and_create_is_overwrite() {
    let registry = registry();
    put(registry.store(), "0.NA/10.1", vec![admin(100, 0x0001, ADMIN)]);
    put(registry.store(), "10.1/x", vec![url(1, "https://a/"), admin(100, 0x0002, ADMIN)]);
    check(&registry, ADMIN, &forced(overwrite("10.1/x", vec![url(1, "https://b/")])), 1);
}

#[test]
fn keys_for_proofs() {
    let registry = registry();
    let secret = Value { permissions: Permissions(0), ..Value::new(301, "HS_SECKEY", "secret") };
    put(
        registry.store(),
        "10.1/a",
        vec![url(1, "https://a/"), secret.clone(), Value::new(300, "HS_PUBKEY", "x")],
    );
    put(registry.store(), "10.9/a", vec![secret]);
    let keys = |name| {
        let keys = block_on(registry.keys(Handle::from(name), &mut Work::new(1_000))).unwrap();
        keys.iter().map(|value| value.index).collect::<Vec<_>>()
    };
    assert_eq!(keys("10.1/A"), [301, 300]);
    assert!(keys("10.1/none").is_empty());
    assert!(keys("10.9/a").is_empty(), "what is not ours proves nothing");
}

/// Those who may search find records by what everybody may read in them, in as many slices as it takes.
#[test]
fn searching() {
    let settings = Settings {
        server_admins: vec![Reference::parse("300:10.1/server")],
        searchers: vec![Reference::parse("301:10.1/finder"), Reference::parse("0:10.1/any")],
        home_only_admins: vec![Reference::parse("300:10.1/homes")],
        ..Settings::default()
    };
    let registry = with(store::new(), settings);
    let typed = |index, value_type, data| Value::new(index, value_type, data);
    let hidden = Value { permissions: Permissions(0x0c), ..url(2, "https://hidden/") };
    put(
        registry.store(),
        "10.1/One",
        vec![url(1, "https://a/1"), typed(2, "SUM", "1"), typed(3, "SUM", "22")],
    );
    put(registry.store(), "10.1/two", vec![url(1, "https://a/2"), hidden]);
    put(registry.store(), "10.2/three", vec![typed(1, "URL.mobile", "https://a/3"), typed(2, "sum", "2")]);
    put(registry.store(), "10.9/left", vec![url(1, "https://a/left behind")]);
    put(registry.store(), "10.1/ended", vec![url(1, "https://a/ended")]);
    commit(registry.store(), Edit::Tombstone { name: "10.1/ended".into(), expect: Expect::Live });
    let find = |who: &str, prefix: Option<&str>, terms: &[(&str, &str)], steps| {
        let mut search = Search::default();
        search.prefix = prefix.map(Into::into);
        terms.iter().for_each(|(value_type, pattern)| search.add(value_type, pattern));
        let (mut found, mut after) = (Vec::new(), None::<Box<str>>);
        loop {
            let work = &mut Work::new(steps);
            let matches = block_on(registry.search(&search, after.as_deref(), &caller(who), work));
            let matches = matches.map_err(|error| error.response_code().0)?;
            assert!(matches.records.iter().all(|one| one.values.is_empty()));
            found.extend(matches.records.into_iter().map(|one| one.name.into_string()));
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
    // One value has to fit both.
    check(None, &[("SUM", "2*"), ("sum", "*2")], &["10.1/One", "10.2/three"]);
    check(None, &[("SUM", "1*"), ("SUM", "*2")], &[]);
    for (who, expected) in [
        ("anonymous", Err(402)),
        ("300:10.1/server", Ok(1)),
        ("301:10.1/finder", Ok(1)),
        ("300:10.1/finder", Err(400)),
        ("7:10.1/any", Ok(1)),
        ("300:10.1/homes", Err(400)),
        (ONE, Err(400)),
    ] {
        let found = find(who, None, &[("URL", "https://a/1")], 1_000);
        assert_eq!(found.map(|found| found.len()), expected, "{who}");
        assert_eq!(find(who, None, &[], 1_000).map(|_| 1), expected, "{who}");
    }
    let mut search = Search::default();
    search.with_values = true;
    search.add("URL", "https://a/2");
    let work = &mut Work::new(1_000);
    let shown = block_on(registry.search(&search, None, &caller("operator"), work)).unwrap().records;
    assert_eq!(shown[0].values.iter().map(|value| value.index).collect::<Vec<_>>(), [1]);
}

/// What a server kept before its site was split anew is neither found nor counted, as it is not listed.
#[test]
fn leftovers_of_a_share() {
    let site =
        Site { hash_option: HashOption::WHOLE, servers: vec![Server::default(); 3], ..Site::default() };
    let share = Share::of(&site, 1);
    let registry = with(store::new(), Settings { share, ..Settings::default() });
    for number in 0..30 {
        put(registry.store(), &format!("10.1/{number}"), vec![url(1, "https://a/")]);
    }
    let (prefix, operator) = (Handle::from("10.1"), caller("operator"));
    let listed = block_on(registry.list(prefix, None, 100, &operator, &mut Work::new(1_000))).unwrap().names;
    assert!((1..30).contains(&listed.len()), "{listed:?}");
    let mut search = Search::default();
    search.add("URL", "*");
    let found = block_on(registry.search(&search, None, &operator, &mut Work::new(1_000))).unwrap().records;
    assert_eq!(found.into_iter().map(|one| one.name).collect::<Vec<_>>(), listed);
    let (mut counted, mut after) = (0, None::<Box<str>>);
    loop {
        let work = &mut Work::new(1_000);
        let count = block_on(registry.count(prefix, after.as_deref(), 7, &operator, work)).unwrap();
        counted += count.names;
        after = count.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(counted, listed.len() as u64);
}

/// The other of two servers, asked as it is over a connection.
#[derive(Debug)]
struct Other(Registry<store::Kept>);

impl Neighbours for Other {
    fn values<'a>(&'a self, name: &'a str, work: &'a mut Work) -> Said<'a, Option<Vec<Value<'static>>>> {
        Box::pin(async move {
            match self.0.resolve(&Query::new(Handle::from(name)), &Caller::Anonymous, work).await {
                Ok(Resolution::Values(values)) => Ok(Some(values)),
                Ok(Resolution::Referral(_)) | Err(Error::NotFound) => Ok(None),
                Err(error) => Err(error),
            }
        })
    }

    fn fits<'a>(
        &'a self,
        _: &'a Reference<'a>,
        _: Challenge<'a>,
        _: &'a [u8],
        _: &'a mut Work,
    ) -> Said<'a, bool> {
        Box::pin(async { Ok(false) })
    }
}

/// Values that a template makes are no keys, neither here nor at another server.
#[test]
fn what_is_made_up_governs_nothing() {
    let site =
        Site { hash_option: HashOption::WHOLE, servers: vec![Server::default(); 2], ..Site::default() };
    let xml =
        "<namespace><template delimiter='@'><value type='HS_PUBKEY'>made</value></template></namespace>";
    let check = |place: usize, base: &str, is_in_settings: bool| {
        let server = |place| {
            let namespace = is_in_settings.then(|| xml.into());
            let templates = TemplateSettings { namespace, ..TemplateSettings::default() };
            let share = Share::of(&site, place);
            let registry = with(store::new(), Settings { share, templates, ..Settings::default() });
            if !is_in_settings {
                put(registry.store(), "0.NA/10.1", vec![Value::new(1, "HS_NAMESPACE", xml)]);
            }
            put(registry.store(), base, vec![Value::new(300, "HS_PUBKEY", "stored")]);
            registry
        };
        let there = server(1 - place).with_neighbours(Arc::new(Other(server(place))));
        let made = format!("{base}@x");
        assert_eq!(resolve(&there, "anonymous", &Query::new(Handle::from(&*made))), Ok(vec![1]), "{made}");
        let here = server(place).with_neighbours(Arc::new(Other(there)));
        let keys = |name| block_on(here.keys(Handle::from(name), &mut Work::new(1_000))).unwrap().len();
        assert_eq!((keys(base), keys(&made)), (1, 0), "{made}");
    };
    for place in 0..2 {
        let is_there = |name: &str| Share::of(&site, 1 - place).unwrap().has(Handle::from(name));
        let mut names = (0..).map(|number| format!("10.1/{number}"));
        let base = names.find(|name| is_there(name) && is_there(&format!("{name}@x"))).unwrap();
        check(place, &base, false);
        check(place, &base, true);
    }
}
