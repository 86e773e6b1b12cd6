//! Import and export round trips in all formats, refused lines, and errors.

use std::fmt::Write as _;
use std::fs;
use std::process::{Command, Stdio};

use serde_json::{Value as Json, json};
use tendot_store::{ChangeSet, Edit, EmbeddedStore, Precondition, Store as _};
use tendot_testing::{block_on, conformance, repetitions};

use super::{StoreDir, by_name, generate_records, to_lines};
use crate::support::{stderr, tendot};

fn summary(created: u64, changed: u64, unchanged: u64, superseded: u64, refused: u64, warnings: u64) -> Json {
    json!({
        "created": created, "changed": changed, "unchanged": unchanged, "deleted": 0,
        "superseded": superseded, "refused": refused, "warnings": warnings,
    })
}

#[test]
fn recorded_records_round_trip() {
    let path = conformance("vectors/handle-net/records.jsonl");
    let recorded = fs::read(&path).unwrap();
    let expected = by_name(&recorded);
    assert!(expected.len() > 10);
    let store = StoreDir::new();
    let count = expected.len() as u64;
    let imported = store.import(&[path.to_str().unwrap()], 0);
    assert_eq!((&imported["created"], &imported["refused"]), (&json!(count), &json!(0)));
    assert_eq!(store.export(), expected);
    let again = store.import(&[path.to_str().unwrap()], 0);
    assert_eq!((&again["created"], &again["unchanged"]), (&json!(0), &json!(count)));

    // The same records in one document, both as a list and by name.
    let list: Vec<&Json> = expected.values().collect();
    for records in [json!(list), json!(expected)] {
        let store = StoreDir::new();
        let dump = json!({"handleRecords": records, "homedPrefixes": ["0.NA/10.7777", "10.8888"]});
        let dump = store.dir.write("dump.json", dump.to_string());
        assert_eq!(store.import(&[&dump], 0)["created"], json!(count));
        assert_eq!(store.export(), expected);
    }
}

/// A batch file omits what it cannot express, and says so; a dump has everything.
#[test]
fn batch_files_omit_what_they_cannot_express() {
    let store = StoreDir::new();
    let value = |index: u32, value_type: &str, data: Json| json!({"index": index, "type": value_type, "ttl": 3600, "data": data});
    let text = |text: &str| json!({"format": "string", "value": text});
    let records = [
        json!({"handle": "10.1000/a", "values": [
            value(1, "URL", text("https://example.org/a b")),
            value(2, "DESC", text("two\nlines")),
            value(3, "X", json!({"format": "base64", "value": "/wA="})),
            value(4, "DESC", text("")),
            value(5, "HS_VLIST", json!({"format": "vlist", "value": [{"handle": "0.NA/10.1000", "index": 300}]})),
            value(6, "DESC", text("at the end ")),
        ]}),
        json!({"handle": "10.1000/with space", "values": [value(1, "URL", text("https://example.org/"))]}),
    ];
    let lines: String = records.iter().map(|record| format!("{record}\n")).collect();
    store.import(&[&store.dir.write("records.jsonl", lines)], 0);
    let everything = store.export();
    let output = store.run(&["export", "--format", "handle-batch"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("omitted 3 values and 0 records"), "{}", stderr(&output));
    let batch = StoreDir::new();
    batch.import(&["--format", "handle-batch", &batch.dir.write("batch.txt", &output.stdout)], 0);
    let kept = &batch.export()["10.1000/a"]["values"];
    let indexes: Vec<_> = kept.as_array().unwrap().iter().map(|value| value["index"].clone()).collect();
    assert_eq!(indexes, [1, 4, 5]);
    assert_eq!(batch.export()["10.1000/with space"]["values"], everything["10.1000/with space"]["values"]);
    let dump = StoreDir::new();
    let file = dump.dir.write("dump.json", store.run_ok(&["export", "--format", "handle-net"]));
    dump.import(&[&file], 0);
    assert_eq!(dump.export(), everything);
}

#[test]
fn all_formats_round_trip() {
    let count = repetitions("TENDOT_TEST_RECORDS", 5_000, 20_000);
    let records = generate_records(count);
    let text = to_lines(&records);
    let expected = by_name(text.as_bytes());
    let store = StoreDir::new();
    let file = store.dir.write("records.jsonl", &text);
    assert_eq!(store.import(&[&file], 0), summary(count, 0, 0, 0, 0, 0));
    assert_eq!(store.export(), expected);
    // Exported in the order of keys; a file has the same content as standard output.
    let exported = store.run_ok(&["export"]);
    let target = store.dir.file("exported");
    store.run_ok(&["export", target.to_str().unwrap()]);
    assert!(fs::read(&target).unwrap() == exported);
    let names: Vec<String> = exported
        .split_inclusive(|byte| *byte == b'\n')
        .map(|line| serde_json::from_slice::<Json>(line).unwrap()["handle"].as_str().unwrap().to_uppercase())
        .collect();
    assert!(names.is_sorted());
    assert_eq!(fs::read_dir(store.dir.path()).unwrap().count(), 3, "no temporary file is left");
    store.run_ok(&["verify"]);

    let dump = StoreDir::new();
    let file = dump.dir.write("dump.json", json!({"handleRecords": records}).to_string());
    assert_eq!(dump.import(&[&file], 0), summary(count, 0, 0, 0, 0, 0));
    assert!(dump.run_ok(&["export"]) == exported);

    // Batch files have no timestamps.
    let mut batch = String::from("AUTHENTICATE PUBKEY:300:0.NA/10.5555\n/some/key.bin|password\n\n");
    let mut untimed = expected.clone();
    for record in untimed.values_mut() {
        for value in record["values"].as_array_mut().unwrap() {
            value.as_object_mut().unwrap().remove("timestamp");
        }
    }
    for (name, record) in &untimed {
        let url = record["values"][0]["data"]["value"].as_str().unwrap();
        writeln!(batch, "CREATE {name}\n1 URL 86400 1110 UTF8 {url}").unwrap();
        writeln!(batch, "100 HS_ADMIN 86400 1110 ADMIN 200:110011111110:0.NA/10.5555\n").unwrap();
    }
    let store = StoreDir::new();
    let file = store.dir.write("create.txt", batch);
    assert_eq!(store.import(&[&file], 0), summary(count, 0, 0, 0, 0, 0));
    assert_eq!(store.export(), untimed);

    // The way back to Handle.Net: what is exported can be imported again, and nothing is lost.
    let dump = StoreDir::new();
    let file = dump.dir.write("dump.json", store.run_ok(&["export", "--format", "handle-net"]));
    assert_eq!(dump.import(&[&file], 0), summary(count, 0, 0, 0, 0, 0));
    assert_eq!(dump.export(), untimed);
    let homed = fs::read_to_string(&file).unwrap();
    assert!(homed.starts_with("{\"homedPrefixes\":[\n\"0.NA/10."), "{}", &homed[..200]);
    let batch = StoreDir::new();
    let file = batch.dir.write("batch.txt", store.run_ok(&["export", "--format", "handle-batch"]));
    assert_eq!(batch.import(&[&file], 0), summary(count, 0, 0, 0, 0, 0));
    assert_eq!(batch.export(), untimed);

    // CSV files have no timestamps either, and only URLs.
    let table = dump.run_ok(&["export", "--format", "csv"]);
    assert!(table.starts_with(b"10.5000/Rec-0,\"https://example.org/articles/0?a=\"\"b\"\",c\"\r\n"));
    let store = StoreDir::new();
    let file = store.dir.write("table.csv", [b"name,url\n", &table[..]].concat());
    assert_eq!(store.import(&[&file], 0), summary(count, 0, 0, 0, 0, 0));
    assert!(store.run_ok(&["export", "--format", "csv"]) == table);
    for record in untimed.values_mut() {
        record["values"].as_array_mut().unwrap().truncate(1);
    }
    assert_eq!(store.export(), untimed);
}

/// Lines are parsed by several threads, block by block; `cargo xtask bench-store` does it with ten million records.
#[test]
fn parallel_import_round_trip() {
    let store = StoreDir::new();
    let count = repetitions("TENDOT_TEST_PARALLEL_RECORDS", 25_000, 100_000);
    let mut records: Vec<String> = (0..count)
        .map(|number| {
            let mixed = number.wrapping_mul(2_654_435_761) % count;
            format!(
                r#"{{"handle":"10.{}/Rec-{mixed:06}","values":[{{"index":1,"type":"URL","data":{{"format":"string","value":"https://example.org/{}{mixed}"}},"ttl":86400,"timestamp":"2024-01-02T03:04:05Z"}}]}}"#,
                5_000 + mixed % 50,
                "articles/".repeat(20),
            )
        })
        .collect();
    let file = store.dir.write("records.jsonl", records.join("\n"));
    assert_eq!(store.import(&[&file], 0), summary(count, 0, 0, 0, 0, 0));
    let exported = String::from_utf8(store.run_ok(&["export"])).unwrap();
    records.sort_unstable();
    // The names have the same letters in the same places, so that lines sort as keys do.
    assert!(exported.lines().eq(records), "the export differs");
}

/// Refused lines are reported in order. The last record of a name wins, with the spelling of the first, at any distance.
/// Address space of 24 GiB is too small for the usual memory map of a store.
#[test]
fn opens_store_in_limited_address_space() {
    let store = StoreDir::new();
    let records = store.dir.write("records.jsonl", to_lines(&generate_records(10)));
    let run = |arguments: &[&str]| {
        let command = store.command(arguments);
        let mut limited = Command::new("prlimit");
        let output =
            limited.arg("--as=25769803776").arg(command.get_program()).args(command.get_args()).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
        output.stdout
    };
    run(&["import", &records]);
    assert_eq!(by_name(&run(&["export"])), store.export());
}

#[test]
fn last_duplicate_wins_first_spelling_stays() {
    let store = StoreDir::new();
    let record = |name: &str, data: &str| {
        format!(r#"{{"handle":"{name}","values":[{{"index":1,"type":"DESC","data":"{data}"}}]}}"#)
    };
    let mut lines: Vec<String> = (1..=30_000)
        .map(|line| match line % 1_000 {
            0 => format!("line {line} is none"),
            number => record(
                &format!("10.1000/{}-{number}", if line < 1_000 { "a" } else { "A" }),
                &line.to_string(),
            ),
        })
        .collect();
    lines[14_500] = record("10.1000/long", &"x".repeat(1_000_000));
    lines[14_501] = record("10.1000/longer", &"x".repeat(5_000_000));
    let output = store.run_with_input(&["import", "--json"], lines.join("\n").as_bytes());
    let messages = stderr(&output);
    let refused: Vec<&str> = messages.lines().filter_map(|line| line.strip_prefix("refused: ")).collect();
    assert_eq!(refused.len(), 31, "{messages}");
    let mut expected: Vec<u64> = (1..=30).map(|thousand| thousand * 1_000).collect();
    expected.insert(14, 14_502);
    for (line, refused) in expected.iter().zip(&refused) {
        assert!(refused.starts_with(&format!("standard input, line {line}: ")), "{refused}");
    }
    let exported = store.export();
    assert_eq!(exported.len(), 999 + 1);
    assert_eq!(exported["10.1000/a-7"]["values"][0]["data"]["value"], "29007");
    assert_eq!(exported["10.1000/a-502"]["values"][0]["data"]["value"], "29502");
}

#[test]
fn refused_lines_do_not_stop_import() {
    let value = |index: u32, data: &str| json!({"index": index, "type": "URL", "data": data});
    let record = |name: &str, values: &[Json]| json!({"handle": name, "values": values}).to_string();
    let lines = [
        record("10.1000/Good", &[value(1, "https://a/")]),
        String::new(),
        "{\"handle\":".into(),
        record("10.1000", &[]),
        record("10.1000/2", &[value(1, "https://a/"), value(1, "https://b/")]),
        record("10.1000/3", &[value(0, "https://a/")]),
        record("10.1000/4", &[value(1, "https://a/\r\nSet-Cookie: x")]),
        record("10.1000/5", &[value(1, &"x".repeat(1_048_577))]),
        record("10.1000/6", &[value(1, "javascript:alert(1)")]),
        record("10.1000/GOOD", &[value(1, "https://b/")]),
    ];
    let store = StoreDir::new();
    let output = store.run_with_input(&["import", "--json"], lines.join("\n").as_bytes());
    assert_eq!(output.status.code(), Some(1));
    let messages = stderr(&output);
    for expected in [
        "refused: standard input, line 3: EOF while parsing a value at line 1 column 10\n",
        "refused: standard input, line 4: `10.1000`: invalid handle: missing `/`\n",
        "refused: standard input, line 5: `10.1000/2`: duplicate value index 1\n",
        "refused: standard input, line 6: `10.1000/3`: invalid value index 0\n",
        "refused: standard input, line 7: `10.1000/4`: URL at index 1 contains the control character 0x0d\n",
        "refused: standard input, line 8: `10.1000/5`: value 1 has 1048577 bytes; the limit is 1048576\n",
        "warning: standard input, line 9: `10.1000/6`: URL at index 1 uses a scheme that will not be followed",
        "2 new, 0 changed, 0 unchanged, 6 refused, 1 duplicates; ",
    ] {
        assert!(messages.contains(expected), "{expected} is not in {messages}");
    }
    assert_eq!(store.export().len(), 2);

    // After a hundred messages the others are counted only.
    let output = store.run_with_input(&["import"], "no JSON\n".repeat(150).as_bytes());
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("… and 50 more refused records\n"));
    assert_eq!(stderr(&output).lines().count(), 102);
}

/// Neither the registry's own records nor reserved names are imported or exported.
#[test]
fn registry_records_are_not_exported() {
    let store = StoreDir::new();
    let lines = ["10.1000/1", "0.TENDOT/agency/A", "0.tendot/token/t"]
        .map(|name| json!({"handle": name, "values": []}).to_string());
    let output = store.run_with_input(&["import"], lines.join("\n").as_bytes());
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        stderr(&output).matches("prefix `0.TENDOT` is reserved for the registry").count(),
        2,
        "{}",
        stderr(&output)
    );
    let dump = r#"{"homedPrefixes": ["0.NA/10.1000", "0.NA/0.TENDOT"], "handleRecords": []}"#;
    let dump = store.dir.write("dump.json", dump);
    assert_eq!(store.import(&["--format", "handle-net", &dump], 1)["refused"], 1);

    let embedded = EmbeddedStore::open(&store.dir.file("data")).unwrap();
    let register = |name: &str, registration: &str| Edit::Register {
        name: name.into(),
        values: Vec::new(),
        registration: registration.as_bytes().into(),
        precondition: Precondition::Absent,
    };
    let edits = vec![
        register("0.TENDOT/agency/A", "{}"),
        register("10.1000/reserved", r#"A{"state":"reserved","created":0,"updated":0}"#),
        register("10.1000/registered", r#"@{"state":"registered","created":0,"updated":0}"#),
    ];
    let commit = embedded.commit(ChangeSet { author: "test".into(), timestamp_ms: 0, edits });
    block_on(commit).unwrap();
    drop(embedded);
    let exported: Vec<String> = store.export().into_keys().collect();
    assert_eq!(exported, ["10.1000/1", "10.1000/registered"]);
}

#[test]
fn other_formats_refuse_by_line() {
    let store = StoreDir::new();
    let batch = "CREATE 10.1000/1\n1 URL 86400 1110 UTF8 https://a/\n2 X 1 1110 FILE /etc/passwd\n\n\
                 DELETE 10.1000/2\n\nCREATE 10.1000/3\n1 URL 86400 1110 UTF8 https://a/\n\n\
                 HOME 127.0.0.1:2641:TCP\n0.NA/10.7\n";
    let file = store.dir.write("batch.txt", batch);
    let output = store.run(&["import", &file]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("line 3: data of type FILE is not supported\n"), "{}", stderr(&output));
    assert!(stderr(&output).contains("line 5: DELETE `10.1000/2`: "), "{}", stderr(&output));
    assert_eq!(store.export().into_keys().collect::<Vec<_>>(), ["10.1000/3"]);

    let file =
        store.dir.write("table.csv", "10.1000/7,https://a/\n10.1000/8\n\"10.1000/9\",\"https://b/\"\n");
    let output = store.run(&["import", &file]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("line 2: expected 2 fields (name,url), found 1\n"));

    let dump = "{\"homedPrefixes\":[],\n\"handleRecords\":[\n{\"handle\":\"10.1000/10\",\"values\":[]},\n{\"handle\":1}\n]}";
    let file = store.dir.write("dump.json", dump);
    let output = store.run(&["import", &file]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("line 4: handle: expected a string"), "{}", stderr(&output));
    assert_eq!(store.export().len(), 4);
    // Nothing of a truncated document is imported.
    let file = store.dir.write("dump.json", &dump.replace("10/10", "10/11")[..70]);
    let output = store.run(&["import", &file]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert_eq!(store.export().len(), 4);
}

#[test]
fn command_errors() {
    let store = StoreDir::new();
    let check = |arguments: &[&str], expected: &str| {
        let output = store.run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&output).contains(expected), "{arguments:?}: {}", stderr(&output));
        assert!(output.stdout.is_empty());
    };
    for command in ["export", "verify"] {
        check(&[command], "error: no store in ");
    }
    check(&["backup", "file"], "error: no store in ");
    let good = store.dir.write("good.jsonl", "{\"handle\":\"10.1000/1\",\"values\":[]}");
    let missing = store.dir.file("missing.jsonl");
    check(&["import", &good, missing.to_str().unwrap()], "missing.jsonl`: No such file or directory");
    assert!(!store.dir.file("data").exists(), "nothing was imported");
    let summary_of_none = store.import(&["--dry-run", &good], 0);
    assert_eq!(summary_of_none, summary(0, 0, 0, 0, 0, 0));
    assert!(!store.dir.file("data").exists(), "nothing was written");

    store.import(&["--no-home", &good], 0);
    let holder = EmbeddedStore::open(&store.dir.file("data")).unwrap();
    check(&["import", &good], "\nhint: stop the server or other process");
    check(&["restore", "--force", "--yes", &good], "not a tendot backup");
    store.run_ok(&["export"]);
    store.run_ok(&["verify"]);
    let backup = store.dir.file("backup");
    store.run_ok(&["backup", backup.to_str().unwrap()]);
    check(
        &["restore", "--force", "--yes", backup.to_str().unwrap()],
        "\nhint: stop the server or other process",
    );
    drop(holder);

    for url in ["postgres:///x", "memory:", "ftp:x"] {
        let output = tendot().args(["export", "--store", url]).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains("hint: "), "{}", stderr(&output));
    }
    let embedded = format!("embedded:{}", store.dir.file("data").display());
    let output = tendot().args(["export", "--store", &embedded]).output();
    assert!(output.unwrap().stdout.starts_with(b"{\"handle\":\"10.1000/1\""));

    fs::write(store.dir.file("data").join("data.mdb"), b"something else".repeat(10_000)).unwrap();
    check(&["verify"], "is not a tendot store");
    check(&["export"], "is not a tendot store");
}

/// Export, verify and backup of a store that another process imports into.
#[test]
fn reads_during_import() {
    let store = StoreDir::new();
    let records = generate_records(8_000);
    let first = store.dir.write("first.jsonl", to_lines(&records[..1_000]));
    store.import(&[&first], 0);
    let all = store.dir.write("all.jsonl", to_lines(&records));
    let mut writer = store.command(&["import", &all]).stderr(Stdio::null()).spawn().unwrap();
    let mut rounds = 0;
    while rounds < 3 || writer.try_wait().unwrap().is_none() {
        let count = store.export().len();
        assert!((1_000..=8_000).contains(&count), "{count}");
        store.run_ok(&["verify"]);
        let backup = store.dir.file("backup");
        store.run_ok(&["backup", backup.to_str().unwrap()]);
        rounds += 1;
    }
    assert!(writer.wait().unwrap().success());
    assert_eq!(store.export().len(), 8_000);
}

/// In a CSV file, DOIs in a written form are decoded; the formats of records are literal, so that they round-trip.
#[test]
fn written_forms_in_csv_are_decoded() {
    let names = [
        ("https://doi.org/10.1000/a%23b", "10.1000/a#b"),
        ("doi:10.1000/c%23d", "10.1000/c#d"),
        ("urn:doi:10.1000/ef", "10.1000/ef"),
        ("10.1000/g%23h", "10.1000/g%23h"),
        ("hdl:20.500/x%20y", "20.500/x y"),
        ("20.500/100%25", "20.500/100%25"),
    ];
    let store = StoreDir::new();
    let rows: String = names.iter().map(|(written, _)| format!("{written},https://example.org/\n")).collect();
    let table = store.dir.write("names.csv", format!("name,url\n{rows}"));
    let output = store.run(&["import", "--json", &table]);
    let summary: Json = serde_json::from_slice(&output.stdout).unwrap();
    let counts = ["created", "decoded", "warnings", "refused"].map(|count| summary[count].as_u64());
    assert_eq!(counts, [Some(6), Some(4), Some(1), Some(0)], "{summary}");
    let messages = stderr(&output);
    for expected in [
        "line 2: `https://doi.org/10.1000/a%23b` read as `10.1000/a#b` (form: proxy-url)\n",
        "line 5: `10.1000/g%23h`: name looks percent-encoded; imported as written\n",
        "line 6: `hdl:20.500/x%20y` read as `20.500/x y` (form: hdl)\n",
    ] {
        assert!(messages.contains(expected), "{expected}\n{messages}");
    }
    let mut expected: Vec<&str> = names.iter().map(|(_, name)| *name).collect();
    expected.sort_unstable();
    assert_eq!(store.export().into_keys().collect::<Vec<_>>(), expected);

    // JSON lines, dumps and batch files are read literally.
    let written = "https://doi.org/10.1000/a%23b";
    let record =
        json!({"handle": written, "values": [{"index": 1, "type": "URL", "data": "https://example.org/"}]});
    let files = [
        ("records.jsonl", record.to_string()),
        ("dump.json", json!({"handleRecords": [record]}).to_string()),
        ("create.txt", format!("CREATE {written}\n1 URL 86400 1110 UTF8 https://example.org/\n")),
    ];
    for (file, text) in files {
        let store = StoreDir::new();
        let file = store.dir.write(file, text);
        assert_eq!(store.import(&[&file], 0), summary_of_one(1), "{file}");
        assert_eq!(store.export().into_keys().collect::<Vec<_>>(), [written], "{file}");
        let messages = stderr(&store.run(&["import", &file]));
        assert!(messages.contains("imported as written, and its prefix is not homed\n"), "{messages}");
        let data = EmbeddedStore::open(&store.dir.file("data")).unwrap();
        assert!(!block_on(data.is_homed(b"https:")).unwrap(), "{file}");
    }
}

/// A file whose format cannot be told is refused with a hint, unless it contains JSON lines.
#[test]
fn unknown_formats_are_refused() {
    let store = StoreDir::new();
    let bib = store.dir.write("refs.bib", "@article{a, doi = {10.1000/a}}\n");
    let output = store.run(&["import", &bib]);
    assert_eq!(output.status.code(), Some(2));
    let expected = "hint: set `--format`, or name the file .jsonl or .csv; `tendot extract` finds the names";
    assert!(stderr(&output).contains(expected), "{}", stderr(&output));
    assert!(!store.dir.file("data").exists(), "nothing was written");
    let lines = store.dir.write("dump.2026", "{\"handle\":\"10.1000/1\",\"values\":[]}");
    assert_eq!(store.import(&[&lines], 0)["created"], 1);
}

/// The header row decides on the columns and on the delimiter, and other columns are ignored with a note.
#[test]
fn csv_header_names_decide() {
    let records = ["10.1000/a", "10.1000/b#c"];
    for (file, table) in [
        (
            "a.csv",
            "\u{feff}url,name\nhttps://example.org/1,10.1000/a\nhttps://example.org/2,doi:10.1000/b%23c\n",
        ),
        (
            "a.csv",
            "Year;URL;\"DOI\"\n1999;https://example.org/1,2;10.1000/a\n;https://example.org/2;10.1000/b#c\n",
        ),
        (
            "a.tsv",
            "handle\turl\n10.1000/a\thttps://example.org/1\nhdl:10.1000/b%23c\thttps://example.org/2\n",
        ),
        ("a.csv", "10.1000/a;https://example.org/1\n10.1000/b#c;https://example.org/2,3\n"),
    ] {
        let store = StoreDir::new();
        let file = store.dir.write(file, table);
        let output = store.run(&["import", &file]);
        assert_eq!(output.status.code(), Some(0), "{table}: {}", stderr(&output));
        assert_eq!(stderr(&output).contains("ignored columns: `Year`\n"), table.contains("Year"), "{table}");
        let exported = store.export();
        assert_eq!(exported.keys().collect::<Vec<_>>(), records, "{table}");
    }
    let store = StoreDir::new();
    let check = |table: &str, code: i32, message: &str| {
        let file = store.dir.write("a.csv", table);
        let output = store.run(&["import", &file]);
        assert_eq!(output.status.code(), Some(code), "{table}");
        assert!(stderr(&output).contains(message), "{table}: {}", stderr(&output));
    };
    check("url,title\nhttps://example.org/,T\n", 2, "has no column `name`\n");
    check("doi,name,url\n", 2, "has more than one column `name`\n");
    check("https://example.org/1,10.1000/a\n", 1, "line 1: invalid name `https://example.org/1`: ");
    assert!(store.export().is_empty());
}

/// Summary of an import of one new record.
fn summary_of_one(warnings: u64) -> Json {
    summary(1, 0, 0, 0, 0, warnings)
}

/// Names under DOI prefixes that violate the grammar are imported with a warning, and refused with `--strict`.
#[test]
fn invalid_dois_are_reported() {
    let record = |name: &str| json!({"handle": name, "values": []}).to_string();
    let invalid =
        ["10.1000/", "10.1000/a\u{7f}", "10.1000/a\u{e000}", "10.1000/a\u{fdd0}", "10.1000/a\u{378}"];
    let valid = ["10.1000/ab", "20.500/", "20.500/a\u{e000}"];
    let lines: Vec<String> = invalid.iter().chain(&valid).map(|name| record(name)).collect();
    let store = StoreDir::new();
    let file = store.dir.write("records.jsonl", lines.join("\n"));
    assert_eq!(store.import(&[&file], 0), summary(8, 0, 0, 0, 0, 5));
    assert_eq!(store.export().len(), 8);
    let strict = StoreDir::new();
    let file = strict.dir.write("records.jsonl", lines.join("\n"));
    assert_eq!(strict.import(&["--strict", &file], 1), summary(3, 0, 0, 0, 5, 0));
    assert_eq!(strict.export().len(), 3);
    let output = strict.run(&["import", "--strict", "--dry-run", &file]);
    let expected = "line 1: `10.1000/`: invalid DOI: missing suffix after `/` (at byte 8)\n";
    assert!(stderr(&output).contains(expected), "{}", stderr(&output));
    // A reserved suffix (Z39.84, section 4.3) gets a warning.
    let store = StoreDir::new();
    let file = store.dir.write("records.jsonl", record("10.2505/4/ss15_038_08_78"));
    assert_eq!(store.import(&["--strict", &file], 0), summary_of_one(1));
}
