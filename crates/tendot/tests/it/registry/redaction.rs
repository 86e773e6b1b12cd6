//! `tendot doi redact`: removes personal data from a history, marks it, tells the change feed, and keeps the audit chain.

use serde_json::{Value as Json, json};
use tendot_testing::http::HttpRequest;

use super::{TestRegistry, check_error};
use crate::support::{StoreKind, TestDir, TestServer, tests_per_store};

tests_per_store!(statement_116_redaction_of_a_history);

fn metadata(author: &str) -> String {
    format!(
        r#"{{"primaryReferentType":"Creation","referentCreation":{{
        "name":[{{"value":"A title","type":"Title"}}],"structuralType":"Digital","mode":["Visual"],"character":["Language"],
        "type":["Article"],"principalAgent":[{{"name":{{"value":"{author}","type":"Name"}},"role":"Author"}}]}}}}"#
    )
}

fn statement_116_redaction_of_a_history(store: StoreKind) {
    let dir = TestDir::new();
    let env = store.env();
    let server = TestServer::builder(&dir).envs(env.clone()).start();
    let registry = TestRegistry::with_prefix(dir, server);
    registry.dir.write("person.json", metadata("Private, Person"));
    registry.dir.write("other.json", metadata("Other, Author"));
    let create = |name: &str| {
        registry.run_ok(&[
            "doi",
            "create",
            name,
            "--url",
            "https://example.org/~private",
            "--metadata",
            "person.json",
            "--value",
            "3:EMAIL:private@example.org",
        ]);
    };
    let token = |role, subject| registry.run_ok(&["token", "create", "--role", role, "--subject", subject]);
    let (agency, press) = (token("agency", "LIB"), token("registrant", &registry.registrant));
    let with = |token: &str, arguments: &[&str]| {
        registry.command(arguments).env("TENDOT_TOKEN", token).output().unwrap()
    };
    let get = |path: &str| HttpRequest::new("GET", path).send(registry.server.address()).text().into_owned();
    let is_clean =
        |text: &str| !text.contains("Private") && !text.contains("private@") && !text.contains("~private");

    create("10.70000/a");
    registry.run_ok(&[
        "doi",
        "update",
        "10.70000/a",
        "--url",
        "https://example.org/a",
        "--metadata",
        "other.json",
    ]);
    registry.run_ok(&["doi", "update", "10.70000/a", "--value", "3:EMAIL:office@example.org"]);
    let before: Json = serde_json::from_str(&get("/api/v1/history/10.70000/a")).unwrap();
    assert!(!is_clean(&before.to_string()));
    let redact = ["doi", "redact", "10.70000/a", "--reason", "request 17", "--yes"];
    check_error(&with(&press, &redact), 2, "(forbidden)", &redact);
    let anonymous = registry.command(&redact).env_remove("TENDOT_TOKEN").output().unwrap();
    check_error(&anonymous, 2, "authentication required", &redact);
    registry.run_error(&["doi", "redact", "10.70000/none", "--reason", "x", "--yes"], 1, "(not-found)");
    let done = with(&agency, &redact);
    assert_eq!(String::from_utf8_lossy(&done.stderr), "2 states redacted; copies in backups remain\n");

    let after: Json = serde_json::from_str(&get("/api/v1/history/10.70000/a")).unwrap();
    assert!(is_clean(&after.to_string()), "{after}");
    let items = |history: &Json| history["items"].as_array().unwrap().clone();
    let (before, after) = (items(&before), items(&after));
    assert_eq!(after.len(), before.len() + 1);
    for (old, new) in before.iter().zip(&after) {
        for member in ["seq", "kind", "at", "by"] {
            assert_eq!(old[member], new[member]);
        }
    }
    let mark = &after[1]["before"]["redacted"];
    assert_eq!((&mark["by"], &mark["reason"]), (&json!("agency:LIB"), &json!("request 17")));
    assert_eq!((&after[1]["before"]["values"], &after[1]["before"]["metadata"]), (&json!([]), &json!(null)));
    assert_eq!(after[1]["before"]["state"], "registered");
    let last = after.last().unwrap();
    assert_eq!((&last["kind"], &last["by"]), (&json!("redact"), &json!("agency:LIB")));
    assert!(is_clean(&get("/10.70000/a?history")));
    assert!(get("/10.70000/a?history").contains("redacted: <bdi>request 17</bdi>"));
    // The current state stays.
    let shown = &registry.json(&["doi", "show", "10.70000/a"])[0];
    assert!(shown.to_string().contains("Other, Author") && shown.to_string().contains("office@example.org"));
    let feed = get("/api/v1/changes");
    let last: Json = serde_json::from_str(feed.lines().last().unwrap()).unwrap();
    assert_eq!((&last["kind"], &last["name"]), (&json!("redact"), &json!("10.70000/a")));
    let again = with(&agency, &redact);
    assert_eq!(
        String::from_utf8_lossy(&again.stderr),
        "nothing to redact; the history has no other states\n"
    );
    // Later changes have states again, and can be redacted again.
    registry.run_ok(&["doi", "update", "10.70000/a", "--url", "https://example.org/b"]);
    assert!(get("/api/v1/history/10.70000/a").contains("office@example.org"));
    registry.run_ok(&redact);
    assert!(
        !get("/api/v1/history/10.70000/a").split("\"kind\":\"redact\"").next().unwrap().contains("office@")
    );

    // The last state of a retired name is redacted, because it cannot be updated.
    create("10.70000/gone");
    registry.run_ok(&["doi", "retire", "10.70000/gone", "--yes"]);
    let retired = registry.json(&["doi", "show", "10.70000/gone"])[0]["retired"].clone();
    registry.run_ok(&["doi", "redact", "10.70000/gone", "--reason", "request 18", "--yes"]);
    let shown = registry.json(&["doi", "show", "10.70000/gone"]).remove(0);
    assert!(is_clean(&shown.to_string()), "{shown}");
    assert_eq!((&shown["state"], &shown["retired"]), (&json!("tombstone"), &retired));
    assert!(is_clean(&get("/api/v1/history/10.70000/gone")));
    assert!(is_clean(&get("/10.70000/gone")) && is_clean(&get("/api/v1/metadata/10.70000/gone")));
    // A deleted name has a history, too.
    registry.run_ok(&["doi", "create", "10.70000/draft", "--reserve", "--metadata", "person.json"]);
    registry.run_ok(&["doi", "retire", "10.70000/draft", "--yes"]);
    registry.run_ok(&["doi", "redact", "10.70000/draft", "--reason", "request 19", "--yes"]);
    let history = HttpRequest::new("GET", "/api/v1/history/10.70000/draft").bearer(&registry.token);
    assert!(is_clean(&history.send(registry.server.address()).text()));

    // The audit chain is unbroken, and a backup made now is clean.
    let verified = registry.command(&["verify"]).envs(env.clone()).output().unwrap();
    let report = [verified.stdout, verified.stderr].concat();
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&report));
    let backup = registry.command(&["backup", "redacted.backup"]).envs(env).output().unwrap();
    assert!(backup.status.success(), "{}", String::from_utf8_lossy(&backup.stderr));
    let bytes = std::fs::read(registry.dir.file("redacted.backup")).unwrap();
    for text in ["Private, Person", "private@example.org"] {
        assert!(!bytes.windows(text.len()).any(|window| window == text.as_bytes()), "{text}");
    }
}
