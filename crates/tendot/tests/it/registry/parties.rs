//! `tendot agency`, `registrant`, `prefix` and `transfer`: create, list, show, update, transfer and close.

use serde_json::json;

use super::{TestRegistry, check_error, normalize};
use crate::support::{StoreKind, tests_per_store};

tests_per_store!(agencies_registrants_prefixes, agency_closed_by_consent);

fn agencies_registrants_prefixes(store: StoreKind) {
    let registry = TestRegistry::start(store);
    let shop = agencies_and_registrants(&registry);
    prefix_policies(&registry, &shop);
    transfer_and_close(&registry);
}

/// Output of a command, with the ids of the two registrants as names.
#[track_caller]
fn check(registry: &TestRegistry, shop: &str, arguments: &[&str], expected: &str) {
    let ids = [(&*registry.registrant, "PRESS"), (shop, "SHOP")];
    assert_eq!(normalize(&registry.run_ok(arguments), &ids), expected, "{arguments:?}");
}

/// Creates another agency and registrant; returns the id of the registrant.
fn agencies_and_registrants(registry: &TestRegistry) -> String {
    let settings = ["--metadata", "required", "--range", "10.71000-10.71009", "--locations", "10.70000/loc"];
    assert_eq!(registry.run_ok(&[&["agency", "create", "MUS", "The museum"][..], &settings].concat()), "MUS");
    let shop = registry.run_ok(&[
        "registrant",
        "create",
        "--agency",
        "mus",
        "Shop",
        "--admin",
        "300:10.71000/admin",
    ]);
    let show = |arguments: &[&str], expected: &str| check(registry, &shop, arguments, expected);
    show(
        &["agency", "list"],
        "CODE  NAME         STATE   METADATA  CREATED\n\
         LIB   The library  active  optional  TIME\n\
         MUS   The museum   active  required  TIME",
    );
    show(
        &["agency", "update", "mus", "--name", "Museums", "--metadata", "optional"],
        "MUS\n  name       Museums\n  state      active\n  metadata   optional\n  \
         range      first 10.71000, last 10.71009\n  locations  10.70000/loc\n  created    TIME",
    );
    show(
        &["agency", "show", "LIB"],
        "LIB\n  name       The library\n  state      active\n  metadata   optional\n  created    TIME",
    );
    show(
        &["registrant", "show", &shop],
        "SHOP\n  agency   MUS\n  name     Shop\n  admins   300:10.71000/admin\n  created  TIME",
    );
    show(
        &["registrant", "update", &shop, "--contact", "shop@example.org", "--unset", "admins"],
        "SHOP\n  agency   MUS\n  name     Shop\n  contact  shop@example.org\n  created  TIME",
    );
    show(
        &["registrant", "list", "--agency", "LIB"],
        "ID            AGENCY  NAME   CONTACT\nPRESS         LIB     Press  a@b.org",
    );
    shop
}

fn prefix_policies(registry: &TestRegistry, shop: &str) {
    let press = &*registry.registrant;
    let show = |arguments: &[&str], expected: &str| check(registry, shop, arguments, expected);
    let policy = [
        "--pattern",
        "[a-z]+",
        "--host",
        "example.org",
        "--host",
        "example.net",
        "--quota",
        "2",
        "--confusable",
        "refuse",
    ];
    let prefix =
        registry.run_ok(&[&["prefix", "create", "--registrant", shop, "--test"][..], &policy].concat());
    assert_eq!(prefix, "10.71000");
    show(
        &["prefix", "list"],
        "PREFIX    REGISTRANT    AGENCY  TEST  POLICY\n\
         10.70000  PRESS         LIB     no    -\n\
         10.71000  SHOP          MUS     yes   confusable refuse, hosts example.org, example.net, pattern [a-z]+, quota 2",
    );
    // Omitted fields stay unchanged.
    show(
        &["prefix", "update", "10.71000", "--quota", "3", "--unset", "hosts", "--unset", "confusable"],
        "10.71000\n  registrant  SHOP\n  agency      MUS\n  test        yes\n  policy      pattern [a-z]+, quota 3\n  \
         allocated   TIME",
    );
    assert_eq!(registry.json(&["prefix", "list", "--registrant", press])[0]["prefix"], "10.70000");
    assert_eq!(registry.json(&["prefix", "list", "--agency", "MUS", "--limit", "1"]).len(), 1);
    registry.run_error(
        &["doi", "create", "10.71000/A1", "--url", "https://example.org/"],
        1,
        "(suffix-pattern at /name)",
    );
    registry.run_error(&["prefix", "create", "--registrant", press, "10.71000"], 1, "error: ");
}

fn transfer_and_close(registry: &TestRegistry) {
    let press = &*registry.registrant;
    let transfer = registry.run_ok(&["transfer", "create", "--prefix", "10.71000", "--to", press]);
    assert_eq!(registry.json(&["transfer", "list"])[0]["state"], "proposed");
    assert_eq!(registry.json(&["transfer", "decline", &transfer])[0]["state"], "declined");
    registry.run_ok(&["transfer", "create", "--prefix", "10.71000", "--to", press, "--force", "--yes"]);
    assert_eq!(registry.json(&["prefix", "show", "10.71000"])[0]["registrant"], press);

    let closed = registry.run(&["agency", "close", "LIB", "--successor", "MUS", "--force", "--yes"]);
    let message = "agency LIB closed; its registrants, prefixes and DOI names now belong to MUS\n";
    assert_eq!(String::from_utf8_lossy(&closed.stderr), message);
    let agency = registry.json(&["agency", "show", "LIB"]).remove(0);
    assert_eq!((&agency["state"], &agency["successor"]), (&json!("closed"), &json!("MUS")));
    assert_eq!(registry.json(&["registrant", "show", press])[0]["agency"], "MUS");
}

/// The agency proposes its closure, the successor accepts; no other agency can, and nothing changes before.
fn agency_closed_by_consent(store: StoreKind) {
    let registry = TestRegistry::start(store);
    registry.run_ok(&["agency", "create", "MUS", "The museum"]);
    registry.run_ok(&["agency", "create", "ZOO", "The zoo"]);
    registry.run_ok(&["doi", "create", "10.70000/a", "--url", "https://example.org/a"]);
    let token = |code| registry.run_ok(&["token", "create", "--role", "agency", "--subject", code]);
    let [lib, mus, zoo] = ["LIB", "MUS", "ZOO"].map(token);
    let with = |token: &str, arguments: &[&str]| {
        registry.command(arguments).env("TENDOT_TOKEN", token).output().unwrap()
    };
    let close = ["agency", "close", "LIB", "--successor", "MUS"];
    let forced = [&close[..], &["--force", "--yes"]].concat();
    check_error(&with(&lib, &forced), 2, "only the operator can force a transfer", &forced);
    check_error(&with(&mus, &close), 2, "(forbidden)", &close);
    let propose = || {
        let proposed = with(&lib, &close);
        let id = String::from_utf8(proposed.stdout).unwrap().trim_end().to_owned();
        let message =
            format!("closure of agency LIB proposed; MUS accepts it with `tendot transfer accept {id}`\n");
        assert_eq!(String::from_utf8_lossy(&proposed.stderr), message);
        id
    };
    let state = || registry.json(&["agency", "show", "LIB"])[0]["state"].clone();
    let id = propose();
    assert_eq!(state(), "active");
    assert!(with(&mus, &["transfer", "decline", &id]).status.success());
    assert_eq!(state(), "active");

    let id = propose();
    let accept = ["transfer", "accept", &*id];
    check_error(&with(&lib, &accept), 2, "only the recipient can accept a transfer", &accept);
    check_error(&with(&zoo, &accept), 1, "(not-found)", &accept);
    assert_eq!(state(), "active");
    let accepted = with(&mus, &accept);
    let stdout = String::from_utf8_lossy(&accepted.stdout);
    assert!(accepted.status.success() && stdout.contains("  state     done\n"), "{stdout}");
    let agency = registry.json(&["agency", "show", "LIB"]).remove(0);
    assert_eq!((&agency["state"], &agency["successor"]), (&json!("closed"), &json!("MUS")));
    assert_eq!(registry.json(&["doi", "show", "10.70000/a"])[0]["agency"], "MUS");
}
