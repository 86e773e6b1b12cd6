//! Records in and out of a store, as users of the command see it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value as Json, json};
use tendot_store::{Change, Edit, Embedded, Expect, Store as _};

/// A place for one test, and its store.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        fs::write(&path, content).unwrap();
        path.to_str().unwrap().into()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tendot"));
        command.args(arguments).args(["--data", self.path("data").to_str().unwrap()]);
        command.env_remove("CLICOLOR_FORCE").stdin(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    fn run_with(&self, arguments: &[&str], input: &[u8]) -> Output {
        let mut command = self.command(arguments);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        child.wait_with_output().unwrap()
    }

    #[track_caller]
    fn ok(&self, arguments: &[&str]) -> Vec<u8> {
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", stderr(&output));
        output.stdout
    }

    #[track_caller]
    fn import(&self, arguments: &[&str], code: i32) -> Json {
        let output = self.run(&[&["import", "--json"], arguments].concat());
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", stderr(&output));
        let mut summary: Json = serde_json::from_slice(&output.stdout).unwrap();
        let members = summary.as_object_mut().unwrap();
        assert!(members.remove("seconds").unwrap().is_f64() && members.remove("read").unwrap().is_u64());
        summary
    }

    /// All records by name.
    fn export(&self) -> BTreeMap<String, Json> {
        by_name(&self.ok(&["export"]))
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn by_name(lines: &[u8]) -> BTreeMap<String, Json> {
    let lines = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let records = lines.map(|line| serde_json::from_slice::<Json>(line).unwrap());
    records.map(|record| (record["handle"].as_str().unwrap().to_owned(), record)).collect()
}

fn summary(created: u64, changed: u64, unchanged: u64, superseded: u64, refused: u64, warnings: u64) -> Json {
    json!({
        "created": created, "changed": changed, "unchanged": unchanged, "superseded": superseded,
        "refused": refused, "warnings": warnings,
    })
}

/// Records that look like those of the world.
fn generated(count: u64) -> Vec<Json> {
    (0..count)
        .map(|number| {
            let mixed = number.wrapping_mul(2_654_435_761) % count;
            let handle = format!("10.{}/Rec-{mixed}", 5_000 + mixed % 50);
            json!({"handle": handle, "values": [
                {"index": 1, "type": "URL", "ttl": 86400, "timestamp": "2024-01-02T03:04:05Z",
                 "data": {"format": "string", "value": format!("https://example.org/articles/{mixed}?a=\"b\",c")}},
                {"index": 100, "type": "HS_ADMIN", "ttl": 86400, "timestamp": "2024-01-02T03:04:05Z",
                 "data": {"format": "admin", "value":
                    {"handle": "0.NA/10.5555", "index": 200, "permissions": "011111110011"}}},
            ]})
        })
        .collect()
}

fn lines(records: &[Json]) -> String {
    records.iter().fold(String::new(), |mut lines, record| {
        writeln!(lines, "{record}").unwrap();
        lines
    })
}

#[test]
fn the_recorded_records_come_back() {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/vectors/handle-net/records.jsonl");
    let recorded = fs::read(&path).unwrap();
    let expected = by_name(&recorded);
    assert!(expected.len() > 10);
    let place = Place::new();
    let count = expected.len() as u64;
    let imported = place.import(&[path.to_str().unwrap()], 0);
    assert_eq!((&imported["created"], &imported["refused"]), (&json!(count), &json!(0)));
    assert_eq!(place.export(), expected);
    let again = place.import(&[path.to_str().unwrap()], 0);
    assert_eq!((&again["created"], &again["unchanged"]), (&json!(0), &json!(count)));

    // The same in one document, both as a list and by name.
    let list: Vec<&Json> = expected.values().collect();
    for records in [json!(list), json!(expected)] {
        let place = Place::new();
        let dump = json!({"handleRecords": records, "homedPrefixes": ["0.NA/10.7777", "10.8888"]});
        let dump = place.write("dump.json", dump.to_string());
        assert_eq!(place.import(&[&dump], 0)["created"], json!(count));
        assert_eq!(place.export(), expected);
    }
}

#[test]
fn generated_records_come_back_in_every_format() {
    let records = generated(20_000);
    let text = lines(&records);
    let expected = by_name(text.as_bytes());
    let place = Place::new();
    let file = place.write("records.jsonl", &text);
    assert_eq!(place.import(&[&file], 0), summary(20_000, 0, 0, 0, 0, 0));
    assert_eq!(place.export(), expected);
    // In the order of keys, and into a file as to standard output.
    let exported = place.ok(&["export"]);
    let target = place.path("exported");
    place.ok(&["export", target.to_str().unwrap()]);
    assert!(fs::read(&target).unwrap() == exported);
    let names: Vec<String> = exported
        .split_inclusive(|byte| *byte == b'\n')
        .map(|line| serde_json::from_slice::<Json>(line).unwrap()["handle"].as_str().unwrap().to_uppercase())
        .collect();
    assert!(names.is_sorted());
    assert_eq!(fs::read_dir(place.0.path()).unwrap().count(), 3, "no temporary file is left");
    place.ok(&["verify"]);

    let dump = Place::new();
    let file = dump.write("dump.json", json!({"handleRecords": records}).to_string());
    assert_eq!(dump.import(&[&file], 0), summary(20_000, 0, 0, 0, 0, 0));
    assert!(dump.ok(&["export"]) == exported);

    // A batch has no timestamps.
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
    let place = Place::new();
    let file = place.write("create.txt", batch);
    assert_eq!(place.import(&[&file], 0), summary(20_000, 0, 0, 0, 0, 0));
    assert_eq!(place.export(), untimed);

    // Nor has a table, and it has only addresses.
    let table = dump.ok(&["export", "--format", "csv"]);
    assert!(table.starts_with(b"10.5000/Rec-0,\"https://example.org/articles/0?a=\"\"b\"\",c\"\r\n"));
    let place = Place::new();
    let file = place.write("table.csv", [b"name,url\n", &table[..]].concat());
    assert_eq!(place.import(&[&file], 0), summary(20_000, 0, 0, 0, 0, 0));
    assert!(place.ok(&["export", "--format", "csv"]) == table);
    for record in untimed.values_mut() {
        record["values"].as_array_mut().unwrap().truncate(1);
    }
    assert_eq!(place.export(), untimed);
}

/// More than fit into memory at once, read by several threads; `cargo xtask bench-store` does it with ten million.
#[test]
fn a_hundred_thousand_records_come_back() {
    let place = Place::new();
    let mut records: Vec<String> = (0..100_000_u64)
        .map(|number| {
            let mixed = number.wrapping_mul(2_654_435_761) % 100_000;
            format!(
                r#"{{"handle":"10.{}/Rec-{mixed:06}","values":[{{"index":1,"type":"URL","data":{{"format":"string","value":"https://example.org/{}{mixed}"}},"ttl":86400,"timestamp":"2024-01-02T03:04:05Z"}}]}}"#,
                5_000 + mixed % 50,
                "articles/".repeat(20),
            )
        })
        .collect();
    let file = place.write("records.jsonl", records.join("\n"));
    assert_eq!(place.import(&[&file], 0), summary(100_000, 0, 0, 0, 0, 0));
    let exported = String::from_utf8(place.ok(&["export"])).unwrap();
    records.sort_unstable();
    // The names have the same letters in the same places, so that lines sort as keys do.
    assert!(exported.lines().eq(records), "other lines came back");
}

/// What is refused is told by line and in order, and the last of equal names counts, in the spelling of the first, however
/// far they are from each other and whatever stands between them.
#[test]
fn order_is_kept() {
    let place = Place::new();
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
    let output = place.run_with(&["import", "--json"], lines.join("\n").as_bytes());
    let told = stderr(&output);
    let refused: Vec<&str> = told.lines().filter_map(|line| line.strip_prefix("refused: ")).collect();
    assert_eq!(refused.len(), 31, "{told}");
    let mut expected: Vec<u64> = (1..=30).map(|thousand| thousand * 1_000).collect();
    expected.insert(14, 14_502);
    for (line, refused) in expected.iter().zip(&refused) {
        assert!(refused.starts_with(&format!("standard input, line {line}: ")), "{refused}");
    }
    let exported = place.export();
    assert_eq!(exported.len(), 999 + 1);
    assert_eq!(exported["10.1000/a-7"]["values"][0]["data"]["value"], "29007");
    assert_eq!(exported["10.1000/a-502"]["values"][0]["data"]["value"], "29502");
}

#[test]
fn lines_are_refused_and_the_others_go_in() {
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
    let place = Place::new();
    let output = place.run_with(&["import", "--json"], lines.join("\n").as_bytes());
    assert_eq!(output.status.code(), Some(1));
    let told = stderr(&output);
    for expected in [
        "refused: standard input, line 3: EOF while parsing a value at line 1 column 10\n",
        "refused: standard input, line 4: `10.1000`: the handle has no `/` between prefix and suffix\n",
        "refused: standard input, line 5: `10.1000/2`: two values have the index 1\n",
        "refused: standard input, line 6: `10.1000/3`: a value has the index 0\n",
        "refused: standard input, line 7: `10.1000/4`: the URL at 1 has the character 0x0d\n",
        "refused: standard input, line 8: `10.1000/5`: value 1 has 1048577 bytes, at most 1048576 are kept\n",
        "warning: standard input, line 9: `10.1000/6`: the URL at 1 would run in a browser",
        "2 new, 0 changed, 0 unchanged, 6 refused, 1 came twice; ",
    ] {
        assert!(told.contains(expected), "{expected} is not in {told}");
    }
    assert_eq!(place.export().len(), 2);

    // Many are counted.
    let output = place.run_with(&["import"], "no JSON\n".repeat(150).as_bytes());
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("refused: 50 more\n"));
    assert_eq!(stderr(&output).lines().count(), 102);
}

/// What the registry keeps of its own is no record, and what is only reserved is for nobody yet: neither goes in or out.
#[test]
fn the_registrys_own_stays() {
    let place = Place::new();
    let lines = ["10.1000/1", "0.TENDOT/agency/A", "0.tendot/token/t"]
        .map(|name| json!({"handle": name, "values": []}).to_string());
    let output = place.run_with(&["import"], lines.join("\n").as_bytes());
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        stderr(&output).matches("nothing under `0.TENDOT` is a record").count(),
        2,
        "{}",
        stderr(&output)
    );
    let dump = r#"{"homedPrefixes": ["0.NA/10.1000", "0.NA/0.TENDOT"], "handleRecords": []}"#;
    let dump = place.write("dump.json", dump);
    assert_eq!(place.import(&["--format", "handle-net", &dump], 1)["refused"], 1);

    let store = Embedded::open(&place.path("data")).unwrap();
    let register = |name: &str, registration: &str| Edit::Register {
        name: name.into(),
        values: Vec::new(),
        registration: registration.as_bytes().into(),
        expect: Expect::Absent,
    };
    let edits = vec![
        register("0.TENDOT/agency/A", "{}"),
        register("10.1000/reserved", r#"{"state":"reserved","created":0,"updated":0}"#),
        register("10.1000/registered", r#"{"state":"registered","created":0,"updated":0}"#),
    ];
    let commit = store.commit(Change { by: "test".into(), at: 0, edits });
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(commit).unwrap();
    drop(store);
    let exported: Vec<String> = place.export().into_keys().collect();
    assert_eq!(exported, ["10.1000/1", "10.1000/registered"]);
}

#[test]
fn other_formats_refuse_by_line() {
    let place = Place::new();
    let batch = "CREATE 10.1000/1\n1 URL 86400 1110 UTF8 https://a/\n2 X 1 1110 FILE /etc/passwd\n\n\
                 DELETE 10.1000/2\n\nCREATE 10.1000/3\n1 URL 86400 1110 UTF8 https://a/\n\n\
                 HOME 127.0.0.1:2641:TCP\n0.NA/10.7\n";
    let file = place.write("batch.txt", batch);
    let output = place.run(&["import", &file]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("line 3: data in another FILE is not taken\n"), "{}", stderr(&output));
    assert!(stderr(&output).contains("line 5: an import takes CREATE and HOME, not DELETE\n"));
    assert_eq!(place.export().into_keys().collect::<Vec<_>>(), ["10.1000/3"]);

    let file = place.write("table.csv", "10.1000/7,https://a/\n10.1000/8\n\"10.1000/9\",\"https://b/\"\n");
    let output = place.run(&["import", &file]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("line 2: the row has 1 fields, name and url are two\n"));

    let dump = "{\"homedPrefixes\":[],\n\"handleRecords\":[\n{\"handle\":\"10.1000/10\",\"values\":[]},\n{\"handle\":1}\n]}";
    let file = place.write("dump.json", dump);
    let output = place.run(&["import", &file]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("line 4: handle: must be"), "{}", stderr(&output));
    assert_eq!(place.export().len(), 4);
    // A document that is cut off is none: nothing of it goes in.
    let file = place.write("dump.json", &dump.replace("10/10", "10/11")[..70]);
    let output = place.run(&["import", &file]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert_eq!(place.export().len(), 4);
}

#[test]
fn what_cannot_be_carried_out() {
    let place = Place::new();
    let check = |arguments: &[&str], expected: &str| {
        let output = place.run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&output).contains(expected), "{arguments:?}: {}", stderr(&output));
        assert!(output.stdout.is_empty());
    };
    for command in ["export", "verify"] {
        check(&[command], "error: there is no store in ");
    }
    check(&["backup", "file"], "error: there is no store in ");
    let good = place.write("good.jsonl", "{\"handle\":\"10.1000/1\",\"values\":[]}");
    let missing = place.path("missing.jsonl");
    check(&["import", &good, missing.to_str().unwrap()], "missing.jsonl` can't be read");
    assert!(!place.path("data").exists(), "nothing was imported");
    let summary_of_none = place.import(&["--dry-run", &good], 0);
    assert_eq!(summary_of_none, summary(0, 0, 0, 0, 0, 0));
    assert!(!place.path("data").exists(), "nothing was written");

    place.import(&["--no-home", &good], 0);
    let holder = Embedded::open(&place.path("data")).unwrap();
    check(&["import", &good], "\nhint: stop the server first");
    check(&["restore", "--force", &good], "this is no backup");
    place.ok(&["export"]);
    place.ok(&["verify"]);
    let backup = place.path("backup");
    place.ok(&["backup", backup.to_str().unwrap()]);
    check(&["restore", "--force", backup.to_str().unwrap()], "\nhint: stop the server first");
    drop(holder);

    for url in ["postgres:///x", "memory:", "ftp:x"] {
        let output =
            Command::new(env!("CARGO_BIN_EXE_tendot")).args(["export", "--store", url]).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains("hint: "), "{}", stderr(&output));
    }
    let embedded = format!("embedded:{}", place.path("data").display());
    let output = Command::new(env!("CARGO_BIN_EXE_tendot")).args(["export", "--store", &embedded]).output();
    assert!(output.unwrap().stdout.starts_with(b"{\"handle\":\"10.1000/1\""));

    fs::write(place.path("data").join("data.mdb"), b"something else".repeat(10_000)).unwrap();
    check(&["verify"], "can't be opened");
    check(&["export"], "can't be opened");
}

/// A process imports all the time, and others read what there is.
#[test]
fn reading_beside_a_writer() {
    let place = Place::new();
    let records = generated(20_000);
    let first = place.write("first.jsonl", lines(&records[..1_000]));
    place.import(&[&first], 0);
    let all = place.write("all.jsonl", lines(&records));
    let mut writer = place.command(&["import", &all]).stderr(Stdio::null()).spawn().unwrap();
    let mut rounds = 0;
    while rounds < 3 || writer.try_wait().unwrap().is_none() {
        let count = place.export().len();
        assert!((1_000..=20_000).contains(&count), "{count}");
        place.ok(&["verify"]);
        let backup = place.path("backup");
        place.ok(&["backup", backup.to_str().unwrap()]);
        rounds += 1;
    }
    assert!(writer.wait().unwrap().success());
    assert_eq!(place.export().len(), 20_000);
}

#[test]
fn backups_are_restored() {
    let place = Place::new();
    let file = place.write("records.jsonl", lines(&generated(2_000)));
    place.import(&[&file], 0);
    let exported = place.ok(&["export"]);
    let backup = place.path("backup");
    let backup = backup.to_str().unwrap();
    let told: Json = serde_json::from_slice(&place.ok(&["backup", "--json", backup])).unwrap();
    assert_eq!(told["bytes"], json!(fs::metadata(backup).unwrap().len()));

    // Secrets are in it, and in what is made of it.
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(Path::new(backup)), 0o600);

    let refused = place.run(&["restore", backup]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("hint: `--force` moves it aside"), "{}", stderr(&refused));
    let more = place.write("more.jsonl", "{\"handle\":\"10.1000/more\",\"values\":[]}");
    place.import(&[&more], 0);
    let told: Json = serde_json::from_slice(&place.ok(&["restore", "--force", "--json", backup])).unwrap();
    assert!(place.ok(&["export"]) == exported);
    place.ok(&["verify"]);
    assert_eq!(mode(&place.path("data/data.mdb")), 0o600);
    // What was there is still there, and the restored store can be written.
    let aside = Embedded::open_read_only(Path::new(told["moved_to"].as_str().unwrap())).unwrap();
    assert_eq!(aside.count().unwrap(), 2_001);
    assert_eq!(place.import(&[&more], 0)["created"], json!(1));

    let elsewhere = Place::new();
    elsewhere.ok(&["restore", backup]);
    assert!(elsewhere.ok(&["export"]) == exported);

    // A damaged backup replaces nothing.
    let good = fs::read(backup).unwrap();
    for (damaged, reason) in [
        (good[..good.len() - 1].to_vec(), "bytes, and has"),
        ([&good[..], b"x"].concat(), "bytes, and has"),
        (
            good.iter().enumerate().map(|(at, byte)| if at == 9_999 { byte ^ 1 } else { *byte }).collect(),
            "checksum",
        ),
        (b"tendot backup 2\n".to_vec(), "this is no backup"),
        (Vec::new(), "this is no backup"),
    ] {
        let damaged = elsewhere.write("damaged", damaged);
        let output = elsewhere.run(&["restore", "--force", &damaged]);
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains(reason), "{}", stderr(&output));
        assert!(elsewhere.ok(&["export"]) == exported);
    }
}

#[test]
fn damage_is_told() {
    let place = Place::new();
    let file = place.write("records.jsonl", lines(&generated(200)));
    place.import(&[&file], 0);
    let verified: Json = serde_json::from_slice(&place.ok(&["verify", "--json"])).unwrap();
    assert_eq!(
        (&verified["records"], &verified["prefixes"], &verified["damaged"]),
        (&json!(200), &json!(50), &json!(0))
    );
    let path = place.path("data/data.mdb");
    let mut bytes = fs::read(&path).unwrap();
    let name = b"10.5007/REC-7";
    let places: Vec<usize> =
        bytes.windows(name.len()).enumerate().filter(|(_, at)| at == name).map(|(at, _)| at).collect();
    for place in places {
        bytes[place + name.len() + 4] ^= 1;
    }
    fs::write(&path, bytes).unwrap();
    let output = place.run(&["verify"]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(told.contains("record `10.5007/REC-7"), "{told}");
    let output = place.run(&["verify", "--json"]);
    let last = output.stdout.trim_ascii().rsplit(|byte| *byte == b'\n').next().unwrap().to_vec();
    let last: Json = serde_json::from_slice(&last).unwrap();
    assert_eq!(last["damaged"], json!(told.lines().count()));
    let output = place.run(&["export", place.path("out").to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("hint: `tendot verify`"), "{}", stderr(&output));
    assert!(!place.path("out").exists());
}

/// Wherever a bit is flipped and wherever the file is cut off: what is said to be right is right.
#[test]
fn damage_anywhere_is_told() {
    let place = Place::new();
    let file = place.write("records.jsonl", lines(&generated(300)));
    place.import(&[&file], 0);
    let exported = place.ok(&["export"]);
    let path = place.path("data/data.mdb");
    let good = fs::read(&path).unwrap();
    let (mut right, mut damaged) = (0, 0);
    for round in 0..60_usize {
        let mut bytes = good.clone();
        // Spread over the pages, every other one in the header of a page, where the engine is hurt most.
        let at = round * 2_654_435_761 % bytes.len();
        match round {
            0..5 => bytes.truncate(at),
            _ if round % 2 == 0 => bytes[at / 4_096 * 4_096 + at % 32] ^= 1 << (round % 8),
            _ => bytes[at] ^= 1 << (round % 8),
        }
        let _ = fs::remove_file(place.path("data/lock.mdb"));
        fs::write(&path, bytes).unwrap();
        let output = place.run(&["verify"]);
        match output.status.code() {
            Some(0) => {
                right += 1;
                assert!(place.ok(&["export"]) == exported, "round {round}");
            }
            Some(1) => {
                damaged += 1;
                assert!(!output.stdout.is_empty(), "round {round}");
            }
            code => assert_eq!(code, Some(2), "round {round}: {}", stderr(&output)),
        }
    }
    assert!(right > 0 && damaged > 0, "{right} right, {damaged} damaged");
}

#[test]
fn help_has_examples() {
    for command in ["import", "export", "backup", "restore", "verify"] {
        let help = Command::new(env!("CARGO_BIN_EXE_tendot")).args([command, "--help"]).output().unwrap();
        let help = String::from_utf8(help.stdout).unwrap();
        assert!(
            help.contains(&format!("Examples:\n  tendot {command}")) && help.contains("Exit codes: 0"),
            "{help}"
        );
    }
}

#[test]
fn a_store_is_not_written_over() {
    let place = Place::new();
    let records = place.write("one.csv", "10.1000/1,https://example.org/\n");
    place.import(&[&records], 0);
    fs::create_dir(place.path("other")).unwrap();
    std::os::unix::fs::symlink(place.path("data/data.mdb"), place.path("link")).unwrap();
    for command in ["backup", "export"] {
        for target in ["data/data.mdb", "data/lock.mdb", "other/../data/tendot.lock", "link"] {
            let output = place.run(&[command, place.path(target).to_str().unwrap()]);
            assert_eq!(output.status.code(), Some(2), "{command} {target}");
            assert!(stderr(&output).contains("is a file of the store itself"), "{}", stderr(&output));
        }
        place.ok(&[command, place.path("data/a-copy").to_str().unwrap()]);
    }
    assert_eq!(place.run(&["backup", "-"]).status.code(), Some(2));
    assert_eq!(place.export().len(), 1);
}

#[test]
fn damage_that_keeps_a_store_shut_is_damage() {
    let place = Place::new();
    let records = place.write("one.csv", "10.1000/1,https://example.org/\n");
    place.import(&[&records], 0);
    let file = place.path("data/data.mdb");
    let bytes = fs::read(&file).unwrap();
    fs::write(&file, &bytes[..3 * 4_096]).unwrap();
    let output = place.run(&["verify", "--json"]);
    let lines = String::from_utf8(output.stdout.clone()).unwrap();
    assert_eq!((output.status.code(), lines.contains("cut off")), (Some(1), true), "{lines}");
}

#[test]
fn backups_of_other_versions() {
    let place = Place::new();
    let newer = place.write("newer", "tendot backup 2\nwhatever comes then");
    let output = place.run(&["restore", &newer]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("hint: a newer version of tendot made it"), "{}", stderr(&output));
    let other = place.write("other", "something else altogether");
    assert!(stderr(&place.run(&["restore", &other])).contains("this is no backup"));
}
