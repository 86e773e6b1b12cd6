//! `tendot token`: a token is printed once, is restricted to its scopes and prefixes, and is rejected after revocation.

use serde_json::json;

use super::{TestRegistry, check_error, normalize};
use crate::support::{StoreKind, tests_per_store};

tests_per_store!(tokens);

fn tokens(store: StoreKind) {
    let registry = TestRegistry::start(store);
    let press = &*registry.registrant;
    let arguments = [
        "token",
        "create",
        "--role",
        "registrant",
        "--subject",
        press,
        "--scope",
        "deposit",
        "--label",
        "nightly",
        "--expires",
        "2097-01-31",
        "--prefix",
        "10.70000",
    ];
    let created = registry.run(&arguments);
    let token = String::from_utf8(created.stdout).unwrap();
    assert_eq!(token.lines().count(), 1);
    let stderr = String::from_utf8_lossy(&created.stderr);
    assert!(
        stderr.ends_with("created; it is shown only once\n") && !stderr.contains(token.trim()),
        "{stderr}"
    );
    let listed = registry.json(&["token", "list"]);
    let [only] = &listed[..] else { panic!("{listed:?}") };
    assert_eq!((&only["scopes"], &only["expires"]), (&json!(["deposit"]), &json!("2097-01-31T00:00:00Z")));
    assert_eq!((&only["label"], &only["prefixes"]), (&json!("nightly"), &json!(["10.70000"])));
    let id = only["id"].as_str().unwrap();
    let table = registry.run_ok(&["token", "list"]);
    let expected = "ID            ROLE        SUBJECT       SCOPES   PREFIXES  EXPIRES LABEL\n\
                    ID            registrant  PRESS         deposit  10.70000  TIME  nightly";
    assert_eq!(
        normalize(&table, &[(press, "PRESS"), (id, "ID")]).replace("               LABEL", " LABEL"),
        expected
    );

    let with = |token: &str, arguments: &[&str]| {
        registry.command(arguments).env("TENDOT_TOKEN", token).output().unwrap()
    };
    let create = ["doi", "create", "10.70000/t", "--url", "https://example.org/t"];
    assert!(with(&token, &create).status.success());
    check_error(&with(&token, &["agency", "create", "X", "Y"]), 2, "error: ", &[]);
    let revoked = registry.json(&["token", "revoke", id]);
    assert_eq!(revoked, [json!({"revoked": [id], "children": [], "proposals": []})]);
    check_error(&with(&token, &create), 2, "hint: the token is unknown, revoked or expired", &[]);
    registry.run_error(&["token", "revoke", id], 1, "(not-found)");
}
