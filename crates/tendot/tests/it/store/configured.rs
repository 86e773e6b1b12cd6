//! Store commands use the store of the configuration file, of environment variables and of `--set`, as the server does.

use crate::support::{TestDir, text_output};

const RECORD: &str =
    r#"{"handle":"10.5555/ONE","values":[{"index":1,"type":"URL","data":"https://example.org/one"}]}"#;

#[test]
fn commands_use_the_configured_store() {
    let dir = TestDir::new();
    let records = dir.write("records.jsonl", RECORD);
    dir.write("t.toml", "store = \"embedded:configured\"\ndata = \"other\"\n");
    let configuration = ["--config", "t.toml"];
    let run = |arguments: &[&str]| dir.run_ok(&[arguments, &configuration[..]].concat());
    run(&["import", &records]);
    assert!(dir.file("configured/data.mdb").exists() && !dir.file("tendot-data").exists());
    assert!(run(&["export"]).contains("10.5555/ONE"));
    assert!(run(&["verify", "--json"]).contains("\"records\":1,"));
    assert!(run(&["explain", "10.5555/ONE"]).contains("302 to https://example.org/one"));
    run(&["backup", "t.backup"]);
    dir.run_ok(&["restore", "t.backup", "--set", "store=embedded:restored"]);
    assert!(dir.file("restored/data.mdb").exists());
    run(&["migrate", "--to", "embedded:migrated"]);
    assert!(dir.file("migrated/data.mdb").exists());
    let (_, messages) = dir.run_to(2, &["backup", "configured/data.mdb", "--config", "t.toml"]);
    assert!(messages.contains("belongs to the store"), "{messages}");
}

#[test]
fn later_sources_win() {
    let dir = TestDir::new();
    let records = dir.write("records.jsonl", RECORD);
    dir.write("t.toml", "store = \"postgres://postgres@127.0.0.1:1/nothing\"\n");
    let import = |arguments: &[&str], store: &str| {
        let mut command = dir.tendot(&[&["import", &records], arguments].concat());
        text_output(command.env("TENDOT_CONFIG", "t.toml").env("TENDOT_STORE", store))
    };
    let check = |arguments: &[&str], store: &str, expected: &str| {
        let (code, _, messages) = import(arguments, store);
        assert!(code == Some(0) && dir.file(expected).join("data.mdb").exists(), "{arguments:?}: {messages}");
    };
    let (code, _, messages) = text_output(dir.tendot(&["export"]).env("TENDOT_CONFIG", "t.toml"));
    assert!(code == Some(2) && messages.contains("cannot reach the database"), "{messages}");
    check(&[], "embedded:variable", "variable");
    check(&[], "embedded:", "tendot-data");
    check(&["--store", "embedded:flag"], "embedded:variable", "flag");
    check(&["--data", "data-flag"], "embedded:variable", "data-flag");
    check(&["--set", "store=embedded:set"], "embedded:variable", "set");
    let (code, _, messages) = import(&[], "memory:");
    assert!(code == Some(2) && messages.contains("`memory:` is not a persistent store"), "{messages}");
    let (code, _, messages) = import(&["--set", "stoer=embedded:set"], "embedded:");
    assert!(code == Some(2) && messages.contains("unknown setting `stoer`"), "{messages}");
}

/// With `--data` or `--store`, commands on a store do not fail because of the configuration of a server.
#[test]
fn store_flags_need_no_configuration() {
    let dir = TestDir::new();
    let records = dir.write("records.jsonl", RECORD);
    dir.write("upstream.toml", "data = \"server\"\nupstream = \"handle-system:missing\"\n");
    dir.write("https.toml", "https.key = \"key.pem\"\n");
    std::fs::create_dir(dir.file("server")).unwrap();
    for (number, file) in ["missing.toml", "upstream.toml", "https.toml"].into_iter().enumerate() {
        let run = |arguments: &[&str], expected: i32| {
            let (code, stdout, messages) = text_output(dir.tendot(arguments).env("TENDOT_CONFIG", file));
            assert_eq!(code, Some(expected), "{file} {arguments:?}: {stdout}{messages}");
            messages
        };
        let (data, restored) = (format!("data-{number}"), format!("restored-{number}"));
        let store = format!("embedded:{data}");
        run(&["import", &records, "--data", &data], 0);
        run(&["export", "--data", &data], 0);
        run(&["verify", "--data", &data], 0);
        run(&["verify", "--store", &store], 0);
        run(&["backup", "t.backup", "--store", &store], 0);
        run(&["restore", "t.backup", "--data", &restored], 0);
        run(&["migrate", "--from", &store, "--to", &format!("embedded:migrated-{number}")], 0);
        // These use other settings.
        run(&["export"], 2);
        run(&["explain", "10.5555/ONE", "--data", &data], 2);
        run(&["export", "--data", &data, "--config", file], 2);
        run(&["export", "--data", &data, "--set", "log.level=warn"], 2);
        run(&["export", "--store", "embedded:"], 2);
    }
    // The data directory of the server, with its token, is read from the file; the database is not reached.
    let store = "postgres://postgres@127.0.0.1:1/nothing";
    let arguments = ["backup", "server/operator.token", "--store", store];
    let (code, _, messages) = text_output(dir.tendot(&arguments).env("TENDOT_CONFIG", "upstream.toml"));
    assert!(code == Some(2) && messages.contains("belongs to the store"), "{messages}");
}
