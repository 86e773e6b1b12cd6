//! `tendot verify` reports corrupt records, corrupt pages and truncated files.

use std::fs;

use serde_json::{Value as Json, json};
use tendot_testing::postgres::create_database_url;
use tendot_testing::repetitions;

use super::{StoreDir, generate_records, to_lines};
use crate::support::{StoreKind, TestDir, TestServer, stderr, tests_per_store};

tests_per_store!(audit_f5_f18_unusable_keys_are_reported);

/// Both stores report the same counts, which equal those computed from the histories.
#[test]
fn counts_are_right() {
    let mut counts = Vec::new();
    for store in ["embedded:", &create_database_url()] {
        let dir = TestDir::new();
        let embedded = format!("embedded:{}", dir.file("data").display());
        let store = if store == "embedded:" { &embedded } else { store };
        let verify = || -> Json {
            let (stdout, _) = dir.run_to(0, &["verify", "--json", "--store", store]);
            serde_json::from_str(&stdout).unwrap()
        };
        let import = |lines: &[&str]| {
            let file = dir.write("records.jsonl", lines.join("\n"));
            dir.run_ok(&["import", "--store", store, &file]);
            verify()
        };
        let [one, two] = ["10.1000/1", "10.1000/2"].map(|name| {
            json!({"handle": name, "values": [
                {"index": 1, "type": "URL", "data": "https://example.org/"},
                {"index": 2, "type": "EMAIL", "data": "a@example.org"}]})
            .to_string()
        });
        let changed = one.replace("example.org/", "example.org/changed");
        let mut steps = vec![
            import(&[&one, &two]),
            // One record changes, the other one does not.
            import(&[&changed, &two]),
            import(&[r#"{"handle":"10.1000/3","values":[]}"#]),
        ];
        let server = TestServer::builder(&dir).data("data").store(store).start();
        let token = server.token();
        let send = |method: &str, target: &str, body: &Json| {
            let request = server.request(method, target).bearer(&token).json(body);
            let response = request.send(server.address());
            assert!(response.status < 300, "{method} {target}: {}", response.text());
            response.json()
        };
        send("POST", "/api/v1/agencies", &json!({"code": "LIB", "name": "Library"}));
        let registrant = send("POST", "/api/v1/registrants", &json!({"agency": "LIB", "name": "Press"}));
        let policy = json!({"metadata": "optional"});
        let prefix = json!({"registrant": registrant["id"], "prefix": "10.70000", "policy": policy});
        send("POST", "/api/v1/prefixes", &prefix);
        let mut step = || steps.push(verify());
        step();
        for name in ["10.70000/a", "10.70000/b"] {
            send("POST", "/api/v1/dois", &json!({"name": name, "url": "https://example.org/"}));
        }
        step();
        send("PUT", "/api/v1/dois/10.70000/a", &json!({"url": "https://example.org/2"}));
        step();
        send("DELETE", "/api/v1/dois/10.70000/b", &Json::Null);
        step();
        send("DELETE", "/api/handles/10.1000/2", &Json::Null);
        step();
        let created = json!([{"index": 1, "type": "URL", "data": "https://example.org/new"}]);
        send("PUT", "/api/handles/10.1000/2", &created);
        step();
        let numbers = |step: &Json| {
            ["records", "tombstones", "values", "history", "registrations", "aux_entries", "damaged"]
                .map(|count| step[count].as_i64().unwrap())
        };
        assert_eq!(server.terminate(), Some(0));
        counts.push(steps.iter().map(numbers).collect::<Vec<_>>());
    }
    let [embedded, postgres] = &counts[..] else { panic!("{counts:?}") };
    assert_eq!(embedded, postgres);
    assert_eq!(embedded[0], [2, 0, 4, 2, 0, 0, 0]);
    assert_eq!(embedded[1], [2, 0, 4, 3, 0, 0, 0]);
    assert_eq!(embedded[2], [3, 0, 4, 4, 0, 0, 0]);
    // Records, tombstones, values, changes and registrations that each step adds: two registrations with URL and administrator;
    // an update; a retired name; a deleted name; the same name again.
    let added = |step: usize| {
        let difference = |count: usize| embedded[step][count] - embedded[step - 1][count];
        [0, 1, 2, 3, 4].map(difference)
    };
    assert_eq!(added(4), [2, 0, 4, 2, 2]);
    assert_eq!(added(5), [0, 0, 0, 1, 0]);
    assert_eq!(added(6), [-1, 1, -2, 1, 0]);
    assert_eq!(added(7), [-1, 0, -2, 1, 0]);
    assert_eq!(added(8), [1, 0, 1, 1, 0]);
}

/// Invalid data directory: each command reports what it found, gives a hint, and changes nothing.
#[test]
fn wrong_data_directories() {
    let store = StoreDir::new();
    let dir = &store.dir;
    let records = dir.write("good.csv", "10.1000/1,https://example.org/\n");
    store.import(&[&records], 0);
    let backup = dir.file("good.backup").display().to_string();
    store.run_ok(&["backup", &backup]);
    dir.write("file", "text");
    for (name, file) in [("empty", None), ("cluster", Some("PG_VERSION")), ("foreign", Some("data.mdb"))] {
        fs::create_dir(dir.file(name)).unwrap();
        if let Some(file) = file {
            dir.write(&format!("{name}/{file}"), "16");
        }
    }
    let output = dir.file("output").display().to_string();
    let readers: [&[&str]; 5] =
        [&["export"], &["verify"], &["backup", &output], &["explain", "10.1000/1"], &["migrate"]];
    let writers: [&[&str]; 4] = [&["import", &records], &["restore", &backup], &["serve"], &["migrate"]];
    let check = |command: &[&str], is_writer: bool, data: &str, expected: &str, hint: &str| {
        let good = format!("embedded:{}", dir.file("data").display());
        let path = dir.file(data).display().to_string();
        let wrong = format!("embedded:{path}");
        let target = format!("embedded:{output}");
        let location = match (command, is_writer) {
            (["migrate"], false) => vec!["--from", &wrong, "--to", &target],
            (["migrate"], true) => vec!["--from", &good, "--to", &wrong],
            _ => vec!["--data", &path],
        };
        let (code, _, messages) = dir.run(&[command, &location].concat());
        assert_eq!(code, Some(2), "{command:?} {data}: {messages}");
        assert!(messages.contains(expected) && messages.contains(hint), "{command:?} {data}: {messages}");
        assert!(!dir.file("output").exists(), "{command:?} {data}");
    };
    for command in readers {
        let hint = if command == ["migrate"] { "`embedded:DIR`" } else { "`--data DIR`" };
        check(command, false, "missing", ": no such directory", hint);
        check(command, false, "empty", "no store in ", hint);
    }
    for (command, is_writer) in
        readers.map(|command| (command, false)).into_iter().chain(writers.map(|command| (command, true)))
    {
        let hint =
            if command == ["migrate"] { "embedded:DIR`" } else { "set the data directory with `--data DIR`" };
        check(command, is_writer, "file", "not a directory: ", hint);
        check(command, is_writer, "cluster", "belongs to PostgreSQL", hint);
        if command[0] != "restore" {
            check(command, is_writer, "foreign", "is not a tendot store", hint);
        }
    }
    check(writers[1], true, "foreign", "a store already exists", "`--force`");
    for (name, file) in [("cluster", "PG_VERSION"), ("foreign", "data.mdb")] {
        assert_eq!(dir.read(&format!("{name}/{file}")), "16");
    }
    assert_eq!(fs::read_dir(dir.file("cluster")).unwrap().count(), 1);
    assert_eq!(dir.read("file"), "text");
    assert!(!dir.file("missing").exists() && fs::read_dir(dir.file("empty")).unwrap().next().is_none());
}

#[test]
fn verify_reports_damage() {
    let store = StoreDir::new();
    let file = store.dir.write("records.jsonl", to_lines(&generate_records(200)));
    store.import(&[&file], 0);
    let verified: Json = serde_json::from_slice(&store.run_ok(&["verify", "--json"])).unwrap();
    assert_eq!(
        (&verified["records"], &verified["prefixes"], &verified["damaged"]),
        (&json!(200), &json!(50), &json!(0))
    );
    let path = store.dir.file("data/data.mdb");
    let mut bytes = fs::read(&path).unwrap();
    let name = b"10.5007/REC-7";
    let offsets: Vec<usize> =
        bytes.windows(name.len()).enumerate().filter(|(_, at)| at == name).map(|(at, _)| at).collect();
    for offset in offsets {
        bytes[offset + name.len() + 4] ^= 1;
    }
    fs::write(&path, bytes).unwrap();
    let output = store.run(&["verify"]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let report = String::from_utf8(output.stdout).unwrap();
    assert!(report.contains("record `10.5007/REC-7"), "{report}");
    let output = store.run(&["verify", "--json"]);
    let last = output.stdout.trim_ascii().rsplit(|byte| *byte == b'\n').next().unwrap().to_vec();
    let last: Json = serde_json::from_slice(&last).unwrap();
    assert_eq!(last["damaged"], json!(report.lines().count()));
    let output = store.run(&["export", store.dir.file("out").to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("hint: run `tendot verify`"), "{}", stderr(&output));
    assert!(!store.dir.file("out").exists());
}

/// An import accepts keys that cannot authenticate, and warns; a verification reports them, and they are not corruption.
fn audit_f5_f18_unusable_keys_are_reported(kind: StoreKind) {
    let (dir, env) = (TestDir::new(), kind.env());
    let run = |arguments: &[&str]| dir.tendot(arguments).envs(env.clone()).output().unwrap();
    let record = |name: &str, value: Json| json!({"handle": name, "values": [value]}).to_string() + "\n";
    let secret = |permissions: &str| {
        json!({"index": 300, "type": "HS_SECKEY", "permissions": permissions,
            "data": {"format": "string", "value": "opensesame"}})
    };
    let key = json!({"index": 301, "type": "HS_PUBKEY", "data": {"format": "base64", "value": "AAAA"}});
    let lines = [
        record("10.5555/EXPOSED", secret("1110")),
        record("10.5555/PRIVATE", secret("1100")),
        record("10.5555/UNUSABLE", key),
    ];
    let file = dir.write("records.jsonl", lines.concat());
    let output = run(&["import", &file, "--json"]);
    let printed = stderr(&output);
    let imported: Json = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&imported["created"], &imported["warnings"]), (&json!(3), &json!(2)), "{printed}");
    for expected in [
        "`10.5555/EXPOSED`: HS_SECKEY at index 300 was publicly readable and cannot authenticate; replace it",
        "`10.5555/UNUSABLE`: HS_PUBKEY at index 301 is unusable: malformed data",
    ] {
        assert!(printed.contains(expected), "{printed}");
        let output = run(&["verify"]);
        assert_eq!(output.status.code(), Some(0));
        assert!(stderr(&output).contains(expected), "{}", stderr(&output));
    }
    let output = run(&["verify", "--json"]).stdout;
    let lines: Vec<Json> = output
        .trim_ascii()
        .split(|byte| *byte == b'\n')
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 3);
    assert_eq!((&lines[2]["damaged"], &lines[2]["unusable_keys"]), (&json!(0), &json!(2)));
    assert!(!printed.contains("opensesame") && !String::from_utf8(output).unwrap().contains("opensesame"));
}

/// After any bit flip or truncation, a store that `verify` reports as undamaged still exports the same records.
#[test]
fn verify_reports_any_bit_flip() {
    let store = StoreDir::new();
    let file = store.dir.write("records.jsonl", to_lines(&generate_records(300)));
    store.import(&[&file], 0);
    let exported = store.run_ok(&["export"]);
    let path = store.dir.file("data/data.mdb");
    let good = fs::read(&path).unwrap();
    let (mut undamaged, mut damaged) = (0, 0);
    for round in 0..repetitions("TENDOT_TEST_BIT_FLIPS", 60, 400) as usize {
        let mut bytes = good.clone();
        // Spread over the pages; every other flip is in a page header, where LMDB is most sensitive.
        let at = round * 2_654_435_761 % bytes.len();
        match round {
            0..5 => bytes.truncate(at),
            _ if round % 2 == 0 => bytes[at / 4_096 * 4_096 + at % 32] ^= 1 << (round % 8),
            _ => bytes[at] ^= 1 << (round % 8),
        }
        let _ = fs::remove_file(store.dir.file("data/lock.mdb"));
        fs::write(&path, bytes).unwrap();
        let output = store.run(&["verify"]);
        match output.status.code() {
            Some(0) => {
                undamaged += 1;
                assert!(store.run_ok(&["export"]) == exported, "round {round}");
            }
            Some(1) => {
                damaged += 1;
                assert!(!output.stdout.is_empty(), "round {round}");
            }
            code => assert_eq!(code, Some(2), "round {round}: {}", stderr(&output)),
        }
    }
    assert!(undamaged > 0 && damaged > 0, "{undamaged} undamaged, {damaged} damaged");
}

#[test]
fn truncated_store_is_reported_as_damage() {
    let store = StoreDir::new();
    let records = store.dir.write("one.csv", "10.1000/1,https://example.org/\n");
    store.import(&[&records], 0);
    let file = store.dir.file("data/data.mdb");
    let bytes = fs::read(&file).unwrap();
    fs::write(&file, &bytes[..3 * 4_096]).unwrap();
    let output = store.run(&["verify", "--json"]);
    let lines = String::from_utf8(output.stdout.clone()).unwrap();
    assert_eq!((output.status.code(), lines.contains("is truncated")), (Some(1), true), "{lines}");
}

/// Corrupts the value of a record in all pages.
fn damage_record(store: &StoreDir, name: &[u8]) {
    let path = store.dir.file("data/data.mdb");
    let mut bytes = fs::read(&path).unwrap();
    let offsets: Vec<usize> =
        bytes.windows(name.len()).enumerate().filter(|(_, at)| *at == name).map(|(at, _)| at).collect();
    assert!(!offsets.is_empty());
    for offset in offsets {
        bytes[offset + name.len() + 4] ^= 1;
    }
    fs::write(&path, bytes).unwrap();
}

/// Names with corrupt records are restored from a backup, with the command that `verify` prints; names that changed since are not.
#[test]
fn damaged_names_are_restored() {
    let store = StoreDir::new();
    let file = store.dir.write("records.jsonl", to_lines(&generate_records(200)));
    store.import(&[&file], 0);
    let backup = store.dir.file("backup");
    let backup = backup.to_str().unwrap();
    store.run_ok(&["backup", backup]);
    let exported = store.run_ok(&["export"]);
    let new = json!({"handle": "10.5555/NEW", "values": [{"index": 1, "type": "URL",
        "data": {"format": "string", "value": "https://new.example.org/"}}]});
    store.import(&[&store.dir.write("new.jsonl", new.to_string() + "\n")], 0);
    for name in [&b"10.5007/REC-7"[..], b"10.5555/NEW"] {
        damage_record(&store, name);
    }
    let output = store.run(&["verify"]);
    assert_eq!(output.status.code(), Some(1));
    let printed = stderr(&output);
    assert!(printed.contains("stop the server and run `tendot restore --"), "{printed}");

    let output = store.run(&["restore", "--name", "10.5555/new", "--name", "10.5008/rec-8", backup]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let printed = stderr(&output);
    assert!(printed.contains("`10.5555/NEW`: not restored: not in the backup"), "{printed}");
    assert!(printed.contains("`10.5008/REC-8`: skipped: not corrupt"), "{printed}");
    let output = store.run(&["restore", "--damaged", "--json", backup]);
    let json: Json = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{json}");
    assert_eq!(json["missing"], json!(["10.5555/NEW"]));
    assert!(json["restored"].as_array().is_some_and(|names| !names.is_empty()), "{json}");
    let output = store.run(&["verify"]);
    assert_eq!(String::from_utf8(output.stdout).unwrap().lines().count(), 1);

    // The name that the backup does not have is in a later one.
    store.run_ok(&["restore", "--force", "--yes", backup]);
    assert_eq!(store.run_ok(&["export"]), exported);
    store.run_ok(&["verify"]);
    let other = StoreDir::new();
    other.import(&[&file], 0);
    damage_record(&other, b"10.5007/REC-7");
    let output = other.run(&["restore", "--damaged", backup]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("the backup was not made from this store"), "{}", stderr(&output));
}
