//! `tendot import` of batch files that change and delete records.

use crate::support::{StoreKind, TestDir, TestServer, tests_per_store, text_output};

tests_per_store!(import_of_operations, records_imported_before_their_prefix);

fn import_of_operations(store: StoreKind) {
    let (dir, env) = (TestDir::new(), store.env());
    let run = |arguments: &[&str], code: i32, server: Option<&TestServer>| {
        let mut command = dir.tendot(arguments);
        command.envs(env.clone());
        if let Some(server) = server {
            command.env("TENDOT_SERVER", server.url()).env("TENDOT_TOKEN", server.token());
        }
        let (found, stdout, stderr) = text_output(&mut command);
        assert_eq!(found, Some(code), "{arguments:?}: {stdout}{stderr}");
        (stdout.trim_end().to_owned(), stderr)
    };
    let builder = TestServer::builder(&dir).envs(env.clone());
    let server = builder.start();
    run(&["agency", "create", "LIB", "The library", "--metadata", "optional"], 0, Some(&server));
    let (registrant, _) = run(&["registrant", "create", "--agency", "LIB", "Press"], 0, Some(&server));
    assert_eq!(run(&["prefix", "create", "--registrant", &registrant], 0, Some(&server)).0, "10.70000");
    let url = "1:URL:https://example.org/";
    run(&["handle", "create", "10.70000/x", url], 0, Some(&server));
    run(&["handle", "home", "10.5555"], 0, Some(&server));
    for name in ["10.5555/deleted", "10.5555/changed"] {
        run(&["handle", "create", name, url, "2:DESC:two"], 0, Some(&server));
    }
    assert_eq!(server.terminate(), Some(0));

    let batch = "AUTHENTICATE SECKEY:301:10.5555/ADMIN\nsecret\n\n\
        DELETE 10.70000/x\nDELETE 10.5555/deleted\nDELETE 10.5555/missing\n\
        CREATE 10.5555/deleted\n1 URL 86400 1110 UTF8 https://example.org/again\n\n\
        ADD 10.5555/changed\n3 DESC 86400 1110 UTF8 three\n\n\
        MODIFY 10.5555/changed\n1 URL 86400 1110 UTF8 https://example.org/new\n\n\
        REMOVE 2:10.5555/changed\n\
        CREATE 10.70000/x\n1 URL 86400 1110 UTF8 https://example.org/\n\n\
        DELETE 0.TENDOT/x\n\
        HOME 127.0.0.1:2641:TCP\n0.NA/10.6666\n\nUNHOME 127.0.0.1:2641:TCP\n0.NA/10.6666\n";
    dir.write("changes.txt", batch);
    let (stdout, stderr) = run(&["import", "--dry-run", "changes.txt", "--json"], 1, None);
    assert!(stderr.contains("9 valid, 1 refused"), "{stdout}{stderr}");
    let (stdout, stderr) = run(&["import", "changes.txt", "--json"], 1, None);
    let note = "note: `changes.txt`, line 1: AUTHENTICATE skipped";
    assert!(stderr.contains(note), "{stderr}");
    for line in
        ["line 6: DELETE `10.5555/missing`: ", "`10.70000/x`: the name is retired", "line 20: `0.TENDOT/x`: "]
    {
        assert!(stderr.contains(line), "{line}: {stderr}");
    }
    let summary: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    let count = |name: &str| summary[name].as_u64().unwrap();
    let counts = ["created", "changed", "unchanged", "deleted", "refused"].map(count);
    assert_eq!(counts, [1, 3, 0, 2, 3], "{stdout}");

    let server = builder.start();
    // A name under a prefix of the registry is retired; another one can be created again.
    assert_eq!(server.get("/10.70000/x").status, 410);
    assert_eq!(server.get("/10.5555/deleted").header("location"), Some("https://example.org/again"));
    assert_eq!(server.get("/10.5555/changed").header("location"), Some("https://example.org/new"));
    let record = server.get("/api/handles/10.5555/changed");
    let record = record.text();
    assert!(record.contains("three") && !record.contains("two"), "{record}");
    let (prefixes, _) = run(&["handle", "list"], 0, Some(&server));
    assert!(prefixes.contains("0.NA/10.5555") && !prefixes.contains("10.6666"), "{prefixes}");
}

/// A record that was imported before its prefix was allocated was created when it was imported, and keeps that time.
fn records_imported_before_their_prefix(store: StoreKind) {
    let (dir, env) = (TestDir::new(), store.env());
    let server = TestServer::builder(&dir).envs(env.clone()).start();
    assert_eq!(server.terminate(), Some(0));
    dir.write("names.csv", "name,url\n10.70000/old,https://example.org/old\n");
    let (code, _, stderr) = text_output(dir.tendot(&["import", "names.csv"]).envs(env.clone()));
    assert_eq!(code, Some(0), "{stderr}");
    let server = TestServer::builder(&dir).envs(env).start();
    let run = |arguments: &[&str]| {
        let mut command = dir.tendot(arguments);
        command.env("TENDOT_SERVER", server.url()).env("TENDOT_TOKEN", server.token());
        let (code, stdout, stderr) = text_output(&mut command);
        assert_eq!(code, Some(0), "{arguments:?}: {stderr}");
        stdout.trim_end().to_owned()
    };
    run(&["agency", "create", "LIB", "The library"]);
    let registrant = run(&["registrant", "create", "--agency", "LIB", "Press"]);
    run(&["prefix", "create", "--registrant", &registrant, "10.70000"]);
    let created = || {
        let shown: serde_json::Value =
            serde_json::from_str(&run(&["doi", "show", "10.70000/old", "--json"])).unwrap();
        shown["created"].as_str().unwrap().to_owned()
    };
    let imported = created();
    assert!(imported.starts_with("20"), "{imported}");
    run(&["doi", "update", "10.70000/old", "--url", "https://example.org/new"]);
    assert_eq!(created(), imported);
}
